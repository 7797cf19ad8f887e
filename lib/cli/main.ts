#!/usr/bin/env node
import { runProgram } from './program.ts';

// An exit code, not process.exit: what was printed into a pipe must arrive.
process.exitCode = await runProgram(process.argv.slice(2), {
  out: (text) => process.stdout.write(text),
  error: (text) => process.stderr.write(text),
});
