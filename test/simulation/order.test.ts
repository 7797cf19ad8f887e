/** What the simulation takes for a start out of order. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { Order } from './order.ts';

const SEEN_MS = 60_000;
const configuration = resolveConfiguration({
  types: {
    resize: { conflictGroup: 'album' },
    pack: {},
    weigh: { limits: ['scales'] },
    measure: { limits: ['scales', 'rulers'] },
  },
  limits: { scales: { total: 1, perKey: 1 }, rulers: { rate: { starts: 9, per: '1m' } } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize', 'pack', 'weigh', 'measure'], slots: 2 } },
});

/** Says of a commit that reserves `chosen` what is wrong with it, while `other` waits as well. */
function saidOf(
  other: Job,
  {
    isDivided = true,
    waitsMs = SEEN_MS,
    isParked = false,
    unparkedForMs = Number.NaN,
    held = [] as readonly Job[],
  } = {},
) {
  const at = { nowMs: NOW_MS };
  const order = new Order({
    configuration,
    isDivided,
    bounds: { toldMs: undefined, seenMs: SEEN_MS, parkedMs: SEEN_MS },
    nowMs: () => at.nowMs,
    skewMaxMs: 0,
    isParked: () => isParked,
    conflictKeyOf: ({ resourceId }) => resourceId,
  });
  const chosen = aJob({ priority: 1 });
  for (const job of [chosen, other]) order.onJob(job);
  at.nowMs += waitsMs;
  if (unparkedForMs >= 0) {
    order.onUnparked(other.id);
    at.nowMs += unparkedForMs;
  }
  const view = new MemoryJobStore({ clock: () => at.nowMs, random: () => 0, place: suitePlace }).inspect(0);
  const loaded = order.loaded(view);
  const reservation = aReservation([chosen]);
  const before = { ...aReservation(held), batchId: 'before' };
  const after = {
    ...view,
    reservations: new Map([reservation, before].map((each) => [each.batchId, each])),
  };
  return order.onCommit(after, aCommit({ reserve: [reservation] }), loaded);
}

describe('a commit, in a pool of one partition', () => {
  const other = aJob({ type: 'weigh', priority: 10 });

  it('is out of order where a job under a limit comes first that has room', () => {
    expect(saidOf(other, { isDivided: false })).toContain('should have started before');
  });

  it('is in order where that limit is used up, or has a window', () => {
    expect(saidOf(other, { isDivided: false, held: [aJob({ type: 'weigh' })] })).toBeUndefined();
    expect(saidOf(aJob({ type: 'measure', priority: 10 }), { isDivided: false })).toBeUndefined();
  });
});

describe('a commit, in a pool of several partitions', () => {
  it('is out of order where a job of the same type and key in the same partition comes first', () => {
    expect(saidOf(aJob({ priority: 2 }))).toContain('should have started before');
  });

  it.each([
    ['comes later', aJob({ priority: 0 })],
    ['stands in another partition', aJob({ priority: 2, partition: 1 })],
    ['is of another type, at whose cap nobody can look', aJob({ priority: 2, type: 'pack' })],
    ['is of another key', aJob({ priority: 2, fairnessKey: 'tenant-b' })],
    ['has a conflict key, which may be locked elsewhere', aJob({ priority: 2, resourceId: 'album/1' })],
  ])('is in order beside a job that %s', (_, other) => {
    expect(saidOf(other)).toBeUndefined();
  });

  it('is in order beside a job that nobody has to have seen yet', () => {
    expect(saidOf(aJob({ priority: 2 }), { waitsMs: SEEN_MS - 1 })).toBeUndefined();
  });

  it('is in order beside a job that came back to its line so shortly before that nobody else has to have seen it there', () => {
    const other = aJob({ priority: 2 });
    expect(saidOf(other, { unparkedForMs: SEEN_MS - 1 })).toBeUndefined();
    expect(saidOf(other, { unparkedForMs: SEEN_MS })).toContain('should have started before');
  });
});

describe('a commit, in the only partition', () => {
  it('is out of order where any job that may start comes first, whatever its type', () => {
    const other = aJob({ priority: 10, resourceId: 'album/1' });
    for (const type of ['resize', 'pack'])
      expect(saidOf({ ...other, type }, { isDivided: false })).toContain('should have started before');
  });
});
