import { describe, expect, it } from 'vitest';
import type { TagEntry } from '../../lib/store/contract/records.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { allOf, desk, errorOf, POOL } from './desk.ts';

describe('getting a job', () => {
  it('answers it as it is now', async () => {
    const { client, put, job } = desk();
    const [stored] = await put(job());
    expect(await client.get(stored?.id ?? '')).toEqual(stored);
  });

  it('that is not there says so', async () => {
    const { client } = desk();
    expect(await errorOf(client.get('nobody'))).toMatchObject({ name: 'NotFoundError', jobId: 'nobody' });
  });
});

describe('rejections', () => {
  it('are read latest first, those of one event in its order, and pages follow each other', async () => {
    const { client, store } = desk();
    const many = Array.from({ length: 130 }, (_, at) =>
      aRejection({ sourceId: 'many', position: at, rejectedAtMs: NOW_MS }),
    );
    const later = aRejection({ sourceId: 'one', rejectedAtMs: NOW_MS + 1 });
    await store.recordRejections([...many, later]);
    const all = await allOf(client.rejections());
    expect(all).toHaveLength(131);
    expect(all[0]).toEqual(later);
    expect(await allOf(client.rejections({ eventId: 'many' }))).toEqual(many);
    expect(await allOf(client.rejections({ eventId: 'none' }))).toEqual([]);
    expect(() => client.rejections({ eventId: '' })).toThrow(/filter\.eventId: must not be empty/);
  });
});

describe('listing jobs', () => {
  it('gives each state its own', async () => {
    const { client, put, job, pass, startEverywhere, deadLetter, time } = desk();
    const failed = await deadLetter();
    const later = time.nowMs + 60_000;
    const [scheduled] = await put(job({ state: 'scheduled', runAtMs: later, readyAtMs: later }));
    const [runs] = await put(job());
    await pass();
    await startEverywhere();
    const [isClaimed] = await put(job());
    await pass();
    const [waits] = await put(job());
    const ids = async (state: 'scheduled' | 'pending' | 'claimed' | 'running' | 'failed') =>
      (await allOf(client.list({ state }))).map(({ id }) => id);
    expect(await ids('failed')).toEqual([failed.id]);
    expect(await ids('scheduled')).toEqual([scheduled?.id]);
    expect(await ids('running')).toEqual([runs?.id]);
    expect(await ids('claimed')).toEqual([isClaimed?.id]);
    expect(await ids('pending')).toEqual([waits?.id]);
  });

  describe('that have ended', () => {
    const pool = (listFinished: boolean, partitions = 1) => ({
      ...POOL,
      types: { ...POOL.types, resize: { ...POOL.types?.resize, listFinished } },
      fleets: { images: { types: ['resize'], slots: 6 }, general: { types: ['report'] } },
      partitions,
    });
    const finished = async (on: ReturnType<typeof desk>, request: object): Promise<string> => {
      const { jobId } = await on.client.submit({ type: 'resize', ...request });
      while ((await on.work()).length === 0) await on.advance(1_000);
      await on.advance(1_000);
      return jobId;
    };

    it('lists succeeded and cancelled ones of a type that says so, latest first, by key, tag and time', async () => {
      const on = desk({ pool: pool(true) });
      const { client, time } = on;
      const first = await finished(on, { fairnessKey: 'a', tags: { order: '1' } });
      const betweenMs = time.nowMs;
      const second = await finished(on, { fairnessKey: 'b' });
      const third = await finished(on, { fairnessKey: 'a' });
      const { jobId: cancelled } = await client.submit({ type: 'resize' });
      await client.cancel(cancelled);
      const ids = async (filter: Partial<Parameters<typeof client.list>[0]>) =>
        (await allOf(client.list({ state: 'succeeded', type: 'resize', ...filter }))).map(({ id }) => id);
      const between = new Date(betweenMs).toISOString();
      expect(await ids({})).toEqual([third, second, first]);
      expect(await ids({ fairnessKey: 'a' })).toEqual([third, first]);
      expect(await ids({ tags: { order: '1' } })).toEqual([first]);
      expect(await ids({ since: between })).toEqual([third, second]);
      expect(await ids({ until: between })).toEqual([first]);
      expect(await ids({ state: 'cancelled' })).toEqual([cancelled]);
    });

    it('merges them over partitions', async () => {
      const on = desk({ pool: pool(true, 3) });
      const ids: string[] = [];
      for (const fairnessKey of ['a', 'b', 'c', 'd', 'e', 'f']) {
        const { jobId } = await on.client.submit({ type: 'resize', fairnessKey });
        await on.client.cancel(jobId);
        ids.unshift(jobId);
        await on.advance(1_000);
      }
      const listed = await allOf(on.client.list({ state: 'cancelled', type: 'resize' }));
      expect(new Set(listed.map(({ partition }) => partition)).size).toBeGreaterThan(1);
      expect(listed.map(({ id }) => id)).toEqual(ids);
    });

    it('refuses those of another type by the name of the option', async () => {
      const on = desk({ pool: pool(false) });
      const error = await errorOf(allOf(on.client.list({ state: 'succeeded', type: 'resize' })));
      expect(error).toMatchObject({ name: 'ValidationError', field: 'filter.type' });
      expect(error.message).toMatch(/listFinished: true/);
    });

    it('costs one write unit for each job of such a type, and nothing for others', async () => {
      const unitsOf = async (listFinished: boolean, end: 'succeeds' | 'is cancelled'): Promise<number> => {
        const on = desk({ pool: pool(listFinished) });
        let units = 0;
        on.store.meter = (_, { writeUnits }) => {
          units += writeUnits;
        };
        const { jobId } = await on.client.submit({ type: 'resize', payload: 'x'.repeat(300) });
        if (end === 'succeeds') await on.work();
        else await on.client.cancel(jobId);
        return units;
      };
      const never = desk({ pool: { ...pool(false), types: POOL.types } });
      let before = 0;
      never.store.meter = (_, { writeUnits }) => {
        before += writeUnits;
      };
      await never.client.submit({ type: 'resize', payload: 'x'.repeat(300) });
      await never.work();
      expect(await unitsOf(false, 'succeeds')).toBe(before);
      for (const end of ['succeeds', 'is cancelled'] as const)
        expect((await unitsOf(true, end)) - (await unitsOf(false, end))).toBe(1);
    });
  });

  describe('by a searchable tag', () => {
    const pool = { ...POOL, searchableTags: ['order'], partitions: 2 };
    const taggedWith = async (
      on: ReturnType<typeof desk>,
      filter: Omit<Parameters<typeof on.client.list>[0], 'state'>,
    ) => (await allOf(on.client.list({ state: 'any', ...filter }))).map(({ id }) => id);

    it('lists them in every state and type, the latest submit first', async () => {
      const on = desk({ pool });
      const submit = async (type: 'resize' | 'report', changes: object = {}) => {
        await on.advance(1_000);
        const tags = { order: '4711', step: type };
        const { jobId } = await on.client.submit({ type, tags, ...changes });
        return jobId;
      };
      const ended = await submit('resize');
      await on.work();
      const dead = await submit('report');
      await on.work(FAILED);
      const later = await submit('report', { runAt: '+1h' });
      const waits = await submit('resize', { fairnessKey: 'another' });
      await on.client.submit({ type: 'resize', tags: { order: '4712' } });
      expect(await taggedWith(on, { tags: { order: '4711' } })).toEqual([waits, later, dead, ended]);
      expect(await taggedWith(on, { tags: { step: 'report', order: '4711' } })).toEqual([later, dead]);
      expect(await taggedWith(on, { tags: { order: '4711' }, type: 'resize' })).toEqual([waits, ended]);
      expect(await taggedWith(on, { tags: { order: '4711' }, fairnessKey: 'another' })).toEqual([waits]);
      expect(await taggedWith(on, { tags: { order: '4713' } })).toEqual([]);
    });

    it('lists a job once that was requested twice, and the job that retries it', async () => {
      const on = desk({ pool });
      const request = { type: 'resize', tags: { order: '4711' }, idempotencyKey: 'once' } as const;
      const { jobId } = await on.client.submit(request);
      await on.advance(1_000);
      await on.client.submit(request);
      expect(await taggedWith(on, { tags: { order: '4711' } })).toEqual([jobId]);
      while ((await on.client.get(jobId)).state !== 'failed') {
        await on.work(FAILED);
        await on.advance(60_000);
      }
      const { jobId: again } = await on.client.retry(jobId);
      expect(await taggedWith(on, { tags: { order: '4711' } })).toEqual([again, jobId]);
    });

    it('stores the entry before the job, so that no crash leaves a job that is not found', async () => {
      const on = desk({ pool });
      const createJobs = () => Promise.reject(new Error('the process died'));
      const dying = on.anotherClient({ store: storeWith(on.store, { createJobs }) });
      await errorOf(dying.submit({ type: 'resize', tags: { order: '4711' } }));
      expect(await taggedWith(on, { tags: { order: '4711' } })).toEqual([]);
      const recordTags = () => Promise.reject(new Error('the process died'));
      const before = on.anotherClient({ store: storeWith(on.store, { recordTags }) });
      await errorOf(before.submit({ type: 'resize', tags: { order: '4711' } }));
      expect([...on.store.everyJob()]).toEqual([]);
    });

    it('finds a job that was moved by years', async () => {
      const on = desk({ pool });
      const { jobId } = await on.client.submit({ type: 'resize', tags: { order: '4711' }, runAt: '+1h' });
      const entries: TagEntry[] = [];
      const recordTags = async (given: readonly TagEntry[]) => void entries.push(...given);
      const moving = on.anotherClient({ store: storeWith(on.store, { recordTags }) });
      await moving.retime(jobId, { runAt: '+1d' });
      expect(entries).toEqual([]);
      await moving.retime(jobId, { runAt: '+365d' });
      expect(entries).toMatchObject([{ jobId, expiresAtMs: on.time.nowMs + 455 * 86_400_000 }]);
    });

    it('refuses tags of which none is searchable', async () => {
      const on = desk({ pool });
      const error = await errorOf(allOf(on.client.list({ state: 'any', tags: { step: 'report' } })));
      expect(error).toMatchObject({ name: 'ValidationError', field: 'filter.tags' });
      expect(error.message).toMatch(/declared in searchableTags: "order"/);
    });

    it('costs a write unit for each such tag of a job, and nothing for other tags and pools', async () => {
      const unitsOf = async (searchableTags: readonly string[] | undefined): Promise<number> => {
        const on = desk({ pool: { ...POOL, searchableTags } });
        let units = 0;
        on.store.meter = (_, { writeUnits }) => {
          units += writeUnits;
        };
        await on.client.submit({ type: 'resize', tags: { order: '4711', customer: 'acme' } });
        await on.work();
        return units;
      };
      const none = await unitsOf(undefined);
      expect(await unitsOf(['batch'])).toBe(none);
      expect(await unitsOf(['order'])).toBe(none + 1);
      expect(await unitsOf(['order', 'customer'])).toBe(none + 2);
    });
  });

  it('shows a job as waiting whose place is one that it had before', async () => {
    const { client, put, job, pass, store } = desk();
    const [given] = await put(job());
    const id = given?.id ?? '';
    await pass();
    // As a pass gives the place up, and dies before it drops it.
    await store.raiseVersion({ jobId: id, version: given?.version ?? 0 });
    expect((await allOf(client.list({ state: 'claimed' }))).map((each) => each.id)).toEqual([]);
    expect(await allOf(client.list({ state: 'pending' }))).toMatchObject([{ id, state: 'pending' }]);
  });

  it('narrows by type, key and mode', async () => {
    const { client, put, job } = desk();
    await put(
      job({ id: 'a', type: 'resize', fairnessKey: 'k1' }),
      job({ id: 'b', type: 'report', fairnessKey: 'k1' }),
      job({ id: 'c', type: 'resize', fairnessKey: 'k2', mode: 'onDemand' }),
    );
    const ids = async (filter = {}) =>
      (await allOf(client.list({ state: 'pending', ...filter }))).map(({ id }) => id).sort();
    expect(await ids()).toEqual(['a', 'b', 'c']);
    expect(await ids({ type: 'resize' })).toEqual(['a', 'c']);
    expect(await ids({ fairnessKey: 'k1' })).toEqual(['a', 'b']);
    expect(await ids({ type: 'report', fairnessKey: 'k2' })).toEqual([]);
    expect(await ids({ mode: 'onDemand' })).toEqual(['c']);
    expect(await ids({ mode: 'queued', type: 'resize' })).toEqual(['a']);
  });

  it('reads page by page', async () => {
    const { client, put, job } = desk();
    await put(...Array.from({ length: 250 }, (_, n) => job({ priority: n % 11 })));
    const all = await allOf(client.list({ state: 'pending' }));
    expect(new Set(all.map(({ id }) => id)).size).toBe(250);
    expect(all.map(({ priority }) => priority)).toEqual(
      all.map(({ priority }) => priority).sort((a, b) => b - a),
    );
  });

  it('ends with its signal', async () => {
    const { client, put, job } = desk();
    await put(job(), job());
    const abort = new AbortController();
    const listing = client.list({ state: 'pending' }, { signal: abort.signal });
    expect((await listing.next()).done).toBe(false);
    abort.abort();
    expect(await errorOf(listing.next())).toMatchObject({ name: 'AbortError' });
  });
});

describe('looking at keys', () => {
  it('shows costs, shares and backlog in the order of their turn', async () => {
    const { client, put, job, pass, work } = desk();
    await put(job({ fairnessKey: 'paid' }));
    await pass({ jobs: await work(), reason: 'stream' });
    await put(job({ fairnessKey: 'runs' }), job({ fairnessKey: 'runs' }));
    await pass();
    await put(...Array.from({ length: 3 }, () => job({ fairnessKey: 'paid' })), job({ fairnessKey: 'new' }));
    await client.override({ fairnessKey: 'paid' }, { weight: 2, maxConcurrency: 4 });
    await client.pause({ fairnessKey: 'new' });
    const keys = await allOf(client.keys({ countUpTo: 2 }));
    const of = (fairnessKey: string) => keys.find((key) => key.fairnessKey === fairnessKey);
    expect(of('paid')).toMatchObject({
      tier: 'urgent',
      waiting: 2,
      more: true,
      inFlight: 0,
      weight: 2,
      maxConcurrency: 4,
    });
    expect(of('new')).toMatchObject({ waiting: 1, more: false, paused: true, settledCostMs: 0 });
    // Their fleet was told of both: they wait no more.
    expect(of('runs')).toMatchObject({ inFlight: 2, waiting: 0, weight: 1 });
    expect(of('runs')?.inFlightCostMs).toBeGreaterThan(0);
    expect(of('runs')?.shareMs).toBe((of('runs')?.inFlightCostMs ?? 0) + (of('runs')?.settledCostMs ?? 0));
  });

  it('shows what an operator set, and no cost, when the ledger has expired', async () => {
    const { client, put, job, pass, work, advance, configuration } = desk();
    await put(job({ fairnessKey: 'paid' }));
    await pass({ jobs: await work(), reason: 'stream' });
    await client.override({ fairnessKey: 'paid' }, { weight: 5 });
    await advance((configuration.fairness.keyTtlMs ?? Infinity) + 60_000);
    await client.pause({ fairnessKey: 'paid' });
    const [waits] = await put(job({ fairnessKey: 'paid' }));
    const weighs = { weight: 5, shareMs: 0 };
    expect(await allOf(client.keys())).toEqual([
      expect.objectContaining({ fairnessKey: 'paid', paused: true, settledCostMs: 0, ...weighs }),
    ]);
    expect((await client.explain(waits?.id ?? ''))?.key).toEqual({ costMs: 0, weight: 5 });
  });

  it('shows no cost that a reset has forgiven', async () => {
    const resetEveryMs = 3_600_000;
    const { client, put, job, pass, work, advance, time } = desk({
      pool: { ...POOL, fairness: { resetEveryMs } },
    });
    await put(job({ fairnessKey: 'paid' }));
    await pass({ jobs: await work(), reason: 'stream' });
    await put(job({ fairnessKey: 'paid' }));
    expect((await allOf(client.keys()))[0]?.settledCostMs).toBeGreaterThan(0);
    await advance(resetEveryMs - (time.nowMs % resetEveryMs));
    expect((await allOf(client.keys()))[0]).toMatchObject({
      fairnessKey: 'paid',
      settledCostMs: 0,
      shareMs: 0,
    });
  });

  it('shows those that only have jobs in flight last', async () => {
    const { client, put, job, pass, store, advance } = desk();
    await put(job({ fairnessKey: 'runs' }));
    await pass();
    // Its line is empty for so long that it is retired.
    await advance(20 * 60_000);
    await store.retireLine({
      partition: 0,
      line: { type: 'resize', mode: 'queued', fairnessKey: 'runs' },
      announcedAtMs: Infinity,
    });
    await put(job({ fairnessKey: 'waits' }));
    expect((await allOf(client.keys())).map(({ fairnessKey, tier }) => [fairnessKey, tier])).toEqual([
      ['waits', 'urgent'],
      ['runs', undefined],
    ]);
  });
});

describe('looking at fleets', () => {
  it('shows declared and registered slots, what is busy, caps and pauses', async () => {
    const { client, put, job, pass, store, time } = desk();
    await store.registerWorker({
      partition: 0,
      record: aWorkerRecord({ fleet: 'general', slots: 3, expiresAtMs: time.nowMs + 1_000 }),
    });
    await store.registerWorker({
      partition: 0,
      record: aWorkerRecord({ fleet: 'general', slots: 9, expiresAtMs: time.nowMs - 1 }),
    });
    await put(job(), job({ type: 'report' }));
    await pass();
    await client.override({ fleet: 'images' }, { maxConcurrency: 1 });
    await client.pause({ fleet: 'general' });
    expect(await client.fleets()).toMatchObject([
      {
        fleet: 'images',
        types: ['resize'],
        slots: 2,
        busy: 1,
        paused: false,
        maxConcurrency: 1,
        workers: [],
      },
      { fleet: 'general', types: ['report'], slots: 3, busy: 1, paused: true, workers: [{ slots: 3 }] },
    ]);
  });
});
