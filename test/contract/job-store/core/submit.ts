/** Storing jobs, reading them again, and telling of those that were refused. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../../lib/core/job.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import { aJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { CONCURRENT_MS, type StoreSuite, SUCCESS, times } from '../suite.ts';

export function submitContract(suite: StoreSuite<CoreStore>): void {
  const { created, stored, runningJob, finish } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('creating jobs', () => {
    it('keeps a job as it was given', async () => {
      const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
      const own = {
        resourceId: 'catalogue',
        priority: 7,
        partition: 3,
        traceparent,
        label: 'März 🎞',
        tags: { order: '4711', März: '' },
      };
      const job = aJob({ ...own, mode: 'onDemand' });
      expect(await store.createJobs([job])).toEqual([{ kind: 'created', job }]);
      expect(await store.getJobs({ ids: [job.id] })).toEqual([job]);
    });

    it('answers a repeated id with the same content by the job that was there', async () => {
      const job = await created(aJob());
      const again = { ...job, submittedAtMs: NOW_MS + 1_000, readyAtMs: NOW_MS + 1_000 };
      expect(await store.createJobs([again])).toEqual([{ kind: 'repeated', job }]);
      expect(await stored(job.id)).toEqual(job);
    });

    it('answers a repeated id by the job as it is now, also when it has moved on', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, SUCCESS);
      const [outcome] = await store.createJobs([{ ...job, state: 'pending', version: 1 }]);
      expect(outcome).toMatchObject({ kind: 'repeated', job: { state: 'succeeded' } });
    });

    it('refuses an id that is taken by other content and changes nothing', async () => {
      const job = await created(aJob());
      const other = { ...job, contentHash: 'other', payload: 'other' };
      expect(await store.createJobs([other])).toEqual([{ kind: 'conflict', job }]);
      expect(await stored(job.id)).toEqual(job);
    });

    it('answers in the order of the jobs, however many', async () => {
      const jobs = times(60, () => aJob());
      const known = jobs.filter((_, at) => at % 7 === 3);
      await store.createJobs(known);
      const outcomes = await store.createJobs(jobs);
      expect(outcomes.map((outcome) => outcome.job.id)).toEqual(jobs.map((job) => job.id));
      expect(outcomes.map((outcome) => outcome.kind === 'repeated')).toEqual(
        jobs.map((_, at) => at % 7 === 3),
      );
    });

    it('creates a job once that stands twice in one call', async () => {
      const job = aJob();
      const outcomes = await store.createJobs([job, job]);
      expect(outcomes.map((outcome) => outcome.kind).sort()).toEqual(['created', 'repeated']);
    });

    it('creates a job once when twenty submitters race', { timeout: CONCURRENT_MS }, async () => {
      const job = aJob();
      const outcomes = await Promise.all(times(20, () => store.createJobs([job])));
      const kinds = outcomes.flat().map((outcome) => outcome.kind);
      expect(kinds.filter((kind) => kind === 'created')).toHaveLength(1);
      expect(kinds.filter((kind) => kind === 'repeated')).toHaveLength(19);
    });

    it('takes no jobs without complaint', async () => {
      expect(await store.createJobs([])).toEqual([]);
    });

    it.each<readonly [string, Json]>([
      ['null', null],
      ['an empty text', ''],
      ['an empty object', {}],
      ['an empty array', []],
      ['false', false],
      ['zero', 0],
      ['a fraction', 0.1],
      ['a large number', 9_007_199_254_740_991],
      ['a tiny number', 1e-100],
      ['nested data', { a: [{ b: [null, [], {}] }], '': 'empty name', 'dotted.name': 1 }],
      ['names that code calls its own', JSON.parse('{"__proto__":{"x":1},"constructor":2}') as Json],
      ['unicode', 'Größe 日本 🚀 \u0000'],
      ['60 KB of text', 'x'.repeat(60_000)],
    ])('keeps a payload that is %s', async (_, payload) => {
      const job = await created(aJob({ payload }));
      expect(JSON.stringify((await stored(job.id)).payload)).toBe(JSON.stringify(payload));
    });
  });

  describe('reading jobs', () => {
    it('answers in the order of the ids, with nothing where there is none', async () => {
      const [a, b] = [await created(aJob()), await created(aJob())];
      expect(await store.getJobs({ ids: [b.id, 'unheard-of', a.id] })).toEqual([b, undefined, a]);
    });

    it('reads more than one batch, and ids that stand twice', async () => {
      const jobs = times(120, () => aJob());
      await store.createJobs(jobs);
      const wanted = [...jobs, ...jobs.slice(0, 3)];
      expect((await store.getJobs({ ids: wanted.map((job) => job.id) })).map((job) => job?.id)).toEqual(
        wanted.map((job) => job.id),
      );
    });

    it('reads nothing when nothing is asked', async () => {
      expect(await store.getJobs({ ids: [] })).toEqual([]);
    });
  });
}
