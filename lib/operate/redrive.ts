/** Runs a failed job again as a new job, which is created only once. */

import { createHash } from 'node:crypto';
import { listFinishedOf, type PoolConfiguration } from '../core/configuration.ts';
import type { Job } from '../core/job.ts';
import { BEGUN_VERSION } from '../core/life-cycle.ts';
import { partitionOf } from '../core/partition.ts';
import { takenOver } from '../store/contract/job-fields.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import { type SubmitContext, storeAnnounced } from '../submit/submit.ts';

export type RedriveOutcome =
  | { readonly kind: 'redriven'; readonly jobId: string }
  /** The job was redriven before; this is the job that was created then. */
  | { readonly kind: 'repeated'; readonly jobId: string }
  /** The job has not failed, or not any more. */
  | { readonly kind: 'notFailed'; readonly job: Job }
  /** The job's record cannot be read in full, so it is unknown what to run again. */
  | { readonly kind: 'unreadable'; readonly job: Job }
  /** The job's type is not declared any more. */
  | { readonly kind: 'unknownType'; readonly job: Job }
  | { readonly kind: 'missing' };

/** Derives the new job's id from the failed job's id, so that repeated redrives make one job. */
const redriveIdOf = (jobId: string): string =>
  createHash('sha256').update(`redrive/${jobId}`).digest('hex').slice(0, 32);

/**
 * Makes a job with the same work from its beginning, at once: first attempt, no checkpoint. It is queued, because a
 * caller that waited for the failed job has given up.
 */
function redrivenJob(
  deadLetter: Job,
  { partitions, types }: Pick<PoolConfiguration, 'partitions' | 'types'>,
  nowMs: number,
  by: string | undefined,
): Job {
  return {
    ...takenOver(deadLetter),
    ...listFinishedOf(types.find(({ type }) => type === deadLetter.type)),
    id: redriveIdOf(deadLetter.id),
    mode: 'queued',
    // The key's current partition. The dead letter may be older than the number of partitions.
    partition: partitionOf(deadLetter.fairnessKey, partitions),
    state: 'pending',
    // The failed job had started, and its work may be what ended its process.
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
 * Makes a new job from a failed one. A repeated request returns the same job.
 *
 * @param by - who requests it, for the histories of both jobs
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
  const job = redrivenJob(deadLetter, configuration, context.nowMs(), by);
  const outcome = await storeAnnounced(context, [job], () => store.redrive({ deadLetter, job }));
  if (outcome === 'applied') return { kind: 'redriven', jobId: job.id };
  const since = await read();
  return outcomeOf(since) ?? { kind: 'repeated', jobId: job.id };
}

/** The outcome if no new job is needed; undefined if one is. */
function outcomeOf(deadLetter: Job | undefined): RedriveOutcome | undefined {
  if (deadLetter === undefined) return { kind: 'missing' };
  if (deadLetter.redrivenAs !== undefined) return { kind: 'repeated', jobId: deadLetter.redrivenAs };
  return deadLetter.state === 'failed' ? undefined : { kind: 'notFailed', job: deadLetter };
}
