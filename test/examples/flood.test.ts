/** The flood in the model: 15,000 jobs of one tenant, one of another, and what is said of them. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { CAP, mostAtOnce, POOL, quietBoundMs } from '../../examples/flood/pool.ts';
import type { ProductResult } from '../../lib/simulate/product.ts';
import { fairlead } from '../cli/run.ts';

const FILE = fileURLToPath(new URL('../../examples/flood/flood.json', import.meta.url));
const QUIET_AT_MS = 60_000;

it('one job of another tenant starts within its bound, behind a backlog of half an hour, and no cap is exceeded', {
  timeout: 240_000,
}, async () => {
  const { code, out, error } = await fairlead('simulate', FILE, '--json');
  expect(code, error).toBe(0);
  const [result] = (JSON.parse(out) as { readonly results: readonly ProductResult[] }).results;
  if (result === undefined) expect.fail('no result');
  const quiet = result.attempts.find(({ id }) => id === 'quiet') ?? expect.fail('it never started');
  expect(quiet.startMs - QUIET_AT_MS).toBeLessThanOrEqual(quietBoundMs());
  expect(result.keys.flood).toMatchObject({ submitted: 15_000 });
  expect(result.keys.flood?.waiting).toBeGreaterThan(13_000);
  const intervals = result.attempts.map(({ startMs, endMs }) => ({
    fromMs: startMs,
    toMs: endMs ?? 120_000,
  }));
  expect(intervals.length).toBeGreaterThan(1_000);
  expect(mostAtOnce(intervals)).toBe(CAP);
});

it('is the same pool in the model and on the emulator, and its bound is that of 35 s', () => {
  const { scenarios } = JSON.parse(readFileSync(FILE, 'utf8')) as {
    readonly scenarios: readonly { readonly configuration: unknown }[];
  };
  expect(scenarios[0]?.configuration).toEqual(POOL);
  // 53 jobs may go before: twice six of the other key's turns, one that it has saved, and 40 for what is given back; eight at a time, of 5 s at most.
  expect(quietBoundMs()).toBe(35_000);
});

it('counts what runs at once, and not what begins as another ends', () => {
  const interval = (fromMs: number, toMs: number) => ({ fromMs, toMs });
  expect(mostAtOnce([])).toBe(0);
  expect(mostAtOnce([interval(0, 10), interval(10, 20)])).toBe(1);
  expect(mostAtOnce([interval(0, 11), interval(10, 20), interval(5, 30), interval(20, 21)])).toBe(3);
});
