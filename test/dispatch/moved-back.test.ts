/** Keys that move to the front of their keys line while it is being read, on an index that shows it later. */
import { expect, it } from 'vitest';
import { BackloggedKeys } from '../../lib/dispatch/backlogged-keys.ts';
import { noteMovedBack, openCache, RECENT_MS } from '../../lib/dispatch/partition-cache.ts';
import type { KeyBacklog } from '../../lib/store/records.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

const keyOf = (fairnessKey: string): KeyBacklog => ({
  fairnessKey,
  lines: [{ mode: 'queued' }],
  announcedAtMs: NOW_MS,
  rankCostMs: 9_000,
});

/** The first page is read a while after the key was charged, and does not show it; nor does the second one. */
async function readAfter(ms: number): Promise<readonly string[]> {
  const { lines } = openCache(new Map(), 0, 'one');
  noteMovedBack(lines, 'moved', NOW_MS - ms);
  const keys = new BackloggedKeys(
    {
      readKeys: async ({ after }) =>
        after === undefined ? { keys: [keyOf('first')], next: 'first' } : { keys: [keyOf('last')] },
      readBacklogs: async ({ fairnessKeys }) => fairnessKeys.map(keyOf),
    },
    { partition: 0, ledgerCache: { weighted: [] }, cached: lines, livesHere: () => true, nowMs: NOW_MS },
  );
  await keys.upTo('resize', 0);
  return (await keys.upTo('resize', 1)).keys.map(({ fairnessKey }) => fairnessKey);
}

it('is read by its name as long as the index may not show where it stands', async () => {
  expect(await readAfter(0)).toEqual(['first', 'moved', 'last']);
  expect(await readAfter(RECENT_MS)).toEqual(['first', 'moved', 'last']);
});

it('is not read by its name for longer', async () => {
  expect(await readAfter(RECENT_MS + 1)).toEqual(['first', 'last']);
});
