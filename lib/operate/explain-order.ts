/**
 * Reads the jobs that a pass would move or skip, for an explanation of which jobs come first: due jobs, which a pass moves to their
 * ready lines, and jobs that another partition's lock keeps from starting. The reads are bounded; if more jobs may come first
 * than were read, the answer says so.
 */

import { lockOf } from '../dispatch/partitions/locks.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { isOpenTo } from '../store/contract/records.ts';
import type { OperateContext } from './controls.ts';

/** The most due jobs that an explanation reads. */
const DUE_MAX = 200;
/** The most conflict keys whose locks an explanation reads. */
const LOCKS_MAX = 100;

/** Reads the jobs whose time has come and that no pass has moved to a ready line yet. `cut`: there are more. */
export async function readDueJobs(
  { store, clock }: OperateContext,
  partition: number,
): Promise<{ readonly jobs: readonly JobHead[]; readonly cut: boolean }> {
  const { jobs, next } = await store.readDue({ partition, nowMs: clock.nowMs(), limit: DUE_MAX });
  return { jobs, cut: next !== undefined };
}

/** Returns the ids of the jobs that another partition's lock keeps from starting. */
export async function lockedElsewhere(
  context: OperateContext,
  partition: number,
  jobs: readonly JobHead[],
): Promise<ReadonlySet<string>> {
  const keys = new Set(jobs.flatMap((job) => lockOf(context, job) ?? []));
  const conflictKeys = [...keys].slice(0, LOCKS_MAX);
  if (conflictKeys.length === 0) return new Set();
  const locks = await context.store.readLocks(conflictKeys);
  const nowMs = context.clock.nowMs();
  const taken = new Set(
    conflictKeys.filter(
      (_, at) => locks[at]?.holder?.partition !== partition && !isOpenTo(locks[at], partition, nowMs),
    ),
  );
  const isTaken = (job: JobHead): boolean => {
    const conflictKey = lockOf(context, job);
    return conflictKey !== undefined && taken.has(conflictKey);
  };
  return new Set(jobs.filter(isTaken).map(({ id }) => id));
}
