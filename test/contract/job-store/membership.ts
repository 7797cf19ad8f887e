/** Dispatchers that run on. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { MembershipStore } from '../../../lib/store/contract/membership.ts';
import type { DispatcherRecord } from '../../../lib/store/contract/records.ts';
import { aDispatcherRecord } from '../../fixtures/factories/dispatcher.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { ODD_NAMES } from '../harness.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

export function membershipContract(suite: StoreSuite<CoreStore & MembershipStore>): void {
  const { freshPartition } = suite;
  let store: CoreStore & MembershipStore;
  beforeAll(() => {
    store = suite.opened().store;
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
      const before = await store.loadPartition({ partition, nowMs: NOW_MS });
      await store.keepDispatcher(aDispatcherRecord({ leads: [partition] }));
      expect(await store.loadPartition({ partition, nowMs: NOW_MS })).toEqual(before);
    });
  });
}
