#!/usr/bin/env node
import { runProgram } from './program.ts';

// A reader that has seen enough, such as `head`, is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});

// An exit code, not process.exit: what was printed into a pipe must arrive.
process.exitCode = await runProgram(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
});
