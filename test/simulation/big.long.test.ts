/**
 * A hundred big worlds, 19 among them, in which a wake for due work, left as word during passes that a stream's record began, was
 * heard by a pass that promoted nothing once: half of them here, half in `big-more.long.test.ts`, where another processor plays
 * them.
 */
import { describe, expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { bigPlanOf } from './big.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const [FIRST, LAST] = seedsOf('big worlds', [2, 52], 6);
const SEEDS_MS = 3_600_000;

describe('a big world', () => {
  it(`holds every invariant in seeds ${FIRST} to ${LAST}`, { timeout: SEEDS_MS }, async () => {
    const { broken } = await runSeeds(FIRST, LAST, bigPlanOf);
    expect(broken).toEqual([]);
  });
});
