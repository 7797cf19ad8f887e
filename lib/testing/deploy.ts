/**
 * Deploys a CDK app to an emulator with the CDK CLI of the app's project, as `cdk bootstrap` and `cdk deploy` do by hand.
 *
 * Never to AWS: the endpoint is an argument, the credentials are made up, and nothing of the caller's AWS settings
 * reaches the CLI.
 */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { EnvironmentError } from '../core/errors.ts';
import { type Finished, lastLine, runCommand } from './command.ts';
import { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from './environment.ts';
import { newLogFile } from './log-files.ts';

export interface DeployOptions {
  /** Of the emulator, such as `http://127.0.0.1:40123`. */
  readonly endpoint: string;
  /** The folder with the app's `cdk.json`. */
  readonly cwd: string;
  /** Values of the app's context. @default - none besides those of `cdk.json` */
  readonly context?: Readonly<Record<string, string>> | undefined;
  /** Holds logs and what the CLI makes. Default: `.fairlead` in the working directory. */
  readonly dataDir?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Bootstraps the endpoint beside the synthesis, by calling what it is given. Callers that deploy several stacks at once bootstrap once. Default: that. */
  readonly bootstrap?: ((bootstrapNow: () => Promise<void>) => Promise<void>) | undefined;
}

export interface DeployedApp {
  /** The stack's outputs by name. */
  readonly outputs: Readonly<Record<string, string>>;
  readonly logFile: string;
  /** `cdk destroy`: removes the stack from the endpoint. */
  readonly destroy: () => Promise<void>;
}

/** The folder with the commands of the project's packages, in this folder or one above it. */
function commandsOf(cwd: string): string {
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const commands = join(folder, 'node_modules/.bin');
    if (existsSync(join(commands, 'cdk'))) return commands;
    if (folder === dirname(folder))
      throw new EnvironmentError(`${cwd} has no CDK CLI. Install it: npm install --save-dev aws-cdk`);
  }
}

/** The caller's environment without its AWS and CDK settings, and with nothing that would go to the internet. */
function cliEnvironment(endpoint: string, dataDir: string, bin: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(AWS|CDK|NODE_OPTIONS$|VITEST)/.test(name));
  return {
    ...Object.fromEntries(kept),
    ...emulatorEnvironment(endpoint),
    PATH: [dirname(process.execPath), bin, process.env.PATH ?? ''].join(delimiter),
    AWS_CONFIG_FILE: '/dev/null',
    AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
    AWS_EC2_METADATA_DISABLED: 'true',
    // The CDK's cache, which would otherwise be in the home folder.
    CDK_HOME: join(dataDir, 'cdk'),
    CDK_DISABLE_CLI_TELEMETRY: 'true',
    CDK_DISABLE_VERSION_CHECK: 'true',
    // The CDK's validation takes seconds in each run and refuses nothing: it finds warnings, which `cdk synth` shows.
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
 * @throws EnvironmentError - the CLI is missing, or failed; the message says why, and where the whole log is
 */
export async function deployApp(options: DeployOptions): Promise<DeployedApp> {
  const { endpoint, cwd, signal, bootstrap = (bootstrapNow) => bootstrapNow() } = options;
  const bin = commandsOf(cwd);
  const dataDir = resolve(options.dataDir ?? '.fairlead');
  const logFile = await newLogFile(dataDir, 'cdk');
  const work = await mkdtemp(join(dataDir, 'deploy-'));
  const env = cliEnvironment(endpoint, dataDir, bin);
  const written: string[] = [];

  const cdk = async (what: string, given: readonly string[], ends = signal): Promise<Finished> => {
    const how = { env, cwd, signal: ends };
    const finished = await runCommand(join(bin, 'cdk'), [...given, ...QUIET], how);
    written.push(`$ cdk ${given.join(' ')}\n${finished.output}`);
    if (finished.code !== 0) {
      await writeFile(logFile, written.join('\n'));
      throw new EnvironmentError(`${what} failed: ${reasonIn(finished.output)} (all of it: ${logFile})`);
    }
    return finished;
  };
  const context = Object.entries(options.context ?? {}).flatMap(([name, value]) => [
    '-c',
    `${name}=${value}`,
  ]);
  const assembly = join(work, 'cdk.out');
  const environmentUrl = `aws://${EMULATOR_ACCOUNT}/${EMULATOR_REGION}`;

  try {
    await inParallel(signal, (ends) => [
      cdk('cdk synth', ['synth', '--quiet', ...context, '--output', assembly], ends),
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
        await cdk('cdk destroy', ['destroy', '--all', '--force', ...context, '--output', assembly]);
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
