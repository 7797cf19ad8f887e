/** What a pass loads and commits, and how large that may become. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { Ledger, Reservation } from '../../../../lib/store/contract/records.ts';
import { aCommit } from '../../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../../../fixtures/factories/ledger.ts';
import { aLookout } from '../../../fixtures/factories/lookout.ts';
import { aReservation, aReservedJob } from '../../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../../fixtures/factories/worker.ts';
import { KEY, largestJob, NAME } from '../../../fixtures/largest.ts';
import { CONCURRENT_MS, type StoreSuite, times } from '../suite.ts';

export function partitionContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition, stored, runningJob, finish, versionOf, commit, untilLearned } = suite;
  let store: CoreStore;
  let another: CoreStore;
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
        expiredWorkers: [],
        workers: [],
        controls: [],
        endedControls: [],
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
      });
      expect(outcome).toBe('committed');
      const { reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
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
      });
      expect(outcome).toBe('lost');
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toMatchObject({
        version: 2,
        reservations: [kept],
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
        name: 'StaleCommitError',
      });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([undefined]);
    });

    it('remembers how steadily the partition is read, until another commit says so', async () => {
      const partition = freshPartition();
      const observationNow = async () =>
        (await store.loadPartition({ partition, nowMs: NOW_MS })).observation;
      expect(await observationNow()).toBeUndefined();
      const observation = { sinceMs: NOW_MS - 5_000, atMs: NOW_MS };
      await commit(partition, { observation });
      await commit(partition, { ledgers: [aLedger()] });
      expect(await observationNow()).toEqual(observation);
      const held = { ...observation, atMs: NOW_MS + 1, heldBackSinceMs: NOW_MS + 1 };
      await commit(partition, { observation: held });
      expect(await observationNow()).toEqual(held);
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
      const { payload, label, tags, result = null, checkpoint = null, error } = largestJob();
      const resourceId = KEY;
      const asked = { partition, type: NAME, fairnessKey: KEY, resourceId, label, tags, payload };
      const { job, worker } = await runningJob(aJob(asked));
      expect(await store.saveCheckpoint({ job, worker, checkpoint })).toBe('applied');
      expect((await finish(job, worker, { kind: 'succeeded', result })).kind).toBe('finished');
      expect(await stored(job.id)).toMatchObject({ label, tags, payload, checkpoint, result });
      const failed = await runningJob(aJob(asked));
      if (error === undefined) throw new Error('no error');
      await store.saveCheckpoint({ job: failed.job, worker: failed.worker, checkpoint });
      await finish(failed.job, failed.worker, { kind: 'failed', error });
      expect(await stored(failed.job.id)).toMatchObject({ payload, checkpoint, error });
    });
  });

  describe('loading a partition', () => {
    it('finds nothing in one that nobody used', async () => {
      expect(await store.loadPartition({ partition: freshPartition(), nowMs: NOW_MS })).toEqual({
        version: 0,
        parks: false,
        reservations: [],
        expiredWorkers: [],
        workers: [],
        controls: [],
        endedControls: [],
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
}
