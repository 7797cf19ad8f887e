/**
 * Deploys a stack of this project to an emulator with the CDK CLI, as `cdk bootstrap` and `cdk deploy` do by hand.
 *
 * Never to AWS: the endpoint is an argument, the credentials are made up, and nothing of the caller's AWS settings
 * reaches the CLI.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Finished, lastLine, runCommand } from '../lib/testing/command.ts';
import { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from '../lib/testing/environment.ts';
import { newLogFile } from '../lib/testing/log-files.ts';

export interface DeployOptions {
  /** Of the emulator, such as `http://127.0.0.1:40123`. */
  readonly endpoint: string;
  /** A module that exports `addStack`, relative to the project; see `cdk/app.ts`. Default: the example. */
  readonly stack?: string | undefined;
  /** Holds logs and what the CLI makes. Default: `.fairlead` in the working directory. */
  readonly dataDir?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Bootstraps the endpoint beside the synthesis, by what it is given; whoever deploys several stacks at once bootstraps once. Default: that. */
  readonly bootstrap?: ((bootstrapNow: () => Promise<void>) => Promise<void>) | undefined;
}

export interface Deployment {
  /** The stack's outputs by name. */
  readonly outputs: Readonly<Record<string, string>>;
  readonly logFile: string;
  /** `cdk destroy`: removes the stack from the endpoint. */
  readonly destroy: () => Promise<void>;
}

/** The stack could not be deployed. The message says why, and where the whole log is. */
export class DeployError extends Error {
  override readonly name = 'DeployError';
}

const project = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const bin = join(project, 'node_modules/.bin');

/** The caller's environment without its AWS and CDK settings, and with nothing that would go to the internet. */
function cliEnvironment(endpoint: string, dataDir: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(AWS|CDK|NODE_OPTIONS$|VITEST)/.test(name));
  return {
    ...Object.fromEntries(kept),
    ...emulatorEnvironment(endpoint),
    PATH: [dirname(process.execPath), bin, process.env.PATH ?? ''].join(delimiter),
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
    // Its cache; else it would be kept in the home folder.
    CDK_HOME: join(dataDir, 'cdk'),
    CDK_DISABLE_CLI_TELEMETRY: 'true',
    CDK_DISABLE_VERSION_CHECK: 'true',
    // Its engine takes seconds to start, each time, and turns nothing down: what it finds are warnings, which `cdk synth` shows.
    CDK_VALIDATION: 'false',
    NO_COLOR: '1',
  };
}

const QUIET = ['--ci', '--no-color', '--no-notices', '--no-version-reporting'];

/** The line of the CLI's output that says what went wrong. */
function reasonIn(output: string): string {
  const lines = output.split('\n').map((line) => line.trim());
  const failure =
    lines.find((line) => /❌|\b(CREATE|UPDATE|ROLLBACK)_FAILED\b/.test(line)) ??
    lines.find((line) => /^\w*Error:|\berror\b/i.test(line));
  return (failure ?? lastLine(output)).replace(/^❌\s*/, '').slice(0, 300);
}

/**
 * Bootstraps the endpoint, unless it was, and deploys.
 *
 * @throws DeployError
 */
export async function deploy(options: DeployOptions): Promise<Deployment> {
  const { endpoint, signal, stack, bootstrap = (bootstrapNow) => bootstrapNow() } = options;
  const dataDir = resolve(options.dataDir ?? '.fairlead');
  const logFile = await newLogFile(dataDir, 'cdk');
  const work = await mkdtemp(join(dataDir, 'deploy-'));
  const env = cliEnvironment(endpoint, dataDir);
  const written: string[] = [];

  const cdk = async (what: string, given: readonly string[], ends = signal): Promise<Finished> => {
    const how = { env, cwd: project, signal: ends };
    const finished = await runCommand(join(bin, 'cdk'), [...given, ...QUIET], how);
    written.push(`$ cdk ${given.join(' ')}\n${finished.output}`);
    if (finished.code !== 0) {
      await writeFile(logFile, written.join('\n'));
      throw new DeployError(`${what} failed: ${reasonIn(finished.output)} (all of it: ${logFile})`);
    }
    return finished;
  };
  const context = ['-c', 'platform=host', ...(stack === undefined ? [] : ['-c', `stack=${stack}`])];
  const assembly = join(work, 'cdk.out');
  const environmentUrl = `aws://${EMULATOR_ACCOUNT}/${EMULATOR_REGION}`;
  // By relative names: the CLI splits a command at spaces, and the project may lie below one.
  const app = ['--app', 'node cdk/app.ts'];

  try {
    await inParallel(signal, (ends) => [
      cdk('cdk synth', ['synth', '--quiet', ...app, ...context, '--output', assembly], ends),
      bootstrap(async () => {
        // Without an app: the CLI would synthesise one only to see that the environment is named.
        // An assembly of its own, though it makes none: the CLI locks the folder all the same.
        const own = ['--app', '', '--output', join(work, 'bootstrap.out')];
        await cdk('cdk bootstrap', ['bootstrap', environmentUrl, ...own], ends);
      }),
    ]);
    const outputsFile = join(work, 'outputs.json');
    const how = ['--require-approval', 'never', '--method', 'direct', '--outputs-file', outputsFile];
    await cdk('cdk deploy', ['deploy', '--all', '--app', assembly, ...how]);
    const outputs = JSON.parse(await readFile(outputsFile, 'utf8')) as Record<string, Record<string, string>>;
    await writeFile(logFile, written.join('\n'));
    const destroy = async (): Promise<void> => {
      await mkdir(work, { recursive: true });
      try {
        await cdk('cdk destroy', ['destroy', '--all', '--force', ...app, ...context, '--output', assembly]);
      } finally {
        await rm(work, { recursive: true, force: true });
      }
    };
    return { outputs: Object.assign({}, ...Object.values(outputs)), logFile, destroy };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Where one fails, the others are ended: why it failed is said at once. All have ended when this does. */
async function inParallel(
  signal: AbortSignal | undefined,
  begin: (ends: AbortSignal) => readonly Promise<unknown>[],
): Promise<void> {
  const failed = new AbortController();
  const tasks = begin(signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]));
  const first = Promise.all(tasks);
  first.catch((error: unknown) => failed.abort(error));
  await Promise.allSettled(tasks);
  await first;
}
