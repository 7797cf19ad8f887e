import { describe, expect, it } from 'vitest';
import { playPairs } from './declaration-pairs.ts';

/** `FAIRLEAD_PAIRS_SEED=7` plays others. */
const FIRST_SEED = Number(process.env.FAIRLEAD_PAIRS_SEED ?? 1);
const PAIRS = 15;

describe(`any declaration may follow any other (seeds from ${FIRST_SEED})`, () => {
  it(`ends all jobs, and breaks no cap or exclusion, in ${PAIRS} random pairs`, {
    timeout: 120_000,
  }, async () => {
    const { wrong, jobs } = await playPairs(FIRST_SEED, PAIRS);
    expect(wrong).toEqual([]);
    expect(jobs).toBeGreaterThan(PAIRS * 20);
  });
});
