/**
 * Deduplication: among the jobs of a type, fairness key, resource and keys with one dedupe key, at most one waits that was never claimed. A
 * request that finds it changes it, or leaves it as it is.
 */
import type { DurationInput } from './duration.ts';
import type { Job, JobUnits } from './job.ts';
import { isWaiting, retime } from './life-cycle.ts';

/** How a producer says that a request is deduplicated. */
export interface DedupeInput {
  /** At most 512 bytes. */
  readonly key: string;
  /**
   * `first`: the waiting job stays as it is. `last`: it gets the payload, the units, the priority, the mode, the tags and the label of this request,
   * and expires as late as this one would.
   * @default 'first'
   */
  readonly keep?: 'first' | 'last' | undefined;
  /**
   * The waiting job starts so long after the last request: milliseconds, a text such as `'5s'`, or a `Duration`; up to 30 days.
   * @default - a request does not move it
   */
  readonly quiet?: DurationInput | undefined;
  /**
   * But at most so long after the request that made it, which decides.
   * @default 1 day, with `quiet`
   */
  readonly atMost?: DurationInput | undefined;
  /**
   * If no job of the key waits, and the one that was made last was claimed or runs. `another`: another job waits, and may run beside
   * it. `oneWaits`: it waits for the end of that one; its type needs a `conflictGroup`, and the key is its resource unless it names one. `drop`: none is made.
   * @default 'another'
   */
  readonly whileRunning?: 'another' | 'oneWaits' | 'drop' | undefined;
}

/** The bounds of `quiet` and `atMost`. */
export const DEDUPE_MS = { least: 1, most: 30 * 86_400_000 } as const;
/** `atMost` of a request with `quiet` that names none. */
export const AT_MOST_MS = 86_400_000;

/** The fields of a job that tell its dedupe key from others. */
export type DedupedJob = Pick<Job, 'type' | 'fairnessKey' | 'resourceId' | 'keys' | 'dedupe'>;

/**
 * All that requests must have in common, so that one job stands for them: jobs of another tenant, resource or limit's key are other work, whatever
 * the key says.
 */
export const dedupeNameOf = ({
  type,
  fairnessKey,
  resourceId = '',
  keys = {},
  dedupe,
}: DedupedJob): readonly string[] => [
  type,
  // planted: tenants-meet
  fairnessKey,
  resourceId,
  JSON.stringify(Object.entries(keys).sort(([one], [other]) => (one < other ? -1 : 1))),
  dedupe?.key ?? '',
];

/** How many requests a job remembers that were merged into it, so that a repetition of one of them changes nothing. */
export const MERGED_MAX = 16;

/** Whether a worker has had the job, so that its payload may not change any more. */
export const isBegun = (job: Job): boolean =>
  !isWaiting(job.state) ||
  job.startedAtMs !== undefined ||
  job.finishedAtMs !== undefined ||
  job.parkedState !== undefined ||
  job.attempt > 1 ||
  job.workersLost > 0 ||
  // A claim that was given back has removed the fields of the attempt before it.
  job.history?.entries.some(({ kind }) => kind === 'attempt') === true;

const hasSameUnits = (one: JobUnits = {}, other: JobUnits = {}): boolean =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(([limit, count]) => other[limit] === count);

type Request = Pick<Job, 'id' | 'contentHash'>;

/** Of the hash of a request's content: enough to tell another content by, in a list that makes the job's item longer. */
const HASH_CHARS = 8;
const requestText = ({ id, contentHash }: Request): string => `${id}:${contentHash.slice(0, HASH_CHARS)}`;

/** The requests that a job stands for, with one more. */
export const withMerged = (merged: readonly string[] = [], request: Request): readonly string[] =>
  [...merged, requestText(request)].slice(-MERGED_MAX);

/**
 * Compares a request with those that were merged into the job. `repeated`: it is one of them; `conflict`: one has its id and other
 * content; undefined: none has its id.
 */
export function mergedBefore(
  { merged = [] }: Pick<Job, 'merged'>,
  request: Request,
): 'repeated' | 'conflict' | undefined {
  const known = merged.findLast((text) => text.startsWith(`${request.id}:`));
  if (known === undefined) return undefined;
  return known === requestText(request) ? 'repeated' : 'conflict';
}

function movedTo(
  waiting: Job,
  { runAtMs, priority, mode }: Pick<Job, 'runAtMs' | 'priority' | 'mode'>,
  nowMs: number,
): Job {
  if (runAtMs === waiting.runAtMs) {
    if (priority === waiting.priority && mode === waiting.mode) return waiting;
    // A pass promotes it, to the line and the rank that it has then. It keeps its age.
    return { ...waiting, state: 'scheduled', priority, mode, version: waiting.version + 1 };
  }
  const transition = retime(waiting, runAtMs, nowMs, undefined, priority);
  return transition.kind === 'moved' ? { ...transition.job, mode } : waiting;
}

/** When a job that stands for the newest request expires: as long after its time, or after now, as that request says. */
function expiryOfNewest(newest: Job, runAtMs: number, nowMs: number): Pick<Job, 'expireAtMs'> {
  const { expireAtMs, readyAtMs } = newest;
  return { expireAtMs: expireAtMs && Math.max(runAtMs, nowMs) + expireAtMs - readyAtMs };
}

/**
 * The waiting job after another request of its key. Its version rises only if its time, its priority, its mode or its units change: a start
 * that was planned then fails, and a start that goes on takes the payload that the item has at that moment.
 *
 * @param newest - the job that the request would have made
 */
export function mergedInto(waiting: Job, newest: Job, nowMs: number): Job {
  const { quietMs, keep } = newest.dedupe ?? { keep: 'first' };
  const latestMs = waiting.submittedAtMs + (waiting.dedupe?.atMostMs ?? Infinity);
  const quietUntilMs = quietMs === undefined ? waiting.runAtMs : Math.min(nowMs + quietMs, latestMs);
  // Once it may not be moved further, the job keeps the time that it has, and its place in its line.
  const runAtMs = quietUntilMs <= nowMs ? waiting.runAtMs : quietUntilMs;
  const { payload, label, tags, units, priority, mode } = keep === 'last' ? newest : waiting;
  const moved = movedTo(waiting, { runAtMs, priority, mode }, nowMs);
  const isCountedAnew = moved.version === waiting.version && !hasSameUnits(units, waiting.units);
  return {
    ...moved,
    ...(isCountedAnew ? { version: waiting.version + 1 } : {}),
    ...(keep === 'last' ? expiryOfNewest(newest, runAtMs, nowMs) : {}),
    // Many requests would fill the history.
    history: waiting.history,
    payload,
    label,
    tags,
    units,
    merged: withMerged(waiting.merged, newest),
  };
}
