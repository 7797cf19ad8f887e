/** The whole scheduler under virtual time, with faults at any call. */
import { describe, expect, it } from 'vitest';
import { run } from './run.ts';
import { runSeeds } from './seeds.ts';

// Errors are expected here, and their stacks are not read.
Error.stackTraceLimit = 0;

/** Others are in `simulation.long.test.ts`, which counts the faults that they meet. */
const SEEDS = 30;
const SEEDS_MS = 600_000;
/** Seeds that once showed a bug, beyond the first ones. */
const REGRESSIONS: readonly number[] = [
  // The lease of a dispatcher ended between its note of outcomes for the leader and its look at the counter of notes.
  617,
  // A producer stored a job by a newer declaration, which puts its key into another partition than its dispatcher's.
  2_000_127,
  2_004_735,
  // A worker froze between the start and its handler, and ran the handler when the job belonged to another worker.
  2_005_336,
  // A look froze between its clock and its read, and took the partition for observed during an outage.
  2_008_679,
  // A function whose fleet was removed died early, and nothing told the dispatcher.
  8_524_968,
  // A retry was due by the clock that wrote its note but not by the leader's clock, and no dispatcher was woken for it.
  990_034,
  // The handler of a function hung while the store did not answer the write that records it, and lived on.
  843,
  // One commit lifted a key to the share of another that it had lifted before. The check knew only shares before the commit.
  1779,
];

describe('the simulation', () => {
  it(`holds every invariant in ${SEEDS} seeds`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken, finished } = await runSeeds(1, SEEDS);
    expect(broken).toEqual([]);
    expect(finished).toBeGreaterThan(SEEDS);
  });

  it('holds them in every seed that once showed a bug', async () => {
    for (const seed of REGRESSIONS) expect((await run(seed)).violations).toEqual([]);
  });

  it('does the same twice with one seed, and something else with another', async () => {
    const hashes = new Map<number, string>();
    for (const seed of [3, 4]) {
      const [one, two] = [await run(seed), await run(seed)];
      expect(two.traceHash).toBe(one.traceHash);
      expect(two.steps).toBe(one.steps);
      hashes.set(seed, one.traceHash);
    }
    expect(new Set(hashes.values()).size).toBe(hashes.size);
  });

  it('leaves the other faults where they are when one is left out', async () => {
    const whole = await run(9);
    const again = await run(9, { only: new Set(whole.fired) });
    expect(again.traceHash).toBe(whole.traceHash);
  });
});
