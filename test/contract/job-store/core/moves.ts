/** Jobs that are cancelled, or moved to another time. */
import { beforeAll, describe, expect, it } from 'vitest';
import { movedEntry, priorityEntry } from '../../../../lib/core/history.ts';
import type { Job } from '../../../../lib/core/job.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { WorkerIdentity } from '../../../../lib/store/contract/records.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { lineOf } from '../../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import {
  CONCURRENT_MS,
  EXPIRES_AT_MS,
  FAILURE,
  retryAt,
  SHOWN,
  type StoreSuite,
  SUCCESS,
  times,
} from '../suite.ts';

export function movesContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition, created, stored, claimedJob, runningJob, finish, untilLine, untilDue } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('cancelling', () => {
    const cancel = (id: string) =>
      store.cancelJob({ jobId: id, nowMs: NOW_MS + 7, expiresAtMs: EXPIRES_AT_MS });

    it.each([
      ['scheduled', async (partition: number) => created(aScheduledJob(NOW_MS + 1, { partition }))],
      ['pending', async (partition: number) => created(aJob({ partition }))],
      ['claimed', async (partition: number) => (await claimedJob(aJob({ partition }))).job],
    ])('ends a %s job at once', async (_, make) => {
      const partition = freshPartition();
      const job = await make(partition);
      const expected = {
        ...job,
        state: 'cancelled',
        version: job.version + 1,
        finishedAtMs: NOW_MS + 7,
        cancelRequestedAtMs: NOW_MS + 7,
        cancelRequestedIn: job.state,
      };
      expect(await cancel(job.id)).toEqual({ kind: 'cancelled', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilLine(partition, lineOf(job), []);
      await untilDue(partition, EXPIRES_AT_MS, []);
    });

    it('makes the message of a claimed job count for nothing', async () => {
      const { job, claimId } = await claimedJob();
      await cancel(job.id);
      const start = { ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS };
      expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
      expect((await stored(job.id)).state).toBe('cancelled');
    });

    it('asks the worker of a running job, which decides', async () => {
      const { job, worker } = await runningJob();
      expect(await cancel(job.id)).toMatchObject({
        kind: 'requested',
        job: { state: 'running', cancelRequestedAtMs: NOW_MS + 7 },
      });
      expect(
        await store.cancelJob({ jobId: job.id, nowMs: NOW_MS + 8, expiresAtMs: EXPIRES_AT_MS }),
      ).toMatchObject({ kind: 'requested' });
      expect(await finish(job, worker, { kind: 'cancelled' })).toMatchObject({
        kind: 'finished',
        job: { state: 'cancelled', finishedAtMs: NOW_MS + 9 },
      });
    });

    it.each([
      ['its worker asks', (job: Job, worker: WorkerIdentity) => finish(job, worker, retryAt(NOW_MS)), 0],
      [
        'its worker is gone',
        (job: Job) =>
          store.endUnfinished({
            job,
            verdict: retryAt(NOW_MS),
            nowMs: NOW_MS + 9,
            expiresAtMs: EXPIRES_AT_MS,
          }),
        1,
      ],
    ] as const)('leaves no other attempt: %s for one, and that is the end', async (_, retry, workersLost) => {
      const partition = freshPartition();
      const { job, worker } = await runningJob(aJob({ partition }));
      await cancel(job.id);
      const expected = {
        ...job,
        state: 'cancelled',
        version: 4,
        workersLost,
        cancelRequestedAtMs: NOW_MS + 7,
        cancelRequestedIn: 'running',
        finishedAtMs: NOW_MS + 9,
        history: expect.objectContaining({ lastClaimId: job.claim?.claimId }),
        error: { name: 'Flaky', message: 'try again' },
      };
      expect(await retry(job, worker)).toEqual({ kind: 'finished', job: expected });
      expect(await retry(job, worker)).toEqual({ kind: 'finished', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilDue(partition, EXPIRES_AT_MS, []);
    });

    it('gives nobody else the right to end it', async () => {
      const { job, worker } = await runningJob();
      await cancel(job.id);
      const asked = await stored(job.id);
      for (const verdict of [SUCCESS, FAILURE, retryAt(NOW_MS), { kind: 'cancelled' } as const]) {
        expect(await finish(job, { ...worker, incarnation: 'second' }, verdict)).toEqual({
          kind: 'superseded',
        });
      }
      expect(await stored(job.id)).toEqual(asked);
    });

    it('still says what the last attempt used of a job that waits for its next one', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, retryAt(NOW_MS + 4_000));
      const outcome = await store.cancelJob({
        jobId: job.id,
        nowMs: NOW_MS + 3_000,
        expiresAtMs: EXPIRES_AT_MS,
      });
      const expected = { claim: job.claim, startedAtMs: job.startedAtMs, finishedAtMs: NOW_MS + 9 };
      expect(outcome).toMatchObject({ kind: 'cancelled', job: expected });
    });

    it('and finishing meet: one outcome, which both know', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 6; round += 1) {
        const { job, worker } = await runningJob();
        const verdict = [SUCCESS, FAILURE, retryAt(NOW_MS + 4_000)][round % 3] ?? SUCCESS;
        const [asked, finished] = await Promise.all([cancel(job.id), finish(job, worker, verdict)]);
        const now = await stored(job.id);
        expect(finished.kind).toBe('finished');
        if (verdict.kind === 'retry') expect(now.state).toBe('cancelled');
        else
          expect([now.state, ['ended', 'requested']]).toEqual([
            verdict.kind,
            expect.arrayContaining([asked.kind]),
          ]);
      }
    });

    it('lets a job that succeeds all the same succeed', async () => {
      const { job, worker } = await runningJob();
      await cancel(job.id);
      expect(await finish(job, worker, SUCCESS)).toMatchObject({
        kind: 'finished',
        job: { state: 'succeeded' },
      });
    });

    it('changes nothing after the end, and finds nothing where there is none', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, SUCCESS);
      const done = await stored(job.id);
      expect(await cancel(job.id)).toEqual({ kind: 'ended', job: done });
      expect(await stored(job.id)).toEqual(done);
      expect(await cancel('unheard-of')).toEqual({ kind: 'missing' });
      expect(await store.getJobs({ ids: ['unheard-of'] })).toEqual([undefined]);
    });

    it('and claiming exclude each other, or the claim is taken back', {
      timeout: CONCURRENT_MS,
    }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const job = await created(aJob());
        const [outcome] = await Promise.all([cancel(job.id), store.claim([aClaimRequest(job)])]);
        expect(outcome.kind).toBe('cancelled');
        expect((await stored(job.id)).state).toBe('cancelled');
      }
    });

    it('and starting exclude each other', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const { job, claimId } = await claimedJob();
        const [outcome, start] = await Promise.all([
          cancel(job.id),
          store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS }),
        ]);
        expect(start.kind).toBe(outcome.kind === 'cancelled' ? 'superseded' : 'started');
      }
    });
  });

  describe('moving to another time', () => {
    const LATER_MS = NOW_MS + 60_000;
    const retime = (job: Job, runAtMs: number) => store.retimeJob({ job, runAtMs, nowMs: NOW_MS });
    const retried = async (): Promise<Job> => {
      const { job, worker } = await runningJob();
      await finish(job, worker, retryAt(NOW_MS + 4_000));
      return stored(job.id);
    };

    it.each([
      ['scheduled', (partition: number) => aScheduledJob(NOW_MS + 5, { partition })],
      ['pending', (partition: number) => aJob({ partition, readyAtMs: NOW_MS - 9 })],
    ])('makes a %s job wait for a time to come, in the due line', async (_, make) => {
      const partition = freshPartition();
      const job = await created(make(partition));
      const expected = {
        ...job,
        state: 'scheduled',
        version: 2,
        runAtMs: LATER_MS,
        readyAtMs: LATER_MS,
        ...(job.state === 'pending' ? { firstReadyAtMs: job.readyAtMs } : {}),
        history: expect.objectContaining({ entries: [movedEntry(NOW_MS, job.runAtMs, LATER_MS)] }),
      };
      expect(await retime(job, LATER_MS)).toEqual({ kind: 'moved', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilLine(partition, lineOf(job), []);
      await untilDue(partition, LATER_MS - 1, []);
      await untilDue(partition, LATER_MS, [job.id]);
    });

    it('makes a scheduled job ready when its new time is past, behind those that were ready before', async () => {
      const partition = freshPartition();
      const before = await created(aJob({ partition, readyAtMs: NOW_MS - 1 }));
      const job = await created(aScheduledJob(LATER_MS, { partition }));
      const after = await created(aJob({ partition, readyAtMs: NOW_MS + 1 }));
      const history = expect.objectContaining({ entries: [movedEntry(NOW_MS, LATER_MS, 0)] });
      const expected = { ...job, state: 'pending', version: 2, runAtMs: 0, readyAtMs: NOW_MS, history };
      expect(await retime(job, 0)).toEqual({ kind: 'moved', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilLine(partition, lineOf(job), [before.id, job.id, after.id]);
      await untilDue(partition, LATER_MS, []);
    });

    it('remembers when a job that failed and was moved became ready first, also in its lines', async () => {
      const partition = freshPartition();
      const { job, worker } = await runningJob(aJob({ partition, readyAtMs: NOW_MS - 9 }));
      await finish(job, worker, retryAt(NOW_MS + 20));
      const again = await stored(job.id);
      expect(again).toMatchObject({ readyAtMs: NOW_MS + 20, firstReadyAtMs: NOW_MS - 9 });
      expect((await retime(again, LATER_MS)).kind).toBe('moved');
      await untilDue(partition, LATER_MS, [job.id]);
      const standsDue = { readyAtMs: LATER_MS, firstReadyAtMs: NOW_MS - 9 };
      await expect
        .poll(async () => (await store.readDue({ partition, nowMs: LATER_MS, limit: 10 })).jobs, SHOWN)
        .toMatchObject([standsDue]);
      expect(
        (await store.retimeJob({ job: await stored(job.id), runAtMs: 0, nowMs: NOW_MS + 30 })).kind,
      ).toBe('moved');
      const now = { state: 'pending', readyAtMs: NOW_MS + 30, firstReadyAtMs: NOW_MS - 9 };
      expect(await stored(job.id)).toMatchObject(now);
      await untilLine(partition, lineOf(job), [job.id]);
      await expect
        .poll(async () => (await store.readLine({ partition, line: lineOf(job), limit: 10 })).jobs, SHOWN)
        .toMatchObject([now]);
    });

    it('gives a ready job another priority, with which a promotion gives it its new place', async () => {
      const partition = freshPartition();
      const first = await created(aJob({ partition, readyAtMs: NOW_MS - 2 }));
      const second = await created(aJob({ partition, readyAtMs: NOW_MS - 1 }));
      const history = expect.objectContaining({ entries: [priorityEntry(NOW_MS, 0, 7, 'ann')] });
      const waits = { ...second, state: 'scheduled', version: 2, priority: 7, history };
      const { runAtMs } = second;
      expect(await store.retimeJob({ job: second, runAtMs, priority: 7, nowMs: NOW_MS, by: 'ann' })).toEqual({
        kind: 'moved',
        job: waits,
      });
      expect(await stored(second.id)).toEqual(waits);
      await untilLine(partition, lineOf(second), [first.id]);
      await untilDue(partition, NOW_MS, [second.id]);
      expect(await store.claim([aClaimRequest(second)])).toEqual(['lost']);
      const ready = { ...waits, state: 'pending', version: 3 };
      expect(await store.promote({ jobs: [await stored(second.id)], nowMs: NOW_MS })).toMatchObject([ready]);
      await untilLine(partition, lineOf(second), [second.id, first.id]);
    });

    it('gives a scheduled job another priority at its time', async () => {
      const partition = freshPartition();
      const job = await created(aScheduledJob(LATER_MS, { partition, priority: 3 }));
      const history = expect.objectContaining({ entries: [priorityEntry(NOW_MS, 3, 1)] });
      const expected = { ...job, version: 2, priority: 1, history };
      const changed = { job, runAtMs: LATER_MS, priority: 1, nowMs: NOW_MS };
      expect(await store.retimeJob(changed)).toEqual({ kind: 'moved', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilDue(partition, LATER_MS, [job.id]);
      expect(await store.retimeJob({ ...changed, priority: 2 })).toMatchObject({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(expected);
    });

    it('gives a job another time and priority at once', async () => {
      const job = await created(aJob());
      await store.retimeJob({ job, runAtMs: LATER_MS, priority: 7, nowMs: NOW_MS });
      expect(await stored(job.id)).toMatchObject({
        state: 'scheduled',
        runAtMs: LATER_MS,
        priority: 7,
        history: { entries: [{ kind: 'moved' }, { kind: 'priority' }] },
      });
    });

    it('gives no job that a worker has another priority', async () => {
      const { job } = await runningJob();
      const { runAtMs } = job;
      expect(await store.retimeJob({ job, runAtMs, priority: 7, nowMs: NOW_MS })).toEqual({
        kind: 'tooLate',
        job,
      });
    });

    it('leaves a job that is ready, and stays so, where it stands', async () => {
      const partition = freshPartition();
      const job = await created(aJob({ partition, readyAtMs: NOW_MS - 9 }));
      const history = expect.objectContaining({ entries: [movedEntry(NOW_MS, NOW_MS, NOW_MS - 1)] });
      const expected = { ...job, version: 2, runAtMs: NOW_MS - 1, history };
      expect(await retime(job, NOW_MS - 1)).toEqual({ kind: 'moved', job: expected });
      expect(await stored(job.id)).toEqual(expected);
      await untilLine(partition, lineOf(job), [job.id]);
    });

    it('moves a job that waits for its next attempt, and still says what the last one used', async () => {
      for (const runAtMs of [NOW_MS, LATER_MS]) {
        const job = await retried();
        const outcome = await retime(job, runAtMs);
        const { claim, worker, startedAtMs, finishedAtMs, error, attempt } = job;
        expect(outcome).toMatchObject({
          kind: 'moved',
          job: { runAtMs, claim, worker, startedAtMs, finishedAtMs, error, attempt },
        });
        expect(finishedAtMs).toBe(NOW_MS + 9);
      }
    });

    it('makes what was planned with the older time fail: a promotion, a claim, a raised version', async () => {
      const due = await created(aScheduledJob(NOW_MS));
      const later = await retime(due, LATER_MS);
      expect(await store.promote({ jobs: [due], nowMs: NOW_MS })).toEqual([undefined]);
      expect(await stored(due.id)).toEqual(later.kind === 'moved' ? later.job : undefined);
      const ready = await created(aJob());
      // Away and back: it is pending again, and not as it was.
      await retime(ready, LATER_MS);
      await retime(await stored(ready.id), NOW_MS);
      expect(await store.claim([aClaimRequest(ready)])).toEqual(['lost']);
      expect(await store.raiseVersion({ jobId: ready.id, version: 1 })).toBe('lost');
      expect(await store.claim([aClaimRequest(await stored(ready.id))])).toEqual(['claimed']);
    });

    it('is refused at another version of a job that waits, and changes nothing', async () => {
      const job = await created(aScheduledJob(NOW_MS));
      const [promoted] = await store.promote({ jobs: [job], nowMs: NOW_MS });
      expect(await retime(job, LATER_MS)).toEqual({ kind: 'superseded', job: promoted });
      expect(await stored(job.id)).toEqual(promoted);
    });

    it('counts once, however often the same request comes', async () => {
      const job = await created(aJob());
      const moved = await retime(job, LATER_MS);
      const now = await stored(job.id);
      expect(moved).toEqual({ kind: 'moved', job: now });
      expect(await retime(job, LATER_MS + 5)).toEqual({ kind: 'superseded', job: now });
      expect(await stored(job.id)).toEqual(now);
    });

    it.each([
      ['claimed', async () => (await claimedJob()).job],
      ['running', async () => (await runningJob()).job],
      [
        'succeeded',
        async () => {
          const { job, worker } = await runningJob();
          await finish(job, worker, SUCCESS);
          return stored(job.id);
        },
      ],
      [
        'cancelled',
        async () => {
          const job = await created(aJob());
          await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
          return stored(job.id);
        },
      ],
    ])('comes too late for a %s job, and changes nothing, whatever was seen of it', async (_, make) => {
      const job = await make();
      for (const seen of [job, { ...job, state: 'pending' as const }, aJob({ id: job.id })]) {
        for (const runAtMs of [NOW_MS, LATER_MS])
          expect(await retime(seen, runAtMs)).toEqual({ kind: 'tooLate', job });
      }
      expect(await stored(job.id)).toEqual(job);
    });

    it('finds nothing where there is none', async () => {
      const job = aJob();
      expect(await retime(job, LATER_MS)).toEqual({ kind: 'missing' });
      expect(await retime({ ...job, state: 'running' }, LATER_MS)).toEqual({ kind: 'missing' });
      expect(await store.getJobs({ ids: [job.id] })).toEqual([undefined]);
    });

    const RACES = 5;
    it.each([
      [
        'promoting',
        () => aScheduledJob(NOW_MS),
        async (job: Job) => (await store.promote({ jobs: [job], nowMs: NOW_MS }))[0] !== undefined,
      ],
      [
        'claiming',
        () => aJob(),
        async (job: Job) => (await store.claim([aClaimRequest(job)]))[0] === 'claimed',
      ],
      ['another move', () => aJob(), async (job: Job) => (await retime(job, LATER_MS + 1)).kind === 'moved'],
      [
        'raising the version',
        () => aJob(),
        async (job: Job) => (await store.raiseVersion({ jobId: job.id, version: 1 })) === 'raised',
      ],
    ])('and %s exclude each other', { timeout: CONCURRENT_MS }, async (_, make, other) => {
      for (let round = 0; round < RACES; round += 1) {
        const job = await created(make());
        // Whoever is asked first has an advantage: turn and turn about.
        const asked = [() => retime(job, LATER_MS).then(({ kind }) => kind === 'moved'), () => other(job)];
        const racing = round % 2 === 0 ? asked : asked.toReversed();
        const won = await Promise.all(racing.map((ask) => ask()));
        const [moved, did] = round % 2 === 0 ? won : won.toReversed();
        expect([moved, did].filter(Boolean)).toHaveLength(1);
        const now = await stored(job.id);
        expect(now.version).toBe(2);
        expect(now.runAtMs === LATER_MS).toBe(moved);
      }
    });

    it('and cancelling meet: a job that was moved is cancelled at its new time, or was never moved', {
      timeout: CONCURRENT_MS,
    }, async () => {
      for (let round = 0; round < RACES; round += 1) {
        const job = await created(aJob());
        const [moved, cancelled] = await Promise.all([
          retime(job, LATER_MS),
          store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
        ]);
        expect(cancelled.kind).toBe('cancelled');
        const isMoved = moved.kind === 'moved';
        expect(await stored(job.id)).toMatchObject({
          state: 'cancelled',
          version: isMoved ? 3 : 2,
          runAtMs: isMoved ? LATER_MS : NOW_MS,
        });
      }
    });

    it('is won by one of eight who ask at once', { timeout: CONCURRENT_MS }, async () => {
      const job = await created(aScheduledJob(NOW_MS + 5));
      const outcomes = await Promise.all(times(8, (at) => retime(job, LATER_MS + at)));
      const winner = outcomes.findIndex(({ kind }) => kind === 'moved');
      expect(outcomes.filter(({ kind }) => kind === 'moved')).toHaveLength(1);
      expect(await stored(job.id)).toMatchObject({ version: 2, runAtMs: LATER_MS + winner });
    });
  });
}
