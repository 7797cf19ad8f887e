#!/usr/bin/env node
import { connect, connectDispatcher } from './connect.ts';
import { runProgram } from './program.ts';

// A reader that has seen enough, such as `head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

const interrupted = new AbortController();

// An exit code, not process.exit: what was printed into a pipe must arrive.
process.exitCode = await runProgram(
  process.argv.slice(2),
  {
    out: (text) => process.stdout.write(text),
    error: (text) => process.stderr.write(text),
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
