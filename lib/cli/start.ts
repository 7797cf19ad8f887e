/** The command line as a process: its words, its streams, its signals. */
import { connect, connectDispatcher } from './connect.ts';
import { runProgram } from './program.ts';
import { EXIT } from './spoken.ts';

let isTold = false;
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // A reader that has seen enough, such as `head`, is no failure.
  if (error.code === 'EPIPE') return;
  process.exitCode = EXIT.failed;
  if (isTold) return;
  isTold = true;
  process.stderr.write(
    `fairlead: the output could not be written (${error.message}); print it somewhere else. What the command changes is changed all the same.\n`,
  );
});
// Nobody can be told of it; the exit code still says how the command ended.
process.stderr.on('error', () => undefined);

const interrupted = new AbortController();

// An exit code, not process.exit: what was printed into a pipe must arrive.
const code = await runProgram(
  process.argv.slice(2),
  {
    out: (text) => process.stdout.write(text),
    error: (text) => process.stderr.write(text),
    columns: process.stdout.columns,
  },
  {
    connect: (envFile) => {
      // Only what waits for others can be told to stop. Once: who asks a second time will not wait.
      process.once('SIGINT', () => interrupted.abort());
      return connect(envFile);
    },
    connectDispatcher: (envFile, unreadable) => {
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
      return connectDispatcher(envFile, unreadable);
    },
    signal: interrupted.signal,
  },
);
// Output that could not be written may have set it before.
process.exitCode ??= code;
