/** A store that is asked again: what a long-running worker has begun or ended must be written down, or its life ends. */
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { JobStore } from '../store/contract.ts';
import { StoreThrottled, StoreUnavailable } from '../store/errors.ts';

/** What an attempt asks of the store. */
export type AttemptStore = Pick<JobStore, 'startJob' | 'finishJob' | 'loseWorker' | 'saveCheckpoint'>;

/** With the delays below, about half a minute: longer than a lease. */
const TRIES_MAX = 20;
const DELAY_BASE_MS = 100;
const DELAY_CEILING_MS = 2_000;

/** A question that is repeated while the store is throttled or does not answer, until the signal says that it is of no use. */
export type Patient = <Question extends readonly unknown[], Answer>(
  verb: string,
  signal: AbortSignal,
  ask: (...question: Question) => Promise<Answer>,
) => (...question: Question) => Promise<Answer>;

export const patienceOf =
  ({ clock, random, log }: PatienceParts): Patient =>
  (verb, signal, ask) =>
  async (...question) => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await ask(...question);
      } catch (error) {
        const isTransient = error instanceof StoreThrottled || error instanceof StoreUnavailable;
        if (!isTransient || tries === TRIES_MAX || signal.aborted) throw error;
        log.warn('the store is asked again', { verb, tries, error: error.message });
        const delayMs = Math.min(DELAY_CEILING_MS, DELAY_BASE_MS * 2 ** tries);
        await clock.sleep(delayMs * (0.5 + random() / 2), signal);
      }
    }
  };

/** The store with each question of an attempt repeated: every verb bears that. */
export function patiently(store: AttemptStore, patient: Patient, { lost, over }: PatienceEnds): AttemptStore {
  return {
    startJob: patient('startJob', lost, (request) => store.startJob(request)),
    finishJob: patient('finishJob', over, (request) => store.finishJob(request)),
    loseWorker: patient('loseWorker', over, (job, verdict, nowMs, expiresAtMs) =>
      store.loseWorker(job, verdict, nowMs, expiresAtMs),
    ),
    saveCheckpoint: patient('saveCheckpoint', lost, (job, worker, checkpoint) =>
      store.saveCheckpoint(job, worker, checkpoint),
    ),
  };
}

export interface PatienceParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export interface PatienceEnds {
  /** Ends the repetition of what only a worker with a lease may do. */
  readonly lost: AbortSignal;
  /** Ends the repetition of what ends an attempt: an outcome counts as long as nobody has taken the attempt away. */
  readonly over: AbortSignal;
}
