/** The flood on a deployed stack, as `npm run flood` shows it; smaller, because tests share the machine. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { expect, inject, it, onTestFinished } from 'vitest';

const JOBS = 1_500;

it('one job of another tenant starts in time behind a flood, and handlers count no more at once than may run', {
  timeout: 600_000,
}, async () => {
  const child = spawn(process.execPath, ['examples/flood/start.ts', '--jobs', String(JOBS), '--json'], {
    env: { ...process.env, AWS_ENDPOINT_URL: inject('endpoint') },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const closed = new Promise<number | null>((done) => child.once('close', done));
  const [out, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), closed]);
  expect(code, `${out}\n${errors}`).toBe(0);
  const seen = JSON.parse(out) as Readonly<Record<string, number>>;
  expect(seen).toMatchObject({ jobs: JOBS, boundMs: 35_000, cap: 8 });
  expect(seen.counted).toBeGreaterThanOrEqual(60);
  // Two would be no flood.
  expect(seen.mostAtOnce).toBeGreaterThan(2);
  expect(seen.mostAtOnce).toBeLessThanOrEqual(8);
  // Most of the flood was still waiting when it started.
  expect(seen.floodEndedBefore).toBeLessThan(JOBS / 2);
});
