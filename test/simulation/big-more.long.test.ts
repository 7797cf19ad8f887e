/** The other half of a hundred big worlds, and some whose work processes do. */
import { describe, expect, it } from 'vitest';
import { bigPlanOf, bigPlanOfProcesses } from './big.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const FIRST = 53;
const LAST = 102;
const PROCESSES_LAST = 8;
const SEEDS_MS = 3_600_000;

describe('a big world', () => {
  it(`holds every invariant in seeds ${FIRST} to ${LAST}`, { timeout: SEEDS_MS }, async () => {
    const { broken } = await runSeeds(FIRST, LAST, bigPlanOf);
    expect(broken).toEqual([]);
  });

  it(`holds every invariant with worker processes, some of them killed, in seeds 1 to ${PROCESSES_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken } = await runSeeds(1, PROCESSES_LAST, bigPlanOfProcesses);
    expect(broken).toEqual([]);
  });
});
