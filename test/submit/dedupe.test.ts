/** Requests with a dedupe key: which make a job, which change the one that waits, and which come to nothing. */
import { describe, expect, it } from 'vitest';
import { type DedupedJob, MERGED_MAX } from '../../lib/core/dedupe.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { job as declare, defineJobs } from '../../lib/jobs/jobs.ts';
import type { MERGED_FIELDS } from '../../lib/store/contract/deduping.ts';
import type { AskedField } from '../../lib/store/contract/job-fields.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import { parseRequests } from '../../lib/submit/request.ts';
import { submit } from '../../lib/submit/submit.ts';
import { desk } from '../client/desk.ts';
import { httpDesk } from '../http/desk.ts';
import { SUCCEEDED, storeWith } from '../stage/stage.ts';

/** A request's field either tells its key from others, or a merge may take it over. This line does not compile for another one. */
true satisfies [Exclude<AskedField, keyof DedupedJob | (typeof MERGED_FIELDS)[number]>] extends [never]
  ? true
  : never;

const S = 1_000;
const last = (more: object = {}) => ({ key: 'k', keep: 'last', ...more }) as const;

describe('a request whose key no job has', () => {
  it.each(['first', 'last'] as const)(
    'makes a job, of its own type, key, fairness key, resource and keys only, with keep %s',
    async (keep) => {
      const { client } = desk();
      const made = [];
      for (const [type, key, more] of [
        ['resize', 'a', {}],
        ['resize', 'b', {}],
        ['report', 'a', {}],
        ['resize', 'a', { fairnessKey: 'tenant' }],
        ['resize', 'a', { resourceId: 'album' }],
        ['resize', 'a', { keys: { org: 'acme' } }],
        ['resize', 'a', { keys: { org: 'other' } }],
      ] as const)
        made.push(await client.submit({ type, payload: more, dedupe: { key, keep }, ...more }));
      expect(new Set(made.map(({ jobId }) => jobId)).size).toBe(made.length);
      expect(made.filter(({ deduplicated }) => deduplicated !== undefined)).toEqual([]);
      for (const { job, jobId } of made)
        expect(await client.get(jobId)).toMatchObject({ payload: job.payload });
    },
  );

  it('makes a job of each tenant, if one call submits them', async () => {
    const { client } = desk();
    const entries = await client.submitMany(
      ['a', 'b', 'a'].map((fairnessKey, payload) => ({
        type: 'resize',
        payload,
        fairnessKey,
        dedupe: last(),
      })),
    );
    expect(entries).toMatchObject([
      { kind: 'accepted', job: { payload: 0, fairnessKey: 'a' } },
      { kind: 'accepted', job: { payload: 1, fairnessKey: 'b' } },
      { kind: 'accepted', deduplicated: 'replaced', job: { payload: 2, fairnessKey: 'a' } },
    ]);
  });

  it.each([SUCCEEDED, { kind: 'failed', error: { name: 'Broken', message: '' } } as const])(
    'makes another job once the former has ended: %s',
    async (verdict) => {
      const { client, work } = desk();
      const first = await client.submit({ type: 'resize', dedupe: { key: 'k' } });
      await work(verdict);
      const second = await client.submit({ type: 'resize', dedupe: { key: 'k' } });
      expect(second.jobId).not.toBe(first.jobId);
    },
  );
});

describe('a request that finds a job whose time to start is over', () => {
  it.each(['first', 'last'] as const)('makes a job of its own, with keep %s', async (keep) => {
    const { client, time, advance } = desk();
    await client.pause('pool');
    const first = await client.submit({ type: 'resize', expireAfter: 10 * S, dedupe: { key: 'k', keep } });
    time.skip(15 * S);
    const second = await client.submit({ type: 'resize', dedupe: { key: 'k', keep } });
    expect(second.jobId).not.toBe(first.jobId);
    await client.resume('pool');
    await advance(2 * 60 * S);
    expect((await client.get(second.jobId)).state).not.toBe('expired');
  });
});

describe('a request that finds a waiting job', () => {
  it('leaves it as it is, with keep first', async () => {
    const { client, time } = desk();
    const first = await client.submit({ type: 'resize', payload: 1, dedupe: { key: 'k' } });
    const second = await client.submit({ type: 'resize', payload: 2, priority: 5, dedupe: { key: 'k' } });
    expect(second).toMatchObject({ jobId: first.jobId, deduplicated: 'kept', repeated: false });
    expect(await client.get(first.jobId)).toMatchObject({ payload: 1, priority: 0, runAtMs: time.nowMs });
  });

  it('replaces its payload, priority, tags and label, with keep last, and the job keeps its age', async () => {
    const { client, time, advance, work } = desk();
    const first = await client.submit({
      type: 'resize',
      payload: 1,
      label: 'one',
      tags: { a: '1' },
      dedupe: last(),
    });
    const submittedAtMs = time.nowMs;
    await advance(5 * S);
    const newest = { type: 'resize', payload: 2, tags: { b: '2' }, dedupe: last() };
    expect(await client.submit(newest)).toMatchObject({ jobId: first.jobId, deduplicated: 'replaced' });
    const job = await client.get(first.jobId);
    expect(job).toMatchObject({ payload: 2, tags: { b: '2' }, readyAtMs: submittedAtMs });
    expect(job.label).toBeUndefined();
    await client.submit({ ...newest, priority: 7 });
    expect(await client.get(first.jobId)).toMatchObject({ priority: 7, readyAtMs: submittedAtMs });
    expect(await work()).toMatchObject([{ id: first.jobId, payload: 2 }]);
  });

  it('replaces its mode, and it waits in the other line with its age', async () => {
    const { client, time, advance, work } = desk();
    const submittedAtMs = time.nowMs;
    const { jobId } = await client.submit({ type: 'resize', dedupe: last() });
    await advance(5 * S);
    await client.submit({ type: 'resize', mode: 'onDemand', dedupe: { key: 'k' } });
    expect(await client.get(jobId)).toMatchObject({ mode: 'queued' });
    await client.submit({ type: 'resize', mode: 'onDemand', dedupe: last() });
    expect(await client.get(jobId)).toMatchObject({ mode: 'onDemand', readyAtMs: submittedAtMs });
    expect(await work()).toMatchObject([{ id: jobId, mode: 'onDemand' }]);
  });

  it.each([
    ['a later one', '1m', 65 * S],
    ['a sooner one', '10s', 15 * S],
    ['none', undefined, undefined],
  ])(
    'replaces the time until which it may start with %s, with keep last',
    async (_, expireAfter, expected) => {
      const { client, time, advance } = desk();
      await client.pause('pool');
      const startMs = time.nowMs;
      const { jobId } = await client.submit({ type: 'resize', expireAfter: '30s', dedupe: last() });
      const expiry = async () => {
        const { expireAtMs } = (await client.get(jobId)) as Job;
        return expireAtMs && expireAtMs - startMs;
      };
      await advance(5 * S);
      await client.submit({ type: 'resize', expireAfter, dedupe: { key: 'k' } });
      expect(await expiry()).toBe(30 * S);
      await client.submit({ type: 'resize', expireAfter, dedupe: last() });
      expect(await expiry()).toBe(expected);
    },
  );

  it('counts that time from the moved time', async () => {
    const { client, time, advance } = desk();
    const startMs = time.nowMs;
    const request = { type: 'resize', expireAfter: '30s', dedupe: last({ quiet: '5s', atMost: '8s' }) };
    const { jobId } = await client.submit(request);
    await advance(4 * S);
    await client.submit(request);
    expect(await client.get(jobId)).toMatchObject({ runAtMs: startMs + 8 * S, expireAtMs: startMs + 38 * S });
  });

  it('moves it to the quiet time after each request, but at most as far as the first one said', async () => {
    const { client, time, advance, work } = desk();
    const startMs = time.nowMs;
    const dedupe = last({ quiet: '5s', atMost: '12s' });
    const { jobId } = await client.submit({ type: 'resize', dedupe });
    const times: number[] = [];
    for (const at of [1, 2, 3]) {
      await advance(4 * S);
      const { job } = await client.submit({
        type: 'resize',
        payload: at,
        dedupe: last({ quiet: '5s', atMost: '30d' }),
      });
      times.push(job.runAtMs - startMs);
    }
    expect(times).toEqual([9 * S, 12 * S, 12 * S]);
    expect(await work()).toMatchObject([{ id: jobId, payload: 3 }]);
  });

  it('may not start before its quiet time', async () => {
    const { client, advance, work } = desk();
    await client.submit({ type: 'resize', dedupe: { key: 'k', quiet: '5s' } });
    await advance(4 * S);
    expect(await work()).toEqual([]);
    await advance(S);
    expect(await work()).toHaveLength(1);
  });

  it('does not change it twice, if the request is repeated', async () => {
    const { client, work } = desk();
    const request = (n: number) => ({ type: 'resize', payload: n, idempotencyKey: `n-${n}`, dedupe: last() });
    for (const n of [1, 2, 3]) await client.submit(request(n));
    for (const n of [1, 2, 3])
      expect(await client.submit(request(n))).toMatchObject({ repeated: true, job: { payload: 3 } });
    expect(await work()).toMatchObject([{ payload: 3 }]);
    // Nor the next job of the key.
    await client.submit(request(4));
    expect(await client.submit(request(2))).toMatchObject({ repeated: true, job: { payload: 4 } });
  });

  it('is a conflict, if it has the idempotency key of a merged one and other content', async () => {
    const { client, work } = desk();
    const request = (key: string, payload: number) =>
      client.submit({ type: 'resize', payload, idempotencyKey: key, dedupe: last() });
    const { jobId } = await request('a', 1);
    await request('b', 2);
    const conflict = { name: 'ConflictError', jobId };
    await expect(request('a', 3)).rejects.toMatchObject(conflict);
    await expect(request('b', 3)).rejects.toMatchObject(conflict);
    expect(await request('b', 2)).toMatchObject({ repeated: true });
    expect(await work()).toMatchObject([{ payload: 2 }]);
    // Nor does it make or change the next job of the key.
    const next = await request('c', 4);
    await expect(request('b', 3)).rejects.toMatchObject({ ...conflict, jobId: next.jobId });
  });

  it('has no job of its own, and the answer to its idempotency key says how that may be', async () => {
    const { client } = desk();
    const request = (idempotencyKey: string) =>
      client.submit({ type: 'resize', idempotencyKey, dedupe: last() });
    const { jobId } = await request('a');
    expect((await request('b')).jobId).toBe(jobId);
    expect(await client.get({ idempotencyKey: 'a' })).toMatchObject({ id: jobId });
    await expect(client.get({ idempotencyKey: 'b' })).rejects.toThrow(/no job has the id .* dedupe key/);
    await expect(client.wait({ idempotencyKey: 'b' })).rejects.toThrow(/no job has the id .* dedupe key/);
  });

  it('is remembered with the last others', async () => {
    const { client } = desk();
    const { jobId } = await client.submit({ type: 'resize', dedupe: last() });
    for (let n = 0; n < MERGED_MAX + 5; n += 1)
      await client.submit({ type: 'resize', payload: n, dedupe: last() });
    const job = (await client.get(jobId)) as unknown as Job;
    expect(job.merged).toHaveLength(MERGED_MAX);
  });

  it('is stored by submitMany in the order of the requests', async () => {
    const { client, work } = desk();
    const requests = [1, 2, 3].map((payload) => ({ type: 'resize', payload, dedupe: last() }));
    const entries = await client.submitMany([...requests, { type: 'resize', payload: 'free' }]);
    expect(entries).toMatchObject([
      { kind: 'accepted' },
      { kind: 'accepted', deduplicated: 'replaced' },
      { kind: 'accepted', deduplicated: 'replaced' },
      { kind: 'accepted' },
    ]);
    expect((await work()).map(({ payload }) => payload)).toEqual(expect.arrayContaining([3, 'free']));
  });

  it('is let in by maxWaiting, where another one is refused', async () => {
    const on = desk({
      pool: {
        types: { resize: { maxWaiting: 1 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
    });
    await on.client.submit({ type: 'resize', dedupe: last() });
    expect(await on.client.submit({ type: 'resize', dedupe: last() })).toMatchObject({
      deduplicated: 'replaced',
    });
    await expect(on.client.submit({ type: 'resize', dedupe: { key: 'other' } })).rejects.toThrow('wait');
  });

  it('of forty processes at the same time, none fails, and few requests are sent in vain', async () => {
    const { anotherClient, store, clock, finish, work } = desk();
    let writes = 0;
    const slow =
      <Request, Answer>(verb: (request: Request) => Promise<Answer>, count = 1) =>
      async (request: Request): Promise<Answer> => {
        writes += count;
        await clock.sleep(5);
        return verb.call(store, request);
      };
    const slowStore = storeWith(store, {
      readDedupe: slow(store.readDedupe, 0),
      getJobs: slow(store.getJobs, 0),
      createDeduped: slow(store.createDeduped),
      mergeJob: slow(store.mergeJob),
    });
    const requests = Array.from({ length: 40 }, (_, n) =>
      anotherClient({ store: slowStore }).submit({ type: 'resize', payload: n, dedupe: last() }),
    );
    const answers = await finish(Promise.all(requests));
    expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
    expect(answers.filter(({ deduplicated }) => deduplicated === 'replaced')).toHaveLength(39);
    expect(await work()).toHaveLength(1);
    expect(writes).toBeLessThan(40 * 5);
  });

  it('gives up after many lost races, and says so', async () => {
    const on = desk();
    const store = storeWith(on.store, { mergeJob: async () => ({ kind: 'superseded' }) });
    const other = on.anotherClient({ store });
    await on.client.submit({ type: 'resize', dedupe: last() });
    await expect(on.finish(other.submit({ type: 'resize', dedupe: last() }))).rejects.toMatchObject({
      name: 'ThrottledError',
    });
  });
});

describe('a request whose key a running job has', () => {
  const running = async (whileRunning?: 'oneWaits') => {
    const scene = desk();
    const first = await scene.client.submit({ type: 'resize', payload: 1, dedupe: last({ whileRunning }) });
    await scene.pass();
    const [started] = await scene.startEverywhere();
    if (started === undefined) throw new Error('not started');
    return { ...scene, first, started };
  };

  it('makes another job that may run beside it, and the next request changes that one', async () => {
    const { client, work, first } = await running();
    const second = await client.submit({ type: 'resize', payload: 2, dedupe: last() });
    expect(second).toMatchObject({ repeated: false, job: { state: 'pending' } });
    expect(second.jobId).not.toBe(first.jobId);
    expect(await client.submit({ type: 'resize', payload: 3, dedupe: last() })).toMatchObject({
      jobId: second.jobId,
      deduplicated: 'replaced',
    });
    expect(await client.get(first.jobId)).toMatchObject({ payload: 1 });
    expect(await work()).toMatchObject([{ id: second.jobId, payload: 3 }]);
  });

  it('makes one that waits for its end, with oneWaits', async () => {
    const { client, work, end, started, pass } = await running('oneWaits');
    const next = await client.submit({
      type: 'resize',
      payload: 2,
      dedupe: last({ whileRunning: 'oneWaits' }),
    });
    expect(await work()).toEqual([]);
    const ended = await end(started);
    await pass({ jobs: [ended], reason: 'stream' });
    expect(await work()).toMatchObject([{ id: next.jobId }]);
  });

  it('makes none, with drop', async () => {
    const { client, first, store } = await running();
    const dropped = await client.submit({
      type: 'resize',
      payload: 2,
      dedupe: last({ whileRunning: 'drop' }),
    });
    expect(dropped).toMatchObject({ jobId: first.jobId, deduplicated: 'dropped' });
    expect([...store.everyJob()]).toHaveLength(1);
  });

  it('does not change a job that waits for its retry', async () => {
    const { client, end, started, first } = await running();
    await end(started, {
      kind: 'retry',
      error: { name: 'Flaky', message: 'again' },
      runAtMs: started.job.runAtMs + 60_000,
    });
    const second = await client.submit({ type: 'resize', payload: 2, dedupe: last() });
    expect(second.jobId).not.toBe(first.jobId);
    expect(await client.get(first.jobId)).toMatchObject({ state: 'scheduled', payload: 1 });
  });
});

it('a start that is on its way gets the newest payload', async () => {
  const { client, pass, startEverywhere } = desk();
  const { jobId } = await client.submit({ type: 'resize', payload: 1, dedupe: last() });
  await pass();
  await client.submit({ type: 'resize', payload: 2, dedupe: last() });
  expect((await startEverywhere()).map(({ job }) => [job.id, job.payload])).toEqual([[jobId, 2]]);
});

it('a declared type derives it from the payload', async () => {
  const jobs = defineJobs({
    resize: declare<{ account: string; n: number }>({
      dedupe: ({ account }) => ({ key: account, keep: 'last' }),
    }),
    report: declare<null>({ dedupe: () => 'k' as never }),
  });
  const { anotherClient } = desk();
  const client = anotherClient({ jobs });
  const first = await client.submit('resize', { account: 'a', n: 1 });
  expect(await client.submit('resize', { account: 'a', n: 2 })).toMatchObject({
    jobId: first.jobId,
    deduplicated: 'replaced',
  });
  const own = await client.submit('resize', { account: 'a', n: 3 }, { dedupe: { key: 'mine' } });
  expect(own.jobId).not.toBe(first.jobId);
  await expect(client.submit('report', null)).rejects.toMatchObject({
    name: 'ValidationError',
    field: 'dedupe',
  });
});

it('over HTTP, a request that made no job is answered with 200 and says why', async () => {
  const { send } = httpDesk();
  const request = {
    type: 'resize',
    dedupe: { key: 'k', keep: 'last', quiet: '5s', atMost: '1m', whileRunning: 'drop' },
  };
  expect((await send('POST', '/jobs', request)).status).toBe(201);
  expect(await send('POST', '/jobs', request)).toMatchObject({
    status: 200,
    body: { deduplicated: 'replaced' },
  });
});

describe('a request that cannot be deduplicated', () => {
  const configuration = resolveConfiguration({
    types: { resize: { conflictGroup: 'g' }, free: {} },
    fleets: { images: { types: ['resize', 'free'], slots: 1 } },
  });
  it.each([
    ['dedupe', 'k', {}],
    ['dedupe.key', {}, {}],
    ['dedupe.key', { key: '' }, {}],
    ['dedupe.key', { key: 'x'.repeat(513) }, {}],
    ['dedupe.keep', { key: 'k', keep: 'both' }, {}],
    ['dedupe.quiet', { key: 'k', quiet: '0s' }, {}],
    ['dedupe.quiet', { key: 'k', quiet: '31d' }, {}],
    ['dedupe.quiet', { key: 'k', quiet: 'soon' }, {}],
    ['dedupe.atMost', { key: 'k', atMost: '1m' }, {}],
    ['dedupe.atMost', { key: 'k', quiet: '2m', atMost: '1m' }, {}],
    ['dedupe.whileRunning', { key: 'k', whileRunning: 'wait' }, {}],
    ['dedupe.whileRunning', { key: 'k', whileRunning: 'oneWaits' }, { type: 'free' }],
    ['dedupe.until', { key: 'k', until: '1m' }, {}],
    ['runAt', { key: 'k', quiet: '5s' }, { runAt: '2027-01-31T08:00:00Z' }],
  ])('is refused with its field: %s', (field, dedupe, more) => {
    const { refused } = parseRequests({ type: 'resize', dedupe, ...more }, configuration);
    expect(refused).toMatchObject([{ field, reason: expect.any(String) }]);
  });

  it('is told apart by its content', () => {
    const hash = (dedupe: object) => {
      const [accepted] = parseRequests({ type: 'resize', dedupe }, configuration).accepted;
      return accepted?.request.dedupe;
    };
    expect(hash({ key: 'k' })).toEqual(hash({ key: 'k', keep: 'first', whileRunning: 'another' }));
    expect(hash({ key: 'k', quiet: '5s' })).toEqual(hash({ key: 'k', quiet: 5_000, atMost: '1d' }));
  });
});

it('other jobs cost no request more', async () => {
  const on = desk();
  const store = storeWith(on.store, { readDedupe: () => Promise.reject(new Error('read')) });
  expect(await submit(on.submitter({ store }), [on.job({ type: 'resize' })])).toHaveLength(1);
});

it('an event that is delivered twice changes the waiting job once', async () => {
  const { store, bus, log, submitter } = desk();
  const context = { ...submitter(), events: bus, log, partitionOf: () => 0 };
  const eventOf = (payload: number) => ({
    messageId: `m-${payload}`,
    body: JSON.stringify({ id: `e-${payload}`, detail: { type: 'resize', payload, dedupe: last() } }),
  });
  const reports = [];
  for (const payload of [1, 2, 1, 3, 2]) reports.push(await ingest(context, [eventOf(payload)]));
  expect(reports.map(({ created, repeated }) => [created.length, repeated])).toEqual([
    [1, 0],
    ...Array.from({ length: 4 }, () => [0, 1]),
  ]);
  expect([...store.everyJob()]).toMatchObject([{ payload: 3 }]);
});
