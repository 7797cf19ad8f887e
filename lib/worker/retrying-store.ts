/** A store that is asked again: what a long-running worker has begun or ended must be written down, or its life ends. */
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { WorkerStore } from '../store/contract/core.ts';

/** What an attempt asks of the store. */
export type AttemptStore = Pick<
  WorkerStore,
  'startJob' | 'finishJob' | 'loseWorker' | 'saveCheckpoint' | 'saveHung'
>;

/** With the delays below, about half a minute: longer than a lease. */
const TRIES_MAX = 20;
const DELAY_BASE_MS = 100;
const DELAY_CEILING_MS = 2_000;

/** A question that is repeated while the store is throttled or does not answer, until the signal says that it is of no use. */
export type Retrying = <Question extends readonly unknown[], Answer>(
  verb: string,
  signal: AbortSignal,
  ask: (...question: Question) => Promise<Answer>,
) => (...question: Question) => Promise<Answer>;

export const retryingOf =
  ({ clock, random, log }: RetryParts): Retrying =>
  (verb, signal, ask) =>
  async (...question) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await ask(...question);
      } catch (error) {
        const isTransient = error instanceof ThrottledError || error instanceof UnavailableError;
        if (!isTransient || tries === TRIES_MAX || signal.aborted) throw error;
        log.warn('the store is asked again', { verb, tries, error: error.message });
        const delayMs = Math.min(DELAY_CEILING_MS, DELAY_BASE_MS * 2 ** tries);
        await clock.sleep(delayMs * (0.5 + random() / 2), signal);
      }
    }
  };

/** The store with each question of an attempt repeated: every verb bears that. */
export function retryingStore(
  store: AttemptStore,
  retrying: Retrying,
  { lost, over }: RetryEnds,
): AttemptStore {
  return {
    startJob: retrying('startJob', lost, (request) => store.startJob(request)),
    finishJob: retrying('finishJob', over, (request) => store.finishJob(request)),
    loseWorker: retrying('loseWorker', over, (request) => store.loseWorker(request)),
    saveHung: retrying('saveHung', lost, (request) => store.saveHung(request)),
    saveCheckpoint: retrying('saveCheckpoint', lost, (request) => store.saveCheckpoint(request)),
  };
}

export interface RetryParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export interface RetryEnds {
  /** Ends the repetition of what only a worker with a lease may do. */
  readonly lost: AbortSignal;
  /** Ends the repetition of what ends an attempt: an outcome counts as long as nobody has taken the attempt away. */
  readonly over: AbortSignal;
}
