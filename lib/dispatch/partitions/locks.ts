/**
 * Conflict keys across partitions. In one partition reservations exclude; jobs of one conflict key may live in several,
 * because their fairness keys do. So with more than one partition a claim takes the conflict key's lock with the job, in
 * one transaction, and the pass that settles the attempt gives it back. The steps are those of test/protocol/lock_model.py.
 *
 * Safety rests on these alone: no claim without the lock; it is given back by exactly its claim, once the attempt is over,
 * before the place that counts it is dropped, so that a pass always comes back to it; and a claim that met a taken lock
 * is given up only after the job's version was raised. Reading locks beforehand, waiting and turns only save claims that
 * could not be won, and let partitions take turns: a hint that gets lost costs time until the next tick.
 */

import { conflictKeyUnder, isExclusive, typesByName } from '../../core/conflict.ts';
import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { type Carried, isOpenTo, type Lock } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import { WAKE_TAKES_MS } from '../tuning.ts';
import type { Settled } from '../view/settled.ts';

type LockContext = Pick<DispatchContext, 'store' | 'configuration' | 'queue' | 'clock' | 'log'>;

/** Whether jobs of one conflict key may live in several partitions. */
export const needsLocks = ({ configuration }: Pick<DispatchContext, 'configuration'>): boolean =>
  configuration.partitions > 1;

/** The conflict key whose lock a claim of this job takes; undefined: none. */
export function lockOf(
  context: Pick<DispatchContext, 'configuration'>,
  job: Pick<JobHead, 'type' | 'resourceId'>,
): string | undefined {
  if (!needsLocks(context)) return undefined;
  const type = typesByName(context.configuration).get(job.type);
  return lockedBy(conflictKeyUnder(type, job.resourceId));
}

/** A resource whose jobs a type limits has no lock: each partition has a share of that cap. */
const lockedBy = (conflictKey: string | undefined): string | undefined =>
  conflictKey !== undefined && isExclusive(conflictKey) ? conflictKey : undefined;

/** The conflict key whose lock the claim of a reserved job takes; undefined: none. */
export const lockOfPlace = (
  context: Pick<DispatchContext, 'configuration'>,
  { conflictKey }: Pick<ReservedJob, 'conflictKey'>,
): string | undefined => (needsLocks(context) ? lockedBy(conflictKey) : undefined);

export interface LocksSeen {
  /** Conflict keys that are not open to the partition. It waits for them now, and will be woken. */
  readonly taken: ReadonlySet<string>;
  /** When the first of them will be open unless it is taken: another partition's turn ends. */
  readonly openAtMs?: number | undefined;
}

/**
 * Looks which conflict keys another partition holds, and waits for those.
 *
 * @param hasJobs - asked before the partition waits: who waits without a job costs the others a turn
 */
export async function lookAtLocks(
  context: LockContext,
  partition: number,
  conflictKeys: readonly string[],
  hasJobs: (conflictKey: string) => Promise<boolean> = async () => true,
): Promise<LocksSeen> {
  if (conflictKeys.length === 0) return { taken: new Set() };
  const { store, clock } = context;
  const locks = await store.readLocks(conflictKeys);
  const nowMs = clock.nowMs();
  const taken = await Promise.all(
    conflictKeys.map(async (conflictKey, at) => {
      const lock = locks[at];
      if (isOpenTo(lock, partition, nowMs)) return [];
      // What this partition holds itself, its own reservations tell of, and its own settlement frees.
      const isKnown = lock?.holder?.partition === partition || lock?.waiting.includes(partition) === true;
      const isNews = !isKnown && (await hasJobs(conflictKey));
      if (isNews && (await store.awaitLock({ conflictKey, partition, nowMs })) === 'open') return [];
      return [{ conflictKey, untilMs: lock?.turn?.untilMs }];
    }),
  );
  const ends = taken.flat().flatMap(({ untilMs }) => (untilMs === undefined ? [] : [untilMs]));
  return {
    taken: new Set(taken.flat().map(({ conflictKey }) => conflictKey)),
    ...(ends.length === 0 ? {} : { openAtMs: Math.min(...ends) }),
  };
}

/**
 * Gives back the locks of attempts that are over. Before their places are dropped: after that no pass would come back to
 * them. Answers the partitions whose turn it is.
 */
export async function releaseLocks(
  context: LockContext,
  partition: number,
  settled: readonly Settled[],
  carried: Pick<Carried, 'sinceVersion'> | undefined,
): Promise<ReadonlySet<number>> {
  // What was claimed when there were more partitions has its lock still.
  const { sinceVersion = 0 } = carried ?? {};
  // planted: lock-of-before
  const locked = needsLocks(context)
    ? settled
    : settled.filter(({ reservation }) => reservation.version < sinceVersion);
  if (locked.length === 0) return new Set();
  // For the partition whose turn it is, until its wake has come.
  const untilMs = context.clock.nowMs() + WAKE_TAKES_MS;
  const released = await Promise.all(
    locked.map(async ({ reservation, position, entry }) => {
      const conflictKey = lockedBy(entry.conflictKey);
      if (conflictKey === undefined) return undefined;
      const claimId = claimIdOf(reservation.batchId, position);
      return (await context.store.releaseLock({ conflictKey, partition, claimId, untilMs })).next;
    }),
  );
  return new Set(released.filter((next) => next !== undefined));
}

/** A wake that gets lost is made up for by the next tick. */
export async function wakePartitions(context: LockContext, partitions: Iterable<number>): Promise<void> {
  await Promise.all(
    Array.from(partitions, async (partition) => {
      try {
        await context.queue.sendWake({ partition });
      } catch (error) {
        context.log.warn('a partition was not told that it is its turn; the next tick does it', {
          partition,
          error: String(error),
        });
      }
    }),
  );
}

/** The other partition that keeps a job of this one from its conflict key. */
export function keptBy(lock: Lock | undefined, partition: number, nowMs: number): Lock | undefined {
  return isOpenTo(lock, partition, nowMs) || lock?.holder?.partition === partition ? undefined : lock;
}
