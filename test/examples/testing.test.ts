/** The examples of tests run in each runner. */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const folder = 'examples/testing';

async function run(...parameters: readonly string[]): Promise<string> {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, parameters, { cwd: project, env });
  return stdout + stderr;
}

it('vitest', async () => {
  expect(await run('node_modules/vitest/vitest.mjs', 'run', '--root', `${folder}/vitest`)).toMatch(
    /1 passed/,
  );
});

it('jest', async () => {
  const jest = [
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    '--config',
    `${folder}/jest/jest.config.js`,
  ];
  expect(await run(...jest)).toMatch(/Tests: +1 passed/);
});

it('node:test', async () => {
  expect(await run('--test', `${folder}/node/shop.test.ts`)).toMatch(/pass 2/);
});
