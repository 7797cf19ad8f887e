/** What a dispatcher remembers of a partition counts for as long as it cannot be wrong: between the passes of one lead, at its own last version. */
import { expect, it } from 'vitest';
import {
  forgetUnlessAt,
  keepCache,
  openCache,
  type PartitionCaches,
} from '../../../lib/dispatch/view/partition-cache.ts';

const VERSION = 7;

/** A pass has ended, of a lead or of none. */
function kept(leadBy: string | undefined): PartitionCaches {
  const memory: PartitionCaches = new Map();
  const cache = openCache(memory, 0, leadBy);
  cache.ledgers.set('tenant-a', undefined);
  keepCache(memory, 0, cache, VERSION);
  return memory;
}

it.each([
  ['of the same lead', 'one', 'one', VERSION, true],
  ['of another lead of the same process', 'one', 'other', VERSION, false],
  ['of the same lead, after a commit of another dispatcher', 'one', 'one', VERSION + 1, false],
  ['of a dispatcher that does not lead', undefined, undefined, VERSION, false],
  ['of a lead that begins', undefined, 'one', VERSION, false],
])('what a pass leaves is there for the next one, or not: %s', (_, leadBy, nextBy, version, isThere) => {
  const cache = openCache(kept(leadBy), 0, nextBy);
  forgetUnlessAt(cache, version);
  expect(cache.ledgers.has('tenant-a')).toBe(isThere);
});

it('a pass that does not end well leaves nothing that is exact', () => {
  const memory = kept('one');
  openCache(memory, 0, 'one');
  expect(openCache(memory, 0, 'one').ledgers.size).toBe(0);
});

it('conflict keys that were let go are there until a pass has looked behind them, whoever makes it', () => {
  const memory = kept(undefined);
  openCache(memory, 0, undefined).freedConflictKeys.add('album/photos');
  const cache = openCache(memory, 0, undefined);
  cache.freedConflictKeys.add('album/books');
  keepCache(memory, 0, cache, VERSION);
  expect([...openCache(memory, 0, undefined).freedConflictKeys]).toEqual(['album/books']);
});
