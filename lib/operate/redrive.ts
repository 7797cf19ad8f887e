/** Runs a failed job again as a new job, which is created only once. */

import { createHash } from 'node:crypto';
import { listFinishedOf, type PoolConfiguration } from '../core/configuration.ts';
import type { Job } from '../core/job.ts';
import { BEGUN_VERSION } from '../core/life-cycle.ts';
import { partitionOf } from '../core/partition.ts';
import { wholeOf } from '../objects/large-values.ts';
import { takenOver } from '../store/contract/job-fields.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import { excessUnitsOf, type Misfit } from '../submit/misfit.ts';
import { recordTagsOf, type SubmitContext, storeAnnounced } from '../submit/submit.ts';

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
  /** The job has more units than one may have now. */
  | { readonly kind: 'misfit'; readonly job: Job; readonly misfit: Misfit }
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
  const type = types.find((each) => each.type === deadLetter.type);
  return {
    ...takenOver(deadLetter),
    ...listFinishedOf(type),
    ...(type?.expireAfterMs === undefined ? {} : { expireAtMs: nowMs + type.expireAfterMs }),
    id: redriveIdOf(deadLetter.id),
    mode: 'queued',
    // The job goes to the key's current partition. The dead letter may be older than the number of partitions.
    partition: partitionOf(deadLetter.fairnessKey, partitions),
    state: 'pending',
    // The new job gets the version of a job that has run before, because the failed job's work may be what ended its
    // process.
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
  // planted: redriven-too-large
  const misfit = excessUnitsOf(configuration, deadLetter);
  if (misfit !== undefined) return { kind: 'misfit', job: deadLetter, misfit };
  const { payload, unreadable } = await wholeOf(context.large, deadLetter, ['payload']);
  if (unreadable !== undefined) return { kind: 'unreadable', job: { ...deadLetter, unreadable } };
  const redriven = redrivenJob(deadLetter, configuration, context.nowMs(), by);
  // An object belongs to one job, and is collected with it.
  const isLarge = payload !== deadLetter.payload;
  const own = isLarge ? await context.large?.put(redriven.id, 'payload', payload) : payload;
  const job = { ...redriven, payload: own ?? payload };
  const outcome = await storeAnnounced(context, [job], async () => {
    await recordTagsOf(context, [job]);
    return store.redrive({ deadLetter, job });
  });
  if (outcome === 'applied') return { kind: 'redriven', jobId: job.id };
  const since = await read();
  return outcomeOf(since) ?? { kind: 'repeated', jobId: job.id };
}

/** Returns the outcome if no new job is needed; undefined if one is. */
function outcomeOf(deadLetter: Job | undefined): RedriveOutcome | undefined {
  if (deadLetter === undefined) return { kind: 'missing' };
  if (deadLetter.redrivenAs !== undefined) return { kind: 'repeated', jobId: deadLetter.redrivenAs };
  return deadLetter.state === 'failed' ? undefined : { kind: 'notFailed', job: deadLetter };
}
