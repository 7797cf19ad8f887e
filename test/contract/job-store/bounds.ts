/** A table bounds its items, keys and transactions: a request beyond them is refused by its name. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Loan } from '../../../lib/core/lending.ts';
import { COMMIT_ITEMS_MAX, ITEM_BYTES_MAX } from '../../../lib/store/contract/bounds.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { Ledger, Reservation } from '../../../lib/store/contract/records.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';
import { noise } from '../../fixtures/noise.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

export function boundsContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition, commit } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('what is beyond the bounds of a table', { timeout: CONCURRENT_MS }, () => {
    it('refuses an id that can be no key, with all others', async () => {
      const ids = ['unheard-of', 'x'.repeat(2_100)];
      await expect(store.getJobs({ ids })).rejects.toMatchObject({ name: 'RefusedError' });
      await expect(store.lookUpJobs({ ids })).rejects.toMatchObject({ name: 'RefusedError' });
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
        name: 'RefusedError',
        message: expect.stringContaining(`at most ${COMMIT_ITEMS_MAX} fit`),
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
        name: 'RefusedError',
        message: expect.stringContaining(`at most ${COMMIT_ITEMS_MAX} fit`),
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
        name: 'RefusedError',
        message: expect.stringContaining(`at most ${COMMIT_ITEMS_MAX} fit`),
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
        name: 'RefusedError',
        message: expect.stringContaining('twice'),
      });
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([reservation]);
      expect(await store.getLedgers({ partition, fairnessKeys: ['tenant-a'] })).toEqual([undefined]);
    });

    it('refuses what is larger than an item, by its name, and writes nothing', async () => {
      const partition = freshPartition();
      const tooLarge = {
        name: 'RefusedError',
        message: expect.stringContaining(`at most ${ITEM_BYTES_MAX}`),
      };
      const job = aJob({ partition, payload: noise(2 * ITEM_BYTES_MAX) });
      await expect(store.createJobs([job])).rejects.toMatchObject({
        name: 'RefusedError',
        message: expect.stringMatching(`^item job/${job.id} payload/.*at most ${ITEM_BYTES_MAX}`),
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
}
