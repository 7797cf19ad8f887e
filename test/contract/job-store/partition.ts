/** What a pass loads and commits, and how large that may become. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Control } from '../../../lib/core/capacity.ts';
import type { Loan, LoanRequest } from '../../../lib/core/lending.ts';
import { COMMIT_ITEMS_MAX, ITEM_BYTES_MAX } from '../../../lib/store/contract/bounds.ts';
import type { Ledger, Reservation } from '../../../lib/store/contract/records.ts';
import type { ControlChange } from '../../../lib/store/contract/requests.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../../fixtures/factories/ledger.ts';
import { aLookout } from '../../fixtures/factories/lookout.ts';
import { aReservation, aReservedJob } from '../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';
import { KEY, largestJob, NAME } from '../../fixtures/largest.ts';
import { noise } from '../../fixtures/noise.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

export function partitionContract(suite: StoreSuite): void {
  const { freshPartition, stored, runningJob, finish, versionOf, commit, untilLearned } = suite;
  let store: JobStore;
  let another: JobStore;
  beforeAll(() => {
    ({ store, another } = suite.opened());
  });

  describe('committing', () => {
    it('makes reservations, which the next load shows in full', async () => {
      const partition = freshPartition();
      const reservation = aReservation([], {
        jobs: new Map([
          [0, aReservedJob({ id: 'a', version: 3, attempt: 2 }, { conflictKey: 'catalogue/photos' })],
          [7, aReservedJob({ id: 'b' }, { estimatedCostMs: 1_234.5, tier: 'gold', fairnessKey: '' })],
        ]),
      });
      expect(await commit(partition, { reserve: [reservation] })).toBe('committed');
      const state = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(state).toEqual({
        version: 1,
        parks: false,
        reservations: [reservation],
        gone: [],
        workers: [],
        controls: [],
        ledgers: [],
        estimates: [],
        loans: [],
        requests: [],
      });
    });

    it('writes ledgers and estimates over what was there', async () => {
      const partition = freshPartition();
      const [first, second] = [aLedger({ settledCostMs: 1 }), aLedger({ settledCostMs: 2.5 })];
      const [older, newer] = [anEstimate({ samples: 1 }), anEstimate({ samples: 2, varianceMs2: 0 })];
      await commit(partition, { ledgers: [first], estimates: [older] });
      await commit(partition, { ledgers: [second], estimates: [newer] });
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([second]);
      expect(await store.getEstimates({ partition, ids: [{ type: 'resize', resourceId: '' }] })).toEqual([
        newer,
      ]);
    });

    it('drops places of a reservation, and the reservation with its last place', async () => {
      const partition = freshPartition();
      const reservation = aReservation([{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
      await commit(partition, { reserve: [reservation] });
      await commit(partition, { drop: [{ reservation, positions: [0, 2] }] });
      const [left] = (await store.loadPartition({ partition, nowMs: NOW_MS })).reservations;
      expect([...(left?.jobs.keys() ?? [])]).toEqual([1]);
      if (left === undefined) return;
      await commit(partition, { drop: [{ reservation: left, positions: [1] }] });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
    });

    it('postpones when a reservation is looked at', async () => {
      const partition = freshPartition();
      const reservation = aReservation();
      await commit(partition, { reserve: [reservation] });
      await commit(partition, { postpone: [{ reservation, checkAtMs: NOW_MS + 99 }] });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([
        { ...reservation, checkAtMs: NOW_MS + 99 },
      ]);
    });

    it('follows the version that it loaded, once: a request that comes again is lost, and changes nothing', async () => {
      const partition = freshPartition();
      const first = aCommit({ ledgers: [aLedger({ settledCostMs: 1 })] });
      expect(await store.commit({ partition, commit: first })).toBe('committed');
      expect(await store.commit({ partition, commit: { ...first, version: 1, ledgers: [aLedger()] } })).toBe(
        'committed',
      );
      for (const version of [0, 1, 3])
        expect(await store.commit({ partition, commit: { ...first, version } })).toBe('lost');
      expect(await store.getLedgers({ partition, fairnessKeys: [aLedger().fairnessKey] })).toEqual([
        aLedger(),
      ]);
      expect(await versionOf(partition)).toBe(2);
    });

    it('keeps what is settled settled, tidied or not, and shows it to nobody', async () => {
      const partition = freshPartition();
      const reservation = aReservation([{ id: 'a' }, { id: 'b' }]);
      await commit(partition, { reserve: [reservation] });
      await commit(partition, { drop: [{ reservation, positions: [0] }] });
      await store.tidy({ partition });
      const left = { ...reservation, jobs: new Map([...reservation.jobs].slice(1)) };
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([left]);
      await commit(partition, { drop: [{ reservation, positions: [1] }] });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
      await store.tidy({ partition });
      await commit(partition);
      await store.tidy({ partition });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
    });

    it('brings nothing back that another process has tidied away', async () => {
      const partition = freshPartition();
      const [gone, left] = times(2, (batch) =>
        aReservation(times(50, (at) => ({ id: `${partition}-tidied-${batch}-${at}` }))),
      ) as [Reservation, Reservation];
      await commit(partition, { reserve: [gone, left] });
      await commit(partition, { drop: [{ reservation: gone, positions: times(50, (at) => at) }] });
      await another.loadPartition({ partition, nowMs: NOW_MS });
      await another.tidy({ partition });
      await commit(partition, { ledgers: [aLedger()] });
      await store.tidy({ partition });
      for (const by of [store, another])
        expect((await by.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([left]);
    });

    it('makes reservations that the page has no room for, settles them and takes them away, as any others', async () => {
      const partition = freshPartition();
      const meant = new Map<string, Reservation>();
      const shown = async () => {
        const { reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
        return new Map(reservations.map((each) => [each.batchId, each]));
      };
      for (let round = 0; round < 12; round += 1) {
        const reserve = times(1 + (round % 3), (batch) =>
          aReservation(times(60, (at) => ({ id: `${round}-${batch}-${at}`.padStart(32, '0') }))),
        );
        // Of each third one all is settled, of the others every other place.
        const drop = [...meant.values()].slice(0, 2).map((reservation, at) => ({
          reservation,
          positions: [...reservation.jobs.keys()].filter(
            (place) => at > 0 || round % 3 === 0 || place % 2 === 0,
          ),
        }));
        const ledgers = [aLedger({ settledCostMs: round })];
        expect(await commit(partition, { version: round, reserve, drop, ledgers })).toBe('committed');
        for (const { reservation, positions } of drop) {
          const jobs = new Map([...reservation.jobs].filter(([place]) => !positions.includes(place)));
          if (jobs.size === 0) meant.delete(reservation.batchId);
          else meant.set(reservation.batchId, { ...reservation, jobs });
        }
        for (const each of reserve) meant.set(each.batchId, each);
        expect(await shown()).toEqual(meant);
        if (round % 2 === 0) await store.tidy({ partition });
        expect(await shown()).toEqual(meant);
      }
      // One that follows what is not there makes nothing, and takes nothing away.
      const late = { version: 3, reserve: [aReservation(times(300, (at) => ({ id: `late-${at}` })))] };
      expect(await commit(partition, late)).toBe('lost');
      await store.tidy({ partition });
      expect(await shown()).toEqual(meant);
      const all = [...meant.values()].map((reservation) => ({
        reservation,
        positions: [...reservation.jobs.keys()],
      }));
      await commit(partition, { drop: all });
      await store.tidy({ partition });
      expect(await shown()).toEqual(new Map());
      expect((await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] }))[0]?.settledCostMs).toBe(11);
    });

    it('answers all that ledgers say, from the partition summary and from items of their own', async () => {
      const partition = freshPartition();
      const says: readonly Partial<Ledger>[] = [
        {},
        { settledCostMs: 2 ** 30 + 2 ** -16 },
        { lastSeenMs: NOW_MS - 86_400_000 },
      ];
      const ledgers = times(900, (at) =>
        aLedger({
          fairnessKey: `${at}`.padStart(480, 'customer-of-a-long-name-'),
          ...says[at % says.length],
        }),
      );
      // More than the summary has room for.
      for (let from = 0; from < ledgers.length; from += 90)
        await commit(partition, { ledgers: ledgers.slice(from, from + 90) });
      const keys = ledgers.map(({ fairnessKey }) => fairnessKey);
      expect(await store.getLedgers({ partition, fairnessKeys: keys })).toEqual(ledgers);
      const state = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(state.ledgers.length).toBeLessThan(ledgers.length);
      expect(ledgers).toEqual(expect.arrayContaining([...state.ledgers]));
    });

    it('does everything of one commit together', async () => {
      const partition = freshPartition();
      const [gone, kept, made] = [aReservation(), aReservation(), aReservation([{ id: 'x' }, { id: 'y' }])];
      await commit(partition, { reserve: [gone, kept] });
      const outcome = await commit(partition, {
        drop: [{ reservation: gone, positions: [0] }],
        postpone: [{ reservation: kept, checkAtMs: NOW_MS + 5 }],
        ledgers: [aLedger()],
        estimates: [anEstimate()],
        reserve: [made],
        parks: true,
      });
      expect(outcome).toBe('committed');
      const { reservations, parks } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(parks).toBe(true);
      expect(new Map(reservations.map((each) => [each.batchId, each]))).toEqual(
        new Map<string, Reservation>([
          [kept.batchId, { ...kept, checkAtMs: NOW_MS + 5 }],
          [made.batchId, made],
        ]),
      );
    });

    it('changes nothing for a dispatcher whose version another one has raised', async () => {
      const partition = freshPartition();
      const kept = aReservation();
      await commit(partition, { reserve: [kept] });
      await commit(partition);
      const outcome = await commit(partition, {
        version: 1,
        drop: [{ reservation: kept, positions: [0] }],
        ledgers: [aLedger()],
        estimates: [anEstimate(), anEstimate({ resourceId: 'printer' })],
        reserve: [aReservation()],
        parks: true,
      });
      expect(outcome).toBe('lost');
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        version: 2,
        reservations: [kept],
        parks: false,
      });
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([undefined]);
      const ids = ['', 'printer'].map((resourceId) => ({ type: 'resize', resourceId }));
      expect(await store.getEstimates({ partition, ids })).toEqual([undefined, undefined]);
    });

    it('counts for one of several dispatchers that have loaded the same, whatever they change', {
      timeout: CONCURRENT_MS,
    }, async () => {
      const { another } = suite.opened();
      for (let round = 0; round < 8; round += 1) {
        const partition = freshPartition();
        const large = aReservation(times(60, (at) => ({ id: `${round}-${at}`.padStart(32, '0') })));
        await commit(partition, { reserve: [large] });
        const stores = [store, another, store, another];
        await Promise.all(stores.map((each) => each.loadPartition({ partition, nowMs: NOW_MS })));
        const makes = stores.map((_, at) =>
          aReservation(
            times(60, (id) => ({ id: `${round}-${at}-${id}`.padStart(32, '0') })),
            { version: 1 },
          ),
        );
        const outcomes = await Promise.all(
          stores.map((each, at) =>
            each.commit({
              partition,
              commit: aCommit({
                version: 1,
                drop: [{ reservation: large, positions: times(at + 1, (place) => place) }],
                reserve: makes.slice(at, at + 1),
                ledgers: [aLedger({ settledCostMs: at })],
              }),
            }),
          ),
        );
        expect(outcomes.toSorted()).toEqual(['committed', 'lost', 'lost', 'lost']);
        const winner = outcomes.indexOf('committed');
        const left = { ...large, jobs: new Map([...large.jobs].slice(winner + 1)) };
        for (const each of [store, another]) {
          const { version, reservations } = await each.loadPartition({ partition, nowMs: NOW_MS });
          expect(version).toBe(2);
          expect(new Map(reservations.map((one) => [one.batchId, one]))).toEqual(
            new Map([left, makes[winner] ?? left].map((one) => [one.batchId, one])),
          );
          await each.tidy({ partition });
        }
        expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([
          aLedger({ settledCostMs: winner }),
        ]);
      }
    });

    it('follows each other also where two processes take turns', { timeout: CONCURRENT_MS }, async () => {
      const { another } = suite.opened();
      const partition = freshPartition();
      const meant = new Map<string, Reservation>();
      for (let version = 0; version < 24; version += 1) {
        const each = version % 3 === 0 ? another : store;
        const made = aReservation(
          times(45, (at) => ({ id: `${version}-${at}`.padStart(32, '0') })),
          { version },
        );
        const drop = [...meant.values()].slice(-8).map((reservation) => ({
          reservation,
          positions: [...reservation.jobs.keys()].slice(0, version % 5 === 4 ? 45 : 7),
        }));
        const change = aCommit({
          version,
          reserve: [made],
          drop,
          ledgers: [aLedger({ settledCostMs: version })],
        });
        expect(await each.commit({ partition, commit: change })).toBe('committed');
        for (const { reservation, positions } of drop) {
          const jobs = new Map([...reservation.jobs].filter(([place]) => !positions.includes(place)));
          if (jobs.size === 0) meant.delete(reservation.batchId);
          else meant.set(reservation.batchId, { ...reservation, jobs });
        }
        meant.set(made.batchId, made);
        await (version % 2 === 0 ? store : another).tidy({ partition });
        const { reservations } = await each.loadPartition({ partition, nowMs: NOW_MS });
        expect(new Map(reservations.map((one) => [one.batchId, one]))).toEqual(meant);
      }
    });

    it('takes as many items as one transaction does with the page and the base of its ledgers', async () => {
      const partition = freshPartition();
      const ledgers = times(COMMIT_ITEMS_MAX, (at) =>
        aLedger({ fairnessKey: `key-${at}`, settledCostMs: at }),
      );
      expect(await commit(partition, { ledgers })).toBe('committed');
      const keys = ledgers.map((ledger) => ledger.fairnessKey);
      expect(await store.getLedgers({ partition, fairnessKeys: keys })).toEqual(ledgers);
    });

    it('refuses more than that and changes nothing', async () => {
      const partition = freshPartition();
      const ledgers = times(COMMIT_ITEMS_MAX + 1, (at) => aLedger({ fairnessKey: `key-${at}` }));
      await expect(commit(partition, { ledgers })).rejects.toMatchObject({
        name: 'CommitTooLarge',
      });
      expect(await store.getLedgers({ partition, fairnessKeys: ['key-0', 'key-98'] })).toEqual([
        undefined,
        undefined,
      ]);
    });

    it('refuses more than a hundred items with its own record, and changes nothing', async () => {
      const partition = freshPartition();
      // Too large to stand in the partition summary.
      const reserve = times(100, () => aReservation(times(600, (at) => ({ id: `${at}`.padStart(32, '0') }))));
      await expect(commit(partition, { reserve })).rejects.toMatchObject({
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
      await expect(commit(partition, { lend })).rejects.toMatchObject({
        name: 'CommitTooLarge',
      });
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        version: 0,
        reservations: [],
      });
      expect(await commit(partition, { reserve: reserve.slice(2) })).toBe('committed');
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toHaveLength(98);
    });

    it('refuses to name an item twice and changes nothing', async () => {
      const partition = freshPartition();
      const reservation = aReservation();
      await commit(partition, { reserve: [reservation] });
      const twice = aCommit({
        version: 1,
        drop: [{ reservation, positions: [0] }],
        postpone: [{ reservation, checkAtMs: NOW_MS }],
        ledgers: [aLedger()],
      });
      await expect(store.commit({ partition, commit: twice })).rejects.toMatchObject({
        name: 'CommitAmbiguous',
      });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([reservation]);
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([undefined]);
    });

    it('refuses to change a reservation that is gone, and leaves nothing half-written', async () => {
      const partition = freshPartition();
      const reservation = aReservation();
      await commit(partition, { reserve: [reservation] });
      await commit(partition, { drop: [{ reservation, positions: [0] }] });
      const outdated = aCommit({
        version: 2,
        postpone: [{ reservation, checkAtMs: 1 }],
        ledgers: [aLedger()],
      });
      await expect(store.commit({ partition, commit: outdated })).rejects.toMatchObject({
        name: 'StaleCommit',
      });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([undefined]);
    });

    it('remembers how steadily the partition is read, until another commit says so', async () => {
      const partition = freshPartition();
      const attendanceNow = async () => (await store.loadPartition({ partition, nowMs: NOW_MS })).attendance;
      expect(await attendanceNow()).toBeUndefined();
      const attendance = { sinceMs: NOW_MS - 5_000, atMs: NOW_MS };
      await commit(partition, { attendance });
      await commit(partition, { ledgers: [aLedger()] });
      expect(await attendanceNow()).toEqual(attendance);
      const held = { ...attendance, atMs: NOW_MS + 1, heldBackSinceMs: NOW_MS + 1 };
      await commit(partition, { attendance: held });
      expect(await attendanceNow()).toEqual(held);
    });

    it('remembers the last look at the workers, and of two that come at once lets one go on', async () => {
      const partition = freshPartition();
      const lookoutNow = async () => (await store.loadPartition({ partition, nowMs: NOW_MS })).lookout;
      expect(await lookoutNow()).toBeUndefined();
      const first = aLookout();
      expect(await store.keepLookout({ partition, next: first })).toBe('applied');
      expect(await lookoutNow()).toEqual(first);
      const next = aLookout({ atMs: NOW_MS + 7_000, nextAtMs: NOW_MS + 14_000 });
      const both = await Promise.all([
        store.keepLookout({ partition, seen: first, next }),
        store.keepLookout({ partition, seen: first, next: { ...next, atMs: NOW_MS + 7_001 } }),
      ]);
      expect(both.toSorted()).toEqual(['applied', 'superseded']);
      expect(await store.keepLookout({ partition, next: first })).toBe('superseded');
      expect(await store.keepLookout({ partition, seen: first, next: first })).toBe('superseded');
      expect((await lookoutNow())?.nextAtMs).toBe(NOW_MS + 14_000);
    });

    it.each([
      { of: 'its next look', change: { nextAtMs: NOW_MS + 8_000 } },
      { of: 'what it has judged', change: { judgedUntilMs: NOW_MS } },
    ])('lets no look go on that has not seen $of', async ({ change }) => {
      const partition = freshPartition();
      const first = aLookout();
      await store.keepLookout({ partition, next: first });
      const next = aLookout({ atMs: NOW_MS + 9_000 });
      expect(await store.keepLookout({ partition, seen: { ...first, ...change }, next })).toBe('superseded');
      expect(await store.keepLookout({ partition, seen: first, next })).toBe('applied');
    });

    it('remembers that nothing waits, until a commit says that something may', async () => {
      const partition = freshPartition();
      const quietOf = async () => (await store.loadPartition({ partition, nowMs: NOW_MS })).quiet;
      expect(await quietOf()).toBeUndefined();
      for (const quiet of [{ lookedAtMs: NOW_MS + 1 }, { lookedAtMs: NOW_MS + 2, declared: 3 }]) {
        await commit(partition, { quiet });
        await commit(partition, { ledgers: [aLedger()] });
        expect(await quietOf()).toEqual(quiet);
      }
      await commit(partition, { quiet: null });
      expect(await quietOf()).toBeUndefined();
    });

    it('remembers until when a read of the lines may miss a job, and never goes back', async () => {
      const partition = freshPartition();
      const unseenNow = async () => (await store.loadPartition({ partition, nowMs: NOW_MS })).unseenUntilMs;
      expect(await unseenNow()).toBeUndefined();
      for (const [unseenUntilMs, meant] of [
        [NOW_MS + 5, NOW_MS + 5],
        [NOW_MS, NOW_MS + 5],
        [undefined, NOW_MS + 5],
        [NOW_MS + 6, NOW_MS + 6],
      ] as const) {
        await commit(partition, { unseenUntilMs });
        expect(await unseenNow()).toBe(meant);
      }
    });

    it('commits nothing at all without complaint', async () => {
      expect(await commit(freshPartition())).toBe('committed');
    });
  });

  describe('sizes', { timeout: CONCURRENT_MS }, () => {
    it('takes a job with all of its content and the longest names, through its life', async () => {
      const partition = freshPartition();
      const { payload, label, result = null, checkpoint = null, error } = largestJob();
      const resourceId = KEY;
      const asked = { partition, type: NAME, fairnessKey: KEY, resourceId, label, payload };
      const { job, worker } = await runningJob(aJob(asked));
      expect(await store.saveCheckpoint({ job, worker, checkpoint })).toBe('applied');
      expect((await finish(job, worker, { kind: 'succeeded', result })).kind).toBe('finished');
      expect(await stored(job.id)).toMatchObject({ label, payload, checkpoint, result });
      const failed = await runningJob(aJob(asked));
      if (error === undefined) throw new Error('no error');
      await store.saveCheckpoint({ job: failed.job, worker: failed.worker, checkpoint });
      await finish(failed.job, failed.worker, { kind: 'failed', error });
      expect(await stored(failed.job.id)).toMatchObject({ payload, checkpoint, error });
    });

    it('refuses what is larger than an item, by its name, and writes nothing', async () => {
      const partition = freshPartition();
      const tooLarge = { name: 'ItemTooLarge' };
      const job = aJob({ partition, payload: noise(2 * ITEM_BYTES_MAX) });
      await expect(store.createJobs([job])).rejects.toMatchObject({
        ...tooLarge,
        key: expect.stringMatching(`^job/${job.id} payload/`),
      });
      expect(await store.getJobs({ ids: [job.id] })).toEqual([undefined]);

      const record = aWorkerRecord();
      await store.registerWorker({ partition, record });
      const occupants = times(400, (at) => ({
        claimId: `1-1.${at}`,
        jobId: 'j',
        progress: 'p'.repeat(1_022),
      }));
      await expect(store.heartbeat({ partition, record: { ...record, occupants } })).rejects.toMatchObject(
        tooLarge,
      );
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).workers).toEqual([record]);

      // Whatever is alike in their names, is compressed.
      const unlike = noise(800_000);
      const noisy = (jobs: number): Reservation =>
        aReservation(times(jobs, (at) => ({ id: unlike.slice(500 * at, 500 * at + 500) })));
      const reserve = [noisy(1_300)];
      await expect(commit(partition, { reserve })).rejects.toMatchObject(tooLarge);
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        version: 0,
        reservations: [],
      });
      expect(await commit(partition, { reserve: [aReservation()] })).toBe('committed');
    });
  });

  describe('loading a partition', () => {
    it('finds nothing in one that nobody used', async () => {
      expect(await store.loadPartition({ partition: freshPartition(), nowMs: NOW_MS })).toEqual({
        version: 0,
        parks: false,
        reservations: [],
        gone: [],
        workers: [],
        controls: [],
        ledgers: [],
        estimates: [],
        loans: [],
        requests: [],
      });
    });

    it('reads all of it, however much', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const batches = times(60, (batch) =>
        aReservation(times(50, (at) => ({ id: `${'long-job-id-'.repeat(25)}${batch}-${at}` }))),
      );
      for (let from = 0; from < batches.length; from += 10) {
        await commit(partition, { reserve: batches.slice(from, from + 10) });
      }
      const { reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
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
      expect(await store.registerWorker({ partition, record: worker })).toBe('applied');
      await store.registerWorker({ partition, record: lasting });
      const before = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect(new Map(before.workers.map((each) => [each.workerId, each]))).toEqual(
        new Map([worker, lasting].map((each) => [each.workerId, each])),
      );
      expect((await store.loadPartition({ partition, nowMs: NOW_MS + 1 })).workers).toEqual([lasting]);
      expect((await store.loadPartition({ partition: freshPartition(), nowMs: NOW_MS })).workers).toEqual([]);
    });

    it("shows the operators' controls until they are taken away", async () => {
      const partition = freshPartition();
      const control = { scope: 'type/resize', paused: true, maxConcurrency: 3 };
      const other = { scope: 'key/tenant/a', paused: false, weight: 2.5 };
      await store.changeControl({ partition, scope: 'type/resize', change: { paused: true } });
      const answered = (answer: Control) => ({ kind: 'changed', control: answer });
      expect(
        await store.changeControl({ partition, scope: 'type/resize', change: { maxConcurrency: 3 } }),
      ).toEqual(answered(control));
      expect(
        await store.changeControl({ partition, scope: 'key/tenant/a', change: { weight: 2.5 } }),
      ).toEqual(answered(other));
      const shown = (await store.loadPartition({ partition, nowMs: NOW_MS })).controls;
      expect(new Map(shown.map((each) => [each.scope, each]))).toEqual(
        new Map([control, other].map((each) => [each.scope, each])),
      );
      expect(
        await store.changeControl({ partition, scope: 'type/resize', change: { paused: false } }),
      ).toEqual(answered({ scope: 'type/resize', paused: false, maxConcurrency: 3 }));
      const idle = answered({ scope: 'type/resize', paused: false });
      for (let times = 0; times < 2; times += 1)
        expect(
          await store.changeControl({ partition, scope: 'type/resize', change: { maxConcurrency: null } }),
        ).toEqual(idle);
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls).toEqual([other]);
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
        expect((await store.loadPartition({ partition, nowMs: NOW_MS })).controls).toEqual([
          { scope: 'pool', paused: false, maxConcurrency: 1 },
        ]);
      }
    });
  });

  describe('ledgers and estimates', () => {
    it('are answered in the order asked, with nothing where there is none', async () => {
      const partition = freshPartition();
      const ledgers: Ledger[] = times(40, (at) => aLedger({ fairnessKey: `key-${at}`, settledCostMs: at }));
      const estimates = times(40, (at) => anEstimate({ resourceId: `r-${at}`, meanMs: at }));
      await commit(partition, { ledgers, estimates });
      const keys = ['none', ...ledgers.map((ledger) => ledger.fairnessKey).reverse()];
      expect(await store.getLedgers({ partition, fairnessKeys: keys })).toEqual([
        undefined,
        ...[...ledgers].reverse(),
      ]);
      const ids = [{ type: 'other', resourceId: 'r-1' }, ...estimates].map(({ type, resourceId }) => ({
        type,
        resourceId,
      }));
      await untilLearned(partition, estimates);
      expect(await store.getEstimates({ partition, ids })).toEqual([undefined, ...estimates]);
      expect(await store.getLedgers({ partition: freshPartition(), fairnessKeys: ['key-1'] })).toEqual([
        undefined,
      ]);
    });

    it('are read in more than one batch, also when a key stands twice', async () => {
      const partition = freshPartition();
      const first = aLedger({ fairnessKey: 'key-0' });
      await commit(partition, { ledgers: [first] });
      const keys = [...times(130, (at) => `key-${at}`), 'key-0'];
      const answers = await store.getLedgers({ partition, fairnessKeys: keys });
      expect(answers).toHaveLength(131);
      expect([answers[0], answers[1], answers[130]]).toEqual([first, undefined, first]);
      expect(await store.getLedgers({ partition, fairnessKeys: [] })).toEqual([]);
      expect(await store.getEstimates({ partition, ids: [] })).toEqual([]);
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
      (await store.loadPartition({ partition, nowMs: NOW_MS })).loans;
    const requestsOf = async (partition: number): Promise<readonly LoanRequest[]> =>
      (await store.loadPartition({ partition, nowMs: NOW_MS })).requests;

    it('is asked for with one request of each partition, the latest', async () => {
      const partition = freshPartition();
      await store.askForLoan({ partition, request: aRequest(1) });
      await store.askForLoan({ partition, request: aRequest(2) });
      await store.askForLoan({ partition, request: aRequest(1, NOW_MS + 5) });
      expect(await requestsOf(partition)).toEqual([aRequest(1, NOW_MS + 5), aRequest(2)]);
    });

    it('is lent to the other partition at once, which grants its request', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      await store.askForLoan({ partition: from, request: aRequest(to) });
      // No test's own partition.
      const other = 10_000;
      await store.askForLoan({ partition: from, request: aRequest(other) });
      const loan = aLoan(from, to);
      expect(await commit(from, { lend: [loan] })).toBe('committed');
      expect(await loansOf(from)).toEqual([loan]);
      expect(await loansOf(to)).toEqual([loan]);
      expect(await requestsOf(from)).toEqual([aRequest(other)]);
    });

    it('is given back by the borrower, in part or whole', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      const loan = aLoan(from, to);
      await commit(from, { lend: [loan] });
      expect(await commit(to, { giveBack: [{ loan, left: 1 }] })).toBe('committed');
      for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([{ ...loan, units: 1 }]);
      // Of what it says, another one is left.
      await expect(commit(to, { giveBack: [{ loan, left: 0 }] })).rejects.toMatchObject({
        name: 'StaleCommit',
      });
      const rest = { ...loan, units: 1 };
      expect(await commit(to, { giveBack: [{ loan: rest, left: 0 }] })).toBe('committed');
      for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([]);
    });

    it('is moved by no commit of an earlier version of the partition that acts', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      for (const partition of [from, to]) await commit(partition);
      const loan = aLoan(from, to);
      expect(await commit(from, { version: 0, lend: [loan] })).toBe('lost');
      expect(await loansOf(to)).toEqual([]);
      expect(await commit(from, { version: 1, lend: [loan] })).toBe('committed');
      // The other side's version is as it was.
      expect(await versionOf(to)).toBe(1);
      const giveBack = [{ loan, left: 0 }];
      expect(await commit(to, { version: 0, giveBack })).toBe('lost');
      expect(await loansOf(from)).toEqual([loan]);
      expect(await commit(to, { version: 1, giveBack })).toBe('committed');
      expect(await loansOf(from)).toEqual([]);
    });

    it('is not lent twice under one name', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      const loan = aLoan(from, to);
      await commit(from, { lend: [loan] });
      await expect(commit(from, { lend: [loan] })).rejects.toMatchObject({
        name: 'StaleCommit',
      });
      expect(await loansOf(to)).toEqual([loan]);
    });
  });
}
