/** What ends an attempt from outside: a cancel, another holder, the end of the worker; and what it leaves behind. */

import { describe, expect, it } from 'vitest';
import { UnavailableError } from '../../lib/core/errors.ts';
import { historyOf } from '../../lib/core/history.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { WATCH_EVERY_MS, watchJobs } from '../../lib/worker/attempt-host.ts';
import { isAttemptError, WorkerStoppedError } from '../../lib/worker/errors.ts';
import {
  type JobContext,
  type JobHandler,
  type RunContext,
  type RunOutcome,
  runJob,
} from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const WORKER = { workerId: 'worker-1', incarnation: 'first' };
const EXPIRES_AT_MS = NOW_MS + 7 * 24 * 3_600_000;

const setting = (onWorkerLost: 'fail' | 'retry' | 'resume' = 'resume'): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 600_000, onWorkerLost, retry: { jitter: 'none', delayMs: 1_000 } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
  });

async function claimed(on: Stage, changes: Partial<Job> = {}): Promise<DispatchMessage> {
  const job = on.job(changes);
  await on.put(job);
  await on.pass({ jobs: [job], reason: 'stream' });
  const [received] = await on.queue.receive('images', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  return onlyJob(received);
}

function run(
  on: Stage,
  handler: JobHandler,
  message: DispatchMessage,
  own: Partial<RunContext> = {},
): Promise<RunOutcome> {
  const { store, configuration, clock, random, log } = on;
  const watch = watchJobs({ store, clock, log });
  return runJob(
    { store, configuration, clock, random, log, worker: WORKER, watch, ...own },
    { resize: handler },
    message,
  );
}

const jobIn = (on: Stage, { jobId }: DispatchMessage): Job => {
  const job = on.store.inspectJob(jobId);
  if (job === undefined) throw new Error(`no job ${jobId}`);
  return job;
};

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

/** Works until its time is over, unless it is told to stop. */
const workFor =
  (on: Stage, ms: number): JobHandler =>
  async (_, { signal }) => {
    await on.clock.sleep(ms, signal);
    signal.throwIfAborted();
    return 'done';
  };

/** After this much time, an operator wants the job's end. */
const cancelAfter = (on: Stage, message: DispatchMessage, ms: number): void =>
  on.time.after(
    ms,
    () => void on.store.cancelJob({ jobId: message.jobId, nowMs: on.time.nowMs, expiresAtMs: EXPIRES_AT_MS }),
  );

describe('a running job whose end is asked for', () => {
  it('is told within the interval of the look, and ends cancelled', async () => {
    const on = setting();
    const message = await claimed(on);
    let reason: unknown;
    const handler: JobHandler = async (_, { signal }) => {
      await untilAborted(signal);
      reason = signal.reason;
      return 'cleaned up';
    };
    cancelAfter(on, message, 12_000);
    expect(await on.finish(run(on, handler, message))).toBe('cancelled');
    expect(reason).toMatchObject({ reason: 'JobCancelled' });
    expect(jobIn(on, message)).toMatchObject({
      state: 'cancelled',
      attempt: 1,
      cancelRequestedAtMs: NOW_MS + 12_000,
      finishedAtMs: NOW_MS + 2 * WATCH_EVERY_MS,
      worker: WORKER,
    });
    expect(jobIn(on, message).result).toBeUndefined();
  });

  it('is cancelled too when its handler throws, whatever it throws', async () => {
    const on = setting();
    const message = await claimed(on);
    cancelAfter(on, message, 1);
    expect(await on.finish(run(on, workFor(on, 60_000), message))).toBe('cancelled');
  });

  it('succeeds if its handler was faster than the look', async () => {
    const on = setting();
    const message = await claimed(on);
    cancelAfter(on, message, 1);
    expect(await on.finish(run(on, workFor(on, 5_000), message))).toBe('succeeded');
    expect(jobIn(on, message)).toMatchObject({ state: 'succeeded', result: 'done' });
  });

  it('is not tried again if it fails before the look', async () => {
    const on = setting();
    const message = await claimed(on);
    cancelAfter(on, message, 1);
    const handler: JobHandler = async () => {
      await on.clock.sleep(5_000);
      throw new Error('no');
    };
    expect(await on.finish(run(on, handler, message))).toBe('cancelled');
    expect(jobIn(on, message)).toMatchObject({ state: 'cancelled', attempt: 1, error: { message: 'no' } });
  });

  it('hangs if its handler goes on', async () => {
    const on = setting();
    const message = await claimed(on);
    cancelAfter(on, message, 1);
    const hung = run(on, () => new Promise<never>(() => {}), message);
    await expect(on.finish(hung)).rejects.toMatchObject({ name: 'AttemptError', reason: 'HandlerHung' });
    expect(jobIn(on, message).state).toBe('running');
  });
});

describe('the look', () => {
  it('costs jobs nothing that end before it', async () => {
    const on = setting();
    const message = await claimed(on);
    let reads = 0;
    const store = storeWith(on.store, {
      lookUpJobs: ({ ids }) => {
        reads += 1;
        return on.store.getJobs({ ids });
      },
    });
    const watch = watchJobs({ store, clock: on.clock, log: on.log });
    await on.finish(run(on, workFor(on, WATCH_EVERY_MS - 1), message, { watch }));
    await on.advance(60_000);
    expect(reads).toBe(0);
  });

  it('reads all long jobs of a host at once', async () => {
    const on = setting();
    const messages = [await claimed(on), await claimed(on), await claimed(on)];
    const read: number[] = [];
    const store = storeWith(on.store, {
      lookUpJobs: ({ ids }) => {
        read.push(ids.length);
        return on.store.getJobs({ ids });
      },
    });
    const watch = watchJobs({ store, clock: on.clock, log: on.log });
    const outcomes = messages.map((message) => run(on, workFor(on, 25_000), message, { watch }));
    expect(await on.finish(Promise.all(outcomes))).toEqual(['succeeded', 'succeeded', 'succeeded']);
    expect(read).toEqual([3, 3]);
  });

  it('that fails is made up for by the next one', async () => {
    const on = setting();
    const message = await claimed(on);
    let looks = 0;
    const store = storeWith(on.store, {
      lookUpJobs: ({ ids }) => {
        looks += 1;
        return looks === 1 ? Promise.reject(new UnavailableError('no answer')) : on.store.getJobs({ ids });
      },
    });
    cancelAfter(on, message, 1);
    const watch = watchJobs({ store, clock: on.clock, log: on.log });
    expect(await on.finish(run(on, workFor(on, 600_000), message, { watch }))).toBe('cancelled');
    expect(on.time.nowMs).toBe(NOW_MS + 2 * WATCH_EVERY_MS);
  });

  it('leaves a job alone whose record cannot be read', async () => {
    const on = setting();
    const message = await claimed(on);
    const store = storeWith(on.store, {
      lookUpJobs: async ({ ids, unreadable }) => {
        for (const id of ids) unreadable?.(id);
        return ids.map(() => undefined);
      },
    });
    const watch = watchJobs({ store, clock: on.clock, log: on.log });
    expect(await on.finish(run(on, workFor(on, 25_000), message, { watch }))).toBe('succeeded');
  });

  it('that is still under way when the job ends says nothing any more', async () => {
    const on = setting();
    const message = await claimed(on);
    const store = storeWith(on.store, {
      lookUpJobs: async ({ ids }) => {
        await on.clock.sleep(5_000);
        return on.store.getJobs({ ids });
      },
    });
    const watch = watchJobs({ store, clock: on.clock, log: on.log });
    expect(await on.finish(run(on, workFor(on, WATCH_EVERY_MS + 1_000), message, { watch }))).toBe(
      'succeeded',
    );
    await on.advance(60_000);
    expect(jobIn(on, message).state).toBe('succeeded');
  });

  it('tells an attempt that another holds the job, and nothing of it counts', async () => {
    const on = setting();
    const message = await claimed(on);
    const lost = { kind: 'failed', error: { name: 'WorkerLost', message: '' } } as const;
    on.time.after(2_000, () => {
      void on.store.endUnfinished({
        job: jobIn(on, message),
        verdict: lost,
        nowMs: on.time.nowMs,
        expiresAtMs: EXPIRES_AT_MS,
      });
    });
    let reason: unknown;
    const handler: JobHandler = async (_, { signal }) => {
      await untilAborted(signal);
      reason = signal.reason;
      return 'too late';
    };
    expect(await on.finish(run(on, handler, message))).toBe('superseded');
    expect(reason).toMatchObject({ reason: 'JobSuperseded' });
    expect(jobIn(on, message)).toMatchObject({ state: 'failed', error: { name: 'WorkerLost' } });
  });
});

describe('a checkpoint', () => {
  it('is what the next attempt goes on from', async () => {
    const on = setting();
    const seen: (Json | undefined)[] = [];
    const handler: JobHandler = async (_, { checkpoint, lastCheckpoint, attempt }) => {
      seen.push(lastCheckpoint);
      if (attempt === 2) return lastCheckpoint;
      await checkpoint({ page: 1 });
      await checkpoint({ page: 2 });
      throw new Error('half-way');
    };
    const first = await claimed(on);
    expect(await on.finish(run(on, handler, first))).toBe('retry');
    await on.advance(2_000);
    await on.pass({ jobs: [jobIn(on, first)] });
    const [again] = await on.queue.receive('images', 1, 0, 60_000);
    expect(await on.finish(run(on, handler, again === undefined ? first : onlyJob(again)))).toBe('succeeded');
    expect(seen).toEqual([undefined, { page: 2 }]);
    expect(jobIn(on, first).result).toEqual({ page: 2 });
  });

  it('that its handler does not wait for ends nothing when it is not kept, and is logged', async () => {
    const on = setting();
    const message = await claimed(on);
    const handler: JobHandler = async (_, { checkpoint }) => {
      void checkpoint((() => 1) as never);
      return 'done';
    };
    expect(await on.finish(run(on, handler, message))).toBe('succeeded');
    expect(on.logged).toContainEqual(expect.objectContaining({ message: 'a checkpoint was not kept' }));
  });

  it('of an attempt that was superseded is refused, and tells it to stop', async () => {
    const on = setting();
    const message = await claimed(on);
    let stopped = false;
    const handler: JobHandler = async (_, { checkpoint, signal }) => {
      const lost = { kind: 'failed', error: { name: 'WorkerLost', message: '' } } as const;
      await on.store.endUnfinished({
        job: jobIn(on, message),
        verdict: lost,
        nowMs: NOW_MS,
        expiresAtMs: EXPIRES_AT_MS,
      });
      await checkpoint(1).catch((error: Error) => {
        stopped = signal.aborted && isAttemptError(error, 'JobSuperseded');
      });
      return 'ignored';
    };
    expect(await on.finish(run(on, handler, message))).toBe('superseded');
    expect(stopped).toBe(true);
    expect(jobIn(on, message).checkpoint).toBeUndefined();
  });

  it.each<readonly [string, unknown, RegExp]>([
    [
      'what is not JSON',
      () => 1,
      /the checkpoint cannot be kept as JSON: a function is not JSON; leave it out, or keep plain data/,
    ],
    ['more than is kept', 'x'.repeat(70_000), /the checkpoint has 70002 bytes, at most 65536/],
  ])('cannot be %s', async (_, data, message) => {
    const on = setting();
    const claim = await claimed(on);
    let refusal: unknown;
    await on.finish(
      run(
        on,
        async (__, { checkpoint }: JobContext) => {
          refusal = await checkpoint(data as Json).catch((error: unknown) => error);
          return null;
        },
        claim,
      ),
    );
    expect(refusal).toMatchObject({ reason: 'CheckpointRefused', message: expect.stringMatching(message) });
    expect(jobIn(on, claim)).toMatchObject({ state: 'succeeded' });
  });
});

describe('the end of the worker', () => {
  const stopAfter = (on: Stage, ms: number): AbortSignal => {
    const ending = new AbortController();
    on.time.after(ms, () => ending.abort(new WorkerStoppedError('the worker is shut down')));
    return ending.signal;
  };

  it('gives a job back that it cuts off: neither a lost worker is counted, nor an attempt', async () => {
    const on = setting();
    const message = await claimed(on);
    const signal = stopAfter(on, 3_000);
    expect(await on.finish(run(on, workFor(on, 60_000), message, { signal }))).toBe('released');
    expect(jobIn(on, message)).toMatchObject({
      state: 'scheduled',
      attempt: 1,
      workersLost: 0,
      runAtMs: on.time.nowMs,
      // At its old place, among those that wait.
      readyAtMs: NOW_MS,
    });
  });

  it('fails no job, whatever its type says of lost workers', async () => {
    const on = setting('fail');
    const message = await claimed(on);
    const signal = stopAfter(on, 3_000);
    expect(await on.finish(run(on, workFor(on, 60_000), message, { signal }))).toBe('released');
    const job = jobIn(on, message);
    expect(job).toMatchObject({ state: 'scheduled', workersLost: 0, error: { name: 'WorkerStopped' } });
    expect(historyOf(job).events.at(-1)).toMatchObject({ outcome: 'released', next: { isFromStart: true } });
  });

  it('counts as a loss where its lease is over', async () => {
    const on = setting('fail');
    const message = await claimed(on);
    const ending = new AbortController();
    on.time.after(3_000, () =>
      ending.abort(new WorkerStoppedError('the worker lost its lease', { isLoss: true })),
    );
    const { signal } = ending;
    expect(await on.finish(run(on, workFor(on, 60_000), message, { signal }))).toBe('released');
    expect(jobIn(on, message)).toMatchObject({
      state: 'failed',
      workersLost: 1,
      error: { name: 'WorkerLost' },
    });
  });

  it('lets a result count that comes at once', async () => {
    const on = setting();
    const message = await claimed(on);
    const signal = stopAfter(on, 3_000);
    const handler: JobHandler = async (_, context) => {
      await untilAborted(context.signal);
      await on.clock.sleep(500);
      return 'just in time';
    };
    expect(await on.finish(run(on, handler, message, { signal }))).toBe('succeeded');
    expect(jobIn(on, message).result).toBe('just in time');
  });

  it('that came before the handler began gives the job back, and runs nothing of it', async () => {
    const on = setting();
    const message = await claimed(on);
    const signal = AbortSignal.abort('anything');
    let hasRun = false;
    const handler: JobHandler = () => {
      hasRun = true;
      return null;
    };
    expect(await on.finish(run(on, handler, message, { signal }))).toBe('released');
    expect(jobIn(on, message)).toMatchObject({ state: 'scheduled', attempt: 1 });
    expect(hasRun).toBe(false);
  });
});
