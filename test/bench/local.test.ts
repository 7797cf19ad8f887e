import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/**
 * A tenth more than it was when this was written. What a job costs beyond it is a loop over all that waits, or over all keys, that
 * stands in the way of each job: times on a busy machine hide that, counts do not.
 */
const CALLS_MAX = 1_200;
/** Of what a job costs with few waiting, as much more as it may cost with many. */
const GROWTH_MAX = 1.1;

it('a job enters no more functions than it did, however many wait', { timeout: 120_000 }, async () => {
  const sizes = ['4000', '40000'].flatMap((backlog) => ['--backlog', backlog]);
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['bench/local.ts', '--calls', '--json', '--jobs', '6000', ...sizes],
    { cwd: project },
  );
  const { counted } = JSON.parse(stdout) as {
    readonly counted: readonly { readonly callsPerJob: number; readonly jobs: number }[];
  };
  const [few, many] = counted.map(({ callsPerJob }) => callsPerJob);
  expect(counted.every(({ jobs }) => jobs >= 6_000)).toBe(true);
  expect(few).toBeGreaterThan(300);
  expect(few).toBeLessThanOrEqual(CALLS_MAX);
  expect(many).toBeLessThanOrEqual(GROWTH_MAX * (few ?? 0));
});
