/** What is declared, and what operators do to jobs: cancel, move, redrive. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { movedEntry } from '../../../lib/core/history.ts';
import type { Job } from '../../../lib/core/job.ts';
import { DECLARATION_CHARS_MAX } from '../../../lib/store/contract/bounds.ts';
import type { WorkerIdentity } from '../../../lib/store/contract/records.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { lineOf } from '../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import {
  CONCURRENT_MS,
  EXPIRES_AT_MS,
  FAILURE,
  retryAt,
  SHOWN,
  type StoreSuite,
  SUCCESS,
  times,
} from './suite.ts';

export function operateContract(suite: StoreSuite): void {
  const {
    freshPartition,
    created,
    stored,
    claimedJob,
    runningJob,
    finish,
    commit,
    park,
    untilLine,
    untilDue,
  } = suite;
  let store: JobStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('declaring', () => {
    /** The table has one declaration: each test goes on from what the one before has left. */
    const newest = () => store.readDeclaredVersion();
    const declared = async (text: string): Promise<number> => {
      const outcome = await store.putDeclaration({ text, after: await newest(), nowMs: NOW_MS });
      expect(outcome.kind).toBe('declared');
      return outcome.version;
    };

    it('keeps what is declared under a version that grows by one', async () => {
      const first = await declared('first');
      const second = await declared('second');
      expect(second).toBe(first + 1);
      expect(await newest()).toBe(second);
      expect(await store.readDeclaration()).toMatchObject({
        version: second,
        text: 'second',
        declaredAtMs: NOW_MS,
      });
    });

    it('keeps all former versions to be read', async () => {
      const former = await declared('former');
      await declared('newer');
      expect(await store.readDeclaration(former)).toMatchObject({ version: former, text: 'former' });
    });

    it('knows nothing of a version that nobody has declared', async () => {
      expect(await store.readDeclaration((await newest()) + 1)).toBeUndefined();
    });

    it('refuses whoever has not seen the newest version, and changes nothing', async () => {
      const seen = await newest();
      const version = await declared('mine');
      expect(await store.putDeclaration({ text: 'theirs', after: seen, nowMs: NOW_MS })).toEqual({
        kind: 'outdated',
        version,
      });
      expect(await store.readDeclaration()).toMatchObject({ version, text: 'mine' });
    });

    it('declares what was declared before under a higher version: that is a rollback', async () => {
      const before = await declared('before');
      await declared('between');
      const after = await declared('before');
      const [one, other] = await Promise.all([store.readDeclaration(before), store.readDeclaration(after)]);
      expect(other).toMatchObject({ version: before + 2, text: 'before', hash: one?.hash });
    });

    it('answers a repetition as it answered the first time', async () => {
      const after = await newest();
      const [first, second] = [
        await store.putDeclaration({ text: 'once', after, nowMs: NOW_MS }),
        await store.putDeclaration({ text: 'once', after, nowMs: NOW_MS }),
      ];
      expect(second).toEqual(first);
      expect(await newest()).toBe(after + 1);
    });

    it('answers a repetition as it answered the first time, also when somebody else has declared since', async () => {
      const after = await newest();
      const mine = { text: 'mine, once', after, nowMs: NOW_MS };
      const first = await store.putDeclaration(mine);
      const theirs = await declared('theirs, since');
      expect(await store.putDeclaration(mine)).toEqual(first);
      expect(await store.readDeclaration()).toMatchObject({ version: theirs, text: 'theirs, since' });
    });

    it('lets one of several deployments that begin together declare', async () => {
      const after = await newest();
      const outcomes = await Promise.all(
        times(4, (at) => store.putDeclaration({ text: `racer ${at}`, after, nowMs: NOW_MS })),
      );
      expect(outcomes.filter(({ kind }) => kind === 'declared')).toHaveLength(1);
      expect(await newest()).toBe(after + 1);
    });

    it('keeps a text at its bound, and refuses a longer one', async () => {
      const text = 'x'.repeat(DECLARATION_CHARS_MAX);
      const version = await declared(text);
      expect((await store.readDeclaration())?.text === text).toBe(true);
      const refused = store.putDeclaration({ text: `${text}x`, after: version, nowMs: NOW_MS });
      await expect(refused).rejects.toMatchObject({
        name: 'RefusedError',
        message: expect.stringContaining(`takes ${DECLARATION_CHARS_MAX + 1} characters`),
      });
      expect(await newest()).toBe(version);
    });

    it('tells a partition of a version, and never of an older one', async () => {
      const partition = freshPartition();
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).declared).toBeUndefined();
      await store.announceDeclaration({ partition, version: 7 });
      await store.announceDeclaration({ partition, version: 3 });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).declared).toBe(7);
    });

    it('keeps how far jobs were carried, until another commit says so', async () => {
      const partition = freshPartition();
      const carriedNow = async () => (await store.loadPartition({ partition, nowMs: NOW_MS })).carried;
      const half = {
        version: 4,
        moved: 100,
        isDone: false,
        after: 'a place',
        sinceVersion: 3,
        isHandedOver: true,
      };
      await commit(partition, { carried: half });
      await commit(partition);
      expect(await carriedNow()).toEqual(half);
      const done = { version: 4, moved: 150, isDone: true };
      await commit(partition, { carried: done });
      expect(await carriedNow()).toEqual(done);
    });

    it('claims a job under the version that it was planned under', async () => {
      const { job } = await claimedJob(aJob(), { declared: 12 });
      expect(job.claim).toMatchObject({ declared: 12 });
    });

    it('gives a claim back that nobody has started: the job waits where it stood', async () => {
      const partition = freshPartition();
      const { job, claimId } = await claimedJob(aJob({ partition }));
      expect(await store.giveBack({ job, claimId, nowMs: NOW_MS + 50 })).toBe('applied');
      const waiting = await stored(job.id);
      expect(waiting).toMatchObject({ state: 'pending', version: job.version + 1 });
      expect(waiting).not.toHaveProperty('claim');
      await untilLine(partition, lineOf(job), [job.id]);
      const late = await store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS });
      expect(late).toEqual({ kind: 'superseded' });
    });

    it('gives no claim back that was started, or is another one', async () => {
      const { job, claimId } = await claimedJob();
      expect(await store.giveBack({ job, claimId: `${claimId}0`, nowMs: NOW_MS })).toBe('superseded');
      const started = await store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS });
      expect(started.kind).toBe('started');
      expect(await store.giveBack({ job, claimId, nowMs: NOW_MS + 50 })).toBe('superseded');
      expect((await stored(job.id)).state).toBe('running');
    });

    it('leaves the leader and the version alone when it tells a partition of a declaration', async () => {
      const partition = freshPartition();
      await commit(partition);
      await store.announceDeclaration({ partition, version: 1 });
      const lead = { partition, holder: 'one', nowMs: NOW_MS, untilMs: NOW_MS + 20_000 };
      expect(await store.lead(lead)).toEqual({ kind: 'leading' });
      await store.announceDeclaration({ partition, version: 2 });
      await store.stopLeading({ partition, holder: 'two' });
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        leader: { holder: 'one', untilMs: NOW_MS + 20_000 },
        declared: 2,
        version: 1,
      });
      await store.stopLeading({ partition, holder: 'one' });
      const { leader, declared } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect([leader, declared]).toEqual([undefined, 2]);
    });
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
          store.loseWorker({
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

    it('leaves a job that is ready, and stays so, where it stands', async () => {
      const partition = freshPartition();
      const [job, parked] = [aJob({ partition, readyAtMs: NOW_MS - 9 }), aJob({ partition })];
      await store.createJobs([job, parked]);
      await park(partition, [parked]);
      for (const each of [job, parked]) {
        const history = expect.objectContaining({ entries: [movedEntry(NOW_MS, NOW_MS, NOW_MS - 1)] });
        const expected = { ...each, version: 2, runAtMs: NOW_MS - 1, history };
        expect(await retime(each, NOW_MS - 1)).toEqual({ kind: 'moved', job: expected });
        expect(await stored(each.id)).toEqual(expected);
      }
      await untilLine(partition, lineOf(job), [job.id]);
      await vi.waitFor(async () => {
        const { jobs } = await store.readBlocked({
          partition,
          conflictKey: 'catalogue/photos',
          groups: 10,
        });
        expect(jobs.map(({ id, version }) => [id, version])).toEqual([[parked.id, 2]]);
      }, SHOWN);
    });

    it('takes a parked job out of its blocked line', async () => {
      const partition = freshPartition();
      const job = await created(aJob({ partition }));
      await park(partition, [job]);
      expect((await retime(job, LATER_MS)).kind).toBe('moved');
      await untilDue(partition, LATER_MS, [job.id]);
      await expect
        .poll(
          async () =>
            (await store.readBlocked({ partition, conflictKey: 'catalogue/photos', groups: 10 })).jobs,
          SHOWN,
        )
        .toEqual([]);
      const [promoted] = await store.promote({ jobs: [await stored(job.id)], nowMs: LATER_MS });
      expect(promoted).toMatchObject({ state: 'pending', version: 3, readyAtMs: LATER_MS });
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

  describe('dead letters', () => {
    const failedJob = async (partition: number, nowMs: number): Promise<Job> => {
      const { job, worker } = await runningJob(aJob({ partition }));
      await store.finishJob({ ...worker, job, verdict: FAILURE, nowMs, expiresAtMs: EXPIRES_AT_MS });
      return stored(job.id);
    };
    const untilDead = (partition: number, ids: readonly string[]) =>
      vi.waitFor(async () => {
        const { jobs } = await store.readDeadLetters({ partition, limit: 100 });
        expect(jobs.map((job) => job.id)).toEqual(ids);
      }, SHOWN);

    it('are the failed jobs, the latest first', async () => {
      const partition = freshPartition();
      const early = await failedJob(partition, NOW_MS + 10);
      const late = await failedJob(partition, NOW_MS + 20);
      const { job, worker } = await runningJob(aJob({ partition }));
      await finish(job, worker, SUCCESS);
      const waiting = await created(aJob({ partition }));
      await store.cancelJob({ jobId: waiting.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      await untilDead(partition, [late.id, early.id]);
      await untilDead(freshPartition(), []);
    });

    it('are also those whose worker was lost for good', async () => {
      const partition = freshPartition();
      const { job } = await runningJob(aJob({ partition }));
      await store.loseWorker({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
      await untilDead(partition, [job.id]);
    });

    it('can be read in pages', async () => {
      const partition = freshPartition();
      const ids: string[] = [];
      for (let at = 0; at < 5; at += 1) ids.unshift((await failedJob(partition, NOW_MS + at)).id);
      await untilDead(partition, ids);
      const first = await store.readDeadLetters({ partition, limit: 3 });
      const second = await store.readDeadLetters({ partition, limit: 3, after: first.next });
      expect([...first.jobs, ...second.jobs].map((job) => job.id)).toEqual(ids);
      expect(second.next).toBeUndefined();
    });

    it('are redriven once: a new job is there, and the dead letter names it', async () => {
      const partition = freshPartition();
      const dead = await failedJob(partition, NOW_MS);
      await untilDead(partition, [dead.id]);
      const job = aJob({ partition, redriveOf: dead.id });
      expect(await store.redrive({ deadLetter: dead, job })).toBe('applied');
      expect(await stored(job.id)).toEqual(job);
      expect(await stored(dead.id)).toMatchObject({ state: 'failed', redrivenAs: job.id });
      await untilDead(partition, []);
      await untilLine(partition, lineOf(job), [job.id]);
    });

    it('are not redriven again: neither job nor letter changes', async () => {
      const dead = await failedJob(freshPartition(), NOW_MS);
      const [job, other] = [aJob({ redriveOf: dead.id }), aJob({ redriveOf: dead.id })];
      await store.redrive({ deadLetter: dead, job });
      expect(await store.redrive({ deadLetter: dead, job: other })).toBe('superseded');
      expect(await store.getJobs({ ids: [other.id] })).toEqual([undefined]);
      expect((await stored(dead.id)).redrivenAs).toBe(job.id);
    });

    it('are redriven by one of eight operators', { timeout: CONCURRENT_MS }, async () => {
      const dead = await failedJob(freshPartition(), NOW_MS);
      const jobs = times(8, () => aJob({ redriveOf: dead.id }));
      const outcomes = await Promise.all(
        jobs.map((job) => store.redrive({ deadLetter: dead, job }).catch((error: Error) => error.name)),
      );
      const made = (await store.getJobs({ ids: jobs.map((job) => job.id) })).filter(
        (job) => job !== undefined,
      );
      expect(made).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'applied')).toHaveLength(1);
      expect((await stored(dead.id)).redrivenAs).toBe(made[0]?.id);
    });

    it('must have failed', async () => {
      const { job, worker } = await runningJob();
      const next = aJob();
      expect(await store.redrive({ deadLetter: job, job: next })).toBe('superseded');
      await finish(job, worker, SUCCESS);
      expect(await store.redrive({ deadLetter: await stored(job.id), job: next })).toBe('superseded');
      expect(await store.getJobs({ ids: [next.id] })).toEqual([undefined]);
    });
  });
}
