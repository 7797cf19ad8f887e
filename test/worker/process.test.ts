/** The life of a long-running worker: it registers, runs what it is sent, and ends in order or in time. */

import { afterEach, describe, expect, it } from 'vitest';
import { RefusedError, UnavailableError } from '../../lib/core/errors.ts';
import { historyOf } from '../../lib/core/history.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { BEGUN_VERSION } from '../../lib/core/life-cycle.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import type { Metrics } from '../../lib/metrics/contract.ts';
import type { QueueImitation } from '../../lib/queue/memory/queue.ts';
import { incarnationOf } from '../../lib/runtime/incarnation.ts';
import type { WorkerRecord } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { LEASE_MARGIN_MS, LOSS_GRACE_MS, sharesOf } from '../../lib/worker/membership.ts';
import { RECEIVE_WAIT_MAX_MS } from '../../lib/worker/process/messages.ts';
import type { WorkerProcessOptions, WorkerReport } from '../../lib/worker/process/options.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import { type JobHandler, STOP_GRACE_MS } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';
import { HOSTILE, WAYS } from './hostile.ts';

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 15_000;
const CHECK_AFTER_MS = 10_000;
const TICK_MS = 5_000;
const TIMEOUT_MS = 600_000;

/** A fleet that processes serve, and dispatchers that hear of everything. */
function setting(queue?: QueueImitation, type: JobTypeInput = {}): Stage {
  const on = stage({
    pool: {
      types: {
        resize: {
          timeoutMs: TIMEOUT_MS,
          onWorkerLost: 'resume',
          retry: { jitter: 'none', delayMs: 1_000 },
          ...type,
        },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'] } },
    },
    budget: { checkAfterMs: CHECK_AFTER_MS },
    queue,
  });
  const dispatch = (jobs: readonly Job[], reason: 'stream' | 'wake' | 'tick'): void => {
    void dispatchAll(on.dispatcher(), { jobs, reason });
  };
  on.store.subscribe(({ newJob }) => {
    if (newJob.state !== 'claimed' && newJob.state !== 'running') dispatch([newJob], 'stream');
  });
  on.queue.onWake(() => dispatch([], 'wake'));
  const tick = (): void => {
    dispatch([], 'tick');
    on.time.after(TICK_MS, tick);
  };
  on.time.after(TICK_MS, tick);
  return on;
}

interface Life {
  readonly exits: readonly string[];
  readonly stop: () => void;
  readonly report: Promise<WorkerReport>;
  /** What it ended with, if it did. */
  readonly ended: () => WorkerReport | undefined;
  /** As a SIGKILL does: from now on nothing of it reaches anybody. */
  readonly kill: () => void;
}

const lives: Life[] = [];

/** A fleet that had functions until a moment ago, and processes from now on: a function has died with a job. */
async function ofFunctions() {
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 10_000, onWorkerLost: 'retry' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
  });
  const job = on.job();
  await on.put(job);
  await on.pass();
  const [received] = await on.queue.receive('images', 1, 0, 20_000);
  if (received === undefined) throw new Error('nothing was sent');
  const nowMs = on.clock.nowMs();
  const { store } = on;
  const life = { workerId: 'function-1', incarnation: 'i' };
  await store.startJob({ ...onlyJob(received), ...life, nowMs, runUntilMs: nowMs + 10_000 });
  return { on, job, configuration: setting().configuration };
}

function begin(on: Stage, resize: JobHandler, own: Partial<WorkerProcessOptions> = {}): Life {
  const exits: string[] = [];
  const shutdown = new AbortController();
  const isKilled = { now: false };
  const { queue, configuration, clock, random, log } = on;
  const mortal = <T extends object>(target: T): T =>
    new Proxy(target, {
      get: (given, name) => {
        const verb: unknown = Reflect.get(given, name, given);
        if (typeof verb !== 'function') return verb;
        return async (...question: unknown[]) => {
          if (isKilled.now) return new Promise(() => {});
          const answer: unknown = await verb.apply(given, question);
          return isKilled.now ? new Promise(() => {}) : answer;
        };
      },
    });
  let report: WorkerReport | undefined;
  const running = runWorker({
    configuration,
    clock,
    random,
    log,
    fleet: 'images',
    slots: 2,
    workerId: 'worker-1',
    handlers: { resize },
    signal: shutdown.signal,
    exit: (reason) => void exits.push(reason),
    ...own,
    store: mortal(own.store ?? on.store),
    queue: mortal(own.queue ?? queue),
  });
  const life: Life = {
    exits,
    stop: () => shutdown.abort(),
    report: running,
    ended: () => report,
    kill: () => {
      isKilled.now = true;
    },
  };
  running.then(
    (ended) => {
      report = ended;
    },
    () => {},
  );
  lives.push(life);
  return life;
}

afterEach(() => {
  for (const life of lives.splice(0)) life.kill();
});

const recordOf = (on: Stage, workerId = 'worker-1'): WorkerRecord | undefined =>
  on.store.inspect(0).workers.get(workerId);

const waitingJobs = (on: Stage, count: number): Promise<readonly Job[]> =>
  on.put(...Array.from({ length: count }, (_, n) => on.job({ payload: n })));

const worksFor =
  (on: Stage, ms: number): JobHandler =>
  async (payload, { signal }) => {
    await on.clock.sleep(ms, signal);
    signal.throwIfAborted();
    return payload;
  };

const hangs: JobHandler = () => new Promise<never>(() => {});

/** A store that does not answer while `isDown`. */
const unreliable = (on: Stage, isDown: () => boolean, verbs: readonly (keyof JobStore)[]): JobStore =>
  storeWith(
    on.store,
    Object.fromEntries(
      verbs.map((verb) => [
        verb,
        async (...question: readonly unknown[]) => {
          if (isDown()) throw new UnavailableError(`${verb}: no answer`);
          return (on.store[verb] as (...given: readonly unknown[]) => Promise<unknown>)(...question);
        },
      ]),
    ),
  );

describe('a worker process', () => {
  it('begins no handler whose start is answered after its lease is over', async () => {
    const on = setting();
    let handled = 0;
    const store = storeWith(on.store, {
      startJob: async (request) => {
        const answer = await on.store.startJob(request);
        await on.clock.sleep(LEASE_MS);
        return answer;
      },
      heartbeat: () => new Promise<never>(() => {}),
    });
    const life = begin(
      on,
      () => {
        handled += 1;
        return null;
      },
      { store },
    );
    const [job] = await waitingJobs(on, 1);
    await on.advance(2 * LEASE_MS);
    expect(on.store.inspectJob(job?.id ?? '')?.startedAtMs).toBeDefined();
    expect(life.ended()).toMatchObject({ end: 'unreachable' });
    expect(handled).toBe(0);
  });

  it('tells of each job that it starts what it is and how long it has waited, also of those that fail', async () => {
    const on = setting();
    const told: unknown[] = [];
    const add: Metrics['add'] = (metric, value, scopes) => void told.push([metric, value, scopes]);
    const before = await waitingJobs(on, 2);
    await on.advance(3_000);
    const life = begin(
      on,
      (n) => {
        if (n === 1) throw new Error('no such picture');
        return null;
      },
      { metrics: { add, asksFor: () => false } },
    );
    await on.advance(500);
    const scopes = { type: 'resize', tier: 'standard' };
    const started = before.map(({ id }) => on.store.inspectJob(id)?.startedAtMs ?? 0);
    expect(started.every((atMs) => atMs >= NOW_MS + 3_000)).toBe(true);
    expect(told).toEqual(
      started.flatMap((atMs) => [
        ['started', 1, scopes],
        ['waitTime', atMs - NOW_MS, scopes],
      ]),
    );
    expect(life.ended()).toBeUndefined();
  });

  it('divides its slots anew where the number of partitions changes, and lets go of those that are gone', async () => {
    const on = setting();
    let partitions = 1;
    const life = begin(on, worksFor(on, 100), {
      slots: 8,
      random: () => 0,
      partitionsNow: async () => partitions,
    });
    await on.advance(100);
    const record = (partition: number) => on.store.inspect(partition).workers.get('worker-1');
    const slots = () => [0, 1, 2, 3].map((each) => record(each)?.slots);
    /** Minutes, with a pass of each partition now and then. Answers how many slots counted at each. */
    const minutes = async (count: number): Promise<readonly number[]> => {
      const seen: number[] = [];
      for (let step = 0; step < 6 * count; step += 1) {
        await on.advance(10_000);
        const configuration = { ...on.configuration, partitions: 4 };
        await on.finish(dispatchAll(on.dispatcher({ configuration }), { jobs: [], reason: 'wake' }));
        seen.push(slots().reduce<number>((total, each) => total + (each ?? 0), 0));
      }
      return seen;
    };
    expect(slots()).toEqual([8, undefined, undefined, undefined]);
    partitions = 4;
    const spread = await minutes(2);
    expect(slots()).toEqual([2, 2, 2, 2]);
    expect(Math.max(...spread)).toBe(8);
    expect(Math.min(...spread)).toBe(2);
    partitions = 2;
    await minutes(2);
    expect(slots()).toEqual([4, 4, 0, 0]);
    expect([2, 3].map((each) => (record(each)?.expiresAtMs ?? 0) < on.time.nowMs)).toEqual([true, true]);
    partitions = 4;
    await minutes(2);
    expect(slots()).toEqual([2, 2, 2, 2]);
    expect([2, 3].map((each) => (record(each)?.expiresAtMs ?? 0) > on.time.nowMs)).toEqual([true, true]);
    life.stop();
    await on.advance(1_000);
    expect(slots()).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('keeps its lease in a partition that is gone while a job of it runs, and starts those that come late', async () => {
    const on = setting();
    let partitions = 2;
    const runs: string[] = [];
    const job = on.job({ partition: 1, payload: 200_000 });
    begin(
      on,
      async (payload, { jobId, signal }) => {
        runs.push(jobId);
        await on.clock.sleep(Number(payload), signal);
        return null;
      },
      { slots: 2, partitions, random: () => 0, partitionsNow: async () => partitions },
    );
    await on.advance(100);
    const both = on.dispatcher({ configuration: { ...on.configuration, partitions: 2 } });
    const pass = (jobs: readonly Job[]) => on.finish(dispatchAll(both, { jobs, reason: 'ingest' }));
    await on.put(job);
    await pass([job]);
    await on.advance(1_000);
    expect(on.stateOf(job.id)).toBe('running');
    partitions = 1;
    const record = () => on.store.inspect(1).workers.get('worker-1');
    await on.advance(150_000);
    expect(record()?.expiresAtMs).toBeGreaterThan(on.time.nowMs);
    expect(on.stateOf(job.id)).toBe('running');
    await on.advance(300_000);
    expect(on.stateOf(job.id)).toBe('succeeded');
    expect(record()?.expiresAtMs).toBeLessThan(on.time.nowMs);
    // A dispatcher that knows no better: its job is not run without a lease that counts.
    const late = on.job({ partition: 1, payload: 200_000 });
    await on.store.registerWorker({
      partition: 1,
      record: aWorkerRecord({
        workerId: 'another',
        fleet: 'images',
        slots: 1,
        expiresAtMs: on.time.nowMs + 60_000,
      }),
    });
    await on.put(late);
    await pass([late]);
    await on.advance(1_000);
    expect(on.stateOf(late.id)).toBe('running');
    // It is looked at every minute whether the partition is still wanted.
    await on.advance(150_000);
    expect(on.stateOf(late.id)).toBe('running');
    expect(record()?.expiresAtMs).toBeGreaterThan(on.time.nowMs);
    await on.advance(60_000);
    expect([on.stateOf(late.id), runs]).toEqual(['succeeded', [job.id, late.id]]);
  });

  it('tells partitions of slots that came to them, so that what waits there need not wait for a tick', async () => {
    const on = setting();
    let partitions = 1;
    begin(on, worksFor(on, 100), { slots: 4, random: () => 0, partitionsNow: async () => partitions });
    await on.advance(100);
    partitions = 2;
    const woken: number[] = [];
    on.queue.onWake((partition) => partition === 1 && woken.push(partition));
    const wakes: number[] = [];
    for (let step = 0; step < 12 && wakes.length === 0; step += 1) {
      const before = woken.length;
      await on.advance(10_000);
      if (step < 6) await on.finish(dispatchAll(on.dispatcher(), { jobs: [], reason: 'tick' }));
      if (woken.length > before) wakes.push(on.store.inspect(1).workers.get('worker-1')?.slots ?? 0);
    }
    expect(wakes).toEqual([2]);
  });

  it('keeps slots where jobs count on them, until those have ended', async () => {
    const on = setting();
    let partitions = 1;
    begin(on, worksFor(on, 400_000), { slots: 4, random: () => 0, partitionsNow: async () => partitions });
    await on.advance(100);
    const jobs = await waitingJobs(on, 3);
    await on.finish(dispatchAll(on.dispatcher(), { jobs, reason: 'ingest' }));
    await on.advance(100);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'running'));
    partitions = 2;
    const slotsOfSecond = () => on.store.inspect(1).workers.get('worker-1')?.slots;
    await on.advance(300_000);
    expect(slotsOfSecond()).toBe(0);
    await on.advance(400_000);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
    expect(slotsOfSecond()).toBe(2);
  });

  it('registers in the partition of a job before it starts it, so that nobody takes it for dead there', async () => {
    const on = setting();
    let runs = 0;
    const worker = begin(on, async (_payload, { signal }) => {
      runs += 1;
      await on.clock.sleep(10 * CHECK_AFTER_MS, signal);
      return null;
    });
    await on.advance(100);
    const job = on.job({ partition: 5 });
    await on.put(job);
    await on.store.registerWorker({
      partition: 5,
      record: aWorkerRecord({
        workerId: 'another',
        fleet: 'images',
        slots: 1,
        expiresAtMs: on.time.nowMs + 1_000,
      }),
    });
    const configuration = { ...on.configuration, partitions: 6 };
    await on.finish(dispatchAll(on.dispatcher({ configuration }), { jobs: [job], reason: 'ingest' }));
    await on.advance(5_000);
    expect(on.stateOf(job.id)).toBe('running');
    expect(on.store.inspect(5).workers.get('worker-1')?.slots).toBe(0);
    for (let looks = 0; looks < 8; looks += 1) {
      await on.advance(CHECK_AFTER_MS);
      await on.finish(dispatchAll(on.dispatcher({ configuration }), { jobs: [], reason: 'tick' }));
    }
    await on.advance(3 * CHECK_AFTER_MS);
    expect([on.stateOf(job.id), runs]).toEqual(['succeeded', 1]);
    worker.stop();
    await on.advance(1_000);
    expect(on.store.inspect(5).workers.has('worker-1')).toBe(false);
  });

  it.each(WAYS)('goes on, whatever its handlers have %s', async (_way, handlerOf) => {
    const on = setting(undefined, { retry: { maxAttempts: 1 } });
    const jobs = await waitingJobs(on, HOSTILE.length + 1);
    const worker = begin(on, (payload, context) => {
      const [, given] = HOSTILE[payload as number] ?? [];
      return (payload as number) < HOSTILE.length ? handlerOf(given)(payload, context) : payload;
    });
    await on.advance(60_000);
    for (const [at, state] of on.states(jobs).entries())
      expect([HOSTILE[at]?.[0], state]).toEqual([
        HOSTILE[at]?.[0],
        expect.stringMatching(at === HOSTILE.length ? 'succeeded' : /succeeded|failed/),
      ]);
    for (const { id } of jobs) expect(on.store.inspectJob(id)).toMatchObject({ attempt: 1, workersLost: 0 });
    expect(worker.exits).toEqual([]);
    expect(worker.ended()).toBeUndefined();
  });

  it('registers its slots, and jobs that wait find them at once', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 5);
    await on.advance(10);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'pending'));
    let running = 0;
    let most = 0;
    const worker = begin(on, async (payload) => {
      running += 1;
      most = Math.max(most, running);
      await on.clock.sleep(300);
      running -= 1;
      return { got: payload };
    });
    await on.advance(1_500);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
    expect(most).toBe(2);
    expect(on.store.inspectJob(jobs[3]?.id ?? '')).toMatchObject({
      result: { got: 3 },
      worker: { workerId: 'worker-1' },
    });
    worker.stop();
    await on.advance(RECEIVE_WAIT_MAX_MS);
    expect(worker.ended()).toEqual({ end: 'stopped', outcomes: { succeeded: 5 } });
    expect(on.queue.sizeOf('images')).toBe(0);
  });

  it('renews one record for all its slots, with what its handlers say', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 2);
    let beats = 0;
    const store = storeWith(on.store, {
      heartbeat: ({ partition, record }) => {
        beats += 1;
        return on.store.heartbeat({ partition, record });
      },
    });
    const resize: JobHandler = async (payload, { heartbeat, signal }) => {
      heartbeat({ at: payload });
      if (payload === 1) heartbeat('x'.repeat(2_000));
      await on.clock.sleep(60_000, signal);
      return null;
    };
    begin(on, resize, { store });
    await on.advance(4 * HEARTBEAT_MS + 100);
    expect(beats).toBe(4);
    const record = recordOf(on);
    expect(record).toMatchObject({ fleet: 'images', slots: 2 });
    expect(record?.expiresAtMs).toBe(NOW_MS + 4 * HEARTBEAT_MS + LEASE_MS + CLOCK_SKEW_MAX_MS);
    expect(record?.occupants.map(({ jobId, progress }) => [jobId, progress])).toEqual([
      [jobs[0]?.id, { at: 0 }],
      [jobs[1]?.id, { at: 1 }],
    ]);
  });

  it('lives on when its handlers say more than a record holds: the longest are left out, and that is told', async () => {
    const slots = 400;
    const on = stage({
      pool: {
        types: { resize: { timeoutMs: 600_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: null } },
      },
    });
    await waitingJobs(on, slots);
    const resize: JobHandler = async (payload, { heartbeat, signal }) => {
      heartbeat(payload === 7 ? 'short' : `${String(payload)}/`.padEnd(1_000, 'x'));
      await on.clock.sleep(8 * HEARTBEAT_MS, signal);
      return null;
    };
    const life = begin(on, resize, { slots });
    await on.advance(HEARTBEAT_MS);
    for (let left = 4; left > 0; left -= 1) await on.pass();
    await on.advance(3 * HEARTBEAT_MS);
    expect(life.ended()).toBeUndefined();
    const occupants = recordOf(on)?.occupants ?? [];
    expect(occupants).toHaveLength(slots);
    const shown = occupants.flatMap(({ progress }) => progress ?? []);
    expect(shown).toContain('short');
    expect(shown.length).toBeGreaterThan(90);
    expect(shown.length).toBeLessThan(110);
    const told = on.logged.filter(({ message }) => message.includes('left out of heartbeats'));
    expect(told).toHaveLength(1);
  });

  it('runs a job once whose message comes twice, and deletes both', async () => {
    const on = setting({ duplicated: 1 });
    const jobs = await waitingJobs(on, 3);
    let calls = 0;
    begin(on, async () => {
      calls += 1;
      await on.clock.sleep(2_000);
      return null;
    });
    await on.advance(120_000);
    expect(on.states(jobs)).toEqual(['succeeded', 'succeeded', 'succeeded']);
    expect(calls).toBe(3);
    expect(on.queue.sizeOf('images')).toBe(0);
  });

  it('ends the attempt of a function that died where its fleet had functions before, when its time is over', async () => {
    const { on, job, configuration } = await ofFunctions();
    let isReachable = false;
    const store = storeWith(on.store, {
      lookUpJobs: async (request) => {
        if (!isReachable) throw new UnavailableError('no answer');
        return on.store.lookUpJobs(request);
      },
    });
    const worker = begin(on, () => null, { configuration, store });
    await on.advance(30_000);
    // Its message is not given away for nothing.
    expect(on.stateOf(job.id)).toBe('running');
    expect(on.logged.map(({ message }) => message)).toContain('message failed and will be delivered again');
    isReachable = true;
    await on.advance(60_000);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'scheduled', workersLost: 1 });
    expect(await on.queue.receive('images', 1, 0, 1_000)).toEqual([]);
    expect(worker.ended()).toBeUndefined();
  });

  it('does the jobs of a message that was for a function, which the fleet had before, one in each slot', async () => {
    const on = setting();
    const jobs = await on.put(...Array.from({ length: 5 }, () => on.job()));
    const functions = stage({
      pool: { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 5 } } },
    }).configuration;
    await on.pass({}, on.dispatcher({ configuration: functions }));
    expect(on.queue.sizeOf('images')).toBe(1);
    let calls = 0;
    begin(on, async () => {
      calls += 1;
      await on.clock.sleep(1_000);
      return null;
    });
    for (let minute = 0; minute < 5; minute += 1) {
      await on.advance(60_000);
      await on.pass();
    }
    await on.advance(60_000);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
    expect(calls).toBe(5);
    expect(on.queue.sizeOf('images')).toBe(0);
  });

  it('runs a job that takes longer than its message is hidden once', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 1);
    let calls = 0;
    const resize: JobHandler = async () => {
      calls += 1;
      await on.clock.sleep(400_000);
      return null;
    };
    begin(on, resize);
    begin(on, resize, { workerId: 'worker-2' });
    await on.advance(420_000);
    expect(on.states(jobs)).toEqual(['succeeded']);
    expect(calls).toBe(1);
  });

  it('stops a job whose end was asked for', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    const worker = begin(on, worksFor(on, 300_000), { watchEveryMs: 3_000 });
    await on.advance(1_000);
    await on.store.cancelJob({ jobId: job?.id ?? '', nowMs: on.time.nowMs, expiresAtMs: NOW_MS + 10 ** 9 });
    await on.advance(3_000);
    expect(on.stateOf(job?.id ?? '')).toBe('cancelled');
    expect(on.held()).toEqual([]);
    worker.stop();
    await on.advance(1_000);
    expect(worker.ended()?.outcomes).toEqual({ cancelled: 1 });
  });

  it('asks again when an answer gets lost, and runs and ends each job once', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 4);
    const asked = new Map<string, number>();
    const unanswered =
      <Q, A>(verb: string, ask: (question: Q) => Promise<A>) =>
      async (question: Q): Promise<A> => {
        const answer = await ask(question);
        asked.set(verb, (asked.get(verb) ?? 0) + 1);
        if ((asked.get(verb) ?? 0) % 2 === 1) throw new UnavailableError(`${verb}: no answer`);
        return answer;
      };
    const store = storeWith(on.store, {
      startJob: unanswered('startJob', (request) => on.store.startJob(request)),
      finishJob: unanswered('finishJob', (request) => on.store.finishJob(request)),
    });
    let calls = 0;
    const resize: JobHandler = () => {
      calls += 1;
      return null;
    };
    begin(on, resize, { store });
    await on.advance(10_000);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
    expect(calls).toBe(4);
  });

  it.each([
    { lease: {}, mostMs: 5_000 },
    { lease: { leaseMs: 6_500, heartbeatMs: 1_000 }, mostMs: 3_500 },
    { lease: { leaseMs: 60_000 }, mostMs: 5_000 },
  ])(
    'asks for messages no longer than $mostMs ms: one that has died is not given what others should take',
    async ({ lease, mostMs }) => {
      const on = setting();
      const waits = new Set<number>();
      const queue = new Proxy(on.queue, {
        get: (target, name) => {
          const verb: unknown = Reflect.get(target, name, target);
          if (typeof verb !== 'function') return verb;
          return (...question: unknown[]) => {
            if (name === 'receive') waits.add(question[2] as number);
            return verb.apply(target, question);
          };
        },
      });
      begin(on, () => null, { queue, ...lease });
      await on.advance(30_000);
      expect([...waits]).toEqual([mostMs]);
    },
  );

  it('goes on when messages cannot be received for a while', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 1);
    let tries = 0;
    const queue = new Proxy(on.queue, {
      get: (target, name) => {
        if (name === 'receive' && tries < 3) {
          return async () => {
            tries += 1;
            throw new Error('no answer');
          };
        }
        const verb: unknown = Reflect.get(target, name, target);
        return typeof verb === 'function' ? verb.bind(target) : verb;
      },
    });
    begin(on, () => null, { queue });
    await on.advance(20_000);
    expect(tries).toBe(3);
    expect(on.states(jobs)).toEqual(['succeeded']);
  });
});

describe('a shutdown', () => {
  it('begins nothing new, lets what runs end, and takes the record away', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 3);
    const worker = begin(on, worksFor(on, 20_000));
    await on.advance(1_000);
    worker.stop();
    await on.advance(HEARTBEAT_MS);
    expect(recordOf(on)).toMatchObject({ slots: 2 });
    await on.advance(20_000);
    expect(worker.ended()).toEqual({ end: 'stopped', outcomes: { succeeded: 2 } });
    expect(recordOf(on)).toBeUndefined();
    expect(on.states(jobs).toSorted()).toEqual(['pending', 'succeeded', 'succeeded']);
  });

  it('offers its free slots to nobody while it lasts', async () => {
    const on = setting();
    await waitingJobs(on, 1);
    const worker = begin(on, worksFor(on, 25_000));
    await on.advance(1_000);
    worker.stop();
    await on.advance(HEARTBEAT_MS);
    expect(recordOf(on)).toMatchObject({ slots: 1 });
  });

  it('tells what runs on to stop at its bound, and gives it back', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    let reason: unknown;
    const resize: JobHandler = async (_, { signal }) => {
      await on.clock.sleep(300_000, signal);
      reason = signal.reason;
      throw signal.reason;
    };
    const worker = begin(on, resize, { shutdownMs: 8_000 });
    await on.advance(1_000);
    worker.stop();
    await on.advance(8_500);
    expect(reason).toMatchObject({ name: 'WorkerStoppedError' });
    expect(worker.ended()).toEqual({ end: 'stopped', outcomes: { released: 1 } });
    expect(worker.exits).toEqual([]);
    expect(recordOf(on)).toBeUndefined();
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({ attempt: 1, workersLost: 0 });
  });

  it('takes nothing from the queue that it hides: what it is given when it ends starts elsewhere at once', async () => {
    const on = setting();
    // It waits for messages before the other one does, and is served first.
    const leaving = begin(on, worksFor(on, 60_000), { workerId: 'leaving', shutdownMs: 500 });
    const [job] = await waitingJobs(on, 1);
    await on.advance(1_000);
    begin(on, worksFor(on, 60_000), { workerId: 'lasting' });
    await on.advance(100);
    leaving.stop();
    await on.advance(6_000);
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({
      state: 'running',
      worker: { workerId: 'lasting' },
      attempt: 1,
      workersLost: 0,
    });
    expect(leaving.ended()).toEqual({ end: 'stopped', outcomes: { released: 1 } });
  });

  it('ends the process if a handler goes on, and leaves its record to expire', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    const worker = begin(on, hangs, { shutdownMs: 8_000 });
    await on.advance(1_000);
    worker.stop();
    await on.advance(8_000 + STOP_GRACE_MS + 1);
    expect(worker.exits).toEqual(['worker worker-1 ends (stopped): 1 of its handlers ignored their signal']);
    worker.kill();
    expect(recordOf(on)).toBeDefined();
    expect(on.stateOf(job?.id ?? '')).toBe('running');
    begin(on, () => 'elsewhere', { workerId: 'worker-2' });
    await on.advance(60_000);
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({ state: 'succeeded', workersLost: 1 });
  });

  it('asked for before the registration is answered leaves nothing behind', async () => {
    const on = setting();
    const store = unreliable(on, () => true, ['registerWorker']);
    const worker = begin(on, () => null, { store });
    await on.advance(10_000);
    expect(worker.ended()).toBeUndefined();
    worker.stop();
    await on.advance(2_000);
    expect(worker.ended()).toEqual({ end: 'stopped', outcomes: {} });
    expect(recordOf(on)).toBeUndefined();
  });
});

describe('a worker that cannot be reached', () => {
  it.each([0, 4_999, 7_300])(
    'has ended its process before anybody takes its jobs, cut off after %i ms',
    async (cutOffAtMs) => {
      const on = setting();
      const [job] = await waitingJobs(on, 1);
      let isDown = false;
      const verbs = ['heartbeat', 'finishJob', 'endUnfinished', 'lookUpJobs'] as const;
      const store = unreliable(on, () => isDown, verbs);
      let toldAtMs: number | undefined;
      let exitedAtMs: number | undefined;
      const resize: JobHandler = async (_, { signal }) => {
        signal.addEventListener('abort', () => {
          toldAtMs = on.time.nowMs;
        });
        return new Promise<never>(() => {});
      };
      const exit = (): void => {
        exitedAtMs = on.time.nowMs;
      };
      const worker = begin(on, resize, { store, exit });
      await on.advance(100);
      expect(on.stateOf(job?.id ?? '')).toBe('running');
      await on.advance(cutOffAtMs);
      isDown = true;
      // The latest heartbeat that was answered; the record says when anybody may think that the worker is gone.
      const expiresAtMs = recordOf(on)?.expiresAtMs ?? 0;
      const heartbeatAtMs = expiresAtMs - LEASE_MS - CLOCK_SKEW_MAX_MS;
      let lostAtMs: number | undefined;
      on.store.subscribe(({ newJob }) => {
        if (newJob.id === job?.id && newJob.workersLost > 0) lostAtMs ??= on.time.nowMs;
      });
      await on.advance(90_000);
      expect(worker.ended()?.end).toBe('unreachable');
      expect(toldAtMs).toBe(heartbeatAtMs + LEASE_MS - LEASE_MARGIN_MS);
      expect(exitedAtMs).toBe(heartbeatAtMs + LEASE_MS - LEASE_MARGIN_MS + LOSS_GRACE_MS);
      // Also for a dispatcher whose clock is as far ahead as clocks may be.
      expect(exitedAtMs).toBeLessThan(expiresAtMs - CLOCK_SKEW_MAX_MS);
      expect(lostAtMs).toBeGreaterThanOrEqual(expiresAtMs);
    },
  );

  it('needs no exit if its handlers heed their signal', async () => {
    const on = setting();
    await waitingJobs(on, 2);
    let isDown = false;
    const store = unreliable(on, () => isDown, ['heartbeat', 'finishJob', 'endUnfinished']);
    const worker = begin(on, worksFor(on, 300_000), { store });
    await on.advance(100);
    isDown = true;
    await on.advance(LEASE_MS);
    expect(worker.exits).toEqual([]);
    // It waits for the store, to give back what it was cut off from, but not for ever.
    expect(worker.ended()).toBeUndefined();
    await on.advance(60_000);
    expect([worker.ended()?.end, worker.exits]).toEqual(['unreachable', []]);
  });

  it('writes down what was done before its lease ended, when the store is there again', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    let isDown = false;
    const store = unreliable(on, () => isDown, ['heartbeat', 'finishJob', 'endUnfinished']);
    const worker = begin(on, worksFor(on, 5_000), { store });
    await on.advance(1_000);
    isDown = true;
    await on.advance(LEASE_MS + 2_000);
    expect([on.stateOf(job?.id ?? ''), worker.ended()]).toEqual(['running', undefined]);
    isDown = false;
    await on.advance(3_000);
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({ state: 'succeeded', workersLost: 0 });
    expect(worker.ended()?.end).toBe('unreachable');
  });

  it('lives on if one heartbeat in three is answered', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 1);
    let beats = 0;
    const isDown = (): boolean => {
      beats += 1;
      return beats % 3 !== 0;
    };
    const store = unreliable(on, isDown, ['heartbeat']);
    const worker = begin(on, worksFor(on, 120_000), { store });
    await on.advance(125_000);
    expect(on.states(jobs)).toEqual(['succeeded']);
    expect(worker.ended()).toBeUndefined();
  });

  it('is not kept alive by a heartbeat whose answer never comes', async () => {
    const on = setting();
    await waitingJobs(on, 1);
    const store = storeWith(on.store, { heartbeat: () => new Promise<never>(() => {}) });
    const worker = begin(on, worksFor(on, 300_000), { store });
    await on.advance(LEASE_MS);
    expect(worker.ended()?.end).toBe('unreachable');
  });
});

describe('a worker whose name begins another life', () => {
  it('is told at its next heartbeat, and ends', async () => {
    const on = setting();
    const jobs = await waitingJobs(on, 1);
    const told: string[] = [];
    const resize: JobHandler = async (payload, { signal }) => {
      await on.clock.sleep(30_000, signal);
      if (signal.aborted) told.push((signal.reason as Error).message);
      signal.throwIfAborted();
      return payload;
    };
    const former = begin(on, resize);
    await on.advance(3_000);
    begin(on, resize);
    await on.advance(3_000);
    expect(former.ended()?.end).toBe('superseded');
    expect(told).toEqual(['the worker lost its lease (superseded)']);
    await on.advance(120_000);
    expect(on.states(jobs)).toEqual(['succeeded']);
  });

  it('goes on being counted until its own record would have expired', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    const former = begin(on, hangs);
    await on.advance(1_000);
    const expiresAtMs = recordOf(on)?.expiresAtMs ?? 0;
    former.kill();
    const next = begin(on, () => 'elsewhere');
    let lostAtMs: number | undefined;
    on.store.subscribe(({ newJob }) => {
      if (newJob.id === job?.id && newJob.workersLost > 0) lostAtMs ??= on.time.nowMs;
    });
    await on.advance(expiresAtMs - on.time.nowMs - 1);
    expect(on.stateOf(job?.id ?? '')).toBe('running');
    await on.advance(60_000);
    expect(lostAtMs).toBeGreaterThanOrEqual(expiresAtMs);
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({ state: 'succeeded', result: 'elsewhere' });
    expect(next.ended()).toBeUndefined();
  });

  it('does not begin an earlier one', async () => {
    const on = setting();
    begin(on, () => null);
    await on.advance(1_000);
    const behind = { ...on.clock, nowMs: () => on.time.nowMs - 3_600_000 };
    const late = begin(on, () => null, { clock: behind });
    await on.advance(10);
    expect(late.ended()).toEqual({ end: 'superseded', outcomes: {} });
  });
});

describe('a worker that has to end', () => {
  it('because a handler hangs: that is a timeout, which counts as an attempt and follows `retry`, and log, history and error say so', async () => {
    for (const maxAttempts of [1, 2]) {
      const on = setting(undefined, { timeoutMs: 20_000, retry: { jitter: 'none', maxAttempts } });
      const [job] = await waitingJobs(on, 1);
      let begun = 0;
      const resize: JobHandler = (...given) => {
        begun += 1;
        return hangs(...given);
      };
      for (let life = 1; life <= 4; life += 1) {
        const worker = begin(on, resize, { workerId: `worker-${life}`, shutdownMs: 1_000 });
        await on.advance(90_000);
        worker.kill();
      }
      expect(begun).toBe(maxAttempts);
      const { state, workersLost, error, ...rest } = on.store.inspectJob(job?.id ?? '') as Job;
      expect({ state, workersLost, error }).toMatchObject({
        state: 'failed',
        workersLost: 0,
        error: { name: 'JobTimeout', message: expect.stringContaining('20000 ms') },
      });
      const { events } = historyOf({ state, workersLost, error, ...rest });
      expect(events.slice(1)).toMatchObject(
        Array.from({ length: maxAttempts }, (_, at) => ({
          attempt: at + 1,
          outcome: 'failed',
          error: { name: 'JobTimeout' },
        })),
      );
      const failed = on.logged.filter(({ message }) => message.startsWith('attempt failed'));
      expect(failed.map(({ level }) => level)).toEqual(maxAttempts === 1 ? ['error'] : ['warn', 'error']);
    }
  });

  it('lets the others end when one handler hangs, then ends its process', async () => {
    const on = stage({
      pool: {
        types: { resize: { timeoutMs: 2_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'] } },
      },
    });
    on.queue.onWake(() => void dispatchAll(on.dispatcher(), { jobs: [], reason: 'wake' }));
    const jobs = await waitingJobs(on, 2);
    const resize: JobHandler = async (payload, { signal }) => {
      if (payload === 0) return hangs(payload, {} as never) as Promise<Json>;
      await on.clock.sleep(1_900, signal);
      return payload;
    };
    const worker = begin(on, resize);
    await on.advance(2_000 + STOP_GRACE_MS + RECEIVE_WAIT_MAX_MS);
    expect(worker.ended()).toEqual({ end: 'hung', outcomes: { succeeded: 1 } });
    expect(worker.exits).toHaveLength(1);
    expect(on.states(jobs)).toEqual(['running', 'succeeded']);
    expect(recordOf(on)).toBeDefined();
  });

  it('because an outcome cannot be written gives up its life, so that the job comes back', async () => {
    const on = setting();
    const [job] = await waitingJobs(on, 1);
    const store = storeWith(on.store, { finishJob: () => Promise.reject(new RefusedError('too large')) });
    const worker = begin(on, () => 'result', { store });
    await on.advance(RECEIVE_WAIT_MAX_MS);
    expect(worker.ended()).toEqual({ end: 'broken', outcomes: {} });
    expect(worker.exits).toEqual([]);
    expect(recordOf(on)).toBeUndefined();
    begin(on, () => 'again', { workerId: 'worker-2' });
    await on.advance(60_000);
    expect(on.store.inspectJob(job?.id ?? '')).toMatchObject({ state: 'succeeded', result: 'again' });
  });
});

describe('a job that ends its process', () => {
  /** A process, of three slots unless said otherwise, whose supervisor starts it again, with jobs of which some end it, each after two seconds. */
  async function killers(count: number, innocents: number, type: JobTypeInput = {}, slots = 3) {
    const retry = { jitter: 'none' } as const;
    const on = setting(undefined, { onWorkerLost: 'retry', retry, ...type });
    const jobs = await on.put(
      ...Array.from({ length: count + innocents }, (_, n) =>
        on.job({ payload: n < count ? 'kills' : 'works' }),
      ),
    );
    const beside: number[] = [];
    let lives = 0;
    const start = (): void => {
      lives += 1;
      let running = 0;
      const resize: JobHandler = async (payload, { signal }) => {
        running += 1;
        await on.clock.sleep(payload === 'kills' ? 2_000 : 10_000, signal);
        if (payload === 'kills') {
          beside.push(running - 1);
          life.kill();
          on.time.after(1_000, start);
          return new Promise<never>(() => {});
        }
        running -= 1;
        return 'worked';
      };
      const life = begin(on, resize, { slots, workerId: `life-${lives}` });
    };
    start();
    await on.advance(600_000);
    const stored = jobs.map(({ id }) => on.store.inspectJob(id) as Job);
    return { on, beside, killed: stored.slice(0, count), worked: stored.slice(count) };
  }

  it('takes no neighbour along a second time: it runs apart until it has ended, and is quarantined', async () => {
    const { beside, killed, worked } = await killers(1, 5);
    expect(worked.map(({ state }) => state)).toEqual(worked.map(() => 'succeeded'));
    expect(Math.max(...worked.map(({ workersLost }) => workersLost))).toBe(1);
    expect(killed).toMatchObject([
      {
        state: 'failed',
        workersLost: 4,
        error: { name: 'JobQuarantined', message: expect.stringContaining('4 times; 3 are allowed') },
      },
    ]);
    // Only at first did others run beside it.
    expect(beside.slice(1)).toEqual([0, 0, 0]);
  });

  it('runs apart from others like it too', async () => {
    const { beside, killed, worked } = await killers(2, 4);
    expect(worked.map(({ state }) => state)).toEqual(worked.map(() => 'succeeded'));
    expect(killed.map(({ error }) => error?.name)).toEqual(['JobQuarantined', 'JobQuarantined']);
    // In their first process both came to the end.
    expect(beside.slice(2)).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it.each<[string, JobTypeInput]>([
    ['onWorkerLost is fail', { onWorkerLost: 'fail' }],
    ['maxWorkersLost is 0', { retry: { jitter: 'none', maxWorkersLost: 0 } }],
  ])('fails those beside it where %s, and none in a process of one slot', async (_, type) => {
    const threeSlots = await killers(1, 5, type);
    expect(threeSlots.worked.map(({ state }) => state).toSorted()).toEqual([
      ...['failed', 'failed'],
      ...['succeeded', 'succeeded', 'succeeded'],
    ]);
    const oneSlot = await killers(1, 5, type, 1);
    expect(oneSlot.killed).toMatchObject([{ state: 'failed', error: { name: 'WorkerLost' } }]);
    expect(oneSlot.worked.map(({ state }) => state)).toEqual(oneSlot.worked.map(() => 'succeeded'));
  });

  it('keeps no slot free for a message that comes again once the job has ended', async () => {
    const on = setting(undefined, { onWorkerLost: 'retry' });
    const begun: unknown[] = [];
    const resize: JobHandler = async (payload, { signal }) => {
      begun.push(payload);
      await on.clock.sleep(payload === 'long' ? 40_000 : 100, signal);
      return null;
    };
    begin(on, resize, { slots: 3 });
    const [suspect] = await on.put(on.job({ payload: 'suspect', workersLost: 1, version: BEGUN_VERSION }));
    await on.advance(10_000);
    const ended = on.store.inspectJob(suspect?.id ?? '');
    expect(ended).toMatchObject({ state: 'succeeded', workersLost: 1 });
    await on.put(on.job({ payload: 'long' }));
    await on.advance(10_000);
    await on.queue.send('images', [{ jobId: ended?.id ?? '', claimId: ended?.claim?.claimId ?? '' }]);
    await on.advance(1_000);
    await on.put(on.job({ payload: 'other' }));
    await on.advance(10_000);
    expect(begun).toEqual(['suspect', 'long', 'other']);
  });

  it('waits for those that run, and gives way when its process is told to end', async () => {
    const on = setting(undefined, { onWorkerLost: 'retry' });
    const [long, suspect] = await on.put(
      on.job({ payload: 'long', priority: 10 }),
      on.job({ payload: 'suspect', workersLost: 1, version: BEGUN_VERSION }),
    );
    const begun: unknown[] = [];
    const resize: JobHandler = async (payload, { signal }) => {
      begun.push(payload);
      await on.clock.sleep(40_000, signal);
      signal.throwIfAborted();
      return null;
    };
    const first = begin(on, resize, { shutdownMs: 1_000 });
    await on.advance(10_000);
    expect(begun).toEqual(['long']);
    first.stop();
    await on.advance(RECEIVE_WAIT_MAX_MS);
    expect(first.ended()).toEqual({ end: 'stopped', outcomes: { released: 1 } });
    begin(on, resize, { workerId: 'worker-2' });
    await on.advance(120_000);
    expect(on.states([long, suspect] as Job[])).toEqual(['succeeded', 'succeeded']);
    expect(on.store.inspectJob(suspect?.id ?? '')).toMatchObject({ workersLost: 1 });
  });
});

describe('two workers of which one is killed', () => {
  it.each([300, 1_700, 6_200])('lose no job, killed after %i ms', async (killedAtMs) => {
    const on = setting();
    const jobs = await waitingJobs(on, 50);
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const resizeOf =
      (worker: string): JobHandler =>
      async (payload, { signal }) => {
        running.set(worker, (running.get(worker) ?? 0) + 1);
        most.set(worker, Math.max(most.get(worker) ?? 0, running.get(worker) ?? 0));
        await on.clock.sleep(500, signal);
        running.set(worker, (running.get(worker) ?? 0) - 1);
        return payload;
      };
    const killed = begin(on, resizeOf('one'), { workerId: 'one', slots: 3 });
    begin(on, resizeOf('two'), { workerId: 'two', slots: 2 });
    await on.advance(killedAtMs);
    killed.kill();
    await on.advance(120_000);
    expect(on.states(jobs)).toEqual(jobs.map(() => 'succeeded'));
    expect(most.get('one')).toBeLessThanOrEqual(3);
    expect(most.get('two')).toBeLessThanOrEqual(2);
    expect(on.held()).toEqual([]);
  });
});

describe('a worker that cannot work', () => {
  it.each<readonly [string, Partial<WorkerProcessOptions>, RegExp]>([
    [
      'a fleet that is not there',
      { fleet: 'video' },
      /not a fleet of the pool, got "video"\. The pool has: images/,
    ],
    ['no handler for a type', { handlers: { render: () => null } }, /has none for resize/],
    ['heartbeats as long as the lease', { heartbeatMs: 15_000 }, /heartbeatMs: .*got 15000/],
    ['heartbeats that leave no margin', { heartbeatMs: 2_000, leaseMs: 5_000 }, /below leaseMs - 3000/],
  ])('is refused before it registers: %s', async (_, own, message) => {
    const on = setting();
    const { report } = begin(on, () => null, own);
    await expect(report).rejects.toThrow(message);
    await expect(report).rejects.toMatchObject({ name: 'ConfigurationError' });
    expect(on.store.inspect(0).workers.size).toBe(0);
  });

  it('is refused on a fleet of functions', async () => {
    const on = stage();
    await expect(begin(on, () => null).report).rejects.toThrow(/declares 4 slots for functions/);
  });

  it('says so when it may not register', async () => {
    const on = setting();
    const store = storeWith(on.store, { registerWorker: () => Promise.reject(new RefusedError('no')) });
    await expect(begin(on, () => null, { store }).report).rejects.toMatchObject({ name: 'RefusedError' });
  });
});

describe('names of lives', () => {
  it('sort by their beginning, and differ within a millisecond', () => {
    const names = [
      incarnationOf(999, 0.9),
      incarnationOf(NOW_MS, 0.1),
      incarnationOf(NOW_MS, 0.2),
      incarnationOf(NOW_MS + 1, 0),
    ];
    expect(names.toSorted()).toEqual(names);
    expect(new Set(names).size).toBe(4);
    expect(incarnationOf(NOW_MS, 0.5)).toBe('001800000000000-80000000');
  });
});

describe('shares of slots', () => {
  it('add up, whatever the partitions', () => {
    for (let slots = 1; slots <= 12; slots += 1) {
      for (let partitions = 1; partitions <= 5; partitions += 1) {
        for (let offset = 0; offset < partitions; offset += 1) {
          const shares = [...sharesOf(slots, partitions, offset)];
          expect(shares.reduce((sum, [, share]) => sum + share, 0)).toBe(slots);
          expect(shares.map(([partition]) => partition).sort()).toEqual([...Array(partitions).keys()]);
        }
      }
    }
  });

  it('of small workers begin where each is told to', () => {
    expect([...sharesOf(1, 3, 2)]).toEqual([
      [2, 1],
      [0, 0],
      [1, 0],
    ]);
    expect([...sharesOf(4, 3, 1)]).toEqual([
      [1, 2],
      [2, 1],
      [0, 1],
    ]);
  });
});
