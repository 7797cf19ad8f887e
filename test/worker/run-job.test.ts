/** One attempt of one job: what its handler is told, and what becomes of what it does. */

import { describe, expect, it } from 'vitest';
import type { RetryPolicy } from '../../lib/core/configuration.ts';
import { UnavailableError } from '../../lib/core/errors.ts';
import { attemptEntry, historyOf, withEntry } from '../../lib/core/history.ts';
import { type History, type Job, type Json, TERMINAL_TTL_MS } from '../../lib/core/job.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { instantOf } from '../../lib/runtime/instant.ts';
import {
  type JobContext,
  type JobHandler,
  type RunContext,
  type RunOutcome,
  runJob,
  STOP_GRACE_MS,
} from '../../lib/worker/run-job.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const TIMEOUT_MS = 30_000;
const WORKER = { workerId: 'worker-1', incarnation: 'first' };

const setting = (retry: Partial<RetryPolicy> = {}): Stage =>
  stage({
    pool: {
      types: {
        resize: { timeoutMs: TIMEOUT_MS, retry: { jitter: 'none', delayMs: 1_000, ...retry } },
        once: { timeoutMs: TIMEOUT_MS, retry: { maxAttempts: 1 } },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'once'], slots: 4 } },
    },
  });

/** A function's, from now on. */
const lifeOf = (on: Stage, lastsMs: number): RunContext['life'] => ({ since: instantOf(on.clock), lastsMs });

/** A job that was claimed and sent. */
async function claimed(on: Stage, changes: Partial<Job> = {}): Promise<DispatchMessage> {
  await on.put(on.job(changes));
  await on.pass();
  const [received] = await on.queue.receive('images', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  return onlyJob(received);
}

interface Ran {
  readonly on: Stage;
  readonly message: DispatchMessage;
  readonly outcome: RunOutcome;
  readonly job: Job;
}

function contextOf(on: Stage, own: Partial<RunContext> = {}): RunContext {
  const { store, configuration, clock, random, log } = on;
  return { store, configuration, clock, random, log, worker: WORKER, ...own };
}

const jobIn = (on: Stage, id: string): Job => {
  const job = on.store.inspectJob(id);
  if (job === undefined) throw new Error(`no job ${id}`);
  return job;
};

async function run(
  handler: JobHandler,
  { on = setting(), own = {}, ...changes }: { on?: Stage; own?: Partial<RunContext> } & Partial<Job> = {},
): Promise<Ran> {
  const message = await claimed(on, changes);
  const handlers = { resize: handler, once: handler };
  const outcome = await on.finish(runJob(contextOf(on, own), handlers, message));
  return { on, message, outcome, job: jobIn(on, message.jobId) };
}

/** Of a job that workers have given back so often. */
function releasedSoOften(times: number): History | undefined {
  let history: History | undefined;
  for (let at = 0; at < times; at += 1)
    history = withEntry(history, attemptEntry(aJob(), { outcome: 'released', endedAtMs: NOW_MS }));
  return history;
}

/** Resolves when its signal aborts. */
const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

describe('a job whose record cannot be read in full', () => {
  it('fails for good with the reason, and no handler sees it', async () => {
    const on = setting({ maxAttempts: 5 });
    const message = await claimed(on);
    const unreadable = 'item job/x job: attribute payload is "{", not JSON';
    const store = storeWith(on.store, {
      startJob: async (request) => {
        const started = await on.store.startJob(request);
        return started.kind === 'started' ? { ...started, job: { ...started.job, unreadable } } : started;
      },
    });
    const seen: unknown[] = [];
    const resize = (payload: unknown): null => {
      seen.push(payload);
      return null;
    };
    expect(await on.finish(runJob(contextOf(on, { store }), { resize }, message))).toBe('failed');
    const error = { name: 'JobUnreadable', message: unreadable };
    expect(jobIn(on, message.jobId)).toMatchObject({ state: 'failed', attempt: 1, error });
    expect(seen).toEqual([]);
  });
});

describe('an attempt that succeeds', () => {
  it('keeps what the handler returned, and says who ran it when', async () => {
    const { outcome, job } = await run(async (payload) => ({ got: payload }), { payload: { n: 1 } });
    expect(outcome).toBe('succeeded');
    expect(job).toMatchObject({
      state: 'succeeded',
      result: { got: { n: 1 } },
      worker: WORKER,
      startedAtMs: NOW_MS,
      finishedAtMs: NOW_MS,
      attempt: 1,
    });
  });

  it('tells the handler which job it is', async () => {
    let told: JobContext | undefined;
    let wasAborted: boolean | undefined;
    const { job } = await run(
      (_, context) => {
        told = context;
        wasAborted = context.signal.aborted;
        return null;
      },
      {
        fairnessKey: 'tenant',
        resourceId: 'album',
        traceparent: 'the trace',
        tags: { order: '4711' },
      },
    );
    expect(told).toMatchObject({
      jobId: job.id,
      type: 'resize',
      attempt: 1,
      fairnessKey: 'tenant',
      resourceId: 'album',
      traceparent: 'the trace',
      tags: { order: '4711' },
      fencingToken: job.version - 1,
    });
    expect(wasAborted).toBe(false);
    expect(told?.signal.reason).toMatchObject({ reason: 'AttemptEnded' });
  });

  it('lets what wraps a handler give it a signal of its own', async () => {
    const own = new AbortController();
    own.abort(new Error('own'));
    const { job } = await run((_, context) => {
      const given = context.signal;
      Object.assign(context, { signal: AbortSignal.any([given, own.signal]) });
      return [given.aborted, context.signal.aborted, { ...context }.signal.aborted];
    });
    expect(job.result).toEqual([false, true, true]);
  });

  it.each<readonly [string, (context: JobContext) => JobContext]>([
    ['an object that inherits from it', (context) => Object.create(context)],
    ['a proxy of it', (context) => new Proxy(context, {})],
    ['a copy', (context) => ({ ...context })],
    [
      'a copy of its properties as they are',
      (context) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(context)) as JobContext,
    ],
  ])('gives a handler its signal through %s, too', async (_, wrap) => {
    const { job } = await run((_payload, context) => wrap(context).signal.aborted);
    expect(job.result).toBe(false);
  });

  it('keeps no properties that are undefined, as JSON does', async () => {
    const returned = { url: 'a', pages: undefined, last: { no: 1, next: undefined } };
    const { job } = await run(() => returned as unknown as Json);
    expect(job.result).toStrictEqual({ url: 'a', last: { no: 1 } });
  });

  it('is kept for a week', async () => {
    const { on, job } = await run(() => null);
    await on.advance(TERMINAL_TTL_MS - 1);
    expect(on.stateOf(job.id)).toBe('succeeded');
    await on.advance(1);
    expect(on.stateOf(job.id)).toBeUndefined();
  });

  it.each<readonly [string, unknown, Json]>([
    ['nothing', undefined, null],
    ['null', null, null],
    ['false', false, false],
    ['undefined fields', { a: undefined, b: 1 }, { b: 1 }],
    ['an ill-formed text', '\ud800', '\ud800'],
  ])('may return %s', async (_, returned, kept) => {
    const { outcome, job } = await run(() => returned as Json);
    expect([outcome, job.result]).toEqual(['succeeded', kept]);
  });

  it('passes on what the handler says of its progress', async () => {
    const said: unknown[] = [];
    const own = { onProgress: (_: Job, progress: unknown) => void said.push(progress) };
    await run(
      (_, { heartbeat }) => {
        heartbeat({ done: 1 });
        heartbeat({ done: 2 });
        return null;
      },
      { own },
    );
    expect(said).toEqual([{ done: 1 }, { done: 2 }]);
  });
});

describe('an attempt that fails', () => {
  const broken = (): never => {
    throw new RangeError('out of reach');
  };

  it('is tried again after its delay, with its error kept', async () => {
    const { outcome, job } = await run(broken);
    expect(outcome).toBe('retry');
    expect(job).toMatchObject({
      state: 'scheduled',
      attempt: 2,
      runAtMs: NOW_MS + 1_000,
      workersLost: 0,
      error: { name: 'RangeError', message: 'out of reach' },
    });
  });

  it('fails for good with its last attempt', async () => {
    const { outcome, job } = await run(broken, { type: 'once' });
    expect(outcome).toBe('failed');
    expect(job).toMatchObject({ state: 'failed', attempt: 1, error: { name: 'RangeError' } });
  });

  it('fails at once with an error that the policy does not retry', async () => {
    const on = setting({ errors: [{ name: 'RangeError', retry: false }] });
    expect(await run(broken, { on })).toMatchObject({
      outcome: 'failed',
      job: { state: 'failed', attempt: 1 },
    });
  });

  it.each<readonly [string, unknown, string, string | RegExp]>([
    ['an error of its own name', Object.assign(new Error('no'), { name: 'NotFound' }), 'NotFound', 'no'],
    ['an error without a name', Object.assign(new Error('no'), { name: '' }), 'Error', 'no'],
    ['an error whose name is no text', Object.assign(new Error('no'), { name: 42 }), '42', 'no'],
    ['an error whose message is no text', Object.assign(new Error('no'), { message: 42 }), 'Error', '42'],
    ['text', 'just text', 'Error', 'just text'],
    ['nothing', undefined, 'Error', 'undefined'],
    ['a plain object', { code: 7 }, 'Error', /code/],
    ['an object that cannot be text', Object.create(null), 'Error', /./],
    [
      'an error with a message that throws',
      Object.defineProperty(new Error('x'), 'message', { get: broken }),
      'Error',
      /./,
    ],
    ['an endless message', new Error('m'.repeat(100_000)), 'Error', 'm'.repeat(2_048)],
    ['an endless name', Object.assign(new Error('no'), { name: 'N'.repeat(1_000) }), 'N'.repeat(128), 'no'],
    ['an ill-formed message', new Error('\ud800'), 'Error', '\ufffd'],
    ['an ill-formed name', Object.assign(new Error('no'), { name: '\ud800' }), '\ufffd', 'no'],
  ])('says why, whatever was thrown: %s', async (_, thrown, name, message) => {
    const { outcome, job } = await run(() => Promise.reject(thrown), { type: 'once' });
    expect(outcome).toBe('failed');
    expect(job.error?.name).toBe(name);
    if (typeof message === 'string') expect(job.error?.message).toBe(message);
    else expect(job.error?.message).toMatch(message);
  });

  const circular: Record<string, unknown> = {};
  circular.self = circular;
  it.each<readonly [string, unknown, RegExp]>([
    ['a function', () => 1, /: a function is not JSON; leave it out, or return plain data/],
    ['a symbol', Symbol('s'), /: Symbol\(s\) is not JSON/],
    ['a big integer', { n: 1n }, /: n: the bigint 1 is not JSON/],
    ['a circle', { pages: [circular] }, /: pages: is too deep, or contains itself/],
    ['a date', { pages: [{ at: new Date(0) }] }, /: pages\[0\]\.at: a Date is not JSON; return plain data/],
    ['a map', { seen: new Map([[1, 2]]) }, /: seen: a Map is not JSON; return plain data, such as its text/],
    ['an object of a class', { at: new URL('http://a.b') }, /: at: an? URL is not JSON/],
    ['no number', { share: 0 / 0 }, /: share: NaN is not a JSON number; return null or text instead/],
    ['an array with a hole', [1, undefined], /: \[1\]: undefined is not JSON/],
    ['more than is kept', 'x'.repeat(70_000), /70002 bytes, at most 65536/],
    ['a depth that no JSON has', Array.from({ length: 50_000 }).reduce((inner) => [inner], []), /too deep/],
  ])('is one whose result cannot be kept: %s', async (_, returned, reason) => {
    const { outcome, job } = await run(() => returned as Json, { type: 'once' });
    expect(outcome).toBe('failed');
    expect(job.error).toMatchObject({ name: 'ResultRefused', message: expect.stringMatching(reason) });
  });

  it.each(['resize', 'toString', 'constructor', '__proto__'])(
    'is one without a handler, for good: %s',
    async (type) => {
      const on = setting();
      const message = await claimed(on);
      const started = { ...jobIn(on, message.jobId), type };
      const store = storeWith(on.store, {
        startJob: (request) =>
          on.store
            .startJob(request)
            .then((outcome) =>
              outcome.kind === 'started' ? { kind: 'started', job: { ...outcome.job, type } } : outcome,
            ),
      });
      const outcome = await on.finish(runJob(contextOf(on, { store }), { other: () => null }, message));
      expect(started.type).toBe(type);
      // Another attempt would find none either.
      expect(outcome).toBe('failed');
      expect(jobIn(on, message.jobId).error).toEqual({
        name: 'MissingHandler',
        message: `this worker has no handler for the job type ${JSON.stringify(type)}; it has: other`,
      });
    },
  );
});

describe('a handler that is missing while a deployment is under way', () => {
  const HOUR_MS = 3_600_000;
  const YOUNG = NOW_MS - 60_000;
  const OLD = NOW_MS - HOUR_MS;

  /** A job that was claimed under one version meets a worker without its handler that began with another. */
  async function meets(
    claimedUnder: number,
    { declared, declaredAtMs }: Pick<RunContext, 'declared' | 'declaredAtMs'>,
    releases = 0,
  ): Promise<Pick<Ran, 'outcome' | 'job'>> {
    const on = setting();
    const message = await claimed(on, { history: releasedSoOften(releases) });
    const store = storeWith(on.store, {
      startJob: async (request) => {
        const outcome = await on.store.startJob(request);
        if (outcome.kind !== 'started' || outcome.job.claim === undefined) return outcome;
        const claim = { ...outcome.job.claim, declared: claimedUnder };
        return { kind: 'started', job: { ...outcome.job, claim } };
      },
    });
    const context = contextOf(on, { store, declared, declaredAtMs });
    const outcome = await on.finish(runJob(context, { other: () => null }, message));
    return { outcome, job: jobIn(on, message.jobId) };
  }

  it.each([
    ['claimed under a newer declaration', 3, { declared: 2, declaredAtMs: OLD }],
    [
      "claimed under an older one, and its type is not this fleet's any more",
      1,
      { declared: 2, declaredAtMs: OLD },
    ],
    [
      "claimed under one that is younger than this worker's handlers may be",
      2,
      { declared: 2, declaredAtMs: YOUNG },
    ],
  ])('gives the job back that was %s', async (_, under, worker) => {
    const { outcome, job } = await meets(under, worker);
    expect(outcome).toBe('released');
    expect(job).toMatchObject({ state: 'scheduled', runAtMs: NOW_MS + 60_000, workersLost: 0, attempt: 1 });
  });

  it.each([
    ['declared long ago', 2, { declared: 2, declaredAtMs: OLD }, 0],
    ['the first of all: there are no older workers', 1, { declared: 1, declaredAtMs: YOUNG }, 0],
    ['met by such workers for a quarter of an hour', 2, { declared: 2, declaredAtMs: YOUNG }, 15],
  ])(
    'fails it, and names the handlers that there are, where its declaration is %s',
    async (_, under, worker, releases) => {
      const { outcome, job } = await meets(under, worker, releases);
      expect(outcome).toBe('failed');
      expect(job.error).toMatchObject({
        name: 'MissingHandler',
        message: expect.stringMatching(/it has: other$/),
      });
    },
  );
});

describe('an attempt that takes too long', () => {
  it("is told to stop at its type's timeout, and may clean up", async () => {
    let abortedAtMs: number | undefined;
    const on = setting();
    const { outcome, job } = await run(
      async (_, { signal }) => {
        await untilAborted(signal);
        abortedAtMs = on.time.nowMs;
        return 'too late';
      },
      { on, type: 'once' },
    );
    expect(abortedAtMs).toBe(NOW_MS + TIMEOUT_MS);
    expect(outcome).toBe('failed');
    expect(job.error).toEqual({
      name: 'JobTimeout',
      message: `the attempt took longer than ${TIMEOUT_MS} ms and was told to stop`,
    });
    expect(job.result).toBeUndefined();
  });

  it('is tried again like any other failure', async () => {
    const { outcome, job } = await run((_, { signal }) => untilAborted(signal).then(() => null));
    expect([outcome, job.state, job.attempt]).toEqual(['retry', 'scheduled', 2]);
  });

  it('has timed out, whatever it throws when it is told to stop', async () => {
    const { job } = await run(
      (_, { signal }) => untilAborted(signal).then(() => Promise.reject(new Error('other'))),
      {
        type: 'once',
      },
    );
    expect(job.error?.name).toBe('JobTimeout');
  });

  it('and does not heed its signal hangs: the job says so, is left to its lease, and the process must end', async () => {
    const on = setting();
    const message = await claimed(on);
    const hung = runJob(contextOf(on), { resize: () => new Promise<Json>(() => {}) }, message);
    await expect(on.finish(hung)).rejects.toMatchObject({ name: 'AttemptError', reason: 'HandlerHung' });
    expect(on.time.nowMs).toBe(NOW_MS + TIMEOUT_MS + STOP_GRACE_MS);
    const error = { name: 'JobTimeout', message: expect.stringContaining('did not stop') };
    expect(jobIn(on, message.jobId)).toMatchObject({ state: 'running', hung: error });
    expect(historyOf(jobIn(on, message.jobId)).events.at(-1)).toMatchObject({ outcome: 'running', error });
  });

  it('leaves no timer behind when it does not', async () => {
    const { on } = await run(() => null);
    expect(on.time.nowMs).toBe(NOW_MS);
  });

  it('is told to stop before its process ends, with time to say so', async () => {
    const on = setting();
    const own = { life: lifeOf(on, 20_000) };
    const { job } = await run((_, { signal }) => untilAborted(signal).then(() => null), {
      on,
      own,
      type: 'once',
    });
    expect(job.error?.name).toBe('JobTimeout');
    const leftMs = NOW_MS + 20_000 - on.time.nowMs;
    expect(leftMs).toBeGreaterThan(0);
    expect(leftMs).toBeLessThan(20_000);
  });

  it.each([3_000, 6_000, 10_000])('has most of the time of a function that lives %i ms', async (livesMs) => {
    const on = setting();
    const own = { life: lifeOf(on, livesMs) };
    const work = (): Promise<null> => on.clock.sleep(livesMs * 0.6).then(() => null);
    expect((await run(work, { on, own })).outcome).toBe('succeeded');
  });

  it.each([3_000, 6_000, 60_000])('hangs before the end of a function that lives %i ms', async (livesMs) => {
    const on = setting();
    const message = await claimed(on);
    const hung = runJob(
      contextOf(on, { life: lifeOf(on, livesMs) }),
      { resize: () => new Promise<Json>(() => {}) },
      message,
    );
    await expect(on.finish(hung)).rejects.toMatchObject({ name: 'AttemptError', reason: 'HandlerHung' });
    expect(on.time.nowMs).toBeLessThan(NOW_MS + livesMs);
  });

  it('is told when its worker ends', async () => {
    const ending = new AbortController();
    const { outcome, job } = await run(
      async (_, { signal }) => {
        ending.abort(new Error('shutting down'));
        return signal.aborted;
      },
      { own: { signal: ending.signal } },
    );
    expect([outcome, job.result]).toEqual(['succeeded', true]);
  });
});

describe('an attempt whose worker stood still before its handler began', () => {
  it('runs nothing once the lease is over, and gives the job back as it was', async () => {
    const on = setting();
    const ending = new AbortController();
    const seen: Json[] = [];
    const { outcome, job } = await run((payload) => void seen.push(payload), {
      on,
      own: {
        signal: ending.signal,
        // Nothing has told it yet: it finds that by its clock, when it looks.
        lookAtLease: () => {
          if (on.time.nowMs > NOW_MS + TIMEOUT_MS) ending.abort(new Error('the lease is over'));
        },
        store: storeWith(on.store, {
          startJob: async (request) => {
            const started = await on.store.startJob(request);
            await on.clock.sleep(2 * TIMEOUT_MS);
            return started;
          },
        }),
      },
    });
    expect(seen).toEqual([]);
    expect(outcome).toBe('released');
    expect(job).toMatchObject({ state: 'scheduled', attempt: 1 });
  });
});

describe('a message', () => {
  const count = (): { readonly handlers: { resize: JobHandler }; readonly calls: () => number } => {
    let calls = 0;
    const resize = (): null => {
      calls += 1;
      return null;
    };
    return { handlers: { resize }, calls: () => calls };
  };

  it('that comes again runs nothing', async () => {
    const on = setting();
    const message = await claimed(on);
    const { handlers, calls } = count();
    const other = contextOf(on, { worker: { workerId: 'worker-2', incarnation: 'second' } });
    const outcomes = await on.finish(
      Promise.all([runJob(contextOf(on), handlers, message), runJob(other, handlers, message)]),
    );
    expect(outcomes.toSorted()).toEqual(['succeeded', 'superseded']);
    expect(await on.finish(runJob(contextOf(on), handlers, message))).toBe('superseded');
    expect(calls()).toBe(1);
  });

  it.each([
    ['of another claim', { claimId: '9-9.0', toClaim: undefined }],
    [
      'of a version that the job has not come to',
      { toClaim: { version: 2, fleet: 'images', claimedAtMs: NOW_MS } },
    ],
    ['of a job that is not there', { jobId: 'none' }],
  ])('%s runs nothing', async (_, changes) => {
    const on = setting();
    const message = { ...(await claimed(on)), ...changes };
    const { handlers, calls } = count();
    expect(await on.finish(runJob(contextOf(on), handlers, message))).toBe('superseded');
    expect(calls()).toBe(0);
  });

  it('whose start could not be written runs nothing, and must come again', async () => {
    const on = setting();
    const message = await claimed(on);
    const { handlers, calls } = count();
    const store = storeWith(on.store, { startJob: () => Promise.reject(new UnavailableError('no answer')) });
    await expect(on.finish(runJob(contextOf(on, { store }), handlers, message))).rejects.toThrow('no answer');
    expect(calls()).toBe(0);
    expect(on.stateOf(message.jobId)).toBe('claimed');
    expect(await on.finish(runJob(contextOf(on), handlers, message))).toBe('succeeded');
  });

  it('whose outcome could not be written must come again', async () => {
    const on = setting();
    const message = await claimed(on);
    const store = storeWith(on.store, { finishJob: () => Promise.reject(new UnavailableError('no answer')) });
    await expect(on.finish(runJob(contextOf(on, { store }), count().handlers, message))).rejects.toThrow(
      'no answer',
    );
    expect(on.stateOf(message.jobId)).toBe('running');
  });

  it('whose attempt was superseded while it ran changes nothing', async () => {
    const on = setting();
    const message = await claimed(on);
    const resize = async (): Promise<null> => {
      const verdict = { kind: 'failed', error: { name: 'WorkerLost', message: '' } } as const;
      await on.store.endUnfinished({
        job: jobIn(on, message.jobId),
        verdict,
        nowMs: NOW_MS,
        expiresAtMs: NOW_MS + TERMINAL_TTL_MS,
      });
      return null;
    };
    expect(await on.finish(runJob(contextOf(on), { resize }, message))).toBe('superseded');
    expect(jobIn(on, message.jobId)).toMatchObject({ state: 'failed', error: { name: 'WorkerLost' } });
  });
});

describe('a message for a job under a rate', () => {
  const rated = (): Stage =>
    stage({
      pool: {
        types: { resize: { timeoutMs: TIMEOUT_MS, limits: ['calls'] } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 4 } },
        limits: { calls: { rate: { starts: 10, per: '1m' } } },
      },
    });

  it('that comes too late runs no handler: the job waits as it did, with no attempt counted', async () => {
    const on = rated();
    const message = await claimed(on);
    const { startByMs = 0 } = message;
    expect(startByMs).toBe(NOW_MS + 6_000);
    await on.advance(6_001);
    let hasRun = false;
    const handler = (): void => {
      hasRun = true;
    };
    const outcome = await on.finish(runJob(contextOf(on), { resize: handler }, message));
    const job = jobIn(on, message.jobId);
    expect([outcome, hasRun, job.state, job.attempt, job.workersLost]).toEqual([
      'released',
      false,
      'scheduled',
      1,
      0,
    ]);
    expect(job.readyAtMs).toBe(NOW_MS);
  });

  it('that comes in time runs it', async () => {
    const on = rated();
    const message = await claimed(on);
    await on.advance(5_900);
    expect(await on.finish(runJob(contextOf(on), { resize: () => 1 }, message))).toBe('succeeded');
  });
});
