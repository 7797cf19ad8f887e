/** Payloads, small and large, which no verb may lose: whole jobs come with them, moving ones without. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../../../lib/core/job.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { noise } from '../../../fixtures/noise.ts';
import { CONCURRENT_MS, EXPIRES_AT_MS, FAILURE, retryAt, type StoreSuite, times } from '../suite.ts';

export const PAYLOADS = [
  ['some bytes', 'x'.repeat(100)],
  ['several KB', 'x'.repeat(3_000)],
  ['2 KB that compression does not make cheaper', noise(1_990)],
  ['64 KB', noise(65_000)],
] as const;

export function payloadContract(suite: StoreSuite<CoreStore>): void {
  const { created, stored, runningJob, freshPartition } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe.each(PAYLOADS)('a payload of %s', (_, text) => {
    const payload = { text };
    const aFullJob = (change: Partial<Job> = {}): Job =>
      aJob({ partition: freshPartition(), payload, ...change });

    it('comes back in full with each answer that shows the whole job', async () => {
      const job = await created(aFullJob());
      expect(await stored(job.id)).toEqual(job);
      expect(await store.createJobs([job])).toEqual([{ kind: 'repeated', job }]);
      const other = { ...job, contentHash: 'other', payload: { text: `${text}y` } };
      expect(await store.createJobs([other])).toEqual([{ kind: 'conflict', job }]);
      const moved = await store.retimeJob({ job, runAtMs: NOW_MS + 1, nowMs: NOW_MS });
      expect(moved).toMatchObject({ kind: 'moved', job: { payload } });
      const cancelled = await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      expect(cancelled).toMatchObject({ kind: 'cancelled', job: { payload } });
      expect((await stored(job.id)).payload).toEqual(payload);
    });

    it('is there for its worker, at each attempt, and once the job has failed', async () => {
      const { job: first, worker } = await runningJob(aFullJob());
      expect(first.payload).toEqual(payload);
      const { id } = first;
      const [seen] = await store.lookUpJobs({ ids: [id] });
      expect({ ...seen, payload }).toEqual(first);
      const end = { ...worker, job: first, nowMs: NOW_MS + 1, expiresAtMs: EXPIRES_AT_MS };
      await store.finishJob({ ...end, verdict: retryAt(NOW_MS + 2) });
      const [waiting] = await store.lookUpJobs({ ids: [id] });
      const [again] = await store.promote({
        jobs: waiting === undefined ? [] : [waiting],
        nowMs: NOW_MS + 2,
      });
      if (again === undefined) throw new Error('not promoted');
      const request = aClaimRequest(again);
      expect(await store.claim([request])).toEqual(['claimed']);
      const started = await store.startJob({ ...worker, ...request, nowMs: NOW_MS + 3 });
      if (started.kind !== 'started') throw new Error('not started');
      expect(started.job.payload).toEqual(payload);
      const failed = await store.finishJob({ ...end, job: started.job, verdict: FAILURE });
      if (failed.kind !== 'finished') throw new Error('not finished');
      expect((await stored(id)).payload).toEqual(payload);
    });

    it('is that of the job that was first, whoever races', { timeout: CONCURRENT_MS }, async () => {
      const job = aFullJob();
      const texts = times(5, (at) => ({
        ...job,
        contentHash: String(at),
        payload: { text: String(at).repeat(text.length) },
      }));
      const outcomes = await Promise.all(texts.map((each) => store.createJobs([each])));
      const winner = outcomes.findIndex(([outcome]) => outcome?.kind === 'created');
      expect(
        outcomes
          .flat()
          .map(({ kind }) => kind)
          .sort(),
      ).toEqual(['conflict', 'conflict', 'conflict', 'conflict', 'created']);
      expect((await stored(job.id)).payload).toEqual(texts[winner]?.payload);
    });
  });
}
