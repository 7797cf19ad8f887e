import { describe, expect, it } from 'vitest';
import { playPair } from './declaration-pairs.ts';

/** `FAIRLEAD_PAIRS_SEED=7` plays others. */
const FIRST_SEED = Number(process.env.FAIRLEAD_PAIRS_SEED ?? 1);
const PAIRS = 100;

describe(`any declaration may follow any other (seeds from ${FIRST_SEED})`, () => {
  it(`ends all jobs, and breaks no cap or exclusion, in ${PAIRS} random pairs`, {
    timeout: 120_000,
  }, async () => {
    const wrong: string[] = [];
    let jobs = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + PAIRS; seed += 1) {
      const report = await playPair(seed);
      jobs += report.jobs;
      for (const what of report.wrong.slice(0, 2)) wrong.push(`seed ${seed}: ${what}`);
    }
    expect(wrong).toEqual([]);
    expect(jobs).toBeGreaterThan(PAIRS * 20);
  });
});
