import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

it('the calls of a job are counted beside few that wait and beside many', { timeout: 120_000 }, async () => {
  const options = ['--jobs', '600', '--backlog', '400', '--backlog', '4000'];
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['bench/local.ts', '--calls', '--json', ...options],
    { cwd: project },
  );
  const { counted } = JSON.parse(stdout) as {
    readonly counted: readonly { readonly callsPerJob: number; readonly jobs: number }[];
  };
  const [few, many] = counted.map(({ callsPerJob }) => Math.round(callsPerJob));
  console.log(`A job enters ${few} functions beside 400 that wait, ${many} beside 4,000.`);
  expect(counted.map(({ jobs }) => jobs >= 600)).toEqual([true, true]);
  for (const { callsPerJob } of counted) expect(callsPerJob).toBeGreaterThan(0);
});
