/**
 * Changes a waiting job: its time, in the future or in the past, which means now, or its priority. The last change
 * counts.
 */

import { ThrottledError } from '../core/errors.ts';
import type { Job, MovingJob } from '../core/job.ts';
import { isExpired } from '../core/life-cycle.ts';
import { wakeInMs } from '../dispatch/partition/timers.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { ProducerStore } from '../store/contract/core.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { needsLaterTags, recordTagsOf, type SubmitContext, storeAnnounced } from '../submit/submit.ts';

export interface RetimeContext extends SubmitContext {
  readonly store: SubmitStore & Pick<ProducerStore, 'retimeJob'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
}

export type MoveOutcome =
  | { readonly kind: 'moved'; readonly job: Job }
  /** The job was sent to a worker, runs, or has ended; its time to start may be over. */
  | { readonly kind: 'tooLate'; readonly job: MovingJob }
  | { readonly kind: 'missing' };

/** How often a change is tried while the job becomes ready or other requests change it. */
const TRIES_MAX = 5;

/**
 * Moves a job to another time.
 *
 * @param by - who moves it, for its history
 * @throws ThrottledError if the job changed during each attempt
 */
export const retimeJob = (
  context: RetimeContext,
  jobId: string,
  runAtMs: number,
  by?: string | undefined,
): Promise<MoveOutcome> => change(context, jobId, { runAtMs }, by);

/**
 * Gives a job another priority. A job whose time has come keeps its age, and the next pass gives it its new position.
 *
 * @param by - who changes it, for its history
 * @throws ThrottledError if the job changed during each attempt
 */
export const setJobPriority = (
  context: RetimeContext,
  jobId: string,
  priority: number,
  by?: string | undefined,
): Promise<MoveOutcome> => change(context, jobId, { priority }, by);

/**
 * Changes a waiting job. Each attempt is conditional on the version that was read, so a late request does not undo a
 * later change.
 */
async function change(
  context: RetimeContext,
  jobId: string,
  asked: { readonly runAtMs: number } | { readonly priority: number },
  by: string | undefined,
): Promise<MoveOutcome> {
  const { store } = context;
  let [seen] = await store.lookUpJobs({ ids: [jobId] });
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    if (seen === undefined) return { kind: 'missing' };
    const nowMs = context.nowMs();
    const job = seen;
    // It never starts, whether a pass has ended it yet or not.
    if (isExpired(job, nowMs)) return { kind: 'tooLate', job: { ...job, state: 'expired' } };
    const { runAtMs, priority } = { runAtMs: job.runAtMs, priority: undefined, ...asked };
    // The job enters its ready line at once. That line may have been retired while the job was scheduled, so it is announced.
    const isNew = job.state === 'scheduled' && runAtMs <= nowMs;
    const outcome = await storeAnnounced(context, isNew ? [job] : [], () =>
      store.retimeJob({ job, runAtMs, priority, nowMs, by }),
    );
    if (outcome.kind === 'moved') {
      if (needsLaterTags(outcome.job)) await recordTagsOf(context, [outcome.job]);
      await wakeFor(context, outcome.job);
    }
    if (outcome.kind !== 'superseded') return outcome;
    seen = outcome.job;
  }
  throw new ThrottledError(
    `retimeJob: job ${jobId} changed during each of ${TRIES_MAX} attempts, nothing was changed; try again`,
  );
}

/**
 * Wakes the partition of the job. A lost wake costs at most a minute, because the job's stream record and the tick
 * cause passes as well.
 */
async function wakeFor(context: RetimeContext, job: Job): Promise<void> {
  const delayMs = wakeInMs(job, context.nowMs());
  if (delayMs === undefined) return;
  await Promise.allSettled([
    context.queue.sendWake({
      partition: job.partition,
      delayMs,
      dueAtMs: delayMs > 0 ? job.runAtMs : undefined,
    }),
  ]);
}
