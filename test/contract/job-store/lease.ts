/** A partition's lease, and the counter of wakes beside it. */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { HINTS_KEPT_MS, HINTS_MAX, NAMED_HINTS_MAX, NAMED_JOBS_MAX } from '../../../lib/store/bounds.ts';
import type { JobStore } from '../../../lib/store/contract.ts';
import { DUE_WORK, DUE_WORK_WATCHED, type Fence, type NamedJob } from '../../../lib/store/records.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, headOf, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../../fixtures/factories/ledger.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { CONCURRENT_MS, LEASE_MS, type StoreSuite, times } from './suite.ts';

export function leaseContract(suite: StoreSuite): void {
  const { freshPartition, lease } = suite;
  let harness: ReturnType<StoreSuite['opened']>;
  let store: JobStore;
  beforeAll(() => {
    harness = suite.opened();
    ({ store } = harness);
  });

  describe('the lease', () => {
    it('is free at first, and its first epoch is 1', async () => {
      const partition = freshPartition();
      expect(
        await store.acquireLease({ partition, holder: 'one', nowMs: NOW_MS, leaseMs: LEASE_MS }),
      ).toEqual({
        kind: 'acquired',
        epoch: 1,
        expiresAtMs: NOW_MS + LEASE_MS,
      });
    });

    it('is held until it expires, to the very millisecond', async () => {
      const partition = freshPartition();
      await store.acquireLease({ partition, holder: 'one', nowMs: NOW_MS, leaseMs: LEASE_MS });
      expect(
        await store.acquireLease({
          partition,
          holder: 'two',
          nowMs: NOW_MS + LEASE_MS - 1,
          leaseMs: LEASE_MS,
        }),
      ).toEqual({
        kind: 'held',
        epoch: 1,
        expiresAtMs: NOW_MS + LEASE_MS,
        holder: 'one',
      });
      expect(
        await store.acquireLease({ partition, holder: 'two', nowMs: NOW_MS + LEASE_MS, leaseMs: LEASE_MS }),
      ).toMatchObject({
        kind: 'acquired',
        epoch: 2,
      });
    });

    it('lasts longer when it is renewed', async () => {
      const partition = freshPartition();
      const fence = await lease(partition);
      expect(await store.renewLease({ fence, nowMs: NOW_MS + 15_000, leaseMs: LEASE_MS })).toBe('renewed');
      expect(
        await store.acquireLease({ partition, holder: 'two', nowMs: NOW_MS + LEASE_MS, leaseMs: LEASE_MS }),
      ).toMatchObject({
        kind: 'held',
        expiresAtMs: NOW_MS + 15_000 + LEASE_MS,
      });
    });

    it('says to whoever stores jobs what its renewals have said last, and when, also when another has taken it', async () => {
      const partition = freshPartition();
      const first = await lease(partition);
      const said = async (): Promise<unknown> => (await store.readLease(partition))?.word;
      const renew = (fence: Fence, atMs: number, wantsWord?: boolean): Promise<unknown> =>
        store.renewLease({ fence, nowMs: NOW_MS + atMs, leaseMs: LEASE_MS, wantsWord });
      await renew(first, 1);
      expect(await said()).toBeUndefined();
      await renew(first, 2, true);
      const word = { isWanted: true, saidAtMs: NOW_MS + 2 };
      expect(await said()).toEqual(word);
      await renew(first, 3);
      await store.releaseLease({ fence: first });
      expect(await said()).toEqual(word);
      const second = await lease(partition, NOW_MS + 4);
      expect(await said()).toEqual(word);
      // Of a former holder it says nothing any more.
      await renew(first, 5, false);
      expect(await said()).toEqual(word);
      await renew(second, 6, false);
      expect(await said()).toEqual({ isWanted: false, saidAtMs: NOW_MS + 6 });
    });

    it('is free at once when it is given back, and its next epoch is greater', async () => {
      const partition = freshPartition();
      const fence = await lease(partition);
      expect(await store.releaseLease({ fence })).toBe('released');
      expect(
        await store.acquireLease({ partition, holder: 'two', nowMs: NOW_MS + 1, leaseMs: LEASE_MS }),
      ).toMatchObject({
        kind: 'acquired',
        epoch: fence.epoch + 1,
      });
    });

    it('says up to which wake its last holders have looked', async () => {
      const partition = freshPartition();
      const first = await lease(partition);
      await store.releaseLease({ fence: first, wakesSeen: { wakes: 7, named: 3, names: 5 } });
      const second = await store.acquireLease({
        partition,
        holder: 'two',
        nowMs: NOW_MS + 1,
        leaseMs: LEASE_MS,
      });
      expect(second).toMatchObject({ kind: 'acquired', wakesSeen: { wakes: 7, named: 3, names: 5 } });
      // Who gives it back without a word has looked no further.
      await store.releaseLease({ fence: { partition, epoch: second.epoch } });
      expect(
        await store.acquireLease({ partition, holder: 'three', nowMs: NOW_MS + 2, leaseMs: LEASE_MS }),
      ).toMatchObject({
        kind: 'acquired',
        wakesSeen: { wakes: 7, named: 3, names: 5 },
      });
    });

    it('cannot be renewed once it was given back', async () => {
      const partition = freshPartition();
      const fence = await lease(partition);
      await store.releaseLease({ fence });
      expect(await store.renewLease({ fence, nowMs: NOW_MS + 1, leaseMs: LEASE_MS })).toBe('lost');
      expect(
        (await store.acquireLease({ partition, holder: 'two', nowMs: NOW_MS + 2, leaseMs: LEASE_MS })).kind,
      ).toBe('acquired');
    });

    it('cannot be renewed or given back by a former holder', async () => {
      const partition = freshPartition();
      const former = await lease(partition);
      const current = await lease(partition, NOW_MS + LEASE_MS);
      expect(
        await store.renewLease({ fence: former, nowMs: NOW_MS + LEASE_MS, leaseMs: 10 * LEASE_MS }),
      ).toBe('lost');
      expect(await store.releaseLease({ fence: former })).toBe('lost');
      expect(
        await store.acquireLease({
          partition,
          holder: 'three',
          nowMs: NOW_MS + LEASE_MS + 1,
          leaseMs: LEASE_MS,
        }),
      ).toEqual({
        kind: 'held',
        epoch: current.epoch,
        expiresAtMs: NOW_MS + 2 * LEASE_MS,
        holder: 'dispatcher',
      });
    });

    describe('that was given back open', () => {
      const opened = async (partition: number): Promise<Fence> => {
        const fence = await lease(partition);
        await store.releaseLease({ fence, isOpen: true });
        return fence;
      };
      const isOpen = async (partition: number): Promise<boolean> =>
        (await store.loadPartition({ partition, nowMs: NOW_MS })).isOpen;

      it('lets whoever has loaded the partition commit, one after the other', async () => {
        const partition = freshPartition();
        const fence = await opened(partition);
        expect(await isOpen(partition)).toBe(true);
        const commit = aCommit({ turn: 0, ledgers: [aLedger()], isWithoutLease: true });
        expect(await store.commit({ fence, commit })).toBe('committed');
        await expect(store.commit({ fence, commit })).rejects.toMatchObject({ name: 'StaleCommit' });
        expect(await isOpen(partition)).toBe(true);
      });

      it('lets nobody commit any more who loaded the partition before it was taken', async () => {
        const partition = freshPartition();
        const fence = await opened(partition);
        const next = await lease(partition, NOW_MS + 1);
        expect([next.epoch, await isOpen(partition)]).toEqual([fence.epoch + 1, false]);
        const commit = aCommit({ turn: 0, ledgers: [aLedger()], isWithoutLease: true });
        expect(await store.commit({ fence, commit })).toBe('lost');
        await store.releaseLease({ fence: next });
        expect([await isOpen(partition), await store.commit({ fence, commit })]).toEqual([false, 'lost']);
      });

      it('lets nobody change more than the page and what resources cost', async () => {
        const partition = freshPartition();
        const fence = await opened(partition);
        const large = aReservation(times(600, (at) => ({ id: `${at}`.padStart(32, '0') })));
        const withoutLease = { turn: 0, isWithoutLease: true };
        expect(await store.commit({ fence, commit: aCommit({ ...withoutLease, reserve: [large] }) })).toBe(
          'needsLease',
        );
        expect((await store.loadPartition({ partition, nowMs: NOW_MS })).reservations).toEqual([]);
        const estimates = [anEstimate({ resourceId: 'printer' })];
        expect(await store.commit({ fence, commit: aCommit({ ...withoutLease, estimates }) })).toBe(
          'committed',
        );
      });
    });

    it('goes to one of two dispatchers that ask at once', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const partition = freshPartition();
        const outcomes = await Promise.all(
          ['one', 'two'].map((holder) =>
            store.acquireLease({ partition, holder, nowMs: NOW_MS, leaseMs: LEASE_MS }),
          ),
        );
        expect(outcomes.map((outcome) => outcome.kind).sort()).toEqual(['acquired', 'held']);
      }
    });

    it('goes to one of eight that find it expired', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      await lease(partition);
      const outcomes = await Promise.all(
        times(8, (at) =>
          store.acquireLease({ partition, holder: `d${at}`, nowMs: NOW_MS + LEASE_MS, leaseMs: LEASE_MS }),
        ),
      );
      expect(outcomes.filter((outcome) => outcome.kind === 'acquired')).toHaveLength(1);
      expect(outcomes.every((outcome) => outcome.epoch === 2)).toBe(true);
    });
  });

  describe('the wake counter', () => {
    it('is 0 before the first wake and counts every one, also concurrent ones', {
      timeout: CONCURRENT_MS,
    }, async () => {
      const partition = freshPartition();
      expect((await store.readWakes(partition)).wakes).toBe(0);
      await Promise.all(times(12, () => store.wake({ partition })));
      expect((await store.readWakes(partition)).wakes).toBe(12);
      expect((await store.readWakes(freshPartition())).wakes).toBe(0);
    });

    it('keeps the names of jobs that words are about, oldest first, and counts words that name none', async () => {
      const partition = freshPartition();
      const [one, two, three] = ['one', 'two', 'three'].map((id, version) => ({
        id,
        version,
        isWaiting: version !== 1,
      }));
      if (one === undefined || two === undefined || three === undefined) throw new Error('no names');
      await store.wake({ partition, jobs: [one, two] });
      expect(await store.readWakes(partition)).toEqual({ wakes: 1, named: 1, names: 2, jobs: [one, two] });
      await store.wake({ partition });
      await store.wake({ partition, jobs: [three] });
      const seen = await store.readWakes(partition);
      expect(seen).toEqual({ wakes: 3, named: 2, names: 3, jobs: [one, two, three] });
    });

    it('names jobs by any characters', async () => {
      const partition = freshPartition();
      const named = ['two\nlines', '4w', 'x'.repeat(3_000)].map((id) => ({
        id,
        version: 7,
        isWaiting: true,
      }));
      await store.wake({ partition, jobs: named });
      expect((await store.readWakes(partition)).jobs).toEqual(named);
    });

    it('drops names that were looked at, and none that came since', async () => {
      const partition = freshPartition();
      const named = (id: string) => ({ id, version: 0, isWaiting: true });
      await store.wake({ partition, jobs: [named('one'), named('two')] });
      const seen = await store.readWakes(partition);
      await store.wake({ partition, jobs: [named('three')] });
      await store.dropNames({ partition, seen });
      const left = await store.readWakes(partition);
      expect(left).toEqual({ wakes: 2, named: 2, names: 3, jobs: [named('three')] });
      // Who has seen less, or the same, drops nothing of what stands there now.
      await store.dropNames({ partition, seen });
      expect(await store.readWakes(partition)).toEqual(left);
      await store.dropNames({ partition, seen: left });
      expect(await store.readWakes(partition)).toEqual({ ...left, jobs: [] });
      await store.dropNames({ partition, seen: await store.readWakes(partition) });
      await store.wake({ partition, jobs: [named('four')] });
      expect(await store.readWakes(partition)).toEqual({
        wakes: 3,
        named: 3,
        names: 4,
        jobs: [named('four')],
      });
    });

    it('takes as many names as have room, and leaves word without them where they have none', async () => {
      const partition = freshPartition();
      const named = times(NAMED_JOBS_MAX, (at) => ({ id: `job-${at}`, version: at, isWaiting: true }));
      await store.wake({ partition, jobs: named.slice(1) });
      await store.wake({ partition, jobs: named.slice(0, 2) });
      await store.wake({ partition, jobs: [...named, ...named] });
      const full = { wakes: 3, named: 1, names: NAMED_JOBS_MAX - 1, jobs: named.slice(1) };
      expect(await store.readWakes(partition)).toEqual(full);
      await store.wake({ partition, jobs: named.slice(0, 1) });
      expect((await store.readWakes(partition)).jobs).toHaveLength(NAMED_JOBS_MAX);
    });

    it('is not left where there is no room for its names, if it is to have them', async () => {
      const partition = freshPartition();
      const named = times(NAMED_JOBS_MAX, (at) => ({ id: `job-${at}`, version: at, isWaiting: true }));
      const leave = (jobs: readonly NamedJob[]) => store.wake({ partition, jobs, onlyNamed: true });
      expect(await leave(named.slice(1))).toBe('left');
      const full = await store.readWakes(partition);
      expect([await leave(named.slice(0, 2)), await leave([...named, ...named])]).toEqual(['full', 'full']);
      expect(await store.readWakes(partition)).toEqual(full);
      await store.dropNames({ partition, seen: full });
      expect(await leave(named.slice(0, 2))).toBe('left');
      expect((await store.readWakes(partition)).jobs).toEqual(named.slice(0, 2));
    });

    it('names more hints than jobs: they are shorter', async () => {
      const partition = freshPartition();
      const hints = times(
        NAMED_HINTS_MAX + 1,
        (at): NamedJob => ({ id: `hints-${at}`, version: 0, isWaiting: false, isOfHints: true }),
      );
      const leave = (jobs: readonly NamedJob[]) => store.wake({ partition, jobs, onlyNamed: true });
      expect(await leave(hints)).toBe('full');
      expect(await leave(hints.slice(1))).toBe('left');
      expect([
        await leave(hints.slice(0, 1)),
        await leave([{ id: 'job', version: 1, isWaiting: true }]),
      ]).toEqual(['full', 'full']);
      expect((await store.readWakes(partition)).jobs).toEqual(hints.slice(1));
    });

    it('has room for due work as for hints: its name is shorter still', async () => {
      const partition = freshPartition();
      const hints = times(
        NAMED_HINTS_MAX - 2,
        (at): NamedJob => ({ id: `hints-${at}`, version: 0, isWaiting: false, isOfHints: true }),
      );
      await store.wake({ partition, jobs: hints });
      await store.wake({ partition, jobs: [DUE_WORK] });
      await store.wake({ partition, jobs: [DUE_WORK_WATCHED] });
      await store.wake({ partition, jobs: [DUE_WORK] });
      expect(await store.readWakes(partition)).toMatchObject({
        wakes: 4,
        named: 3,
        jobs: [...hints, DUE_WORK, DUE_WORK_WATCHED],
      });
    });

    it('never stands in the way of a commit', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const fence = await lease(partition);
      const wakes = times(10, () => store.wake({ partition }));
      expect(await store.commit({ fence, commit: aCommit({ ledgers: [aLedger()] }) })).toBe('committed');
      await Promise.all(wakes);
      expect((await store.readWakes(partition)).wakes).toBe(10);
    });
  });

  describe('hints', () => {
    const ended = (partition: number, at: number): Job =>
      aJob({
        partition,
        id: `ended-${at}`,
        state: 'succeeded',
        version: 4,
        fairnessKey: `two\nlines ${at}`,
        resourceId: 'album/\u0001',
        claim: { claimId: `1-2-${at}`, epoch: 1, batchId: '1-2', fleet: 'images', claimedAtMs: NOW_MS },
        startedAtMs: NOW_MS + 3,
        finishedAtMs: NOW_MS + 7,
        result: { pages: at },
        label: 'an album',
      });

    it('say what lines show of the jobs, and when one was asked to end, however many there are', async () => {
      const partition = freshPartition();
      const cancelled = aJob({
        partition,
        state: 'cancelled',
        finishedAtMs: NOW_MS + 2,
        cancelRequestedAtMs: NOW_MS + 5,
        cancelRequestedBy: 'somebody',
      });
      const jobs = [...times(HINTS_MAX + 1, (at) => ended(partition, at)), aJob({ partition }), cancelled];
      const hints = jobs.map((job) =>
        job === cancelled ? { ...headOf(job), cancelRequestedAtMs: NOW_MS + 5 } : headOf(job),
      );
      const names = await store.putHints({ partition, hints: jobs, nowMs: NOW_MS });
      expect(names).toHaveLength(2);
      expect(names.every(({ isOfHints }) => isOfHints)).toBe(true);
      expect(await store.readHints({ partition, names })).toEqual(hints);
      // Left as word, they are named as they were put; a word that was left twice names them twice.
      await store.wake({ partition, jobs: names });
      const heard = (await store.readWakes(partition)).jobs;
      expect(heard).toEqual(names);
      expect(await store.readHints({ partition, names: [...heard, ...heard] })).toEqual(hints);
    });

    it('of another partition, or another name, are not there', async () => {
      const partition = freshPartition();
      const names = await store.putHints({ partition, hints: [ended(partition, 0)], nowMs: NOW_MS });
      expect(await store.readHints({ partition: freshPartition(), names })).toBeUndefined();
      const others = ['none', '', 'x'.repeat(3_000), '\ud800', '/'].map((id) => ({
        id,
        version: 0,
        isWaiting: false,
        isOfHints: true as const,
      }));
      for (const other of others)
        expect(await store.readHints({ partition, names: [...names, other] })).toBeUndefined();
    });

    it('are not there once they may be collected', async () => {
      const partition = freshPartition();
      const names = await store.putHints({ partition, hints: [ended(partition, 0)], nowMs: NOW_MS });
      onTestFinished(() => harness.setClock(NOW_MS));
      harness.setClock(NOW_MS + HINTS_KEPT_MS - 1);
      expect(await store.readHints({ partition, names })).toHaveLength(1);
      harness.setClock(NOW_MS + HINTS_KEPT_MS);
      expect(await store.readHints({ partition, names })).toBeUndefined();
    });

    it('of no jobs are none', async () => {
      const partition = freshPartition();
      expect(await store.putHints({ partition, hints: [], nowMs: NOW_MS })).toEqual([]);
      expect(await store.readHints({ partition, names: [] })).toEqual([]);
    });
  });
}
