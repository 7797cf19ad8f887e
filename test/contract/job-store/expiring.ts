/** Jobs that have not started in time. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { EXPIRY_LINES } from '../../../lib/store/contract/expiring.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import { EXPIRES_AT_MS, SHOWN, type StoreSuite, times } from './suite.ts';

export function expiringContract(suite: StoreSuite<JobStore>): void {
  const { created, stored, claimedJob, freshPartition } = suite;
  let store: JobStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  /** Each test has instants of its own, because all jobs share a few lines. */
  let days = 0;
  const freshMs = (): number => {
    days += 1;
    return NOW_MS - days * 86_400_000;
  };
  const expiredIn = async (fromMs: number, nowMs: number, limit = 100): Promise<readonly string[]> => {
    const found: string[] = [];
    for (let line = 0; line < EXPIRY_LINES; line += 1) {
      let after: string | undefined;
      do {
        const page = await store.readExpired({ line, nowMs, limit, after });
        found.push(...page.ids);
        after = page.next;
      } while (after !== undefined);
    }
    const jobs = await store.lookUpJobs({ ids: found });
    return jobs
      .filter((job) => job !== undefined)
      .filter(({ expireAtMs = 0 }) => expireAtMs >= fromMs)
      .map(({ id }) => id)
      .toSorted();
  };
  const expire = (job: Job, nowMs: number) =>
    store.expireJobs({ jobs: [job], nowMs, expiresAtMs: EXPIRES_AT_MS });
  const start = (job: Job, nowMs: number) => {
    const { claimId, fleet } = aClaimRequest(job);
    const toClaim = { version: job.version, fleet, claimedAtMs: nowMs };
    return store.startJob({ ...aWorker(), jobId: job.id, claimId, toClaim, nowMs });
  };

  describe('jobs that have not started in time', () => {
    it('are read once that is over, whatever they wait for, in pages', async () => {
      const atMs = freshMs();
      const partition = freshPartition();
      const waiting = times(5, (at) => aJob({ partition, expireAtMs: atMs + at }));
      const scheduled = aScheduledJob(atMs - 5, { partition, expireAtMs: atMs + 1 });
      const later = aJob({ partition, expireAtMs: atMs + 100 });
      for (const job of [...waiting, scheduled, later, aJob({ partition })]) await created(job);
      const claimed = await claimedJob(aJob({ partition, expireAtMs: atMs }));
      const expected = [...waiting, scheduled, claimed.job].map(({ id }) => id).toSorted();
      await vi.waitFor(async () => {
        expect(await expiredIn(atMs, atMs + 50)).toEqual(expected);
        expect(await expiredIn(atMs, atMs + 50, 1)).toEqual(expected);
        expect(await expiredIn(atMs, atMs - 1)).toEqual([]);
      }, SHOWN);
    });

    it('end, and are read no more', async () => {
      const atMs = freshMs();
      const job = await created(aJob({ expireAtMs: atMs }));
      const [expired] = await expire(job, atMs + 3);
      expect(expired).toMatchObject({ id: job.id, state: 'expired', version: 2, finishedAtMs: atMs + 3 });
      expect(await stored(job.id)).toEqual({ ...job, state: 'expired', version: 2, finishedAtMs: atMs + 3 });
      await vi.waitFor(async () => expect(await expiredIn(atMs, atMs + 5)).toEqual([]), SHOWN);
      expect(await expire({ ...job, version: 2 }, atMs + 4)).toEqual([undefined]);
      expect((await store.cancelJob({ jobId: job.id, nowMs: atMs, expiresAtMs: EXPIRES_AT_MS })).kind).toBe(
        'ended',
      );
    });

    it('do not end before that, nor if they have moved on since they were read', async () => {
      const atMs = freshMs();
      const job = await created(aJob({ expireAtMs: atMs }));
      expect(await expire(job, atMs - 1)).toEqual([undefined]);
      expect(await expire({ ...job, version: 2 }, atMs)).toEqual([undefined]);
      const free = await created(aJob());
      expect(await expire(free, atMs)).toEqual([undefined]);
      expect([(await stored(job.id)).state, (await stored(free.id)).state]).toEqual(['pending', 'pending']);
    });

    it('are listed if their type lists finished jobs', async () => {
      const partition = freshPartition();
      const atMs = freshMs();
      const job = await created(aJob({ partition, listFinished: true, expireAtMs: atMs }));
      await expire(job, atMs);
      await vi.waitFor(async () => {
        const { type } = job;
        const { jobs } = await store.readFinished({ partition, state: 'expired', type, limit: 10 });
        expect(jobs.map(({ id }) => id)).toEqual([job.id]);
      }, SHOWN);
    });

    it('do not start, whether or not a pass has claimed them', async () => {
      const atMs = freshMs();
      const job = await created(aJob({ expireAtMs: atMs }));
      expect((await start(job, atMs)).kind).toBe('superseded');
      const { job: claimed, claimId } = await claimedJob(aJob({ expireAtMs: atMs }));
      const late = await store.startJob({ ...aWorker(), jobId: claimed.id, claimId, nowMs: atMs });
      expect(late.kind).toBe('superseded');
      expect([(await stored(job.id)).state, (await stored(claimed.id)).state]).toEqual([
        'pending',
        'claimed',
      ]);
      const [expired] = await expire(claimed, atMs);
      expect(expired?.state).toBe('expired');
    });

    it('start until then, and do not expire any more', async () => {
      const atMs = freshMs();
      const job = await created(aJob({ expireAtMs: atMs }));
      const outcome = await start(job, atMs - 1);
      expect(outcome.kind).toBe('started');
      const running = await stored(job.id);
      expect(running.expireAtMs).toBeUndefined();
      expect(await expire({ ...running, expireAtMs: atMs }, atMs + 5)).toEqual([undefined]);
      await vi.waitFor(async () => expect(await expiredIn(atMs, atMs + 5)).toEqual([]), SHOWN);
    });

    it('expire as long after another time as after their first', async () => {
      const atMs = freshMs();
      const partition = freshPartition();
      const job = await created(
        aJob({ partition, readyAtMs: atMs, runAtMs: atMs, expireAtMs: atMs + 60_000 }),
      );
      const later = await store.retimeJob({ job, runAtMs: atMs + 100_000, nowMs: atMs + 10 });
      expect(later).toMatchObject({ kind: 'moved', job: { expireAtMs: atMs + 160_000 } });
      await vi.waitFor(async () => {
        expect(await expiredIn(atMs, atMs + 159_999)).toEqual([]);
        expect(await expiredIn(atMs, atMs + 160_000)).toEqual([job.id]);
      }, SHOWN);
      const now = await store.retimeJob({ job: await stored(job.id), runAtMs: atMs + 20, nowMs: atMs + 20 });
      expect(now).toMatchObject({ kind: 'moved', job: { expireAtMs: atMs + 60_020 } });
    });
  });
}
