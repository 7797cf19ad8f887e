/** `npm run check`: what publint and attw, which resolves as TypeScript and Node.js do, say of the packed package. */
import { spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { packPackage } from './pack.ts';

const { folder, tarball } = await packPackage();
try {
  for (const [command, ...given] of [
    ['publint', tarball, '--strict'],
    ['attw', tarball, '--no-emoji', '--no-color'],
  ] as const) {
    const { status } = spawnSync(command, given, { stdio: 'inherit' });
    if (status !== 0) process.exitCode = 1;
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
