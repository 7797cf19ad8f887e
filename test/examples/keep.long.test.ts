/** `npm start -- --keep`: the commands that it prints work as they stand. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import type { Kept } from '../../examples/kept.ts';
import { accepts, until } from '../testing/processes.ts';
import { folderWith } from './folder.ts';
import { portOf, start } from './start.ts';

const run = promisify(execFile);
const TIMEOUT_MS = 240_000;

it('a stack that is kept is reached by the commands that are printed, and stopped by the last', {
  timeout: TIMEOUT_MS,
}, async () => {
  const root = await folderWith({ 'in/lib/a.txt': 'words', 'in/lib/b.txt': 'words' });
  const started = start(['--input', join(root, 'in'), '--out', join(root, 'out'), '--keep', '--json']);
  expect(await started.code, started.errors()).toBe(0);
  const { kept } = JSON.parse(started.output()) as { readonly kept: Kept };
  const stop = async (): Promise<void> => {
    await run('sh', ['-c', kept.stop]).catch(() => undefined);
    await until(async () => !(await accepts(portOf(started))), 'nothing listens any more');
  };
  onTestFinished(stop);
  expect(kept.commands).toHaveLength(3);
  const { FAIRLEAD_TABLE: _, ...env } = process.env;
  const said = await Promise.all(kept.commands.map((command) => run('sh', ['-c', command], { env })));
  const [fleets, jobs, history] = said.map(({ stdout }) => stdout);
  expect(fleets).toContain('images');
  expect(jobs).toContain('succeeded');
  expect(history).toContain('succeeded');
});

it('an app is deployed beside the story that is kept, as the story says', {
  timeout: TIMEOUT_MS,
}, async () => {
  const started = start(['--keep']);
  expect(await started.code, started.errors()).toBe(0);
  const lines = started.output().split('\n');
  const commands = lines.filter((line) => line.startsWith('  ')).map((line) => line.trim());
  const stop = lines.find((line) => line.startsWith('To stop it: '))?.slice('To stop it: '.length);
  onTestFinished(async () => {
    await run('sh', ['-c', stop ?? '']).catch(() => undefined);
    await until(async () => !(await accepts(portOf(started))), 'nothing listens any more');
  });
  const { FAIRLEAD_TABLE: _, ...env } = process.env;
  const outputs: string[] = [];
  for (const command of commands.filter((line) => line.startsWith('npm run ')))
    outputs.push((await run('sh', ['-c', command], { env })).stdout);
  expect(outputs).toHaveLength(5);
  expect(outputs.map((output) => output.includes('noisy'))).toEqual([true, true, true, false, false]);
  const [settings = '', deploy = ''] = commands.slice(
    commands.findIndex((line) => line.startsWith('set -a')),
  );
  // The checkout's own app takes a stack; any other one is deployed without.
  const app = `${settings}; ${deploy} -c stack=examples/flood/stack.ts`;
  const deployed = await run('sh', ['-c', app], { env });
  expect(`${deployed.stdout}${deployed.stderr}`).toContain('stack/fairlead-flood/');
});
