/** Moving a job that waits to another time: to come, or past, which means now. The last move counts. */

import { ThrottledError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { wakeInMs } from '../dispatch/partition/timers.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { ProducerStore } from '../store/contract/core.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { putAnnounced, type SubmitContext } from '../submit/submit.ts';

export interface RetimeContext extends SubmitContext {
  readonly store: SubmitStore & Pick<ProducerStore, 'retimeJob'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
}

export type MoveOutcome =
  | { readonly kind: 'moved'; readonly job: Job }
  /** A worker was told of it, runs it, or has ended it. */
  | { readonly kind: 'tooLate'; readonly job: Job }
  | { readonly kind: 'missing' };

/** Between a look and its move, a job may become ready, or be moved by somebody else: as often as this. */
const TRIES_MAX = 5;

/**
 * Moves a job. Each try is conditional on the version that was seen, so a request that comes late undoes no later move.
 *
 * @param by - who moves it, for its history
 * @throws ThrottledError if the job moved on at each try
 */
export async function retimeJob(
  context: RetimeContext,
  jobId: string,
  runAtMs: number,
  by?: string | undefined,
): Promise<MoveOutcome> {
  const { store } = context;
  let [seen] = await store.lookUpJobs({ ids: [jobId] });
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    if (seen === undefined) return { kind: 'missing' };
    const nowMs = context.nowMs();
    const job = seen;
    // It will stand in its ready line at once, which may have been retired while it waited for its time.
    const isNew = job.state === 'scheduled' && runAtMs <= nowMs;
    const outcome = await putAnnounced(context, isNew ? [job] : [], () =>
      store.retimeJob({ job, runAtMs, nowMs, by }),
    );
    if (outcome.kind === 'moved') await wakeFor(context, outcome.job);
    if (outcome.kind !== 'superseded') return outcome;
    seen = outcome.job;
  }
  throw new ThrottledError(
    `retimeJob: job ${jobId} moved on at each of ${TRIES_MAX} tries, nothing was changed; try again`,
  );
}

/** A wake that is lost costs a minute at most: its stream record causes a pass, and the tick looks too. */
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
