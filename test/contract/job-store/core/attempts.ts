/** An attempt, from its start to its end, and what it leaves to the next one. */
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../../../lib/core/job.ts';
import { PLANNED_FOR_MS, type Unfinished, type Verdict } from '../../../../lib/core/life-cycle.ts';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { lineOf } from '../../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import type { JobStoreHarness } from '../../harness.ts';
import { CONCURRENT_MS, EXPIRES_AT_MS, FAILURE, retryAt, type StoreSuite, SUCCESS, times } from '../suite.ts';

export function attemptsContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition, created, stored, claimedJob, runningJob, endedJob, finish, untilLine, untilDue } =
    suite;
  let store: CoreStore;
  let harness: JobStoreHarness<CoreStore>;
  beforeAll(() => {
    harness = suite.opened();
    store = harness.store;
  });

  describe('starting', () => {
    it('answers the job with its payload, running for this worker', async () => {
      const { job, claimId } = await claimedJob(aJob({ payload: { path: 'a/b.png' } }));
      const worker = aWorker();
      const outcome = await store.startJob({ ...worker, jobId: job.id, claimId, nowMs: NOW_MS + 5 });
      const running = { ...job, state: 'running', version: 3, worker, startedAtMs: NOW_MS + 5 };
      expect(outcome).toEqual({ kind: 'started', job: running });
      expect(await stored(job.id)).toEqual(running);
    });

    it('keeps until when the attempt may run, as the first start said, and forgets it with the next claim', async () => {
      const { job, claimId } = await claimedJob();
      const worker = aWorker();
      const start = { ...worker, jobId: job.id, claimId, nowMs: NOW_MS + 5 };
      const runUntilMs = NOW_MS + 60_000;
      const running = { ...job, state: 'running', version: 3, worker, startedAtMs: NOW_MS + 5, runUntilMs };
      expect(await store.startJob({ ...start, runUntilMs })).toEqual({ kind: 'started', job: running });
      const again = await store.startJob({ ...start, runUntilMs: runUntilMs + 5_000 });
      expect(again).toEqual({ kind: 'started', job: running });
      expect(await stored(job.id)).toEqual(running);
      await finish(await stored(job.id), worker, retryAt(NOW_MS));
      expect(await stored(job.id)).toMatchObject({ state: 'scheduled', runUntilMs });
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      // Alone, and together with another.
      const other = await created(aJob());
      const requests = [aClaimRequest(pending), aClaimRequest(other)];
      expect(await store.claim(requests)).toEqual(['claimed', 'claimed']);
      expect(await stored(job.id)).not.toHaveProperty('runUntilMs');
    });

    it('answers started again to the same life of the same worker, and changes nothing more', async () => {
      const { job, worker, claimId } = await runningJob();
      const again = await store.startJob({ ...worker, jobId: job.id, claimId, nowMs: NOW_MS + 500 });
      expect(again).toEqual({ kind: 'started', job });
      expect(await stored(job.id)).toEqual(job);
    });

    it.each([
      ['another worker', { workerId: 'someone-else' }],
      ['another life of the worker', { incarnation: 'second' }],
    ])('refuses %s once a job runs', async (_, changes) => {
      const { job, worker, claimId } = await runningJob();
      const outcome = await store.startJob({
        ...worker,
        ...changes,
        jobId: job.id,
        claimId,
        nowMs: NOW_MS,
      });
      expect(outcome).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(job);
    });

    it('refuses a claim that the job was not won by', async () => {
      const { job } = await claimedJob();
      const pending = await created(aJob());
      const worker = aWorker();
      for (const jobId of [job.id, pending.id, 'unheard-of']) {
        expect(await store.startJob({ ...worker, jobId, claimId: '9-9.9', nowMs: NOW_MS })).toEqual({
          kind: 'superseded',
        });
      }
      expect(await store.getJobs({ ids: [job.id, pending.id, 'unheard-of'] })).toEqual([
        job,
        pending,
        undefined,
      ]);
    });

    it('refuses the message of an attempt that is over, also when the job is claimed anew', async () => {
      const { job, worker, claimId } = await runningJob();
      const start = { ...worker, jobId: job.id, claimId, nowMs: NOW_MS };
      await finish(job, worker, retryAt(NOW_MS));
      expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
      if (pending !== undefined) await store.claim([aClaimRequest(pending)]);
      expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
      expect((await stored(job.id)).state).toBe('claimed');
    });

    describe('of a job that nobody has claimed', () => {
      const planned = (version: number) => ({
        version,
        fleet: 'images',
        claimedAtMs: NOW_MS - 5,
        declared: 4,
      });
      const startOf = (jobId: string, version: number, claimId = '7-3p1.2') => ({
        ...aWorker(),
        jobId,
        claimId,
        toClaim: planned(version),
        nowMs: NOW_MS + 5,
      });
      const claim = {
        claimId: '7-3p1.2',
        batchId: '7-3p1',
        fleet: 'images',
        claimedAtMs: NOW_MS - 5,
        declared: 4,
      };

      it('claims it as it was planned, and takes it out of its line', async () => {
        const partition = freshPartition();
        const job = await created(aJob({ partition, payload: { path: 'a/b.png' } }));
        await untilLine(partition, lineOf(job), [job.id]);
        const { toClaim, nowMs, ...start } = startOf(job.id, job.version);
        const { workerId, incarnation } = start;
        const running = {
          ...job,
          state: 'running',
          version: job.version + 2,
          claim,
          worker: { workerId, incarnation },
          startedAtMs: nowMs,
        };
        expect(await store.startJob({ ...start, toClaim, nowMs })).toEqual({ kind: 'started', job: running });
        expect(await stored(job.id)).toEqual(running);
        await untilLine(partition, lineOf(job), []);
        // The same life of the same worker, whose answer got lost.
        const again = await store.startJob({ ...start, toClaim, nowMs: nowMs + 500 });
        expect(again).toEqual({ kind: 'started', job: running });
        expect(await stored(job.id)).toEqual(running);
      });

      it('forgets the attempt before, as a claim does', async () => {
        const { job, worker } = await runningJob();
        await finish(job, worker, retryAt(NOW_MS));
        const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
        if (pending === undefined) throw new Error('not promoted');
        const start = startOf(job.id, pending.version);
        const { workerId, incarnation } = start;
        expect((await store.startJob({ ...start, runUntilMs: NOW_MS + 60_000 })).kind).toBe('started');
        const after = await stored(job.id);
        expect(after).toMatchObject({
          claim,
          worker: { workerId, incarnation },
          runUntilMs: NOW_MS + 60_000,
        });
        expect(after).toMatchObject({ startedAtMs: NOW_MS + 5, version: pending.version + 2 });
        expect(after).not.toHaveProperty('finishedAtMs');
        await finish(after, { workerId, incarnation }, retryAt(NOW_MS));
        const [last] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
        // A process says with its record how long it may run.
        await store.startJob(startOf(job.id, last?.version ?? 0, '8-1p1.0'));
        expect(await stored(job.id)).not.toHaveProperty('runUntilMs');
      });

      it.each([-1, 1])('begins nothing at another version: %d', async (more) => {
        const job = await created(aJob());
        expect(await store.startJob(startOf(job.id, job.version + more))).toEqual({ kind: 'superseded' });
        expect(await stored(job.id)).toEqual(job);
      });

      it('begins nothing that was given up, moved, cancelled, claimed for another place, or has ended', async () => {
        const given = await created(aJob());
        await store.raiseVersion({ jobId: given.id, version: given.version });
        const moved = await created(aJob());
        await store.retimeJob({ job: moved, runAtMs: NOW_MS + 1_000, nowMs: NOW_MS });
        const unwanted = await created(aJob());
        await store.cancelJob({ jobId: unwanted.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
        const { job: taken } = await claimedJob();
        const { job: over, worker } = await runningJob();
        await finish(over, worker, SUCCESS);
        for (const { id } of [given, moved, unwanted, taken, over]) {
          const before = await stored(id);
          for (const version of [1, before.version])
            if (version === 1 || before.state !== 'pending')
              expect(await store.startJob(startOf(id, version))).toEqual({ kind: 'superseded' });
          expect(await stored(id)).toEqual(before);
        }
        expect(await store.startJob(startOf('unheard-of', 1))).toEqual({ kind: 'superseded' });
      });

      it('begins one that a pass has claimed for that place meanwhile, under the claim that it has', async () => {
        const job = await created(aJob());
        const request = aClaimRequest(job, { ...claim, declared: 5 });
        expect(await store.claim([request])).toEqual(['claimed']);
        expect((await store.startJob(startOf(job.id, job.version))).kind).toBe('started');
        const after = await stored(job.id);
        expect(after).toMatchObject({ state: 'running', version: job.version + 2, claim: { declared: 5 } });
      });

      it('claims nothing that was planned a day ago: by then its id may be another job’s', async () => {
        const job = await created(aJob());
        const start = startOf(job.id, job.version);
        const plannedFor = (ms: number) => ({
          ...start,
          toClaim: { ...start.toClaim, claimedAtMs: start.nowMs - ms },
        });
        expect(await store.startJob(plannedFor(PLANNED_FOR_MS))).toEqual({ kind: 'superseded' });
        expect(await stored(job.id)).toEqual(job);
        expect((await store.startJob(plannedFor(PLANNED_FOR_MS - 1))).kind).toBe('started');
        // One that is claimed is nobody else's.
        const { job: other, claimId } = await claimedJob();
        const late = { ...plannedFor(PLANNED_FOR_MS), jobId: other.id, claimId };
        expect((await store.startJob(late)).kind).toBe('started');
      });

      it('refuses a claim that comes after it, and answers claimed to the one that it made', async () => {
        const job = await created(aJob());
        await store.startJob(startOf(job.id, job.version));
        const late = aClaimRequest(job, claim);
        expect(await store.claim([late, aClaimRequest(job)])).toEqual(['claimed', 'lost']);
        expect(await stored(job.id)).toMatchObject({ state: 'running', version: job.version + 2, claim });
      });

      it('happens once, whichever of twenty messages comes first', { timeout: CONCURRENT_MS }, async () => {
        const job = await created(aJob());
        const outcomes = await Promise.all(
          times(20, (at) => store.startJob(startOf(job.id, job.version, `7-3p1.${at % 2}`))),
        );
        expect(outcomes.filter(({ kind }) => kind === 'started')).toHaveLength(1);
        expect(await stored(job.id)).toMatchObject({ state: 'running', version: job.version + 2 });
      });
    });

    it('happens once when the message comes to twenty workers', { timeout: CONCURRENT_MS }, async () => {
      const { job, claimId } = await claimedJob();
      const outcomes = await Promise.all(
        times(20, () => store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS })),
      );
      const winners = outcomes.flatMap((outcome) => (outcome.kind === 'started' ? [outcome.job.worker] : []));
      expect(winners).toHaveLength(1);
      expect(await stored(job.id)).toMatchObject({ version: 3, worker: winners[0] });
    });
  });

  describe('finishing', () => {
    it('keeps the result of a success', async () => {
      const { job, worker } = await runningJob();
      const result = { pages: [1, 2], note: 'fertig ✓', none: null };
      const expected = { ...job, state: 'succeeded', version: 4, finishedAtMs: NOW_MS + 9, result };
      expect(await finish(job, worker, { kind: 'succeeded', result })).toEqual({
        kind: 'finished',
        job: expected,
      });
      expect(await stored(job.id)).toEqual(expected);
    });

    it('keeps the reason of a failure', async () => {
      const { job, worker } = await runningJob();
      const expected = {
        ...job,
        state: 'failed',
        version: 4,
        finishedAtMs: NOW_MS + 9,
        error: { name: 'Broken', message: 'it broke' },
      };
      expect(await finish(job, worker, FAILURE)).toEqual({ kind: 'finished', job: expected });
      expect(await stored(job.id)).toEqual(expected);
    });

    it('schedules another attempt for a retry, and still says how this one ended', async () => {
      const partition = freshPartition();
      const { job, worker } = await runningJob(aJob({ partition }));
      const outcome = await finish(job, worker, retryAt(NOW_MS + 4_000));
      const expected = {
        state: 'scheduled',
        version: 4,
        attempt: 2,
        workersLost: 0,
        runAtMs: NOW_MS + 4_000,
        claim: job.claim,
        startedAtMs: job.startedAtMs,
        finishedAtMs: NOW_MS + 9,
        error: { name: 'Flaky' },
      };
      expect(outcome).toMatchObject({ kind: 'finished', job: expected });
      expect(await stored(job.id)).toMatchObject(expected);
      await untilDue(partition, NOW_MS + 4_000, [job.id]);
      await untilDue(partition, NOW_MS + 3_999, []);
    });

    it.each([
      ['a success', SUCCESS],
      ['a failure', FAILURE],
      ['a retry', retryAt(NOW_MS + 1)],
    ])('answers finished again when %s is repeated, and changes nothing more', async (_, verdict) => {
      const { job, worker } = await runningJob();
      await finish(job, worker, verdict);
      const once = await stored(job.id);
      expect(await finish(job, worker, verdict)).toEqual({ kind: 'finished', job: once });
      expect(await stored(job.id)).toEqual(once);
    });

    it.each([
      ['another worker', { workerId: 'someone-else' }],
      ['another life of the worker', { incarnation: 'second' }],
    ])('refuses %s', async (_, changes) => {
      const { job, worker } = await runningJob();
      for (const verdict of [SUCCESS, FAILURE, retryAt(NOW_MS)]) {
        expect(await finish(job, { ...worker, ...changes }, verdict)).toEqual({ kind: 'superseded' });
      }
      expect(await stored(job.id)).toEqual(job);
    });

    it('refuses an attempt whose job was given to another claim', async () => {
      const { job, worker } = await runningJob();
      await store.endUnfinished({ job, verdict: retryAt(NOW_MS), nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      expect(await finish(job, worker, SUCCESS)).toEqual({ kind: 'superseded' });
      const request = aClaimRequest(pending);
      await store.claim([request]);
      expect(await finish(job, worker, SUCCESS)).toEqual({ kind: 'superseded' });
      // The same life of the same worker may win the job again: its older attempt still counts for nothing.
      await store.startJob({ ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS });
      const running = await stored(job.id);
      expect(await finish(job, worker, SUCCESS)).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(running);
    });

    it.each(['moved', 'promoted', 'cancelled'] as const)(
      'answers finished when a retry is repeated whose job was %s meanwhile, and changes nothing more',
      async (meanwhile) => {
        const { job, worker } = await runningJob();
        const verdict = retryAt(NOW_MS + 4_000);
        await finish(job, worker, verdict);
        if (meanwhile === 'moved')
          await store.retimeJob({ job: await stored(job.id), runAtMs: NOW_MS + 9_000, nowMs: NOW_MS });
        else if (meanwhile === 'promoted')
          await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS + 4_000 });
        else await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
        const now = await stored(job.id);
        expect(now.version).toBe(5);
        expect(await finish(job, worker, verdict)).toMatchObject({ kind: 'finished', job: { version: 5 } });
        // Whoever gives the worker up meant this attempt, too, but did not end it.
        expect(
          await store.endUnfinished({ job, verdict, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
        ).toEqual({
          kind: 'superseded',
        });
        expect(await stored(job.id)).toEqual(now);
      },
    );

    it('accepts one outcome only', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const { job, worker } = await runningJob();
        const outcomes = await Promise.all([
          finish(job, worker, SUCCESS),
          finish(job, worker, FAILURE),
          finish(job, worker, retryAt(NOW_MS)),
          store.endUnfinished({ job, verdict: retryAt(NOW_MS), nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
        ]);
        expect(outcomes.filter((outcome) => outcome.kind === 'finished')).toHaveLength(1);
        expect((await stored(job.id)).version).toBe(4);
      }
    });

    it('accepts nothing after the end', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, SUCCESS);
      const done = await stored(job.id);
      expect(await finish(job, worker, FAILURE)).toEqual({ kind: 'superseded' });
      expect(await finish(job, worker, retryAt(NOW_MS))).toEqual({ kind: 'superseded' });
      expect(
        await store.endUnfinished({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
      ).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(done);
    });
  });

  describe('losing a worker', () => {
    it('schedules the job again and counts the worker, not an attempt', async () => {
      const partition = freshPartition();
      const { job } = await runningJob(aJob({ partition }));
      const outcome = await store.endUnfinished({
        job,
        verdict: retryAt(NOW_MS + 50),
        nowMs: NOW_MS + 40,
        expiresAtMs: EXPIRES_AT_MS,
      });
      const expected = {
        state: 'scheduled',
        version: 4,
        attempt: 1,
        workersLost: 1,
        runAtMs: NOW_MS + 50,
        finishedAtMs: NOW_MS + 40,
      };
      expect(outcome).toMatchObject({ kind: 'finished', job: expected });
      expect(await stored(job.id)).toMatchObject(expected);
      await untilDue(partition, NOW_MS + 50, [job.id]);
    });

    it('costs the job neither its age nor its place in its line', async () => {
      const partition = freshPartition();
      const { job } = await runningJob(aJob({ partition, readyAtMs: NOW_MS - 9_000 }));
      const younger = await created(aJob({ partition, readyAtMs: NOW_MS - 8_000 }));
      await store.endUnfinished({
        job,
        verdict: retryAt(NOW_MS + 40),
        nowMs: NOW_MS + 40,
        expiresAtMs: EXPIRES_AT_MS,
      });
      const waiting = await stored(job.id);
      expect(waiting.readyAtMs).toBe(NOW_MS - 9_000);
      await untilDue(partition, NOW_MS + 40, [job.id]);
      const { jobs: due } = await store.readDue({ partition, nowMs: NOW_MS + 40, limit: 10 });
      const [pending] = await store.promote({ jobs: due, nowMs: NOW_MS + 40 });
      expect(pending).toEqual({ ...waiting, state: 'pending', version: 5 });
      expect(pending).not.toHaveProperty('firstReadyAtMs');
      await untilLine(partition, lineOf(job), [job.id, younger.id]);
    });

    it('can fail the job for good', async () => {
      const { job } = await runningJob();
      const outcome = await store.endUnfinished({
        job,
        verdict: FAILURE,
        nowMs: NOW_MS + 40,
        expiresAtMs: EXPIRES_AT_MS,
      });
      expect(outcome).toMatchObject({
        kind: 'finished',
        job: { state: 'failed', finishedAtMs: NOW_MS + 40 },
      });
      expect(await stored(job.id)).toMatchObject({ state: 'failed', version: 4 });
    });

    it('needs a job that says whose attempt it is', async () => {
      const job = await created(aJob());
      await expect(
        store.endUnfinished({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
      ).rejects.toThrow('no claim');
      await expect(finish(job, aWorker(), SUCCESS)).rejects.toThrow('no claim');
      await expect(store.saveCheckpoint({ job, worker: aWorker(), checkpoint: 1 })).rejects.toThrow(
        'no claim',
      );
    });

    it('concerns one claim only: a job that runs under another goes on', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, retryAt(NOW_MS));
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      const request = aClaimRequest(pending);
      await store.claim([request]);
      await store.startJob({ ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS });
      const running = await stored(job.id);
      expect(
        await store.endUnfinished({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
      ).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(running);
    });

    it('makes the late finish of that worker count for nothing', async () => {
      const { job, worker } = await runningJob();
      await store.endUnfinished({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      const lost = await stored(job.id);
      expect(await finish(job, worker, SUCCESS)).toEqual({ kind: 'superseded' });
      expect(await stored(job.id)).toEqual(lost);
    });
  });

  describe('checkpoints', () => {
    it('are kept for the next attempt', async () => {
      const { job, worker } = await runningJob();
      expect(await store.saveCheckpoint({ job, worker, checkpoint: { page: 3 } })).toBe('applied');
      expect(await stored(job.id)).toMatchObject({ state: 'running', checkpoint: { page: 3 } });
      await store.endUnfinished({ job, verdict: retryAt(NOW_MS), nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      const request = aClaimRequest(pending);
      await store.claim([request]);
      const start = { ...aWorker(), jobId: job.id, claimId: request.claimId, nowMs: NOW_MS };
      expect(await store.startJob(start)).toMatchObject({
        kind: 'started',
        job: { checkpoint: { page: 3 } },
      });
    });

    it('are forgotten where the next attempt begins anew', async () => {
      const { job, worker } = await runningJob(aJob({ partition: freshPartition() }));
      const fromStart = {
        kind: 'retry',
        error: { name: 'WorkerLost', message: 'gone' },
        runAtMs: NOW_MS,
        isFromStart: true,
      } as const;
      await store.saveCheckpoint({ job, worker, checkpoint: { page: 3 } });
      await store.endUnfinished({ job, verdict: fromStart, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      const after = await stored(job.id);
      expect(after).toMatchObject({ state: 'scheduled', workersLost: 1 });
      expect(after).not.toHaveProperty('checkpoint');
      await untilDue(job.partition, NOW_MS, [job.id]);
    });

    it('leave done steps alone, which every next attempt gets', async () => {
      const { job, worker } = await runningJob(aJob({ partition: freshPartition() }));
      const steps = { 'charge the card': { value: { id: 7 } }, mail: {} };
      const fromStart = { ...retryAt(NOW_MS), isFromStart: true } as const;
      await store.saveCheckpoint({ job, worker, checkpoint: { page: 3 } });
      expect(await store.saveSteps({ job, worker, steps: { mail: {} } })).toBe('applied');
      expect(await store.saveSteps({ job, worker, steps })).toBe('applied');
      expect(await stored(job.id)).toMatchObject({ checkpoint: { page: 3 }, steps });
      await store.endUnfinished({ job, verdict: fromStart, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      expect((await stored(job.id)).steps).toEqual(steps);
      await untilDue(job.partition, NOW_MS, [job.id]);
    });

    it('lose no step to a request that comes late, and bear one that comes twice', async () => {
      const { job, worker } = await runningJob();
      const steps = { charge: { value: 7 }, mail: {} };
      expect(await store.saveSteps({ job, worker, steps })).toBe('applied');
      expect(await store.saveSteps({ job, worker, steps: { charge: { value: 7 } } })).toBe('superseded');
      expect(await store.saveSteps({ job, worker, steps })).toBe('applied');
      expect((await stored(job.id)).steps).toEqual(steps);
    });

    it.each([
      ['another worker', { workerId: 'someone-else' }],
      ['another life of the worker', { incarnation: 'second' }],
    ])('keep no step of %s', async (_, changes) => {
      const { job, worker } = await runningJob();
      const steps = { charge: {} };
      expect(await store.saveSteps({ job, worker: { ...worker, ...changes }, steps })).toBe('superseded');
      expect(await stored(job.id)).toEqual(job);
    });

    it('do not get in the way of the finish', async () => {
      const { job, worker } = await runningJob();
      await store.saveCheckpoint({ job, worker, checkpoint: 1 });
      await store.saveCheckpoint({ job, worker, checkpoint: 2 });
      expect((await finish(job, worker, SUCCESS)).kind).toBe('finished');
      expect((await finish(job, worker, SUCCESS)).kind).toBe('finished');
    });

    it.each([
      ['another worker', { workerId: 'someone-else' }],
      ['another life of the worker', { incarnation: 'second' }],
    ])('are refused from %s', async (_, changes) => {
      const { job, worker } = await runningJob();
      expect(await store.saveCheckpoint({ job, worker: { ...worker, ...changes }, checkpoint: 1 })).toBe(
        'superseded',
      );
      expect(await stored(job.id)).toEqual(job);
    });

    it('are refused once the attempt is over', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, retryAt(NOW_MS));
      const after = await stored(job.id);
      expect(await store.saveCheckpoint({ job, worker, checkpoint: 1 })).toBe('superseded');
      expect(await stored(job.id)).toEqual(after);
    });
  });

  describe('progress', () => {
    it('is kept until the next claim', async () => {
      const { job, worker } = await runningJob();
      expect(await store.saveProgress({ job, worker, progress: { page: 3 } })).toBe('applied');
      expect(await store.saveProgress({ job, worker, progress: { page: 4 } })).toBe('applied');
      expect(await stored(job.id)).toEqual({ ...job, progress: { page: 4 } });
      await finish(job, worker, retryAt(NOW_MS));
      expect(await stored(job.id)).toMatchObject({ state: 'scheduled', progress: { page: 4 } });
      const [pending] = await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      if (pending === undefined) throw new Error('not promoted');
      const other = await created(aJob());
      await store.claim([aClaimRequest(pending), aClaimRequest(other)]);
      expect(await stored(job.id)).not.toHaveProperty('progress');
    });

    it.each([
      ['another worker', { workerId: 'someone-else' }],
      ['another life of the worker', { incarnation: 'second' }],
    ])('is refused from %s', async (_, changes) => {
      const { job, worker } = await runningJob();
      expect(await store.saveProgress({ job, worker: { ...worker, ...changes }, progress: 1 })).toBe(
        'superseded',
      );
      expect(await stored(job.id)).toEqual(job);
    });

    it('is refused once the attempt is over', async () => {
      const { job, worker } = await runningJob();
      await finish(job, worker, SUCCESS);
      const after = await stored(job.id);
      expect(await store.saveProgress({ job, worker, progress: 1 })).toBe('superseded');
      expect(await stored(job.id)).toEqual(after);
    });
  });

  describe('what an attempt counts as that its worker does not finish', () => {
    const lose = (job: Job, as: Unfinished, verdict: Verdict = retryAt(NOW_MS + 4_000)) =>
      store.endUnfinished({ job, verdict, as, nowMs: NOW_MS + 50, expiresAtMs: EXPIRES_AT_MS });

    it.each<[Unfinished, Partial<Job>]>([
      ['lost', { attempt: 1, workersLost: 1, readyAtMs: NOW_MS }],
      ['released', { attempt: 1, workersLost: 0, readyAtMs: NOW_MS }],
      ['rested', { attempt: 1, workersLost: 0, readyAtMs: NOW_MS }],
      ['parked', { attempt: 1, workersLost: 0, readyAtMs: NOW_MS }],
      ['failed', { attempt: 2, workersLost: 0, readyAtMs: NOW_MS + 4_000 }],
    ])('is what is said: %s, once, however often it is said', async (as, counted) => {
      const { job } = await runningJob();
      const first = await lose(job, as);
      expect(first).toMatchObject({ kind: 'finished', job: { state: 'scheduled', ...counted } });
      const after = await stored(job.id);
      expect(await lose(job, as)).toMatchObject({ kind: 'finished', job: { version: after.version } });
      expect(await stored(job.id)).toEqual(after);
      expect(after.history?.entries).toMatchObject([{ kind: 'attempt', outcome: as }]);
    });

    it('keeps the state of a parked job until it is parked again, and no error', async () => {
      const { job } = await runningJob();
      const parked = { kind: 'retry', runAtMs: NOW_MS + 4_000, parkedState: { page: 2 } } as const;
      await lose({ ...job, error: { name: 'Error', message: 'of the attempt before' } }, 'parked', parked);
      const after = await stored(job.id);
      expect(after).toMatchObject({ state: 'scheduled', runAtMs: NOW_MS + 4_000, parkedState: { page: 2 } });
      expect(after).not.toHaveProperty('error');
      expect(after.history?.entries[0]).toMatchObject({
        outcome: 'parked',
        next: { runAtMs: NOW_MS + 4_000 },
      });
    });

    it('cancels a job that was asked to stop before its handler parked it', async () => {
      const { job } = await runningJob();
      await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      await lose(job, 'parked', { kind: 'retry', runAtMs: NOW_MS + 4_000, parkedState: null });
      expect(await stored(job.id)).toMatchObject({ state: 'cancelled', attempt: 1 });
    });

    it('is known from the job: why its handler was given up is kept until the attempt ends', async () => {
      const { job, worker } = await runningJob();
      const claimId = job.claim?.claimId ?? '';
      const error = { name: 'JobTimeout', message: 'it did not stop' };
      expect(await store.saveHung({ jobId: job.id, claimId, worker, error })).toBe('applied');
      const hung = await stored(job.id);
      expect(hung).toEqual({ ...job, hung: error });
      await lose(hung, 'failed', { kind: 'failed', error });
      const after = await stored(job.id);
      expect(after).toMatchObject({ state: 'failed', attempt: 1, workersLost: 0, error });
      expect(after).not.toHaveProperty('hung');
      expect(await store.saveHung({ jobId: job.id, claimId, worker, error })).toBe('superseded');
      expect(await stored(job.id)).toEqual(after);
    });

    it.each([
      ['another worker', { worker: { workerId: 'someone-else', incarnation: 'first' } }],
      ['another claim', { claimId: '9-9.0' }],
      ['a job that is not there', { jobId: 'nobody' }],
    ])('is not said by or for %s', async (_, changes) => {
      const { job, worker } = await runningJob();
      const error = { name: 'JobTimeout', message: 'it did not stop' };
      const held = { jobId: job.id, claimId: job.claim?.claimId ?? '', worker };
      expect(await store.saveHung({ ...held, error, ...changes })).toBe('superseded');
      expect(await stored(job.id)).toEqual(job);
    });
  });

  describe('a job that has ended', () => {
    afterEach(() => harness.setClock(NOW_MS));

    // Tables count in seconds: what expires within one is there until then at least, and gone when the second ends.
    it.each([
      ['at a full second', 10_000, 10_000],
      ['early in a second', 10_001, 11_000],
      ['late in a second', 10_999, 11_000],
    ])('keeps its id until it expires %s, to the very millisecond', async (_, keptMs, goneMs) => {
      const job = await endedJob(keptMs, SUCCESS);
      const other = { ...job, state: 'pending' as const, contentHash: 'other' };
      const { result: _result, claim: _claim, worker: _worker, ...fresh } = other;
      harness.setClock(NOW_MS + keptMs - 1);
      expect(await store.getJobs({ ids: [job.id] })).toEqual([job]);
      expect(await store.createJobs([{ ...fresh, contentHash: job.contentHash }])).toEqual([
        { kind: 'repeated', job },
      ]);
      expect(await store.createJobs([fresh])).toEqual([{ kind: 'conflict', job }]);
      expect((await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS })).kind).toBe(
        'ended',
      );
      harness.setClock(NOW_MS + goneMs);
      expect(await store.getJobs({ ids: [job.id] })).toEqual([undefined]);
      expect((await store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS })).kind).toBe(
        'missing',
      );
      expect((await store.createJobs([fresh])).map(({ kind }) => kind)).toEqual(['created']);
    });
  });
}
