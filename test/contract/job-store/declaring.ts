/** Declarations, and jobs, controls and claims that follow one which differs. */

import { beforeAll, describe, expect, it } from 'vitest';
import { historyOf } from '../../../lib/core/history.ts';
import { DECLARATION_CHARS_MAX } from '../../../lib/store/contract/bounds.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { DeclareStore } from '../../../lib/store/contract/declaring.ts';
import type { LeadStore } from '../../../lib/store/contract/leading.ts';
import type { OperateStore } from '../../../lib/store/contract/operate.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { lineOf } from '../../fixtures/factories/ready-line.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import { retryAt, type StoreSuite, times } from './suite.ts';

export function declaringContract(
  suite: StoreSuite<CoreStore & DeclareStore & LeadStore & OperateStore>,
): void {
  const { freshPartition, created, stored, claimedJob, runningJob, finish, commit, untilLine, untilDue } =
    suite;
  let store: CoreStore & DeclareStore & LeadStore & OperateStore;
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
        message: expect.stringContaining(`has ${DECLARATION_CHARS_MAX + 1} characters`),
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
  });

  describe('jobs that belong to another partition by now', () => {
    it('takes a pending job to another partition, where it stands in its ready line', async () => {
      const [partition, home] = [freshPartition(), freshPartition()];
      const job = await created(aJob({ partition }));
      const there = { ...job, partition: home, version: job.version + 1 };
      expect(await store.rehome({ jobs: [job], partition: home, nowMs: NOW_MS })).toEqual([there]);
      expect(await stored(job.id)).toEqual(there);
      await untilLine(home, lineOf(job), [job.id]);
      await untilLine(partition, lineOf(job), []);
    });

    it('takes a scheduled job whose time has come to another partition, where it is ready', async () => {
      const [partition, home] = [freshPartition(), freshPartition()];
      const job = await created(aScheduledJob(NOW_MS, { partition }));
      const there = { ...job, partition: home, state: 'pending', version: job.version + 1 };
      expect(await store.rehome({ jobs: [job], partition: home, nowMs: NOW_MS })).toEqual([there]);
      await untilLine(home, lineOf(job), [job.id]);
      await untilDue(partition, NOW_MS, []);
    });

    it('takes no job to another partition that is claimed, has moved on, is early or not there', async () => {
      const [partition, home] = [freshPartition(), freshPartition()];
      const [claimed, raised] = [await created(aJob({ partition })), await created(aJob({ partition }))];
      const early = await created(aScheduledJob(NOW_MS + 1, { partition }));
      await store.claim([aClaimRequest(claimed)]);
      await store.raiseVersion({ jobId: raised.id, version: raised.version });
      const ids = [claimed.id, raised.id, early.id];
      const before = await store.getJobs({ ids });
      const asked = [claimed, raised, early, aJob({ partition })];
      expect(await store.rehome({ jobs: asked, partition: home, nowMs: NOW_MS })).toEqual(
        times(4, () => undefined),
      );
      expect(await store.getJobs({ ids })).toEqual(before);
    });

    it('refuses the claim of a job that was planned before it was taken to another partition', async () => {
      const job = await created(aJob({ partition: freshPartition() }));
      await store.rehome({ jobs: [job], partition: freshPartition(), nowMs: NOW_MS });
      expect(await store.claim([aClaimRequest(job)])).toEqual(['lost']);
    });
  });

  describe('controls of a partition that is new', () => {
    it('gives a partition a control that nobody has changed there, and else leaves it', async () => {
      const partition = freshPartition();
      const control = { scope: 'type/photo', paused: true, maxConcurrency: 3 };
      expect(await store.adoptControl({ partition, control })).toBe('applied');
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls).toEqual([control]);
      expect(await store.adoptControl({ partition, control })).toBe('superseded');
      await store.changeControl({
        partition,
        scope: 'type/photo',
        change: { paused: false, maxConcurrency: null },
      });
      expect(await store.adoptControl({ partition, control })).toBe('superseded');
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls).toEqual([]);
    });
  });

  describe('the history of a job', () => {
    const eventsOf = async (id: string) => historyOf(await stored(id)).events;

    it('tells of a claim that was given back, with its fleet, beside what was there', async () => {
      const first = await runningJob();
      const { id } = first.job;
      await finish(first.job, first.worker, retryAt(NOW_MS + 20));
      const waiting = await stored(id);
      await store.promote({ jobs: [waiting], nowMs: waiting.runAtMs });
      const request = aClaimRequest(await stored(id), { fleet: 'gone' });
      expect(await store.claim([request])).toEqual(['claimed']);
      const claimed = await stored(id);
      expect(await store.giveBack({ job: claimed, claimId: request.claimId, nowMs: NOW_MS + 60 })).toBe(
        'applied',
      );
      expect(await store.giveBack({ job: claimed, claimId: request.claimId, nowMs: NOW_MS + 70 })).toBe(
        'superseded',
      );
      const [, attempt, ...others] = await eventsOf(id);
      expect(attempt).toMatchObject({ kind: 'attempt', outcome: 'failed' });
      expect(others).toEqual([
        { kind: 'givenBack', atMs: NOW_MS + 60, claimId: request.claimId, fleet: 'gone' },
      ]);
    });
  });
}
