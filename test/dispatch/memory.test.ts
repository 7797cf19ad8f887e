/** What a dispatcher remembers of a partition counts for as long as it cannot be wrong. */
import { expect, it } from 'vitest';
import { keepCache, openCache, type PartitionCaches } from '../../lib/dispatch/partition-cache.ts';

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
