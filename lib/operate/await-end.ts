/** Somebody waits for a job's end. */
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { isTerminal, type Job } from '../core/job.ts';
import type { Clock } from '../runtime/contract.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

export interface AwaitContext {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Clock;
}

export interface AwaitOptions {
  /** An instant of the monotonic clock. */
  readonly untilMonotonicMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Hears of the job each time that it was looked up. */
  readonly onProgress?: ((job: Job) => void) | undefined;
}

export type AwaitOutcome =
  | { readonly kind: 'ended'; readonly job: Job }
  | { readonly kind: 'missing' }
  /** `job` as it was last read; `cause`: why the last look failed, if it did. */
  | { readonly kind: 'timedOut' | 'aborted'; readonly job: Job; readonly cause?: unknown };

const PAUSE_LEAST_MS = 50;
const PAUSE_MOST_MS = 2_000;

/**
 * How long to wait for the next look: a quarter of what was waited so far, so an end is noticed at most a quarter late,
 * or two seconds, and a job of an hour costs some 1,800 reads, a job of a second a dozen.
 */
const pauseMs = (waitedMs: number): number => Math.min(PAUSE_MOST_MS, Math.max(PAUSE_LEAST_MS, waitedMs / 4));

/** Looks at a job until it has ended. Trouble with the store is waited out, as long as there is time. */
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
    const trouble = cause === undefined ? {} : { cause };
    if (signal?.aborted === true) return { kind: 'aborted', job, ...trouble };
    const nowMs = clock.monotonicMs();
    const leftMs = untilMonotonicMs - nowMs;
    if (leftMs <= 0) return { kind: 'timedOut', job, ...trouble };
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
 * Who waits for which job, in this process. A job dies with its last waiter only if every one of them said so:
 * whoever else waited wanted it to be done.
 */
export class Waiters {
  readonly #byJob = new Map<string, { waiting: number; mayDie: boolean }>();

  enter(jobId: string, dieWithWaiter: boolean): void {
    const known = this.#byJob.get(jobId) ?? { waiting: 0, mayDie: true };
    this.#byJob.set(jobId, { waiting: known.waiting + 1, mayDie: known.mayDie && dieWithWaiter });
  }

  /** One of them waits no more. Answers whether the job is to die, if it has not ended. */
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
