import { describe, expect, it } from 'vitest';
import { seedsOf } from '../sample.ts';
import { playPairs } from './declaration-pairs.ts';

const [FIRST, LAST] = seedsOf('declaration pairs', [16, 1_030], 60);
/** `FAIRLEAD_PAIRS_SEED=7` plays others. */
const FIRST_SEED = Number(process.env.FAIRLEAD_PAIRS_SEED ?? FIRST);
const PAIRS = LAST - FIRST + 1;

describe(`any declaration may follow any other (seeds from ${FIRST_SEED})`, () => {
  it(`ends all jobs, and breaks no cap or exclusion, in ${PAIRS} random pairs`, {
    timeout: 1_800_000,
  }, async () => {
    const { wrong, jobs } = await playPairs(FIRST_SEED, PAIRS);
    expect(wrong).toEqual([]);
    expect(jobs).toBeGreaterThan(PAIRS * 20);
  });
});
