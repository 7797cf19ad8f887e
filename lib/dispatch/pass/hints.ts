/** What hints are worth: images of jobs that may be late, or of jobs that have moved on. */
import type { JobHead } from '../../store/job-fields.ts';
import { readyLineName } from '../../store/schema.ts';
import type { DispatchContext } from '../context.ts';
import type { CachedLines } from '../partition-cache.ts';
import { announceLate, asSubmitter, readyLineOf } from '../submit.ts';
import type { PassInput } from './scope.ts';

/** A hint of a job that became ready within this is hardly outdated: what this process admitted lately it remembers. */
const HINT_TRUSTED_MS = 30_000;

/** Images of jobs that stand in a partition: one may have been moved since somebody told of it here. */
export const standingIn = (
  partition: number,
  images: ReadonlyMap<string, JobHead>,
): ReadonlyMap<string, JobHead> => new Map([...images].filter(([, job]) => job.partition === partition));

/**
 * Images without those of jobs that do not wait any more: a hint may come late, and a second time. One that came when it
 * was to be expected is taken at its word. What is older, or should have been shown by a read of its line, is read itself,
 * because a claim of it that is lost would have taken another job's place.
 */
export async function confirmed(
  { store }: DispatchContext,
  images: Map<string, JobHead>,
  { hints, justStored }: Pick<PassInput, 'hints' | 'justStored'>,
  { heads }: CachedLines,
  nowMs: number,
): Promise<ReadonlyMap<string, JobHead>> {
  const isDoubtful = (job: JobHead): boolean => {
    if (job.state !== 'pending' || justStored.has(job.id) || images.get(job.id) !== job) return false;
    const known = heads.get(readyLineName(job.partition, readyLineOf(job)));
    const isMissed = known !== undefined && known.readAtMs >= job.readyAtMs;
    return (
      nowMs - job.readyAtMs > HINT_TRUSTED_MS || (isMissed && !known.jobs.some(({ id }) => id === job.id))
    );
  };
  const late = hints.filter(isDoubtful);
  if (late.length === 0) return images;
  // One that cannot be read is no candidate.
  const found = await store.lookUpJobs({ ids: late.map(({ id }) => id), unreadable: () => {} });
  for (const [at, { id }] of late.entries()) {
    const job = found[at];
    if (job === undefined) images.delete(id);
    else images.set(id, job);
  }
  return images;
}

/** Makes lines known whose submitters may have died before they could. What fails is made up for when it is shown again. */
export async function announceSeen(context: DispatchContext, hints: readonly JobHead[]): Promise<void> {
  try {
    await announceLate(asSubmitter(context), hints);
  } catch (error) {
    context.log.warn('lines of late jobs were not announced', { error: String(error) });
  }
}
