/** What every job store does: sentences, each checked on every implementation. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { movedEntry } from '../../lib/core/history.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import type { Loan, LoanRequest } from '../../lib/core/lending.ts';
import { DECLARATION_CHARS_MAX, ITEM_BYTES_MAX, LATER_JOBS_MAX } from '../../lib/store/bounds.ts';
import {
  BLOCKED_HEADS,
  type ClaimOutcome,
  type Control,
  type ControlChange,
  type DispatcherRecord,
  type Fence,
  type FinishVerdict,
  type JobHead,
  type JobStore,
  type Ledger,
  type Lock,
  type ParkedMark,
  type Reservation,
  type WorkerIdentity,
  type WorkerRecord,
} from '../../lib/store/contract.ts';
import type { ReadyLine } from '../../lib/store/schema.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { aJob, aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aLookout } from '../fixtures/factories/lookout.ts';
import { aReadyLine, lineOf } from '../fixtures/factories/ready-line.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { aReservation, aReservedJob } from '../fixtures/factories/reservation.ts';
import { aWorker, aWorkerRecord } from '../fixtures/factories/worker.ts';
import {
  KEY,
  largestControl,
  largestEstimate,
  largestJob,
  largestLedger,
  largestRejection,
  largestReservation,
  largestWorker,
  NAME,
} from '../fixtures/largest.ts';
import { HOT_TYPE, type JobStoreHarness, ODD_NAMES, SUITE_TYPE, suitePlace } from './harness.ts';
import { jobHistoryContract } from './job-history.ts';

const LEASE_MS = 20_000;
const EXPIRES_AT_MS = NOW_MS + 7 * 24 * 3_600_000;
const SUCCESS: FinishVerdict = { kind: 'succeeded', result: { ok: true } };
const FAILURE: FinishVerdict = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } };
const TABLE_WAIT_MS = 60_000;
const CONCURRENT_MS = 30_000;
/** The index may lag: so long at most. */
const SHOWN = { timeout: 10_000 };

const retryAt = (runAtMs: number): FinishVerdict => ({
  kind: 'retry',
  error: { name: 'Flaky', message: 'try again' },
  runAtMs,
});

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

export function jobStoreContract(name: string, makeHarness: () => Promise<JobStoreHarness>): void {
  describe(`the job store on ${name}`, () => {
    let harness: JobStoreHarness;
    let store: JobStore;
    let partitions = 0;

    beforeAll(async () => {
      harness = await makeHarness();
      store = harness.store;
    }, TABLE_WAIT_MS);
    afterAll(async () => {
      await harness?.close();
    });

    /** Tests share a table: each takes a partition of its own. */
    const freshPartition = (): number => {
      partitions += 1;
      return partitions;
    };

    const created = async (job: Job): Promise<Job> => {
      const [outcome] = await store.createJobs([job]);
      expect(outcome?.kind).toBe('created');
      return job;
    };

    const stored = async (id: string): Promise<Job> => {
      const [job] = await store.getJobs([id]);
      if (job === undefined) throw new Error(`no job ${id}`);
      return job;
    };

    const claimedJob = async (job: Job = aJob(), changes = {}): Promise<{ job: Job; claimId: string }> => {
      await created(job);
      const request = aClaimRequest(job, changes);
      expect(await store.claim([request])).toEqual(['claimed']);
      return { job: await stored(job.id), claimId: request.claimId };
    };

    const runningJob = async (
      job: Job = aJob(),
      worker: WorkerIdentity = aWorker(),
    ): Promise<{ job: Job; worker: WorkerIdentity; claimId: string }> => {
      const { claimId } = await claimedJob(job);
      const outcome = await store.startJob({ ...worker, jobId: job.id, claimId, nowMs: NOW_MS + 5 });
      if (outcome.kind !== 'started') throw new Error('not started');
      return { job: outcome.job, worker, claimId };
    };

    const finish = (job: Job, worker: WorkerIdentity, verdict: FinishVerdict) =>
      store.finishJob({ ...worker, job, verdict, nowMs: NOW_MS + 9, expiresAtMs: EXPIRES_AT_MS });

    const lease = async (partition: number, nowMs = NOW_MS): Promise<Fence> => {
      const outcome = await store.acquireLease(partition, 'dispatcher', nowMs, LEASE_MS);
      expect(outcome.kind).toBe('acquired');
      return { partition, epoch: outcome.epoch };
    };

    /** The index may lag: reads it until it shows what was written. */
    const untilLine = (partition: number, line: ReadyLine, ids: readonly string[]) =>
      vi.waitFor(async () => {
        const { jobs } = await store.readLine(partition, line, 100);
        expect(jobs.map((job) => job.id)).toEqual(ids);
      }, SHOWN);
    const untilDue = (partition: number, nowMs: number, ids: readonly string[]) =>
      vi.waitFor(async () => {
        const { jobs } = await store.readDue(partition, nowMs, 100);
        expect(jobs.map((job) => job.id)).toEqual(ids);
      }, SHOWN);
    const untilKeys = (partition: number, type: string, keys: readonly string[]) =>
      vi.waitFor(async () => {
        const read = await store.readKeys(partition, type, 100);
        expect(read.keys.map((key) => key.fairnessKey)).toEqual(keys);
      }, SHOWN);

    describe('declaring', () => {
      /** The table has one declaration: each test goes on from what the one before has left. */
      const newest = () => store.readDeclaredVersion();
      const declared = async (text: string): Promise<number> => {
        const outcome = await store.putDeclaration(text, await newest(), NOW_MS);
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
        expect(await store.putDeclaration('theirs', seen, NOW_MS)).toEqual({ kind: 'outdated', version });
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
          await store.putDeclaration('once', after, NOW_MS),
          await store.putDeclaration('once', after, NOW_MS),
        ];
        expect(second).toEqual(first);
        expect(await newest()).toBe(after + 1);
      });

      it('lets one of several deployments that begin together declare', async () => {
        const after = await newest();
        const outcomes = await Promise.all(
          times(4, (at) => store.putDeclaration(`racer ${at}`, after, NOW_MS)),
        );
        expect(outcomes.filter(({ kind }) => kind === 'declared')).toHaveLength(1);
        expect(await newest()).toBe(after + 1);
      });

      it('keeps a text at its bound, and refuses a longer one', async () => {
        const text = 'x'.repeat(DECLARATION_CHARS_MAX);
        const version = await declared(text);
        expect((await store.readDeclaration())?.text === text).toBe(true);
        const refused = store.putDeclaration(`${text}x`, version, NOW_MS);
        await expect(refused).rejects.toMatchObject({
          name: 'DeclarationTooLarge',
          chars: DECLARATION_CHARS_MAX + 1,
        });
        expect(await newest()).toBe(version);
      });

      it('tells a partition of a version, and never of an older one', async () => {
        const partition = freshPartition();
        expect((await store.loadPartition(partition, NOW_MS)).declared).toBeUndefined();
        await store.announceDeclaration(partition, 7);
        await store.announceDeclaration(partition, 3);
        expect((await store.loadPartition(partition, NOW_MS)).declared).toBe(7);
      });

      it('keeps how far jobs were carried, for whoever holds the partition next', async () => {
        const first = await lease(freshPartition());
        const half = {
          version: 4,
          moved: 100,
          isDone: false,
          after: 'a place',
          sinceEpoch: 3,
          isHandedOver: true,
        };
        expect(await store.noteCarried(first, half)).toBe('noted');
        expect((await store.loadPartition(first.partition, NOW_MS)).carried).toEqual(half);
        const second = await lease(first.partition, NOW_MS + LEASE_MS + 1);
        const done = { version: 4, moved: 150, isDone: true };
        expect(await store.noteCarried(first, done)).toBe('lost');
        expect(await store.noteCarried(second, done)).toBe('noted');
        expect((await store.loadPartition(first.partition, NOW_MS)).carried).toEqual(done);
      });

      it('claims a job under the version that it was planned under', async () => {
        const { job } = await claimedJob(aJob(), { declared: 12 });
        expect(job.claim).toMatchObject({ declared: 12 });
      });

      it('gives a claim back that nobody has started: the job waits where it stood', async () => {
        const partition = freshPartition();
        const { job, claimId } = await claimedJob(aJob({ partition }));
        expect(await store.giveBack(job, claimId, NOW_MS + 50)).toBe('applied');
        const waiting = await stored(job.id);
        expect(waiting).toMatchObject({ state: 'pending', version: job.version + 1 });
        expect(waiting).not.toHaveProperty('claim');
        await untilLine(partition, lineOf(job), [job.id]);
        const late = await store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS });
        expect(late).toEqual({ kind: 'superseded' });
      });

      it('gives no claim back that was started, or is another one', async () => {
        const { job, claimId } = await claimedJob();
        expect(await store.giveBack(job, `${claimId}0`, NOW_MS)).toBe('superseded');
        const started = await store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS });
        expect(started.kind).toBe('started');
        expect(await store.giveBack(job, claimId, NOW_MS + 50)).toBe('superseded');
        expect((await stored(job.id)).state).toBe('running');
      });

      it('leaves the lease alone when it tells a partition of a version', async () => {
        const fresh = freshPartition();
        await store.announceDeclaration(fresh, 1);
        expect((await lease(fresh)).epoch).toBe(1);
        const held = await lease(freshPartition());
        await store.announceDeclaration(held.partition, 2);
        expect(await store.renewLease(held, NOW_MS, LEASE_MS)).toBe('renewed');
        expect(await store.loadPartition(held.partition, NOW_MS)).toMatchObject({ epoch: 1, declared: 2 });
      });
    });

    describe('creating jobs', () => {
      it('keeps a job as it was given', async () => {
        const job = aJob({ resourceId: 'catalogue', priority: 7, mode: 'onDemand', partition: 3 });
        expect(await store.createJobs([job])).toEqual([{ kind: 'created', job }]);
        expect(await store.getJobs([job.id])).toEqual([job]);
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
        expect(await store.getJobs([b.id, 'unheard-of', a.id])).toEqual([b, undefined, a]);
      });

      it('reads more than one batch, and ids that stand twice', async () => {
        const jobs = times(120, () => aJob());
        await store.createJobs(jobs);
        const wanted = [...jobs, ...jobs.slice(0, 3)];
        expect((await store.getJobs(wanted.map((job) => job.id))).map((job) => job?.id)).toEqual(
          wanted.map((job) => job.id),
        );
      });

      it('reads nothing when nothing is asked', async () => {
        expect(await store.getJobs([])).toEqual([]);
      });
    });

    describe('ready lines', () => {
      it('shows jobs in rank order, whatever order they came in', async () => {
        const partition = freshPartition();
        const [late, urgent, early] = [
          aJob({ partition, readyAtMs: NOW_MS + 2 }),
          aJob({ partition, readyAtMs: NOW_MS + 3, priority: 5 }),
          aJob({ partition, readyAtMs: NOW_MS + 1 }),
        ];
        await store.createJobs([late, urgent, early]);
        await untilLine(partition, lineOf(late), [urgent.id, early.id, late.id]);
      });

      it('keeps lines apart by partition, type, mode and fairness key', async () => {
        const partition = freshPartition();
        const base = aJob({ partition });
        const others = [
          aJob({ partition: freshPartition() }),
          aJob({ partition, type: 'index' }),
          aJob({ partition, mode: 'onDemand' }),
          aJob({ partition, fairnessKey: 'tenant-b' }),
        ];
        await store.createJobs([base, ...others]);
        await untilLine(partition, lineOf(base), [base.id]);
        for (const other of others) await untilLine(other.partition, lineOf(other), [other.id]);
        expect(await store.readLine(partition, lineOf({ ...base, type: 'nothing' }), 10)).toEqual({
          jobs: [],
        });
      });

      it('gives all that planning needs of a job', async () => {
        const partition = freshPartition();
        const job = await created(aJob({ partition, payload: { deep: [1, 2] }, resourceId: 'r' }));
        await untilLine(partition, lineOf(job), [job.id]);
        const {
          payload: _payload,
          contentHash: _hash,
          submittedAtMs: _at,
          workersLost: _lost,
          ...head
        } = job;
        expect((await store.readLine(partition, lineOf(job), 1)).jobs).toEqual([
          expect.objectContaining(head),
        ]);
      });

      it('can be read in pages without losing or repeating a job', async () => {
        const partition = freshPartition();
        const jobs = times(10, (at) => aJob({ partition, readyAtMs: NOW_MS + at }));
        await store.createJobs(jobs);
        const ids = jobs.map((job) => job.id);
        await untilLine(partition, aReadyLine(), ids);
        const seen: string[] = [];
        let after: string | undefined;
        let pages = 0;
        do {
          const page = await store.readLine(partition, aReadyLine(), 3, after);
          expect(page.jobs.length).toBeLessThanOrEqual(3);
          seen.push(...page.jobs.map((job) => job.id));
          after = page.next;
          pages += 1;
        } while (after !== undefined && pages < 10);
        expect(seen).toEqual(ids);
        expect(after).toBeUndefined();
      });

      it('names no next page when the line ends with this one', async () => {
        const partition = freshPartition();
        const jobs = times(3, (at) => aJob({ partition, readyAtMs: NOW_MS + at }));
        await store.createJobs(jobs);
        await untilLine(
          partition,
          aReadyLine(),
          jobs.map((job) => job.id),
        );
        expect((await store.readLine(partition, aReadyLine(), 3)).next).toBeUndefined();
        expect((await store.readLine(partition, aReadyLine(), 2)).next).toBeDefined();
      });

      it('reads on behind a page whose jobs have left the line', async () => {
        const partition = freshPartition();
        const jobs = times(6, (at) => aJob({ partition, readyAtMs: NOW_MS + at }));
        await store.createJobs(jobs);
        await untilLine(
          partition,
          aReadyLine(),
          jobs.map((job) => job.id),
        );
        const first = await store.readLine(partition, aReadyLine(), 2);
        await store.claim(first.jobs.map((job) => aClaimRequest(job)));
        const second = await store.readLine(partition, aReadyLine(), 2, first.next);
        expect(second.jobs.map((job) => job.id)).toEqual([jobs[2]?.id, jobs[3]?.id]);
      });

      it('holds a job from its creation to its claim only', async () => {
        const partition = freshPartition();
        const job = await created(aJob({ partition }));
        await untilLine(partition, lineOf(job), [job.id]);
        const request = aClaimRequest(job);
        await store.claim([request]);
        await untilLine(partition, lineOf(job), []);
        const worker = aWorker();
        const started = await store.startJob({
          ...worker,
          jobId: job.id,
          claimId: request.claimId,
          nowMs: NOW_MS,
        });
        if (started.kind === 'started') await finish(started.job, worker, SUCCESS);
        await untilLine(partition, lineOf(job), []);
        await untilDue(partition, EXPIRES_AT_MS, []);
      });
    });

    describe('lines in parts', () => {
      const hot = (count: number, changes: Partial<Job> = {}): readonly Job[] =>
        times(count, (at) => aJob({ type: HOT_TYPE, readyAtMs: NOW_MS + at, ...changes }));
      const partOf = (job: Job): number => suitePlace(job).sub ?? 0;

      it('hold each job in the part that its place names, and show it in no other', async () => {
        const partition = freshPartition();
        const jobs = hot(12, { partition });
        await store.createJobs(jobs);
        const parts = times(3, (sub) => jobs.filter((job) => partOf(job) === sub));
        expect(parts.every((part) => part.length > 0)).toBe(true);
        for (const [sub, part] of parts.entries()) {
          const line = aReadyLine({ type: HOT_TYPE, ...(sub === 0 ? {} : { sub }) });
          await untilLine(
            partition,
            line,
            part.map(({ id }) => id),
          );
        }
      });

      it('are announced and retired one by one', async () => {
        const partition = freshPartition();
        const [one, two] = [aReadyLine({ sub: 2 }), aReadyLine()];
        await store.announceLines(partition, [one, two, one], NOW_MS);
        const lines = async () =>
          (await store.readBacklogs(partition, SUITE_TYPE, ['tenant-a']))[0]?.lines.toSorted(
            (a, b) => (a.sub ?? 0) - (b.sub ?? 0),
          );
        expect(await lines()).toEqual([{ mode: 'queued' }, { mode: 'queued', sub: 2 }]);
        expect(await store.retireLine(partition, two, NOW_MS)).toBe('retired');
        expect(await lines()).toEqual([{ mode: 'queued', sub: 2 }]);
        expect(await store.retireLine(partition, one, NOW_MS)).toBe('retired');
        expect(await lines()).toBeUndefined();
      });

      it('of scheduled jobs are counted by the partition before any job stands there', async () => {
        const partition = freshPartition();
        const jobs = times(12, () => aScheduledJob(NOW_MS + 5, { type: HOT_TYPE, partition }));
        const last = jobs.find((job) => partOf(job) === 2);
        if (last === undefined) throw new Error('no job of the last part');
        await created(last);
        expect((await store.loadPartition(partition, NOW_MS)).dueShards).toBe(3);
        await store.createJobs(jobs.filter((job) => job !== last));
        expect((await store.loadPartition(partition, NOW_MS)).dueShards).toBe(3);
        for (let shard = 0; shard < 3; shard += 1) {
          const ids = jobs.filter((job) => partOf(job) === shard).map(({ id }) => id);
          await vi.waitFor(async () => {
            const due = await store.readDue(partition, NOW_MS + 5, 100, undefined, shard);
            expect(due.jobs.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
          }, SHOWN);
        }
      });

      it('take a job that is tried again', async () => {
        const partition = freshPartition();
        const job = hot(20, { partition }).find((each) => partOf(each) === 1);
        if (job === undefined) throw new Error('no job of the second part');
        const { job: running, worker } = await runningJob(job);
        await finish(running, worker, retryAt(NOW_MS + 40));
        expect((await store.loadPartition(partition, NOW_MS)).dueShards).toBe(2);
        await vi.waitFor(async () => {
          const due = await store.readDue(partition, NOW_MS + 40, 10, undefined, 1);
          expect(due.jobs.map(({ id }) => id)).toEqual([job.id]);
          const [head] = due.jobs;
          if (head === undefined) throw new Error('nothing is due');
          await store.promote([head], NOW_MS + 40);
        }, SHOWN);
        await untilLine(partition, aReadyLine({ type: HOT_TYPE, sub: 1 }), [job.id]);
      });
    });

    describe('due work', () => {
      it('shows scheduled jobs whose time has come, soonest first, to the very millisecond', async () => {
        const partition = freshPartition();
        const [later, sooner, exact, early] = [
          aScheduledJob(NOW_MS + 50, { partition }),
          aScheduledJob(NOW_MS + 20, { partition }),
          aScheduledJob(NOW_MS + 100, { partition }),
          aScheduledJob(NOW_MS + 101, { partition }),
        ];
        await store.createJobs([later, early, exact, sooner]);
        await untilDue(partition, NOW_MS + 100, [sooner.id, later.id, exact.id]);
        await untilDue(partition, NOW_MS + 101, [sooner.id, later.id, exact.id, early.id]);
        await untilDue(freshPartition(), NOW_MS + 101, []);
      });

      it('keeps scheduled jobs out of the ready lines', async () => {
        const partition = freshPartition();
        const job = await created(aScheduledJob(NOW_MS + 1, { partition }));
        await untilDue(partition, NOW_MS + 1, [job.id]);
        await untilLine(partition, lineOf(job), []);
      });

      it('can be read in pages', async () => {
        const partition = freshPartition();
        const jobs = times(7, (at) => aScheduledJob(NOW_MS + at, { partition }));
        await store.createJobs([...jobs, aScheduledJob(NOW_MS + 999, { partition })]);
        const ids = jobs.map((job) => job.id);
        await untilDue(partition, NOW_MS + 10, ids);
        const seen: string[] = [];
        let after: string | undefined;
        let pages = 0;
        do {
          const page = await store.readDue(partition, NOW_MS + 10, 3, after);
          seen.push(...page.jobs.map((job) => job.id));
          after = page.next;
          pages += 1;
        } while (after !== undefined && pages < 10);
        expect(seen).toEqual(ids);
        expect(after).toBeUndefined();
      });
    });

    describe('due work from an instant on', () => {
      it('skips what is due before it, to the very millisecond, and can be cut short', async () => {
        const partition = freshPartition();
        const jobs = times(6, (at) => aScheduledJob(NOW_MS + at * 10, { partition }));
        await store.createJobs([...jobs, aScheduledJob(NOW_MS + 999, { partition })]);
        const ids = jobs.map((job) => job.id);
        await untilDue(partition, NOW_MS + 50, ids);
        const from = async (fromMs: number, limit = 100) => {
          const page = await store.readDue(partition, NOW_MS + 50, limit, undefined, 0, fromMs);
          return { ids: page.jobs.map((job) => job.id), goesOn: page.next !== undefined };
        };
        expect(await from(NOW_MS - 1)).toEqual({ ids, goesOn: false });
        expect(await from(NOW_MS + 20)).toEqual({ ids: ids.slice(2), goesOn: false });
        expect(await from(NOW_MS + 20.5)).toEqual({ ids: ids.slice(3), goesOn: false });
        expect(await from(NOW_MS + 21, 2)).toEqual({ ids: ids.slice(3, 5), goesOn: true });
        expect(await from(NOW_MS + 50)).toEqual({ ids: ids.slice(5), goesOn: false });
        expect(await from(NOW_MS + 51)).toEqual({ ids: [], goesOn: false });
        expect(await from(NOW_MS + 60)).toEqual({ ids: [], goesOn: false });
      });
    });

    describe('promoting', () => {
      it('moves a job from the due line to its ready line, its age counting from its time', async () => {
        const partition = freshPartition();
        const job = await created(aScheduledJob(NOW_MS + 10, { partition }));
        const expected = { ...job, state: 'pending', version: 2, readyAtMs: NOW_MS + 10 };
        expect(await store.promote([job], NOW_MS + 5_000)).toEqual([expected]);
        expect(await stored(job.id)).toEqual(expected);
        await untilLine(partition, lineOf(job), [job.id]);
        await untilDue(partition, NOW_MS + 5_000, []);
      });

      it('never moves a job before its time', async () => {
        const partition = freshPartition();
        const job = await created(aScheduledJob(NOW_MS + 10, { partition }));
        expect(await store.promote([job], NOW_MS + 9)).toEqual([undefined]);
        expect(await stored(job.id)).toEqual(job);
      });

      it('answers in the order of the jobs, with nothing for a lost race', async () => {
        const partition = freshPartition();
        const [a, b] = [
          await created(aScheduledJob(NOW_MS, { partition })),
          await created(aScheduledJob(NOW_MS, { partition })),
        ];
        const outdated = { ...a, version: 2 };
        const unknown = aScheduledJob(NOW_MS, { partition });
        const answers = await store.promote([outdated, b, unknown], NOW_MS);
        expect(answers.map((job) => job?.id)).toEqual([undefined, b.id, undefined]);
        expect(await stored(a.id)).toEqual(a);
        expect(await store.getJobs([unknown.id])).toEqual([undefined]);
      });

      it('promotes a job once when eight dispatchers race', { timeout: CONCURRENT_MS }, async () => {
        const job = await created(aScheduledJob(NOW_MS));
        const answers = await Promise.all(times(8, () => store.promote([job], NOW_MS)));
        expect(answers.flat().filter((answer) => answer !== undefined)).toHaveLength(1);
        expect((await stored(job.id)).version).toBe(2);
      });

      it('takes a pending job to another partition, where it stands in its ready line', async () => {
        const [partition, home] = [freshPartition(), freshPartition()];
        const job = await created(aJob({ partition }));
        const there = { ...job, partition: home, version: job.version + 1 };
        expect(await store.rehome([job], home, NOW_MS)).toEqual([there]);
        expect(await stored(job.id)).toEqual(there);
        await untilLine(home, lineOf(job), [job.id]);
        await untilLine(partition, lineOf(job), []);
      });

      it('takes a scheduled job whose time has come to another partition, where it is ready', async () => {
        const [partition, home] = [freshPartition(), freshPartition()];
        const job = await created(aScheduledJob(NOW_MS, { partition }));
        const there = { ...job, partition: home, state: 'pending', version: job.version + 1 };
        expect(await store.rehome([job], home, NOW_MS)).toEqual([there]);
        await untilLine(home, lineOf(job), [job.id]);
        await untilDue(partition, NOW_MS, []);
      });

      it('takes a parked job to its ready line in another partition', async () => {
        const [partition, home] = [freshPartition(), freshPartition()];
        const job = await created(aJob({ partition }));
        await store.park(await lease(partition), [job], 'catalogue/photos');
        expect(await store.rehome([job], home, NOW_MS)).toMatchObject([{ partition: home }]);
        await untilLine(home, lineOf(job), [job.id]);
        expect(await store.unpark([job], 'catalogue/photos')).toEqual(['superseded']);
        expect((await stored(job.id)).partition).toBe(home);
      });

      it('takes no job to another partition that is claimed, has moved on, is early or not there', async () => {
        const [partition, home] = [freshPartition(), freshPartition()];
        const [claimed, raised] = [await created(aJob({ partition })), await created(aJob({ partition }))];
        const early = await created(aScheduledJob(NOW_MS + 1, { partition }));
        await store.claim([aClaimRequest(claimed)]);
        await store.raiseVersion(raised.id, raised.version);
        const ids = [claimed.id, raised.id, early.id];
        const before = await store.getJobs(ids);
        const asked = [claimed, raised, early, aJob({ partition })];
        expect(await store.rehome(asked, home, NOW_MS)).toEqual(times(4, () => undefined));
        expect(await store.getJobs(ids)).toEqual(before);
      });

      it('refuses the claim of a job that was planned before it was taken to another partition', async () => {
        const job = await created(aJob({ partition: freshPartition() }));
        await store.rehome([job], freshPartition(), NOW_MS);
        expect(await store.claim([aClaimRequest(job)])).toEqual(['lost']);
      });

      it('gives a partition a control that nobody has changed there, and else leaves it', async () => {
        const partition = freshPartition();
        const control = { scope: 'type/photo', paused: true, maxConcurrency: 3 };
        expect(await store.adoptControl(partition, control)).toBe('applied');
        expect((await store.loadPartition(partition, NOW_MS)).controls).toEqual([control]);
        await store.changeControl(partition, 'type/photo', { paused: false, maxConcurrency: null });
        expect(await store.adoptControl(partition, control)).toBe('superseded');
        expect((await store.loadPartition(partition, NOW_MS)).controls).toEqual([]);
      });

      it('promotes more than one batch', async () => {
        const jobs = times(60, () => aScheduledJob(NOW_MS));
        await store.createJobs(jobs);
        const answers = await store.promote(jobs, NOW_MS);
        expect(answers.map((job) => job?.id)).toEqual(jobs.map((job) => job.id));
      });
    });

    describe('keys with backlog', () => {
      it('stand in the keys line of their tier by what they were charged', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const ledgers = [
          aLedger({ fairnessKey: 'dear', settledCostMs: 90_000 }),
          aLedger({ fairnessKey: 'cheap', settledCostMs: 8_000.5 }),
          aLedger({ fairnessKey: 'middling', settledCostMs: 10_000 }),
        ];
        expect(await store.commit(fence, aCommit({ ledgers }))).toBe('committed');
        await store.announceLines(
          partition,
          ['middling', 'new', 'dear', 'cheap'].map((fairnessKey) => aReadyLine({ fairnessKey })),
          NOW_MS,
        );
        await untilKeys(partition, SUITE_TYPE, ['new', 'cheap', 'middling', 'dear']);
      });

      it('stand and are charged to the last unit of 2^-16 ms, after years of work', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const YEARS_MS = 2 ** 37 - 1;
        const ledgers = ['c', 'b', 'a'].map((fairnessKey, units) =>
          aLedger({ fairnessKey, settledCostMs: YEARS_MS + units / 65_536 }),
        );
        expect(await store.commit(fence, aCommit({ ledgers }))).toBe('committed');
        expect(await store.getLedgers(partition, ['c', 'b', 'a'])).toEqual(ledgers);
        const lines = ['a', 'b', 'c'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines(partition, lines, NOW_MS);
        await untilKeys(partition, SUITE_TYPE, ['c', 'b', 'a']);
        const { keys } = await store.readKeys(partition, SUITE_TYPE, 10);
        expect(keys.map(({ rankCostMs }) => rankCostMs)).toEqual(ledgers.map((each) => each.settledCostMs));
      });

      it('move back when a pass that has read some of them charges them', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const lines = ['a', 'b'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines(partition, lines, NOW_MS);
        await untilKeys(partition, SUITE_TYPE, ['a', 'b']);
        await store.readKeys(partition, SUITE_TYPE, 1);
        await store.getLedgers(partition, ['a']);
        const ledgers = [aLedger({ fairnessKey: 'a', settledCostMs: 100 })];
        expect(await store.commit(fence, aCommit({ ledgers }))).toBe('committed');
        await store.tidy(partition);
        await untilKeys(partition, SUITE_TYPE, ['b', 'a']);
      });

      it('name each line once, with the time of the last announcement', async () => {
        const partition = freshPartition();
        const lines = [aReadyLine(), aReadyLine({ sub: 1 }), aReadyLine({ mode: 'onDemand' })];
        await store.announceLines(partition, lines.slice(0, 2), NOW_MS);
        await store.announceLines(partition, lines.slice(1), NOW_MS + 7);
        await vi.waitFor(async () => {
          const { keys } = await store.readKeys(partition, SUITE_TYPE, 10);
          expect(keys).toHaveLength(1);
          expect(keys[0]?.announcedAtMs).toBe(NOW_MS + 7);
          expect(keys[0]?.lines.map(({ mode, sub = 0 }) => `${mode} ${sub}`).sort()).toEqual([
            'onDemand 0',
            'queued 0',
            'queued 1',
          ]);
        }, SHOWN);
      });

      it('can be read by name, in the order of the names, as they are now', async () => {
        const partition = freshPartition();
        const [one, two] = [aReadyLine({ fairnessKey: 'one' }), aReadyLine({ fairnessKey: 'two' })];
        await store.announceLines(partition, [one, two], NOW_MS);
        const read = () => store.readBacklogs(partition, SUITE_TYPE, ['two', 'nobody', 'one', 'two']);
        const shown = {
          lines: [{ mode: 'queued' }],
          announcedAtMs: NOW_MS,
          rankCostMs: 0,
        };
        const isTwo = { ...shown, fairnessKey: 'two' };
        expect(await read()).toEqual([isTwo, undefined, { ...shown, fairnessKey: 'one' }, isTwo]);
        expect(await store.readBacklogs(partition, 'another type', ['one'])).toEqual([undefined]);
        await store.retireLine(partition, one, NOW_MS);
        expect(await read()).toEqual([isTwo, undefined, undefined, isTwo]);
        expect(await store.readBacklogs(partition, SUITE_TYPE, [])).toEqual([]);
      });

      it('are apart by type and by partition', async () => {
        const [partition, other] = [freshPartition(), freshPartition()];
        await store.announceLines(partition, [aReadyLine({ type: 'gold', fairnessKey: 'k' })], NOW_MS);
        await store.announceLines(partition, [aReadyLine({ fairnessKey: 'l' })], NOW_MS);
        await untilKeys(partition, 'gold', ['k']);
        await untilKeys(partition, SUITE_TYPE, ['l']);
        await untilKeys(other, SUITE_TYPE, []);
      });

      it('can be read in pages', async () => {
        const partition = freshPartition();
        const keys = times(7, (at) => `key-${at}`);
        await store.announceLines(
          partition,
          keys.map((fairnessKey) => aReadyLine({ fairnessKey })),
          NOW_MS,
        );
        await vi.waitFor(
          async () =>
            expect((await store.readKeys(partition, SUITE_TYPE, 100)).keys).toHaveLength(keys.length),
          SHOWN,
        );
        const seen: string[] = [];
        let after: string | undefined;
        let pages = 0;
        do {
          const page = await store.readKeys(partition, SUITE_TYPE, 3, after);
          seen.push(...page.keys.map((key) => key.fairnessKey));
          after = page.next;
          pages += 1;
        } while (after !== undefined && pages < 10);
        expect(seen.sort()).toEqual(keys);
      });

      it('lose a line that is retired, and leave with their last one', async () => {
        const partition = freshPartition();
        const [one, two] = [aReadyLine(), aReadyLine({ mode: 'onDemand' })];
        await store.announceLines(partition, [one, two], NOW_MS);
        expect(await store.retireLine(partition, one, NOW_MS)).toBe('retired');
        await vi.waitFor(async () => {
          const { keys } = await store.readKeys(partition, SUITE_TYPE, 10);
          expect(keys.map((key) => key.lines)).toEqual([[{ mode: 'onDemand' }]]);
        }, SHOWN);
        expect(await store.retireLine(partition, two, NOW_MS)).toBe('retired');
        await untilKeys(partition, SUITE_TYPE, []);
      });

      it('name the blocked lines in which jobs of theirs are parked, until those are retired', async () => {
        const partition = freshPartition();
        const parkedIn = 'album!of.7';
        const parked = { ...aReadyLine(), parkedIn };
        const backlog = async () => (await store.readBacklogs(partition, SUITE_TYPE, ['tenant-a']))[0];
        await store.announceLines(partition, [aReadyLine(), parked], NOW_MS);
        await store.announceLines(partition, [parked], NOW_MS);
        expect(await backlog()).toMatchObject({
          lines: [{ mode: 'queued' }],
          parked: [{ mode: 'queued', conflictKey: parkedIn }],
        });
        expect(await store.retireLine(partition, aReadyLine(), NOW_MS)).toBe('retired');
        expect(await backlog()).toMatchObject({ lines: [], parked: [{ conflictKey: parkedIn }] });
        expect(await store.retireLine(partition, parked, NOW_MS)).toBe('retired');
        expect(await backlog()).toBeUndefined();
      });

      it('keep a line that was announced since', async () => {
        const partition = freshPartition();
        await store.announceLines(partition, [aReadyLine()], NOW_MS);
        await store.announceLines(partition, [aReadyLine()], NOW_MS + 1);
        expect(await store.retireLine(partition, aReadyLine(), NOW_MS)).toBe('lost');
        await untilKeys(partition, SUITE_TYPE, ['tenant-a']);
      });

      it('keep one of several lines, too, when any of them was announced since', async () => {
        const partition = freshPartition();
        const [one, two] = [aReadyLine(), aReadyLine({ mode: 'onDemand' })];
        await store.announceLines(partition, [one, two], NOW_MS);
        await store.announceLines(partition, [one], NOW_MS + 1);
        expect(await store.retireLine(partition, one, NOW_MS)).toBe('lost');
        expect(await store.retireLine(partition, two, NOW_MS)).toBe('lost');
        const [backlog] = await store.readBacklogs(partition, SUITE_TYPE, ['tenant-a']);
        expect(backlog?.lines.map(({ mode }) => mode).toSorted()).toEqual(['onDemand', 'queued']);
      });

      it('come back when they are announced again', async () => {
        const partition = freshPartition();
        await store.announceLines(partition, [aReadyLine()], NOW_MS);
        await store.retireLine(partition, aReadyLine(), NOW_MS);
        await store.announceLines(partition, [aReadyLine()], NOW_MS + 1);
        await untilKeys(partition, SUITE_TYPE, ['tenant-a']);
      });

      it('keep every line when ten submitters announce at once', { timeout: CONCURRENT_MS }, async () => {
        const partition = freshPartition();
        const lines = times(10, (at) => aReadyLine({ sub: at }));
        await Promise.all(lines.map((line) => store.announceLines(partition, [line], NOW_MS)));
        await vi.waitFor(async () => {
          const { keys } = await store.readKeys(partition, SUITE_TYPE, 10);
          expect(keys.flatMap((key) => key.lines.map(({ sub = 0 }) => sub)).sort()).toEqual(
            lines.map(({ sub }) => sub),
          );
        }, SHOWN);
      });
    });

    describe('the lease', () => {
      it('is free at first, and its first epoch is 1', async () => {
        const partition = freshPartition();
        expect(await store.acquireLease(partition, 'one', NOW_MS, LEASE_MS)).toEqual({
          kind: 'acquired',
          epoch: 1,
          expiresAtMs: NOW_MS + LEASE_MS,
        });
      });

      it('is held until it expires, to the very millisecond', async () => {
        const partition = freshPartition();
        await store.acquireLease(partition, 'one', NOW_MS, LEASE_MS);
        expect(await store.acquireLease(partition, 'two', NOW_MS + LEASE_MS - 1, LEASE_MS)).toEqual({
          kind: 'held',
          epoch: 1,
          expiresAtMs: NOW_MS + LEASE_MS,
          holder: 'one',
        });
        expect(await store.acquireLease(partition, 'two', NOW_MS + LEASE_MS, LEASE_MS)).toMatchObject({
          kind: 'acquired',
          epoch: 2,
        });
      });

      it('lasts longer when it is renewed', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        expect(await store.renewLease(fence, NOW_MS + 15_000, LEASE_MS)).toBe('renewed');
        expect(await store.acquireLease(partition, 'two', NOW_MS + LEASE_MS, LEASE_MS)).toMatchObject({
          kind: 'held',
          expiresAtMs: NOW_MS + 15_000 + LEASE_MS,
        });
      });

      it('is free at once when it is given back, and its next epoch is greater', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        expect(await store.releaseLease(fence)).toBe('released');
        expect(await store.acquireLease(partition, 'two', NOW_MS + 1, LEASE_MS)).toMatchObject({
          kind: 'acquired',
          epoch: fence.epoch + 1,
        });
      });

      it('says up to which wake its last holders have looked', async () => {
        const partition = freshPartition();
        const first = await lease(partition);
        await store.releaseLease(first, 7);
        const second = await store.acquireLease(partition, 'two', NOW_MS + 1, LEASE_MS);
        expect(second).toMatchObject({ kind: 'acquired', wakesSeen: 7 });
        // Who gives it back without a word has looked no further.
        await store.releaseLease({ partition, epoch: second.epoch });
        expect(await store.acquireLease(partition, 'three', NOW_MS + 2, LEASE_MS)).toMatchObject({
          kind: 'acquired',
          wakesSeen: 7,
        });
      });

      it('cannot be renewed once it was given back', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        await store.releaseLease(fence);
        expect(await store.renewLease(fence, NOW_MS + 1, LEASE_MS)).toBe('lost');
        expect((await store.acquireLease(partition, 'two', NOW_MS + 2, LEASE_MS)).kind).toBe('acquired');
      });

      it('cannot be renewed or given back by a former holder', async () => {
        const partition = freshPartition();
        const former = await lease(partition);
        const current = await lease(partition, NOW_MS + LEASE_MS);
        expect(await store.renewLease(former, NOW_MS + LEASE_MS, 10 * LEASE_MS)).toBe('lost');
        expect(await store.releaseLease(former)).toBe('lost');
        expect(await store.acquireLease(partition, 'three', NOW_MS + LEASE_MS + 1, LEASE_MS)).toEqual({
          kind: 'held',
          epoch: current.epoch,
          expiresAtMs: NOW_MS + 2 * LEASE_MS,
          holder: 'dispatcher',
        });
      });

      it('goes to one of two dispatchers that ask at once', { timeout: CONCURRENT_MS }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const partition = freshPartition();
          const outcomes = await Promise.all(
            ['one', 'two'].map((holder) => store.acquireLease(partition, holder, NOW_MS, LEASE_MS)),
          );
          expect(outcomes.map((outcome) => outcome.kind).sort()).toEqual(['acquired', 'held']);
        }
      });

      it('goes to one of eight that find it expired', { timeout: CONCURRENT_MS }, async () => {
        const partition = freshPartition();
        await lease(partition);
        const outcomes = await Promise.all(
          times(8, (at) => store.acquireLease(partition, `d${at}`, NOW_MS + LEASE_MS, LEASE_MS)),
        );
        expect(outcomes.filter((outcome) => outcome.kind === 'acquired')).toHaveLength(1);
        expect(outcomes.every((outcome) => outcome.epoch === 2)).toBe(true);
      });
    });

    describe('the wake counter', () => {
      it('is 0 before the first wake and counts every one, also concurrent ones', {
        timeout: CONCURRENT_MS,
      }, async () => {
        const partition = freshPartition();
        expect(await store.readWakes(partition)).toBe(0);
        await Promise.all(times(12, () => store.wake(partition)));
        expect(await store.readWakes(partition)).toBe(12);
        expect(await store.readWakes(freshPartition())).toBe(0);
      });

      it('never stands in the way of a commit', { timeout: CONCURRENT_MS }, async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const wakes = times(10, () => store.wake(partition));
        expect(await store.commit(fence, aCommit({ ledgers: [aLedger()] }))).toBe('committed');
        await Promise.all(wakes);
        expect(await store.readWakes(partition)).toBe(10);
      });
    });

    describe('committing', () => {
      it('makes reservations, which the next load shows in full', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation([], {
          jobs: new Map([
            [0, aReservedJob({ id: 'a', version: 3, attempt: 2 }, { conflictKey: 'catalogue/photos' })],
            [7, aReservedJob({ id: 'b' }, { estimatedCostMs: 1_234.5, tier: 'gold', fairnessKey: '' })],
          ]),
        });
        expect(await store.commit(fence, aCommit({ reserve: [reservation] }))).toBe('committed');
        const state = await store.loadPartition(partition, NOW_MS);
        expect(state).toEqual({
          epoch: fence.epoch,
          turn: 1,
          parks: false,
          reservations: [reservation],
          gone: [],
          workers: [],
          controls: [],
          ledgers: [],
          estimates: [],
          dueShards: 1,
          loans: [],
          requests: [],
        });
      });

      it('writes ledgers and estimates over what was there', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const [first, second] = [aLedger({ settledCostMs: 1 }), aLedger({ settledCostMs: 2.5 })];
        const [older, newer] = [anEstimate({ samples: 1 }), anEstimate({ samples: 2, varianceMs2: 0 })];
        await store.commit(fence, aCommit({ ledgers: [first], estimates: [older] }));
        await store.commit(fence, aCommit({ ledgers: [second], estimates: [newer] }));
        expect(await store.getLedgers(partition, ['tenant-a'])).toEqual([second]);
        expect(await store.getEstimates(partition, [{ type: 'resize', resourceId: '' }])).toEqual([newer]);
      });

      it('drops places of a reservation, and the reservation with its last place', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation([{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
        await store.commit(fence, aCommit({ reserve: [reservation] }));
        await store.commit(fence, aCommit({ drop: [{ reservation, positions: [0, 2] }] }));
        const [left] = (await store.loadPartition(partition, NOW_MS)).reservations;
        expect([...(left?.jobs.keys() ?? [])]).toEqual([1]);
        if (left === undefined) return;
        await store.commit(fence, aCommit({ drop: [{ reservation: left, positions: [1] }] }));
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([]);
      });

      it('postpones when a reservation is looked at', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation();
        await store.commit(fence, aCommit({ reserve: [reservation] }));
        await store.commit(fence, aCommit({ postpone: [{ reservation, checkAtMs: NOW_MS + 99 }] }));
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([
          { ...reservation, checkAtMs: NOW_MS + 99 },
        ]);
      });

      it('follows the turn that it knows, once: a request that comes again changes nothing', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const { turn } = await store.loadPartition(partition, NOW_MS);
        const commit = aCommit({ turn, ledgers: [aLedger({ settledCostMs: 1 })] });
        expect(await store.commit(fence, commit)).toBe('committed');
        expect(await store.commit(fence, { ...commit, turn: turn + 1, ledgers: [aLedger()] })).toBe(
          'committed',
        );
        await expect(store.commit(fence, commit)).rejects.toMatchObject({ name: 'StaleCommit' });
        expect(await store.getLedgers(partition, [aLedger().fairnessKey])).toEqual([aLedger()]);
        expect((await store.loadPartition(partition, NOW_MS)).turn).toBe(turn + 2);
      });

      it('keeps what is settled settled, tidied or not, and shows it to nobody', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation([{ id: 'a' }, { id: 'b' }]);
        await store.commit(fence, aCommit({ reserve: [reservation] }));
        await store.commit(fence, aCommit({ drop: [{ reservation, positions: [0] }] }));
        await store.tidy(partition);
        const left = { ...reservation, jobs: new Map([...reservation.jobs].slice(1)) };
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([left]);
        await store.commit(fence, aCommit({ drop: [{ reservation, positions: [1] }] }));
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([]);
        await store.tidy(partition);
        await store.commit(fence, aCommit());
        await store.tidy(partition);
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([]);
      });

      it('answers every ledger, however many keys there are', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const keys = times(240, (at) => `customer-of-a-longer-name-${at}`);
        for (let from = 0; from < keys.length; from += 60) {
          const ledgers = keys
            .slice(from, from + 60)
            .map((fairnessKey, at) => aLedger({ fairnessKey, settledCostMs: from + at + 0.25 }));
          await store.commit(fence, aCommit({ ledgers }));
        }
        const again = aLedger({ fairnessKey: keys[3] ?? '', settledCostMs: 77_777 });
        await store.commit(fence, aCommit({ ledgers: [again] }));
        const costs = (await store.getLedgers(partition, keys)).map((each) => each?.settledCostMs);
        expect(costs).toEqual(keys.map((_, at) => (at === 3 ? 77_777 : at + 0.25)));
        const { ledgers } = await store.loadPartition(partition, NOW_MS);
        expect(ledgers).toContainEqual(again);
        expect(ledgers.length).toBeLessThan(keys.length);
      });

      it('answers all that ledgers say, from the partition summary and from items of their own', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const says: readonly Partial<Ledger>[] = [
          {},
          { presentUntilMs: NOW_MS + 1 },
          { isUndecided: true },
          { later: times(LATER_JOBS_MAX, (hash) => ({ hash, untilMs: NOW_MS + 9 - hash })) },
          { presentUntilMs: NOW_MS + 1, isUndecided: true, later: [{ hash: 7, untilMs: NOW_MS + 2 }] },
        ];
        const ledgers = times(90, (at) =>
          aLedger({ fairnessKey: `customer-of-a-longer-name-${at}`, ...says[at % says.length] }),
        );
        await store.commit(fence, aCommit({ ledgers }));
        const keys = ledgers.map(({ fairnessKey }) => fairnessKey);
        expect(await store.getLedgers(partition, keys)).toEqual(ledgers);
        const state = await store.loadPartition(partition, NOW_MS);
        expect(state.ledgers.length).toBeLessThan(ledgers.length);
        expect(ledgers).toEqual(expect.arrayContaining([...state.ledgers]));
      });

      it('does everything of one commit together', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const [gone, kept, made] = [aReservation(), aReservation(), aReservation([{ id: 'x' }, { id: 'y' }])];
        await store.commit(fence, aCommit({ reserve: [gone, kept] }));
        const outcome = await store.commit(
          fence,
          aCommit({
            drop: [{ reservation: gone, positions: [0] }],
            postpone: [{ reservation: kept, checkAtMs: NOW_MS + 5 }],
            ledgers: [aLedger()],
            estimates: [anEstimate()],
            reserve: [made],
            parks: true,
          }),
        );
        expect(outcome).toBe('committed');
        const { reservations, parks } = await store.loadPartition(partition, NOW_MS);
        expect(parks).toBe(true);
        expect(new Map(reservations.map((each) => [each.batchId, each]))).toEqual(
          new Map<string, Reservation>([
            [kept.batchId, { ...kept, checkAtMs: NOW_MS + 5 }],
            [made.batchId, made],
          ]),
        );
      });

      it('changes nothing for a dispatcher whose lease another one has taken', async () => {
        const partition = freshPartition();
        const former = await lease(partition);
        const kept = aReservation();
        await store.commit(former, aCommit({ reserve: [kept] }));
        await lease(partition, NOW_MS + LEASE_MS);
        const outcome = await store.commit(
          former,
          aCommit({
            drop: [{ reservation: kept, positions: [0] }],
            ledgers: [aLedger()],
            estimates: [anEstimate()],
            reserve: [aReservation()],
            parks: true,
          }),
        );
        expect(outcome).toBe('lost');
        expect(await store.loadPartition(partition, NOW_MS)).toMatchObject({
          reservations: [kept],
          parks: false,
        });
        expect(await store.getLedgers(partition, ['tenant-a'])).toEqual([undefined]);
        expect(await store.getEstimates(partition, [{ type: 'resize', resourceId: '' }])).toEqual([
          undefined,
        ]);
      });

      it('is whole or lost when the lease changes hands meanwhile', { timeout: CONCURRENT_MS }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const partition = freshPartition();
          const former = await lease(partition);
          const reservation = aReservation();
          const [outcome, taken] = await Promise.all([
            store
              .commit(former, aCommit({ reserve: [reservation], ledgers: [aLedger()] }))
              .catch((error: Error) => error.name),
            store.acquireLease(partition, 'two', NOW_MS + LEASE_MS, LEASE_MS),
          ]);
          expect(taken).toMatchObject({ kind: 'acquired', epoch: 2 });
          expect(['committed', 'lost', 'StoreThrottled']).toContain(outcome);
          const isThere = outcome === 'committed';
          const { reservations } = await store.loadPartition(partition, NOW_MS);
          expect(reservations).toEqual(isThere ? [reservation] : []);
          expect(await store.getLedgers(partition, ['tenant-a'])).toEqual([isThere ? aLedger() : undefined]);
        }
      });

      it('takes a hundred items, the check of the epoch being one of them', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const ledgers = times(99, (at) => aLedger({ fairnessKey: `key-${at}`, settledCostMs: at }));
        expect(await store.commit(fence, aCommit({ ledgers }))).toBe('committed');
        const keys = ledgers.map((ledger) => ledger.fairnessKey);
        expect(await store.getLedgers(partition, keys)).toEqual(ledgers);
      });

      it('refuses more than a hundred items and changes nothing', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const ledgers = times(100, (at) => aLedger({ fairnessKey: `key-${at}` }));
        await expect(store.commit(fence, aCommit({ ledgers }))).rejects.toMatchObject({
          name: 'CommitTooLarge',
        });
        expect(await store.getLedgers(partition, ['key-0', 'key-99'])).toEqual([undefined, undefined]);
      });

      it('refuses more than a hundred items beside its fence and its own record, and changes nothing', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reserve = times(99, () => aReservation());
        await expect(store.commit(fence, aCommit({ reserve }))).rejects.toMatchObject({
          name: 'CommitTooLarge',
        });
        // A loan takes two, and the request that it grants a third.
        const lend = times(
          33,
          (at): Loan => ({
            loanId: `${partition}-1-0-${at}`,
            from: partition,
            to: 20_000 + at,
            units: 1,
            scopes: [],
            expiresAtMs: NOW_MS + 30_000,
          }),
        );
        await expect(store.commit(fence, aCommit({ lend }))).rejects.toMatchObject({
          name: 'CommitTooLarge',
        });
        expect(await store.loadPartition(partition, NOW_MS)).toMatchObject({ turn: 0, reservations: [] });
        expect(await store.commit(fence, aCommit({ reserve: reserve.slice(1) }))).toBe('committed');
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toHaveLength(98);
      });

      it('refuses to name an item twice and changes nothing', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation();
        await store.commit(fence, aCommit({ reserve: [reservation] }));
        const twice = aCommit({
          drop: [{ reservation, positions: [0] }],
          postpone: [{ reservation, checkAtMs: NOW_MS }],
          ledgers: [aLedger()],
        });
        await expect(store.commit(fence, twice)).rejects.toMatchObject({ name: 'CommitAmbiguous' });
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([reservation]);
        expect(await store.getLedgers(partition, ['tenant-a'])).toEqual([undefined]);
      });

      it('refuses to change a reservation that is gone, and leaves nothing half-written', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = aReservation();
        await store.commit(fence, aCommit({ reserve: [reservation] }));
        await store.commit(fence, aCommit({ drop: [{ reservation, positions: [0] }] }));
        const outdated = aCommit({ postpone: [{ reservation, checkAtMs: 1 }], ledgers: [aLedger()] });
        await expect(store.commit(fence, outdated)).rejects.toMatchObject({ name: 'StaleCommit' });
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([]);
        expect(await store.getLedgers(partition, ['tenant-a'])).toEqual([undefined]);
      });

      it('remembers how steadily the partition is read, until another commit says so', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const attendanceNow = async () => (await store.loadPartition(partition, NOW_MS)).attendance;
        expect(await attendanceNow()).toBeUndefined();
        const attendance = { sinceMs: NOW_MS - 5_000, atMs: NOW_MS };
        await store.commit(fence, aCommit({ attendance }));
        await store.commit(fence, aCommit({ ledgers: [aLedger()] }));
        expect(await attendanceNow()).toEqual(attendance);
        const held = { ...attendance, atMs: NOW_MS + 1, heldBackSinceMs: NOW_MS + 1 };
        await store.commit(fence, aCommit({ attendance: held }));
        expect(await attendanceNow()).toEqual(held);
      });

      it('remembers the last look at the workers, and of two that come at once lets one go on', async () => {
        const partition = freshPartition();
        const lookoutNow = async () => (await store.loadPartition(partition, NOW_MS)).lookout;
        expect(await lookoutNow()).toBeUndefined();
        const first = aLookout();
        expect(await store.keepLookout(partition, undefined, first)).toBe('applied');
        expect(await lookoutNow()).toEqual(first);
        const next = aLookout({ atMs: NOW_MS + 7_000, nextAtMs: NOW_MS + 14_000 });
        const both = await Promise.all([
          store.keepLookout(partition, first, next),
          store.keepLookout(partition, first, { ...next, atMs: NOW_MS + 7_001 }),
        ]);
        expect(both.toSorted()).toEqual(['applied', 'superseded']);
        expect(await store.keepLookout(partition, undefined, first)).toBe('superseded');
        expect(await store.keepLookout(partition, first, first)).toBe('superseded');
        expect((await lookoutNow())?.nextAtMs).toBe(NOW_MS + 14_000);
      });

      it.each([
        { of: 'its next look', change: { nextAtMs: NOW_MS + 8_000 } },
        { of: 'what it has judged', change: { judgedUntilMs: NOW_MS } },
      ])('lets no look go on that has not seen $of', async ({ change }) => {
        const partition = freshPartition();
        const first = aLookout();
        await store.keepLookout(partition, undefined, first);
        const next = aLookout({ atMs: NOW_MS + 9_000 });
        expect(await store.keepLookout(partition, { ...first, ...change }, next)).toBe('superseded');
        expect(await store.keepLookout(partition, first, next)).toBe('applied');
      });

      it('remembers when keys were lifted, and whether none has come unseen since', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const lifted = async () => {
          const { liftedAtMs, isLifted = false } = await store.loadPartition(partition, NOW_MS);
          return { liftedAtMs, isLifted };
        };
        expect(await lifted()).toEqual({ liftedAtMs: undefined, isLifted: false });
        await store.commit(fence, aCommit({ liftedAtMs: NOW_MS, isLifted: true }));
        await store.commit(fence, aCommit({ ledgers: [aLedger()] }));
        expect(await lifted()).toEqual({ liftedAtMs: NOW_MS, isLifted: true });
        await store.commit(fence, aCommit({ isLifted: false }));
        expect(await lifted()).toEqual({ liftedAtMs: NOW_MS, isLifted: false });
      });

      it('commits nothing at all without complaint', async () => {
        const fence = await lease(freshPartition());
        expect(await store.commit(fence, aCommit())).toBe('committed');
      });
    });

    describe('sizes', { timeout: CONCURRENT_MS }, () => {
      it('takes a job with all of its content and the longest names, through its life', async () => {
        const partition = freshPartition();
        const { payload, result = null, checkpoint = null, error } = largestJob();
        const resourceId = KEY;
        const asked = { partition, type: NAME, fairnessKey: KEY, resourceId, payload };
        const { job, worker } = await runningJob(aJob(asked));
        expect(await store.saveCheckpoint(job, worker, checkpoint)).toBe('applied');
        expect((await finish(job, worker, { kind: 'succeeded', result })).kind).toBe('finished');
        expect(await stored(job.id)).toMatchObject({ payload, checkpoint, result });
        const failed = await runningJob(aJob(asked));
        if (error === undefined) throw new Error('no error');
        await store.saveCheckpoint(failed.job, failed.worker, checkpoint);
        await finish(failed.job, failed.worker, { kind: 'failed', error });
        expect(await stored(failed.job.id)).toMatchObject({ payload, checkpoint, error });
      });

      it('takes a batch of fifty jobs with the longest names, and the ledgers of all their keys', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const reservation = largestReservation();
        const ledgers = times(45, largestLedger);
        const estimates = times(45, (at) => largestEstimate(at, at % 2 === 0 ? '' : KEY));
        expect(await store.commit(fence, aCommit({ reserve: [reservation], ledgers, estimates }))).toBe(
          'committed',
        );
        const state = await store.loadPartition(partition, NOW_MS);
        expect(state.reservations).toEqual([reservation]);
        const keys = ledgers.map(({ fairnessKey }) => fairnessKey);
        expect(await store.getLedgers(partition, keys)).toEqual(ledgers);
        expect(await store.getEstimates(partition, estimates)).toEqual(estimates);
      });

      it('takes a worker with all of its slots busy and all the progress that fits', async () => {
        const partition = freshPartition();
        const record = largestWorker();
        expect(await store.registerWorker(partition, record)).toBe('applied');
        expect(await store.heartbeat(partition, record)).toBe('applied');
        expect((await store.loadPartition(partition, NOW_MS)).workers).toEqual([record]);
      });

      it('takes the longest rejection and control', async () => {
        const partition = freshPartition();
        const rejection = largestRejection();
        await store.recordRejections([rejection]);
        expect(await store.listRejections(rejection.sourceId)).toEqual([rejection]);
        const { scope, ...change } = largestControl;
        expect(await store.changeControl(partition, scope, change)).toEqual({
          kind: 'changed',
          control: largestControl,
        });
      });

      it('refuses what is larger than an item, by its name, and writes nothing', async () => {
        const partition = freshPartition();
        const tooLarge = { name: 'ItemTooLarge' };
        const job = aJob({ partition, payload: 'x'.repeat(ITEM_BYTES_MAX) });
        await expect(store.createJobs([job])).rejects.toMatchObject({
          ...tooLarge,
          key: `job/${job.id} job`,
        });
        expect(await store.getJobs([job.id])).toEqual([undefined]);

        const record = aWorkerRecord();
        await store.registerWorker(partition, record);
        const occupants = times(400, (at) => ({
          claimId: `1-1.${at}`,
          jobId: 'j',
          progress: 'p'.repeat(1_022),
        }));
        await expect(store.heartbeat(partition, { ...record, occupants })).rejects.toMatchObject(tooLarge);
        expect((await store.loadPartition(partition, NOW_MS)).workers).toEqual([record]);

        const fence = await lease(partition);
        const reserve = [largestReservation('1-1', 90)];
        await expect(store.commit(fence, aCommit({ reserve }))).rejects.toMatchObject(tooLarge);
        const many = times(18, (at) => largestReservation(`1-${at}`));
        await expect(store.commit(fence, aCommit({ reserve: many }))).rejects.toMatchObject({
          name: 'TransactionTooLarge',
        });
        expect(await store.loadPartition(partition, NOW_MS)).toMatchObject({ turn: 0, reservations: [] });
        expect(await store.commit(fence, aCommit({ reserve: [aReservation()] }))).toBe('committed');
      });

      it('keeps what is known of many reservations, however often they are looked at and shrink', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const loaded = async () => (await store.loadPartition(partition, NOW_MS)).reservations;
        for (let from = 0; from < 240; from += 60) {
          const reserve = times(60, (at) =>
            aReservation(times(3, (id) => ({ id: `job-${from + at}-${id}` }))),
          );
          await store.commit(fence, aCommit({ reserve }));
        }
        const batches = await loaded();
        expect(batches).toHaveLength(240);
        const meant = new Map<string, Reservation>();
        for (let round = 0; round < 2; round += 1) {
          for (let from = 0; from < 240; from += 40) {
            const some = batches.slice(from, from + 40).map((each) => meant.get(each.batchId) ?? each);
            const drop = some.slice(0, 20).map((reservation) => ({ reservation, positions: [round] }));
            const checkAtMs = NOW_MS + 1_000 * round + from;
            const postpone = some.slice(20).map((reservation) => ({ reservation, checkAtMs }));
            for (const { reservation } of drop) {
              const jobs = new Map([...reservation.jobs].filter(([place]) => place !== round));
              meant.set(reservation.batchId, { ...reservation, jobs });
            }
            for (const { reservation } of postpone)
              meant.set(reservation.batchId, { ...reservation, checkAtMs });
            expect(await store.commit(fence, aCommit({ drop, postpone }))).toBe('committed');
          }
          // By a process that knows nothing of it, and by the one that wrote it.
          expect(new Map((await loaded()).map((each) => [each.batchId, each]))).toEqual(meant);
        }
        const whole = [...meant.values()].slice(0, 20).map((reservation) => ({
          reservation,
          positions: [...reservation.jobs.keys()],
        }));
        await store.commit(fence, aCommit({ drop: whole }));
        await store.tidy(partition);
        expect(await loaded()).toHaveLength(220);
      });
    });

    describe('loading a partition', () => {
      it('finds nothing in one that nobody used', async () => {
        expect(await store.loadPartition(freshPartition(), NOW_MS)).toEqual({
          epoch: 0,
          turn: 0,
          parks: false,
          reservations: [],
          gone: [],
          workers: [],
          controls: [],
          ledgers: [],
          estimates: [],
          dueShards: 1,
          loans: [],
          requests: [],
        });
      });

      it('reads all of it, however much', { timeout: CONCURRENT_MS }, async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const batches = times(60, (batch) =>
          aReservation(times(50, (at) => ({ id: `${'long-job-id-'.repeat(25)}${batch}-${at}` }))),
        );
        for (let from = 0; from < batches.length; from += 10) {
          await store.commit(fence, aCommit({ reserve: batches.slice(from, from + 10) }));
        }
        const { reservations } = await store.loadPartition(partition, NOW_MS);
        expect(new Set(reservations.map((each) => each.batchId))).toEqual(
          new Set(batches.map((each) => each.batchId)),
        );
        expect(reservations.every((each) => each.jobs.size === 50)).toBe(true);
      });

      it('shows workers until they expire, to the very millisecond', async () => {
        const partition = freshPartition();
        const worker = aWorkerRecord({
          expiresAtMs: NOW_MS + 1,
          occupants: [
            { claimId: '1-1.0', jobId: 'a', progress: { done: 3, of: 7 } },
            { claimId: '1-1.1', jobId: 'b' },
          ],
        });
        const lasting = aWorkerRecord({ expiresAtMs: NOW_MS + 2 });
        expect(await store.registerWorker(partition, worker)).toBe('applied');
        await store.registerWorker(partition, lasting);
        const before = await store.loadPartition(partition, NOW_MS);
        expect(new Map(before.workers.map((each) => [each.workerId, each]))).toEqual(
          new Map([worker, lasting].map((each) => [each.workerId, each])),
        );
        expect((await store.loadPartition(partition, NOW_MS + 1)).workers).toEqual([lasting]);
        expect((await store.loadPartition(freshPartition(), NOW_MS)).workers).toEqual([]);
      });

      it("shows the operators' controls until they are taken away", async () => {
        const partition = freshPartition();
        const control = { scope: 'type/resize', paused: true, maxConcurrency: 3 };
        const other = { scope: 'key/tenant/a', paused: false, weight: 2.5 };
        await store.changeControl(partition, 'type/resize', { paused: true });
        const answered = (answer: Control) => ({ kind: 'changed', control: answer });
        expect(await store.changeControl(partition, 'type/resize', { maxConcurrency: 3 })).toEqual(
          answered(control),
        );
        expect(await store.changeControl(partition, 'key/tenant/a', { weight: 2.5 })).toEqual(
          answered(other),
        );
        const shown = (await store.loadPartition(partition, NOW_MS)).controls;
        expect(new Map(shown.map((each) => [each.scope, each]))).toEqual(
          new Map([control, other].map((each) => [each.scope, each])),
        );
        expect(await store.changeControl(partition, 'type/resize', { paused: false })).toEqual(
          answered({ scope: 'type/resize', paused: false, maxConcurrency: 3 }),
        );
        const idle = answered({ scope: 'type/resize', paused: false });
        for (let times = 0; times < 2; times += 1)
          expect(await store.changeControl(partition, 'type/resize', { maxConcurrency: null })).toEqual(idle);
        expect((await store.loadPartition(partition, NOW_MS)).controls).toEqual([other]);
      });

      it('keeps what each of several operators changes in the same moment', {
        timeout: CONCURRENT_MS,
      }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const partition = freshPartition();
          const change = (part: ControlChange) => store.changeControl(partition, 'key/tenant', part);
          await change({ paused: true, maxConcurrency: 9 });
          await Promise.all([
            change({ paused: false }),
            change({ maxConcurrency: 3 }),
            change({ weight: 2 }),
            store.changeControl(partition, 'pool', { paused: true }),
          ]);
          const { controls } = await store.loadPartition(partition, NOW_MS);
          expect(controls.toSorted((one, other) => (one.scope < other.scope ? -1 : 1))).toEqual([
            { scope: 'key/tenant', paused: false, maxConcurrency: 3, weight: 2 },
            { scope: 'pool', paused: true },
          ]);
        }
      });

      it('tells whoever wants another thing in the same moment whose change stands, and keeps that', {
        timeout: CONCURRENT_MS,
      }, async () => {
        for (let round = 0; round < 10; round += 1) {
          const partition = freshPartition();
          const caps = [1, 2, 3, 4];
          const outcomes = await Promise.all(
            caps.map((maxConcurrency) => store.changeControl(partition, 'pool', { maxConcurrency })),
          );
          const [control] = (await store.loadPartition(partition, NOW_MS)).controls;
          const stands = caps.indexOf(control?.maxConcurrency ?? 0);
          expect(outcomes[stands]).toMatchObject({ kind: 'changed' });
          for (const [at, { kind, control: shown }] of outcomes.entries())
            if (kind === 'superseded') expect(shown.maxConcurrency).not.toBe(caps[at]);
        }
      });

      it('keeps a control that one operator makes while another takes the last one away', {
        timeout: CONCURRENT_MS,
      }, async () => {
        for (let round = 0; round < 10; round += 1) {
          const partition = freshPartition();
          await store.changeControl(partition, 'pool', { paused: true });
          await Promise.all([
            store.changeControl(partition, 'pool', { paused: false }),
            store.changeControl(partition, 'pool', { maxConcurrency: 1 }),
          ]);
          expect((await store.loadPartition(partition, NOW_MS)).controls).toEqual([
            { scope: 'pool', paused: false, maxConcurrency: 1 },
          ]);
        }
      });
    });

    describe('ledgers and estimates', () => {
      it('are answered in the order asked, with nothing where there is none', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const ledgers: Ledger[] = times(40, (at) => aLedger({ fairnessKey: `key-${at}`, settledCostMs: at }));
        const estimates = times(40, (at) => anEstimate({ resourceId: `r-${at}`, meanMs: at }));
        await store.commit(fence, aCommit({ ledgers, estimates }));
        const keys = ['none', ...ledgers.map((ledger) => ledger.fairnessKey).reverse()];
        expect(await store.getLedgers(partition, keys)).toEqual([undefined, ...[...ledgers].reverse()]);
        const ids = [{ type: 'other', resourceId: 'r-1' }, ...estimates].map(({ type, resourceId }) => ({
          type,
          resourceId,
        }));
        expect(await store.getEstimates(partition, ids)).toEqual([undefined, ...estimates]);
        expect(await store.getLedgers(freshPartition(), ['key-1'])).toEqual([undefined]);
      });

      it('are read in more than one batch, also when a key stands twice', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const first = aLedger({ fairnessKey: 'key-0' });
        await store.commit(fence, aCommit({ ledgers: [first] }));
        const keys = [...times(130, (at) => `key-${at}`), 'key-0'];
        const answers = await store.getLedgers(partition, keys);
        expect(answers).toHaveLength(131);
        expect([answers[0], answers[1], answers[130]]).toEqual([first, undefined, first]);
        expect(await store.getLedgers(partition, [])).toEqual([]);
        expect(await store.getEstimates(partition, [])).toEqual([]);
      });
    });

    describe('claiming', () => {
      it('wins a pending job at the planned version', async () => {
        const job = await created(aJob());
        const request = aClaimRequest(job, { epoch: 5, fleet: 'general' });
        expect(await store.claim([request])).toEqual(['claimed']);
        const { claimId, epoch, batchId, fleet, claimedAtMs } = request;
        expect(await stored(job.id)).toEqual({
          ...job,
          state: 'claimed',
          version: 2,
          claim: { claimId, epoch, batchId, fleet, claimedAtMs },
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
        expect(await store.getJobs([requests[3]?.jobId ?? ''])).toEqual([undefined]);
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
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
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
    });

    describe('parking', () => {
      const parkedIds = async (partition: number): Promise<readonly string[]> =>
        (await store.readBlocked(partition, 'catalogue/photos', 10)).jobs.map(({ id }) => id);

      it('moves a pending job from its ready line to the blocked line, from where it can be claimed', async () => {
        const partition = freshPartition();
        const [first, second] = [aJob({ partition }), aJob({ partition })];
        await store.createJobs([first, second]);
        const fence = await lease(partition);
        expect(await store.park(fence, [first], 'catalogue/photos')).toEqual(['applied']);
        await expect.poll(() => parkedIds(partition), SHOWN).toEqual([first.id]);
        await untilLine(partition, aReadyLine(), [second.id]);
        expect(await store.getJobs([first.id])).toEqual([first]);
        expect(await store.claim([aClaimRequest(first)])).toEqual(['claimed']);
        await expect.poll(() => parkedIds(partition), SHOWN).toEqual([]);
      });

      it('shows the first jobs of each group, whatever stands behind them', async () => {
        const partition = freshPartition();
        const names = [
          { type: 'resize', fairnessKey: 'a' },
          { type: 'resize', fairnessKey: 'a/b' },
          { type: 'resize', fairnessKey: 'a~' },
          { type: 'resize', fairnessKey: 'a', mode: 'onDemand' as const },
          { type: 'resize/2', fairnessKey: 'a' },
          { type: 'res', fairnessKey: '' },
        ];
        const groups = names.map((name) =>
          times(7, (at) => aJob({ partition, ...name, readyAtMs: NOW_MS + at })),
        );
        await store.createJobs(groups.flat());
        const fence = await lease(partition);
        await store.park(fence, groups.flat(), 'catalogue/photos');
        const heads = async (count: number) => {
          const found: JobHead[] = [];
          let after: string | undefined;
          for (let bites = 0; bites < 10; bites += 1) {
            const { jobs, next } = await store.readBlocked(partition, 'catalogue/photos', count, after);
            found.push(...jobs);
            if (next === undefined) break;
            after = next;
          }
          return found.map(({ id }) => id);
        };
        for (const count of [1, 2, 100]) {
          await vi.waitFor(async () => {
            const found = await heads(count);
            for (const group of groups) {
              const shown = found.filter((id) => group.some((job) => job.id === id));
              expect(shown).toEqual(group.slice(0, shown.length).map(({ id }) => id));
              expect(shown.length).toBeGreaterThanOrEqual(1);
              expect(shown.length).toBeLessThanOrEqual(BLOCKED_HEADS);
            }
          }, SHOWN);
        }
      });

      it('is undone at exactly the version: the job stands in its ready line again', async () => {
        const partition = freshPartition();
        const [back, gone, elsewhere] = times(3, () => aJob({ partition })) as [Job, Job, Job];
        await store.createJobs([back, gone, elsewhere]);
        const fence = await lease(partition);
        await store.park(fence, [back, gone], 'catalogue/photos');
        await store.claim([aClaimRequest(gone)]);
        expect(await store.unpark([back, gone, elsewhere, aJob({ partition })], 'catalogue/photos')).toEqual([
          'applied',
          'superseded',
          'superseded',
          'superseded',
        ]);
        await untilLine(
          partition,
          aReadyLine(),
          [back, elsewhere].map(({ id }) => id),
        );
        expect(await stored(back.id)).toEqual(back);
        await expect.poll(() => parkedIds(partition), SHOWN).toEqual([]);
      });

      it('leaves a job alone that has moved on, and moves the others', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const [gone, waiting] = [aJob({ partition }), aJob({ partition })];
        await store.createJobs([gone, waiting]);
        await store.claim([aClaimRequest(gone)]);
        const outcomes = await store.park(fence, [gone, aJob({ partition }), waiting], 'catalogue/photos');
        expect(outcomes).toEqual(['superseded', 'superseded', 'applied']);
        await expect.poll(() => parkedIds(partition), SHOWN).toEqual([waiting.id]);
      });

      it('is lost to a dispatcher whose lease another one has taken', async () => {
        const partition = freshPartition();
        const former = await lease(partition);
        const job = aJob({ partition });
        await store.createJobs([job]);
        await store.releaseLease(former);
        await lease(partition);
        expect(await store.park(former, [job], 'catalogue/photos')).toBe('lost');
        expect(await parkedIds(partition)).toEqual([]);
      });

      it('is remembered by marks of its conflict keys, until exactly these are taken away', async () => {
        const [partition, other] = [freshPartition(), freshPartition()];
        const odd = `album/${'ä'.repeat(500)}`;
        await store.markParked(partition, ['a', 'b', odd], NOW_MS);
        await store.markParked(partition, ['b'], NOW_MS + 1);
        const marks = [
          { conflictKey: 'a', parkedAtMs: NOW_MS },
          { conflictKey: odd, parkedAtMs: NOW_MS },
          { conflictKey: 'b', parkedAtMs: NOW_MS + 1 },
        ];
        const byKey = (found: readonly ParkedMark[]): readonly ParkedMark[] =>
          found.toSorted((one, another) => (one.conflictKey < another.conflictKey ? -1 : 1));
        expect(byKey(await store.readParked(partition, ['b', 'c', odd, 'a', 'b']))).toEqual(marks);
        expect(await store.readParked(other, ['a'])).toEqual([]);
        expect(await store.readParked(partition, [])).toEqual([]);
        const first = await store.listParked(partition, 2);
        expect(first.marks).toHaveLength(2);
        const second = await store.listParked(partition, 2, first.next);
        expect(byKey([...first.marks, ...second.marks])).toEqual(marks);
        expect((await store.listParked(partition, 9)).next).toBeUndefined();
        expect(await store.unmarkParked(partition, { conflictKey: 'b', parkedAtMs: NOW_MS })).toBe(
          'superseded',
        );
        expect(await store.unmarkParked(partition, { conflictKey: 'a', parkedAtMs: NOW_MS })).toBe('applied');
        expect(await store.unmarkParked(partition, { conflictKey: 'a', parkedAtMs: NOW_MS })).toBe('applied');
        expect(byKey((await store.listParked(partition, 9)).marks)).toEqual(marks.slice(1));
      });

      it('keeps a mark as new as it was, whoever marks it later by an older time', async () => {
        const partition = freshPartition();
        for (const nowMs of [NOW_MS + 9, NOW_MS, NOW_MS + 9])
          await store.markParked(partition, ['a', `b ${nowMs}`], nowMs);
        const newest = { conflictKey: 'a', parkedAtMs: NOW_MS + 9 };
        expect(await store.readParked(partition, ['a'])).toEqual([newest]);
        expect(await store.unmarkParked(partition, { ...newest, parkedAtMs: NOW_MS })).toBe('superseded');
        expect(await store.unmarkParked(partition, newest)).toBe('applied');
      });

      it('is known from the commit before the first mark, until one takes it back', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const parks = async (): Promise<boolean> => (await store.loadPartition(partition, NOW_MS)).parks;
        await store.commit(fence, aCommit({ parks: true }));
        await store.commit(fence, aCommit());
        expect(await parks()).toBe(true);
        await store.commit(fence, aCommit({ parks: false }));
        expect(await parks()).toBe(false);
      });
    });

    describe('capacity between partitions', () => {
      const aLoan = (from: number, to: number, changes: Partial<Loan> = {}): Loan => ({
        loanId: `${from}-1-0-0`,
        from,
        to,
        units: 3,
        scopes: [
          { scope: 'type/resize', under: '8/2' },
          { scope: 'worker/a/b', under: '0001', fleet: 'farm' },
        ],
        expiresAtMs: NOW_MS + 30_000,
        ...changes,
      });
      const aRequest = (partition: number, askedAtMs = NOW_MS): LoanRequest => ({
        partition,
        wants: [
          { units: 2, scopes: ['pool', 'type/resize'], fleets: [] },
          { units: 1, scopes: [], fleets: ['images', 'films'] },
        ],
        askedAtMs,
        untilMs: NOW_MS + 10_000,
      });
      const loansOf = async (partition: number): Promise<readonly Loan[]> =>
        (await store.loadPartition(partition, NOW_MS)).loans;
      const requestsOf = async (partition: number): Promise<readonly LoanRequest[]> =>
        (await store.loadPartition(partition, NOW_MS)).requests;

      it('is asked for with one request of each partition, the latest', async () => {
        const partition = freshPartition();
        await store.askForLoan(partition, aRequest(1));
        await store.askForLoan(partition, aRequest(2));
        await store.askForLoan(partition, aRequest(1, NOW_MS + 5));
        expect(await requestsOf(partition)).toEqual([aRequest(1, NOW_MS + 5), aRequest(2)]);
      });

      it('is lent to the other partition at once, which grants its request', async () => {
        const [from, to] = [freshPartition(), freshPartition()];
        const fence = await lease(from);
        await store.askForLoan(from, aRequest(to));
        // No test's own partition.
        const other = 10_000;
        await store.askForLoan(from, aRequest(other));
        const loan = aLoan(from, to);
        expect(await store.commit(fence, aCommit({ lend: [loan] }))).toBe('committed');
        expect(await loansOf(from)).toEqual([loan]);
        expect(await loansOf(to)).toEqual([loan]);
        expect(await requestsOf(from)).toEqual([aRequest(other)]);
      });

      it('is given back by the borrower, in part or whole', async () => {
        const [from, to] = [freshPartition(), freshPartition()];
        const loan = aLoan(from, to);
        await store.commit(await lease(from), aCommit({ lend: [loan] }));
        const fence = await lease(to);
        expect(await store.commit(fence, aCommit({ giveBack: [{ loan, left: 1 }] }))).toBe('committed');
        for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([{ ...loan, units: 1 }]);
        // Of what it says, another one is left.
        await expect(store.commit(fence, aCommit({ giveBack: [{ loan, left: 0 }] }))).rejects.toMatchObject({
          name: 'StaleCommit',
        });
        const rest = { ...loan, units: 1 };
        expect(await store.commit(fence, aCommit({ giveBack: [{ loan: rest, left: 0 }] }))).toBe('committed');
        for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([]);
      });

      it('is moved by nobody whose lease another one has taken', async () => {
        const [from, to] = [freshPartition(), freshPartition()];
        const former = await lease(from);
        await store.releaseLease(former);
        const present = await lease(from);
        const loan = aLoan(from, to);
        expect(await store.commit(former, aCommit({ lend: [loan] }))).toBe('lost');
        expect(await loansOf(to)).toEqual([]);
        await store.commit(present, aCommit({ lend: [loan] }));
        const formerBorrower = await lease(to);
        await store.releaseLease(formerBorrower);
        await lease(to);
        expect(await store.commit(formerBorrower, aCommit({ giveBack: [{ loan, left: 0 }] }))).toBe('lost');
        expect(await loansOf(from)).toEqual([loan]);
      });

      it('is not lent twice under one name', async () => {
        const [from, to] = [freshPartition(), freshPartition()];
        const fence = await lease(from);
        const loan = aLoan(from, to);
        await store.commit(fence, aCommit({ lend: [loan] }));
        await expect(store.commit(fence, aCommit({ lend: [loan] }))).rejects.toMatchObject({
          name: 'StaleCommit',
        });
        expect(await loansOf(to)).toEqual([loan]);
      });
    });

    describe('the lock of a conflict key', () => {
      let keys = 0;
      const freshKey = (): string => {
        keys += 1;
        return `album/cats-${keys}`;
      };
      const TURN_MS = 10_000;
      const claimWith = async (
        conflictKey: string,
        partition: number,
        claimId: string,
        nowMs = NOW_MS,
      ): Promise<{ readonly job: Job; readonly outcome: ClaimOutcome | undefined }> => {
        const job = await created(aJob({ partition, resourceId: 'cats' }));
        const request = aClaimRequest(job, { claimId, claimedAtMs: nowMs, lock: { conflictKey, partition } });
        const [outcome] = await store.claim([request]);
        return { job, outcome };
      };
      const lockOf = async (conflictKey: string): Promise<Lock | undefined> =>
        (await store.readLocks([conflictKey]))[0];

      it('is taken with the job, by one of two partitions, and given back by its claim only', async () => {
        const key = freshKey();
        const { job, outcome } = await claimWith(key, 0, '1-1.0');
        expect(outcome).toBe('claimed');
        const held = {
          conflictKey: key,
          holder: { partition: 0, claimId: '1-1.0', jobId: job.id },
          waiting: [],
        };
        expect(await lockOf(key)).toEqual(held);
        const other = await claimWith(key, 1, '1-1.0');
        expect(other.outcome).toBe('blocked');
        expect(await stored(other.job.id)).toEqual(other.job);
        // Claims are numbered by partition: the same id of another one is another claim.
        expect(await store.releaseLock(key, 1, '1-1.0', NOW_MS + TURN_MS)).toEqual({});
        expect(await store.releaseLock(key, 0, '1-1.1', NOW_MS + TURN_MS)).toEqual({});
        expect(await lockOf(key)).toEqual(held);
        expect(await store.releaseLock(key, 0, '1-1.0', NOW_MS + TURN_MS)).toEqual({});
        expect(await lockOf(key)).toBeUndefined();
        expect(await store.releaseLock(key, 0, '1-1.0', NOW_MS + TURN_MS)).toEqual({});
      });

      it('is not taken by a claim that is lost', async () => {
        const key = freshKey();
        const job = await created(aJob());
        const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
        expect(await store.claim([{ ...request, version: 7 }])).toEqual(['lost']);
        expect(await lockOf(key)).toBeUndefined();
        await store.claim([request]);
        expect(await store.claim([{ ...request, claimId: 'another' }])).toEqual(['lost']);
        expect((await lockOf(key))?.holder?.claimId).toBe(request.claimId);
      });

      it('answers claimed when the same claim is repeated', async () => {
        const key = freshKey();
        const job = await created(aJob());
        const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
        expect(await store.claim([request])).toEqual(['claimed']);
        expect(await store.claim([request])).toEqual(['claimed']);
      });

      it('stays with a job that runs, and does not come back with a claim that is repeated after its end', async () => {
        const key = freshKey();
        const job = await created(aJob());
        const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
        await store.claim([request]);
        const worker = aWorker();
        const started = await store.startJob({
          ...worker,
          jobId: job.id,
          claimId: request.claimId,
          nowMs: NOW_MS,
        });
        if (started.kind !== 'started') throw new Error('not started');
        expect((await lockOf(key))?.holder?.jobId).toBe(job.id);
        await finish(started.job, worker, retryAt(NOW_MS + 1));
        await store.releaseLock(key, 0, request.claimId, NOW_MS);
        expect(await store.claim([request])).not.toEqual(['blocked']);
        expect(await lockOf(key)).toBeUndefined();
      });

      it('goes round among the partitions that wait for it', async () => {
        const key = freshKey();
        expect(await store.awaitLock(key, 1, NOW_MS)).toBe('open');
        await claimWith(key, 1, '1-1.0');
        for (const partition of [0, 3, 2, 3])
          expect(await store.awaitLock(key, partition, NOW_MS)).toBe('waiting');
        expect((await lockOf(key))?.waiting).toEqual([0, 2, 3]);
        const release = (partition: number) => store.releaseLock(key, partition, '1-1.0', NOW_MS + TURN_MS);
        expect(await release(1)).toEqual({ next: 2 });
        // Asked again, it says the same: the wake may have been lost.
        expect(await release(1)).toEqual({ next: 2 });
        expect(await lockOf(key)).toEqual({
          conflictKey: key,
          turn: { partition: 2, untilMs: NOW_MS + TURN_MS },
          waiting: [0, 3],
        });
        expect((await claimWith(key, 3, '1-1.0')).outcome).toBe('blocked');
        expect(await store.awaitLock(key, 2, NOW_MS)).toBe('open');
        expect(await store.awaitLock(key, 1, NOW_MS)).toBe('waiting');
        expect((await claimWith(key, 2, '1-1.0')).outcome).toBe('claimed');
        expect(await release(2)).toEqual({ next: 3 });
        expect((await claimWith(key, 3, '1-1.0')).outcome).toBe('claimed');
        expect(await release(3)).toEqual({ next: 0 });
        expect((await claimWith(key, 0, '1-1.0')).outcome).toBe('claimed');
        expect(await release(0)).toEqual({ next: 1 });
      });

      it('is open to everybody once a turn was not taken', async () => {
        const key = freshKey();
        await claimWith(key, 0, '1-1.0');
        await store.awaitLock(key, 1, NOW_MS);
        await store.releaseLock(key, 0, '1-1.0', NOW_MS + TURN_MS);
        expect((await claimWith(key, 0, '2-1.0', NOW_MS + TURN_MS - 1)).outcome).toBe('blocked');
        expect(await store.awaitLock(key, 0, NOW_MS + TURN_MS)).toBe('open');
        expect((await claimWith(key, 0, '2-1.0', NOW_MS + TURN_MS)).outcome).toBe('claimed');
        expect(await lockOf(key)).toMatchObject({ holder: { partition: 0 }, waiting: [] });
        expect((await lockOf(key))?.turn).toBeUndefined();
      });

      it('is taken once when eight partitions race', { timeout: CONCURRENT_MS }, async () => {
        for (let round = 0; round < 3; round += 1) {
          const key = freshKey();
          const outcomes = await Promise.all(times(8, (partition) => claimWith(key, partition, '1-1.0')));
          expect(outcomes.filter(({ outcome }) => outcome === 'claimed')).toHaveLength(1);
          expect(outcomes.filter(({ outcome }) => outcome === 'blocked')).toHaveLength(7);
        }
      });

      it('is given back while others begin to wait: whoever waits has a turn or finds it open', {
        timeout: CONCURRENT_MS,
      }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const key = freshKey();
          await claimWith(key, 0, '1-1.0');
          const [released, ...waits] = await Promise.all([
            store.releaseLock(key, 0, '1-1.0', NOW_MS + TURN_MS),
            ...[1, 2, 3].map((partition) => store.awaitLock(key, partition, NOW_MS)),
          ]);
          const lock = await lockOf(key);
          expect(lock?.holder).toBeUndefined();
          const waiting = [...(lock?.waiting ?? []), ...(released.next === undefined ? [] : [released.next])];
          const asked = [1, 2, 3].filter((_, at) => waits[at] === 'waiting');
          for (const partition of asked) expect(waiting).toContain(partition);
          expect(lock?.turn?.partition).toBe(released.next);
        }
      });
    });

    describe('raising a version', () => {
      it('makes every claim fail that was planned before, and leaves the job in its line', async () => {
        const partition = freshPartition();
        const job = await created(aJob({ partition }));
        expect(await store.raiseVersion(job.id, 1)).toBe('raised');
        expect(await stored(job.id)).toEqual({ ...job, version: 2 });
        expect(await store.claim([aClaimRequest(job)])).toEqual(['lost']);
        await untilLine(partition, lineOf(job), [job.id]);
        expect(await store.claim([aClaimRequest({ ...job, version: 2 })])).toEqual(['claimed']);
      });

      it('is lost at another version, on a job that is not pending, and on none', async () => {
        const job = await created(aJob());
        expect(await store.raiseVersion(job.id, 2)).toBe('lost');
        expect(await store.raiseVersion('unheard-of', 1)).toBe('lost');
        const { job: claimed } = await claimedJob();
        expect(await store.raiseVersion(claimed.id, claimed.version)).toBe('lost');
        expect(await stored(claimed.id)).toEqual(claimed);
        expect(await stored(job.id)).toEqual(job);
        expect(await store.getJobs(['unheard-of'])).toEqual([undefined]);
      });

      it('and claiming exclude each other', { timeout: CONCURRENT_MS }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const job = await created(aJob());
          const [raised, [claimed]] = await Promise.all([
            store.raiseVersion(job.id, 1),
            store.claim([aClaimRequest(job)]),
          ]);
          expect((raised === 'raised') !== (claimed === 'claimed')).toBe(true);
          expect((await stored(job.id)).version).toBe(2);
        }
      });
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
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
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
        expect(await store.getJobs([job.id, pending.id, 'unheard-of'])).toEqual([job, pending, undefined]);
      });

      it('refuses the message of an attempt that is over, also when the job is claimed anew', async () => {
        const { job, worker, claimId } = await runningJob();
        const start = { ...worker, jobId: job.id, claimId, nowMs: NOW_MS };
        await finish(job, worker, retryAt(NOW_MS));
        expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
        expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
        if (pending !== undefined) await store.claim([aClaimRequest(pending)]);
        expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
        expect((await stored(job.id)).state).toBe('claimed');
      });

      it('happens once when the message comes to twenty workers', { timeout: CONCURRENT_MS }, async () => {
        const { job, claimId } = await claimedJob();
        const outcomes = await Promise.all(
          times(20, () => store.startJob({ ...aWorker(), jobId: job.id, claimId, nowMs: NOW_MS })),
        );
        const winners = outcomes.flatMap((outcome) =>
          outcome.kind === 'started' ? [outcome.job.worker] : [],
        );
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
        await store.loseWorker(job, retryAt(NOW_MS), NOW_MS, EXPIRES_AT_MS);
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
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

      it('accepts one outcome only', { timeout: CONCURRENT_MS }, async () => {
        for (let round = 0; round < 5; round += 1) {
          const { job, worker } = await runningJob();
          const outcomes = await Promise.all([
            finish(job, worker, SUCCESS),
            finish(job, worker, FAILURE),
            finish(job, worker, retryAt(NOW_MS)),
            store.loseWorker(job, retryAt(NOW_MS), NOW_MS, EXPIRES_AT_MS),
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
        expect(await store.loseWorker(job, FAILURE, NOW_MS, EXPIRES_AT_MS)).toEqual({ kind: 'superseded' });
        expect(await stored(job.id)).toEqual(done);
      });
    });

    describe('losing a worker', () => {
      it('schedules the job again and counts the worker, not an attempt', async () => {
        const partition = freshPartition();
        const { job } = await runningJob(aJob({ partition }));
        const outcome = await store.loseWorker(job, retryAt(NOW_MS + 50), NOW_MS + 40, EXPIRES_AT_MS);
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
        await store.loseWorker(job, retryAt(NOW_MS + 40), NOW_MS + 40, EXPIRES_AT_MS);
        const waiting = await stored(job.id);
        expect(waiting.readyAtMs).toBe(NOW_MS - 9_000);
        await untilDue(partition, NOW_MS + 40, [job.id]);
        const { jobs: due } = await store.readDue(partition, NOW_MS + 40, 10);
        const [pending] = await store.promote(due, NOW_MS + 40);
        expect(pending).toEqual({ ...waiting, state: 'pending', version: 5 });
        expect(pending).not.toHaveProperty('firstReadyAtMs');
        await untilLine(partition, lineOf(job), [job.id, younger.id]);
      });

      it('can fail the job for good', async () => {
        const { job } = await runningJob();
        const outcome = await store.loseWorker(job, FAILURE, NOW_MS + 40, EXPIRES_AT_MS);
        expect(outcome).toMatchObject({
          kind: 'finished',
          job: { state: 'failed', finishedAtMs: NOW_MS + 40 },
        });
        expect(await stored(job.id)).toMatchObject({ state: 'failed', version: 4 });
      });

      it('needs a job that says whose attempt it is', async () => {
        const job = await created(aJob());
        await expect(store.loseWorker(job, FAILURE, NOW_MS, EXPIRES_AT_MS)).rejects.toThrow('no claim');
        await expect(finish(job, aWorker(), SUCCESS)).rejects.toThrow('no claim');
        await expect(store.saveCheckpoint(job, aWorker(), 1)).rejects.toThrow('no claim');
      });

      it('concerns one claim only: a job that runs under another goes on', async () => {
        const { job, worker } = await runningJob();
        await finish(job, worker, retryAt(NOW_MS));
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
        if (pending === undefined) throw new Error('not promoted');
        const request = aClaimRequest(pending);
        await store.claim([request]);
        await store.startJob({ ...worker, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS });
        const running = await stored(job.id);
        expect(await store.loseWorker(job, FAILURE, NOW_MS, EXPIRES_AT_MS)).toEqual({ kind: 'superseded' });
        expect(await stored(job.id)).toEqual(running);
      });

      it('makes the late finish of that worker count for nothing', async () => {
        const { job, worker } = await runningJob();
        await store.loseWorker(job, FAILURE, NOW_MS, EXPIRES_AT_MS);
        const lost = await stored(job.id);
        expect(await finish(job, worker, SUCCESS)).toEqual({ kind: 'superseded' });
        expect(await stored(job.id)).toEqual(lost);
      });
    });

    describe('workers', () => {
      const shown = async (partition: number): Promise<readonly WorkerRecord[]> =>
        (await store.loadPartition(partition, NOW_MS)).workers;

      it('renew their record while it is of their own life', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord();
        await store.registerWorker(partition, record);
        const later = {
          ...record,
          expiresAtMs: record.expiresAtMs + 10_000,
          slots: 5,
          occupants: [{ claimId: '1-1.0', jobId: 'a', progress: 0.5 }],
        };
        expect(await store.heartbeat(partition, later)).toBe('applied');
        expect(await shown(partition)).toEqual([later]);
      });

      it('say how their process bears its work, and not what a former life has said', async () => {
        const partition = freshPartition();
        const former = aWorkerRecord({ incarnation: '0001', heardAtMs: NOW_MS });
        await store.registerWorker(partition, former);
        const load = { lagMs: 12, memoryMb: 345 };
        await store.heartbeat(partition, { ...former, load });
        expect(await shown(partition)).toEqual([{ ...former, load }]);
        const { heardAtMs: _, ...silent } = former;
        const next = { ...silent, incarnation: '0002' };
        await store.registerWorker(partition, next);
        expect(await shown(partition)).toEqual([{ ...next, formerUntilMs: former.expiresAtMs }]);
        const later = { ...next, heardAtMs: NOW_MS + 1, load: { lagMs: 0, memoryMb: 7 } };
        await store.heartbeat(partition, later);
        expect(await shown(partition)).toEqual([{ ...later, formerUntilMs: former.expiresAtMs }]);
      });

      it('are shown apart when their lease is over, with what they said last', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord({ heardAtMs: NOW_MS - 20_000, expiresAtMs: NOW_MS + 1 });
        await store.registerWorker(partition, record);
        const later = {
          ...record,
          heardAtMs: NOW_MS - 15_000,
          expiresAtMs: NOW_MS + 5_000,
          occupants: [{ claimId: '1-1.0', jobId: 'a' }],
        };
        await store.heartbeat(partition, later);
        expect(await store.loadPartition(partition, NOW_MS + 4_999)).toMatchObject({
          workers: [later],
          gone: [],
        });
        expect(await store.loadPartition(partition, NOW_MS + 5_000)).toMatchObject({
          workers: [],
          gone: [later],
        });
      });

      it('say that they end, until a later life', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord({ incarnation: '0001' });
        await store.registerWorker(partition, record);
        const ending = { ...record, slots: 1, isEnding: true, expiresAtMs: record.expiresAtMs + 1_000 };
        expect(await store.heartbeat(partition, ending)).toBe('applied');
        expect(await shown(partition)).toEqual([ending]);
        const next = { ...record, incarnation: '0002' };
        await store.registerWorker(partition, next);
        expect(await shown(partition)).toEqual([{ ...next, formerUntilMs: ending.expiresAtMs }]);
      });

      it('supersede their former life when they begin another', async () => {
        const partition = freshPartition();
        const former = aWorkerRecord({ incarnation: '0001' });
        const current = { ...former, incarnation: '0002' };
        await store.registerWorker(partition, former);
        expect(await store.registerWorker(partition, current)).toBe('applied');
        expect(await store.heartbeat(partition, former)).toBe('superseded');
        expect(await store.registerWorker(partition, former)).toBe('superseded');
        expect(await store.deregisterWorker(partition, former)).toBe('superseded');
        expect(await shown(partition)).toEqual([{ ...current, formerUntilMs: former.expiresAtMs }]);
      });

      it('say until when their former life may be running still, as long as it may', async () => {
        const partition = freshPartition();
        const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
        const current = { ...former, incarnation: '0002', expiresAtMs: NOW_MS + 20_000 };
        await store.registerWorker(partition, former);
        await store.registerWorker(partition, current);
        await store.heartbeat(partition, { ...current, expiresAtMs: NOW_MS + 25_000 });
        expect(await shown(partition)).toEqual([
          { ...current, expiresAtMs: NOW_MS + 25_000, formerUntilMs: NOW_MS + 10_000 },
        ]);
        // The end of the new life is not the end of the former one.
        for (let repeat = 0; repeat < 2; repeat += 1) {
          expect(await store.deregisterWorker(partition, current)).toBe('applied');
          expect(await shown(partition)).toEqual([
            {
              ...current,
              slots: 0,
              isEnding: true,
              occupants: [],
              expiresAtMs: NOW_MS + 10_000,
              formerUntilMs: NOW_MS + 10_000,
            },
          ]);
        }
        expect((await store.loadPartition(partition, NOW_MS + 10_000)).workers).toEqual([]);
      });

      it('say so also when their registration came so late that its record has expired', async () => {
        const partition = freshPartition();
        const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
        const late = { ...former, incarnation: '0002', expiresAtMs: NOW_MS - 1 };
        await store.registerWorker(partition, former);
        expect(await store.registerWorker(partition, late)).toBe('applied');
        expect(await shown(partition)).toEqual([
          {
            ...late,
            slots: 0,
            isEnding: true,
            expiresAtMs: NOW_MS + 10_000,
            formerUntilMs: NOW_MS + 10_000,
          },
        ]);
        expect((await store.loadPartition(partition, NOW_MS + 10_000)).workers).toEqual([]);
      });

      it('say until when the longest of their former lives may run', async () => {
        const partition = freshPartition();
        const first = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
        const late = { ...first, incarnation: '0002', expiresAtMs: NOW_MS - 1 };
        const third = { ...first, incarnation: '0003', expiresAtMs: NOW_MS + 20_000 };
        for (const record of [first, late, third])
          expect(await store.registerWorker(partition, record)).toBe('applied');
        expect(await shown(partition)).toEqual([{ ...third, formerUntilMs: NOW_MS + 10_000 }]);
        expect(await store.registerWorker(partition, late)).toBe('superseded');
      });

      it('are gone at once when their former life was over before', async () => {
        const partition = freshPartition();
        const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS });
        const current = { ...former, incarnation: '0002', expiresAtMs: NOW_MS + 20_000 };
        await store.registerWorker(partition, former);
        await store.registerWorker(partition, current);
        expect(await store.deregisterWorker(partition, current)).toBe('applied');
        expect(await shown(partition)).toEqual([]);
      });

      it('are not shortened by a registration or a heartbeat that comes late', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord();
        const later = {
          ...record,
          expiresAtMs: record.expiresAtMs + 5_000,
          occupants: [{ claimId: 'c', jobId: 'j' }],
        };
        await store.registerWorker(partition, record);
        await store.heartbeat(partition, later);
        expect(await store.registerWorker(partition, record)).toBe('applied');
        expect(await store.heartbeat(partition, record)).toBe('applied');
        expect(await shown(partition)).toEqual([later]);
      });

      it('may register twice in one life', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord();
        await store.registerWorker(partition, record);
        expect(await store.registerWorker(partition, record)).toBe('applied');
        expect(await shown(partition)).toEqual([record]);
      });

      it('are gone at once when they deregister, and a late heartbeat does not bring them back', async () => {
        const partition = freshPartition();
        const record = aWorkerRecord();
        await store.registerWorker(partition, record);
        expect(await store.deregisterWorker(partition, record)).toBe('applied');
        expect(await shown(partition)).toEqual([]);
        expect(await store.heartbeat(partition, record)).toBe('superseded');
        expect(await shown(partition)).toEqual([]);
      });

      it('cannot renew what was never registered', async () => {
        const partition = freshPartition();
        expect(await store.heartbeat(partition, aWorkerRecord())).toBe('superseded');
        expect(await shown(partition)).toEqual([]);
      });

      it('leave what is gone already alone', async () => {
        const partition = freshPartition();
        await store.deregisterWorker(partition, aWorker());
        expect(await shown(partition)).toEqual([]);
      });

      it('of one name begin one life only when eight processes race', {
        timeout: CONCURRENT_MS,
      }, async () => {
        const partition = freshPartition();
        const workerId = 'the-same';
        const records = times(8, (at) => aWorkerRecord({ workerId, incarnation: `000${at}` }));
        await Promise.all(records.map((record) => store.registerWorker(partition, record)));
        expect(await shown(partition)).toMatchObject([{ ...records[7] }]);
        const beats = await Promise.all(records.map((record) => store.heartbeat(partition, record)));
        expect(beats).toEqual(records.map((_, at) => (at === 7 ? 'applied' : 'superseded')));
      });
    });

    describe('who holds a partition', () => {
      it('can be looked up, and who was the last, and when that began', async () => {
        const partition = freshPartition();
        expect(await store.readLease(partition)).toBeUndefined();
        const fence = await lease(partition);
        const held = {
          epoch: fence.epoch,
          holder: 'dispatcher',
          isHeld: true,
          takenAtMs: NOW_MS,
          expiresAtMs: NOW_MS + LEASE_MS,
        };
        expect(await store.readLease(partition)).toEqual(held);
        await store.renewLease(fence, NOW_MS + 5, LEASE_MS);
        expect(await store.readLease(partition)).toEqual({ ...held, expiresAtMs: NOW_MS + 5 + LEASE_MS });
        // A release may come twice.
        for (let repeat = 0; repeat < 2; repeat += 1) {
          expect(await store.releaseLease(fence)).toBe('released');
          expect(await store.readLease(partition)).toEqual({ ...held, isHeld: false, expiresAtMs: 0 });
        }
        await store.acquireLease(partition, 'another', NOW_MS + 9, LEASE_MS);
        expect(await store.readLease(partition)).toMatchObject({
          epoch: fence.epoch + 1,
          holder: 'another',
          isHeld: true,
          takenAtMs: NOW_MS + 9,
        });
      });
    });

    describe('dispatchers that run on', () => {
      /** The membership of this name, as the others see it. */
      const memberOf = async (
        { dispatcherId }: DispatcherRecord,
        nowMs = NOW_MS,
      ): Promise<DispatcherRecord | undefined> => {
        const members = await store.listDispatchers(nowMs);
        return members.find((each) => each.dispatcherId === dispatcherId);
      };

      it('are members until their record expires, to the very millisecond', async () => {
        const record = aDispatcherRecord({ leads: [] });
        const other = aDispatcherRecord({ leads: [0, 2, 11] });
        expect(await store.keepDispatcher(record)).toBe('applied');
        expect(await store.keepDispatcher(other)).toBe('applied');
        expect(await memberOf(record)).toEqual(record);
        expect(await memberOf(other, other.expiresAtMs - 1)).toEqual(other);
        expect(await memberOf(other, other.expiresAtMs)).toBeUndefined();
      });

      it('renew their record, also when it had expired', async () => {
        const record = aDispatcherRecord({ expiresAtMs: NOW_MS - 1 });
        await store.keepDispatcher(record);
        expect(await memberOf(record)).toBeUndefined();
        const later = { ...record, expiresAtMs: NOW_MS + 20_000, leads: [1] };
        expect(await store.keepDispatcher(later)).toBe('applied');
        expect(await memberOf(record)).toEqual(later);
      });

      it('say with each renewal how busy they are, as far as they know', async () => {
        const full = {
          waiting: { jobs: 120, isLeast: true },
          waitedMs: 90_000,
          busy: 0.125,
          eventLoopLagMs: 3,
          memoryBytes: 123_456_789,
        };
        const record = aDispatcherRecord({ leads: [1], load: { busy: 0 } });
        for (const load of [{ busy: 0 }, full, { waiting: { jobs: 0, isLeast: false }, busy: 1 }]) {
          expect(await store.keepDispatcher({ ...record, load })).toBe('applied');
          expect(await memberOf(record)).toEqual({ ...record, load });
        }
      });

      it('are not shortened by a renewal that comes late', async () => {
        const record = aDispatcherRecord();
        const later = { ...record, expiresAtMs: record.expiresAtMs + 5_000, leads: [3] };
        await store.keepDispatcher(later);
        expect(await store.keepDispatcher(record)).toBe('applied');
        expect(await memberOf(record)).toEqual(later);
      });

      it('supersede their former life when they begin another, whatever that one still says', async () => {
        const former = aDispatcherRecord({ incarnation: '0001' });
        const current = { ...former, incarnation: '0002', expiresAtMs: former.expiresAtMs - 5_000 };
        await store.keepDispatcher(former);
        expect(await store.keepDispatcher(current)).toBe('applied');
        expect(await store.keepDispatcher({ ...former, expiresAtMs: NOW_MS + 90_000 })).toBe('superseded');
        expect(await store.removeDispatcher(former)).toBe('superseded');
        expect(await memberOf(former)).toEqual(current);
      });

      it('are gone at once when they leave, for good: only another life of their name may come', async () => {
        const record = aDispatcherRecord({ incarnation: '0001' });
        await store.keepDispatcher(record);
        for (let repeat = 0; repeat < 2; repeat += 1) {
          expect(await store.removeDispatcher(record)).toBe('applied');
          expect(await store.keepDispatcher({ ...record, expiresAtMs: NOW_MS + 90_000 })).toBe('superseded');
          expect(await memberOf(record)).toBeUndefined();
        }
        const next = { ...record, incarnation: '0002' };
        expect(await store.keepDispatcher(next)).toBe('applied');
        expect(await memberOf(record)).toEqual(next);
      });

      it('that leave before their first record was written do not come back with it', async () => {
        const record = aDispatcherRecord();
        expect(await store.removeDispatcher(record)).toBe('applied');
        expect(await store.keepDispatcher(record)).toBe('superseded');
        expect(await memberOf(record)).toBeUndefined();
      });

      it('of one name have one life only when eight processes race', { timeout: CONCURRENT_MS }, async () => {
        const { dispatcherId } = aDispatcherRecord();
        const records = times(8, (at) => aDispatcherRecord({ dispatcherId, incarnation: `000${at}` }));
        await Promise.all(records.map((record) => store.keepDispatcher(record)));
        const again = await Promise.all(records.map((record) => store.keepDispatcher(record)));
        expect(again).toEqual(records.map((_, at) => (at === 7 ? 'applied' : 'superseded')));
      });

      it.each(ODD_NAMES)('may have names with %s', async (_, dispatcherId) => {
        const record = aDispatcherRecord({ dispatcherId, incarnation: `9${dispatcherId}` });
        expect(await store.keepDispatcher(record)).toBe('applied');
        expect(await memberOf(record)).toEqual(record);
      });

      it('stand in no partition', async () => {
        const partition = freshPartition();
        const before = await store.loadPartition(partition, NOW_MS);
        await store.keepDispatcher(aDispatcherRecord({ leads: [partition] }));
        expect(await store.loadPartition(partition, NOW_MS)).toEqual(before);
      });
    });

    describe('checkpoints', () => {
      it('are kept for the next attempt', async () => {
        const { job, worker } = await runningJob();
        expect(await store.saveCheckpoint(job, worker, { page: 3 })).toBe('applied');
        expect(await stored(job.id)).toMatchObject({ state: 'running', checkpoint: { page: 3 } });
        await store.loseWorker(job, retryAt(NOW_MS), NOW_MS, EXPIRES_AT_MS);
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
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
        await store.saveCheckpoint(job, worker, { page: 3 });
        await store.loseWorker(job, fromStart, NOW_MS, EXPIRES_AT_MS);
        const after = await stored(job.id);
        expect(after).toMatchObject({ state: 'scheduled', workersLost: 1 });
        expect(after).not.toHaveProperty('checkpoint');
        await untilDue(job.partition, NOW_MS, [job.id]);
      });

      it('do not get in the way of the finish', async () => {
        const { job, worker } = await runningJob();
        await store.saveCheckpoint(job, worker, 1);
        await store.saveCheckpoint(job, worker, 2);
        expect((await finish(job, worker, SUCCESS)).kind).toBe('finished');
        expect((await finish(job, worker, SUCCESS)).kind).toBe('finished');
      });

      it.each([
        ['another worker', { workerId: 'someone-else' }],
        ['another life of the worker', { incarnation: 'second' }],
      ])('are refused from %s', async (_, changes) => {
        const { job, worker } = await runningJob();
        expect(await store.saveCheckpoint(job, { ...worker, ...changes }, 1)).toBe('superseded');
        expect(await stored(job.id)).toEqual(job);
      });

      it('are refused once the attempt is over', async () => {
        const { job, worker } = await runningJob();
        await finish(job, worker, retryAt(NOW_MS));
        const after = await stored(job.id);
        expect(await store.saveCheckpoint(job, worker, 1)).toBe('superseded');
        expect(await stored(job.id)).toEqual(after);
      });
    });

    describe('progress', () => {
      it('is kept until the next claim', async () => {
        const { job, worker } = await runningJob();
        expect(await store.saveProgress(job, worker, { page: 3 })).toBe('applied');
        expect(await store.saveProgress(job, worker, { page: 4 })).toBe('applied');
        expect(await stored(job.id)).toEqual({ ...job, progress: { page: 4 } });
        await finish(job, worker, retryAt(NOW_MS));
        expect(await stored(job.id)).toMatchObject({ state: 'scheduled', progress: { page: 4 } });
        const [pending] = await store.promote([await stored(job.id)], NOW_MS);
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
        expect(await store.saveProgress(job, { ...worker, ...changes }, 1)).toBe('superseded');
        expect(await stored(job.id)).toEqual(job);
      });

      it('is refused once the attempt is over', async () => {
        const { job, worker } = await runningJob();
        await finish(job, worker, SUCCESS);
        const after = await stored(job.id);
        expect(await store.saveProgress(job, worker, 1)).toBe('superseded');
        expect(await stored(job.id)).toEqual(after);
      });
    });

    describe('cancelling', () => {
      const cancel = (id: string) => store.cancelJob(id, NOW_MS + 7, EXPIRES_AT_MS);

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
        expect(await store.cancelJob(job.id, NOW_MS + 8, EXPIRES_AT_MS)).toMatchObject({ kind: 'requested' });
        expect(await finish(job, worker, { kind: 'cancelled' })).toMatchObject({
          kind: 'finished',
          job: { state: 'cancelled', finishedAtMs: NOW_MS + 9 },
        });
      });

      it.each([
        ['its worker asks', (job: Job, worker: WorkerIdentity) => finish(job, worker, retryAt(NOW_MS)), 0],
        [
          'its worker is gone',
          (job: Job) => store.loseWorker(job, retryAt(NOW_MS), NOW_MS + 9, EXPIRES_AT_MS),
          1,
        ],
      ] as const)(
        'leaves no other attempt: %s for one, and that is the end',
        async (_, retry, workersLost) => {
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
        },
      );

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
        const outcome = await store.cancelJob(job.id, NOW_MS + 3_000, EXPIRES_AT_MS);
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
        expect(await store.getJobs(['unheard-of'])).toEqual([undefined]);
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
      const retime = (job: Job, runAtMs: number) => store.retimeJob(job, runAtMs, NOW_MS);
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
          .poll(async () => (await store.readDue(partition, LATER_MS, 10)).jobs, SHOWN)
          .toMatchObject([standsDue]);
        expect((await store.retimeJob(await stored(job.id), 0, NOW_MS + 30)).kind).toBe('moved');
        const now = { state: 'pending', readyAtMs: NOW_MS + 30, firstReadyAtMs: NOW_MS - 9 };
        expect(await stored(job.id)).toMatchObject(now);
        await untilLine(partition, lineOf(job), [job.id]);
        await expect
          .poll(async () => (await store.readLine(partition, lineOf(job), 10)).jobs, SHOWN)
          .toMatchObject([now]);
      });

      it('leaves a job that is ready, and stays so, where it stands', async () => {
        const partition = freshPartition();
        const [job, parked] = [aJob({ partition, readyAtMs: NOW_MS - 9 }), aJob({ partition })];
        await store.createJobs([job, parked]);
        await store.park(await lease(partition), [parked], 'catalogue/photos');
        for (const each of [job, parked]) {
          const history = expect.objectContaining({ entries: [movedEntry(NOW_MS, NOW_MS, NOW_MS - 1)] });
          const expected = { ...each, version: 2, runAtMs: NOW_MS - 1, history };
          expect(await retime(each, NOW_MS - 1)).toEqual({ kind: 'moved', job: expected });
          expect(await stored(each.id)).toEqual(expected);
        }
        await untilLine(partition, lineOf(job), [job.id]);
        await vi.waitFor(async () => {
          const { jobs } = await store.readBlocked(partition, 'catalogue/photos', 10);
          expect(jobs.map(({ id, version }) => [id, version])).toEqual([[parked.id, 2]]);
        }, SHOWN);
      });

      it('takes a parked job out of its blocked line', async () => {
        const partition = freshPartition();
        const job = await created(aJob({ partition }));
        await store.park(await lease(partition), [job], 'catalogue/photos');
        expect((await retime(job, LATER_MS)).kind).toBe('moved');
        await untilDue(partition, LATER_MS, [job.id]);
        await expect
          .poll(async () => (await store.readBlocked(partition, 'catalogue/photos', 10)).jobs, SHOWN)
          .toEqual([]);
        const [promoted] = await store.promote([await stored(job.id)], LATER_MS);
        expect(promoted).toMatchObject({ state: 'pending', version: 3, readyAtMs: LATER_MS });
        await untilLine(partition, lineOf(job), [job.id]);
      });

      it('counts, before the job stands there, the shard of the due line of one that was never scheduled', async () => {
        const partition = freshPartition();
        const job = times(20, () => aJob({ type: HOT_TYPE, partition })).find(
          (each) => suitePlace(each).sub === 2,
        );
        if (job === undefined) throw new Error('no job of the third part');
        await created(job);
        expect((await store.loadPartition(partition, NOW_MS)).dueShards).toBe(1);
        expect((await retime(job, LATER_MS)).kind).toBe('moved');
        expect((await store.loadPartition(partition, NOW_MS)).dueShards).toBe(3);
        await vi.waitFor(async () => {
          const due = await store.readDue(partition, LATER_MS, 10, undefined, 2);
          expect(due.jobs.map(({ id }) => id)).toEqual([job.id]);
        }, SHOWN);
        expect((await retime(await stored(job.id), NOW_MS)).kind).toBe('moved');
        await untilLine(partition, aReadyLine({ type: HOT_TYPE, sub: 2 }), [job.id]);
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
        expect(await store.promote([due], NOW_MS)).toEqual([undefined]);
        expect(await stored(due.id)).toEqual(later.kind === 'moved' ? later.job : undefined);
        const ready = await created(aJob());
        // Away and back: it is pending again, and not as it was.
        await retime(ready, LATER_MS);
        await retime(await stored(ready.id), NOW_MS);
        expect(await store.claim([aClaimRequest(ready)])).toEqual(['lost']);
        expect(await store.raiseVersion(ready.id, 1)).toBe('lost');
        expect(await store.claim([aClaimRequest(await stored(ready.id))])).toEqual(['claimed']);
      });

      it('is refused at another version of a job that waits, and changes nothing', async () => {
        const job = await created(aScheduledJob(NOW_MS));
        const [promoted] = await store.promote([job], NOW_MS);
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
            await store.cancelJob(job.id, NOW_MS, EXPIRES_AT_MS);
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
        expect(await store.getJobs([job.id])).toEqual([undefined]);
      });

      const RACES = 5;
      it.each([
        [
          'promoting',
          () => aScheduledJob(NOW_MS),
          async (job: Job) => (await store.promote([job], NOW_MS))[0] !== undefined,
        ],
        [
          'claiming',
          () => aJob(),
          async (job: Job) => (await store.claim([aClaimRequest(job)]))[0] === 'claimed',
        ],
        [
          'another move',
          () => aJob(),
          async (job: Job) => (await retime(job, LATER_MS + 1)).kind === 'moved',
        ],
        [
          'raising the version',
          () => aJob(),
          async (job: Job) => (await store.raiseVersion(job.id, 1)) === 'raised',
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
            store.cancelJob(job.id, NOW_MS, EXPIRES_AT_MS),
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

    describe('a job that has ended', () => {
      afterEach(() => harness.setClock(NOW_MS));

      /** A job that ended, and is kept so long. */
      const ended = async (keptMs: number, verdict: FinishVerdict): Promise<Job> => {
        const { job, worker } = await runningJob();
        const expiresAtMs = NOW_MS + keptMs;
        await store.finishJob({ ...worker, job, verdict, nowMs: NOW_MS + 9, expiresAtMs });
        return stored(job.id);
      };

      // Tables count in seconds: what expires within one is there until then at least, and gone when the second ends.
      it.each([
        ['at a full second', 10_000, 10_000],
        ['early in a second', 10_001, 11_000],
        ['late in a second', 10_999, 11_000],
      ])('keeps its id until it expires %s, to the very millisecond', async (_, keptMs, goneMs) => {
        const job = await ended(keptMs, SUCCESS);
        const other = { ...job, state: 'pending' as const, contentHash: 'other' };
        const { result: _result, claim: _claim, worker: _worker, ...fresh } = other;
        harness.setClock(NOW_MS + keptMs - 1);
        expect(await store.getJobs([job.id])).toEqual([job]);
        expect(await store.createJobs([{ ...fresh, contentHash: job.contentHash }])).toEqual([
          { kind: 'repeated', job },
        ]);
        expect(await store.createJobs([fresh])).toEqual([{ kind: 'conflict', job }]);
        expect((await store.cancelJob(job.id, NOW_MS, EXPIRES_AT_MS)).kind).toBe('ended');
        harness.setClock(NOW_MS + goneMs);
        expect(await store.getJobs([job.id])).toEqual([undefined]);
        expect((await store.cancelJob(job.id, NOW_MS, EXPIRES_AT_MS)).kind).toBe('missing');
        expect((await store.createJobs([fresh])).map(({ kind }) => kind)).toEqual(['created']);
      });

      it.each([
        ['at a full second', 10_000, 10_000],
        ['within a second', 10_500, 11_000],
      ])('can be redriven, if it failed, until it expires %s', async (_, keptMs, goneMs) => {
        const [present, gone] = [await ended(keptMs, FAILURE), await ended(keptMs, FAILURE)];
        const [one, other] = [aJob({ redriveOf: present.id }), aJob({ redriveOf: gone.id })];
        harness.setClock(NOW_MS + keptMs - 1);
        expect(await store.redrive(present, one)).toBe('applied');
        harness.setClock(NOW_MS + goneMs);
        expect(await store.redrive(gone, other)).toBe('superseded');
        expect(await store.getJobs([one.id, other.id])).toEqual([one, undefined]);
      });

      it('gives its id to a redriven job once it has expired, not before', async () => {
        const dead = await ended(60_000, FAILURE);
        const former = await ended(10_000, SUCCESS);
        const job = aJob({ id: former.id, redriveOf: dead.id });
        harness.setClock(NOW_MS + 9_999);
        expect(await store.redrive(dead, job)).toBe('superseded');
        harness.setClock(NOW_MS + 10_000);
        expect(await store.redrive(dead, job)).toBe('applied');
        expect(await stored(job.id)).toEqual(job);
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
          const { jobs } = await store.readDeadLetters(partition, 100);
          expect(jobs.map((job) => job.id)).toEqual(ids);
        }, SHOWN);

      it('are the failed jobs, the latest first', async () => {
        const partition = freshPartition();
        const early = await failedJob(partition, NOW_MS + 10);
        const late = await failedJob(partition, NOW_MS + 20);
        const { job, worker } = await runningJob(aJob({ partition }));
        await finish(job, worker, SUCCESS);
        const waiting = await created(aJob({ partition }));
        await store.cancelJob(waiting.id, NOW_MS, EXPIRES_AT_MS);
        await untilDead(partition, [late.id, early.id]);
        await untilDead(freshPartition(), []);
      });

      it('are also those whose worker was lost for good', async () => {
        const partition = freshPartition();
        const { job } = await runningJob(aJob({ partition }));
        await store.loseWorker(job, FAILURE, NOW_MS, EXPIRES_AT_MS);
        await untilDead(partition, [job.id]);
      });

      it('can be read in pages', async () => {
        const partition = freshPartition();
        const ids: string[] = [];
        for (let at = 0; at < 5; at += 1) ids.unshift((await failedJob(partition, NOW_MS + at)).id);
        await untilDead(partition, ids);
        const first = await store.readDeadLetters(partition, 3);
        const second = await store.readDeadLetters(partition, 3, first.next);
        expect([...first.jobs, ...second.jobs].map((job) => job.id)).toEqual(ids);
        expect(second.next).toBeUndefined();
      });

      it('are redriven once: a new job is there, and the dead letter names it', async () => {
        const partition = freshPartition();
        const dead = await failedJob(partition, NOW_MS);
        await untilDead(partition, [dead.id]);
        const job = aJob({ partition, redriveOf: dead.id });
        expect(await store.redrive(dead, job)).toBe('applied');
        expect(await stored(job.id)).toEqual(job);
        expect(await stored(dead.id)).toMatchObject({ state: 'failed', redrivenAs: job.id });
        await untilDead(partition, []);
        await untilLine(partition, lineOf(job), [job.id]);
      });

      it('are not redriven again: neither job nor letter changes', async () => {
        const dead = await failedJob(freshPartition(), NOW_MS);
        const [job, other] = [aJob({ redriveOf: dead.id }), aJob({ redriveOf: dead.id })];
        await store.redrive(dead, job);
        expect(await store.redrive(dead, other)).toBe('superseded');
        expect(await store.getJobs([other.id])).toEqual([undefined]);
        expect((await stored(dead.id)).redrivenAs).toBe(job.id);
      });

      it('are redriven by one of eight operators', { timeout: CONCURRENT_MS }, async () => {
        const dead = await failedJob(freshPartition(), NOW_MS);
        const jobs = times(8, () => aJob({ redriveOf: dead.id }));
        const outcomes = await Promise.all(
          jobs.map((job) => store.redrive(dead, job).catch((error: Error) => error.name)),
        );
        const made = (await store.getJobs(jobs.map((job) => job.id))).filter((job) => job !== undefined);
        expect(made).toHaveLength(1);
        expect(outcomes.filter((outcome) => outcome === 'applied')).toHaveLength(1);
        expect((await stored(dead.id)).redrivenAs).toBe(made[0]?.id);
      });

      it('must have failed', async () => {
        const { job, worker } = await runningJob();
        const next = aJob();
        expect(await store.redrive(job, next)).toBe('superseded');
        await finish(job, worker, SUCCESS);
        expect(await store.redrive(await stored(job.id), next)).toBe('superseded');
        expect(await store.getJobs([next.id])).toEqual([undefined]);
      });
    });

    describe('rejections', () => {
      it('are listed by their source, in their order', async () => {
        const sourceId = 'event-of-many';
        const rejections = times(30, (at) =>
          aRejection({ sourceId, position: (at * 7) % 30, field: `jobs[${at}]` }),
        );
        await store.recordRejections([...rejections, aRejection()]);
        expect(await store.listRejections(sourceId)).toEqual(
          [...rejections].sort((a, b) => a.position - b.position),
        );
      });

      it('are kept once when an event is delivered twice', async () => {
        const rejection = aRejection();
        await store.recordRejections([rejection]);
        await store.recordRejections([{ ...rejection, rejectedAtMs: NOW_MS + 1 }]);
        expect(await store.listRejections(rejection.sourceId)).toHaveLength(1);
      });

      it('are none for a source that was never rejected', async () => {
        expect(await store.listRejections('unheard-of')).toEqual([]);
        await store.recordRejections([]);
      });
    });

    describe.each([
      ...ODD_NAMES,
      ['one kilobyte of text', 'k'.repeat(1_000)] as const,
      ['512 bytes of unicode', '日'.repeat(170)] as const,
    ])('names with %s', (_, odd) => {
      it('lead a job through its whole life', async () => {
        const partition = freshPartition();
        const fence = await lease(partition);
        const id = `job ${odd}`.slice(0, 900);
        const job = aJob({ id, partition, type: odd.slice(0, 200), fairnessKey: odd, resourceId: odd });
        await store.announceLines(partition, [lineOf(job)], NOW_MS);
        await created(job);
        await untilKeys(partition, job.type, [odd]);
        await untilLine(partition, lineOf(job), [id]);
        const reservation = aReservation([job]);
        const ledger = aLedger({ fairnessKey: odd });
        const estimate = anEstimate({ type: job.type, resourceId: odd });
        const commit = aCommit({ reserve: [reservation], ledgers: [ledger], estimates: [estimate] });
        expect(await store.commit(fence, commit)).toBe('committed');
        expect((await store.loadPartition(partition, NOW_MS)).reservations).toEqual([reservation]);
        expect(await store.getLedgers(partition, [odd])).toEqual([ledger]);
        expect(await store.getEstimates(partition, [{ type: job.type, resourceId: odd }])).toEqual([
          estimate,
        ]);
        const request = aClaimRequest(job, { batchId: reservation.batchId });
        expect(await store.claim([request])).toEqual(['claimed']);
        const worker = aWorker({ workerId: `worker ${odd}`.slice(0, 300), incarnation: odd });
        const started = await store.startJob({
          ...worker,
          jobId: id,
          claimId: request.claimId,
          nowMs: NOW_MS,
        });
        if (started.kind !== 'started') throw new Error('not started');
        const result = { [odd]: odd };
        expect(await finish(started.job, worker, { kind: 'succeeded', result })).toMatchObject({
          kind: 'finished',
          job: { id, fairnessKey: odd, result },
        });
      });
    });

    it('keeps the lines of an empty fairness key', async () => {
      const partition = freshPartition();
      const job = aJob({ partition, fairnessKey: '' });
      await store.announceLines(partition, [lineOf(job)], NOW_MS);
      await created(job);
      await untilKeys(partition, SUITE_TYPE, ['']);
      await untilLine(partition, lineOf(job), [job.id]);
      const fence = await lease(partition);
      await store.commit(fence, aCommit({ ledgers: [aLedger({ fairnessKey: '' })] }));
      expect(await store.getLedgers(partition, [''])).toEqual([aLedger({ fairnessKey: '' })]);
    });

    it('tells apart names that look the same once they are encoded', async () => {
      const partition = freshPartition();
      const names = ['a/b', 'a%2Fb', 'a', 'a/', 'A/b'];
      const jobs = names.map((fairnessKey) => aJob({ partition, fairnessKey }));
      await store.createJobs(jobs);
      for (const job of jobs) await untilLine(partition, lineOf(job), [job.id]);
    });

    jobHistoryContract(() => store);
  });
}
