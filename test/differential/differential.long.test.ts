/** Two thousand scenarios that `differential.test.ts` leaves. */
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { differingCore, differingDeployed, differingSimulated } from './equal.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [FIRST, LAST] = seedsOf('differential', [31, 2_100], 200);
/** Of the simulator's files, which play the same scenarios with the same dispatcher. */
const [SIMULATED_FIRST, SIMULATED_LAST] = seedsOf('differential, simulated', [31, 700], 70);
/** What `differential.test.ts` leaves of these. */
const [CORE_FIRST, CORE_LAST] = seedsOf('differential, core', [401, 1_000], 60);
const [PARTITIONED_FIRST, PARTITIONED_LAST] = seedsOf('differential, partitions', [21, 40], 4);
const SEEDS_MS = 1_200_000;

describe('the reference', () => {
  it(`starts what the core starts, in seeds ${CORE_FIRST} to ${CORE_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    expect(await differingCore(CORE_FIRST, CORE_LAST)).toEqual([]);
  });
});

describe('the deployed path in several partitions that do not lend', () => {
  it(`starts what one reference for each starts, in seeds ${PARTITIONED_FIRST} to ${PARTITIONED_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    expect(await differingDeployed(PARTITIONED_FIRST, PARTITIONED_LAST, 'partitions')).toEqual([]);
  });
});

describe('the deployed path', () => {
  it(`starts what the reference starts, in seeds ${FIRST} to ${LAST}`, { timeout: SEEDS_MS }, async () => {
    expect(await differingDeployed(FIRST, LAST)).toEqual([]);
  });
});

describe('fairlead simulate', () => {
  it(`starts what the reference starts, in seeds ${SIMULATED_FIRST} to ${SIMULATED_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { differing, expressed } = await differingSimulated(SIMULATED_FIRST, SIMULATED_LAST);
    expect(differing).toEqual([]);
    expect(expressed).toBeGreaterThan((SIMULATED_LAST - SIMULATED_FIRST) / 3);
  });
});
