/** The parts that the story and the file example share: they start an emulator, or reach one, and deploy a stack to it. */
import { EnvironmentError } from '../lib/core/errors.ts';
import type { DeployedApp } from '../lib/testing/deploy.ts';
import { type Emulator, startEmulator } from '../lib/testing/emulator.ts';
import { deploy } from './deploy.ts';
import { answers } from './endpoint.ts';
import type { StartOptions } from './options.ts';
import type { Progress } from './progress.ts';

/** Everything that was started and is to be stopped, in the reverse order. */
type Cleanup = (() => Promise<void> | void)[];

export interface Run {
  readonly options: StartOptions;
  /** Holds what is installed, logs and temporary files. */
  readonly dataDir: string;
  readonly progress: Progress;
  readonly controller: AbortController;
  readonly cleanup: Cleanup;
  /** Once it was started here. */
  emulator?: Emulator;
}

export interface Endpoint {
  readonly endpoint: string;
  /** Leaves it running; says how it is stopped. */
  readonly keep: () => string;
}

export async function reachEndpoint(run: Run): Promise<Endpoint> {
  const { options, dataDir, progress, controller, cleanup } = run;
  const { signal } = controller;
  if (options.endpoint !== undefined) {
    if (!(await answers(options.endpoint))) {
      throw new EnvironmentError(
        `nothing answers at AWS_ENDPOINT_URL=${options.endpoint}: start it, or unset the variable to have one started`,
      );
    }
    return {
      endpoint: options.endpoint,
      keep: () => 'npx cdk destroy --all --force, with these variables set',
    };
  }
  progress.say('starting the emulator');
  const emulator = await startEmulator({ dataDir, log: progress.say, signal });
  run.emulator = emulator;
  emulator.exited.then(({ expected, reason }) => {
    if (!expected) controller.abort(new EnvironmentError(`${reason}. Run it again`));
  });
  let kept = false;
  cleanup.push(() => (kept ? undefined : emulator.stop()));
  return {
    endpoint: emulator.endpoint,
    keep: () => {
      kept = true;
      emulator.release();
      return `kill ${emulator.pid}`;
    },
  };
}

/** @param stack - the module of the stack, relative to the project */
export async function deployStack(run: Run, endpoint: string, stack: string): Promise<DeployedApp> {
  const { options, dataDir, progress, controller, cleanup } = run;
  progress.say(`deploying the stack to ${endpoint}`);
  const deployment = await deploy({ endpoint, stack, dataDir, signal: controller.signal });
  // A stack ends with an emulator of ours.
  if (options.endpoint !== undefined && !options.keep) {
    cleanup.push(async () => {
      if (controller.signal.aborted) {
        progress.say(`the stack was left at ${endpoint}; the next run removes it`);
        return;
      }
      progress.say('removing the stack');
      await deployment.destroy().catch((error: unknown) => progress.say(String(error)));
    });
  }
  return deployment;
}

/** An output of the stack that must be there. */
export function outputOf(outputs: Readonly<Record<string, string>>, name: string): string {
  const value = outputs[name];
  if (value === undefined)
    throw new EnvironmentError(`the stack has no output ${name}; it has: ${Object.keys(outputs).join(', ')}`);
  return value;
}
