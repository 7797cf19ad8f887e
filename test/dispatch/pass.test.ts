/** What passes decide, seen from outside: who runs where and when, within every cap, whatever is stale or lost. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { dispatch, dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { ANNOUNCE_EVERY_MS } from '../../lib/dispatch/submit.ts';
import { READ_TRUSTED_MS } from '../../lib/dispatch/view/view.ts';
import type { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import type { Commit } from '../../lib/store/requests.ts';
import { toldJobs } from '../testing/received.ts';
import { steppedStore } from './interleave.ts';
import { lockedJob, lockedPool } from './locked.ts';
import { FAILED, type Stage, type StageOptions, SUCCEEDED, stage, storeWith } from './stage.ts';
import { watch } from './watch.ts';

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);
const TIER = [{ tier: 'standard' }];

/** A stage on which nothing may ever go wrong. */
function watched(options: StageOptions) {
  let on: Stage | undefined;
  const { observe, ...eyes } = watch(() => (on as Stage).configuration);
  on = stage({ ...options, observe });
  return { on, ...eyes };
}

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
  const pool = (changes: Partial<PoolInput>): PoolInput => ({
    types: { a: {}, b: {} },
    tiers: TIER,
    fleets: { all: { types: ['a', 'b'], slots: 50 } },
    ...changes,
  });
  const cases: readonly (readonly [string, PoolInput, string, number])[] = [
    ['of a type', pool({ types: { a: { maxConcurrency: 3 }, b: {} } }), 'type a', 3],
    ['of a tier', pool({ tiers: [{ tier: 'standard', maxConcurrency: 4 }] }), 'tier standard', 4],
    ['of a key', pool({ fairness: { maxConcurrencyPerKey: 2 } }), 'key tenant-0', 2],
    ['of the pool', pool({ maxConcurrency: 5 }), 'pool', 5],
    ['of a fleet', pool({ fleets: { all: { types: ['a', 'b'], slots: 6 } } }), 'fleet all', 6],
  ];

  it.each(cases)('%s is reached and never exceeded', async (_, input, scope, cap) => {
    const { on, most, expectNothingWrong } = watched({ pool: input });
    const jobs = range(60).map((n) =>
      on.job({ type: n % 2 === 0 ? 'a' : 'b', fairnessKey: `tenant-${n % 3}` }),
    );
    await on.put(...jobs);
    await workOff(on);
    expect(states(on, jobs, 'succeeded')).toBe(60);
    expect(most.get(scope)).toBe(cap);
    expectNothingWrong();
  });

  it('leaves room for those that it does not concern', async () => {
    const on = stage({ pool: pool({ types: { a: { maxConcurrency: 1 }, b: {} } }) });
    const [a, b] = [
      range(30).map(() => on.job({ type: 'a', priority: 10 })),
      range(10).map(() => on.job({ type: 'b' })),
    ];
    await on.put(...a, ...b);
    await on.pass();
    expect([states(on, a, 'claimed'), states(on, b, 'claimed')]).toEqual([1, 10]);
  });

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

describe('jobs of one conflict key', () => {
  const pool: PoolInput = {
    types: {
      a: { conflictGroup: 'shelf' },
      b: { conflictGroup: 'shelf', tier: 'low' },
      c: { conflictGroup: 'other' },
    },
    tiers: [{ tier: 'standard' }, { tier: 'low' }],
    fleets: { all: { types: ['a', 'b', 'c'], slots: 20 } },
  };

  it('never run together, whatever their type, tier or key', async () => {
    const { on, expectNothingWrong, most } = watched({ pool });
    const jobs = range(30).map((n) =>
      on.job({ type: 'abc'.charAt(n % 3), fairnessKey: `tenant-${n % 4}`, resourceId: `shelf-${n % 2}` }),
    );
    await on.put(...jobs);
    await workOff(on);
    expect(states(on, jobs, 'succeeded')).toBe(30);
    expect(
      Math.max(...[...most].filter(([scope]) => scope.startsWith('conflict')).map(([, count]) => count)),
    ).toBe(1);
    expectNothingWrong();
  });

  it('do not hold up the others', async () => {
    const on = stage({ pool });
    const blocked = range(20).map(() => on.job({ type: 'a', resourceId: 'shelf', priority: 10 }));
    const free = range(10).map((n) => on.job({ type: 'a', resourceId: `shelf-${n}` }));
    await on.put(...blocked, ...free);
    await on.pass();
    expect([states(on, blocked, 'claimed'), states(on, free, 'claimed')]).toEqual([1, 10]);
  });

  it('exclude nobody without a resource', async () => {
    const on = stage({ pool });
    await on.put(...range(5).map(() => on.job({ type: 'a' })));
    expect((await on.pass()).admitted).toBe(5);
  });
});

describe('placement', () => {
  it('takes the specialist first, so that the versatile fleet stays free', async () => {
    const on = stage({
      pool: {
        types: { a: {}, b: {} },
        tiers: TIER,
        fleets: { general: { types: ['a', 'b'], slots: 1 }, special: { types: ['a'], slots: 1 } },
      },
    });
    const [a, b] = await on.put(on.job({ type: 'a', priority: 5 }), on.job({ type: 'b' }));
    await on.pass();
    const fleets = new Map(on.held().map(({ id, fleet }) => [id, fleet]));
    expect([fleets.get(a?.id ?? ''), fleets.get(b?.id ?? '')]).toEqual(['special', 'general']);
    expect(await on.startAll('special')).toHaveLength(1);
    expect(await on.startAll('general')).toHaveLength(1);
  });
});

describe('the order', () => {
  const one: PoolInput = { types: { a: {} }, tiers: TIER, fleets: { all: { types: ['a'], slots: 1 } } };

  async function orderOf(on: Stage, jobs: readonly Job[]): Promise<readonly number[]> {
    await on.put(...jobs);
    const order: number[] = [];
    let hints: Job[] = [];
    for (const _ of jobs) {
      await on.pass({ jobs: hints, reason: 'stream' });
      const [started] = await on.startAll('all');
      if (started === undefined) throw new Error('nothing started');
      order.push(jobs.findIndex(({ id }) => id === started.job.id));
      hints = [await on.end(started)];
    }
    return order;
  }

  it('takes who somebody waits for before who is queued, at any priority up to 3', async () => {
    const on = stage({ pool: one });
    const jobs = [
      on.job({ type: 'a', priority: 3 }),
      on.job({ type: 'a', mode: 'onDemand' }),
      on.job({ type: 'a', priority: 10 }),
    ];
    expect(await orderOf(on, jobs)).toEqual([2, 1, 0]);
  });

  it('lets 64 seconds of waiting make up for one unit of priority', async () => {
    const on = stage({ pool: one });
    const ready = (agoSec: number, priority: number): Job =>
      on.job({ type: 'a', priority, readyAtMs: on.time.nowMs - agoSec * 1_000 });
    expect(await orderOf(on, [ready(0, 1), ready(65, 0), ready(63, 0)])).toEqual([1, 0, 2]);
  });

  it('takes turns between fairness keys by what they have cost', async () => {
    const on = stage({ pool: one });
    const jobs = range(8).map((n) => on.job({ type: 'a', fairnessKey: n < 6 ? 'busy' : 'small' }));
    const order = await orderOf(on, jobs);
    expect(order.slice(0, 4).filter((n) => n >= 6)).toHaveLength(2);
  });

  it('takes higher tiers first', async () => {
    const on = stage({
      pool: {
        types: { a: { tier: 'low' }, b: { tier: 'high' } },
        tiers: [{ tier: 'high' }, { tier: 'low' }],
        fleets: { all: { types: ['a', 'b'], slots: 1 } },
      },
    });
    expect(await orderOf(on, [on.job({ type: 'a', priority: 10 }), on.job({ type: 'b' })])).toEqual([1, 0]);
  });

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

  it('is the same when candidates come as hints that the index does not show yet', async () => {
    const on = stage({ pool: one, store: { indexLagMs: 60_000 }, seed: 3 });
    const jobs = [
      on.job({ type: 'a' }),
      on.job({ type: 'a', priority: 9 }),
      on.job({ type: 'a', priority: 5 }),
    ];
    await on.put(...jobs);
    const report = await on.pass({ jobs, reason: 'ingest' });
    expect(report.admitted).toBe(1);
    expect(on.stateOf(jobs[1]?.id ?? '')).toBe('claimed');
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

  it('makes the candidates be read again after more than five in a row, and then they are won', async () => {
    const on = stage({ pool: lockedPool(8) });
    const jobs = range(8).map(() => lockedJob(on));
    await on.put(...jobs);
    const ids = jobs.map(({ id }) => id);
    expect((await on.pass({}, on.dispatcher({ store: racing(on, ids) }))).lostClaims).toBeGreaterThan(5);
    const left = states(on, jobs, 'pending');
    await on.pass();
    expect(left).toBeLessThanOrEqual(8);
    expect(states(on, jobs, 'claimed')).toBe(8);
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

describe('a message that gets lost', () => {
  it('goes on counting, and is sent again when its job is looked at: whichever copy comes first starts it', async () => {
    const on = stage({
      pool: { types: { resize: {} }, tiers: TIER, fleets: { images: { types: ['resize'], slots: 2 } } },
    });
    const jobs = range(4).map((n) => on.job({ priority: 10 - n }));
    await on.put(...jobs);
    expect((await on.pass()).admitted).toBe(2);
    const lost = toldJobs(await on.queue.receive('images', 10, 0, 3_600_000));
    expect(idsOf(lost.map(({ message }) => ({ id: message.jobId })))).toEqual(idsOf(jobs.slice(0, 2)));
    expect([(await on.pass()).admitted, on.held().length]).toEqual([0, 2]);
    await on.advance(on.main.budget.checkAfterMs);
    expect(await on.pass()).toMatchObject({ settled: 0, admitted: 0 });
    const again = toldJobs(await on.queue.receive('images', 10, 0, 3_600_000));
    const ofJob = (one: { readonly jobId: string }, other: { readonly jobId: string }) =>
      one.jobId < other.jobId ? -1 : 1;
    const messages = (told: typeof lost) => told.map(({ message }) => message).sort(ofJob);
    // Claimed by now, which a worker of a former version starts, too.
    expect(jobs.slice(0, 2).map(({ id }) => on.store.inspectJob(id)?.state)).toEqual(['claimed', 'claimed']);
    expect(messages(again)).toEqual(messages(lost).map(({ jobId, claimId }) => ({ jobId, claimId })));
    const start = { workerId: 'w', incarnation: 'i', nowMs: on.time.nowMs };
    for (const { message } of [...lost, ...again]) await on.store.startJob({ ...message, ...start });
    const started = jobs.slice(0, 2).map(({ id }) => on.store.inspectJob(id));
    expect(started.map((job) => [job?.state, job?.version])).toEqual([
      ['running', 3],
      ['running', 3],
    ]);
    const other = { ...start, workerId: 'other' };
    for (const { message } of [...lost, ...again])
      expect(await on.store.startJob({ ...message, ...other })).toEqual({ kind: 'superseded' });
    expect(on.held()).toHaveLength(2);
  });
});

describe('two dispatchers at once', () => {
  /** Every call takes a while before and after it is carried out. */
  const slowed = (on: Stage): JobStore =>
    new Proxy(on.store, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== 'function') return method;
        return async (...parameters: readonly unknown[]) => {
          await on.clock.sleep(on.random() * 40);
          const answer: unknown = await method.apply(target, parameters);
          await on.clock.sleep(on.random() * 40);
          return answer;
        };
      },
    });

  it.each(range(12))('never claim one job twice, nor exceed a cap: seed %i', async (seed) => {
    const { on, claims, expectNothingWrong } = watched({
      seed,
      // So short that some still lead when the next ones begin to.
      budget: { leadMs: seed % 3 === 0 ? 500 : 10_000, batchJobs: 3 },
      pool: {
        types: { a: { maxConcurrency: 3 }, b: { conflictGroup: 'shelf' } },
        tiers: TIER,
        fleets: { special: { types: ['a'], slots: 2 }, general: { types: ['a', 'b'], slots: 5 } },
        fairness: { maxConcurrencyPerKey: 4 },
      },
    });
    const jobs = range(40).map((n) =>
      on.job({ type: n % 2 === 0 ? 'a' : 'b', fairnessKey: `tenant-${n % 3}`, resourceId: `shelf-${n % 5}` }),
    );
    await on.put(...jobs);
    const dispatchers = range(8).map(() => on.dispatcher({ store: slowed(on) }));
    let hints: Job[] = jobs.slice(0, 10);
    for (let round = 0; round < 60 && states(on, jobs, 'succeeded') < jobs.length; round += 1) {
      const seen = hints;
      await on.finish(
        Promise.all(dispatchers.map((each) => dispatch(each, 0, { jobs: seen, reason: 'stream' }))),
      );
      hints = [];
      for (const started of await on.startEverywhere()) hints.push(await on.end(started));
      // What a lost commit left behind is found when its time has come.
      if (hints.length === 0) await on.advance(on.main.budget.checkAfterMs);
    }
    expect(states(on, jobs, 'succeeded')).toBe(40);
    expect([...claims.values()]).toEqual(jobs.map(() => 1));
    expectNothingWrong();
  });
});

describe('a future job', () => {
  it('is never early, and is promoted when it is due', async () => {
    const on = stage();
    const job = on.job({
      state: 'scheduled',
      runAtMs: on.time.nowMs + 5_000,
      readyAtMs: on.time.nowMs + 5_000,
    });
    await on.put(job);
    await on.pass();
    await on.advance(4_999);
    expect((await on.pass()).admitted).toBe(0);
    expect(on.stateOf(job.id)).toBe('scheduled');
    await on.advance(1);
    expect((await on.pass()).admitted).toBe(1);
  });

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

  it('that is found late runs at once, and counts its age from the time it was asked for', async () => {
    const on = stage();
    const runAtMs = on.time.nowMs + 1_000;
    const [job] = await on.put(on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs }));
    await on.advance(3_600_000);
    expect((await on.pass()).admitted).toBe(1);
    expect(on.store.inspectJob(job?.id ?? '')?.readyAtMs).toBe(runAtMs);
  });
});

describe('a failed attempt', () => {
  it('is tried again after its delay, and its first attempt is settled meanwhile', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined || job === undefined) throw new Error('nothing started');
    await on.advance(200);
    const runAtMs = on.time.nowMs + 2_500;
    const again = await on.end(started, { kind: 'retry', error: { name: 'E', message: '' }, runAtMs });
    await on.finish(dispatchAll(on.main, { jobs: [again], reason: 'stream' }));
    expect(on.held()).toEqual([]);
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(200);
    await on.advance(2_499);
    await on.pass();
    expect(on.stateOf(job.id)).toBe('scheduled');
    expect(on.wakes).toEqual([]);
    await on.advance(501);
    expect(on.wakes).toHaveLength(1);
    await on.pass();
    const [second] = await on.startAll('images');
    expect(second?.job).toMatchObject({ id: job.id, attempt: 2 });
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
    await on.advance(READ_TRUSTED_MS);
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

  it.each(range(12).map((n) => 38 + n))(
    'has at most a hundred items, when %i jobs end while keys come back',
    async (ends) => {
      // The keys that wait have been charged nothing, while the active ones have: each is lifted when it is admitted.
      const { on, commits } = await crowd(0);
      const jobs = range(200).map((n) => on.job({ fairnessKey: `new-${n}`, resourceId: `new-album-${n}` }));
      await on.put(...jobs);
      await on.commit({});
      const running = [...on.store.everyJob()].filter(({ state }) => state === 'running');
      const ended: Job[] = [];
      for (const job of running.slice(0, ends)) ended.push(await on.end({ job }, FAILED));
      commits.length = 0;
      const report = await on.pass({ jobs: ended, reason: 'stream' });
      expect(report).toMatchObject({ kind: 'done', settled: ends, admitted: 200 });
      expect(
        commits.some(({ ledgers }) => ledgers.some(({ fairnessKey }) => fairnessKey.startsWith('new'))),
      ).toBe(true);
      expect(Math.max(...commits.map(itemsOf))).toBeLessThanOrEqual(100);
    },
  );
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

  it('that comes twice settles once', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(300);
    const ended = await on.end(started);
    await on.pass({ jobs: [ended, ended], reason: 'stream' });
    await on.pass({ jobs: [ended], reason: 'stream' });
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(300);
  });

  it('of a type that is not configured any more disturbs nobody', async () => {
    const on = stage();
    const [, other] = await on.put(on.job({ type: 'gone' }), on.job());
    const gone = on.job({ type: 'gone' });
    await on.pass({ jobs: [gone], reason: 'ingest' });
    expect(on.stateOf(other?.id ?? '')).toBe('claimed');
  });

  it('is all that a stream with late records has, and everything ends', async () => {
    const { on, expectNothingWrong } = watched({
      store: { streamLateMs: 3_000, streamDuplicated: 0.3, indexLagMs: 800 },
      seed: 7,
    });
    const seen: Job[] = [];
    on.store.subscribe(({ newJob }) => seen.push(newJob));
    const jobs = range(30).map((n) => on.job({ fairnessKey: `tenant-${n % 3}` }));
    await on.put(...jobs);
    for (let round = 0; round < 300 && states(on, jobs, 'succeeded') < 30; round += 1) {
      await on.pass({ jobs: seen.splice(0), reason: 'stream' });
      for (const started of await on.startEverywhere()) await on.end(started);
      await on.advance(500);
    }
    expect(states(on, jobs, 'succeeded')).toBe(30);
    await on.advance(5_000);
    await on.pass({ jobs: seen.splice(0), reason: 'stream' });
    expect(on.held()).toEqual([]);
    expectNothingWrong();
  });
});
