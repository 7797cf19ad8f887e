import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/**
 * A tenth more than it was when this was written. What a job costs beyond it is a loop over all that waits, or over all keys, that
 * stands in the way of each job: times on a busy machine hide that, counts do not.
 */
const CALLS_MAX = 1_340;
/** The same with ten thousand keys, of which none is ahead of the others and nothing is in flight when a pass begins. */
const CALLS_OF_MANY_KEYS_MAX = 9_300;
/** Of what a job costs with few waiting, as much more as it may cost with many. */
const GROWTH_MAX = 1.1;

interface Counted {
  readonly callsPerJob: number;
  readonly jobs: number;
}

async function count(...options: readonly string[]): Promise<readonly Counted[]> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['bench/local.ts', '--calls', '--json', ...options],
    { cwd: project },
  );
  return (JSON.parse(stdout) as { readonly counted: readonly Counted[] }).counted;
}

it('a job enters no more functions than it did, however many wait', { timeout: 120_000 }, async () => {
  const counted = await count('--jobs', '6000', '--backlog', '4000', '--backlog', '40000');
  const [few, many] = counted.map(({ callsPerJob }) => callsPerJob);
  expect(counted.every(({ jobs }) => jobs >= 6_000)).toBe(true);
  expect(few).toBeGreaterThan(300);
  expect(few).toBeLessThanOrEqual(CALLS_MAX);
  expect(many).toBeLessThanOrEqual(GROWTH_MAX * (few ?? 0));
});

it('nor where ten thousand keys have jobs', { timeout: 120_000 }, async () => {
  const [counted] = await count('--jobs', '3000', '--backlog', '20000', '--keys', '10000');
  expect(counted?.jobs).toBeGreaterThanOrEqual(3_000);
  expect(counted?.callsPerJob).toBeGreaterThan(300);
  expect(counted?.callsPerJob).toBeLessThanOrEqual(CALLS_OF_MANY_KEYS_MAX);
});
