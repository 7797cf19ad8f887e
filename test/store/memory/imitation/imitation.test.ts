/** What the memory store imitates when it is asked to, each by itself. */
import { describe, expect, it } from 'vitest';
import { VirtualTime } from '../../../../lib/local/virtual-time.ts';
import type { StoreImitation } from '../../../../lib/store/memory/imitation/imitation.ts';
import { MemoryJobStore } from '../../../../lib/store/memory/store.ts';
import { suitePlace } from '../../../contract/harness.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aCommit } from '../../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { lineOf } from '../../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import { seeded } from '../../../simulation/random.ts';

function aStore(imitate: StoreImitation): { store: MemoryJobStore; time: VirtualTime } {
  const time = new VirtualTime(NOW_MS);
  const options = { clock: () => time.nowMs, random: seeded(1), place: suitePlace, after: time.after };
  return { store: new MemoryJobStore({ ...options, imitate }), time };
}

async function succeed(store: MemoryJobStore, expiresAtMs: number): Promise<string> {
  const job = aJob();
  const worker = aWorker();
  await store.createJobs([job]);
  const request = aClaimRequest(job);
  await store.claim([request]);
  const started = await store.startJob({ ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS });
  if (started.kind !== 'started') throw new Error('not started');
  const verdict = { kind: 'succeeded', result: null } as const;
  await store.finishJob({ ...worker, job: started.job, verdict, nowMs: NOW_MS, expiresAtMs });
  return job.id;
}

describe('the memory store', () => {
  it('shows a job in its line only once the index has caught up', async () => {
    const { store, time } = aStore({ indexLagMs: 1_000 });
    const job = aJob();
    await store.createJobs([job]);
    expect((await store.readLine({ partition: 0, line: lineOf(job), limit: 10 })).jobs).toEqual([]);
    expect(await store.getJobs({ ids: [job.id] })).toEqual([job]);
    await time.run({ untilMs: NOW_MS + 1_000 });
    expect((await store.readLine({ partition: 0, line: lineOf(job), limit: 10 })).jobs).toEqual([job]);
  });

  it('goes on showing a claimed job as it was, and its claim fails all the same', async () => {
    const { store, time } = aStore({ indexLagMs: 1_000 });
    const job = aJob();
    await store.createJobs([job]);
    await time.run({ untilMs: NOW_MS + 1_000 });
    await store.claim([aClaimRequest(job)]);
    const stale = (await store.readLine({ partition: 0, line: lineOf(job), limit: 10 })).jobs;
    expect(stale).toEqual([job]);
    expect(await store.claim(stale.map((each) => aClaimRequest(each)))).toEqual(['lost']);
    await time.run({ untilMs: NOW_MS + 2_000 });
    expect((await store.readLine({ partition: 0, line: lineOf(job), limit: 10 })).jobs).toEqual([]);
  });

  it('delivers stream records late, and twice, and loses them', async () => {
    const seen = async (imitate: StoreImitation): Promise<number> => {
      const { store, time } = aStore(imitate);
      let count = 0;
      store.subscribe(() => {
        count += 1;
      });
      await store.createJobs([aJob()]);
      expect(count).toBe(0);
      await time.run();
      return count;
    };
    expect(await seen({ streamLateMs: 5_000 })).toBe(1);
    expect(await seen({ streamDuplicated: 1 })).toBe(2);
    expect(await seen({ streamLost: 1 })).toBe(0);
  });

  it('delivers stream records out of order when they are late', async () => {
    const { store, time } = aStore({ streamLateMs: 5_000 });
    const ids: string[] = [];
    store.subscribe(({ newJob }) => ids.push(newJob.id));
    const jobs = Array.from({ length: 20 }, () => aJob());
    await store.createJobs(jobs);
    await time.run();
    expect([...ids].sort()).toEqual(jobs.map((job) => job.id).sort());
    expect(ids).not.toEqual(jobs.map((job) => job.id));
  });

  it('says what was before and what is, in its stream', async () => {
    const { store, time } = aStore({});
    const records: unknown[] = [];
    const stop = store.subscribe((record) => records.push(record));
    const job = aJob();
    await store.createJobs([job]);
    await store.raiseVersion({ jobId: job.id, version: 1 });
    await time.run();
    expect(records).toEqual([
      { oldJob: undefined, newJob: job },
      { oldJob: job, newJob: { ...job, version: 2 } },
    ]);
    stop();
    await store.raiseVersion({ jobId: job.id, version: 2 });
    await time.run();
    expect(records).toHaveLength(2);
  });

  it('takes an expired job for gone at once, however late it is collected', async () => {
    const { store, time } = aStore({ ttlLateMs: 2 * 86_400_000 });
    const id = await succeed(store, NOW_MS + 1_000);
    await time.run({ untilMs: NOW_MS + 999 });
    expect((await store.getJobs({ ids: [id] }))[0]?.state).toBe('succeeded');
    await time.run({ untilMs: NOW_MS + 1_000 });
    expect(await store.getJobs({ ids: [id] })).toEqual([undefined]);
    expect((await store.createJobs([aJob({ id })]))[0]?.kind).toBe('created');
  });

  it('throttles: nothing is changed', async () => {
    const { store } = aStore({ throttled: 1 });
    const job = aJob();
    await expect(store.createJobs([job])).rejects.toMatchObject({ name: 'ThrottledError' });
    await expect(store.getJobs({ ids: [job.id] })).rejects.toMatchObject({ name: 'ThrottledError' });
    expect(await store.claim([aClaimRequest(job)])).toEqual(['unknown']);
    expect(store.inspectJob(job.id)).toBeUndefined();
  });

  it('applies a write and loses the answer', async () => {
    const { store } = aStore({ unanswered: 1 });
    const job = aJob();
    await expect(store.createJobs([job])).rejects.toMatchObject({ name: 'UnavailableError' });
    expect(store.inspectJob(job.id)).toEqual(job);
    expect(await store.claim([aClaimRequest(job)])).toEqual(['unknown']);
    expect(store.inspectJob(job.id)?.state).toBe('claimed');
  });

  it('lets a transaction meet another one: nothing is changed', async () => {
    const { store } = aStore({ transactionConflict: 1 });
    const ledgers = [{ fairnessKey: 'a', settledCostMs: 1, lastSeenMs: NOW_MS }];
    // A loan has items of its own, which are written with the page.
    const lend = [{ loanId: '0-1-0-0', from: 0, to: 1, units: 1, scopes: [], expiresAtMs: NOW_MS + 1 }];
    await expect(store.commit({ partition: 0, commit: aCommit({ ledgers, lend }) })).rejects.toMatchObject({
      name: 'ThrottledError',
    });
    expect(await store.getLedgers({ partition: 0, fairnessKeys: ['a'] })).toEqual([undefined]);
  });
});
