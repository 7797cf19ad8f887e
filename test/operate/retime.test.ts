/** Moving jobs: the last move counts, nothing starts before it, and whoever must look is told. */
import { describe, expect, it } from 'vitest';
import type { Job, MovingJob } from '../../lib/core/job.ts';
import { expireDue } from '../../lib/dispatch/pass/expire.ts';
import { type RetimeContext, retimeJob, setJobPriority } from '../../lib/operate/retime.ts';
import type { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { lockedJob, lockedPool } from '../stage/locked.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const HOUR_MS = 3_600_000;

const contextOf = (on: Stage, own: Partial<RetimeContext> = {}): RetimeContext => ({
  ...on.submitter(),
  queue: on.queue,
  ...own,
});
const move = (on: Stage, { id }: Job, inMs: number, own: Partial<RetimeContext> = {}) =>
  retimeJob(contextOf(on, own), id, on.time.nowMs + inMs);
const scheduledIn = (on: Stage, inMs: number): Job => {
  const atMs = on.time.nowMs + inMs;
  return on.job({ state: 'scheduled', runAtMs: atMs, readyAtMs: atMs });
};

/** A store in which something happens to the job after each look at it, so often. */
function racing(on: Stage, times: number, happens: (seen: MovingJob) => Promise<unknown>): JobStore {
  let left = times;
  return storeWith(on.store, {
    retimeJob: async (asked) => {
      const { job: seen } = asked;
      if (left > 0) {
        left -= 1;
        await happens(seen);
      }
      return on.store.retimeJob(asked);
    },
  });
}

describe('a job that is moved', () => {
  it('starts at once when its time is past, though its line was retired while it waited', async () => {
    const on = stage();
    const job = scheduledIn(on, HOUR_MS);
    await on.put(job);
    await on.advance(HOUR_MS / 2);
    await on.pass();
    expect(on.store.inspect(0).backlogs.size).toBe(0);
    expect((await move(on, job, -HOUR_MS)).kind).toBe('moved');
    expect(on.stateOf(job.id)).toBe('pending');
    await on.pass({ jobs: [on.store.inspectJob(job.id) as Job], reason: 'stream' }, on.dispatcher());
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('has as long for its start after the move, and cannot be moved once that is over, whether it was ended or not', async () => {
    const on = stage();
    const at = on.time.nowMs;
    const job = on.job({ expireAtMs: at + 30_000 });
    await on.put(job);
    await on.advance(29_999);
    expect(await move(on, job, 60_000)).toMatchObject({
      kind: 'moved',
      job: { expireAtMs: at + 29_999 + 90_000 },
    });
    await on.advance(90_000);
    const before = on.store.inspectJob(job.id);
    expect(before).toMatchObject({ state: 'scheduled' });
    const tooLate = { kind: 'tooLate', job: { id: job.id, state: 'expired' } };
    expect(await move(on, job, 60_000)).toMatchObject(tooLate);
    expect(await setJobPriority(contextOf(on), job.id, 5)).toMatchObject(tooLate);
    expect(on.store.inspectJob(job.id)).toEqual(before);
    await expireDue(on.main);
    expect(await move(on, job, 60_000)).toMatchObject(tooLate);
  });

  it('is not started by a dispatcher that has read it where it was', async () => {
    const on = stage({ pool: lockedPool(4) });
    const job = lockedJob(on);
    await on.put(job);
    const claim: JobStore['claim'] = async (requests) => {
      await move(on, job, HOUR_MS);
      return on.store.claim(requests);
    };
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { claim }) }));
    expect(on.stateOf(job.id)).toBe('scheduled');
    expect(on.held()).toEqual([]);
  });

  it.each([
    ['as it tells a fleet', true],
    ['once a fleet was told', false],
  ])(
    'is not started by what a dispatcher says that has read it where it was: it is moved %s',
    async (_, isBefore) => {
      const on = stage();
      const [job, next] = [on.job({ priority: 5 }), on.job()];
      await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { maxConcurrency: 1 } });
      await on.put(job, next);
      const send: MemoryJobQueue['send'] = async (fleet, told, together) => {
        if (isBefore) expect((await move(on, job, HOUR_MS)).kind).toBe('moved');
        return on.queue.send(fleet, told, together);
      };
      await on.pass({}, on.dispatcher({ queue: storeWith(on.queue, { send }) }));
      expect(on.held().map(({ id }) => id)).toEqual([job.id]);
      if (!isBefore) expect((await move(on, job, HOUR_MS)).kind).toBe('moved');
      const moved = on.store.inspectJob(job.id);
      // Its start is refused and changes nothing, and once the stream tells of it its place goes to the next.
      expect(await on.startAll('images')).toEqual([]);
      expect(on.store.inspectJob(job.id)).toEqual(moved);
      expect(moved).toMatchObject({ state: 'scheduled', runAtMs: on.time.nowMs + HOUR_MS });
      const images = [moved].filter((each) => each !== undefined);
      expect(await on.pass({ jobs: images, reason: 'stream' })).toMatchObject({ settled: 1, admitted: 1 });
      expect((await on.startAll('images')).map((started) => started.job.id)).toEqual([next.id]);
    },
  );
});

describe('whoever must look', () => {
  it.each([
    ['at once when the job is ready', -1, 0],
    ['at the second of a time that comes before the next look ahead', 30_100, 31_000],
  ])('is woken %s', async (_, inMs, wokenInMs) => {
    const on = stage();
    const job = scheduledIn(on, HOUR_MS);
    await on.put(job);
    const startMs = on.time.nowMs;
    await move(on, job, inMs);
    await on.advance(120_000);
    expect(on.wakes).toEqual([startMs + wokenInMs]);
  });

  it('is left to the tick that looks ahead at a later time', async () => {
    const on = stage();
    const job = on.job();
    await on.put(job);
    await move(on, job, HOUR_MS);
    await on.advance(120_000);
    expect(on.wakes).toEqual([]);
  });
});

describe('a move that meets another change', () => {
  it('follows a job that was promoted meanwhile', async () => {
    const on = stage();
    const job = scheduledIn(on, 0);
    await on.put(job);
    const store = racing(on, 1, (seen) => on.store.promote({ jobs: [seen], nowMs: on.time.nowMs }));
    expect(await move(on, job, HOUR_MS, { store })).toMatchObject({
      kind: 'moved',
      job: { state: 'scheduled', version: 3, runAtMs: on.time.nowMs + HOUR_MS },
    });
  });

  it('announces the line of a job that somebody else moved into the future meanwhile', async () => {
    const on = stage();
    const job = on.job();
    await on.put(job);
    const store = racing(on, 1, () => move(on, job, HOUR_MS));
    const context = contextOf(on, { store });
    await retimeJob(context, job.id, on.time.nowMs);
    expect(on.stateOf(job.id)).toBe('pending');
    expect(context.announced.size).toBe(1);
  });

  it('comes too late for a job that was started meanwhile, and not for one that a fleet was told of', async () => {
    const on = stage();
    const [runs, told] = [on.job(), on.job()];
    await on.put(runs);
    const starting = racing(on, 1, async () => {
      await on.pass();
      await on.startAll('images');
    });
    expect(await move(on, runs, HOUR_MS, { store: starting })).toMatchObject({
      kind: 'tooLate',
      job: { state: 'running' },
    });
    await on.put(told);
    const telling = racing(on, 1, async () => {
      await on.pass({ jobs: [told], reason: 'stream' });
      expect(on.stateOf(told.id)).toBe('claimed');
    });
    expect(await move(on, told, HOUR_MS, { store: telling })).toMatchObject({
      kind: 'moved',
      job: { state: 'scheduled' },
    });
    expect(await on.startAll('images')).toEqual([]);
    expect(on.stateOf(told.id)).toBe('scheduled');
  });

  it('gives up after some tries, having changed nothing', async () => {
    const on = stage();
    const job = on.job();
    await on.put(job);
    const raise = ({ id, version }: MovingJob): Promise<unknown> =>
      on.store.raiseVersion({ jobId: id, version });
    expect((await move(on, job, HOUR_MS, { store: racing(on, 4, raise) })).kind).toBe('moved');
    await expect(
      move(on, job, 0, { store: racing(on, 5, (seen) => move(on, { ...job, ...seen }, HOUR_MS)) }),
    ).rejects.toThrow(/changed during each of 5 attempts, nothing was changed/);
    expect(on.stateOf(job.id)).toBe('scheduled');
  });
});

describe('a job that gets another priority', () => {
  const prioritise = (on: Stage, { id }: Job, priority: number, own: Partial<RetimeContext> = {}) =>
    setJobPriority(contextOf(on, own), id, priority, 'ann');

  it.each([
    ['that reads the lines anew', false],
    ['that remembers them', true],
  ])('starts in its new order by a dispatcher %s', async (_, leads) => {
    const on = stage({ leads, pool: lockedPool(1) });
    const held = lockedJob(on);
    await on.put(held);
    const context = on.dispatcher();
    await on.pass({}, context);
    const [first, second, third] = [lockedJob(on), lockedJob(on), lockedJob(on)].map((job, at) => ({
      ...job,
      readyAtMs: on.time.nowMs + at,
    }));
    if (first === undefined || second === undefined || third === undefined) throw new Error('no jobs');
    await on.put(first, second, third);
    await on.pass({ jobs: [first, second, third], reason: 'stream' }, context);
    expect((await prioritise(on, third, 10)).kind).toBe('moved');
    expect((await prioritise(on, first, 0)).kind).toBe('moved');
    const changed = [first, third].map(({ id }) => on.store.inspectJob(id) as Job);
    await on.pass({ jobs: changed, reason: 'stream' }, context);
    const order: string[] = [];
    for (let left = 4; left > 0; left -= 1) {
      const ended: Job[] = [];
      for (const started of await on.startEverywhere()) {
        order.push(started.job.id);
        ended.push(await on.end(started));
      }
      await on.pass({ jobs: ended, reason: 'stream' }, context);
    }
    expect(order).toEqual([held.id, third.id, first.id, second.id]);
  });

  it('wakes its partition at once, or for its time', async () => {
    const on = stage();
    const [ready, later] = [on.job(), scheduledIn(on, HOUR_MS)];
    await on.put(ready, later);
    const sent: object[] = [];
    const queue = { sendWake: async (wake: object) => void sent.push(wake) } as unknown as MemoryJobQueue;
    await prioritise(on, ready, 5, { queue });
    await prioritise(on, later, 5, { queue });
    expect(sent).toEqual([{ partition: 0, delayMs: 0, dueAtMs: undefined }]);
    expect(on.stateOf(later.id)).toBe('scheduled');
  });

  it('is tried again when the job changes meanwhile, at the time that it then has', async () => {
    const on = stage();
    const job = on.job();
    await on.put(job);
    const store = racing(on, 1, (seen) =>
      on.store.retimeJob({ job: seen, runAtMs: on.time.nowMs + HOUR_MS, nowMs: on.time.nowMs }),
    );
    const outcome = await prioritise(on, job, 5, { store });
    expect(outcome).toMatchObject({
      kind: 'moved',
      job: { priority: 5, runAtMs: on.time.nowMs + HOUR_MS, state: 'scheduled' },
    });
  });
});
