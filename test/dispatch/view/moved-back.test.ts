/** Keys that move to the front of their keys line while it is being read, on an index that shows it later. */
import { expect, it } from 'vitest';
import { SHOWN_MS } from '../../../lib/dispatch/tuning.ts';
import { BackloggedKeys } from '../../../lib/dispatch/view/keys.ts';
import { View } from '../../../lib/dispatch/view/view.ts';
import type { KeyBacklog } from '../../../lib/store/contract/records.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';

const keyOf = (fairnessKey: string): KeyBacklog => ({
  fairnessKey,
  lines: [{ mode: 'queued' }],
  announcedAtMs: NOW_MS,
  rankCostMs: 9_000,
});

/** The first page is read a while after the key was charged, and does not show it; nor does the second one. */
async function readAfter(ms: number): Promise<readonly string[]> {
  const view = new View();
  view.noteMovedBack('moved', NOW_MS - ms);
  view.begin(undefined, NOW_MS);
  const keys = new BackloggedKeys(
    {
      readKeys: async ({ after }) =>
        after === undefined ? { keys: [keyOf('first')], next: 'first' } : { keys: [keyOf('last')] },
      readBacklogs: async ({ fairnessKeys }) => fairnessKeys.map(keyOf),
    },
    { partition: 0, ledgerCache: { weighted: [] }, view, livesHere: () => true, nowMs: NOW_MS },
  );
  const given = await keys.inTurn('resize', 100, { read: async () => {}, of: () => 0, behind: () => -1 });
  return given.keys.map(({ key }) => key.fairnessKey);
}

it('is read by its name as long as the index may not show where it stands', async () => {
  expect(await readAfter(0)).toEqual(['first', 'moved', 'last']);
  expect(await readAfter(SHOWN_MS)).toEqual(['first', 'moved', 'last']);
});

it('is not read by its name for longer', async () => {
  expect(await readAfter(SHOWN_MS + 1)).toEqual(['first', 'last']);
});
