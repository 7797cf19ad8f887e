/**
 * Hints of jobs that may not wait any more: a hint may come late, and a second time. One that came when it was to be expected is taken
 * at its word. What is older, or should have been shown by a read of its line, is read itself, because a claim of it that is lost would
 * have taken another job's place.
 *
 * Of too many that is not done. What became ready so long ago stands in the index, so it is as if nobody had told of it: what is
 * remembered of lines is forgotten, and all of them are read.
 */
import type { JobImage } from '../../store/job-fields.ts';
import { readyLineName } from '../../store/schema.ts';
import type { DispatchContext } from '../context.ts';
import type { CachedLines } from '../partition-cache.ts';
import { type Images, newestOf } from '../settle/settled.ts';
import { readyLineOf } from '../submit.ts';
import type { PassInput } from './scope.ts';

/** A hint of a job that became ready within this is hardly outdated: what this process admitted lately it remembers. */
const HINT_TRUSTED_MS = 30_000;
/** Looked up by one pass. Of more, reading the lines costs less. */
const LATE_MAX = 400;

const isLate = (job: JobImage, nowMs: number): boolean => nowMs - job.readyAtMs > HINT_TRUSTED_MS;

/** Hints that would be looked up, the newest of each job. */
function doubtful(
  images: Images,
  { hints, justStored }: Pick<PassInput, 'hints' | 'justStored'>,
  { heads }: CachedLines,
  nowMs: number,
): readonly JobImage[] {
  const isMissed = (job: JobImage): boolean => {
    const known = heads.get(readyLineName(job.partition, readyLineOf(job)));
    return (
      known !== undefined && known.readAtMs >= job.readyAtMs && !known.jobs.some(({ id }) => id === job.id)
    );
  };
  return hints.filter((job) => {
    if (job.state !== 'pending' || !(isLate(job, nowMs) || isMissed(job))) return false;
    return !justStored.has(job.id) && images.get(job.id) === job;
  });
}

/** The same input; where too many of its hints would be looked up, that of a pass that reads all lines instead. */
export function withFewLooks(input: PassInput, lines: CachedLines, nowMs: number): PassInput {
  if (input.readsAnew === true || input.hints.length <= LATE_MAX) return input;
  const { length } = doubtful(newestOf(input.hints), input, lines, nowMs);
  return length <= LATE_MAX ? input : { ...input, readsAnew: true };
}

/** Images without those of jobs that do not wait any more, as far as hints tell of them. */
export async function confirmed(
  { store }: DispatchContext,
  shown: Images,
  input: Pick<PassInput, 'hints' | 'justStored' | 'readsAnew'>,
  lines: CachedLines,
  nowMs: number,
): Promise<Images> {
  const late = doubtful(shown, input, lines, nowMs);
  // planted: late-hints-believed
  if (late.length === 0) return shown;
  const images = new Map(shown);
  // planted: late-hints-dropped
  if (input.readsAnew === true && late.length > LATE_MAX) {
    for (const { id } of late) images.delete(id);
    return images;
  }
  // One that cannot be read is no candidate.
  const found = await store.lookUpJobs({ ids: late.map(({ id }) => id), unreadable: () => {} });
  for (const [at, { id }] of late.entries()) {
    const job = found[at];
    if (job === undefined) images.delete(id);
    else images.set(id, job);
  }
  return images;
}
