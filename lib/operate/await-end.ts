/** Waits for a job's end by reading it again and again. */
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { isTerminal, type Job } from '../core/job.ts';
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
  /** Called with the job after each successful read. */
  readonly onProgress?: ((job: Job) => void) | undefined;
}

export type AwaitOutcome =
  | { readonly kind: 'ended'; readonly job: Job }
  | { readonly kind: 'missing' }
  /** `job` as it was last read; `cause` is the error of the last read, if it failed. */
  | { readonly kind: 'timedOut' | 'aborted'; readonly job: Job; readonly cause?: unknown };

const PAUSE_LEAST_MS = 50;
const PAUSE_MOST_MS = 2_000;

/**
 * How long to wait before the next read: a quarter of the time waited so far, at most two seconds. So an end is noticed
 * at most a quarter of the job's duration late, or two seconds. A job of an hour costs some 1,800 reads, a job of a
 * second a dozen.
 */
const pauseMs = (waitedMs: number): number => Math.min(PAUSE_MOST_MS, Math.max(PAUSE_LEAST_MS, waitedMs / 4));

/** Reads a job until it has ended. If the store is throttled or unavailable, it keeps trying as long as there is time. */
export async function awaitEnd(
  context: AwaitContext,
  submitted: Job,
  options: AwaitOptions,
): Promise<AwaitOutcome> {
  const { store, clock } = context;
  const { untilMonotonicMs, signal, onProgress } = options;
  const startedMs = clock.monotonicMs();
  let job = submitted;
  let cause: unknown;
  for (;;) {
    if (isTerminal(job.state)) return { kind: 'ended', job };
    const lastError = cause === undefined ? {} : { cause };
    if (signal?.aborted === true) return { kind: 'aborted', job, ...lastError };
    const nowMs = clock.monotonicMs();
    const leftMs = untilMonotonicMs - nowMs;
    if (leftMs <= 0) return { kind: 'timedOut', job, ...lastError };
    await clock.sleep(Math.min(leftMs, pauseMs(nowMs - startedMs)), signal);
    try {
      const [seen] = await store.lookUpJobs({ ids: [submitted.id] });
      if (seen === undefined) return { kind: 'missing' };
      job = { ...seen, payload: submitted.payload };
      cause = undefined;
    } catch (error) {
      if (!(error instanceof ThrottledError) && !(error instanceof UnavailableError)) throw error;
      cause = error;
      continue;
    }
    onProgress?.(job);
  }
}

/**
 * Counts who waits for which job in this process. A job is cancelled with its last waiter only if all its waiters asked
 * for that; any other waiter wants the job to be done.
 */
export class Waiters {
  readonly #byJob = new Map<string, { waiting: number; mayDie: boolean }>();

  enter(jobId: string, dieWithWaiter: boolean): void {
    const known = this.#byJob.get(jobId) ?? { waiting: 0, mayDie: true };
    this.#byJob.set(jobId, { waiting: known.waiting + 1, mayDie: known.mayDie && dieWithWaiter });
  }

  /** Removes one waiter. Returns whether the job is to be cancelled, if it has not ended. */
  leave(jobId: string): boolean {
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
