/** The command `dev`: the development server at a terminal. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { textOf } from '../core/errors.ts';
import { numberOf, UsageError } from './usage.ts';

interface DevFlags {
  readonly port: string;
  readonly speed: string;
  readonly keep?: string;
  readonly emulator?: boolean;
}

const PORT = '4310';
const SPEED_MAX = 10_000;

export function addDev(
  program: Command,
  {
    out,
    columns,
    signal,
    actor,
  }: {
    readonly out: (text: string) => void;
    /** The width in columns; undefined if it is not known. */
    readonly columns?: number | undefined;
    readonly signal?: AbortSignal | undefined;
    /** The name of the user. */
    readonly actor: () => string;
  },
): void {
  program
    .command('dev')
    .description('Run a scheduler on this machine for the handlers of a module, without AWS.')
    .argument(
      '[module]',
      'exports worker(jobs, handlers); fairlead.config.ts beside package.json has the declaration',
    )
    .option('--port <port>', 'the port of FAIRLEAD_URL; 0 takes a free one', PORT)
    .option('--speed <factor>', 'let time pass so many times as fast', '1')
    .option('--keep <dir>', 'keep everything there across restarts, for one server at a time')
    .addOption(
      new Option(
        '--emulator',
        "deploy the CDK app of this folder to an emulator instead, and show its functions' logs; needs Python 3.10 or later and aws-cdk",
      ).conflicts(['keep']),
    )
    .addHelpText(
      'after',
      '\nKeys: s submits a sample, k kills a worker, p pauses and resumes, e explains the oldest job that waits, q quits.',
    )
    .action(async (module: string | undefined, flags: DevFlags) => {
      if (flags.emulator === true) {
        if (module !== undefined) throw new UsageError(`--emulator: deploys cdk.json's app, not ${module}`);
        await onEmulator((line) => out(`${line}\n`), signal);
        return;
      }
      const speed = within('--speed', flags.speed, SPEED_MAX);
      const port = within('--port', flags.port, 65_535);
      if (!Number.isInteger(port)) throw new UsageError(`--port: must be a whole number, not ${flags.port}`);
      if (speed === 0) throw new UsageError('--speed: must be above 0');
      // The server is imported here because it loads the whole scheduler, which other commands do not need.
      const { DevServer } = await import('../dev/server.ts');
      const write = (line: string): void => out(`${line}\n`);
      // A handler may forget a promise or a timer. A server of a saved file goes on until the next one.
      process.on('uncaughtException', (error) => write(`! outside an attempt: ${textOf(error)}`));
      try {
        const server = await DevServer.start({
          module,
          cwd: process.cwd(),
          port,
          speed,
          keep: flags.keep,
          dashboardPort: port === 0 ? 0 : Math.min(port + 1, 65_535),
          actor: actor(),
          write,
          columns: () => process.stdout.columns ?? columns ?? 120,
        });
        await untilQuit(server, signal);
        await server.close();
      } finally {
        // The user's module may hold something open. An error of the command is printed before.
        setImmediate(() => process.exit());
      }
    });
}

/** Runs until Ctrl-C, or until the process is told to end. */
async function onEmulator(write: (line: string) => void, signal: AbortSignal | undefined): Promise<void> {
  const { runOnEmulator } = await import('../dev/emulator.ts');
  const quit = new AbortController();
  signal?.addEventListener('abort', () => quit.abort(), { once: true });
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => quit.abort());
  try {
    const cwd = process.cwd();
    const dataDir = resolve(process.env.FAIRLEAD_DATA ?? '.fairlead');
    await runOnEmulator({ cwd, dataDir, write, signal: quit.signal });
  } catch (error) {
    if (!quit.signal.aborted) throw error;
  }
}

function within(option: string, text: string, most: number): number {
  const value = numberOf(option, text);
  if (value >= 0 && value <= most) return value;
  throw new UsageError(`${option}: must be 0 to ${most}, not ${text}`);
}

/** Resolves at the key `q`, at Ctrl-C, or when the process is told to end. */
async function untilQuit(
  server: { readonly press: (key: string) => Promise<boolean> },
  signal: AbortSignal | undefined,
): Promise<void> {
  const { stdin } = process;
  await new Promise<void>((quit) => {
    signal?.addEventListener('abort', () => quit(), { once: true });
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => quit());
    if (!stdin.isTTY) return;
    stdin.setRawMode(true);
    stdin.on('data', (keys: Buffer) => {
      for (const key of keys.toString()) void server.press(key).then((goesOn) => goesOn || quit());
    });
  });
  if (stdin.isTTY) stdin.setRawMode(false);
  stdin.pause();
}
