import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { jobsToPark } from '../../../lib/dispatch/pass/parking.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aJob } from '../../fixtures/factories/job.ts';
import { LOCKED_KEY } from '../../stage/locked.ts';
import { type Stage, type Started, stage, storeWith } from '../../stage/stage.ts';

const SLOTS = 4;

const conflicting = ({ slots = SLOTS, parkKept = 4, partitions = 1 } = {}) =>
  stage({
    budget: { parkKept },
    pool: {
      types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000, conflictGroup: 'catalogue' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots } },
      partitions,
    },
  });

/** Counts the heads that a pass reads, of whatever line. */
function counting(store: JobStore): { readonly store: JobStore; readonly take: () => number } {
  let heads = 0;
  const counted = <T extends { readonly jobs: readonly unknown[] }>(read: T): T => {
    heads += read.jobs.length;
    return read;
  };
  return {
    store: storeWith(store, {
      readLine: async (asked) => counted(await store.readLine(asked)),
      readBlocked: async (asked) => counted(await store.readBlocked(asked)),
    }),
    take: () => {
      const taken = heads;
      heads = 0;
      return taken;
    },
  };
}

/** Passes until one has nothing more to do. */
async function passes(on: Stage, context: DispatchContext): Promise<void> {
  for (let run = 0; run < 100; run += 1) {
    if ((await on.pass({}, context)).kind === 'done') return;
  }
  throw new Error('the passes never end');
}

describe('parking', () => {
  it('lets jobs of the same key and line start that stand behind 10,000 of one conflict key', async () => {
    const on = conflicting();
    const { store, take } = counting(on.store);
    const context = on.dispatcher({ store });
    await on.put(...Array.from({ length: 10_000 }, () => on.job({ resourceId: 'photos' })));
    await on.advance(1);
    const others = await on.put(...Array.from({ length: 40 }, () => on.job()));
    await passes(on, context);
    expect(on.states(others).filter((state) => state === 'claimed')).toHaveLength(SLOTS - 1);
    take();
    for (let round = 0; round < 10; round += 1) {
      const [blocker, ...running] = (await on.startAll('images')).toSorted((one) =>
        one.job.resourceId === undefined ? 1 : -1,
      );
      if (blocker === undefined) throw new Error('nothing runs');
      const ended = await Promise.all([blocker, ...running].map((each) => on.end(each)));
      const report = await on.pass({ jobs: ended, reason: 'stream' }, context);
      // The blocker's successor and others: every slot is taken again, whatever waits in front.
      expect(report).toMatchObject({ admitted: SLOTS });
      expect(take()).toBeLessThanOrEqual(report.passes * 10 * SLOTS);
    }
    expect(on.states(others).filter((state) => state === 'succeeded').length).toBeGreaterThanOrEqual(27);
  });

  /** Sixty jobs of one conflict key, of which the first of those that were parked stand in their ready line again. Nothing runs. */
  async function movedBack(on: Stage, changes: Partial<Job>) {
    const jobs = await on.put(
      ...Array.from({ length: 60 }, () => on.job({ resourceId: 'photos', ...changes })),
    );
    await passes(on, on.main);
    const [running] = await on.startAll('images');
    if (running === undefined) throw new Error('nothing runs');
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: true } });
    // The first of those that are parked stands in its ready line again; nothing may start.
    await on.pass({ jobs: [await on.end(running)], reason: 'stream' });
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: false } });
    const line = { type: 'resize', mode: 'queued', fairnessKey: running.job.fairnessKey } as const;
    /** Somebody cancels all that stands in the ready line, and the stream tells of none of them. */
    const cancelReady = async (): Promise<readonly string[]> => {
      const { jobs: ready } = await on.store.readLine({ partition: 0, line, limit: jobs.length });
      for (const { id } of ready)
        await on.store.cancelJob({ jobId: id, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 });
      return ready.map(({ id }) => id);
    };
    return { jobs, cancelReady };
  }

  it('keeps nothing parked behind jobs whose claim was lost, though no hint tells that they are gone', async () => {
    // Of two partitions: a lock guards the key, so that the pass claims.
    const on = conflicting({ slots: 2 * SLOTS, partitions: 2 });
    const { jobs, cancelReady } = await movedBack(on, { partition: 0, fairnessKey: LOCKED_KEY });
    let cancelled = 0;
    const store = storeWith(on.store, {
      claim: async (requests) => {
        if (cancelled === 0) cancelled = (await cancelReady()).length;
        return on.store.claim(requests);
      },
    });
    expect(await on.pass({}, { ...on.main, store })).toMatchObject({ admitted: 1 });
    expect(cancelled).toBeGreaterThan(0);
    expect(cancelled).toBeLessThan(jobs.length / 2);
  });

  it.each([
    ['a hint tells of it', true],
    ['its place is looked at', false],
  ])('keeps nothing parked behind a job that was told of and is gone, once %s', async (_, isTold) => {
    const on = conflicting();
    const { jobs, cancelReady } = await movedBack(on, {});
    expect((await on.pass()).admitted).toBe(1);
    const [told] = on.held();
    const cancelled = await cancelReady();
    expect(cancelled).toContain(told?.id);
    expect(cancelled.length).toBeLessThan(jobs.length / 2);
    expect(await on.startAll('images')).toEqual([]);
    expect((await on.pass()).admitted).toBe(0);
    if (!isTold) await on.advance(on.main.budget.checkAfterMs);
    const gone = [on.store.inspectJob(told?.id ?? '')].filter((job) => job !== undefined);
    expect(await on.pass(isTold ? { jobs: gone, reason: 'stream' } : {})).toMatchObject({
      settled: 1,
      admitted: 1,
    });
    const [next] = await on.startAll('images');
    expect(jobs.map(({ id }) => id)).toContain(next?.job.id);
    expect(cancelled).not.toContain(next?.job.id);
  });

  it('remembers those that were moved back longer than hints are remembered', async () => {
    const on = conflicting({ slots: 2, parkKept: 1 });
    const long = on.job({ priority: 10 });
    const first = on.job({ priority: 10, resourceId: 'photos' });
    const kept = on.job({ priority: 9, resourceId: 'photos' });
    const parked = [5, 4].map((priority) => on.job({ priority, resourceId: 'photos' }));
    const last = on.job({ priority: 0 });
    const between = on.job({ priority: 10 });
    const come = async (job: Job, ended: readonly Job[] = []): Promise<void> => {
      await on.put(job);
      await on.pass({ jobs: [...ended, job], reason: 'stream' });
    };
    /** Ends the one of these that runs, and answers its image. */
    const end = async ({ id }: Job): Promise<Job> => {
      const started = running.get(id);
      if (started === undefined) throw new Error(`${id} does not run`);
      return on.end(started);
    };
    const running = new Map<string, Started>();
    const start = async (): Promise<void> => {
      for (const started of await on.startAll('images')) running.set(started.job.id, started);
    };
    // From then on it has missed nothing, and trusts what it reads.
    await on.pass();
    await on.advance(on.main.budget.seenWithinMs);
    await on.put(first, kept, ...parked);
    await on.pass();
    await come(long);
    await come(last);
    await start();
    await on.pass({ jobs: [await end(first)], reason: 'stream' });
    await start();
    await come(between, [await end(kept)]);
    await start();
    // Nobody remembers what a hint told so long ago.
    await on.advance(20_000);
    await on.pass({ jobs: [await end(between)], reason: 'stream' });
    expect(on.states([...parked, last])).toEqual(['claimed', 'pending', 'pending']);
  });

  it('takes its mark away when the line has been empty for long', async () => {
    const on = conflicting();
    const jobs = await on.put(...Array.from({ length: 30 }, () => on.job({ resourceId: 'photos' })));
    const context = on.dispatcher({ budget: { ...on.main.budget, parkKept: 1 } });
    await passes(on, context);
    const marks = (): number => on.store.inspect(0).parked.size;
    expect(marks()).toBe(1);
    for (let round = 0; round < 60 && on.states(jobs).some((state) => state !== 'succeeded'); round += 1) {
      const ended: Job[] = [];
      for (const started of await on.startAll('images')) ended.push(await on.end(started));
      await on.pass({ jobs: ended, reason: 'stream' }, context);
    }
    expect(on.states(jobs).every((state) => state === 'succeeded')).toBe(true);
    await on.advance(61_000);
    await on.put(on.job());
    await on.pass({}, context);
    expect(marks()).toBe(0);
    expect(on.store.inspect(0).parks).toBe(true);
    // Nothing is marked any more: the next round says so, and from then on no pass looks for anything.
    await on.advance(61_000);
    await on.put(on.job());
    await on.pass({}, context);
    expect(on.store.inspect(0).parks).toBe(false);
  });

  it('leaves a few of each conflict key where they stand, and few alone', () => {
    const met = (count: number, conflictKey: string) =>
      Array.from({ length: count }, () => ({ job: aJob(), conflictKey }));
    const [few, many] = [met(8, 'few'), met(9, 'many')];
    expect(jobsToPark([...few, ...many], new Set(), 4)).toEqual(
      new Map([['many', many.slice(4).map(({ job }) => job)]]),
    );
    expect(jobsToPark(many, new Set(many.map(({ job }) => job.id)), 4)).toEqual(new Map());
  });
});
