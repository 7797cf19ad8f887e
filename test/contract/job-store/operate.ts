/** Controls, dead letters and rejected requests. */

import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Control } from '../../../lib/core/capacity.ts';
import { historyOf } from '../../../lib/core/history.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { Verdict } from '../../../lib/core/life-cycle.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { OperateStore } from '../../../lib/store/contract/operate.ts';
import type { ControlChange } from '../../../lib/store/contract/requests.ts';
import { settingsOf } from '../../fixtures/controls.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { lineOf } from '../../fixtures/factories/ready-line.ts';
import { aRejection } from '../../fixtures/factories/rejection.ts';
import { aTagEntry } from '../../fixtures/factories/tag-entry.ts';
import type { JobStoreHarness } from '../harness.ts';
import { PAYLOADS } from './core/payload.ts';
import { CONCURRENT_MS, EXPIRES_AT_MS, FAILURE, SHOWN, type StoreSuite, SUCCESS, times } from './suite.ts';

export function operateContract(suite: StoreSuite<CoreStore & OperateStore>): void {
  const { freshPartition, created, stored, runningJob, endedJob, finish, untilLine } = suite;
  let store: CoreStore & OperateStore;
  let harness: JobStoreHarness<CoreStore & OperateStore>;
  beforeAll(() => {
    harness = suite.opened();
    store = harness.store;
  });

  describe('controls', () => {
    it("shows the operators' controls until they are taken away", async () => {
      const partition = freshPartition();
      const control = { scope: 'type/resize', paused: true, maxConcurrency: 3 };
      const other = { scope: 'key/tenant/a', paused: false, weight: 2.5 };
      await store.changeControl({ partition, scope: 'type/resize', change: { paused: true } });
      const answered = (answer: Control) => ({ kind: 'changed', control: answer });
      const change = async (scope: string, part: ControlChange) => {
        const { kind, control: after } = await store.changeControl({ partition, scope, change: part });
        return { kind, control: settingsOf(after) };
      };
      expect(await change('type/resize', { maxConcurrency: 3 })).toEqual(answered(control));
      expect(await change('key/tenant/a', { weight: 2.5 })).toEqual(answered(other));
      const shown = (await store.loadPartition({ partition, nowMs: NOW_MS })).controls.map(settingsOf);
      expect(new Map(shown.map((each) => [each.scope, each]))).toEqual(
        new Map([control, other].map((each) => [each.scope, each])),
      );
      expect(await change('type/resize', { paused: false })).toEqual(
        answered({ scope: 'type/resize', paused: false, maxConcurrency: 3 }),
      );
      const idle = answered({ scope: 'type/resize', paused: false });
      for (let times = 0; times < 2; times += 1)
        expect(await change('type/resize', { maxConcurrency: null })).toEqual(idle);
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls.map(settingsOf)).toEqual([
        other,
      ]);
    });

    it('keeps what each of several operators changes in the same moment', {
      timeout: CONCURRENT_MS,
    }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const partition = freshPartition();
        const change = (part: ControlChange) =>
          store.changeControl({ partition, scope: 'key/tenant', change: part });
        await change({ paused: true, maxConcurrency: 9 });
        await Promise.all([
          change({ paused: false }),
          change({ maxConcurrency: 3 }),
          change({ weight: 2 }),
          store.changeControl({ partition, scope: 'pool', change: { paused: true } }),
        ]);
        const { controls } = await store.loadPartition({ partition, nowMs: NOW_MS });
        expect(controls.map(settingsOf).toSorted((one, other) => (one.scope < other.scope ? -1 : 1))).toEqual(
          [
            { scope: 'key/tenant', paused: false, maxConcurrency: 3, weight: 2 },
            { scope: 'pool', paused: true },
          ],
        );
      }
    });

    it('tells whoever wants another thing in the same moment whose change stands, and keeps that', {
      timeout: CONCURRENT_MS,
    }, async () => {
      for (let round = 0; round < 10; round += 1) {
        const partition = freshPartition();
        const caps = [1, 2, 3, 4];
        const outcomes = await Promise.all(
          caps.map((maxConcurrency) =>
            store.changeControl({ partition, scope: 'pool', change: { maxConcurrency } }),
          ),
        );
        const [control] = (await store.loadPartition({ partition, nowMs: NOW_MS })).controls;
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
        await store.changeControl({ partition, scope: 'pool', change: { paused: true } });
        await Promise.all([
          store.changeControl({ partition, scope: 'pool', change: { paused: false } }),
          store.changeControl({ partition, scope: 'pool', change: { maxConcurrency: 1 } }),
        ]);
        expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls.map(settingsOf)).toEqual([
          { scope: 'pool', paused: false, maxConcurrency: 1 },
        ]);
      }
    });

    it('ends a change by itself, and keeps it in the history', async () => {
      const partition = freshPartition();
      const untilMs = NOW_MS + 60_000;
      const by = { reason: 'the API is slow', by: 'ada' };
      const scope = 'type/resize';
      const change = (part: ControlChange) => store.changeControl({ partition, scope, change: part });
      const at = (nowMs: number) => store.loadPartition({ partition, nowMs });
      await change({ paused: true, untilMs, ...by });
      await change({ maxConcurrency: 3 });
      const [control] = (await at(untilMs - 1)).controls;
      expect(settingsOf(control ?? { scope, paused: false })).toEqual({
        scope,
        paused: true,
        maxConcurrency: 3,
      });
      expect(control?.changes).toMatchObject([
        { field: 'paused', to: true, untilMs, ...by },
        { field: 'maxConcurrency', to: 3 },
      ]);
      expect((await at(untilMs)).controls.map(settingsOf)).toEqual([
        { scope, paused: false, maxConcurrency: 3 },
      ]);
      await change({ maxConcurrency: null });
      const { controls, endedControls } = await at(untilMs);
      expect(controls).toEqual([]);
      expect(endedControls[0]?.changes).toHaveLength(3);
      // A new pause does not end when the old one would have.
      await change({ paused: true });
      expect((await at(untilMs + 1)).controls).toMatchObject([{ paused: true }]);
    });

    it('keeps the last ten changes of each part', async () => {
      const partition = freshPartition();
      const change = (part: ControlChange) => store.changeControl({ partition, scope: 'pool', change: part });
      await change({ paused: true });
      for (let cap = 1; cap <= 12; cap += 1) await change({ maxConcurrency: cap });
      const [control] = (await store.loadPartition({ partition, nowMs: NOW_MS })).controls;
      expect(control?.changes?.filter(({ field }) => field === 'paused')).toHaveLength(1);
      const caps = control?.changes?.filter(({ field }) => field === 'maxConcurrency') ?? [];
      expect(caps.map(({ to }) => to)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    });

    it('lets a scope rest until the latest end that was asked for, beside what operators set', async () => {
      const partition = freshPartition();
      const scope = 'key/tenant/a';
      const rest = (ms: number) => store.rest({ partition, scope, untilMs: NOW_MS + ms });
      const at = async (ms: number) =>
        (await store.loadPartition({ partition, nowMs: NOW_MS + ms })).controls.map(settingsOf);
      const outcomes = await Promise.all([rest(20_000), rest(60_000), rest(60_000)]);
      expect(outcomes.filter((outcome) => outcome === 'applied').length).toBeLessThanOrEqual(2);
      expect(await rest(30_000)).toBe('superseded');
      expect(await at(59_999)).toEqual([{ scope, paused: false, restsUntilMs: NOW_MS + 60_000 }]);
      await store.changeControl({ partition, scope, change: { weight: 2 } });
      expect(await at(0)).toEqual([{ scope, paused: false, weight: 2, restsUntilMs: NOW_MS + 60_000 }]);
      expect(await at(60_000)).toEqual([{ scope, paused: false, weight: 2 }]);
      await store.changeControl({ partition, scope, change: { paused: false } });
      expect(await at(0)).toEqual([{ scope, paused: false, weight: 2 }]);
    });

    it('tidies an ended control away, unless it was changed since', async () => {
      const partition = freshPartition();
      await store.rest({ partition, scope: 'type/resize', untilMs: NOW_MS - 1 });
      await store.rest({ partition, scope: 'type/clone', untilMs: NOW_MS - 1 });
      const { endedControls } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(endedControls).toHaveLength(2);
      await store.changeControl({ partition, scope: 'type/clone', change: { paused: true } });
      await store.tidy({ partition, ended: endedControls });
      const after = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(after.endedControls).toEqual([]);
      expect(after.controls).toMatchObject([{ scope: 'type/clone', paused: true }]);
    });
  });

  describe('finished jobs that are listed', () => {
    const listed = (partition: number, changes: Partial<Job> = {}) =>
      aJob({ partition, listFinished: true, ...changes });
    const untilFinished = (
      request: Omit<Parameters<OperateStore['readFinished']>[0], 'type' | 'limit'>,
      ids: readonly string[],
    ) =>
      vi.waitFor(async () => {
        const { jobs } = await store.readFinished({ type: aJob().type, limit: 100, ...request });
        expect(jobs.map((job) => job.id)).toEqual(ids);
      }, SHOWN);
    const succeededAt = async (partition: number, nowMs: number, changes?: Partial<Job>): Promise<string> => {
      const { job, worker } = await runningJob(listed(partition, changes));
      await store.finishJob({ ...worker, job, verdict: SUCCESS, nowMs, expiresAtMs: EXPIRES_AT_MS });
      return job.id;
    };

    it('are read by state and type, the latest first, and others are not', async () => {
      const partition = freshPartition();
      const early = await succeededAt(partition, NOW_MS + 10);
      const late = await succeededAt(partition, NOW_MS + 20);
      await succeededAt(partition, NOW_MS + 30, { listFinished: undefined });
      await succeededAt(partition, NOW_MS + 40, { type: 'other' });
      await untilFinished({ partition, state: 'succeeded' }, [late, early]);
      await untilFinished({ partition, state: 'cancelled' }, []);
      await untilFinished({ partition: freshPartition(), state: 'succeeded' }, []);
    });

    it('are read from an instant on, and before another', async () => {
      const partition = freshPartition();
      const ids: string[] = [];
      for (const at of [10, 20, 30]) ids.push(await succeededAt(partition, NOW_MS + at));
      const [first = '', second = '', third = ''] = ids;
      const state = 'succeeded';
      await untilFinished({ partition, state }, [third, second, first]);
      await untilFinished({ partition, state, sinceMs: NOW_MS + 20 }, [third, second]);
      await untilFinished({ partition, state, untilMs: NOW_MS + 20 }, [first]);
      await untilFinished({ partition, state, sinceMs: NOW_MS + 11, untilMs: NOW_MS + 21 }, [second]);
      await untilFinished({ partition, state, sinceMs: 0, untilMs: 1 }, []);
    });

    it('are read in pages, also between two instants', async () => {
      const partition = freshPartition();
      const ids: string[] = [];
      for (let at = 0; at < 6; at += 1) ids.unshift(await succeededAt(partition, NOW_MS + at));
      await untilFinished({ partition, state: 'succeeded' }, ids);
      const request = { partition, type: aJob().type, state: 'succeeded', limit: 2 } as const;
      const times = { sinceMs: NOW_MS + 1, untilMs: NOW_MS + 5 };
      const first = await store.readFinished({ ...request, ...times });
      const second = await store.readFinished({ ...request, ...times, after: first.next });
      expect([...first.jobs, ...second.jobs].map(({ id }) => id)).toEqual(ids.slice(1, 5));
      expect(second.next).toBeUndefined();
    });

    it('may be cancelled while they wait, at once or after a claim, or by their worker', async () => {
      const partition = freshPartition();
      const waiting = await created(listed(partition));
      const scheduled = await created(listed(partition, { state: 'scheduled', runAtMs: NOW_MS + 60_000 }));
      const { job, worker } = await runningJob(listed(partition));
      const cancel = (jobId: string, nowMs: number) =>
        store.cancelJob({ jobId, nowMs, expiresAtMs: EXPIRES_AT_MS });
      await cancel(waiting.id, NOW_MS + 1);
      await cancel(scheduled.id, NOW_MS + 2);
      await cancel(job.id, NOW_MS + 3);
      await untilFinished({ partition, state: 'cancelled' }, [scheduled.id, waiting.id]);
      const verdict: Verdict = {
        kind: 'retry',
        error: { name: 'Broken', message: 'it broke' },
        runAtMs: NOW_MS,
      };
      await finish(job, worker, verdict);
      await untilFinished({ partition, state: 'cancelled' }, [job.id, scheduled.id, waiting.id]);
      await untilLine(partition, lineOf(waiting), []);
    });

    it('may be cancelled when their worker is lost', async () => {
      const partition = freshPartition();
      const { job } = await runningJob(listed(partition));
      await store.endUnfinished({
        job,
        verdict: { kind: 'cancelled' },
        nowMs: NOW_MS,
        expiresAtMs: EXPIRES_AT_MS,
      });
      await untilFinished({ partition, state: 'cancelled' }, [job.id]);
    });

    it('are dead letters if they have failed', async () => {
      const partition = freshPartition();
      const { job, worker } = await runningJob(listed(partition));
      await finish(job, worker, FAILURE);
      await untilFinished({ partition, state: 'succeeded' }, []);
      expect((await stored(job.id)).state).toBe('failed');
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
      await store.endUnfinished({ job, verdict: FAILURE, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
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

  describe('a dead letter that expires', () => {
    afterEach(() => harness.setClock(NOW_MS));

    it.each([
      ['at a full second', 10_000, 10_000],
      ['within a second', 10_500, 11_000],
    ])('can be redriven, if it failed, until it expires %s', async (_, keptMs, goneMs) => {
      const [present, gone] = [await endedJob(keptMs, FAILURE), await endedJob(keptMs, FAILURE)];
      const [one, other] = [aJob({ redriveOf: present.id }), aJob({ redriveOf: gone.id })];
      harness.setClock(NOW_MS + keptMs - 1);
      expect(await store.redrive({ deadLetter: present, job: one })).toBe('applied');
      harness.setClock(NOW_MS + goneMs);
      expect(await store.redrive({ deadLetter: gone, job: other })).toBe('superseded');
      expect(await store.getJobs({ ids: [one.id, other.id] })).toEqual([one, undefined]);
    });

    it('gives its id to a redriven job once it has expired, not before', async () => {
      const dead = await endedJob(60_000, FAILURE);
      const former = await endedJob(10_000, SUCCESS);
      const job = aJob({ id: former.id, redriveOf: dead.id });
      harness.setClock(NOW_MS + 9_999);
      expect(await store.redrive({ deadLetter: dead, job })).toBe('superseded');
      harness.setClock(NOW_MS + 10_000);
      expect(await store.redrive({ deadLetter: dead, job })).toBe('applied');
      expect(await stored(job.id)).toEqual(job);
    });
  });

  describe('the history of a dead letter', () => {
    const eventsOf = async (id: string) => historyOf(await stored(id)).events;

    it('and of the job that is made of it tells who tried it again, once', async () => {
      const { job, worker } = await runningJob();
      const { id } = job;
      await finish(job, worker, FAILURE);
      const dead = await stored(id);
      const [one, other] = ['ann', 'bob'].map((redriveBy) =>
        aJob({ redriveOf: id, redriveBy, submittedAtMs: NOW_MS + 40 }),
      );
      if (one === undefined || other === undefined) throw new Error('two jobs');
      expect(await store.redrive({ deadLetter: dead, job: one })).toBe('applied');
      expect(await store.redrive({ deadLetter: dead, job: other })).toBe('superseded');
      expect((await eventsOf(id)).at(-1)).toEqual({
        kind: 'redriven',
        atMs: NOW_MS + 40,
        by: 'ann',
        as: one.id,
      });
      expect(await eventsOf(one.id)).toEqual([
        { kind: 'submitted', atMs: NOW_MS + 40, redriveOf: id, by: 'ann' },
      ]);
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

    it('are read latest first, in pages, whatever their source', async () => {
      const rejections = times(5, (at) => aRejection({ rejectedAtMs: NOW_MS + 1_000_000 + at })).reverse();
      await store.recordRejections(rejections);
      const own = new Set(rejections.map(({ sourceId }) => sourceId));
      const read = async () => {
        const all: (typeof rejections)[number][] = [];
        let after: string | undefined;
        do {
          const page = await store.readRejections({ limit: 3, after });
          expect(page.rejections.length).toBeLessThanOrEqual(3);
          all.push(...page.rejections);
          after = page.next;
        } while (after !== undefined);
        return all.filter(({ sourceId }) => own.has(sourceId));
      };
      await expect.poll(read).toEqual(rejections);
    });

    it('are none for a source that was never rejected', async () => {
      expect(await store.listRejections('unheard-of')).toEqual([]);
      await store.recordRejections([]);
    });
  });

  describe('searchable tags', () => {
    it('name their jobs, the latest submit first, in pages', async () => {
      const tag = { name: 'order', value: `47/11 \u00fc${freshPartition()}` };
      const entries = times(5, (at) => aTagEntry({ ...tag, jobId: `job-${at}`, submittedAtMs: NOW_MS + at }));
      await store.recordTags([...entries, aTagEntry({ ...tag, value: 'another' })]);
      await store.recordTags(entries.slice(0, 2));
      const read: unknown[] = [];
      let after: string | undefined;
      do {
        const page = await store.readTagged({ ...tag, limit: 2, after });
        expect(page.entries.length).toBeLessThanOrEqual(2);
        read.push(...page.entries);
        after = page.next;
      } while (after !== undefined);
      expect(read).toEqual(entries.map(({ jobId, submittedAtMs }) => ({ jobId, submittedAtMs })).reverse());
    });

    it('name no job that was never tagged so', async () => {
      await store.recordTags([]);
      expect(await store.readTagged({ name: 'order', value: 'unheard-of', limit: 2 })).toEqual({
        entries: [],
      });
    });

    it('may be as long as a request lets them', async () => {
      const tag = { name: '\u00e4'.repeat(64), value: '/'.repeat(384) };
      await store.recordTags([aTagEntry({ ...tag, jobId: 'j'.repeat(200) })]);
      expect((await store.readTagged({ ...tag, limit: 1 })).entries).toHaveLength(1);
    });
  });

  it.each(PAYLOADS)('a dead letter and its next try keep a payload of %s', async (_, text) => {
    const payload = { text };
    const partition = freshPartition();
    const { job, worker } = await runningJob(aJob({ partition, payload }));
    const failed = await finish(job, worker, FAILURE);
    if (failed.kind !== 'finished') throw new Error('not finished');
    await vi.waitFor(async () => {
      const { jobs } = await store.readDeadLetters({ partition, limit: 1 });
      expect(jobs.map((each) => each.payload)).toEqual([payload]);
    }, SHOWN);
    const next = aJob({ partition, payload, redriveOf: job.id });
    for (let repeat = 0; repeat < 2; repeat += 1)
      expect(await store.redrive({ deadLetter: failed.job, job: next })).toBe('applied');
    expect(await stored(next.id)).toEqual(next);
  });
}
