/** How long a function's attempt may run: as long as its function lives, whatever is configured, late or busy. */

import type { Context, SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { RetryPolicy } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { encodeDispatchMessage } from '../../lib/queue/message.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import { endAttemptOfDeadFunction } from '../../lib/worker/dead-function.ts';
import { lambdaWorker } from '../../lib/worker/lambda-batch.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import { FUNCTION_END_MS, type JobHandler } from '../../lib/worker/run-job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const TICK_MS = 5_000;

const pool = (timeoutMs: number, slots: number | null = 1, retry: Partial<RetryPolicy> = {}): PoolInput => ({
  types: {
    resize: {
      timeoutMs,
      conflictGroup: 'album',
      maxConcurrency: 1,
      retry: { jitter: 'none', delayMs: 1_000, ...retry },
    },
  },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots } },
});

const setting = (timeoutMs: number, slots: number | null = 1, retry: Partial<RetryPolicy> = {}): Stage =>
  stage({ pool: pool(timeoutMs, slots, retry), budget: { checkAfterMs: 10_000 } });

const ticks = async (on: Stage, ms: number, context: DispatchContext = on.main): Promise<void> => {
  for (const untilMs = on.time.nowMs + ms; on.time.nowMs < untilMs; await on.advance(TICK_MS))
    await on.pass({}, context);
};

interface Invocations {
  /** How many handlers ran at once at most. */
  readonly most: () => number;
  /** When each attempt began, in milliseconds. */
  readonly begun: readonly number[];
}

interface Functions {
  readonly functionMs: number;
  /** @default - six times that: its message does not come again */
  readonly hideMs?: number | undefined;
  readonly work: JobHandler;
  /** So late the answer to the start of the n-th invocation comes. */
  readonly lateMs?: ((n: number) => number) | undefined;
  readonly clock?: Clock | undefined;
  /** Its first invocation dies while its handler runs, and nothing comes of it any more. */
  readonly firstDies?: boolean | undefined;
}

/** Two pollers of the fleet's queue. A function is ended at its deadline, whatever it does. */
function functions(
  on: Stage,
  {
    functionMs,
    work,
    hideMs = 6 * functionMs,
    lateMs = () => 0,
    clock = on.clock,
    firstDies = false,
  }: Functions,
): Invocations {
  const fromMs = on.time.nowMs;
  const begun: number[] = [];
  let running = 0;
  let most = 0;
  let invocations = 0;
  const resize: JobHandler = async (payload, context) => {
    begun.push(on.time.nowMs - fromMs);
    running += 1;
    most = Math.max(most, running);
    try {
      return await work(payload, context);
    } finally {
      running -= 1;
    }
  };
  const poll = async (): Promise<void> => {
    for (;;) {
      const [received] = await on.queue.receive('images', 1, 3_600_000, hideMs);
      if (received === undefined) continue;
      invocations += 1;
      const invocation = invocations;
      const store = storeWith(on.store, {
        startJob: async (request) => {
          const outcome = await on.store.startJob(request);
          await on.clock.sleep(lateMs(invocation));
          return outcome;
        },
        ...(firstDies && invocation === 1 ? { saveHung: () => new Promise<never>(() => {}) } : {}),
      });
      const { configuration, random, log } = on;
      const handler = lambdaWorker(() => ({ store, configuration, clock, random, log, exit: () => {} }), {
        resize,
      });
      const event = {
        Records: [{ messageId: 'm', body: encodeDispatchMessage(received.jobs) }],
      } as unknown as SQSEvent;
      const lambda = {
        functionName: 'images',
        awsRequestId: `request-${invocation}`,
        getRemainingTimeInMillis: () => functionMs,
      } as unknown as Context;
      void handler(event, lambda).then(({ batchItemFailures }) => {
        if (batchItemFailures.length === 0) void on.queue.delete('images', [received.receipt]);
      });
    }
  };
  void poll();
  void poll();
  return { most: () => most, begun };
}

const putOne = async (on: Stage): Promise<Job> => {
  const job = on.job({ resourceId: 'a' });
  await on.put(job);
  return job;
};

describe("a function's attempt", () => {
  it('runs alone though its start was answered late: its function may live on', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    const work: JobHandler = async (_, { signal }) => {
      await on.clock.sleep(8_000, signal);
      return null;
    };
    const lateMs = (n: number): number => (n === 1 ? 45_000 : 0);
    const invocations = functions(on, { functionMs: 900_000, work, lateMs });
    await ticks(on, 120_000);
    expect([invocations.most(), invocations.begun]).toEqual([1, [45_000]]);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'succeeded', workersLost: 0 });
  });

  it('is not begun when the answer comes too late to be of use, and is tried again at once', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    const lateMs = (n: number): number => (n === 1 ? 15_500 : 0);
    const invocations = functions(on, { functionMs: 20_000, work: () => null, lateMs });
    await ticks(on, 40_000);
    expect(invocations.begun).toEqual([20_000]);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'succeeded', attempt: 1, workersLost: 0 });
  });

  it('is begun when half of its time is left', async () => {
    const on = setting(10_000);
    await putOne(on);
    const invocations = functions(on, { functionMs: 20_000, work: () => null, lateMs: () => 14_000 });
    await ticks(on, 40_000);
    expect(invocations.begun).toEqual([14_000]);
  });

  it('is not begun when its machine stood still until nobody counts it any more', async () => {
    const on = setting(10_000);
    await putOne(on);
    let stoodStillMs = 0;
    const clock = { ...on.clock, monotonicMs: () => on.clock.monotonicMs() - stoodStillMs };
    const lateMs = (n: number): number => {
      stoodStillMs = n === 1 ? 60_000 : 0;
      return stoodStillMs;
    };
    const invocations = functions(on, { functionMs: 60_000, work: () => null, lateMs, clock });
    await ticks(on, 65_000);
    expect(invocations.begun).not.toContain(60_000);
    await ticks(on, 60_000);
    expect(invocations.most()).toBe(1);
  });

  it('runs alone though its handler keeps the event loop busy far beyond its timeout', async () => {
    const on = setting(10_000);
    await putOne(on);
    let busyUntilMs = 0;
    const busyMs = [60_000, 1_000];
    // No timer of the process has its turn meanwhile.
    const clock: Clock = {
      ...on.clock,
      sleep: async (ms, signal) => {
        await on.clock.sleep(ms, signal);
        await on.clock.sleep(busyUntilMs - on.time.nowMs);
      },
    };
    const seen: boolean[] = [];
    const work: JobHandler = async (_, { signal }) => {
      const ms = busyMs.shift() ?? 0;
      busyUntilMs = on.time.nowMs + ms;
      await on.clock.sleep(ms);
      seen.push(signal.aborted);
      return null;
    };
    const invocations = functions(on, { functionMs: 900_000, work, clock });
    await ticks(on, 150_000);
    expect(invocations.most()).toBe(1);
    // Whoever looks at the signal is told, though no timer was.
    expect(seen[0]).toBe(true);
  });

  it('is taken away a little after the end of its function, and not before', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    functions(on, { functionMs: 30_000, firstDies: true, work: () => new Promise<never>(() => {}) });
    await on.pass();
    const fromMs = on.time.nowMs;
    const untilMs = 30_000 + FUNCTION_END_MS + CLOCK_SKEW_MAX_MS;
    await on.advance(1_000);
    expect(on.store.inspectJob(job.id)?.runUntilMs).toBe(fromMs + 30_000 + FUNCTION_END_MS);
    await on.advance(untilMs - 1_001);
    await on.pass();
    expect(on.stateOf(job.id)).toBe('running');
    await on.advance(on.main.budget.checkAfterMs);
    await on.pass();
    expect(on.store.inspectJob(job.id)?.workersLost).toBe(1);
  });
});

describe('a function whose handler goes on when its time is over', () => {
  it('has failed with a timeout, which counts as an attempt: its message brings that, and the job is not tried again', async () => {
    const on = setting(10_000, 1, { maxAttempts: 1 });
    const job = await putOne(on);
    const invocations = functions(on, {
      functionMs: 60_000,
      hideMs: 80_000,
      work: () => new Promise<never>(() => {}),
    });
    await on.pass();
    await ticks(on, 200_000);
    expect(invocations.begun).toEqual([0]);
    expect(on.store.inspectJob(job.id)).toMatchObject({
      state: 'failed',
      attempt: 1,
      workersLost: 0,
      error: { name: 'JobTimeout', message: expect.stringContaining('10000 ms') },
    });
  });
});

describe('the message of a function that died', () => {
  /** Its first invocation dies without a word, the next ones succeed. */
  const dyingOnce = (): JobHandler => {
    let invocations = 0;
    return () => {
      invocations += 1;
      return invocations === 1 ? new Promise<never>(() => {}) : null;
    };
  };

  it('says so when it comes again: the job starts 30 s after its function was over at the latest', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    // What the stream would bring: nobody else looks.
    on.store.subscribe(({ newJob }) => {
      if (newJob.state !== 'claimed' && newJob.state !== 'running')
        void dispatch(on.main, 0, { jobs: [newJob], reason: 'stream' });
    });
    const { begun, most } = functions(on, {
      functionMs: 60_000,
      hideMs: 80_000,
      firstDies: true,
      work: dyingOnce(),
    });
    await on.pass();
    await on.advance(89_000);
    expect(begun).toHaveLength(2);
    expect(begun[1]).toBeGreaterThanOrEqual(60_000 + FUNCTION_END_MS + CLOCK_SKEW_MAX_MS);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'succeeded', workersLost: 1 });
    // The handler of the dead one never ended here.
    expect(most()).toBe(2);
  });

  it.each([
    { when: 'while it may run', hideMs: 60_000, functionMs: 60_000 },
    { when: 'while clocks may differ', hideMs: 69_000, functionMs: 60_000 },
  ])('takes nothing from it $when', async ({ hideMs, functionMs }) => {
    const on = setting(10_000);
    const job = await putOne(on);
    functions(on, { functionMs, hideMs, work: dyingOnce() });
    await on.pass();
    await on.advance(hideMs + 500);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'running', workersLost: 0 });
  });

  it('takes nothing from a process, and nothing from an attempt that came after it', async () => {
    const on = setting(10_000, null);
    await on.store.registerWorker({
      partition: 0,
      record: {
        workerId: 'worker',
        incarnation: '1',
        fleet: 'images',
        slots: 1,
        expiresAtMs: on.time.nowMs + 3_600_000,
        occupants: [],
      },
    });
    await putOne(on);
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(600_000);
    expect(await endAttemptOfDeadFunction(on, started.message)).toBe('running');
    await on.end(started);
    expect(await endAttemptOfDeadFunction(on, started.message)).toBe('over');
    expect(await endAttemptOfDeadFunction(on, { ...started.message, jobId: 'nobody' })).toBe('over');
  });

  it('ends the attempt by the terms that it was claimed under, whatever was declared since', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    await on.pass();
    const [received] = await on.queue.receive('images', 1, 0, 60_000);
    if (received === undefined) throw new Error('nothing was sent');
    const message = onlyJob(received);
    const runUntilMs = on.time.nowMs + 60_000;
    await on.store.startJob({
      ...message,
      workerId: 'w',
      incarnation: '1',
      nowMs: on.time.nowMs,
      runUntilMs,
    });
    await on.advance(60_000 + CLOCK_SKEW_MAX_MS);
    const asked: unknown[] = [];
    const store = storeWith(on.store, {
      lookUpJobs: async ({ ids }) =>
        (await on.store.getJobs({ ids })).map((each) =>
          each?.claim === undefined ? each : { ...each, claim: { ...each.claim, declared: 3 } },
        ),
    });
    const typeUnder = async (version: number, name: string) => {
      asked.push([version, name]);
      const [type] = on.configuration.types;
      return type === undefined ? undefined : { ...type, onWorkerLost: 'fail' as const };
    };
    expect(await endAttemptOfDeadFunction({ ...on, store, typeUnder }, message)).toBe('ended');
    expect(asked).toEqual([[3, 'resize']]);
    expect(on.stateOf(job.id)).toBe('failed');
  });

  it('that is not there: a pass comes when the time of the function is over, not a minute later', async () => {
    const on = setting(10_000);
    const job = await putOne(on);
    on.queue.onWake(() => void dispatch(on.dispatcher(), 0, { jobs: [], reason: 'wake' }));
    functions(on, { functionMs: 55_000, firstDies: true, work: dyingOnce() });
    await on.pass();
    // Looked up each 10 s, as this stage says: for the last time 5 s before the end.
    await ticks(on, 60_000);
    await on.pass();
    expect(on.stateOf(job.id)).toBe('running');
    await on.advance(6_000);
    expect(on.store.inspectJob(job.id)?.workersLost).toBe(1);
  });
});

describe('a deployment while a job runs', () => {
  it("that lowers its type's timeout takes nothing from it", async () => {
    const on = setting(600_000);
    const job = await putOne(on);
    const work: JobHandler = async (_, { signal }) => {
      await on.clock.sleep(120_000, signal);
      return null;
    };
    const invocations = functions(on, { functionMs: 900_000, work });
    await ticks(on, 10_000);
    await ticks(on, 150_000, on.dispatcher({ configuration: resolveConfiguration(pool(10_000)) }));
    expect(invocations.most()).toBe(1);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'succeeded', workersLost: 0 });
  });

  it('that gives its fleet to processes takes nothing from a function', async () => {
    const on = setting(600_000);
    const job = await putOne(on);
    const work: JobHandler = async () => {
      await on.clock.sleep(120_000);
      return null;
    };
    const invocations = functions(on, { functionMs: 900_000, work });
    await ticks(on, 10_000);
    await ticks(on, 150_000, on.dispatcher({ configuration: resolveConfiguration(pool(600_000, null)) }));
    expect(invocations.begun).toHaveLength(1);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'succeeded', workersLost: 0 });
  });

  it('that gives its fleet to functions takes nothing from a process that lives, and all from one that died', async () => {
    const on = setting(600_000, null);
    const job = await putOne(on);
    let isDead = false;
    const mortal = storeWith(on.store, {
      heartbeat: ({ partition, record }) =>
        isDead ? new Promise(() => {}) : on.store.heartbeat({ partition, record }),
    });
    void runWorker({
      store: mortal,
      queue: on.queue,
      configuration: on.configuration,
      clock: on.clock,
      random: on.random,
      log: on.log,
      fleet: 'images',
      slots: 1,
      workerId: 'box',
      handlers: { resize: () => new Promise<never>(() => {}) },
      signal: new AbortController().signal,
      exit: () => {},
    });
    await ticks(on, 15_000);
    const next = on.dispatcher({ configuration: resolveConfiguration(pool(60_000, 1)) });
    await ticks(on, 200_000, next);
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'running', workersLost: 0 });
    isDead = true;
    await ticks(on, 60_000, next);
    expect(on.store.inspectJob(job.id)).toMatchObject({ workersLost: 1 });
  });
});
