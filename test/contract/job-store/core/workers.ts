/** The records of workers. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { CoreStore } from '../../../../lib/store/contract/core.ts';
import type { WorkerRecord } from '../../../../lib/store/contract/records.ts';
import { NOW_MS } from '../../../fixtures/factories/job.ts';
import { aWorker, aWorkerRecord } from '../../../fixtures/factories/worker.ts';
import { CONCURRENT_MS, type StoreSuite, times } from '../suite.ts';

export function workersContract(suite: StoreSuite<CoreStore>): void {
  const { freshPartition } = suite;
  let store: CoreStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('workers', () => {
    const shown = async (partition: number): Promise<readonly WorkerRecord[]> =>
      (await store.loadPartition({ partition, nowMs: NOW_MS })).workers;

    it('renew their record while it is of their own life', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord();
      await store.registerWorker({ partition, record });
      const later = {
        ...record,
        expiresAtMs: record.expiresAtMs + 10_000,
        slots: 5,
        occupants: [{ claimId: '1-1.0', jobId: 'a', progress: 0.5 }],
      };
      expect(await store.heartbeat({ partition, record: later })).toBe('applied');
      expect(await shown(partition)).toEqual([later]);
    });

    it('say how their process bears its work, and not what a former life has said', async () => {
      const partition = freshPartition();
      const former = aWorkerRecord({ incarnation: '0001', heardAtMs: NOW_MS });
      await store.registerWorker({ partition, record: former });
      const load = { lagMs: 12, memoryMb: 345 };
      await store.heartbeat({ partition, record: { ...former, load } });
      expect(await shown(partition)).toEqual([{ ...former, load }]);
      const { heardAtMs: _, ...silent } = former;
      const next = { ...silent, incarnation: '0002' };
      await store.registerWorker({ partition, record: next });
      expect(await shown(partition)).toEqual([{ ...next, formerUntilMs: former.expiresAtMs }]);
      const later = { ...next, heardAtMs: NOW_MS + 1, load: { lagMs: 0, memoryMb: 7 } };
      await store.heartbeat({ partition, record: later });
      expect(await shown(partition)).toEqual([{ ...later, formerUntilMs: former.expiresAtMs }]);
    });

    it('are shown apart when their lease is over, with what they said last', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord({ heardAtMs: NOW_MS - 20_000, expiresAtMs: NOW_MS + 1 });
      await store.registerWorker({ partition, record });
      const later = {
        ...record,
        heardAtMs: NOW_MS - 15_000,
        expiresAtMs: NOW_MS + 5_000,
        occupants: [{ claimId: '1-1.0', jobId: 'a' }],
      };
      await store.heartbeat({ partition, record: later });
      expect(await store.loadPartition({ partition, nowMs: NOW_MS + 4_999 })).toMatchObject({
        workers: [later],
        expiredWorkers: [],
      });
      expect(await store.loadPartition({ partition, nowMs: NOW_MS + 5_000 })).toMatchObject({
        workers: [],
        expiredWorkers: [later],
      });
    });

    it('say that they end, until a later life', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord({ incarnation: '0001' });
      await store.registerWorker({ partition, record });
      const ending = { ...record, slots: 1, isEnding: true, expiresAtMs: record.expiresAtMs + 1_000 };
      expect(await store.heartbeat({ partition, record: ending })).toBe('applied');
      expect(await shown(partition)).toEqual([ending]);
      const next = { ...record, incarnation: '0002' };
      await store.registerWorker({ partition, record: next });
      expect(await shown(partition)).toEqual([{ ...next, formerUntilMs: ending.expiresAtMs }]);
    });

    it('supersede their former life when they begin another', async () => {
      const partition = freshPartition();
      const former = aWorkerRecord({ incarnation: '0001' });
      const current = { ...former, incarnation: '0002' };
      await store.registerWorker({ partition, record: former });
      expect(await store.registerWorker({ partition, record: current })).toBe('applied');
      expect(await store.heartbeat({ partition, record: former })).toBe('superseded');
      expect(await store.registerWorker({ partition, record: former })).toBe('superseded');
      expect(await store.deregisterWorker({ partition, worker: former })).toBe('superseded');
      expect(await shown(partition)).toEqual([{ ...current, formerUntilMs: former.expiresAtMs }]);
    });

    it('say until when their former life may be running still, as long as it may', async () => {
      const partition = freshPartition();
      const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
      const current = { ...former, incarnation: '0002', expiresAtMs: NOW_MS + 20_000 };
      await store.registerWorker({ partition, record: former });
      await store.registerWorker({ partition, record: current });
      await store.heartbeat({ partition, record: { ...current, expiresAtMs: NOW_MS + 25_000 } });
      expect(await shown(partition)).toEqual([
        { ...current, expiresAtMs: NOW_MS + 25_000, formerUntilMs: NOW_MS + 10_000 },
      ]);
      // The end of the new life is not the end of the former one.
      for (let repeat = 0; repeat < 2; repeat += 1) {
        expect(await store.deregisterWorker({ partition, worker: current })).toBe('applied');
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
      expect((await store.loadPartition({ partition, nowMs: NOW_MS + 10_000 })).workers).toEqual([]);
    });

    it('say so also when their registration came so late that its record has expired', async () => {
      const partition = freshPartition();
      const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
      const late = { ...former, incarnation: '0002', expiresAtMs: NOW_MS - 1 };
      await store.registerWorker({ partition, record: former });
      expect(await store.registerWorker({ partition, record: late })).toBe('applied');
      expect(await shown(partition)).toEqual([
        {
          ...late,
          slots: 0,
          isEnding: true,
          expiresAtMs: NOW_MS + 10_000,
          formerUntilMs: NOW_MS + 10_000,
        },
      ]);
      expect((await store.loadPartition({ partition, nowMs: NOW_MS + 10_000 })).workers).toEqual([]);
    });

    it('say until when the longest of their former lives may run', async () => {
      const partition = freshPartition();
      const first = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS + 10_000 });
      const late = { ...first, incarnation: '0002', expiresAtMs: NOW_MS - 1 };
      const third = { ...first, incarnation: '0003', expiresAtMs: NOW_MS + 20_000 };
      for (const record of [first, late, third])
        expect(await store.registerWorker({ partition, record })).toBe('applied');
      expect(await shown(partition)).toEqual([{ ...third, formerUntilMs: NOW_MS + 10_000 }]);
      expect(await store.registerWorker({ partition, record: late })).toBe('superseded');
    });

    it.each([
      ['are gone at once when their former life was over long before', 60_000, 0],
      ['leave the end of their former life behind when it was over only now', 59_999, 1],
    ])('%s', async (_, agoMs, left) => {
      const partition = freshPartition();
      const former = aWorkerRecord({ incarnation: '0001', expiresAtMs: NOW_MS - agoMs });
      const current = { ...former, incarnation: '0002', expiresAtMs: NOW_MS + 20_000 };
      await store.registerWorker({ partition, record: former });
      await store.registerWorker({ partition, record: current });
      expect(await store.deregisterWorker({ partition, worker: current })).toBe('applied');
      const { workers, expiredWorkers } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect([workers, expiredWorkers.map(({ expiresAtMs }) => expiresAtMs)]).toEqual([
        [],
        left === 0 ? [] : [former.expiresAtMs],
      ]);
    });

    it('are not shortened by a registration or a heartbeat that comes late', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord();
      const later = {
        ...record,
        expiresAtMs: record.expiresAtMs + 5_000,
        occupants: [{ claimId: 'c', jobId: 'j' }],
      };
      await store.registerWorker({ partition, record });
      await store.heartbeat({ partition, record: later });
      expect(await store.registerWorker({ partition, record })).toBe('applied');
      expect(await store.heartbeat({ partition, record })).toBe('applied');
      expect(await shown(partition)).toEqual([later]);
    });

    it('may register twice in one life', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord();
      await store.registerWorker({ partition, record });
      expect(await store.registerWorker({ partition, record })).toBe('applied');
      expect(await shown(partition)).toEqual([record]);
    });

    it('are gone at once when they deregister, and a late heartbeat does not bring them back', async () => {
      const partition = freshPartition();
      const record = aWorkerRecord();
      await store.registerWorker({ partition, record });
      expect(await store.deregisterWorker({ partition, worker: record })).toBe('applied');
      expect(await shown(partition)).toEqual([]);
      expect(await store.heartbeat({ partition, record })).toBe('superseded');
      expect(await shown(partition)).toEqual([]);
    });

    it('cannot renew what was never registered', async () => {
      const partition = freshPartition();
      expect(await store.heartbeat({ partition, record: aWorkerRecord() })).toBe('superseded');
      expect(await shown(partition)).toEqual([]);
    });

    it('leave what is gone already alone', async () => {
      const partition = freshPartition();
      await store.deregisterWorker({ partition, worker: aWorker() });
      expect(await shown(partition)).toEqual([]);
    });

    it('of one name begin one life only when eight processes race', {
      timeout: CONCURRENT_MS,
    }, async () => {
      const partition = freshPartition();
      const workerId = 'the-same';
      const records = times(8, (at) => aWorkerRecord({ workerId, incarnation: `000${at}` }));
      await Promise.all(records.map((record) => store.registerWorker({ partition, record })));
      expect(await shown(partition)).toMatchObject([{ ...records[7] }]);
      const beats = await Promise.all(records.map((record) => store.heartbeat({ partition, record })));
      expect(beats).toEqual(records.map((_, at) => (at === 7 ? 'applied' : 'superseded')));
    });
  });
}
