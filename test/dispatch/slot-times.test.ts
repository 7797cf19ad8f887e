/** What is learned of when slots become free. */
import { describe, expect, it } from 'vitest';
import type { Place, Settled } from '../../lib/dispatch/settle/settled.ts';
import { SlotTimes } from '../../lib/dispatch/slot-times.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation, aReservedJob } from '../fixtures/factories/reservation.ts';

const BOUNDS = { seenMin: 3, offMaxMs: 50 };
const COST_MS = 1_000;

let batches = 0;
/** A place that was reserved at some time; it takes the slot of that claim over. */
function placeAt(reservedAtMs: number, takesOver?: string): Place & { readonly claimId: string } {
  batches += 1;
  const job = aJob();
  const batchId = `1-${batches}`;
  const entry = aReservedJob(job, {
    estimatedCostMs: COST_MS,
    ...(takesOver === undefined ? {} : { takesOver }),
  });
  const reservation = aReservation([], { batchId, reservedAtMs, jobs: new Map([[0, entry]]) });
  return { reservation, position: 0, entry, claimId: `${batchId}.0` };
}

const endedAt = (place: Place, endedAtMs: number, succeeded = true): Settled => ({
  ...place,
  durationMs: COST_MS,
  endedAtMs,
  succeeded,
});

const NONE: readonly Place[] = [];

/** What attempts have taken beside their cost, one after the other. */
function taught(overheadsMs: readonly number[]): SlotTimes {
  const times = new SlotTimes();
  for (const overheadMs of overheadsMs) {
    const place = placeAt(NOW_MS);
    times.note([endedAt(place, NOW_MS + COST_MS + overheadMs)], NONE, BOUNDS);
  }
  return times;
}

const foretold = (times: SlotTimes, place: Place): number | undefined => {
  const atMs = times.endsAtMs(place, BOUNDS);
  return atMs === undefined ? undefined : Math.round(atMs - place.reservation.reservedAtMs - COST_MS);
};

describe('the end of an attempt', () => {
  it('is foretold by what those before it took, once a few are seen', () => {
    expect(foretold(taught([80, 80]), placeAt(NOW_MS))).toBeUndefined();
    expect(foretold(taught([80, 80, 80]), placeAt(NOW_MS))).toBe(80);
    expect(foretold(taught([60, 100, 80]), placeAt(NOW_MS + 5_000))).toBe(80);
  });

  it('is foretold of nothing where those before it ended at any time', () => {
    expect(foretold(taught([80, 900, -400, 2_000, 100]), placeAt(NOW_MS))).toBeUndefined();
  });

  it('is foretold as before after one that was far off', () => {
    const steady = Array.from({ length: 20 }, () => 80);
    const after = foretold(taught([...steady, 30_000]), placeAt(NOW_MS));
    expect(after).toBeGreaterThan(80);
    expect(after).toBeLessThan(105);
  });

  it('is learned anew where all of them take as much longer from some time on', () => {
    const steady = (overheadMs: number) => Array.from({ length: 25 }, () => overheadMs);
    expect(foretold(taught([...steady(80), ...steady(30_000)]), placeAt(NOW_MS))).toBe(30_000);
  });

  it('is learned from attempts that succeeded, and of the type', () => {
    const times = taught([80, 80]);
    const other = placeAt(NOW_MS);
    times.note([endedAt(other, NOW_MS + 5_000, false)], NONE, BOUNDS);
    expect(foretold(times, placeAt(NOW_MS))).toBeUndefined();
    times.note([endedAt(placeAt(NOW_MS), NOW_MS + COST_MS + 80)], NONE, BOUNDS);
    expect(foretold(times, placeAt(NOW_MS))).toBe(80);
    const otherType = placeAt(NOW_MS);
    const entry = { ...otherType.entry, type: 'index' };
    expect(foretold(times, { ...otherType, entry })).toBeUndefined();
  });
});

describe('the end of an attempt that took a slot over', () => {
  it('is counted from when that was free, and only where this process has seen it', () => {
    const times = new SlotTimes();
    for (let seen = 0; seen < 3; seen += 1) {
      const before = placeAt(NOW_MS);
      const next = placeAt(NOW_MS + 900, before.claimId);
      times.note([endedAt(before, NOW_MS + 1_100)], [next], BOUNDS);
      times.note([endedAt(next, NOW_MS + 1_100 + COST_MS + 20)], [next], BOUNDS);
    }
    const before = placeAt(NOW_MS);
    const next = placeAt(NOW_MS + 900, before.claimId);
    expect(times.endsAtMs(next, BOUNDS)).toBeUndefined();
    times.note([endedAt(before, NOW_MS + 1_300)], [next], BOUNDS);
    expect(times.endsAtMs(next, BOUNDS)).toBe(NOW_MS + 1_300 + COST_MS + 20);
    // Nobody in flight took it over any more.
    times.note([], NONE, BOUNDS);
    expect(times.endsAtMs(next, BOUNDS)).toBeUndefined();
  });
});
