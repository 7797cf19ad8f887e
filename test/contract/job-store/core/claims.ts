/** Claims of jobs, and what makes a late one fail. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../../../lib/core/job.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { ClaimOutcome } from '../../../../lib/store/contract/requests.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { lineOf } from '../../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import { CONCURRENT_MS, retryAt, type StoreSuite, SUCCESS, times } from '../suite.ts';

export function claimsContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition, created, stored, claimedJob, runningJob, finish, untilLine } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('claiming', () => {
    it('wins a pending job at the planned version', async () => {
      const job = await created(aJob());
      const request = aClaimRequest(job, { fleet: 'general' });
      expect(await store.claim([request])).toEqual(['claimed']);
      const { claimId, batchId, fleet, claimedAtMs } = request;
      expect(await stored(job.id)).toEqual({
        ...job,
        state: 'claimed',
        version: 2,
        claim: { claimId, batchId, fleet, claimedAtMs },
      });
    });

    it.each([
      ['an older version', (job: Job) => ({ ...job, version: job.version - 1 })],
      ['a newer version', (job: Job) => ({ ...job, version: job.version + 1 })],
    ])('loses at %s and changes nothing', async (_, seen) => {
      const job = await created(aJob());
      expect(await store.claim([aClaimRequest(seen(job))])).toEqual(['lost']);
      expect(await stored(job.id)).toEqual(job);
    });

    it('loses a job that is not pending, or not there', async () => {
      const scheduled = await created(aScheduledJob(NOW_MS + 1));
      const { job: running, worker } = await runningJob();
      const { job: other, worker: otherWorker } = await runningJob();
      await finish(other, otherWorker, SUCCESS);
      const done = await stored(other.id);
      const requests = [scheduled, running, done, aJob()].map((job) => aClaimRequest(job));
      expect(await store.claim(requests)).toEqual(['lost', 'lost', 'lost', 'lost']);
      expect(await stored(scheduled.id)).toEqual(scheduled);
      expect(await stored(running.id)).toMatchObject({ state: 'running', worker });
      expect(await stored(done.id)).toEqual(done);
      expect(await store.getJobs({ ids: [requests[3]?.jobId ?? ''] })).toEqual([undefined]);
    });

    it('answers claimed when the same claim is repeated while its job runs, or has ended', async () => {
      const job = await created(aJob());
      const request = aClaimRequest(job);
      await store.claim([request]);
      const worker = aWorker();
      const start = { ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS };
      const outcome = await store.startJob(start);
      expect(await store.claim([request])).toEqual(['claimed']);
      if (outcome.kind === 'started') await finish(outcome.job, worker, SUCCESS);
      expect(await store.claim([request])).toEqual(['claimed']);
      expect(await stored(job.id)).toMatchObject({ state: 'succeeded', version: 4 });
    });

    it('answers claimed when the same claim is repeated, and changes nothing more', async () => {
      const job = await created(aJob());
      const request = aClaimRequest(job);
      await store.claim([request]);
      const once = await stored(job.id);
      expect(await store.claim([request])).toEqual(['claimed']);
      expect(await stored(job.id)).toEqual(once);
    });

    it('loses to an earlier claim', async () => {
      const { job, claimId } = await claimedJob();
      expect(await store.claim([aClaimRequest(job), aClaimRequest({ ...job, version: 1 })])).toEqual([
        'lost',
        'lost',
      ]);
      expect((await stored(job.id)).claim?.claimId).toBe(claimId);
    });

    it('answers in the order of the requests, however many', async () => {
      const jobs = times(60, () => aJob());
      await store.createJobs(jobs);
      const requests = jobs.map((job, at) => aClaimRequest({ ...job, version: at % 5 === 2 ? 9 : 1 }));
      expect(await store.claim(requests)).toEqual(
        jobs.map((_, at): ClaimOutcome => (at % 5 === 2 ? 'lost' : 'claimed')),
      );
      expect(await store.claim([])).toEqual([]);
    });

    it('is won by one of eight dispatchers', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const job = await created(aJob());
        const requests = times(8, () => aClaimRequest(job));
        const outcomes = (await Promise.all(requests.map((request) => store.claim([request])))).flat();
        expect(outcomes.filter((outcome) => outcome === 'claimed')).toHaveLength(1);
        expect(outcomes.filter((outcome) => outcome === 'lost')).toHaveLength(7);
        const winner = requests[outcomes.indexOf('claimed')];
        expect(await stored(job.id)).toMatchObject({ version: 2, claim: { claimId: winner?.claimId } });
      }
    });

    it("forgets the attempt before: its worker and its times are not the new claim's", async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, retryAt(NOW_MS));
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      const request = aClaimRequest(pending);
      expect(await store.claim([request])).toEqual(['claimed']);
      const claimed = await stored(job.id);
      expect(claimed.claim?.claimId).toBe(request.claimId);
      expect([claimed.worker, claimed.startedAtMs, claimed.finishedAtMs]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    });

    it('claims a job under the version that it was planned under', async () => {
      const { job } = await claimedJob(aJob(), { declared: 12 });
      expect(job.claim).toMatchObject({ declared: 12 });
    });
  });

  describe('raising a version', () => {
    it('makes every claim fail that was planned before, and leaves the job in its line', async () => {
      const partition = freshPartition();
      const job = await created(aJob({ partition }));
      expect(await store.raiseVersion({ jobId: job.id, version: 1 })).toBe('raised');
      expect(await stored(job.id)).toEqual({ ...job, version: 2 });
      expect(await store.claim([aClaimRequest(job)])).toEqual(['lost']);
      await untilLine(partition, lineOf(job), [job.id]);
      expect(await store.claim([aClaimRequest({ ...job, version: 2 })])).toEqual(['claimed']);
    });

    it('is lost at another version, on a job that is not pending, and on none', async () => {
      const job = await created(aJob());
      expect(await store.raiseVersion({ jobId: job.id, version: 2 })).toBe('lost');
      expect(await store.raiseVersion({ jobId: 'unheard-of', version: 1 })).toBe('lost');
      const { job: claimed } = await claimedJob();
      expect(await store.raiseVersion({ jobId: claimed.id, version: claimed.version })).toBe('lost');
      expect(await stored(claimed.id)).toEqual(claimed);
      expect(await stored(job.id)).toEqual(job);
      expect(await store.getJobs({ ids: ['unheard-of'] })).toEqual([undefined]);
    });

    it('and claiming exclude each other', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const job = await created(aJob());
        const [raised, [claimed]] = await Promise.all([
          store.raiseVersion({ jobId: job.id, version: 1 }),
          store.claim([aClaimRequest(job)]),
        ]);
        expect((raised === 'raised') !== (claimed === 'claimed')).toBe(true);
        expect((await stored(job.id)).version).toBe(2);
      }
    });
  });
}
