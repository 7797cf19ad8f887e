/** Big worlds; `big.long.test.ts` has a hundred. */
import { describe, expect, it } from 'vitest';
import { bigPlanOf } from './big.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const SEEDS = 2;
const SEEDS_MS = 300_000;
/** Seeds that once showed a bug. */
const REGRESSIONS: readonly number[] = [
  // A wake for due work, left as word during passes that a stream's record began, was heard by a pass that promoted nothing.
  19,
];
const JOBS_LEAST = 2_000;
const KEYS_LEAST = 300;

describe('a big world', () => {
  it(`has at least ${JOBS_LEAST} jobs and ${KEYS_LEAST} keys`, () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const { jobs } = bigPlanOf(seed);
      expect(jobs.length).toBeGreaterThanOrEqual(JOBS_LEAST);
      expect(new Set(jobs.map(({ fairnessKey }) => fairnessKey)).size).toBeGreaterThanOrEqual(KEYS_LEAST);
    }
  });

  it('holds every invariant in seeds that once showed a bug', { timeout: SEEDS_MS }, async () => {
    for (const seed of REGRESSIONS) expect((await runSeeds(seed, seed, bigPlanOf)).broken).toEqual([]);
  });

  it(`holds every invariant, and every job ends, in ${SEEDS} seeds`, { timeout: SEEDS_MS }, async () => {
    const { broken, finished } = await runSeeds(1, SEEDS, bigPlanOf);
    expect(broken).toEqual([]);
    expect(finished).toBeGreaterThanOrEqual(SEEDS * JOBS_LEAST);
  });
});
