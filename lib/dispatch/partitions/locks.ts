/**
 * Locks of conflict keys across partitions. Within one partition, reservations already exclude each other. But jobs with the same
 * conflict key may have fairness keys in several partitions. With more than one partition, a claim therefore takes the conflict
 * key's lock together with the job, in one transaction, and the pass that settles the attempt releases it. The steps are those of
 * test/protocol/lock_model.py.
 *
 * Three rules make this safe. No claim succeeds without the lock. The lock is released for exactly its claim, once the attempt is
 * over and before the entry that counts it is dropped, so that a pass always comes back to it. A claim that found the lock held
 * is given up only after the job's version was raised. Everything else, such as reading locks beforehand, waiting for them and
 * reserving them for the next partition, only saves claims that would fail and shares the lock fairly. A lost hint costs time
 * until the next tick.
 */

import { conflictKeyFor, isExclusive, typesByName } from '../../core/conflict.ts';
import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { type DeclarationProgress, isOpenTo, type Lock } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import { WAKE_TAKES_MS } from '../tuning.ts';
import type { Settled } from '../view/settled.ts';

type LockContext = Pick<DispatchContext, 'store' | 'configuration' | 'queue' | 'clock' | 'log'>;

/** Whether jobs of one conflict key may be in several partitions. */
export const needsLocks = ({ configuration }: Pick<DispatchContext, 'configuration'>): boolean =>
  configuration.partitions > 1;

/** Returns the conflict key whose lock this job's claim takes. Undefined: none. */
export function lockOf(
  context: Pick<DispatchContext, 'configuration'>,
  job: Pick<JobHead, 'type' | 'resourceId'>,
): string | undefined {
  if (!needsLocks(context)) return undefined;
  const type = typesByName(context.configuration).get(job.type);
  return exclusiveOnly(conflictKeyFor(type, job.resourceId));
}

/**
 * Returns the conflict key if it has a lock. A resource that a type limits to several jobs has none: each partition has
 * a share of that cap.
 */
const exclusiveOnly = (conflictKey: string | undefined): string | undefined =>
  conflictKey !== undefined && isExclusive(conflictKey) ? conflictKey : undefined;

/** Returns the conflict key whose lock the claim of a reserved job takes. Undefined: none. */
export const lockOfEntry = (
  context: Pick<DispatchContext, 'configuration'>,
  { conflictKey }: Pick<ReservedJob, 'conflictKey'>,
): string | undefined => (needsLocks(context) ? exclusiveOnly(conflictKey) : undefined);

export interface LocksSeen {
  /**
   * Conflict keys that this partition may not use now. If it has jobs for one, the lock lists it as waiting, so it is
   * woken once the lock opens.
   */
  readonly taken: ReadonlySet<string>;
  /**
   * Epoch ms at which the first of these keys is no longer reserved for another partition. Absent: none is reserved.
   */
  readonly openAtMs?: number | undefined;
}

/**
 * Reads which conflict keys are locked by other partitions, and notes in their locks that this partition waits.
 *
 * @param hasJobs - asked before that note is written, because a partition that waits without a job would delay the others
 */
export async function readLocksAndWait(
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
      // If this partition itself holds the lock, its own settlement will release it.
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
 * Releases the locks of attempts that are over. This must happen before their entries are dropped, because no pass comes back to
 * them later. Returns the partitions that the locks are now reserved for.
 */
export async function releaseLocks(
  context: LockContext,
  partition: number,
  settled: readonly Settled[],
  carried: Pick<DeclarationProgress, 'sinceVersion'> | undefined,
): Promise<ReadonlySet<number>> {
  // Attempts that were claimed when there were more partitions still have their locks.
  const { sinceVersion = 0 } = carried ?? {};
  // planted: lock-of-before
  const locked = needsLocks(context)
    ? settled
    : settled.filter(({ reservation }) => reservation.version < sinceVersion);
  if (locked.length === 0) return new Set();
  // The lock is reserved for the next partition until the wake for it has arrived.
  const untilMs = context.clock.nowMs() + WAKE_TAKES_MS;
  const released = await Promise.all(
    locked.map(async ({ reservation, position, entry }) => {
      const conflictKey = exclusiveOnly(entry.conflictKey);
      if (conflictKey === undefined) return undefined;
      const claimId = claimIdOf(reservation.batchId, position);
      return (await context.store.releaseLock({ conflictKey, partition, claimId, untilMs })).next;
    }),
  );
  return new Set(released.filter((next) => next !== undefined));
}

/** Wakes partitions that a lock is now reserved for. The next tick makes up for a lost wake. */
export async function wakePartitions(context: LockContext, partitions: Iterable<number>): Promise<void> {
  await Promise.all(
    Array.from(partitions, async (partition) => {
      try {
        await context.queue.sendWake({ partition });
      } catch (error) {
        context.log.warn('a partition was not woken for a released lock; the next tick wakes it', {
          partition,
          error: String(error),
        });
      }
    }),
  );
}

/**
 * Returns the lock if another partition holds it, or if it is reserved for another one, so that this partition's jobs
 * may not take it. Undefined: they may.
 */
export function lockHeldElsewhere(
  lock: Lock | undefined,
  partition: number,
  nowMs: number,
): Lock | undefined {
  return isOpenTo(lock, partition, nowMs) || lock?.holder?.partition === partition ? undefined : lock;
}
