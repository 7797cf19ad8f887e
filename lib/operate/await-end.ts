/** Waits for the ends of jobs by reading them again and again. */
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { isTerminal, type Job, type MovingJob } from '../core/job.ts';
import type { Clock } from '../runtime/contract.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

export interface AwaitContext {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Clock;
}

export interface AwaitOptions {
  /** When to stop waiting, on the monotonic clock. */
  readonly untilMonotonicMs: number;
  readonly signal?: AbortSignal | undefined;
}

export type AwaitOutcome =
  | { readonly kind: 'ended'; readonly job: Job }
  | { readonly kind: 'missing' }
  /** `job` as it was last read; `cause` is the error of the last read, if it failed. */
  | { readonly kind: 'timedOut' | 'aborted'; readonly job: Job; readonly cause?: unknown };

/** Jobs by their ids, as they were last read; undefined if a job was not read yet. */
type AwaitedJobs = ReadonlyMap<string, MovingJob | undefined>;

/** The reason why `awaitEnds` stopped. */
export type AwaitStop =
  | { readonly kind: 'ended' }
  | { readonly kind: 'missing'; readonly jobId: string }
  /** `left` has not ended; `cause` is the error of the last read, if it failed. */
  | { readonly kind: 'timedOut' | 'aborted'; readonly left: AwaitedJobs; readonly cause?: unknown };

const PAUSE_LEAST_MS = 50;
const PAUSE_MOST_MS = 2_000;
/** How many jobs are read at a time. Between two such reads, a signal can stop the wait. */
const READ_JOBS = 1_000;
/** How many jobs' payloads are in memory at a time. */
const WHOLE_JOBS = 100;
/** The most jobs that one wait reads in a second. */
const READS_PER_SECOND = 5_000;

/**
 * Returns how many milliseconds to wait before the next read: a quarter of the time waited so far, at most two seconds.
 * So an end is noticed at most a quarter of the job's duration late, or two seconds. A job of an hour costs some 1,800
 * reads, a job of a second a dozen. Many jobs are read less often: 10,000 of them every two seconds.
 */
const pauseMs = (waitedMs: number, jobs: number): number =>
  Math.min(PAUSE_MOST_MS, Math.max(PAUSE_LEAST_MS, waitedMs / 4, (jobs * 1_000) / READS_PER_SECOND));

interface ManyOptions extends AwaitOptions {
  /** The ids of jobs that may not be stored yet: they are waited for as well. */
  readonly arriving?: ReadonlySet<string> | undefined;
  /** Called with each job that was read. */
  readonly onRead?: ((job: MovingJob) => void) | undefined;
  /** Adds their payloads to jobs that have ended, at most 100 of them. */
  readonly whole: (ended: readonly MovingJob[]) => Promise<readonly Job[]>;
}

/**
 * Reads jobs into `left`, `READ_JOBS` at a time, until the signal aborts. Returns the id of a job that does not exist,
 * and is not about to arrive, if it meets one.
 */
async function readInto(
  left: Map<string, MovingJob | undefined>,
  ids: readonly string[],
  { store }: AwaitContext,
  { signal, arriving, onRead }: ManyOptions,
): Promise<string | undefined> {
  for (let from = 0; from < ids.length && signal?.aborted !== true; from += READ_JOBS) {
    const some = ids.slice(from, from + READ_JOBS);
    const jobs = await store.lookUpJobs({ ids: some });
    for (const [at, id] of some.entries()) {
      const job = jobs[at];
      if (job === undefined && arriving?.has(id) !== true) return id;
      left.set(id, job);
      if (job !== undefined) onRead?.(job);
    }
  }
  return undefined;
}

/** Returns the answer of `work`, or the error of a store that is throttled or unavailable. @throws every other error */
async function tried<Answer>(
  work: () => Promise<Answer>,
): Promise<{ readonly answer: Answer } | { readonly cause: unknown }> {
  try {
    return { answer: await work() };
  } catch (error) {
    if (error instanceof ThrottledError || error instanceof UnavailableError) return { cause: error };
    throw error;
  }
}

/** Returns some of the jobs that have ended. */
const endedOf = (jobs: AwaitedJobs): readonly MovingJob[] =>
  [...jobs.values()]
    .filter((job) => job !== undefined)
    .filter(({ state }) => isTerminal(state))
    .slice(0, WHOLE_JOBS);

/**
 * Reads jobs until all of them have ended, and yields those that have ended, with their payloads. If the store is
 * throttled or unavailable, it keeps trying as long as there is time.
 *
 * @param jobs - the jobs as they are known; those that are undefined are read at once
 */
export async function* awaitEnds(
  context: AwaitContext,
  jobs: AwaitedJobs,
  options: ManyOptions,
): AsyncGenerator<readonly Job[], AwaitStop> {
  const { clock } = context;
  const { untilMonotonicMs, signal, whole } = options;
  const startedMs = clock.monotonicMs();
  const left = new Map(jobs);
  let unread = [...left].flatMap(([id, job]) => (job === undefined ? [id] : []));
  let trouble: { readonly cause?: unknown } = {};
  while (left.size > 0) {
    const ended = endedOf(left);
    const read = ended.length === 0 ? trouble : await tried(() => whole(ended));
    if ('answer' in read) {
      for (const { id } of ended) left.delete(id);
      yield read.answer;
      continue;
    }
    if (signal?.aborted === true) return { kind: 'aborted', left, ...read };
    if (unread.length === 0) {
      const nowMs = clock.monotonicMs();
      const leftMs = untilMonotonicMs - nowMs;
      if (leftMs <= 0) return { kind: 'timedOut', left, ...read };
      await clock.sleep(Math.min(leftMs, pauseMs(nowMs - startedMs, left.size)), signal);
      unread = [...left.keys()];
    }
    const ids = unread;
    unread = [];
    const looked = await tried(() => readInto(left, ids, context, options));
    if ('answer' in looked && looked.answer !== undefined) return { kind: 'missing', jobId: looked.answer };
    trouble = 'cause' in looked ? looked : {};
  }
  return { kind: 'ended' };
}

/**
 * Reads a job until it has ended, as `awaitEnds` does.
 *
 * @param options.onProgress - called with the job after each successful read
 */
export async function awaitEnd(
  context: AwaitContext,
  submitted: Job,
  options: AwaitOptions & { readonly onProgress?: ((job: Job) => void) | undefined },
): Promise<AwaitOutcome> {
  const { onProgress, ...rest } = options;
  const withPayload = (job: MovingJob): Job => ({ ...job, payload: submitted.payload });
  const onRead = (job: MovingJob): void => onProgress?.(withPayload(job));
  const whole: ManyOptions['whole'] = async (jobs) => jobs.map(withPayload);
  const waiting = awaitEnds(context, new Map([[submitted.id, submitted]]), { ...rest, onRead, whole });
  const next = await waiting.next();
  if (next.done !== true) return { kind: 'ended', job: next.value[0] ?? submitted };
  const stop = next.value;
  if (stop.kind === 'missing') return { kind: 'missing' };
  if (stop.kind === 'ended') return { kind: 'ended', job: submitted };
  const { left, ...why } = stop;
  return { ...why, job: withPayload(left.get(submitted.id) ?? submitted) };
}

/**
 * Counts who waits for which job in this process. A job is cancelled with its last waiter only if all its waiters asked
 * for that; any other waiter wants the job to be done.
 */
export class Waiters {
  readonly #byJob = new Map<string, { waiting: number; mayDie: boolean }>();

  /**
   * Adds a waiter. The returned function removes it again, once, and returns whether the job is to be cancelled, if it has not
   * ended.
   */
  enter(jobId: string, dieWithWaiter: boolean): () => boolean {
    const known = this.#byJob.get(jobId) ?? { waiting: 0, mayDie: true };
    this.#byJob.set(jobId, { waiting: known.waiting + 1, mayDie: known.mayDie && dieWithWaiter });
    let isWaiting = true;
    return () => {
      const isLast = isWaiting && this.#leave(jobId);
      isWaiting = false;
      return isLast;
    };
  }

  #leave(jobId: string): boolean {
    const known = this.#byJob.get(jobId);
    if (known === undefined) return false;
    if (known.waiting > 1) {
      known.waiting -= 1;
      return false;
    }
    this.#byJob.delete(jobId);
    return known.mayDie;
  }
}
