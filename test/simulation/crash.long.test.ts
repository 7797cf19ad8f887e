/** Processes that are killed, in the seeds that `crash.test.ts` leaves. */
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { crashPlanOf } from './crash.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [FIRST, LAST] = seedsOf('crash worlds', [11, 600], 60);
const SEEDS_MS = 1_200_000;

describe('a process that is killed', () => {
  it(`loses its jobs to others in time, quiet or busy, in seeds ${FIRST} to ${LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken, finished, faults } = await runSeeds(FIRST, LAST, crashPlanOf);
    expect(broken).toEqual([]);
    expect(faults.workerKilled).toBeGreaterThan((LAST - FIRST) / 2);
    expect(finished).toBeGreaterThan(LAST - FIRST);
  });
});
