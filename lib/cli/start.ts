/** The command line as a process: its arguments, output streams and signals. */
import { connect, connectDispatcher } from './connect.ts';
import { EXIT } from './describe-error.ts';
import { runProgram } from './program.ts';

let hasReported = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader that closes the pipe, such as `head`, is no failure.
  if (error.code === 'EPIPE') return;
  process.exitCode = EXIT.failed;
  if (hasReported) return;
  hasReported = true;
  process.stderr.write(
    `fairlead: the output could not be written (${error.message}); print it somewhere else. Changes that the command makes are made all the same.\n`,
  );
});
// Errors of the error output cannot be printed; the exit code still says how the command ended.
process.stderr.on('error', () => undefined);

const interrupted = new AbortController();

async function ask(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: interrupted.signal });
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

// The exit code is set, and process.exit is not called, so that output in a pipe arrives.
const code = await runProgram(
  process.argv.slice(2),
  {
    out: (text) => process.stdout.write(text),
    error: (text) => process.stderr.write(text),
    columns: process.stdout.columns,
  },
  {
    connect: (envFile) => {
      // Only commands that wait can be stopped. The handler runs once, so a second signal ends the process.
      process.once('SIGINT', () => interrupted.abort());
      return connect(envFile);
    },
    connectDispatcher: (envFile, unreadable) => {
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
      return connectDispatcher(envFile, unreadable);
    },
    signal: interrupted.signal,
    ...(process.stdin.isTTY && process.stderr.isTTY ? { ask } : {}),
  },
);
// An output error may have set the exit code before.
process.exitCode ??= code;
