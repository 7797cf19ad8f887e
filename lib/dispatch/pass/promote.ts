/** Part of the load step: scheduled jobs whose time has come become ready. The number of reads is bounded. */
import type { MovingJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { storeAnnounced, submitContextOf } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import { belongsTo } from '../partitions/rehome.ts';
import { PROMOTE_ROUNDS_MAX } from '../tuning.ts';

export interface Promotion {
  readonly promoted: readonly MovingJob[];
  /**
   * Jobs that the due line still shows although another dispatcher has promoted them. Their ready lines may not show them yet.
   */
  readonly overtaken: readonly MovingJob[];
  /** Due jobs whose keys belong to another partition. They are moved there instead of being promoted here. */
  readonly strangers: readonly JobHead[];
  readonly more: boolean;
}

export const NOTHING_DUE: Promotion = { promoted: [], overtaken: [], strangers: [], more: false };

/**
 * Moves due jobs to their ready lines, soonest first: up to `promoteMax` in each of `PROMOTE_ROUNDS_MAX` reads. All of them are
 * moved before the plan, because the best job may have become due last. Returns their new images; `more`: other due jobs are left
 * to the next pass.
 */
export async function promoteDue(
  context: DispatchContext,
  partition: number,
  nowMs: number,
): Promise<Promotion> {
  const { store, budget } = context;
  const { promoteMax } = budget;
  const lives = belongsTo(context, partition);
  const promoted: MovingJob[] = [];
  const lost: JobHead[] = [];
  const strangers: JobHead[] = [];
  let next: string | undefined;
  for (let round = 0; round < PROMOTE_ROUNDS_MAX; round += 1) {
    // Each read begins behind the last one, because the index may still show jobs that were promoted.
    const due = await store.readDue({ partition, nowMs, limit: promoteMax, after: next });
    ({ next } = due);
    // The jobs' lines may have been retired while they waited, so they are announced again.
    const own = due.jobs.filter(lives);
    const moved =
      own.length === 0
        ? []
        : await storeAnnounced(submitContextOf(context), own, () => store.promote({ jobs: own, nowMs }));
    strangers.push(...due.jobs.filter((job) => !lives(job)));
    promoted.push(...moved.filter((job) => job !== undefined));
    lost.push(...own.filter((_, at) => moved[at] === undefined));
    if (next === undefined) break;
  }
  return {
    promoted,
    overtaken: await readWaiting(context, lost),
    strangers,
    // planted: one-page-of-due-2
    more: next !== undefined,
  };
}

async function readWaiting(
  { store }: DispatchContext,
  jobs: readonly JobHead[],
): Promise<readonly MovingJob[]> {
  if (jobs.length === 0) return [];
  // An unreadable job is no candidate.
  const found = await store.lookUpJobs({ ids: jobs.map(({ id }) => id), unreadable: () => {} });
  return found.filter((job) => job !== undefined).filter(({ state }) => state === 'pending');
}
