/** Keys that move to the front of their keys line while it is being read, on an index that shows it later. */
import { expect, it } from 'vitest';
import { LOOK_AROUND_MS, SHOWN_MS } from '../../../lib/dispatch/tuning.ts';
import { BackloggedKeys } from '../../../lib/dispatch/view/keys.ts';
import { noKeys, View } from '../../../lib/dispatch/view/view.ts';
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
  view.noteMovedToFront('moved', NOW_MS - ms);
  view.begin(undefined, NOW_MS);
  return keysIn(view);
}

async function keysIn(view: View): Promise<readonly string[]> {
  const keys = new BackloggedKeys(
    {
      readKeys: async ({ after }) =>
        after === undefined ? { keys: [keyOf('first')], next: 'first' } : { keys: [keyOf('last')] },
      readBacklogs: async ({ fairnessKeys }) => fairnessKeys.map(keyOf),
    },
    { partition: 0, ledgerCache: { weighted: [] }, view, livesHere: () => true, nowMs: NOW_MS },
  );
  const given = await keys.next('resize', 100, { read: async () => {}, of: () => 0, behind: () => -1 });
  return given.keys.map(({ key }) => key.fairnessKey);
}

it('is read by its name as long as the index may not show where it stands', async () => {
  expect(await readAfter(0)).toEqual(['first', 'moved', 'last']);
  expect(await readAfter(SHOWN_MS)).toEqual(['first', 'moved', 'last']);
});

it('is not read by its name for longer', async () => {
  expect(await readAfter(SHOWN_MS + 1)).toEqual(['first', 'last']);
});

it('is read by its name as long as any first page is trusted that may not show it', async () => {
  const readAtMs = NOW_MS - LOOK_AROUND_MS + 1;
  const after = async (movedMs: number): Promise<readonly string[]> => {
    const view = new View();
    view.noteMovedToFront('moved', movedMs);
    view.begin(undefined, NOW_MS);
    view.keys.set('resize', {
      ...noKeys(readAtMs),
      keys: new Map([['first', keyOf('first')]]),
      next: 'first',
    });
    return keysIn(view);
  };
  expect(await after(readAtMs - SHOWN_MS)).toEqual(['first', 'moved', 'last']);
  expect(await after(readAtMs - SHOWN_MS - 1)).toEqual(['first', 'last']);
});
