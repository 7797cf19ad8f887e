/** Cool-downs and parked jobs, as a handler asks for them. */
import { describe, expect, it } from 'vitest';
import { durationMs } from '../../lib/core/duration.ts';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { CooldownError, cooldownFrom } from '../../lib/worker/errors.ts';
import { type JobHandler, type RunContext, type RunOutcome, runJob } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage } from '../stage/stage.ts';

describe('cooldownFrom', () => {
  const answer = (status: number, retryAfter?: string) =>
    cooldownFrom(
      new Response('', {
        status,
        ...(retryAfter === undefined ? {} : { headers: { 'retry-after': retryAfter } }),
      }),
    );

  it('reads seconds, and dates', () => {
    expect(answer(429, '120')?.restMs).toBe(120_000);
    const soon = new Date(Date.now() + 3_600_000).toUTCString();
    const restMs = answer(503, soon)?.restMs ?? 0;
    expect(restMs).toBeGreaterThan(3_500_000);
    expect(restMs).toBeLessThanOrEqual(3_600_000);
    expect(answer(503, 'Wed, 21 Oct 2015 07:28:00 GMT')?.restMs).toBe(1_000);
  });

  it('is a minute without a time, and a day at most', () => {
    expect(answer(429)?.restMs).toBe(60_000);
    expect(answer(429, 'soon')?.restMs).toBe(60_000);
    expect(answer(429, '999999999')?.restMs).toBe(durationMs('', '24h'));
  });

  it('leaves any other answer alone', () => {
    for (const status of [200, 404, 500]) expect(answer(status, '120')).toBeUndefined();
  });
});

describe('a cool-down', () => {
  it.each([
    ['no duration', () => new CooldownError('soon'), 'after'],
    ['longer than a day', () => new CooldownError('25h'), 'after'],
    ['of a type and a key', () => new CooldownError('1m', { type: 'resize', key: true }), 'type'],
  ])('is refused: %s', (_, make, field) => {
    expect(make).toThrow(expect.objectContaining({ name: 'ConfigurationError', field }));
  });
});

const WORKER = { workerId: 'worker-1', incarnation: 'first' };

const setting = (partitions = 1): Stage =>
  stage({
    pool: {
      types: {
        resize: { limits: ['api'] },
        clone: { limits: ['api'] },
        index: { conflictGroup: 'index' },
      },
      limits: { api: { total: 8 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'clone', 'index'], slots: 8 } },
      partitions,
    },
  });

const contextOf = ({ store, configuration, clock, random, log }: Stage): RunContext => ({
  store,
  configuration,
  clock,
  random,
  log,
  worker: WORKER,
  rests: new Map(),
});

/** The messages that a pass sends which is told of all jobs. */
async function sent(on: Stage): Promise<readonly DispatchMessage[]> {
  const jobs = (ids.get(on) ?? []).flatMap((id) => on.store.inspectJob(id) ?? []);
  await on.pass({ jobs, reason: 'stream' });
  return (await on.queue.receive('images', 10, 0, 3_600_000)).flatMap((received) => received.jobs);
}

const ids = new Map<Stage, readonly string[]>();

async function put(on: Stage, changes: Partial<Job>): Promise<Job> {
  const job = on.job(changes);
  await on.put(job);
  ids.set(on, [...(ids.get(on) ?? []), job.id]);
  return job;
}

async function runOne(
  on: Stage,
  context: RunContext,
  handler: JobHandler,
  message: DispatchMessage | undefined,
): Promise<RunOutcome> {
  if (message === undefined) throw new Error('nothing was sent');
  const handlers = { resize: handler, clone: handler, index: handler };
  return on.finish(runJob(context, handlers, message));
}

const jobIn = (on: Stage, { jobId }: DispatchMessage): Job => {
  const job = on.store.inspectJob(jobId);
  if (job === undefined) throw new Error(`no job ${jobId}`);
  return job;
};

/** Runs a job of key `a` whose handler throws an error, and returns how that ended. */
async function endOf(
  on: Stage,
  errorOf: () => Error,
): Promise<{ readonly outcome: RunOutcome; readonly job: Job }> {
  const { id } = await put(on, { type: 'resize', fairnessKey: 'a' });
  const [message] = await sent(on);
  const handler = (): never => {
    throw errorOf();
  };
  const outcome = await runOne(on, contextOf(on), handler, message);
  return { outcome, job: on.store.inspectJob(id) ?? expect.fail('the job is gone') };
}

const answerOf = (retryAfter: string): Response =>
  new Response(null, { status: 429, headers: { 'retry-after': retryAfter } });

describe('a handler that asks for a cool-down', () => {
  it.each([
    ['its type', {}, 'type/resize', ['clone/a', 'clone/b']],
    ['its key', { key: true }, 'key/a', ['clone/b', 'resize/b']],
    ['another type', { type: 'clone' }, 'type/clone', ['resize/a', 'resize/b']],
    ['a limit', { limit: 'api' }, 'limit/api', []],
    ['its key of a limit', { limit: 'api', key: true }, 'limit/api/a', ['clone/b', 'resize/b']],
  ] as const)('lets %s rest, and nothing else', async (_, options, scope, others) => {
    const on = setting();
    const context = contextOf(on);
    const own = await put(on, { type: 'resize', fairnessKey: 'a' });
    const [message] = await sent(on);
    const outcome = await runOne(
      on,
      context,
      () => {
        throw new CooldownError('60s', options);
      },
      message,
    );
    expect(outcome).toBe('rested');
    const untilMs = NOW_MS + 60_000;
    expect(on.store.inspectJob(own.id)).toMatchObject({
      state: 'scheduled',
      runAtMs: untilMs,
      attempt: 1,
      workersLost: 0,
      readyAtMs: own.readyAtMs,
      history: { entries: [{ outcome: 'rested' }] },
    });
    expect((await on.store.loadPartition({ partition: 0, nowMs: NOW_MS })).controls).toEqual([
      { scope, paused: false, restsUntilMs: untilMs },
    ]);
    for (const type of ['resize', 'clone'])
      for (const fairnessKey of ['a', 'b']) await put(on, { type, fairnessKey });
    const started = (await sent(on)).map((each) => jobIn(on, each));
    expect(started.map(({ type, fairnessKey }) => `${type}/${fairnessKey}`).toSorted()).toEqual(others);
    await on.advance(untilMs - on.time.nowMs);
    // What no worker has started is sent again.
    const later = (await sent(on)).filter(({ jobId }) => started.every(({ id }) => id !== jobId));
    expect(later).toHaveLength(5 - others.length);
  });

  it.each([
    ['0 ms', () => new CooldownError(0)],
    ['until an instant in the past', () => new CooldownError(new Date(0))],
    ['as a Retry-After of 0 asks', () => cooldownFrom(answerOf('0')) ?? new Error('none')],
    [
      'as a Retry-After in the past asks',
      () => cooldownFrom(answerOf('Thu, 01 Jan 2015 01:00:00 GMT')) ?? new Error('none'),
    ],
  ])('rests for a second at least: %s', async (_, asked) => {
    const { outcome, job } = await endOf(setting(), asked);
    expect(outcome).toBe('rested');
    expect(job).toMatchObject({ attempt: 1, runAtMs: NOW_MS + 1_000 });
  });

  it.each([
    ['a limit', { limit: 'apii', key: true }, 'limit', /apii.*mean "api"\? Declared are: api/],
    ['a type', { type: 'resizes' }, 'type', /resizes.*mean "resize"/],
    ['a key that no job has', { key: 'x'.repeat(600) }, 'key', /512 bytes/],
  ] as const)(
    'has failed with its attempt if it names %s that is unknown',
    async (_, options, field, says) => {
      const on = setting();
      const { outcome, job } = await endOf(on, () => new CooldownError('60s', options));
      expect(outcome).not.toBe('rested');
      const { attempt, history } = job;
      expect(attempt).toBe(2);
      const [entry] = history?.entries ?? [];
      const error = entry?.kind === 'attempt' ? entry.error : undefined;
      expect(error).toMatchObject({ name: 'ConfigurationError', message: expect.stringMatching(says) });
      expect(error?.message).toContain(`${field}: `);
      const { controls } = await on.store.loadPartition({ partition: 0, nowMs: NOW_MS });
      expect(controls).toEqual([]);
    },
  );

  it('lets the key rest by which the limit counts', async () => {
    const on = stage({
      pool: {
        types: { resize: { limits: ['org'] } },
        limits: { org: { keyedBy: 'org', perKey: 4 } },
        fleets: { images: { types: ['resize'], slots: 8 } },
      },
    });
    const context = contextOf(on);
    await put(on, { type: 'resize', fairnessKey: 'a', keys: { org: 'acme' } });
    const [message] = await sent(on);
    const handler = (): never => {
      throw new CooldownError('60s', { limit: 'org', key: true });
    };
    expect(await runOne(on, context, handler, message)).toBe('rested');
    expect((await on.store.loadPartition({ partition: 0, nowMs: NOW_MS })).controls).toEqual([
      { scope: 'limit/org/acme', paused: false, restsUntilMs: NOW_MS + 60_000 },
    ]);
    const acme = await put(on, { type: 'resize', fairnessKey: 'b', keys: { org: 'acme' } });
    const zeta = await put(on, { type: 'resize', fairnessKey: 'a', keys: { org: 'zeta' } });
    expect((await sent(on)).map(({ jobId }) => jobId)).toEqual([zeta.id]);
    await on.advance(60_000);
    expect((await sent(on)).map(({ jobId }) => jobId)).toContain(acme.id);
  });

  it('is not asked twice by messages that were under way in its process', async () => {
    const on = setting();
    const context = contextOf(on);
    await put(on, { type: 'resize' });
    await put(on, { type: 'resize' });
    const [first, second] = await sent(on);
    let runs = 0;
    const handler = (): never => {
      runs += 1;
      throw new CooldownError('60s');
    };
    expect(await runOne(on, context, handler, first)).toBe('rested');
    expect(await runOne(on, context, handler, second)).toBe('rested');
    expect(runs).toBe(1);
    if (second !== undefined)
      expect(jobIn(on, second)).toMatchObject({ state: 'scheduled', attempt: 1, runAtMs: NOW_MS + 60_000 });
  });

  it('rests in every partition of its type', async () => {
    const on = setting(3);
    const context = contextOf(on);
    await put(on, { type: 'resize' });
    const [message] = await sent(on);
    const handler = (): never => {
      throw new CooldownError('60s');
    };
    await runOne(on, context, handler, message);
    for (const partition of [0, 1, 2])
      expect((await on.store.loadPartition({ partition, nowMs: NOW_MS })).controls).toMatchObject([
        { scope: 'type/resize', restsUntilMs: NOW_MS + 60_000 },
      ]);
  });
});

describe('a handler that parks its job', () => {
  it('frees its slot, keeps its place, and gives its state to the next run', async () => {
    const on = setting();
    const context = contextOf(on);
    const own = await put(on, { type: 'resize' });
    const [message] = await sent(on);
    const seen: unknown[] = [];
    const handler: JobHandler = (_, ctx) => {
      seen.push(ctx.parkedState);
      return ctx.parkedState === undefined ? ctx.park({ until: '+15m', state: { page: 2 } }) : 'done';
    };
    expect(await runOne(on, context, handler, message)).toBe('parked');
    const untilMs = NOW_MS + 900_000;
    const parked = on.store.inspectJob(own.id);
    expect(parked).toMatchObject({
      state: 'scheduled',
      runAtMs: untilMs,
      attempt: 1,
      workersLost: 0,
      readyAtMs: own.readyAtMs,
      parkedState: { page: 2 },
      history: { entries: [{ outcome: 'parked', next: { runAtMs: untilMs } }] },
    });
    expect(parked?.error).toBeUndefined();
    expect(await sent(on)).toEqual([]);
    expect((await on.store.loadPartition({ partition: 0, nowMs: NOW_MS })).reservations).toEqual([]);
    await on.advance(untilMs - on.time.nowMs);
    const [again] = await sent(on);
    expect(await runOne(on, context, handler, again)).toBe('succeeded');
    expect(seen).toEqual([undefined, { page: 2 }]);
    expect(on.store.inspectJob(own.id)).toMatchObject({
      state: 'succeeded',
      result: 'done',
      attempt: 1,
    });
  });

  it('must say that its conflict key is released', async () => {
    const on = setting();
    await put(on, { type: 'index', resourceId: 'r' });
    const [message] = await sent(on);
    const handler: JobHandler = (_, ctx) => ctx.park({ until: new Date(NOW_MS + 1_000) });
    await runOne(on, contextOf(on), handler, message);
    expect(message === undefined ? undefined : jobIn(on, message).error?.message).toMatch(/releaseConflict/);
  });

  it.each([
    ['no time', 'later'],
    ['too far', '+367d'],
    ['an invalid date', new Date(Number.NaN)],
  ])('is refused: %s', async (_, until) => {
    const on = setting();
    await put(on, { type: 'resize' });
    const [message] = await sent(on);
    await runOne(on, contextOf(on), (_payload, ctx) => ctx.park({ until }), message);
    expect(message === undefined ? undefined : jobIn(on, message).error?.name).toBe('ConfigurationError');
  });

  it('is cancelled, if that was asked for meanwhile', async () => {
    const on = setting();
    await put(on, { type: 'resize' });
    const [message] = await sent(on);
    const handler: JobHandler = async (_, ctx) => {
      await on.store.cancelJob({ jobId: ctx.id, nowMs: NOW_MS, expiresAtMs: NOW_MS + 60_000 });
      return ctx.park({ until: '+15m' });
    };
    expect(await runOne(on, contextOf(on), handler, message)).toBe('cancelled');
  });
});
