/**
 * Repeats store calls while the store is throttled or does not answer: a long-running worker must store what its
 * attempts began or ended.
 */
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { OperateStore } from '../store/contract/operate.ts';

/** The store verbs that an attempt needs. */
export type AttemptStore = Pick<
  WorkerStore,
  'startJob' | 'finishJob' | 'endUnfinished' | 'saveCheckpoint' | 'saveSteps' | 'saveHung'
> &
  Pick<OperateStore, 'rest'>;

/** The most tries of one call. With the delays below they take 16 to 33 s, which is longer than the default lease of a process (15 s). */
const TRIES_MAX = 20;
const DELAY_BASE_MS = 100;
const DELAY_CEILING_MS = 2_000;

/**
 * Wraps a call so that it is repeated while the store is throttled or does not answer, at most 20 times, until the
 * signal aborts.
 */
export type Retrying = <Arguments extends readonly unknown[], Answer>(
  verb: string,
  signal: AbortSignal,
  call: (...given: Arguments) => Promise<Answer>,
) => (...given: Arguments) => Promise<Answer>;

export const createRetrying =
  ({ clock, random, log }: RetryParts): Retrying =>
  (verb, signal, call) =>
  async (...given) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await call(...given);
      } catch (error) {
        const isTransient = error instanceof ThrottledError || error instanceof UnavailableError;
        if (!isTransient || tries === TRIES_MAX || signal.aborted) throw error;
        log.warn('a store request failed and is repeated', { verb, tries, error: error.message });
        const delayMs = Math.min(DELAY_CEILING_MS, DELAY_BASE_MS * 2 ** tries);
        await clock.sleep(delayMs * (0.5 + random() / 2), signal);
      }
    }
  };

/** Returns a store that repeats each verb; all of them may be repeated safely. */
export function retryingStore(
  store: AttemptStore,
  retrying: Retrying,
  { lost, over }: RetryEnds,
): AttemptStore {
  return {
    startJob: retrying('startJob', lost, (request) => store.startJob(request)),
    finishJob: retrying('finishJob', over, (request) => store.finishJob(request)),
    endUnfinished: retrying('endUnfinished', over, (request) => store.endUnfinished(request)),
    rest: retrying('rest', over, (request) => store.rest(request)),
    saveHung: retrying('saveHung', lost, (request) => store.saveHung(request)),
    saveSteps: retrying('saveSteps', lost, (request) => store.saveSteps(request)),
    saveCheckpoint: retrying('saveCheckpoint', lost, (request) => store.saveCheckpoint(request)),
  };
}

export interface RetryParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export interface RetryEnds {
  /** Ends the repetition of verbs that need the worker's lease. */
  readonly lost: AbortSignal;
  /**
   * Ends the repetition of verbs that end an attempt. An outcome counts even after the lease, until the attempt is
   * taken over.
   */
  readonly over: AbortSignal;
}
