/** A load that leaves out what its process knows shows what a whole read shows, whatever happened meanwhile. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { JobStore } from '../../../lib/store/contract.ts';
import type { PartitionState, Reservation } from '../../../lib/store/records.ts';
import type { Commit } from '../../../lib/store/requests.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import { aLookout } from '../../fixtures/factories/lookout.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

const BATCHES = 12;
const BATCH_JOBS = 50;

export function knownTurnContract(suite: StoreSuite): void {
  const { freshPartition, commit: commitIn } = suite;
  let store: JobStore;
  let another: JobStore;
  beforeAll(() => {
    ({ store, another } = suite.opened());
  });

  const aLongReservation = (): Reservation => {
    const made = aReservation();
    return aReservation(times(BATCH_JOBS, (at) => ({ id: `${made.batchId}-job-${at}` })));
  };
  const whole = (of: JobStore, partition: number): Promise<PartitionState> =>
    of.loadPartition({ partition, nowMs: NOW_MS });
  /** What the first process loads, that knows the version, is what another one finds, which knows nothing. */
  const expectBothAlike = async (partition: number, knownTurn: number): Promise<PartitionState> => {
    const loaded = await store.loadPartition({ partition, nowMs: NOW_MS, knownTurn });
    expect(loaded).toEqual(await whole(another, partition));
    return loaded;
  };

  describe('loading a partition of which a turn is known', { timeout: CONCURRENT_MS }, () => {
    /** A partition with all kinds of items, loaded by the first process. */
    const known = async (): Promise<{
      readonly partition: number;
      readonly made: readonly Reservation[];
      readonly version: number;
      readonly commit: (changes: Partial<Commit>) => Promise<unknown>;
    }> => {
      const partition = freshPartition();
      const made = times(BATCHES, aLongReservation);
      const commit = (changes: Partial<Commit>) => commitIn(partition, changes);
      for (let from = 0; from < BATCHES; from += 4) await commit({ reserve: made.slice(from, from + 4) });
      const record = aWorkerRecord();
      await store.registerWorker({ partition, record });
      await store.changeControl({ partition, scope: 'type/resize', change: { paused: true } });
      await store.keepLookout({ partition, next: aLookout() });
      const { version } = await whole(store, partition);
      return { partition, made, version, commit };
    };
    const [first, second] = [0, 1] as const;
    const of = (made: readonly Reservation[], at: number): Reservation => {
      const reservation = made[at];
      if (reservation === undefined) throw new Error(`no reservation ${at}`);
      return reservation;
    };

    it('shows all of it, as often as it is loaded', async () => {
      const { partition, version, made } = await known();
      for (let load = 0; load < 3; load += 1) {
        const { reservations } = await expectBothAlike(partition, version);
        expect(reservations).toHaveLength(made.length);
      }
    });

    it('shows what stands beside the reservations as it is by then', async () => {
      const { partition, version } = await known();
      await another.registerWorker({ partition, record: aWorkerRecord() });
      await another.changeControl({ partition, scope: 'key/a', change: { maxConcurrency: 2 } });
      await another.keepLookout({ partition, seen: aLookout(), next: aLookout({ atMs: NOW_MS + 9 }) });
      const loaded = await expectBothAlike(partition, version);
      expect(loaded.workers).toHaveLength(2);
      expect(loaded.controls).toHaveLength(2);
      expect(loaded.lookout?.atMs).toBe(NOW_MS + 9);
    });

    it('shows what this process has committed since', async () => {
      const { partition, version, made, commit } = await known();
      await commit({
        drop: [
          { reservation: of(made, first), positions: times(BATCH_JOBS, (at) => at) },
          { reservation: of(made, second), positions: [3, 5] },
        ],
        postpone: [{ reservation: of(made, 2), checkAtMs: NOW_MS + 99 }],
        reserve: [aLongReservation(), aReservation([{ id: 'few' }])],
        ledgers: [aLedger()],
      });
      await store.tidy(partition);
      const { reservations } = await expectBothAlike(partition, version + 1);
      expect(reservations).toHaveLength(made.length + 1);
      // And what the page has no room for.
      for (let at = 2; at < 8; at += 1) {
        await commit({ drop: [{ reservation: of(made, at), positions: times(49, (place) => place) }] });
        await expectBothAlike(partition, version + at);
      }
    });

    it('shows what another process has committed since', async () => {
      const { partition, version, made } = await known();
      await whole(another, partition);
      const drop = [{ reservation: of(made, first), positions: [0, 1] }];
      const commit = aCommit({ version, drop, reserve: [aLongReservation()] });
      expect(await another.commit({ partition, commit })).toBe('committed');
      const { reservations } = await expectBothAlike(partition, version);
      expect(reservations).toHaveLength(made.length + 1);
      expect(reservations.find(({ batchId }) => batchId === of(made, first).batchId)?.jobs.size).toBe(48);
      await expectBothAlike(partition, version + 1);
    });

    it('shows nothing that another process has tidied away', async () => {
      const { partition, version, made, commit } = await known();
      await commit({ drop: [{ reservation: of(made, first), positions: times(BATCH_JOBS, (at) => at) }] });
      await whole(another, partition);
      await another.tidy(partition);
      await expectBothAlike(partition, version + 1);
      // Nor does it come back with what is committed next.
      await commit({ ledgers: [aLedger()] });
      await store.tidy(partition);
      const { reservations } = await expectBothAlike(partition, version + 2);
      expect(reservations).toHaveLength(made.length - 1);
    });

    it('of which another turn is said to be known than there ever was shows all of it', async () => {
      const { partition, version } = await known();
      for (const wrong of [0, version - 1, version + 1]) await expectBothAlike(partition, wrong);
    });
  });
}
