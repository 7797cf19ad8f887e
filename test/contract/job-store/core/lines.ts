/** The lines in which jobs wait, and those of keys with backlog: what a pass looks for work in. */
import { beforeAll, describe, expect, it, vi } from 'vitest';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { ReadyLine } from '../../../../lib/store/contract/lines.ts';
import { aClaimRequest } from '../../../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../../../fixtures/factories/ledger.ts';
import { aReadyLine, lineOf } from '../../../fixtures/factories/ready-line.ts';
import { aReservation } from '../../../fixtures/factories/reservation.ts';
import { aWorker } from '../../../fixtures/factories/worker.ts';
import { ODD_NAMES, SUITE_TYPE } from '../../harness.ts';
import { CONCURRENT_MS, EXPIRES_AT_MS, SHOWN, type StoreSuite, SUCCESS, times } from '../suite.ts';

export function linesContract(suite: StoreSuite<CoreStore>, isOneProcess = true): void {
  const { freshPartition, created, stored, finish, commit, untilLine, untilDue, untilKeys } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });
  const chargesIn =
    (partition: number) =>
    async (fairnessKey: string, settledCostMs: number): Promise<void> => {
      const ledgers = [aLedger({ fairnessKey, settledCostMs })];
      expect(await commit(partition, { ledgers })).toBe('committed');
    };

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
      expect(
        await store.readLine({ partition, line: lineOf({ ...base, type: 'nothing' }), limit: 10 }),
      ).toEqual({
        jobs: [],
      });
    });

    it('gives all that planning needs of a job', async () => {
      const partition = freshPartition();
      const job = await created(aJob({ partition, payload: { deep: [1, 2] }, resourceId: 'r' }));
      await untilLine(partition, lineOf(job), [job.id]);
      const { payload: _payload, contentHash: _hash, submittedAtMs: _at, workersLost: _lost, ...head } = job;
      expect((await store.readLine({ partition, line: lineOf(job), limit: 1 })).jobs).toEqual([
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
        const page = await store.readLine({ partition, line: aReadyLine(), limit: 3, after });
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
      expect((await store.readLine({ partition, line: aReadyLine(), limit: 3 })).next).toBeUndefined();
      expect((await store.readLine({ partition, line: aReadyLine(), limit: 2 })).next).toBeDefined();
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
      const first = await store.readLine({ partition, line: aReadyLine(), limit: 2 });
      await store.claim(first.jobs.map((job) => aClaimRequest(job)));
      const second = await store.readLine({ partition, line: aReadyLine(), limit: 2, after: first.next });
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
        const page = await store.readDue({ partition, nowMs: NOW_MS + 10, limit: 3, after });
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
        const page = await store.readDue({ partition, nowMs: NOW_MS + 50, limit, fromMs });
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
      expect(await store.promote({ jobs: [job], nowMs: NOW_MS + 5_000 })).toEqual([expected]);
      expect(await stored(job.id)).toEqual(expected);
      await untilLine(partition, lineOf(job), [job.id]);
      await untilDue(partition, NOW_MS + 5_000, []);
    });

    it('never moves a job before its time', async () => {
      const partition = freshPartition();
      const job = await created(aScheduledJob(NOW_MS + 10, { partition }));
      expect(await store.promote({ jobs: [job], nowMs: NOW_MS + 9 })).toEqual([undefined]);
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
      const answers = await store.promote({ jobs: [outdated, b, unknown], nowMs: NOW_MS });
      expect(answers.map((job) => job?.id)).toEqual([undefined, b.id, undefined]);
      expect(await stored(a.id)).toEqual(a);
      expect(await store.getJobs({ ids: [unknown.id] })).toEqual([undefined]);
    });

    it('promotes a job once when eight dispatchers race', { timeout: CONCURRENT_MS }, async () => {
      const job = await created(aScheduledJob(NOW_MS));
      const answers = await Promise.all(times(8, () => store.promote({ jobs: [job], nowMs: NOW_MS })));
      expect(answers.flat().filter((answer) => answer !== undefined)).toHaveLength(1);
      expect((await stored(job.id)).version).toBe(2);
    });

    it('promotes more than one batch', async () => {
      const jobs = times(60, () => aScheduledJob(NOW_MS));
      await store.createJobs(jobs);
      const answers = await store.promote({ jobs, nowMs: NOW_MS });
      expect(answers.map((job) => job?.id)).toEqual(jobs.map((job) => job.id));
    });
  });

  describe('keys with backlog', () => {
    it('stand in the keys line of their tier by what they were charged', async () => {
      const partition = freshPartition();
      const ledgers = [
        aLedger({ fairnessKey: 'dear', settledCostMs: 90_000 }),
        aLedger({ fairnessKey: 'cheap', settledCostMs: 8_000.5 }),
        aLedger({ fairnessKey: 'middling', settledCostMs: 10_000 }),
      ];
      expect(await commit(partition, { ledgers })).toBe('committed');
      await store.announceLines({
        partition,
        lines: ['middling', 'new', 'dear', 'cheap'].map((fairnessKey) => aReadyLine({ fairnessKey })),
        nowMs: NOW_MS,
      });
      await untilKeys(partition, SUITE_TYPE, ['new', 'cheap', 'middling', 'dear']);
    });

    it('are known of many keys at once as of each by itself, wherever what they were charged stands', async () => {
      const partition = freshPartition();
      // So long that most have no room with the partition.
      const nameOf = (at: number): string =>
        `${String((at * 7) % 1_300).padStart(6, '0')}/${'n'.repeat(480)}`;
      const ledgers = times(1_300, (at) => aLedger({ fairnessKey: nameOf(at), settledCostMs: at + 1 }));
      for (let from = 0; from < ledgers.length; from += 90) {
        expect(await commit(partition, { ledgers: ledgers.slice(from, from + 90) })).toBe('committed');
      }
      const known = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(known.ledgers.length).toBeLessThan(1_000);
      const strangers = times(300, (at) => `${String(at).padStart(6, '0')}/stranger`);
      const fairnessKeys = [...times(1_300, nameOf), ...strangers];
      expect(await store.getLedgers({ partition, fairnessKeys })).toEqual([
        ...ledgers,
        ...strangers.map(() => undefined),
      ]);
      // Those of one block stand far apart.
      const far = times(250, (at) => nameOf(at * 5));
      expect(await store.getLedgers({ partition, fairnessKeys: far })).toEqual(
        times(250, (at) => ledgers[at * 5]),
      );
    }, 120_000);

    it('are asked for many at once, by their names', async () => {
      const partition = freshPartition();
      const names = times(450, (at) => `tenant-${(at * 11) % 450}`);
      const lines = names.map((fairnessKey) => aReadyLine({ fairnessKey }));
      for (let from = 0; from < lines.length; from += 90)
        await store.announceLines({ partition, lines: lines.slice(from, from + 90), nowMs: NOW_MS });
      await store.announceLines({
        partition,
        lines: times(300, (at) => aReadyLine({ type: 'another', fairnessKey: `tenant-${at}` })),
        nowMs: NOW_MS,
      });
      const fairnessKeys = [...names, ...times(100, (at) => `nobody-${at}`)];
      const read = await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys });
      expect(read.map((each) => each?.fairnessKey)).toEqual([...names, ...times(100, () => undefined)]);
    }, 60_000);

    it('stand and are charged to the last unit of 2^-16 ms, after years of work', async () => {
      const partition = freshPartition();
      const YEARS_MS = 2 ** 37 - 1;
      const ledgers = ['c', 'b', 'a'].map((fairnessKey, units) =>
        aLedger({ fairnessKey, settledCostMs: YEARS_MS + units / 65_536 }),
      );
      expect(await commit(partition, { ledgers })).toBe('committed');
      expect(await store.getLedgers({ partition, fairnessKeys: ['c', 'b', 'a'] })).toEqual(ledgers);
      const lines = ['a', 'b', 'c'].map((fairnessKey) => aReadyLine({ fairnessKey }));
      await store.announceLines({ partition, lines, nowMs: NOW_MS });
      await untilKeys(partition, SUITE_TYPE, ['c', 'b', 'a']);
      const { keys } = await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 });
      expect(keys.map(({ rankCostMs }) => rankCostMs)).toEqual(ledgers.map((each) => each.settledCostMs));
    });

    // A process remembers the keys that it has met, until it tidies.
    if (isOneProcess) {
      it('come to the front when a pass that has met them there charges them less, and trail when it charges them more', async () => {
        const partition = freshPartition();
        const charge = chargesIn(partition);
        await charge('b', 50);
        await charge('a', 100);
        await charge('c', 200);
        const lines = ['a', 'b', 'c'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines({ partition, lines, nowMs: NOW_MS });
        await untilKeys(partition, SUITE_TYPE, ['b', 'a', 'c']);
        await store.readKeys({ partition, type: SUITE_TYPE, limit: 2 });
        await charge('a', 10);
        await charge('b', 300);
        await store.tidy({ partition });
        await untilKeys(partition, SUITE_TYPE, ['a', 'b', 'c']);
        const { keys } = await store.readKeys({ partition, type: SUITE_TYPE, limit: 3 });
        expect(keys.map(({ rankCostMs }) => rankCostMs)).toEqual([10, 50, 200]);
      });

      it('come to the front by ledgers that a load shows, if they stand too far behind', async () => {
        const partition = freshPartition();
        const charge = chargesIn(partition);
        await charge('a', 100);
        await charge('z', 1_000);
        const lines = ['a', 'z'].map((fairnessKey) => aReadyLine({ fairnessKey }));
        await store.announceLines({ partition, lines, nowMs: NOW_MS });
        await untilKeys(partition, SUITE_TYPE, ['a', 'z']);
        await charge('a', 10);
        // Nobody has met the key so far.
        await store.tidy({ partition });
        await store.loadPartition({ partition, nowMs: NOW_MS });
        await store.readKeys({ partition, type: SUITE_TYPE, limit: 1 });
        await store.tidy({ partition });
        const [a] = await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['a'] });
        expect(a?.rankCostMs).toBe(10);
      });
    }

    it('stand in front again once they were away, and are not moved from where nobody saw them', async () => {
      const partition = freshPartition();
      const ledgers = [
        aLedger({ fairnessKey: 'a', settledCostMs: 100 }),
        aLedger({ fairnessKey: 'z', settledCostMs: 1_000 }),
      ];
      expect(await commit(partition, { ledgers })).toBe('committed');
      const lines = ['a', 'z'].map((fairnessKey) => aReadyLine({ fairnessKey }));
      await store.announceLines({ partition, lines, nowMs: NOW_MS });
      await untilKeys(partition, SUITE_TYPE, ['a', 'z']);
      await store.readKeys({ partition, type: SUITE_TYPE, limit: 1 });
      const keyTtlMs = 60_000;
      const later = { partition, lines: lines.slice(0, 1), nowMs: NOW_MS + 2 * keyTtlMs, keyTtlMs };
      await store.announceLines(later);
      const rankOf = async () =>
        (await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['a'] }))[0]?.rankCostMs;
      expect(await rankOf()).toBe(0);
      await chargesIn(partition)('a', 50);
      await store.tidy({ partition });
      expect(await rankOf()).toBe(0);
    });

    it('are left as they are where somebody has announced all of their lines lately, and say when', async () => {
      const partition = freshPartition();
      const [one, two, other] = [
        aReadyLine(),
        aReadyLine({ mode: 'onDemand' }),
        aReadyLine({ fairnessKey: 'other' }),
      ];
      const announce = (lines: readonly ReadyLine[], nowMs: number, afterMs?: number) =>
        store.announceLines({ partition, lines, nowMs, afterMs });
      const announced = async () =>
        (await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['tenant-a', 'other'] })).map(
          (key) => [key?.announcedAtMs, key?.lines.length],
        );
      expect(await announce([one], NOW_MS, NOW_MS - 10)).toEqual([NOW_MS]);
      expect(await announce([other, one], NOW_MS + 5, NOW_MS - 1)).toEqual([NOW_MS + 5, NOW_MS]);
      expect(await announced()).toEqual([
        [NOW_MS, 1],
        [NOW_MS + 5, 1],
      ]);
      // One that is not there yet, or was announced too long ago, is written with the time.
      expect(await announce([one, two], NOW_MS + 6, NOW_MS - 1)).toEqual([NOW_MS + 6, NOW_MS + 6]);
      expect(await announce([other], NOW_MS + 7, NOW_MS + 5)).toEqual([NOW_MS + 7]);
      expect(await announce([one], NOW_MS + 8)).toEqual([NOW_MS + 8]);
      expect(await announced()).toEqual([
        [NOW_MS + 8, 2],
        [NOW_MS + 7, 1],
      ]);
      for (const line of [one, two])
        expect(await store.retireLine({ partition, line, announcedAtMs: NOW_MS + 8 })).toBe('retired');
      expect(await announce([two], NOW_MS + 9, NOW_MS)).toEqual([NOW_MS + 9]);
      expect(await announced()).toEqual([
        [NOW_MS + 9, 1],
        [NOW_MS + 7, 1],
      ]);
    });

    it('name each line once, with the time of the last announcement', async () => {
      const partition = freshPartition();
      const lines = [aReadyLine(), aReadyLine({ mode: 'onDemand' })];
      await store.announceLines({ partition, lines: lines.slice(0, 1), nowMs: NOW_MS });
      await store.announceLines({ partition, lines, nowMs: NOW_MS + 7 });
      await vi.waitFor(async () => {
        const { keys } = await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 });
        expect(keys).toHaveLength(1);
        expect(keys[0]?.announcedAtMs).toBe(NOW_MS + 7);
        expect(keys[0]?.lines.map(({ mode }) => mode).sort()).toEqual(['onDemand', 'queued']);
      }, SHOWN);
    });

    it('can be read by name, in the order of the names, as they are now', async () => {
      const partition = freshPartition();
      const [one, two] = [aReadyLine({ fairnessKey: 'one' }), aReadyLine({ fairnessKey: 'two' })];
      await store.announceLines({ partition, lines: [one, two], nowMs: NOW_MS });
      const read = () =>
        store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['two', 'nobody', 'one', 'two'] });
      const shown = {
        lines: [{ mode: 'queued' }],
        announcedAtMs: NOW_MS,
        rankCostMs: 0,
      };
      const isTwo = { ...shown, fairnessKey: 'two' };
      expect(await read()).toEqual([isTwo, undefined, { ...shown, fairnessKey: 'one' }, isTwo]);
      expect(await store.readBacklogs({ partition, type: 'another type', fairnessKeys: ['one'] })).toEqual([
        undefined,
      ]);
      await store.retireLine({ partition, line: one, announcedAtMs: NOW_MS });
      expect(await read()).toEqual([isTwo, undefined, undefined, isTwo]);
      expect(await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: [] })).toEqual([]);
    });

    it('are apart by type and by partition', async () => {
      const [partition, other] = [freshPartition(), freshPartition()];
      await store.announceLines({
        partition,
        lines: [aReadyLine({ type: 'gold', fairnessKey: 'k' })],
        nowMs: NOW_MS,
      });
      await store.announceLines({ partition, lines: [aReadyLine({ fairnessKey: 'l' })], nowMs: NOW_MS });
      await untilKeys(partition, 'gold', ['k']);
      await untilKeys(partition, SUITE_TYPE, ['l']);
      await untilKeys(other, SUITE_TYPE, []);
    });

    it('can be read in pages', async () => {
      const partition = freshPartition();
      const keys = times(7, (at) => `key-${at}`);
      await store.announceLines({
        partition,
        lines: keys.map((fairnessKey) => aReadyLine({ fairnessKey })),
        nowMs: NOW_MS,
      });
      await vi.waitFor(
        async () =>
          expect((await store.readKeys({ partition, type: SUITE_TYPE, limit: 100 })).keys).toHaveLength(
            keys.length,
          ),
        SHOWN,
      );
      const seen: string[] = [];
      let after: string | undefined;
      let pages = 0;
      do {
        const page = await store.readKeys({ partition, type: SUITE_TYPE, limit: 3, after });
        seen.push(...page.keys.map((key) => key.fairnessKey));
        after = page.next;
        pages += 1;
      } while (after !== undefined && pages < 10);
      expect(seen.sort()).toEqual(keys);
    });

    it('lose a line that is retired, and leave with their last one', async () => {
      const partition = freshPartition();
      const [one, two] = [aReadyLine(), aReadyLine({ mode: 'onDemand' })];
      await store.announceLines({ partition, lines: [one, two], nowMs: NOW_MS });
      expect(await store.retireLine({ partition, line: one, announcedAtMs: NOW_MS })).toBe('retired');
      await vi.waitFor(async () => {
        const { keys } = await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 });
        expect(keys.map((key) => key.lines)).toEqual([[{ mode: 'onDemand' }]]);
      }, SHOWN);
      expect(await store.retireLine({ partition, line: two, announcedAtMs: NOW_MS })).toBe('retired');
      await untilKeys(partition, SUITE_TYPE, []);
    });

    it('keep a line that was announced since', async () => {
      const partition = freshPartition();
      await store.announceLines({ partition, lines: [aReadyLine()], nowMs: NOW_MS });
      await store.announceLines({ partition, lines: [aReadyLine()], nowMs: NOW_MS + 1 });
      expect(await store.retireLine({ partition, line: aReadyLine(), announcedAtMs: NOW_MS })).toBe('lost');
      await untilKeys(partition, SUITE_TYPE, ['tenant-a']);
    });

    it('keep one of several lines, too, when any of them was announced since', async () => {
      const partition = freshPartition();
      const [one, two] = [aReadyLine(), aReadyLine({ mode: 'onDemand' })];
      await store.announceLines({ partition, lines: [one, two], nowMs: NOW_MS });
      await store.announceLines({ partition, lines: [one], nowMs: NOW_MS + 1 });
      expect(await store.retireLine({ partition, line: one, announcedAtMs: NOW_MS })).toBe('lost');
      expect(await store.retireLine({ partition, line: two, announcedAtMs: NOW_MS })).toBe('lost');
      const [backlog] = await store.readBacklogs({
        partition,
        type: SUITE_TYPE,
        fairnessKeys: ['tenant-a'],
      });
      expect(backlog?.lines.map(({ mode }) => mode).toSorted()).toEqual(['onDemand', 'queued']);
    });

    it('come back when they are announced again', async () => {
      const partition = freshPartition();
      await store.announceLines({ partition, lines: [aReadyLine()], nowMs: NOW_MS });
      await store.retireLine({ partition, line: aReadyLine(), announcedAtMs: NOW_MS });
      await store.announceLines({ partition, lines: [aReadyLine()], nowMs: NOW_MS + 1 });
      await untilKeys(partition, SUITE_TYPE, ['tenant-a']);
    });

    it('keep every line when ten submitters announce at once', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const lines = times(10, (at) => aReadyLine({ mode: at % 2 === 0 ? 'queued' : 'onDemand' }));
      await Promise.all(
        lines.map((line) => store.announceLines({ partition, lines: [line], nowMs: NOW_MS })),
      );
      await vi.waitFor(async () => {
        const { keys } = await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 });
        expect(keys.flatMap((key) => key.lines.map(({ mode }) => mode)).sort()).toEqual([
          'onDemand',
          'queued',
        ]);
      }, SHOWN);
    });
  });

  describe.each([
    ...ODD_NAMES,
    ['one kilobyte of text', 'k'.repeat(1_000)] as const,
    ['512 bytes of unicode', '日'.repeat(170)] as const,
  ])('names with %s', (_, odd) => {
    it('lead a job through its whole life', async () => {
      const partition = freshPartition();
      const id = `job ${odd}`.slice(0, 900);
      const job = aJob({ id, partition, type: odd.slice(0, 200), fairnessKey: odd, resourceId: odd });
      await store.announceLines({ partition, lines: [lineOf(job)], nowMs: NOW_MS });
      await created(job);
      await untilKeys(partition, job.type, [odd]);
      await untilLine(partition, lineOf(job), [id]);
      const reservation = aReservation([job]);
      const ledger = aLedger({ fairnessKey: odd });
      const estimate = anEstimate({ type: job.type, resourceId: odd });
      const change = { reserve: [reservation], ledgers: [ledger], estimates: [estimate] };
      expect(await commit(partition, change)).toBe('committed');
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([reservation]);
      expect(await store.getLedgers({ partition, fairnessKeys: [odd] })).toEqual([ledger]);
      await suite.untilLearned(partition, [estimate]);
      expect(await store.getEstimates({ partition, ids: [{ type: job.type, resourceId: odd }] })).toEqual([
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
    await store.announceLines({ partition, lines: [lineOf(job)], nowMs: NOW_MS });
    await created(job);
    await untilKeys(partition, SUITE_TYPE, ['']);
    await untilLine(partition, lineOf(job), [job.id]);
    await commit(partition, { ledgers: [aLedger({ fairnessKey: '' })] });
    expect(await store.getLedgers({ partition, fairnessKeys: [''] })).toEqual([aLedger({ fairnessKey: '' })]);
  });

  it('tells apart names that look the same once they are encoded', async () => {
    const partition = freshPartition();
    const names = ['a/b', 'a%2Fb', 'a', 'a/', 'A/b'];
    const jobs = names.map((fairnessKey) => aJob({ partition, fairnessKey }));
    await store.createJobs(jobs);
    for (const job of jobs) await untilLine(partition, lineOf(job), [job.id]);
  });
}
