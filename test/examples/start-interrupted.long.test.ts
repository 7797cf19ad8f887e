/** `npm start`, ended by others while it deploys and while it works. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { accepts, descendantsOf, isAlive, until } from '../testing/processes.ts';
import { folderWith } from './folder.ts';
import { lastLineOf, portOf, type Started, start } from './start.ts';

const TIMEOUT_MS = 180_000;

/** Enough work in one directory, where one job runs at a time, to be interrupted in the middle of it. */
const manyFiles = (): Promise<string> =>
  folderWith(Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`in/lib/${at}.txt`, 'words'])));

const jobsRun = (started: Started): boolean => / [1-9]\d* of 300 jobs/.test(started.errors());

/** Runs until `reached`, does `act`, and sees to it that nothing is left of all that ran then. */
async function interrupted(
  reached: (started: Started) => boolean,
  act: (started: Started) => void,
): Promise<Started> {
  const root = await manyFiles();
  const started = start(['--input', join(root, 'in'), '--out', join(root, 'out')]);
  // What it says of its port may be read later than its processes are seen.
  await until(() => reached(started) && !Number.isNaN(portOf(started)), 'it is so far');
  const running = descendantsOf(started.child.pid ?? 0);
  expect(running.length).toBeGreaterThan(0);
  const port = portOf(started);
  act(started);
  await started.code;
  await until(() => running.every(({ pid }) => !isAlive(pid)), 'all processes are gone');
  expect(await accepts(port)).toBe(false);
  return started;
}

const isDeploying = ({ child }: Started): boolean =>
  descendantsOf(child.pid ?? 0).some(
    ({ command }) => command.includes('cdk bootstrap') || command.includes('cdk.out'),
  );

describe('npm start', { timeout: TIMEOUT_MS }, () => {
  it.each([
    ['deploys', isDeploying, 'SIGINT', 130],
    ['works', jobsRun, 'SIGINT', 130],
  ] as const)(
    'leaves nothing behind when it is interrupted while it %s',
    async (_when, reached, signal, code) => {
      const started = await interrupted(reached, ({ child }) => {
        // A terminal and npm both deliver it.
        child.kill(signal);
        child.kill(signal);
      });
      expect(await started.code).toBe(code);
      expect(lastLineOf(started)).toBe('fairlead: interrupted');
      expect(started.output()).toBe('');
    },
  );

  it('leaves nothing behind when it is killed', async () => {
    await interrupted(jobsRun, ({ child }) => child.kill('SIGKILL'));
  });

  it('ends at once with one line when the emulator dies half-way', async () => {
    const started = await interrupted(jobsRun, ({ child }) => {
      const guard = descendantsOf(child.pid ?? 0).find(({ command }) => command.includes('guard.py'));
      process.kill(guard?.pid ?? 0, 'SIGKILL');
    });
    expect(await started.code).toBe(1);
    expect(lastLineOf(started)).toMatch(/^fairlead: the emulator was killed.*Run it again$/);
  });
});
