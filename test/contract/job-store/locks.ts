/** The locks of conflict keys among partitions. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { LockStore } from '../../../lib/store/contract/locks.ts';
import type { Lock } from '../../../lib/store/contract/records.ts';
import type { ClaimOutcome } from '../../../lib/store/contract/requests.ts';
import { aClaimRequest } from '../../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aWorker } from '../../fixtures/factories/worker.ts';
import { CONCURRENT_MS, retryAt, type StoreSuite, times } from './suite.ts';

export function locksContract(suite: StoreSuite<CoreStore & LockStore>): void {
  const { created, stored, finish } = suite;
  let store: CoreStore & LockStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('the lock of a conflict key', () => {
    let keys = 0;
    const freshKey = (): string => {
      keys += 1;
      return `album/cats-${keys}`;
    };
    const TURN_MS = 10_000;
    const claimWith = async (
      conflictKey: string,
      partition: number,
      claimId: string,
      nowMs = NOW_MS,
    ): Promise<{ readonly job: Job; readonly outcome: ClaimOutcome | undefined }> => {
      const job = await created(aJob({ partition, resourceId: 'cats' }));
      const request = aClaimRequest(job, { claimId, claimedAtMs: nowMs, lock: { conflictKey, partition } });
      const [outcome] = await store.claim([request]);
      return { job, outcome };
    };
    const release = (conflictKey: string, partition: number, claimId = '1-1.0') =>
      store.releaseLock({ conflictKey, partition, claimId, untilMs: NOW_MS + TURN_MS });
    const lockOf = async (conflictKey: string): Promise<Lock | undefined> =>
      (await store.readLocks([conflictKey]))[0];

    it('is taken with the job, by one of two partitions, and given back by its claim only', async () => {
      const key = freshKey();
      const { job, outcome } = await claimWith(key, 0, '1-1.0');
      expect(outcome).toBe('claimed');
      const held = {
        conflictKey: key,
        holder: { partition: 0, claimId: '1-1.0', jobId: job.id },
        waiting: [],
      };
      expect(await lockOf(key)).toEqual(held);
      const other = await claimWith(key, 1, '1-1.0');
      expect(other.outcome).toBe('blocked');
      expect(await stored(other.job.id)).toEqual(other.job);
      // Claims are numbered by partition: the same id of another one is another claim.
      expect(await release(key, 1)).toEqual({});
      expect(await release(key, 0, '1-1.1')).toEqual({});
      expect(await lockOf(key)).toEqual(held);
      expect(await release(key, 0)).toEqual({});
      expect(await lockOf(key)).toBeUndefined();
      expect(await release(key, 0)).toEqual({});
    });

    it('is not taken by a claim that is lost', async () => {
      const key = freshKey();
      const job = await created(aJob());
      const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
      expect(await store.claim([{ ...request, version: 7 }])).toEqual(['lost']);
      expect(await lockOf(key)).toBeUndefined();
      await store.claim([request]);
      expect(await store.claim([{ ...request, claimId: 'another' }])).toEqual(['lost']);
      expect((await lockOf(key))?.holder?.claimId).toBe(request.claimId);
    });

    it('answers claimed when the same claim is repeated', async () => {
      const key = freshKey();
      const job = await created(aJob());
      const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
      expect(await store.claim([request])).toEqual(['claimed']);
      expect(await store.claim([request])).toEqual(['claimed']);
    });

    it('stays with a job that runs, and does not come back with a claim that is repeated after its end', async () => {
      const key = freshKey();
      const job = await created(aJob());
      const request = aClaimRequest(job, { lock: { conflictKey: key, partition: 0 } });
      await store.claim([request]);
      const worker = aWorker();
      const started = await store.startJob({
        ...worker,
        jobId: job.id,
        claimId: request.claimId,
        nowMs: NOW_MS,
      });
      if (started.kind !== 'started') throw new Error('not started');
      expect((await lockOf(key))?.holder?.jobId).toBe(job.id);
      await finish(started.job, worker, retryAt(NOW_MS + 1));
      await store.releaseLock({
        conflictKey: key,
        partition: 0,
        claimId: request.claimId,
        untilMs: NOW_MS,
      });
      expect(await store.claim([request])).not.toEqual(['blocked']);
      expect(await lockOf(key)).toBeUndefined();
    });

    it('goes round among the partitions that wait for it', async () => {
      const key = freshKey();
      expect(await store.awaitLock({ conflictKey: key, partition: 1, nowMs: NOW_MS })).toBe('open');
      await claimWith(key, 1, '1-1.0');
      for (const partition of [0, 3, 2, 3])
        expect(await store.awaitLock({ conflictKey: key, partition, nowMs: NOW_MS })).toBe('waiting');
      expect((await lockOf(key))?.waiting).toEqual([0, 2, 3]);
      expect(await release(key, 1)).toEqual({ next: 2 });
      // Asked again, it says the same: the wake may have been lost.
      expect(await release(key, 1)).toEqual({ next: 2 });
      expect(await lockOf(key)).toEqual({
        conflictKey: key,
        turn: { partition: 2, untilMs: NOW_MS + TURN_MS },
        waiting: [0, 3],
      });
      expect((await claimWith(key, 3, '1-1.0')).outcome).toBe('blocked');
      expect(await store.awaitLock({ conflictKey: key, partition: 2, nowMs: NOW_MS })).toBe('open');
      expect(await store.awaitLock({ conflictKey: key, partition: 1, nowMs: NOW_MS })).toBe('waiting');
      expect((await claimWith(key, 2, '1-1.0')).outcome).toBe('claimed');
      expect(await release(key, 2)).toEqual({ next: 3 });
      expect((await claimWith(key, 3, '1-1.0')).outcome).toBe('claimed');
      expect(await release(key, 3)).toEqual({ next: 0 });
      expect((await claimWith(key, 0, '1-1.0')).outcome).toBe('claimed');
      expect(await release(key, 0)).toEqual({ next: 1 });
    });

    it('is open to everybody once a turn was not taken', async () => {
      const key = freshKey();
      await claimWith(key, 0, '1-1.0');
      await store.awaitLock({ conflictKey: key, partition: 1, nowMs: NOW_MS });
      await release(key, 0);
      expect((await claimWith(key, 0, '2-1.0', NOW_MS + TURN_MS - 1)).outcome).toBe('blocked');
      expect(await store.awaitLock({ conflictKey: key, partition: 0, nowMs: NOW_MS + TURN_MS })).toBe('open');
      expect((await claimWith(key, 0, '2-1.0', NOW_MS + TURN_MS)).outcome).toBe('claimed');
      expect(await lockOf(key)).toMatchObject({ holder: { partition: 0 }, waiting: [] });
      expect((await lockOf(key))?.turn).toBeUndefined();
    });

    it('is taken once when eight partitions race', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 3; round += 1) {
        const key = freshKey();
        const outcomes = await Promise.all(times(8, (partition) => claimWith(key, partition, '1-1.0')));
        expect(outcomes.filter(({ outcome }) => outcome === 'claimed')).toHaveLength(1);
        expect(outcomes.filter(({ outcome }) => outcome === 'blocked')).toHaveLength(7);
      }
    });

    it('is given back while others begin to wait: whoever waits has a turn or finds it open', {
      timeout: CONCURRENT_MS,
    }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const key = freshKey();
        await claimWith(key, 0, '1-1.0');
        const [released, ...waits] = await Promise.all([
          release(key, 0),
          ...[1, 2, 3].map((partition) => store.awaitLock({ conflictKey: key, partition, nowMs: NOW_MS })),
        ]);
        const lock = await lockOf(key);
        expect(lock?.holder).toBeUndefined();
        const waiting = [...(lock?.waiting ?? []), ...(released.next === undefined ? [] : [released.next])];
        const asked = [1, 2, 3].filter((_, at) => waits[at] === 'waiting');
        for (const partition of asked) expect(waiting).toContain(partition);
        expect(lock?.turn?.partition).toBe(released.next);
      }
    });
  });
}
