/** Commands that run in a process group of their own, so that all they start ends with them. */
import { type ChildProcess, spawn } from 'node:child_process';

export interface CommandOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string | undefined;
  /** True: the command is one that ends when its standard input is closed, and sees to what it has started. */
  readonly endsWithInput?: boolean | undefined;
  /** Ends the command, with all that it started. */
  readonly signal?: AbortSignal | undefined;
}

export interface Finished {
  /** Null: killed, or it could not be started. */
  readonly code: number | null;
  /** What it wrote, both streams as they came. */
  readonly output: string;
}

/** Ends a process group at once. It may be gone already. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** When a process has ended and closed its streams: its exit code, or null if there is none. */
export const closed = (child: ChildProcess): Promise<number | null> =>
  new Promise((done) => {
    child.once('error', () => done(null));
    child.once('close', (code) => done(code));
  });

/** The last line that says something. */
export const lastLine = (text: string): string => text.trim().split('\n').at(-1)?.trim() ?? '';

/**
 * Runs a command to its end.
 *
 * @throws the signal's reason once it was aborted
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
