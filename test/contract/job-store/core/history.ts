/** What a store keeps of a job's history: part of the conformance suite of the job store. */
import { describe, expect, it } from 'vitest';
import { HISTORY_ENTRIES_MAX, historyOf, type JobEvent } from '../../../../lib/core/history.ts';
import type { Job } from '../../../../lib/core/job.ts';
import type { Verdict } from '../../../../lib/core/life-cycle.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { WorkerIdentity } from '../../../../lib/store/contract/records.ts';
import { attemptsIn } from '../../../fixtures/attempts-in.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import { FULL_WORKER, largestHistory, largestJob, NAME } from '../../../fixtures/largest.ts';

const EXPIRES_AT_MS = NOW_MS + 7 * 24 * 3_600_000;
const FLAKY = { name: 'Flaky', message: 'try again', stack: 'at work (worker.ts:1:1)\ncause: Error: no' };
const LOST = { name: 'WorkerLost', message: 'it is gone' };
const FAILURE: Verdict = { kind: 'failed', error: FLAKY };
const again = (runAtMs: number): Verdict => ({ kind: 'retry', error: FLAKY, runAtMs });
const anew = (runAtMs: number): Verdict => ({ kind: 'retry', error: LOST, runAtMs, isFromStart: true });

export function jobHistoryContract(storeOf: () => CoreStore): void {
  const stored = async (id: string): Promise<Job> => {
    const [job] = await storeOf().getJobs({ ids: [id] });
    if (job === undefined) throw new Error(`no job ${id}`);
    return job;
  };
  const eventsOf = async (id: string): Promise<readonly JobEvent[]> => historyOf(await stored(id)).events;
  const created = async (job: Job): Promise<Job> => {
    await storeOf().createJobs([job]);
    return job;
  };
  /** A job that waits, at its n-th start. */
  const start = async (
    id: string,
    worker: WorkerIdentity = aWorker(),
    fleet = 'images',
    nowMs = NOW_MS + 5,
  ): Promise<{ readonly job: Job; readonly worker: WorkerIdentity }> => {
    const store = storeOf();
    const waiting = await stored(id);
    if (waiting.state === 'scheduled') await store.promote({ jobs: [waiting], nowMs: waiting.runAtMs });
    const request = aClaimRequest(await stored(id), { fleet });
    expect(await store.claim([request])).toEqual(['claimed']);
    const outcome = await store.startJob({ ...worker, jobId: id, claimId: request.claimId, nowMs });
    if (outcome.kind !== 'started') throw new Error('not started');
    return { job: outcome.job, worker };
  };
  const finish = (job: Job, worker: WorkerIdentity, verdict: Verdict, nowMs = NOW_MS + 9) =>
    storeOf().finishJob({ ...worker, job, verdict, nowMs, expiresAtMs: EXPIRES_AT_MS });
  const lose = (job: Job, verdict: Verdict, nowMs = NOW_MS + 30) =>
    storeOf().endUnfinished({ job, verdict, nowMs, expiresAtMs: EXPIRES_AT_MS });

  describe('the history of a job', () => {
    it('is not written for one that runs once, and tells of it', async () => {
      const { id } = await created(aJob());
      const { job, worker } = await start(id);
      await finish(job, worker, { kind: 'succeeded', result: 1 });
      expect(await stored(id)).not.toHaveProperty('history');
      expect(await eventsOf(id)).toEqual([
        { kind: 'submitted', atMs: NOW_MS },
        {
          kind: 'attempt',
          attempt: 1,
          claimId: job.claim?.claimId,
          fleet: 'images',
          claimedAtMs: NOW_MS,
          workerId: worker.workerId,
          startedAtMs: NOW_MS + 5,
          endedAtMs: NOW_MS + 9,
          outcome: 'succeeded',
        },
      ]);
    });

    it('keeps each attempt that another one follows, with its worker, its error and its times', async () => {
      const { id } = await created(aJob());
      const first = await start(id);
      await finish(first.job, first.worker, again(NOW_MS + 20));
      const second = await start(id);
      await lose(second.job, anew(NOW_MS + 30));
      const third = await start(id);
      await finish(third.job, third.worker, FAILURE, NOW_MS + 90);
      const attempt = { kind: 'attempt', fleet: 'images', startedAtMs: NOW_MS + 5 };
      expect(await eventsOf(id)).toMatchObject([
        { kind: 'submitted' },
        {
          ...attempt,
          attempt: 1,
          claimId: first.job.claim?.claimId,
          workerId: first.worker.workerId,
          endedAtMs: NOW_MS + 9,
          outcome: 'failed',
          error: FLAKY,
          next: { runAtMs: NOW_MS + 20, isFromStart: false },
        },
        {
          ...attempt,
          attempt: 2,
          workerId: second.worker.workerId,
          endedAtMs: NOW_MS + 30,
          outcome: 'lost',
          error: LOST,
          next: { runAtMs: NOW_MS + 30, isFromStart: true },
        },
        {
          ...attempt,
          attempt: 2,
          workerId: third.worker.workerId,
          endedAtMs: NOW_MS + 90,
          outcome: 'failed',
        },
      ]);
      expect(attemptsIn(historyOf(await stored(id)))).toEqual({ attempts: 3, losses: 1 });
    });

    it('tells of a loss that ends the job, and of one of a job whose end was asked for, without another attempt', async () => {
      const [failed, unwanted] = [await created(aJob()), await created(aJob())];
      await lose((await start(failed.id)).job, { kind: 'failed', error: LOST });
      const { job } = await start(unwanted.id);
      await storeOf().cancelJob({
        jobId: unwanted.id,
        nowMs: NOW_MS + 20,
        expiresAtMs: EXPIRES_AT_MS,
        by: 'ann',
      });
      await lose(job, anew(NOW_MS + 30));
      for (const { id } of [failed, unwanted]) {
        const [, lost] = await eventsOf(id);
        expect(lost).toMatchObject({ kind: 'attempt', outcome: 'lost', error: LOST });
        expect(lost).not.toHaveProperty('next');
        expect(attemptsIn(historyOf(await stored(id)))).toEqual({ attempts: 1, losses: 1 });
      }
      expect((await eventsOf(unwanted.id)).at(-1)).toEqual({
        kind: 'cancelled',
        atMs: NOW_MS + 20,
        by: 'ann',
        from: 'running',
      });
    });

    it('has each end of an attempt once, however often and by whomever it is reported', async () => {
      const { id } = await created(aJob());
      const { job, worker } = await start(id);
      await Promise.all([
        finish(job, worker, again(NOW_MS + 20)),
        finish(job, worker, again(NOW_MS + 20)),
        lose(job, anew(NOW_MS + 30)),
      ]);
      await finish(job, worker, again(NOW_MS + 20));
      await lose(job, anew(NOW_MS + 40));
      const present = await stored(id);
      expect(attemptsIn(historyOf(present))).toEqual({ attempts: 1, losses: present.workersLost });
    });

    it.each([
      ['scheduled', (): Job => aScheduledJob(NOW_MS + 500)],
      ['pending', (): Job => aJob()],
    ])('tells who moved a %s job, and from when to when', async (_, make) => {
      const job = await created(make());
      await storeOf().retimeJob({ job, runAtMs: NOW_MS + 900, nowMs: NOW_MS + 1, by: 'ann' });
      await storeOf().retimeJob({ job: await stored(job.id), runAtMs: 0, nowMs: NOW_MS + 2 });
      expect((await eventsOf(job.id)).slice(1)).toEqual([
        { kind: 'moved', atMs: NOW_MS + 1, by: 'ann', fromMs: job.runAtMs, toMs: NOW_MS + 900 },
        { kind: 'moved', atMs: NOW_MS + 2, fromMs: NOW_MS + 900, toMs: 0 },
      ]);
    });

    it('has no move that changed nothing, none that came too late, and none twice', async () => {
      const job = await created(aScheduledJob(NOW_MS + 500));
      const move = (seen: Job, toMs: number) =>
        storeOf().retimeJob({ job: seen, runAtMs: toMs, nowMs: NOW_MS + 1, by: 'ann' });
      expect((await move(job, NOW_MS + 500)).kind).toBe('moved');
      expect((await move(job, NOW_MS + 900)).kind).toBe('superseded');
      expect(await eventsOf(job.id)).toHaveLength(1);
      const seen = await stored(job.id);
      const outcomes = await Promise.all([move(seen, NOW_MS + 900), move(seen, NOW_MS + 900)]);
      expect(outcomes.map(({ kind }) => kind)).toContain('moved');
      await move(await stored(job.id), NOW_MS + 900);
      expect(await eventsOf(job.id)).toHaveLength(2);
    });

    it.each([
      ['scheduled', async () => (await created(aScheduledJob(NOW_MS + 500))).id],
      ['pending', async () => (await created(aJob())).id],
      ['running', async () => (await start((await created(aJob())).id)).job.id],
    ])('tells who was the first to ask for the end of a %s job, and when', async (from, make) => {
      const id = await make();
      await storeOf().cancelJob({ jobId: id, nowMs: NOW_MS + 20, expiresAtMs: EXPIRES_AT_MS, by: 'ann' });
      await storeOf().cancelJob({ jobId: id, nowMs: NOW_MS + 21, expiresAtMs: EXPIRES_AT_MS, by: 'bob' });
      await storeOf().cancelJob({ jobId: id, nowMs: NOW_MS + 22, expiresAtMs: EXPIRES_AT_MS });
      expect((await eventsOf(id)).filter(({ kind }) => kind === 'cancelled')).toEqual([
        { kind: 'cancelled', atMs: NOW_MS + 20, by: 'ann', from },
      ]);
    });

    it('leaves out who, where nobody said', async () => {
      const { id } = await created(aJob());
      await storeOf().cancelJob({ jobId: id, nowMs: NOW_MS + 20, expiresAtMs: EXPIRES_AT_MS });
      expect((await eventsOf(id)).at(-1)).toEqual({ kind: 'cancelled', atMs: NOW_MS + 20, from: 'pending' });
    });

    it('tells of a place that was reserved and not claimed, if the job was read at that very version', async () => {
      const job = await created(aJob());
      const given = { job, claimId: '3-1.0', atMs: NOW_MS + 60 };
      expect(await storeOf().raiseVersion({ jobId: job.id, version: 1, given })).toBe('raised');
      expect(await storeOf().raiseVersion({ jobId: job.id, version: 1, given })).toBe('lost');
      expect((await eventsOf(job.id)).slice(1)).toEqual([
        { kind: 'notClaimed', atMs: NOW_MS + 60, claimId: '3-1.0' },
      ]);
    });

    it('keeps what happened before, whatever is noted on the job', async () => {
      const { id } = await created(aJob());
      const first = await start(id);
      await finish(first.job, first.worker, again(NOW_MS + 20));
      const second = await start(id);
      await storeOf().saveCheckpoint({ job: second.job, worker: second.worker, checkpoint: { page: 1 } });
      await storeOf().saveProgress({ job: second.job, worker: second.worker, progress: 0.5 });
      await storeOf().cancelJob({ jobId: id, nowMs: NOW_MS + 20, expiresAtMs: EXPIRES_AT_MS, by: 'ann' });
      await finish(second.job, second.worker, { kind: 'cancelled' });
      expect((await eventsOf(id)).map((event) => ('outcome' in event ? event.outcome : event.kind))).toEqual([
        'submitted',
        'failed',
        'cancelled',
        'cancelled',
      ]);
    });

    it('forgets the oldest entries beyond its bounds, with the longest names, and counts them', async () => {
      const job = largestJob({ state: 'pending', version: 1, attempt: 1, workersLost: 0, ...NOT_RUN });
      await created({ ...job, history: largestHistory() });
      const { dropped } = largestHistory();
      const before = attemptsIn(historyOf(await stored(job.id)));
      const message = '日'.repeat(2_048);
      for (const at of [1, 2, 3]) {
        const { job: running } = await start(job.id, FULL_WORKER, NAME);
        await lose(running, { kind: 'retry', error: { name: NAME, message }, runAtMs: NOW_MS + at });
      }
      const present = await stored(job.id);
      expect(attemptsIn(historyOf(present))).toEqual({
        attempts: before.attempts + 3,
        losses: before.losses + 3,
      });
      expect(present.history?.entries.length).toBeLessThanOrEqual(HISTORY_ENTRIES_MAX);
      expect(present.history?.dropped.attempts).toBeGreaterThan(dropped.attempts);
    });
  });
}

/** Of the largest job, what one that waits for its first attempt does not have. */
const NOT_RUN = {
  claim: undefined,
  worker: undefined,
  startedAtMs: undefined,
  finishedAtMs: undefined,
  cancelRequestedAtMs: undefined,
  cancelRequestedBy: undefined,
  cancelRequestedIn: undefined,
  redrivenAs: undefined,
  redrivenAtMs: undefined,
  redrivenBy: undefined,
} as const;
