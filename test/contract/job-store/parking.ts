/** Lines of jobs whose conflict key is held. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { movedEntry } from '../../../lib/core/history.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { DeclareStore } from '../../../lib/store/contract/declaring.ts';
import type { JobHead } from '../../../lib/store/contract/job-fields.ts';
import { pagesOf } from '../../../lib/store/contract/pages.ts';
import type { ParkingStore } from '../../../lib/store/contract/parking.ts';
import type { ParkedMark } from '../../../lib/store/contract/records.ts';
import type { Applied } from '../../../lib/store/contract/requests.ts';
import { BLOCKED_HEADS } from '../../../lib/store/contract/requests.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import { aReadyLine, lineOf } from '../../fixtures/factories/ready-line.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { SHOWN, type StoreSuite, times } from './suite.ts';

/** Parked jobs are taken to other partitions, too. */
type ParkedStore = CoreStore & ParkingStore & DeclareStore;

export function parkingContract(suite: StoreSuite<ParkedStore>): void {
  const { freshPartition, created, stored, versionOf, commit, untilLine, untilDue } = suite;
  let store: ParkedStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  /** Parks jobs on top of what was committed last, for one conflict key. Answers what became of each. */
  const park = async (partition: number, jobs: readonly JobHead[]): Promise<readonly Applied[]> => {
    // Of many, some may be parked although the call got no answer: called again, it parks all of them.
    for (let tries = 0; tries < 20; tries += 1) {
      const version = await versionOf(partition);
      const outcome = await store.park({ partition, version, jobs, conflictKey: 'catalogue/photos' });
      if (outcome.kind === 'parked') return outcome.outcomes;
    }
    throw new Error(`other commits of partition ${partition} came first each time`);
  };

  const LATER_MS = NOW_MS + 60_000;
  const retime = (job: Job, runAtMs: number) => store.retimeJob({ job, runAtMs, nowMs: NOW_MS });

  describe('parking', () => {
    const parkedIds = async (partition: number): Promise<readonly string[]> =>
      (await store.readBlocked({ partition, conflictKey: 'catalogue/photos', groups: 10 })).jobs.map(
        ({ id }) => id,
      );

    it('moves a pending job from its ready line to the blocked line, from where it can be claimed', async () => {
      const partition = freshPartition();
      const [first, second] = [aJob({ partition }), aJob({ partition })];
      await store.createJobs([first, second]);
      expect(await park(partition, [first])).toEqual(['applied']);
      await expect.poll(() => parkedIds(partition), SHOWN).toEqual([first.id]);
      await untilLine(partition, aReadyLine(), [second.id]);
      expect(await store.getJobs({ ids: [first.id] })).toEqual([first]);
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
      await park(partition, groups.flat());
      const heads = async (count: number) => {
        const found: JobHead[] = [];
        let after: string | undefined;
        for (let bites = 0; bites < 10; bites += 1) {
          const { jobs, next } = await store.readBlocked({
            partition,
            conflictKey: 'catalogue/photos',
            groups: count,
            after,
          });
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

    it('shows all jobs of a blocked line, page by page, those of a group in their order', async () => {
      const partition = freshPartition();
      const groups = ['a', 'b'].map((fairnessKey) =>
        times(7, (at) => aJob({ partition, fairnessKey, readyAtMs: NOW_MS + at })),
      );
      const ready = aJob({ partition, fairnessKey: 'a' });
      await store.createJobs([...groups.flat(), ready]);
      await park(partition, groups.flat());
      const all = async (limit: number): Promise<readonly string[]> => {
        const found: string[] = [];
        const line = { conflictKey: 'catalogue/photos' };
        for await (const { jobs } of pagesOf((after: string | undefined) =>
          store.readLine({ partition, line, limit, after }),
        )) {
          expect(jobs.length).toBeLessThanOrEqual(limit);
          found.push(...jobs.map(({ id }) => id));
        }
        return found;
      };
      const parked = groups.flat().map(({ id }) => id);
      for (const limit of [1, 3, 14, 100]) await expect.poll(() => all(limit), SHOWN).toEqual(parked);
      const other = { conflictKey: 'catalogue' };
      expect(await store.readLine({ partition, line: other, limit: 10 })).toEqual({ jobs: [] });
    });

    it('lists marks page by page, each once, whatever their names', async () => {
      const partition = freshPartition();
      const conflictKeys = ['~', 'a%', 'a/b', '\u00e9', '\uff5e', '\uff5eb', '\u{1f600}', '\u{1f600}a'];
      await store.markParked({ partition, conflictKeys, nowMs: NOW_MS });
      for (const limit of [1, 3, 8]) {
        const found: string[] = [];
        for await (const { marks } of pagesOf((after: string | undefined) =>
          store.listParked({ partition, limit, after }),
        ))
          found.push(...marks.map(({ conflictKey }) => conflictKey));
        expect(found.toSorted()).toEqual(conflictKeys.toSorted());
      }
    });

    it('shows what stands behind those that are to be left out, of each group', async () => {
      const partition = freshPartition();
      const groups = ['a', 'b'].map((fairnessKey) =>
        times(30, (at) => aJob({ partition, fairnessKey, readyAtMs: NOW_MS + at })),
      );
      await store.createJobs(groups.flat());
      await park(partition, groups.flat());
      const ids = groups.map((group) => group.map(({ id }) => id));
      const butFor = new Set([...(ids[0]?.slice(0, 20) ?? []), ...(ids[1]?.slice(1, 3) ?? [])]);
      const shown = async (left: ReadonlySet<string>): Promise<readonly (readonly string[])[]> => {
        const asked = { partition, conflictKey: 'catalogue/photos', groups: 10, butFor: left };
        const found = (await store.readBlocked(asked)).jobs.map(({ id }) => id);
        return ids.map((group) => group.filter((id) => found.includes(id)));
      };
      await vi.waitFor(async () => {
        const [a = [], b = []] = await shown(butFor);
        expect(a).toEqual(ids[0]?.slice(20, 20 + BLOCKED_HEADS));
        // Of a group that comes later at least one.
        expect(b.length).toBeGreaterThanOrEqual(1);
        expect(b).toEqual([0, 3, 4, 5].map((at) => ids[1]?.[at]).slice(0, b.length));
        for (let most = 1; most < 12; most += 1) {
          const [, behind = []] = await shown(
            new Set([...(ids[0] ?? []), ...(ids[1]?.slice(0, most) ?? [])]),
          );
          expect(behind[0]).toBe(ids[1]?.[most]);
        }
      }, SHOWN);
      const all = { partition, conflictKey: 'catalogue/photos', groups: 10, butFor: new Set(ids.flat()) };
      expect((await store.readBlocked(all)).jobs).toEqual([]);
    });

    it('is undone at exactly the version: the job stands in its ready line again', async () => {
      const partition = freshPartition();
      const [back, gone, elsewhere] = times(3, () => aJob({ partition })) as [Job, Job, Job];
      await store.createJobs([back, gone, elsewhere]);
      await park(partition, [back, gone]);
      await store.claim([aClaimRequest(gone)]);
      expect(
        await store.unpark({
          jobs: [back, gone, elsewhere, aJob({ partition })],
          conflictKey: 'catalogue/photos',
        }),
      ).toEqual(['applied', 'superseded', 'superseded', 'superseded']);
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
      const [gone, waiting] = [aJob({ partition }), aJob({ partition })];
      await store.createJobs([gone, waiting]);
      await store.claim([aClaimRequest(gone)]);
      const outcomes = await park(partition, [gone, aJob({ partition }), waiting]);
      expect(outcomes).toEqual(['superseded', 'superseded', 'applied']);
      await expect.poll(() => parkedIds(partition), SHOWN).toEqual([waiting.id]);
    });

    it('moves the others at once, however many have moved on', async () => {
      const partition = freshPartition();
      const gone = times(8, () => aJob({ partition }));
      const waiting = times(2, (at) => aJob({ partition, readyAtMs: NOW_MS + at }));
      await store.createJobs(waiting);
      const outcomes = await park(partition, [...gone, ...waiting]);
      expect(outcomes).toEqual([...gone.map(() => 'superseded'), 'applied', 'applied']);
      await expect.poll(() => parkedIds(partition), SHOWN).toEqual(waiting.map(({ id }) => id));
    });

    it('raises the version, and is lost if another commit has raised it before', async () => {
      const partition = freshPartition();
      const [job, other] = [aJob({ partition }), aJob({ partition })];
      await store.createJobs([job, other]);
      await commit(partition, { parks: true });
      const asked = { partition, version: 1, conflictKey: 'catalogue/photos' };
      expect(await store.park({ ...asked, jobs: [job] })).toEqual({
        kind: 'parked',
        version: 2,
        outcomes: ['applied'],
      });
      expect(await versionOf(partition)).toBe(2);
      expect(await store.park({ ...asked, jobs: [other] })).toEqual({ kind: 'lost' });
      await expect.poll(() => parkedIds(partition), SHOWN).toEqual([job.id]);
      // A settlement that read the blocked line before is not written after.
      const settled = aCommit({ version: 1, ledgers: [aLedger()] });
      expect(await store.commit({ partition, commit: settled })).toBe('lost');
      expect(await store.commit({ partition, commit: { ...settled, version: 2 } })).toBe('committed');
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        version: 3,
        parks: true,
        ledgers: [aLedger()],
      });
    });

    it('leaves the version alone where no job is parked', async () => {
      const partition = freshPartition();
      await commit(partition, { parks: true });
      const jobs = [aJob({ partition })];
      expect(await store.park({ partition, version: 1, jobs, conflictKey: 'catalogue/photos' })).toEqual({
        kind: 'parked',
        version: 1,
        outcomes: ['superseded'],
      });
      expect(await versionOf(partition)).toBe(1);
    });

    it('keeps what was committed before, also where nothing was', async () => {
      const [fresh, used] = [freshPartition(), freshPartition()];
      const reservation = aReservation();
      await commit(used, { reserve: [reservation], ledgers: [aLedger()] });
      for (const partition of [fresh, used]) {
        const before = await store.loadPartition({ partition, nowMs: NOW_MS });
        const jobs = times(150, () => aJob({ partition }));
        await store.createJobs(jobs);
        expect(new Set(await park(partition, jobs))).toEqual(new Set(['applied']));
        const after = await store.loadPartition({ partition, nowMs: NOW_MS });
        expect(after.version).toBeGreaterThan(before.version);
        expect(after).toEqual({ ...before, version: after.version });
      }
    });

    it('is remembered by marks of its conflict keys, until exactly these are taken away', async () => {
      const [partition, other] = [freshPartition(), freshPartition()];
      const odd = `album/${'ä'.repeat(500)}`;
      await store.markParked({ partition, conflictKeys: ['a', 'b', odd], nowMs: NOW_MS });
      await store.markParked({ partition, conflictKeys: ['b'], nowMs: NOW_MS + 1 });
      const marks = [
        { conflictKey: 'a', parkedAtMs: NOW_MS },
        { conflictKey: odd, parkedAtMs: NOW_MS },
        { conflictKey: 'b', parkedAtMs: NOW_MS + 1 },
      ];
      const byKey = (found: readonly ParkedMark[]): readonly ParkedMark[] =>
        found.toSorted((one, another) => (one.conflictKey < another.conflictKey ? -1 : 1));
      expect(byKey(await store.readParked({ partition, conflictKeys: ['b', 'c', odd, 'a', 'b'] }))).toEqual(
        marks,
      );
      expect(await store.readParked({ partition: other, conflictKeys: ['a'] })).toEqual([]);
      expect(await store.readParked({ partition, conflictKeys: [] })).toEqual([]);
      const first = await store.listParked({ partition, limit: 2 });
      expect(first.marks).toHaveLength(2);
      const second = await store.listParked({ partition, limit: 2, after: first.next });
      expect(byKey([...first.marks, ...second.marks])).toEqual(marks);
      expect((await store.listParked({ partition, limit: 9 })).next).toBeUndefined();
      expect(await store.unmarkParked({ partition, mark: { conflictKey: 'b', parkedAtMs: NOW_MS } })).toBe(
        'superseded',
      );
      expect(await store.unmarkParked({ partition, mark: { conflictKey: 'a', parkedAtMs: NOW_MS } })).toBe(
        'applied',
      );
      expect(await store.unmarkParked({ partition, mark: { conflictKey: 'a', parkedAtMs: NOW_MS } })).toBe(
        'applied',
      );
      expect(byKey((await store.listParked({ partition, limit: 9 })).marks)).toEqual(marks.slice(1));
    });

    it('keeps a mark as new as it was, whoever marks it later by an older time', async () => {
      const partition = freshPartition();
      for (const nowMs of [NOW_MS + 9, NOW_MS, NOW_MS + 9])
        await store.markParked({ partition, conflictKeys: ['a', `b ${nowMs}`], nowMs });
      const newest = { conflictKey: 'a', parkedAtMs: NOW_MS + 9 };
      expect(await store.readParked({ partition, conflictKeys: ['a'] })).toEqual([newest]);
      expect(await store.unmarkParked({ partition, mark: { ...newest, parkedAtMs: NOW_MS } })).toBe(
        'superseded',
      );
      expect(await store.unmarkParked({ partition, mark: newest })).toBe('applied');
    });

    it('is known from the commit before the first mark, until one takes it back', async () => {
      const partition = freshPartition();
      const parks = async (): Promise<boolean> =>
        (await store.loadPartition({ partition, nowMs: NOW_MS })).parks;
      await commit(partition, { parks: true });
      await commit(partition);
      expect(await parks()).toBe(true);
      await commit(partition, { parks: false });
      expect(await parks()).toBe(false);
    });

    it('takes a parked job to its ready line in another partition', async () => {
      const [partition, home] = [freshPartition(), freshPartition()];
      const job = await created(aJob({ partition }));
      await park(partition, [job]);
      expect(await store.rehome({ jobs: [job], partition: home, nowMs: NOW_MS })).toMatchObject([
        { partition: home },
      ]);
      await untilLine(home, lineOf(job), [job.id]);
      expect(await store.unpark({ jobs: [job], conflictKey: 'catalogue/photos' })).toEqual(['superseded']);
      expect((await stored(job.id)).partition).toBe(home);
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

    it('takes a parked job that gets another priority out of its blocked line', async () => {
      const partition = freshPartition();
      const job = await created(aJob({ partition }));
      await park(partition, [job]);
      const { runAtMs } = job;
      await store.retimeJob({ job, runAtMs, priority: 7, nowMs: NOW_MS });
      await untilDue(partition, NOW_MS, [job.id]);
      const blocked = { partition, conflictKey: 'catalogue/photos', groups: 10 };
      await expect.poll(async () => (await store.readBlocked(blocked)).jobs, SHOWN).toEqual([]);
      await store.promote({ jobs: [await stored(job.id)], nowMs: NOW_MS });
      await untilLine(partition, lineOf(job), [job.id]);
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
  });
}
