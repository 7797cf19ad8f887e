/** What becomes of reservations that nothing was heard of, and what a pass makes of what is left behind. */

import { describe, expect, it } from 'vitest';
import { claimIdOf, type Job } from '../../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../../lib/core/lease.ts';
import type { JobTypeInput } from '../../../lib/core/pool-input.ts';
import { RAMP_FIRST } from '../../../lib/dispatch/tuning.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { FUNCTION_END_MS } from '../../../lib/worker/run-job.ts';
import { steppedStore } from '../../stage/interleave.ts';
import { lockedJob, lockedPool } from '../../stage/locked.ts';
import { FAILED, type Stage, type StageOptions, type Started, stage, storeWith } from '../../stage/stage.ts';
import { onlyJob, toldJobs } from '../../testing/received.ts';

/** With what a function needs for its end, and what clocks differ: as long as a reservation waits for its check. */
const TIMEOUT_MS = 50_000;

const setting = (
  type: JobTypeInput = {},
  slots: number | null = 4,
  budget: StageOptions['budget'] = {},
): Stage =>
  stage({
    budget,
    pool: {
      types: { resize: { timeoutMs: TIMEOUT_MS, ...type } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots } },
    },
  });

/** A job that its fleet was told of, or that has started. */
async function claimed(on: Stage): Promise<Job> {
  const job = on.job();
  await on.put(job);
  await on.pass({ jobs: [job], reason: 'stream' });
  return on.store.inspectJob(job.id) as Job;
}
async function running(on: Stage): Promise<Started> {
  await claimed(on);
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started;
}
/** Of a job with a lock: the dispatcher dies between its reservation and its claim. */
async function neverClaimed(on: Stage): Promise<Job> {
  const job = lockedJob(on);
  await on.put(job);
  const store = storeWith(on.store, { claim: async (requests) => requests.map(() => 'unknown') });
  await on.pass({}, on.dispatcher({ store }));
  expect([on.held().length, on.store.inspectJob(job.id)?.state]).toEqual([1, 'pending']);
  expect(on.queue.sizeOf('images')).toBe(0);
  return job;
}
const lookAtAll = (on: Stage): Promise<void> =>
  on.store.putLetter({ partition: 0, letter: { looksAtAll: true }, nowMs: on.time.nowMs });
const untilChecked = (on: Stage): Promise<unknown> => on.advance(on.main.budget.checkAfterMs);

/** Counts what is read by id: recovery is the only one that does. */
function counted(on: Stage): { readonly store: JobStore; readonly reads: () => number } {
  let reads = 0;
  const store = storeWith(on.store, {
    lookUpJobs: async ({ ids }) => {
      reads += ids.length;
      return on.store.getJobs({ ids });
    },
  });
  return { store, reads: () => reads };
}

describe('a reservation', () => {
  it('is looked at in its turn, so many in one pass, those that have waited longest first', async () => {
    const on = setting({ timeoutMs: 600_000 }, 10, { checkMax: 2, batchJobs: 1 });
    for (let n = 0; n < 5; n += 1) {
      await claimed(on);
      await on.advance(10);
    }
    await on.startAll('images');
    const { store, reads } = counted(on);
    await untilChecked(on);
    for (const expected of [2, 4, 5, 5]) {
      await on.pass({}, on.dispatcher({ store }));
      expect(reads()).toBe(expected);
    }
  });
});

describe('a look at what is in flight that somebody asked for', () => {
  /** Runs passes during which somebody leaves a letter. */
  async function woken(on: Stage): Promise<number> {
    let isDone = false;
    const store = steppedStore(on.store, ['stopLeading'], async () => {
      if (!isDone) await lookAtAll(on);
      isDone = true;
    });
    return (await on.pass({}, on.dispatcher({ store }))).passes;
  }

  it('takes no place away whose start may still come', async () => {
    const on = setting({}, 1);
    const job = on.job();
    await on.put(job);
    await on.pass();
    expect(await woken(on)).toBe(2);
    expect([on.store.inspectJob(job.id)?.version, on.held().length]).toEqual([1, 1]);
    expect(await on.startAll('images')).toHaveLength(1);
  });

  it('settles all that has ended, however little one pass checks of itself', async () => {
    const on = setting({ timeoutMs: 600_000 }, 4, { checkMax: 1, batchJobs: 1 });
    await on.put(...Array.from({ length: 4 }, () => on.job()));
    await on.pass();
    for (const started of await on.startAll('images')) await on.end(started);
    expect(on.held()).toHaveLength(4);
    await woken(on);
    expect(on.held()).toEqual([]);
  });

  it('goes on where more of them than one commit can postpone are due, and none has ended', async () => {
    const on = setting({ timeoutMs: 600_000 }, 250, { batchJobs: 1 });
    const jobs = Array.from({ length: 250 }, () => on.job());
    await on.put(...jobs);
    for (let round = 0; on.held().length < jobs.length && round < jobs.length; round += 1) await on.pass();
    expect(on.store.inspect(0).reservations.size).toBe(jobs.length);
    await on.startAll('images');
    await untilChecked(on);
    const nowMs = on.clock.nowMs();
    await woken(on);
    const checksMs = [...on.store.inspect(0).reservations.values()].map(({ checkAtMs }) => checkAtMs);
    expect(checksMs.filter((atMs) => atMs > nowMs)).toHaveLength(jobs.length);
  });
});

describe('a job that its fleet was told of', () => {
  it('whose message is lost is told of again, for the place that it has, until somebody starts it', async () => {
    const on = setting();
    const job = await claimed(on);
    const claimIds = new Set<string>();
    for (let times = 1; times <= 3; times += 1) {
      const { claimId, toClaim } = onlyJob((await on.queue.receive('images', 10, 0, 3_600_000))[0]);
      claimIds.add(claimId);
      // Nobody but its start claims it before it is looked at.
      expect([toClaim?.version, on.store.inspectJob(job.id)?.state]).toEqual(
        times === 1 ? [1, 'pending'] : [undefined, 'claimed'],
      );
      expect(on.held()).toMatchObject([{ id: job.id, version: 1 }]);
      await untilChecked(on);
      expect(await on.pass()).toMatchObject({ settled: 0, admitted: 0 });
    }
    const [started] = await on.startAll('images');
    expect(started?.job).toMatchObject({ id: job.id, version: 3, attempt: 1 });
    expect([...claimIds]).toEqual([started?.message.claimId]);
    expect(on.held()).toHaveLength(1);
  });

  it('whose queue fails holds up nobody', async () => {
    const on = setting();
    const queue = new Proxy(on.queue, {
      get: (target, name) =>
        name === 'send' ? () => Promise.reject(new Error('no queue')) : Reflect.get(target, name),
    });
    await on.put(on.job());
    expect((await on.pass({}, on.dispatcher({ queue }))).kind).toBe('done');
    expect(on.logged.map(({ message }) => message)).toContain('messages could not be sent');
  });
});

describe('a job that was told of, and whose place is looked at', () => {
  it('keeps its place when its start arrives while it is claimed', async () => {
    const on = setting({}, 1);
    const job = await claimed(on);
    const store = steppedStore(on.store, ['claim'], async () => {
      expect(await on.startAll('images')).toHaveLength(1);
    });
    await untilChecked(on);
    expect(await on.pass({}, on.dispatcher({ store }))).toMatchObject({ settled: 0, admitted: 0 });
    expect(on.held()).toMatchObject([{ id: job.id, version: 1 }]);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'running', version: 3 });
  });
});

describe('a job that was reserved and never claimed', () => {
  it('has its version raised before its place is given away, so that a late claim fails', async () => {
    const on = stage({ pool: lockedPool(1) });
    const job = await neverClaimed(on);
    const [{ batchId = '' } = {}] = on.store.inspect(0).reservations.values();
    const late = {
      jobId: job.id,
      version: 1,
      claimId: claimIdOf(batchId, 0),
      batchId,
      fleet: 'images',
      claimedAtMs: on.time.nowMs,
    };
    const order: string[] = [];
    const store = steppedStore(
      storeWith(on.store, {
        raiseVersion: async ({ jobId: id, version }) => {
          order.push('raise');
          return on.store.raiseVersion({ jobId: id, version });
        },
      }),
      ['commit'],
      async () => void order.push('commit'),
    );
    await untilChecked(on);
    await on.pass({}, on.dispatcher({ store }));
    expect(order.slice(0, 2)).toEqual(['raise', 'commit']);
    expect(await on.store.claim([late])).toEqual(['lost']);
  });

  it('is kept when its claim arrives while it is being given up', async () => {
    const on = stage({ pool: lockedPool(1) });
    const job = await neverClaimed(on);
    const [batchId] = [...on.store.inspect(0).reservations.keys()];
    const store = steppedStore(on.store, ['raiseVersion'], async () => {
      await on.store.claim([
        {
          jobId: job.id,
          version: 1,
          claimId: claimIdOf(batchId ?? '', 0),
          batchId: batchId ?? '',
          fleet: 'images',
          claimedAtMs: on.time.nowMs,
        },
      ]);
    });
    await untilChecked(on);
    await on.pass({}, on.dispatcher({ store }));
    expect([on.held().length, on.store.inspectJob(job.id)?.state]).toEqual([1, 'claimed']);
    // Its message is sent when its place is looked at the next time.
    await untilChecked(on);
    await on.pass();
    expect(await on.startAll('images')).toHaveLength(1);
  });
});

describe('of jobs whose worker is lost, one that', () => {
  it('is resumed is taken away first, where one pass may not take all', async () => {
    const types = {
      short: { timeoutMs: TIMEOUT_MS },
      long: { timeoutMs: TIMEOUT_MS, onWorkerLost: 'resume' },
    } as const;
    const on = stage({
      pool: {
        types,
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['short', 'long'], slots: RAMP_FIRST + 10 } },
      },
      budget: { batchJobs: 5 },
    });
    const put = (type: keyof typeof types, count: number) =>
      on.put(...Array.from({ length: count }, () => on.job({ type })));
    const short = await put('short', RAMP_FIRST);
    await on.pass();
    const long = await put('long', 10);
    await on.pass({ jobs: long, reason: 'stream' });
    await on.startAll('images');
    await on.advance(TIMEOUT_MS + FUNCTION_END_MS + CLOCK_SKEW_MAX_MS);
    await on.pass({}, on.dispatcher({ budget: { ...on.main.budget, passesMax: 1 } }));
    const lost = (jobs: readonly Job[]): number =>
      jobs.filter(({ id }) => on.store.inspectJob(id)?.workersLost === 1).length;
    expect([lost(long), lost(short)]).toEqual([10, RAMP_FIRST - 10]);
  });
});

describe('a running job', () => {
  const leasePassed = TIMEOUT_MS + FUNCTION_END_MS + CLOCK_SKEW_MAX_MS;

  it('is left alone as long as a function may be running it by any clock, though it is checked, and taken when that is over', async () => {
    // It may have four seconds left when its reservation is checked.
    const leftMs = 4_000;
    const on = setting({ timeoutMs: TIMEOUT_MS + leftMs });
    const { job } = await running(on);
    await untilChecked(on);
    await on.advance(leftMs - 1);
    await on.pass();
    expect(on.stateOf(job.id)).toBe('running');
    on.wakes.length = 0;
    await on.advance(1);
    await on.pass();
    expect(on.store.inspectJob(job.id)).toMatchObject({ workersLost: 1 });
  });

  it('is looked at again when its own time ends, before its reservation would be checked again', async () => {
    const leftMs = 4_000;
    const on = setting({ timeoutMs: TIMEOUT_MS + leftMs });
    const { job } = await running(on);
    await untilChecked(on);
    await on.pass();
    expect(on.stateOf(job.id)).toBe('running');
    const checkedAtMs = on.time.nowMs;
    await on.advance(leftMs);
    expect(on.wakes).toContain(checkedAtMs + leftMs);
    await on.pass({ reason: 'wake' });
    expect(on.store.inspectJob(job.id)).toMatchObject({ workersLost: 1 });
  });

  it('is left alone if its worker came after the workers were read, by a clock that is behind', async () => {
    const on = setting({}, null);
    const record = { workerId: 'worker', incarnation: 'worker-1', fleet: 'images', slots: 1, occupants: [] };
    await on.store.registerWorker({
      partition: 0,
      record: { ...record, workerId: 'other', expiresAtMs: on.time.nowMs + 600_000 },
    });
    const job = await claimed(on);
    const [received] = await on.queue.receive('images', 1, 0, 600_000);
    if (received === undefined) throw new Error('nothing was sent');
    await untilChecked(on);
    const store = storeWith(on.store, {
      loadPartition: async (asked) => {
        const state = await on.store.loadPartition(asked);
        await on.store.registerWorker({
          partition: 0,
          record: { ...record, expiresAtMs: on.time.nowMs + 90_000 },
        });
        const nowMs = on.time.nowMs - CLOCK_SKEW_MAX_MS + 1;
        const life = { workerId: 'worker', incarnation: 'worker-1' };
        await on.store.startJob({ ...life, ...onlyJob(received), nowMs, runUntilMs: undefined });
        // The partition was read all the time: a loss may be declared.
        return { ...state, observation: { sinceMs: 0, atMs: on.time.nowMs } };
      },
    });
    await on.pass({}, on.dispatcher({ store }));
    expect(on.stateOf(job.id)).toBe('running');
  });

  it.each<readonly [string, JobTypeInput, Partial<Job>]>([
    [
      'fails',
      { onWorkerLost: 'fail' },
      { state: 'failed', error: { name: 'WorkerLost', message: 'The worker that ran the job is gone.' } },
    ],
    ['is tried again at once', { onWorkerLost: 'retry' }, { state: 'pending', attempt: 1, workersLost: 1 }],
    [
      'fails when it has lost too many',
      { onWorkerLost: 'retry', retry: { maxWorkersLost: 0 } },
      { state: 'failed', workersLost: 1 },
    ],
  ])('whose worker is gone %s, and is settled', async (_, type, expected) => {
    const on = setting(type);
    const { job } = await running(on);
    await on.advance(leasePassed);
    await on.pass();
    expect(on.store.inspectJob(job.id)).toMatchObject(expected);
    // What is tried again has a place already.
    expect(on.stateOf(job.id)).toBe(expected.state === 'pending' ? 'claimed' : expected.state);
    expect(on.held().filter(({ version }) => version < job.version)).toEqual([]);
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(leasePassed);
    expect(await on.store.getEstimates({ partition: 0, ids: [{ type: 'resize', resourceId: '' }] })).toEqual([
      undefined,
    ]);
  });

  it('whose loss another dispatcher has noted a little earlier is charged up to then', async () => {
    const on = setting({ onWorkerLost: 'fail' });
    const earlierMs = 7_000;
    await running(on);
    await on.advance(leasePassed);
    const store = storeWith(on.store, {
      // Between the look at the job and this.
      endUnfinished: async ({ job, verdict, nowMs, expiresAtMs }) => {
        await on.store.endUnfinished({ job, verdict, nowMs: nowMs - earlierMs, expiresAtMs });
        return on.store.endUnfinished({ job, verdict, nowMs, expiresAtMs });
      },
    });
    await on.pass({}, on.dispatcher({ store }));
    expect(on.held()).toEqual([]);
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(leasePassed - earlierMs);
  });

  it('whose worker is gone starts again in the pass that finds it, whether or not the index shows it', async () => {
    const on = setting({}, 1);
    const { job } = await running(on);
    await on.advance(leasePassed);
    const store = storeWith(on.store, { readLine: async () => ({ jobs: [] }) });
    const report = await on.pass({}, on.dispatcher({ store }));
    expect(report).toMatchObject({ settled: 1, admitted: 1 });
    expect([on.stateOf(job.id), on.store.inspectJob(job.id)?.workersLost]).toEqual(['claimed', 1]);
    expect((await on.startAll('images')).map((again) => again.job.id)).toEqual([job.id]);
  });

  it('that ended meanwhile and was tried again is settled by the image of its later life', async () => {
    const on = setting();
    const started = await running(on);
    await on.advance(300);
    const verdict = { kind: 'retry', error: { name: 'E', message: '' }, runAtMs: on.time.nowMs } as const;
    await on.end(started, verdict);
    const [image] = await on.store.promote({
      jobs: [on.store.inspectJob(started.job.id) as Job],
      nowMs: on.time.nowMs,
    });
    expect(image?.state).toBe('pending');
    // The same run settles its first attempt and starts the second.
    const report = await on.pass({ jobs: [image as Job], reason: 'stream' });
    expect(report).toMatchObject({ settled: 1, admitted: 1 });
    expect(on.held()).toHaveLength(1);
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(300);
  });

  it('that is there no more gives its place back', async () => {
    const on = setting();
    const started = await running(on);
    await on.end(started, FAILED);
    // Its item has been collected.
    await on.advance(4_000_000);
    await on.pass();
    expect(on.held()).toEqual([]);
  });

  it('whose record cannot be read keeps its place: it may be running', async () => {
    const on = setting();
    const { job: bad } = await running(on);
    const { job } = await running(on);
    const store = storeWith(on.store, {
      lookUpJobs: async ({ ids, unreadable }) => {
        if (ids.includes(bad.id)) unreadable?.(bad.id);
        return (await on.store.getJobs({ ids })).map((each) => (each?.id === bad.id ? undefined : each));
      },
    });
    await on.advance(leasePassed);
    await on.pass({}, on.dispatcher({ store }));
    expect(on.held().filter(({ id }) => id === bad.id)).toHaveLength(1);
    expect(on.stateOf(bad.id)).toBe('running');
    expect(on.store.inspectJob(job.id)?.workersLost).toBe(1);
  });
});

describe('a worker process that begins a new life', () => {
  it('has what its former one runs taken from it only when that one has ended for certain', async () => {
    const on = setting({}, null);
    const life = { workerId: 'worker', fleet: 'images', slots: 1, occupants: [] };
    const formerUntilMs = on.time.nowMs + 150_000;
    await on.store.registerWorker({
      partition: 0,
      record: { ...life, incarnation: 'worker-1', expiresAtMs: formerUntilMs },
    });
    const { job } = await running(on);
    await on.advance(1_000);
    await on.store.registerWorker({
      partition: 0,
      record: {
        ...life,
        incarnation: 'worker-2',
        expiresAtMs: formerUntilMs + 600_000,
      },
    });
    for (; on.time.nowMs < formerUntilMs; await on.advance(1_000)) {
      await on.pass();
      expect(on.stateOf(job.id)).toBe('running');
    }
    // A place is looked at each minute.
    await on.advance(60_000);
    for (let second = 0; second < 30; second += 1) {
      await on.pass();
      await on.advance(1_000);
    }
    expect(on.store.inspectJob(job.id)?.workersLost).toBe(1);
  });
});

describe('after an outage', () => {
  const LIFE = { workerId: 'worker', incarnation: 'worker-1', fleet: 'images', slots: 1, occupants: [] };

  /** A job runs on a process, whose record is given by what follows. */
  async function onProcess(type: JobTypeInput = {}): Promise<{ readonly on: Stage; readonly id: string }> {
    const on = setting(type, null);
    await on.store.registerWorker({ partition: 0, record: { ...LIFE, expiresAtMs: on.time.nowMs + 20_000 } });
    const { job } = await running(on);
    return { on, id: job.id };
  }

  /** Whoever is woken makes a pass. */
  function heedsWakes(on: Stage): void {
    on.queue.onWake(() => void on.pass({ reason: 'wake' }, on.dispatcher()));
  }

  it('nothing is declared lost until the partition has been read for a lease', async () => {
    const { on, id } = await onProcess();
    await on.advance(600_000);
    for (let second = 0; second < 20; second += 1) {
      await on.pass();
      expect(on.stateOf(id)).toBe('running');
      await on.advance(1_000);
    }
    await on.advance(1_000);
    await on.pass();
    expect(on.store.inspectJob(id)?.workersLost).toBe(1);
  });

  it('a worker that is heard of in that time is not lost', async () => {
    const { on, id } = await onProcess();
    await on.advance(600_000);
    await on.pass();
    await on.advance(10_000);
    await on.store.heartbeat({ partition: 0, record: { ...LIFE, expiresAtMs: on.time.nowMs + 20_000 } });
    await on.advance(9_000);
    await on.pass();
    await on.advance(5_000);
    await on.pass();
    expect(on.stateOf(id)).toBe('running');
  });

  it('a partition in which nothing else happens wakes itself until the loss can be told', async () => {
    const { on, id } = await onProcess();
    heedsWakes(on);
    await on.advance(600_000);
    await on.pass();
    expect(on.stateOf(id)).toBe('running');
    await on.advance(30_000);
    expect(on.stateOf(id)).not.toBe('running');
    // And then it sleeps again.
    const wakes = on.wakes.length;
    expect(wakes).toBeLessThanOrEqual(6);
    // One more, once the index shows for certain what waits.
    await on.advance(60_000);
    expect(on.wakes.length).toBeLessThanOrEqual(wakes + 1);
    await on.advance(60_000);
    expect(on.wakes.length).toBeLessThanOrEqual(wakes + 1);
  });

  it('the wakes may all be lost: the ticks tell the loss after five minutes', async () => {
    const { on, id } = await onProcess();
    await on.advance(600_000);
    for (let minute = 0; minute < 5; minute += 1) {
      await on.pass();
      expect(on.stateOf(id)).toBe('running');
      await on.advance(60_000);
    }
    await on.pass();
    expect(on.store.inspectJob(id)?.workersLost).toBe(1);
  });

  it("a function's attempt needs no such guard: its time is over when it is over", async () => {
    const on = setting();
    const { job } = await running(on);
    await on.advance(600_000);
    await on.pass();
    expect(on.store.inspectJob(job.id)?.workersLost).toBe(1);
  });

  /** Fleets are told of so many jobs, and nobody hears of it. */
  async function unheard(on: Stage, jobs: readonly Job[]): Promise<void> {
    await on.put(...jobs);
    expect((await on.pass({ jobs, reason: 'stream' })).admitted).toBe(jobs.length);
    while ((await on.queue.receive('images', 10, 0, 3_600_000)).length > 0);
    await on.advance(600_000);
  }
  const manyOf = (count: number, make: () => Job): readonly Job[] => Array.from({ length: count }, make);

  /** Jobs that messages tell of beside those that nobody heard. */
  async function toldAgain(on: Stage): Promise<number> {
    let count = 0;
    for (;;) {
      const received = await on.queue.receive('images', 10, 0, 1);
      if (received.length === 0) break;
      count += toldJobs(received).length;
    }
    // They are there again.
    await on.advance(1);
    return count;
  }

  it('jobs that nobody has started are told of again in batches that double, and nothing is left out', async () => {
    const on = setting({}, 200);
    await unheard(
      on,
      manyOf(150, () => on.job()),
    );
    await on.pass({ reason: 'wake' });
    expect(await toldAgain(on)).toBe(20);
    await on.advance(1_900);
    await on.pass({ reason: 'wake' });
    expect(await toldAgain(on)).toBe(60);
    heedsWakes(on);
    await on.advance(10_000);
    await on.pass({ reason: 'wake' });
    await on.advance(10_000);
    expect(await on.startAll('images')).toHaveLength(150);
  });

  it('what can go on is sent before anything is given up or taken away', async () => {
    const on = stage({ pool: lockedPool(200) });
    await neverClaimed(on);
    await unheard(
      on,
      manyOf(30, () => lockedJob(on)),
    );
    const order: string[] = [];
    const watched = storeWith(on.store, {
      raiseVersion: async ({ jobId: id, version }) => {
        order.push('raised');
        return on.store.raiseVersion({ jobId: id, version });
      },
    });
    await on.pass({ reason: 'wake' }, on.dispatcher({ store: watched }));
    expect([order, await toldAgain(on)]).toEqual([[], 20]);
    await on.advance(1_900);
    await on.pass({ reason: 'wake' }, on.dispatcher({ store: watched }));
    expect(order).toEqual(['raised']);
  });
});
