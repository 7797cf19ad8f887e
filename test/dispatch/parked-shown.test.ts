/** What operators see of jobs that are parked behind a conflict key. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { type JobFilter, type KeyView, listJobs, listKeys } from '../../lib/dispatch/inspect.ts';
import { allOf } from '../client/desk.ts';
import { type Stage, stage } from './stage.ts';

const albums = (): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 860_000, conflictGroup: 'album' }, mail: {} },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'mail'], slots: 40 } },
    },
  });

/** Photos of one album each: one runs, the others are met again and again. */
async function parkedIn(
  on: Stage,
  fairnessKey: string,
  album: string,
  count: number,
): Promise<readonly Job[]> {
  const jobs = await on.put(
    ...Array.from({ length: count }, (_, at) =>
      on.job({ type: 'resize', fairnessKey, resourceId: album, readyAtMs: on.time.nowMs - count + at }),
    ),
  );
  await on.pass({ jobs, reason: 'stream' });
  await on.startEverywhere();
  return jobs;
}

const pendingIn = async (on: Stage, filter: JobFilter = {}): Promise<readonly string[]> =>
  (await allOf(listJobs(on.operator(), 'pending', filter))).map(({ id }) => id);

const waitingIn = (on: Stage, jobs: readonly Job[]): readonly string[] =>
  jobs.filter(({ id }) => on.stateOf(id) === 'pending').map(({ id }) => id);

const isReady = async (on: Stage, fairnessKey: string): Promise<readonly string[]> =>
  (
    await on.store.readLine({
      partition: 0,
      line: { type: 'resize', mode: 'queued', fairnessKey },
      limit: 500,
    })
  ).jobs.map(({ id }) => id);

describe('jobs that are parked', () => {
  it('are listed among those that are pending, each once, in the order of their line', async () => {
    const on = albums();
    const jobs = await parkedIn(on, 'ann', 'beach', 130);
    const mails = await on.put(on.job({ type: 'mail', fairnessKey: 'ben' }));
    const waiting = waitingIn(on, jobs);
    expect(waiting).toHaveLength(129);
    const ready = await isReady(on, 'ann');
    const parked = waiting.filter((id) => !ready.includes(id));
    expect(parked.length).toBeGreaterThan(100);
    const listed = await pendingIn(on);
    expect(listed.toSorted()).toEqual([...waiting, ...mails.map(({ id }) => id)].toSorted());
    expect(listed.slice(-parked.length)).toEqual(parked);
  });

  it('are listed by their type and fairness key', async () => {
    const on = albums();
    const anns = await parkedIn(on, 'ann', 'beach', 20);
    const bens = await parkedIn(on, 'ben', 'forest', 20);
    expect((await pendingIn(on, { fairnessKey: 'ann' })).toSorted()).toEqual(waitingIn(on, anns).toSorted());
    expect((await pendingIn(on, { type: 'resize', fairnessKey: 'ben' })).toSorted()).toEqual(
      waitingIn(on, bens).toSorted(),
    );
    expect(await pendingIn(on, { type: 'mail' })).toEqual([]);
  });

  it('are counted with their key, the first of them, and it is said that there may be more', async () => {
    const on = albums();
    const jobs = await parkedIn(on, 'ann', 'beach', 30);
    await parkedIn(on, 'ben', 'beach', 3);
    const keys = async (): Promise<ReadonlyMap<string, KeyView>> =>
      new Map((await allOf(listKeys(on.operator(), 100))).map((key) => [key.fairnessKey, key]));
    const ready = (await isReady(on, 'ann')).filter((id) => on.stateOf(id) === 'pending').length;
    const { waiting, more } = (await keys()).get('ann') ?? {};
    expect(ready).toBeLessThan(29);
    expect(waiting).toBeGreaterThan(ready);
    expect(waiting).toBeLessThanOrEqual(waitingIn(on, jobs).length);
    expect(more).toBe(true);
    expect((await keys()).get('ben')).toMatchObject({ waiting: 3, more: false });
  });
});
