/** Runs commands in process groups of their own, so that everything they start ends with them. */
import { type ChildProcess, spawn } from 'node:child_process';

export interface CommandOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string | undefined;
  /** Whether the command ends when its standard input is closed, and then ends everything it started. */
  readonly endsWithInput?: boolean | undefined;
  /** Ends the command and everything that it started. */
  readonly signal?: AbortSignal | undefined;
}

export interface Finished {
  /** The exit code; null if the command was killed or could not be started. */
  readonly code: number | null;
  /** Its standard output and standard error, mixed as they arrived. */
  readonly output: string;
}

/** Kills a process group. The group may have ended already. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended.
  }
}

/** Resolves when a process has ended and closed its streams, with its exit code; null if it has none. */
export const closed = (child: ChildProcess): Promise<number | null> =>
  new Promise((done) => {
    child.once('error', () => done(null));
    child.once('close', (code) => done(code));
  });

/** Returns the last line that is not blank. */
export const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.trim() ?? '';

/**
 * Runs a command to its end.
 *
 * @throws the signal's reason if it is aborted
 */
export async function runCommand(
  command: string,
  given: readonly string[],
  options: CommandOptions,
): Promise<Finished> {
  const { env, cwd, endsWithInput = false, signal } = options;
  signal?.throwIfAborted();
  const child = spawn(command, given, {
    env,
    detached: true,
    stdio: 'pipe',
    ...(cwd === undefined ? {} : { cwd }),
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  child.stdin.on('error', () => {});
  const kill = (): void => {
    if (endsWithInput) child.stdin.destroy();
    else killGroup(child.pid);
  };
  if (!endsWithInput) child.stdin.end();
  signal?.addEventListener('abort', kill);
  process.once('exit', kill);
  try {
    const code = await closed(child);
    signal?.throwIfAborted();
    return { code, output };
  } finally {
    signal?.removeEventListener('abort', kill);
    process.removeListener('exit', kill);
  }
}
