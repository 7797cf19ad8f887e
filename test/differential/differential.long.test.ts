/** Two thousand scenarios that `differential.test.ts` leaves. */
import { describe, expect, it } from 'vitest';
import { differingDeployed, differingSimulated } from './equal.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const FIRST = 101;
const LAST = 2_100;
/** Of the simulator's files, which play the same scenarios with the same dispatcher. */
const SIMULATED_LAST = 700;
const SEEDS_MS = 1_200_000;

describe('the deployed path', () => {
  it(`starts what the reference starts, in seeds ${FIRST} to ${LAST}`, { timeout: SEEDS_MS }, async () => {
    expect(await differingDeployed(FIRST, LAST)).toEqual([]);
  });
});

describe('fairlead simulate', () => {
  it(`starts what the reference starts, in seeds ${FIRST} to ${SIMULATED_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { differing, expressed } = await differingSimulated(FIRST, SIMULATED_LAST);
    expect(differing).toEqual([]);
    expect(expressed).toBeGreaterThan((SIMULATED_LAST - FIRST) / 3);
  });
});
