/** The whole scheduler under virtual time, in the seeds that `simulation.test.ts` leaves. */
import { describe, expect, it } from 'vitest';
import { isSampled, seedsOf } from '../sample.ts';
import { FAULT_CLASSES } from './plan.ts';
import { run } from './run.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [FIRST, LAST] = seedsOf('simulation', [31, 700], 60);
const SEEDS_MS = 1_200_000;
/** How often each fault must have been met by then: a sample is too small to say. */
const TIMES_LEAST = isSampled ? 0 : 12;

describe('the simulation', () => {
  it(`holds every invariant in seeds ${FIRST} to ${LAST}, and meets every fault at least ${TIMES_LEAST} times`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken, finished, faults } = await runSeeds(FIRST, LAST);
    expect(broken).toEqual([]);
    expect(finished).toBeGreaterThan(LAST - FIRST);
    expect(FAULT_CLASSES.filter((fault) => faults[fault] < TIMES_LEAST)).toEqual([]);
  });

  it('ends in a world whose jobs wait for an hour and a half until their rate lets them start', {
    timeout: SEEDS_MS,
  }, async () => {
    expect((await run(1064)).violations).toEqual([]);
  });
});
