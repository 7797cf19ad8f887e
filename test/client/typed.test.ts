/** A client of declared job types: what the compiler refuses, and what is checked when its verbs are called. */
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import { SchedulerClient } from '../../lib/client/aws.ts';
import type { StoreClient } from '../../lib/client/client.ts';
import type { OutcomeOf } from '../../lib/client/events.ts';
import { ValidationError } from '../../lib/core/errors.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { defineJobs, type Jobs, job, only, type StandardSchema } from '../../lib/jobs/jobs.ts';
import { CostCount } from '../../lib/testing/cost.ts';
import { readHandling } from '../../lib/worker/handlers.ts';
import { runJob } from '../../lib/worker/run-job.ts';
import { onlyJob } from '../testing/received.ts';
import { desk, errorOf, POOL, startedOf, storedJob } from './desk.ts';

const JOBS = defineJobs({
  resize: job({
    payload: z.object({ owner: z.string(), pages: z.array(z.object({ no: z.number() })).default([]) }),
    result: z.object({ at: z.coerce.date() }),
    fairnessKey: ({ owner }) => owner,
    resourceId: ({ owner, pages }) => `${owner}/${pages.length}`,
  }),
  report: job<{ readonly month: number }, { readonly url: string }>(),
  ping: job(),
});
const PING: PoolInput = {
  ...POOL,
  types: { ...POOL.types, ping: { tier: 'standard' } },
  fleets: { images: { types: ['resize'], slots: 2 }, general: { types: ['report', 'ping'], slots: 2 } },
};
const typed = () => {
  const scene = desk({ pool: PING });
  return { ...scene, client: scene.anotherClient({ jobs: JOBS }) };
};

/** A tool for clients of any declared types. */
const pauseAll = <Declared extends Jobs>(client: StoreClient<Declared>): Promise<unknown> =>
  client.pause('pool');

/** Calls that the compiler judges, and nothing makes. */
const judged = (
  client: StoreClient<typeof JOBS>,
  untyped: StoreClient,
  either: 'resize' | 'report',
): readonly (() => unknown)[] => [
  () => client.submit('resize', { owner: 'a' }),
  () => client.submit('report', { month: 3 }, { runAt: '+10m', label: 'March' }),
  () => client.submit({ type: 'report', payload: { month: 3 }, runAt: new Date() }),
  () => client.submit({ type: 'report', payload: { month: 3 } }, { signal: AbortSignal.abort() }),
  () => client.submit('ping'),
  () => client.submit('ping', undefined, { priority: 3 }),
  () => client.submit({ type: 'ping' }),
  () => client.run('report', { month: 3 }, { timeout: '30s' }),
  () => client.submitMany([{ type: 'ping' }, { type: 'report', payload: { month: 3 } }]),
  () => client.schedules.put('nightly', { every: '1d', type: 'report', payload: { month: 3 } }),
  () => [pauseAll(client), pauseAll(untyped)],
  () => untyped.submit('anything', [1]),
  () => untyped.submit({ type: 'anything', payload: new Set() }),
  () => untyped.run({ type: 'anything' }),
  // @ts-expect-error - no such type
  () => client.submit('resise', { owner: 'a' }),
  // @ts-expect-error - no such type
  () => client.submit({ type: 'resise', payload: { owner: 'a' } }),
  // @ts-expect-error - a wrong field of the payload
  () => client.submit('report', { month: 'March' }),
  // @ts-expect-error - an unknown field of the payload
  () => client.submit('report', { month: 3, year: 2027 }),
  // @ts-expect-error - a wrong field of the payload
  () => client.submit({ type: 'report', payload: { month: 'March' } }),
  // @ts-expect-error - the payload of another type
  () => client.submit({ type: 'report', payload: { owner: 'a' } }, {}),
  // @ts-expect-error - no payload
  () => client.submit('report'),
  // @ts-expect-error - no payload
  () => client.submit({ type: 'report' }),
  // @ts-expect-error - an unknown option
  () => client.submit('report', { month: 3 }, { runat: '+10m' }),
  // @ts-expect-error - an unknown field of the request
  () => client.submit({ type: 'report', payload: { month: 3 }, runat: '+10m' }),
  // @ts-expect-error - an unknown option
  () => client.submit({ type: 'report', payload: { month: 3 } }, { sinal: undefined }),
  // @ts-expect-error - an option of run
  () => client.submit('report', { month: 3 }, { dieWithWaiter: true }),
  // @ts-expect-error - a job that is waited for is on demand
  () => client.run('report', { month: 3 }, { mode: 'queued' }),
  // @ts-expect-error - the payload of another type
  () => client.submitMany([{ type: 'ping' }, { type: 'report', payload: { owner: 'a' } }]),
  // @ts-expect-error - a wrong field of the payload
  () => client.schedules.put('nightly', { every: '1d', type: 'report', payload: { month: 'March' } }),
  () =>
    client.schedules.put('nightly', {
      every: '1d',
      type: 'report',
      payloadTemplate: { month: '{{scheduledAt}}' },
    }),
  () => client.schedules.put('nightly', { every: '1d', type: 'ping' }),
  // @ts-expect-error - no payload
  () => client.schedules.put('nightly', { every: '1d', type: 'report' }),
  // @ts-expect-error - the payload of one of two types
  () => client.submit(either, { month: 3 }),
  // @ts-expect-error - the payload of one of two types
  () => client.submit({ type: either, payload: { month: 3 } }),
  // @ts-expect-error - the payload of one of two types
  () => client.run(either, { owner: 'a' }),
  () => client.submit(either, { owner: 'a', month: 3 }),
  () => (either === 'report' ? client.submit(either, { month: 3 }) : client.submit(either, { owner: 'a' })),
  // @ts-expect-error - a request needs its type
  () => untyped.submit({ payload: 1 }),
];

describe('the compiler', () => {
  it('checks names, payloads and options, and knows results', () => {
    expect(judged).toHaveLength(3);
    type Typed = StoreClient<typeof JOBS>;
    const report = (client: Typed) => client.submit('report', { month: 3 });
    const asked = (client: Typed) => client.submit({ type: 'resize', payload: { owner: 'a' } });
    const ran = (client: Typed) => client.run('report', { month: 3 });
    const untyped = (client: StoreClient) => client.submit('anything', 1);
    type ResultOfHandle<Call extends (client: never) => Promise<{ result(): Promise<unknown> }>> = Awaited<
      ReturnType<Awaited<ReturnType<Call>>['result']>
    >;
    expectTypeOf<ResultOfHandle<typeof report>>().toEqualTypeOf<{ readonly url: string }>();
    expectTypeOf<ResultOfHandle<typeof asked>>().toEqualTypeOf<{ at: Date }>();
    expectTypeOf<Awaited<ReturnType<typeof ran>>['result']>().toEqualTypeOf<{ readonly url: string }>();
    expectTypeOf<ResultOfHandle<typeof untyped>>().not.toBeAny();
  });

  it('tells the events of outcomes apart by type and state', () => {
    type Outcome = OutcomeOf<typeof JOBS>;
    type Report = Extract<Outcome, { readonly type: 'report' }>;
    type Succeeded = Extract<Report, { readonly state: 'succeeded' }>;
    expectTypeOf<Outcome['type']>().toEqualTypeOf<'resize' | 'report' | 'ping'>();
    expectTypeOf<Succeeded['result']>().toEqualTypeOf<{ readonly url: string } | undefined>();
    expectTypeOf<Extract<Report, { readonly state: 'failed' }>['error']['message']>().toEqualTypeOf<string>();
    // @ts-expect-error A report that failed has no result.
    expectTypeOf<Extract<Report, { readonly state: 'failed' }>['result']>();
  });

  it('tells jobs apart by their state', async () => {
    const { client } = desk();
    const { jobId } = await client.submit('resize', 1);
    const found = await client.get(jobId);
    if (found.state === 'succeeded') expectTypeOf(found.finishedAtMs).toEqualTypeOf<number>();
    if (found.state === 'failed') expectTypeOf(found.error.message).toEqualTypeOf<string>();
    if (found.state === 'running') expectTypeOf(found.worker.workerId).toEqualTypeOf<string>();
    expectTypeOf(found.state).toEqualTypeOf<
      'scheduled' | 'pending' | 'claimed' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'expired'
    >();
    expect(found.state).toBe('pending');
  });
});

describe('a client of declared types', () => {
  const environment = { FAIRLEAD_TABLE: 'jobs', FAIRLEAD_WAKE_QUEUE: 'https://sqs.invalid/1/wake' };

  it('is made of what the construct tells a process', () => {
    const client = SchedulerClient.for(JOBS, { region: 'eu-west-1', requestTimeoutMs: '2s' }, environment);
    expectTypeOf(client).toEqualTypeOf<SchedulerClient<typeof JOBS>>();
    client.destroy();
  });

  it.each<readonly [unknown, object, string]>([
    [[], {}, 'jobs'],
    [null, {}, 'jobs'],
    [{ report: {} }, {}, 'jobs.report'],
    [JOBS, { requestTimeoutMs: 'soon' }, 'requestTimeoutMs'],
    [JOBS, { requestTimeoutMs: '11m' }, 'requestTimeoutMs'],
  ])('is not made of %j and %j', (jobs, settings, field) => {
    expect(() => SchedulerClient.for(jobs as Jobs, settings, environment)).toThrow(
      expect.objectContaining({ name: 'ValidationError', field }),
    );
  });

  it('stores the payload as it was sent, with the keys that the type derives from what the schema reads', async () => {
    const { client } = typed();
    const { job: stored } = await client.submit('resize', { owner: 'acme' }, { priority: 3, label: 'one' });
    expect(stored).toMatchObject({
      type: 'resize',
      payload: { owner: 'acme' },
      fairnessKey: 'acme',
      resourceId: 'acme/0',
      priority: 3,
      label: 'one',
    });
  });

  it('keeps the keys that a request names', async () => {
    const { client } = typed();
    const request = { type: 'resize', payload: { owner: 'acme' }, fairnessKey: 'b' } as const;
    expect((await client.submit(request)).job).toMatchObject({ fairnessKey: 'b', resourceId: 'acme/0' });
  });

  it('refuses a payload with the path of what is wrong, wherever it is given, and stores nothing', async () => {
    const { client, everything } = typed();
    const before = everything();
    const payload = { owner: 'acme', pages: [{ no: 1 }, { no: 'two' as never }] };
    const request = { type: 'resize', payload } as const;
    const [entry] = await client.submitMany([request]);
    const errors = await Promise.all([
      errorOf(client.submit('resize', payload)),
      errorOf(client.submit(request)),
      errorOf(client.run('resize', payload)),
      errorOf(client.schedules.put('nightly', { every: '1d', ...request })),
      entry?.kind === 'refused' ? entry.error : undefined,
    ]);
    for (const error of errors) {
      expect(error).toBeInstanceOf(ValidationError);
      expect(error).toMatchObject({ field: 'payload.pages[1].no' });
      expect(error?.message).toContain('send what the schema of "resize" accepts');
    }
    expect(everything()).toBe(before);
  });

  it('spoils no other entry by one that is refused', async () => {
    const { client } = typed();
    const entries = await client.submitMany([
      { type: 'ping' },
      { type: 'resize', payload: { owner: 1 as never } },
      { type: 'resize', payload: { owner: 'acme' } },
    ]);
    expect(entries.map(({ kind }) => kind)).toEqual(['accepted', 'refused', 'accepted']);
    expect(entries[2]).toMatchObject({ job: { fairnessKey: 'acme' } });
  });

  it('gives the jobs of a schedule the keys of their type, unless a template makes their payload', async () => {
    const { client } = typed();
    const put = await client.schedules.put('one', {
      every: '1d',
      type: 'resize',
      payload: { owner: 'acme' },
    });
    expect(put.schedule.spec.job).toMatchObject({ fairnessKey: 'acme', payload: { owner: 'acme' } });
    const payloadTemplate = { owner: '{{scheduleId}}' };
    const other = await client.schedules.put('two', { every: '1d', type: 'resize', payloadTemplate });
    expect(other.outcome).toBe('created');
  });

  it.each<readonly [string, 'fairnessKey' | 'resourceId', () => unknown, RegExp]>([
    [
      'throws',
      'fairnessKey',
      () => {
        throw new Error('no owner');
      },
      /^fairnessKey: .*"resize".* threw Error: no owner; correct it, or name fairnessKey/,
    ],
    [
      'returns no text',
      'resourceId',
      () => 7,
      /^resourceId: .*"resize".* must return text, not 7; correct it/,
    ],
    ['returns nothing', 'fairnessKey', () => undefined, /must return text, not undefined/],
    ['returns later', 'fairnessKey', async () => 'acme', /must return text, not an object/],
    ['returns too long a text', 'fairnessKey', () => 'x'.repeat(513), /^fairnessKey: must be at most 512/],
    ['returns an empty text', 'resourceId', () => '', /^resourceId: must not be empty/],
  ])('refuses a job where the function of a key %s', async (_, field, derive, message) => {
    const scene = desk();
    const jobs = defineJobs({ resize: job<{ a: number }>({ [field]: derive as () => string }) });
    const before = scene.everything();
    const error = await errorOf(scene.anotherClient({ jobs }).submit('resize', { a: 1 }));
    expect(error).toBeInstanceOf(ValidationError);
    expect(error).toMatchObject({ field, message: expect.stringMatching(message) });
    expect(scene.everything()).toBe(before);
  });

  it('stores what was sent although the schema and the functions change what they get', async () => {
    const scene = desk();
    const greedy: StandardSchema<{ a: number }> = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) => {
          (value as { a?: number }).a = 2;
          return { value: value as { a: number } };
        },
      },
    };
    const jobs = defineJobs({ resize: job({ payload: greedy, fairnessKey: ({ a }) => String(a) }) });
    const { job: stored } = await scene.anotherClient({ jobs }).submit('resize', { a: 1 });
    expect(stored).toMatchObject({ payload: { a: 1 }, fairnessKey: '2' });
  });

  it('takes the keys that its type derives, unless the request names some', async () => {
    const scene = desk();
    const jobs = defineJobs({
      resize: job<{ readonly org: string }>({ keys: ({ org }) => ({ org }) }),
      report: job<{ readonly org: number }>({ keys: ({ org }) => ({ org }) as unknown as { org: string } }),
    });
    const client = scene.anotherClient({ jobs });
    const derived = await client.submit('resize', { org: 'acme' });
    const named = await client.submit('resize', { org: 'acme' }, { keys: { user: 'u' } });
    expect([derived.job.keys, named.job.keys]).toEqual([{ org: 'acme' }, { user: 'u' }]);
    expect(await errorOf(client.submit('report', { org: 1 }))).toMatchObject({
      name: 'ValidationError',
      field: 'keys',
      message: expect.stringContaining('must return texts by their names'),
    });
  });

  it('derives the units of a job from its payload, which it counts by unless the request names some', async () => {
    const scene = desk({
      pool: {
        types: { resize: { limits: ['openai'] }, report: { limits: ['openai'] } },
        fleets: { all: { types: ['resize', 'report'], slots: 4 } },
        limits: { openai: { rate: { units: 90, perJob: 40, per: '1m' } } },
      },
    });
    const jobs = defineJobs({
      resize: job<{ readonly tokens: number }>({ units: { openai: ({ tokens }) => tokens } }),
      report: job<{ readonly tokens: number }>({
        units: { openai: ({ tokens }) => (tokens === 7 ? ('7' as unknown as number) : tokens / 0) },
      }),
    });
    const client = scene.anotherClient({ jobs });
    const derived = await client.submit('resize', { tokens: 12 });
    const named = await client.submit('resize', { tokens: 12 }, { units: { openai: 30 } });
    expect([derived.job.units, named.job.units]).toEqual([{ openai: 12 }, { openai: 30 }]);
    for (const [type, tokens, says] of [
      ['resize', 41, 'must be at most 40'],
      ['resize', 0, 'must be a whole number of 1 or more (got 0)'],
      ['resize', 1.5, 'must be a whole number of 1 or more (got 1.5)'],
      ['report', 0, 'must return a whole number of 1 or more, not NaN'],
      ['report', 1, 'must return a whole number of 1 or more, not Infinity'],
      ['report', 7, 'must return a whole number of 1 or more, not "7"'],
    ] as const)
      expect(await errorOf(client.submit(type, { tokens }))).toMatchObject({
        name: 'ValidationError',
        field: 'units.openai',
        message: expect.stringContaining(says),
      });
  });

  it('answers a run with the result as its schema reads it', async () => {
    const { client, ...scene } = typed();
    const running = client.run('resize', { owner: 'acme' }, { timeout: '10s' });
    expect((await storedJob({ ...scene, client: scene.anotherClient() })).mode).toBe('onDemand');
    await scene.end(await startedOf(scene), { kind: 'succeeded', result: { at: '2027-01-31T08:00:00Z' } });
    const { result } = await scene.finish(running);
    expect(result.at).toEqual(new Date('2027-01-31T08:00:00Z'));
  });
});

describe('the time of a job', () => {
  it('is an instant, a date, or a delay', async () => {
    const { client, time } = desk();
    const at = new Date(time.nowMs + 600_000);
    const jobs = await Promise.all(
      [at.toISOString(), at, '+10m', '+600000ms', '+0.5s'].map((runAt) =>
        client.submit('resize', 1, { runAt }),
      ),
    );
    expect(jobs.map(({ job: { runAtMs } }) => runAtMs - time.nowMs)).toEqual([
      600_000, 600_000, 600_000, 600_000, 500,
    ]);
    const moved = await client.retime(jobs[0]?.id ?? '', { runAt: '+1h' });
    expect(moved.runAtMs - time.nowMs).toBe(3_600_000);
    expect((await client.retime(moved.id, { runAt: at })).runAtMs).toBe(at.getTime());
  });

  it('that is a delay makes a repeated request equal, and another delay does not', async () => {
    const { client, advance } = desk();
    const first = await client.submit('resize', 1, { runAt: '+10m', idempotencyKey: 'k' });
    await advance(5_000);
    const again = await client.submit('resize', 1, { runAt: '+600s', idempotencyKey: 'k' });
    expect(again).toMatchObject({ id: first.id, repeated: true, job: { runAtMs: first.job.runAtMs } });
    const other = errorOf(client.submit('resize', 1, { runAt: '+11m', idempotencyKey: 'k' }));
    expect(await other).toMatchObject({ name: 'ConflictError' });
  });
});

describe('a declared job', () => {
  const RESIZED = { at: '2026-11-29T00:00:00Z' };
  const PAYLOAD = { owner: 'acme', pages: [{ no: 1 }] };

  /** What one job costs from its submission to its settlement, and what is then stored of it. */
  async function lifeOf(isTyped: boolean) {
    const scene = desk({ pool: PING });
    const cost = new CostCount();
    scene.store.meter = cost.meter;
    const client: StoreClient = isTyped
      ? (scene.anotherClient({ jobs: JOBS }) as unknown as StoreClient)
      : scene.client;
    const keys = isTyped ? {} : { fairnessKey: 'acme', resourceId: 'acme/1' };
    const { id } = await client.submit('resize', PAYLOAD, keys);
    await scene.pass();
    const [received] = await scene.queue.receive('images', 1, 0, 60_000);
    if (received === undefined) throw new Error('nothing was sent');
    const resize = async () => RESIZED;
    const { handlers } = isTyped
      ? readHandling(only(JOBS, 'resize'), [{ resize }])
      : readHandling({ resize }, []);
    const { store, configuration, clock, random, log } = scene;
    const worker = { workerId: 'worker-1', incarnation: '1' };
    const running = runJob({ store, configuration, clock, random, log, worker }, handlers, onlyJob(received));
    await scene.finish(running);
    await scene.pass();
    return { cost: cost.soFar, job: store.inspectJob(id) };
  }

  it('costs what a job without a declaration costs, and is stored alike', async () => {
    const [typedLife, untypedLife] = [await lifeOf(true), await lifeOf(false)];
    expect(typedLife).toEqual(untypedLife);
    expect(typedLife.job).toMatchObject({ state: 'succeeded', result: RESIZED });
    expect(typedLife.cost.writeUnits).toBeGreaterThan(3);
    expect(typedLife.cost.readUnits).toBeGreaterThan(0);
  });
});
