/** Since when a partition is read without a gap, and what follows from it for losses and for what is sent out again. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CLOCK_SKEW_MAX_MS } from '../../../lib/core/lease.ts';
import {
  extendObservation,
  GAP_MAX_MS,
  mayDeclareLost,
  nextRecoveryAt,
  OBSERVED_MS,
  rampOf,
  withDeferredLosses,
} from '../../../lib/dispatch/recovery/silence.ts';
import { HELD_BACK_MAX_MS, RAMP_FIRST, WORKER_LEASE_MS } from '../../../lib/dispatch/tuning.ts';
import type { Observation } from '../../../lib/store/contract/records.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';

/** The observation after commits at these instants, the first pass's included. */
const observedAt = (...instants: readonly number[]): Observation | undefined =>
  instants.reduce<Observation | undefined>((before, nowMs) => extendObservation(before, nowMs), undefined);

describe('the observation of a partition', () => {
  it('bears clocks that differ a little, and believes nothing of one that is far ahead', () => {
    expect(observedAt(NOW_MS, NOW_MS - CLOCK_SKEW_MAX_MS)).toEqual({ sinceMs: NOW_MS, atMs: NOW_MS });
    expect(observedAt(NOW_MS + 3_600_000, NOW_MS)).toEqual({ sinceMs: NOW_MS, atMs: NOW_MS });
  });

  it('goes on over short gaps, and begins anew after one that may hide a lease of silence', () => {
    expect(observedAt(NOW_MS, NOW_MS + GAP_MAX_MS - 1)).toEqual({
      sinceMs: NOW_MS,
      atMs: NOW_MS + GAP_MAX_MS - 1,
    });
    expect(observedAt(NOW_MS, NOW_MS + GAP_MAX_MS)?.sinceMs).toBe(NOW_MS + GAP_MAX_MS);
  });

  it('begins when the partition was read, not when whoever stood still before that looked at its clock', () => {
    for (const beforeMs of [-60_000, -1_000, 30_000])
      expect(extendObservation(observedAt(NOW_MS + beforeMs), NOW_MS, NOW_MS + 15_000).sinceMs).toBe(
        NOW_MS + 15_000,
      );
    expect(extendObservation(undefined, NOW_MS, NOW_MS + 15_000).sinceMs).toBe(NOW_MS + 15_000);
  });

  it('never lets a loss pass within a lease of an outage that lasted one, whatever the clocks say', () => {
    const skew = fc.integer({ min: -CLOCK_SKEW_MAX_MS / 2, max: CLOCK_SKEW_MAX_MS / 2 });
    const gap = fc.integer({ min: 0, max: 2 * WORKER_LEASE_MS });
    // Between the look at the clock and the read.
    const stood = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2 * WORKER_LEASE_MS }));
    fc.assert(
      fc.property(fc.array(fc.tuple(gap, skew, stood), { minLength: 1, maxLength: 40 }), (passes) => {
        let trueMs = NOW_MS;
        let outageEndMs = Number.NEGATIVE_INFINITY;
        let observation: Observation | undefined;
        for (const [gapMs, skewMs, stoodMs] of passes) {
          trueMs += gapMs;
          // As long as nobody reads, there may be an outage.
          if (gapMs >= WORKER_LEASE_MS || observation === undefined) outageEndMs = trueMs;
          const lookedMs = trueMs + skewMs - stoodMs;
          observation = extendObservation(observation, lookedMs, trueMs + skewMs);
          if (trueMs - outageEndMs < WORKER_LEASE_MS) {
            expect(mayDeclareLost(observation, lookedMs)).toBe(false);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('a loss that is held back', () => {
  /** Ticks only: the wakes that should close the gaps never come. */
  const ticks = (count: number, from: Observation | undefined, startMs: number): Observation => {
    let observation = from;
    for (let tick = 0; tick < count; tick += 1) {
      const nowMs = startMs + tick * 60_000;
      observation = withDeferredLosses(extendObservation(observation, nowMs), true, nowMs);
    }
    return observation as Observation;
  };

  it('is held back for five minutes at most, though each pass comes after a gap', () => {
    const nowMs = NOW_MS + HELD_BACK_MAX_MS;
    expect(mayDeclareLost(ticks(5, undefined, NOW_MS), nowMs - 60_000)).toBe(false);
    expect(mayDeclareLost(ticks(6, undefined, NOW_MS), nowMs)).toBe(true);
  });

  it('says nothing of a later outage', () => {
    const long = ticks(6, undefined, NOW_MS);
    const nowMs = NOW_MS + 3_600_000;
    expect(mayDeclareLost(extendObservation(long, nowMs), nowMs)).toBe(false);
    expect(extendObservation(long, nowMs).heldBackSinceMs).toBeUndefined();
  });

  it('is forgotten when the partition has been observed for a lease', () => {
    const held = ticks(1, undefined, NOW_MS);
    expect(held.heldBackSinceMs).toBe(NOW_MS);
    let observation: Observation = held;
    for (let ms = 5_000; ms <= OBSERVED_MS; ms += 5_000) {
      observation = withDeferredLosses(extendObservation(observation, NOW_MS + ms), false, NOW_MS + ms);
    }
    expect(observation.heldBackSinceMs).toBeUndefined();
  });

  it('is looked at again in the next window of time, for which all passes of this one ask for the same wake', () => {
    const windowMs = Math.ceil(NOW_MS / 5_000) * 5_000;
    for (const atMs of [windowMs, windowMs + 1_200, windowMs + 4_999])
      expect(nextRecoveryAt('heldBack', atMs)).toEqual({
        checkAtMs: windowMs + 5_000,
        wakeAtMs: windowMs + 6_000,
      });
    expect(nextRecoveryAt('ramped', windowMs + 1_200).wakeAtMs).toBe(windowMs + 3_000);
  });
});

describe('what is sent out again after a gap', () => {
  it('doubles every second, until there is no bound', () => {
    const observation = { sinceMs: NOW_MS, atMs: NOW_MS };
    const sizes = [0, 999, 1_000, 2_000, 12_000, 3_600_000].map((ms) => rampOf(observation, NOW_MS + ms));
    expect(sizes).toEqual([20, 20, 40, 80, 81_920, Number.POSITIVE_INFINITY]);
    expect(rampOf(observation, NOW_MS - 2_000)).toBe(RAMP_FIRST);
  });
});
