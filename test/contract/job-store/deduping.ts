/** Jobs whose dedupe key names them, and requests that change them. */
import { beforeAll, describe, expect, it } from 'vitest';
import { mergedInto } from '../../../lib/core/dedupe.ts';
import type { Job } from '../../../lib/core/job.ts';
import { EXPIRY_LINES } from '../../../lib/store/contract/expiring.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import { EXPIRES_AT_MS, type StoreSuite } from './suite.ts';

const LARGE = { text: 'x'.repeat(3_000) };

export function dedupingContract(suite: StoreSuite<JobStore>): void {
  const { created, stored } = suite;
  let store: JobStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  const create = (job: Job, after?: string, expiresAtMs = EXPIRES_AT_MS) =>
    store.createDeduped({ job, after, expiresAtMs });
  const aRequest = (changes: Partial<Job> = {}, key = 'k'): Job =>
    aJob({ dedupe: { key, keep: 'last', whileRunning: 'another' }, ...changes });
  let keys = 0;
  const aKey = (): string => {
    keys += 1;
    return `key ${keys} / ä`;
  };
  const startPlanned = (job: Job) => {
    const { claimId, fleet } = aClaimRequest(job);
    const toClaim = { version: job.version, fleet, claimedAtMs: NOW_MS };
    return store.startJob({ ...aWorker(), jobId: job.id, claimId, toClaim, nowMs: NOW_MS });
  };

  describe('a dedupe key', () => {
    it('names the job that was created with it, and no job of another type, fairness key, resource or other keys', async () => {
      const job = aRequest({ payload: LARGE, keys: { org: 'a', user: '1' } }, aKey());
      expect(await store.readDedupe(job)).toBeUndefined();
      expect(await create(job)).toEqual({ kind: 'created', job });
      expect(await store.readDedupe({ ...job, keys: { user: '1', org: 'a' } })).toBe(job.id);
      expect(await stored(job.id)).toEqual(job);
      for (const other of [
        { type: 'report' },
        { fairnessKey: 'b' },
        { resourceId: 'r' },
        { keys: { org: 'a', user: '2' } },
        { keys: undefined },
      ])
        expect(await store.readDedupe({ ...job, ...other })).toBeUndefined();
    });

    it('may be as long as its fields may be', async () => {
      const long = (text: string) => text.repeat(512);
      const fields = { fairnessKey: long('/'), resourceId: long('%'), keys: { '/': '/'.repeat(255) } };
      const job = aRequest(fields, long('"'));
      expect(await create(job)).toMatchObject({ kind: 'created' });
      expect(await store.readDedupe(job)).toBe(job.id);
      expect(await store.readDedupe(aRequest(fields, `${long('"').slice(1)}'`))).toBeUndefined();
    });

    it('names another job only if it named the one that was read', async () => {
      const key = aKey();
      const [one, other, third] = [aRequest({}, key), aRequest({}, key), aRequest({}, key)];
      await create(one);
      expect(await create(other)).toEqual({ kind: 'superseded' });
      expect(await create(other, 'someone')).toEqual({ kind: 'superseded' });
      expect((await store.getJobs({ ids: [other.id] }))[0]).toBeUndefined();
      expect(await create(other, one.id)).toMatchObject({ kind: 'created' });
      expect(await create(third, one.id)).toEqual({ kind: 'superseded' });
      expect(await store.readDedupe(one)).toBe(other.id);
    });

    it('answers a repetition with its job, and another content as a conflict', async () => {
      const job = aRequest({}, aKey());
      await create(job);
      expect(await create(job)).toEqual({ kind: 'repeated', job });
      expect(await create({ ...job, contentHash: 'other' })).toEqual({ kind: 'conflict', job });
    });

    it('names none from the instant on at which it expires', async () => {
      const key = aKey();
      const [one, other] = [aRequest({}, key), aRequest({}, key)];
      await create(one, undefined, NOW_MS - 1_000_000_000);
      expect(await store.readDedupe(one)).toBeUndefined();
      expect(await create(other)).toMatchObject({ kind: 'created' });
    });

    it('names one of several jobs that are created at the same time', async () => {
      const key = aKey();
      const jobs = Array.from({ length: 5 }, () => aRequest({}, key));
      const outcomes = await Promise.all(jobs.map((job) => create(job)));
      expect(outcomes.filter(({ kind }) => kind === 'created')).toHaveLength(1);
      const found = await store.getJobs({ ids: jobs.map(({ id }) => id) });
      expect(found.filter((job) => job !== undefined)).toHaveLength(1);
    });
  });

  describe('a waiting job', () => {
    it.each([
      ['small', { page: 2 }],
      ['large', LARGE],
    ])('gets a %s payload, tags and a label, and stays where it is', async (_size, payload) => {
      for (const before of [{ page: 1 }, { text: 'y'.repeat(4_000) }]) {
        const job = await created(aRequest({ payload: before, tags: { a: '1' }, label: 'one' }));
        const next = mergedInto(job, aRequest({ payload, tags: { b: '2' } }), NOW_MS);
        expect(next.version).toBe(job.version);
        expect(await store.mergeJob({ job, next })).toEqual({ kind: 'merged', job: next });
        expect(await stored(job.id)).toEqual(JSON.parse(JSON.stringify(next)));
      }
    });

    it('is moved, and ranked anew', async () => {
      const job = await created(aRequest());
      const quiet = {
        key: 'k',
        keep: 'last',
        whileRunning: 'another',
        quietMs: 5_000,
        atMostMs: 60_000,
      } as const;
      const moved = mergedInto({ ...job, dedupe: quiet }, aRequest({ dedupe: quiet }), NOW_MS);
      expect(moved).toMatchObject({ state: 'scheduled', version: 2, runAtMs: NOW_MS + 5_000 });
      expect(await store.mergeJob({ job, next: moved })).toMatchObject({ kind: 'merged' });
      const raised = mergedInto(moved, aRequest({ priority: 9 }), NOW_MS);
      expect(raised).toMatchObject({ state: 'scheduled', version: 3, priority: 9 });
      expect(await store.mergeJob({ job: moved, next: raised })).toMatchObject({ kind: 'merged' });
      const present = await stored(job.id);
      expect(present).toMatchObject({ state: 'scheduled', version: 3, priority: 9, runAtMs: NOW_MS + 5_000 });
      expect(await startPlanned(job)).toEqual({ kind: 'superseded' });
    });

    it('gets another mode, and stands in the line of it once it is promoted', async () => {
      const job = await created(aRequest());
      const next = mergedInto(job, aRequest({ mode: 'onDemand' }), NOW_MS);
      expect(next).toMatchObject({ state: 'scheduled', version: 2, mode: 'onDemand' });
      expect(await store.mergeJob({ job, next })).toEqual({ kind: 'merged', job: next });
      expect(await stored(job.id)).toEqual(next);
    });

    it('gets another time until which it may start, or none, and is found to have expired by that', async () => {
      const expired = async (): Promise<readonly string[]> => {
        const lines = Array.from({ length: EXPIRY_LINES }, (_, line) =>
          store.readExpired({ line, nowMs: NOW_MS + 60_000, limit: 1_000 }),
        );
        return (await Promise.all(lines)).flatMap(({ ids }) => ids);
      };
      const of = (expireAtMs?: number) => aRequest(expireAtMs === undefined ? {} : { expireAtMs });
      const job = await created(of(NOW_MS + 30_000));
      await expect.poll(expired).toContain(job.id);
      const none = mergedInto(job, of(), NOW_MS);
      expect(await store.mergeJob({ job, next: none })).toMatchObject({ kind: 'merged' });
      expect((await stored(job.id)).expireAtMs).toBeUndefined();
      await expect.poll(expired).not.toContain(job.id);
      const again = mergedInto(none, of(NOW_MS + 40_000), NOW_MS);
      expect(again.version).toBe(job.version);
      expect(await store.mergeJob({ job: none, next: again })).toMatchObject({ kind: 'merged' });
      expect(await stored(job.id)).toMatchObject({ expireAtMs: NOW_MS + 40_000 });
      await expect.poll(expired).toContain(job.id);
    });

    it('is counted with the units of the newest request, which no planned start counts', async () => {
      const job = await created(aRequest({ units: { openai: 1 } }));
      const merged = mergedInto(job, aRequest({ units: { openai: 5 } }), NOW_MS);
      expect(merged).toMatchObject({ state: 'pending', version: 2, units: { openai: 5 } });
      expect(await store.mergeJob({ job, next: merged })).toMatchObject({ kind: 'merged' });
      expect(await stored(job.id)).toMatchObject({ version: 2, units: { openai: 5 } });
      expect(await startPlanned(job)).toEqual({ kind: 'superseded' });
      const without = mergedInto(merged, aRequest(), NOW_MS);
      expect(await store.mergeJob({ job: merged, next: without })).toMatchObject({ kind: 'merged' });
      expect((await stored(job.id))?.units).toBeUndefined();
      expect(mergedInto(without, aRequest(), NOW_MS).version).toBe(3);
    });

    it('is not changed by a merge that read it before another one', async () => {
      const job = await created(aRequest());
      const first = mergedInto(job, aRequest({ payload: 1 }), NOW_MS);
      await store.mergeJob({ job, next: first });
      const late = mergedInto(job, aRequest({ payload: LARGE }), NOW_MS);
      expect(await store.mergeJob({ job, next: late })).toEqual({ kind: 'superseded' });
      const second = mergedInto(first, aRequest({ payload: 2 }), NOW_MS);
      expect(await store.mergeJob({ job: first, next: second })).toMatchObject({ kind: 'merged' });
      expect(await store.mergeJob({ job: first, next: first })).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toMatchObject({ payload: 2, merged: second.merged });
    });

    it('is not changed once it was started, or is gone', async () => {
      const job = await created(aRequest());
      await startPlanned(job);
      const next = mergedInto(job, aRequest({ payload: 1 }), NOW_MS);
      expect(await store.mergeJob({ job, next })).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toMatchObject({ state: 'running', payload: job.payload });
      const gone = aRequest();
      expect(await store.mergeJob({ job: gone, next: mergedInto(gone, aRequest(), NOW_MS) })).toEqual({
        kind: 'superseded',
      });
    });

    it.each(Array.from({ length: 8 }, (_, at) => at))(
      'starts with the newest payload, or before it (%i)',
      async () => {
        const job = await created(aRequest({ payload: 'old' }));
        const next = mergedInto(job, aRequest({ payload: 'new' }), NOW_MS);
        const [started, merged] = await Promise.all([startPlanned(job), store.mergeJob({ job, next })]);
        if (started.kind !== 'started') throw new Error('not started');
        expect(started.job.payload).toBe(merged.kind === 'merged' ? 'new' : 'old');
      },
    );
  });
}
