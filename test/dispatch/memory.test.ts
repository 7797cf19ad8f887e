/** What a dispatcher remembers of a partition counts for as long as it cannot be wrong. */
import { expect, it } from 'vitest';
import { HintedJobs } from '../../lib/dispatch/hinted-jobs.ts';
import { keepCache, openCache, type PartitionCaches } from '../../lib/dispatch/partition-cache.ts';
import { stage, storeWith } from './stage.ts';

it.each([
  ['under the same epoch, without the lease', 4, true, true],
  ['under the same epoch', 4, false, true],
  ['under the next epoch, whose lease it has', 5, false, true],
  ['under the next epoch, without the lease', 5, true, false],
  ['under a later epoch', 6, false, false],
])('the memory of a pass under an epoch is believed, or not: %s', (_, epoch, isOpen, isBelieved) => {
  const memory: PartitionCaches = new Map();
  const kept = openCache(memory, 0, 4);
  keepCache(memory, 0, 4, kept, 7);
  expect(openCache(memory, 0, epoch, isOpen) === kept).toBe(isBelieved);
});

it('a job that a read shows not to wait is gone, whatever its image tells', async () => {
  const on = stage();
  const told = on.job();
  const store = storeWith(on.store, {
    lookUpJobs: async () => [{ ...told, state: 'succeeded', version: 4 } as const],
  });
  const hinted = new HintedJobs(on.dispatcher({ store }), {
    partition: 0,
    places: { nameOf: () => 'line', rankOf: ({ id }) => id, compare: () => 0 },
    cached: openCache(new Map(), 0, 1).lines,
    parkedHeads: [],
    justStored: new Set(),
    isHeld: () => false,
    nowMs: on.time.nowMs,
  });
  expect(hinted.isGone(told)).toBe(false);
  await hinted.sift([told]);
  expect(hinted.isGone(told)).toBe(true);
});
