/** What passes decide, seen from outside: who runs where and when, within every cap, whatever is stale or lost. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import { LOOK_AROUND_MS } from '../../../lib/dispatch/tuning.ts';
import type { MemoryJobQueue } from '../../../lib/queue/memory/queue.ts';
import type { Commit } from '../../../lib/store/contract/requests.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { ANNOUNCE_EVERY_MS } from '../../../lib/submit/submit.ts';
import { steppedStore } from '../../stage/interleave.ts';
import { lockedJob, lockedPool } from '../../stage/locked.ts';
import { type Stage, type StageOptions, SUCCEEDED, stage, storeWith } from '../../stage/stage.ts';

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);
const TIER = [{ tier: 'standard' }];

/** Runs everything to its end: passes, starts, ends, in rounds. */
async function workOff(on: Stage, roundsMax = 200): Promise<number> {
  let hints: Job[] = [];
  for (let round = 1; round <= roundsMax; round += 1) {
    await on.pass({ jobs: hints, reason: 'stream' });
    const started = await on.startEverywhere();
    if (started.length === 0) return round;
    await on.advance(10);
    hints = [];
    for (const each of started) hints.push(await on.end(each));
  }
  throw new Error('there is always more to do');
}

const idsOf = (jobs: readonly Pick<Job, 'id'>[]): readonly string[] => jobs.map(({ id }) => id).sort();

const states = (on: Stage, jobs: readonly Job[], state: Job['state']): number =>
  on.states(jobs).filter((each) => each === state).length;

describe('a cap', () => {
  it('that an operator lowers counts from the next pass on, and a pause stops all', async () => {
    const on = stage();
    const jobs = range(10).map(() => on.job());
    await on.put(...jobs);
    await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { maxConcurrency: 1 } });
    await on.pass();
    expect(on.held()).toHaveLength(1);
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: true } });
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const report = await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    expect([report.admitted, on.held().length]).toEqual([0, 0]);
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: false } });
    await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { maxConcurrency: null } });
    expect((await on.pass()).admitted).toBe(4);
  });

  it('counts the slots that workers register, and not those of workers that are gone', async () => {
    const on = stage({
      pool: { types: { a: {} }, tiers: TIER, fleets: { gpu: { types: ['a'], slots: null } } },
    });
    await on.put(...range(10).map(() => on.job({ type: 'a' })));
    expect((await on.pass()).admitted).toBe(0);
    const record = { incarnation: 'i', fleet: 'gpu', occupants: [], expiresAtMs: on.time.nowMs + 30_000 };
    await on.store.registerWorker({ partition: 0, record: { ...record, workerId: 'one', slots: 2 } });
    await on.store.registerWorker({ partition: 0, record: { ...record, workerId: 'other', slots: 1 } });
    await on.store.registerWorker({
      partition: 0,
      record: { ...record, workerId: 'gone', slots: 5, expiresAtMs: on.time.nowMs },
    });
    expect((await on.pass()).admitted).toBe(3);
    expect((await on.pass()).admitted).toBe(0);
  });
});

describe('the order', () => {
  it('has no holes: a hint from far behind waits until its line was read so far', async () => {
    const on = stage({
      pool: {
        types: { a: { conflictGroup: 'shelf' } },
        tiers: TIER,
        fleets: { all: { types: ['a'], slots: 2 } },
      },
    });
    const blocked = range(6).map(() => on.job({ type: 'a', priority: 10, resourceId: 'held' }));
    const [next, last] = [on.job({ type: 'a', priority: 5 }), on.job({ type: 'a', priority: 0 })];
    await on.put(...blocked, next, last);
    await on.pass({ jobs: [last], reason: 'ingest' });
    expect(on.states([next, last])).toEqual(['claimed', 'pending']);
  });
});

describe('a lost claim', () => {
  /** Somebody else changes these jobs between their reservation and their claim. */
  function racing(on: Stage, ids: readonly string[]): JobStore {
    let isDone = false;
    return steppedStore(on.store, ['claim'], async () => {
      if (isDone) return;
      isDone = true;
      for (const id of ids)
        await on.store.raiseVersion({ jobId: id, version: on.store.inspectJob(id)?.version ?? 0 });
    });
  }

  it('is dropped, and the next candidate takes its place in the same pass', async () => {
    const on = stage({ pool: lockedPool(4) });
    const jobs = range(6).map((n) => lockedJob(on, { priority: 10 - n }));
    await on.put(...jobs);
    const lost = jobs.slice(0, 2).map(({ id }) => id);
    const report = await on.pass({}, on.dispatcher({ store: racing(on, lost) }));
    expect(report).toMatchObject({ admitted: 4, lostClaims: 2 });
    expect(on.states(jobs)).toEqual(['pending', 'pending', 'claimed', 'claimed', 'claimed', 'claimed']);
    expect(idsOf(on.held())).toEqual(idsOf(jobs.slice(2)));
    expect(on.stateOf(lost[0] ?? '')).toBe('pending');
  });

  it('without an answer goes on counting, whether it was won or not', async () => {
    const on = stage({ pool: lockedPool(2) });
    const jobs = range(4).map((n) => lockedJob(on, { priority: 10 - n }));
    await on.put(...jobs);
    const store = storeWith(on.store, {
      claim: async (requests) => {
        await on.store.claim(requests.slice(0, 1));
        return requests.map(() => 'unknown');
      },
    });
    const report = await on.pass({}, on.dispatcher({ store }));
    expect([report.admitted, on.held().length]).toEqual([0, 2]);
    expect(await on.startAll('images')).toEqual([]);
    expect((await on.pass()).admitted).toBe(0);
    // Recovery: the one that was won is sent, the other one's version is raised before its place is given away.
    await on.advance(on.main.budget.checkAfterMs);
    await on.pass();
    const started = await on.startAll('images');
    expect(idsOf(started.map(({ job }) => job))).toEqual(idsOf(jobs.slice(0, 2)));
    expect(on.store.inspectJob(jobs[1]?.id ?? '')?.version).toBe(4);
  });
});

describe('a start that is refused', () => {
  /** Six jobs for four slots: the first four are told of. */
  async function told() {
    const on = stage({
      pool: {
        types: { resize: { timeoutMs: 600_000 } },
        tiers: TIER,
        fleets: { images: { types: ['resize'], slots: 4 } },
      },
    });
    const jobs = range(6).map((n) => on.job({ priority: 10 - n }));
    await on.put(...jobs);
    expect(await on.pass()).toMatchObject({ admitted: 4, lostClaims: 0 });
    expect(states(on, jobs, 'claimed')).toBe(4);
    return { on, jobs };
  }
  /** Somebody else changes these jobs between their reservation and their start. */
  const change = async (on: Stage, jobs: readonly Job[]): Promise<void> => {
    for (const { id, version } of jobs)
      expect(await on.store.raiseVersion({ jobId: id, version })).toBe('raised');
  };

  it('changes nothing, and its place is kept until something is heard of the job', async () => {
    const { on, jobs } = await told();
    await change(on, jobs.slice(0, 2));
    const changed = jobs.slice(0, 2).map(({ id }) => on.store.inspectJob(id));
    expect(await on.startAll('images')).toHaveLength(2);
    expect(jobs.slice(0, 2).map(({ id }) => on.store.inspectJob(id))).toEqual(changed);
    expect((await on.pass()).admitted).toBe(0);
    expect(on.held()).toHaveLength(4);
    // The stream tells of them: their places are free for whoever comes first, and that is they.
    const jobsTold = changed.flatMap((job) => job ?? []);
    expect(await on.pass({ jobs: jobsTold, reason: 'stream' })).toMatchObject({ settled: 2, admitted: 2 });
    expect(await on.startAll('images')).toHaveLength(2);
    expect(on.states(jobs)).toEqual([...range(4).map(() => 'running'), 'pending', 'pending']);
  });

  it('of which nobody hears gives its place back when that is looked at', async () => {
    const { on, jobs } = await told();
    for (const { id } of jobs.slice(0, 2))
      await on.store.cancelJob({ jobId: id, nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 });
    expect(await on.startAll('images')).toHaveLength(2);
    await on.advance(on.main.budget.checkAfterMs - 1);
    expect((await on.pass()).admitted).toBe(0);
    await on.advance(1);
    expect(await on.pass()).toMatchObject({ settled: 2, admitted: 2 });
    expect(idsOf(on.held())).toEqual(idsOf(jobs.slice(2)));
  });
});

describe('a future job', () => {
  it('causes its own wake, when it is scheduled soon', async () => {
    const on = stage();
    const soon = on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 5_500 });
    const later = on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 3_600_000 });
    await on.put(soon, later);
    await on.finish(dispatchAll(on.main, { jobs: [soon, later], reason: 'ingest' }));
    const startedMs = on.time.nowMs;
    await on.advance(60_000);
    expect(on.wakes.map((atMs) => atMs - startedMs)).toEqual([6_000]);
  });

  it('is woken for by the tick before it is due, once a second however many there are', async () => {
    const on = stage();
    const due = range(100).map((n) =>
      on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 30_000 + (n % 2) * 1_000 }),
    );
    await on.put(...due);
    await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
    const startedMs = on.time.nowMs;
    await on.advance(70_000);
    expect(on.wakes.map((atMs) => atMs - startedMs)).toEqual([30_000, 31_000]);
  });
});

describe('a line', () => {
  it('that was empty for long is not asked for any more, and is found again when it is announced', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    await workOff(on);
    expect(on.stateOf(job?.id ?? '')).toBe('succeeded');
    const backlogs = () => on.store.inspect(0).backlogs.size;
    await on.advance(2 * ANNOUNCE_EVERY_MS - 100);
    await on.pass();
    expect(backlogs()).toBe(1);
    // By then it is looked at again.
    await on.advance(LOOK_AROUND_MS);
    await on.pass();
    expect(backlogs()).toBe(0);
    const next = on.job();
    await on.put(next);
    expect(backlogs()).toBe(1);
    expect((await on.pass({ jobs: [next], reason: 'stream' })).admitted).toBe(1);
  });

  it('that waits for a future job is announced again when the job is due', async () => {
    const on = stage();
    const [job] = await on.put(
      on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 3 * ANNOUNCE_EVERY_MS }),
    );
    await on.advance(2 * ANNOUNCE_EVERY_MS + 1);
    await on.pass();
    expect(on.store.inspect(0).backlogs.size).toBe(0);
    await on.advance(ANNOUNCE_EVERY_MS);
    // No pass that knows of it has room for it.
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: true } });
    await on.pass();
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: false } });
    await on.pass({ reason: 'stream' });
    expect(on.stateOf(job?.id ?? '')).toBe('claimed');
  });

  it('is not retired while somebody announces it', async () => {
    const on = stage();
    await on.put(on.job());
    await workOff(on);
    await on.advance(2 * ANNOUNCE_EVERY_MS + 1);
    const announcing = steppedStore(on.store, ['retireLine'], async () => {
      await on.store.announceLines({
        partition: 0,
        lines: [{ type: 'resize', mode: 'queued', fairnessKey: 'tenant-a' }],
        nowMs: on.time.nowMs,
      });
    });
    await on.pass({}, on.dispatcher({ store: announcing }));
    expect(on.store.inspect(0).backlogs.size).toBe(1);
  });
});

describe('a commit', () => {
  const itemsOf = ({ drop, postpone, ledgers, estimates, reserve }: Commit): number =>
    1 + drop.length + postpone.length + ledgers.length + estimates.length + reserve.length;

  /** Everything on at once: much to settle, to postpone, to lift and to reserve. */
  async function crowd(ends: number, options: StageOptions = {}) {
    const commits: Commit[] = [];
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, conflictGroup: 'album' } },
        tiers: TIER,
        fleets: { images: { types: ['resize'], slots: 1_000 } },
      },
      observe: (event) => {
        if (event.kind === 'committed') commits.push(event.commit);
      },
      ...options,
    });
    await on.put(...range(400).map((n) => on.job({ fairnessKey: `tenant-${n}`, resourceId: `album-${n}` })));
    await on.pass();
    const started = await on.startEverywhere();
    expect(started).toHaveLength(400);
    await on.advance(on.main.budget.checkAfterMs + 1);
    const hints: Job[] = [];
    for (const each of started.slice(0, ends)) hints.push(await on.end(each, SUCCEEDED));
    commits.length = 0;
    return { on, hints, commits };
  }

  it.each([44, 45, 46, 200, 400])('has at most a hundred items, when %i jobs end at once', async (ends) => {
    const { on, hints, commits } = await crowd(ends);
    await on.put(...range(200).map((n) => on.job({ fairnessKey: `new-${n}`, resourceId: `new-album-${n}` })));
    const report = await on.pass({ jobs: hints, reason: 'stream' });
    expect(report).toMatchObject({ kind: 'done', settled: ends, admitted: 200 });
    expect(Math.max(...commits.map(itemsOf))).toBeLessThanOrEqual(100);
    expect(on.held()).toHaveLength(400 - ends + 200);
  });

  it('carries more jobs, the more have started in its pass already: the first of them go out soon', async () => {
    const { on, commits } = await crowd(0);
    const told: number[] = [];
    const toldBefore: number[] = [];
    const store = storeWith(on.store, {
      commit: (request) => {
        if (request.commit.reserve.length > 0) toldBefore.push(told.reduce((sum, count) => sum + count, 0));
        return on.store.commit(request);
      },
    });
    const send: MemoryJobQueue['send'] = (fleet, jobs, together) => {
      told.push(jobs.length);
      return on.queue.send(fleet, jobs, together);
    };
    const queue = storeWith(on.queue, { send });
    await on.put(...range(560).map((n) => on.job({ fairnessKey: `tenant-${n}` })));
    const report = await on.pass({}, on.dispatcher({ store, queue }));
    expect(report).toMatchObject({ kind: 'done', admitted: 560 });
    expect(told).toEqual([50, 100, 200, 200, 10]);
    // Each commit finds its forerunners' jobs told of: none goes out before its own, and none waits for the last.
    expect(toldBefore).toEqual([0, 50, 150, 350, 550]);
    const reserved = commits.filter(({ reserve }) => reserve.length > 0);
    expect(reserved.map(({ reserve }) => reserve.map(({ jobs }) => jobs.size))).toEqual([
      [50],
      [50, 50],
      [50, 50, 50, 50],
      [50, 50, 50, 50],
      [10],
    ]);
    expect(on.held()).toHaveLength(960);
  });
});

describe('a hint', () => {
  it('that is stale is harmless', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    if (job === undefined) throw new Error('no job');
    await on.pass();
    expect((await on.pass({ jobs: [job], reason: 'stream' })).admitted).toBe(0);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    expect((await on.pass({ jobs: [job, started.job], reason: 'stream' })).settled).toBe(0);
    const ended = await on.end(started);
    expect((await on.pass({ jobs: [ended, job], reason: 'stream' })).settled).toBe(1);
    expect((await on.pass({ jobs: [ended, job, started.job], reason: 'stream' })).settled).toBe(0);
    expect([on.stateOf(job.id), on.held()]).toEqual(['succeeded', []]);
    expect(on.store.inspectJob(job.id)?.version).toBe(4);
  });

  it('of a type that is not configured any more disturbs nobody', async () => {
    const on = stage();
    const [, other] = await on.put(on.job({ type: 'gone' }), on.job());
    const gone = on.job({ type: 'gone' });
    await on.pass({ jobs: [gone], reason: 'ingest' });
    expect(on.stateOf(other?.id ?? '')).toBe('claimed');
  });
});
