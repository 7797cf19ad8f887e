#!/usr/bin/env node
/** Only looks at Node.js, before anything is loaded that an older one does not know. */
const LEAST_NODE = 22;
const { node } = process.versions;

if (Number(node.split('.')[0]) >= LEAST_NODE) {
  // Keeps what was compiled for the next call, in a folder for temporary files: half of the time that a command takes to begin.
  const { default: nodeModule } = await import('node:module');
  nodeModule.enableCompileCache?.();
  await import('./start.ts');
} else {
  process.stderr.write(`fairlead: Node.js ${node} is too old; install version ${LEAST_NODE} or later\n`);
  process.exitCode = 2;
}
