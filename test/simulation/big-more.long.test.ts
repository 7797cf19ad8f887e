/** The other half of a hundred big worlds, and some whose work processes do. */
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { bigPlanOf, bigPlanOfProcesses } from './big.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [FIRST, LAST] = seedsOf('more big worlds', [53, 102], 5);
const [PROCESSES_FIRST, PROCESSES_LAST] = seedsOf('big worlds of processes', [1, 8], 1);
const SEEDS_MS = 3_600_000;

describe('a big world', () => {
  it(`holds every invariant in seeds ${FIRST} to ${LAST}`, { timeout: SEEDS_MS }, async () => {
    const { broken } = await runSeeds(FIRST, LAST, bigPlanOf);
    expect(broken).toEqual([]);
  });

  it(`holds every invariant with worker processes, some of them killed, in seeds ${PROCESSES_FIRST} to ${PROCESSES_LAST}`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken } = await runSeeds(PROCESSES_FIRST, PROCESSES_LAST, bigPlanOfProcesses);
    expect(broken).toEqual([]);
  });
});
