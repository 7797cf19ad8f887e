/**
 * What the next pass does before it plans, and while it claims, for whoever explains whose turn it is: it moves what is due to its
 * lines, and passes over what another partition's lock keeps from starting. From what was read for
 * the explanation: more may come first than were read, which it says.
 */

import { lockOf } from '../dispatch/partitions/locks.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import { isOpenTo } from '../store/contract/records.ts';
import type { OperateContext } from './controls.ts';

/** Jobs whose time has come that are read of the due line; of conflict keys, the locks. */
const DUE_MAX = 200;
const LOCKS_MAX = 100;

/** Jobs whose time has come and that stand in no ready line so far. */
export async function readDueJobs(
  { store, clock }: OperateContext,
  partition: number,
): Promise<{ readonly jobs: readonly JobHead[]; readonly cut: boolean }> {
  const { jobs, next } = await store.readDue({ partition, nowMs: clock.nowMs(), limit: DUE_MAX });
  return { jobs, cut: next !== undefined };
}

/** The ids of those jobs of a partition that another one's lock keeps from starting. */
export async function lockedElsewhere(
  context: OperateContext,
  partition: number,
  jobs: readonly JobHead[],
): Promise<ReadonlySet<string>> {
  const keys = new Set(jobs.flatMap((job) => lockOf(context, job) ?? []));
  const asked = [...keys].slice(0, LOCKS_MAX);
  if (asked.length === 0) return new Set();
  const locks = await context.store.readLocks(asked);
  const nowMs = context.clock.nowMs();
  const taken = new Set(
    asked.filter(
      (_, at) => locks[at]?.holder?.partition !== partition && !isOpenTo(locks[at], partition, nowMs),
    ),
  );
  const isTaken = (job: JobHead): boolean => {
    const conflictKey = lockOf(context, job);
    return conflictKey !== undefined && taken.has(conflictKey);
  };
  return new Set(jobs.filter(isTaken).map(({ id }) => id));
}
