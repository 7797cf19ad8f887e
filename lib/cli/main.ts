#!/usr/bin/env node
/** Checks the version of Node.js before it loads code that older versions cannot parse. */
const LEAST_NODE = 22;
const { node } = process.versions;

if (Number(node.split('.')[0]) >= LEAST_NODE) {
  // Keeps compiled code for the next call, in a folder for temporary files, which halves the time that a command
  // takes to start.
  const { default: nodeModule } = await import('node:module');
  nodeModule.enableCompileCache?.();
  await import('./start.ts');
} else {
  process.stderr.write(`fairlead: Node.js ${node} is too old; install version ${LEAST_NODE} or later\n`);
  process.exitCode = 2;
}
