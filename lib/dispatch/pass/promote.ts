/** Scheduled jobs whose time has come become ready, in bounded rounds. */
import type { MovingJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { asSubmitter, putAnnounced } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import { livesIn } from '../partitions/rehome.ts';
import { PROMOTE_ROUNDS_MAX } from '../tuning.ts';

export interface Promotion {
  readonly promoted: readonly MovingJob[];
  /** Jobs that the due line shows still, though others have promoted them: their ready lines do not show them yet. */
  readonly overtaken: readonly MovingJob[];
  /** Of keys that live in other partitions: they are moved there instead. */
  readonly strangers: readonly JobHead[];
  readonly more: boolean;
}

export const NOTHING_DUE: Promotion = { promoted: [], overtaken: [], strangers: [], more: false };

/**
 * Moves due jobs to their ready lines: all of them, soonest first, up to `promoteMax` in each of `PROMOTE_ROUNDS_MAX` rounds.
 * The plan must know them: the best of them may have become due last. Answers their new images; `more`: others are left to
 * the next pass.
 */
export async function promoteDue(
  context: DispatchContext,
  partition: number,
  nowMs: number,
): Promise<Promotion> {
  const { store, budget } = context;
  const { promoteMax } = budget;
  const lives = livesIn(context, partition);
  const promoted: MovingJob[] = [];
  const lost: JobHead[] = [];
  const strangers: JobHead[] = [];
  let next: string | undefined;
  for (let round = 0; round < PROMOTE_ROUNDS_MAX; round += 1) {
    // Behind what was read, not from the front: the index may go on showing what was promoted.
    const due = await store.readDue({ partition, nowMs, limit: promoteMax, after: next });
    ({ next } = due);
    // Their lines may have been retired while they waited for their time.
    const own = due.jobs.filter(lives);
    const moved =
      own.length === 0
        ? []
        : await putAnnounced(asSubmitter(context), own, () => store.promote({ jobs: own, nowMs }));
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
  // One that cannot be read is no candidate.
  const found = await store.lookUpJobs({ ids: jobs.map(({ id }) => id), unreadable: () => {} });
  return found.filter((job) => job !== undefined).filter(({ state }) => state === 'pending');
}
