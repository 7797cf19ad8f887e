/** The blocked lines that a fairness key names: who lifts another key asks these for how long it has waited. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { unnameParked } from '../../lib/dispatch/parking.ts';
import { PARKED_NAME_BYTES_MAX, PARKED_NAMES_MAX } from '../../lib/store/bounds.ts';
import type { KeyBacklog, ParkedLine } from '../../lib/store/records.ts';
import { albums, behind } from './albums.ts';
import type { Stage } from './stage.ts';

const PARTITION = 0;

async function fill(
  on: Stage,
  names: readonly string[],
  more: Pick<Partial<Job>, 'mode'> = {},
): Promise<void> {
  for (const resourceId of names) await behind(on, { fairnessKey: 'ann', resourceId, ...more }, 12);
}

async function backlogOf(on: Stage): Promise<KeyBacklog> {
  const [backlog] = await on.store.readBacklogs({
    partition: PARTITION,
    type: 'resize',
    fairnessKeys: ['ann'],
  });
  if (backlog === undefined) throw new Error('ann has no backlog');
  return backlog;
}

const namesOf = async (on: Stage): Promise<readonly ParkedLine[]> => (await backlogOf(on)).parked ?? [];

const isParkedIn = (on: Stage, resourceId: string): boolean =>
  [...on.store.everyJob()].some(
    (job) => job.resourceId === resourceId && on.store.inspectLine(job.id)?.startsWith('blocked/'),
  );

const numbered = (count: number, from = 0): readonly string[] =>
  Array.from({ length: count }, (_, at) => `album-${from + at}`);

describe('the blocked lines that a key names', () => {
  it('are those in which its jobs stand, each by the mode of these', async () => {
    const on = albums();
    await fill(on, ['beach']);
    expect(await namesOf(on)).toEqual([{ mode: 'queued', conflictKey: 'album/beach' }]);
    await fill(on, ['beach'], { mode: 'onDemand' });
    expect((await namesOf(on)).map(({ mode }) => mode).toSorted()).toEqual(['onDemand', 'queued']);
  });

  it('are so many at most, also where different processes name them', async () => {
    const on = albums();
    const asked = numbered(PARKED_NAMES_MAX - 3);
    await fill(on, asked);
    expect(await namesOf(on)).toHaveLength(asked.length);
    // Another process knows of no names.
    on.main.caches.clear();
    const more = numbered(6, asked.length);
    await fill(on, more);
    expect(more.every((album) => isParkedIn(on, album))).toBe(true);
    expect(await namesOf(on)).toHaveLength(PARKED_NAMES_MAX);
  });

  it('have no name that is longer than an item of many keys has room for', async () => {
    const on = albums();
    const prefix = 'album/'.length;
    const longest = 'é'.repeat((PARKED_NAME_BYTES_MAX - prefix) / 2);
    const tooLong = `${longest}x`;
    await fill(on, [longest, tooLong]);
    expect([isParkedIn(on, longest), isParkedIn(on, tooLong)]).toEqual([true, true]);
    expect((await namesOf(on)).map(({ conflictKey }) => conflictKey)).toEqual([`album/${longest}`]);
  });

  it('are none where no key is lifted and none expires', async () => {
    const on = albums({ fairness: { idlePolicy: 'none', keyTtlMs: null } });
    await fill(on, ['beach']);
    expect(isParkedIn(on, 'beach')).toBe(true);
    expect(await namesOf(on)).toEqual([]);
  });

  it('are named again by the process that took one away', async () => {
    const on = albums();
    await fill(on, ['beach']);
    const cache = on.main.caches.get(PARTITION);
    if (cache === undefined) throw new Error('nothing is remembered of the partition');
    const take = async (nowMs: number): Promise<void> => {
      const { announcedAtMs } = await backlogOf(on);
      const line = { type: 'resize', mode: 'queued', fairnessKey: 'ann', parkedIn: 'album/beach' } as const;
      await unnameParked(on.main, PARTITION, [{ line, announcedAtMs }], cache.parkedNames, nowMs);
    };
    // The mark is young: more may be parked at this moment.
    await take(on.time.nowMs);
    expect(await namesOf(on)).toHaveLength(1);
    await take(on.time.nowMs + 10 * 60_000);
    expect(await namesOf(on)).toEqual([]);
    await fill(on, ['beach']);
    expect(await namesOf(on)).toEqual([{ mode: 'queued', conflictKey: 'album/beach' }]);
  });
});
