/** Another try for a job that failed for good: a new job, made once. */

import { createHash } from 'node:crypto';
import type { Job } from '../core/job.ts';
import { BEGUN_VERSION } from '../core/life-cycle.ts';
import { partitionOf } from '../core/partition.ts';
import { takenOver } from '../store/contract/job-fields.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import { putAnnounced, type SubmitContext } from '../submit/submit.ts';

export type RedriveOutcome =
  | { readonly kind: 'redriven'; readonly jobId: string }
  /** It was done before: this is the job that was made then. */
  | { readonly kind: 'repeated'; readonly jobId: string }
  /** It has not failed, or not any more. */
  | { readonly kind: 'notFailed'; readonly job: Job }
  /** Its record cannot be read in full: nobody knows what to try again. */
  | { readonly kind: 'unreadable'; readonly job: Job }
  /** No worker takes its type any more. */
  | { readonly kind: 'unknownType'; readonly job: Job }
  | { readonly kind: 'missing' };

/** The id follows from the dead letter's: however often and by whomever it is asked for, there is one other try. */
const redriveIdOf = (jobId: string): string =>
  createHash('sha256').update(`redrive/${jobId}`).digest('hex').slice(0, 32);

/**
 * The same work, from its beginning, at once: first attempt, no checkpoint. Queued, because whoever waited has given up.
 */
function anotherTryOf(deadLetter: Job, partitions: number, nowMs: number, by: string | undefined): Job {
  return {
    ...takenOver(deadLetter),
    id: redriveIdOf(deadLetter.id),
    mode: 'queued',
    // Where its key lives now: the letter may be older than the number of partitions.
    partition: partitionOf(deadLetter.fairnessKey, partitions),
    state: 'pending',
    // Its work was begun: it may be what ended its process.
    version: BEGUN_VERSION,
    attempt: 1,
    workersLost: 0,
    runAtMs: nowMs,
    readyAtMs: nowMs,
    submittedAtMs: nowMs,
    redriveOf: deadLetter.id,
    ...(by === undefined ? {} : { redriveBy: by }),
  };
}

/**
 * Makes a new job of a failed one. Asked twice, it answers the same job.
 *
 * @param by - who asks for it, for the histories of both
 */
export async function redriveJob(
  context: SubmitContext & { readonly store: Pick<OperateStore, 'redrive'> },
  jobId: string,
  by?: string | undefined,
): Promise<RedriveOutcome> {
  const { store, configuration } = context;
  const read = async (): Promise<Job | undefined> => (await store.getJobs({ ids: [jobId] }))[0];
  const deadLetter = await read();
  const known = outcomeOf(deadLetter);
  if (deadLetter === undefined || known !== undefined) return known ?? { kind: 'missing' };
  if (!configuration.types.some((type) => type.type === deadLetter.type)) {
    return { kind: 'unknownType', job: deadLetter };
  }
  if (deadLetter.unreadable !== undefined) return { kind: 'unreadable', job: deadLetter };
  const job = anotherTryOf(deadLetter, configuration.partitions, context.nowMs(), by);
  const outcome = await putAnnounced(context, [job], () => store.redrive({ deadLetter, job }));
  if (outcome === 'applied') return { kind: 'redriven', jobId: job.id };
  const since = await read();
  return outcomeOf(since) ?? { kind: 'repeated', jobId: job.id };
}

/** What there is to say without a new job. */
function outcomeOf(deadLetter: Job | undefined): RedriveOutcome | undefined {
  if (deadLetter === undefined) return { kind: 'missing' };
  if (deadLetter.redrivenAs !== undefined) return { kind: 'repeated', jobId: deadLetter.redrivenAs };
  return deadLetter.state === 'failed' ? undefined : { kind: 'notFailed', job: deadLetter };
}
