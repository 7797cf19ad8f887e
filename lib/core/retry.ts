/**
 * Decides whether and when a job is retried.
 *
 * Failures and lost workers are counted apart: a handler that fails uses up an attempt, a worker that vanishes uses up
 * one of `maxWorkersLost`. A job is not punished for the machine it was given.
 *
 * Delays, with d = `delayMs`, m = `maxDelayMs`, n = number of the attempt that failed, u drawn evenly from [0, 1):
 *
 *     exponential   min(m, d * 2^(n-1)), times u with full jitter
 *     linear        min(m, d * n)
 *     fixed         min(m, d)
 *
 * Source of full jitter: M. Brooker, "Exponential Backoff And Jitter". Among the usual kinds it spreads a crowd of retries
 * best for the same total work.
 */
import type { ErrorRule, JobTypeConfiguration, RetryPolicy } from './configuration.ts';
import type { JobError, MovingJob } from './job.ts';
import type { Unfinished, Verdict } from './life-cycle.ts';

/** A verdict on an attempt that did not succeed. */
export type FailureVerdict = Exclude<Verdict, { readonly kind: 'succeeded' | 'cancelled' }>;

/** The error name of an attempt whose worker vanished. */
export const WORKER_LOST = 'WorkerLost';

/**
 * Returns the delay before the attempt after number `attempt`, in milliseconds.
 * @param random Evenly drawn from [0, 1); only exponential delays with full jitter use it.
 */
export function backoffMs(
  policy: Pick<RetryPolicy, 'backoff' | 'delayMs' | 'maxDelayMs' | 'jitter'>,
  attempt: number,
  random: number,
): number {
  switch (policy.backoff) {
    case 'fixed':
      return Math.min(policy.maxDelayMs, policy.delayMs);
    case 'linear':
      return Math.min(policy.maxDelayMs, policy.delayMs * attempt);
    case 'exponential': {
      // 2^1023 is the largest power of two in a double; the next is Infinity and would turn a delay of 0 into NaN.
      const ceilingMs = Math.min(policy.maxDelayMs, policy.delayMs * 2 ** Math.min(attempt - 1, 1023));
      return policy.jitter === 'full' ? Math.floor(random * ceilingMs) : ceilingMs;
    }
  }
}

/** Returns the first rule that matches the error's name. */
export function ruleFor(policy: RetryPolicy, errorName: string): ErrorRule | undefined {
  return policy.errors.find((rule) => rule.name === errorName || rule.name === '*');
}

/** What a handler decided by the error that it threw: whether its job is retried, or when. */
export type HandlerDecision = { readonly retry: false } | { readonly retryAtMs: number };

/**
 * Returns the verdict on an attempt whose handler failed. What the handler decided comes before the rules and the
 * backoff; `maxAttempts` ends the retries all the same. A rule's `delayMs` replaces the policy's and is never cut by
 * the policy's `maxDelayMs`.
 */
export function afterFailure(
  job: { readonly attempt: number },
  error: JobError,
  policy: RetryPolicy,
  random: number,
  nowMs: number,
  decided?: HandlerDecision | undefined,
): FailureVerdict {
  const rule = ruleFor(policy, error.name);
  const maxAttempts = rule?.maxAttempts ?? policy.maxAttempts;
  const mayRetry = decided === undefined ? rule?.retry !== false : 'retryAtMs' in decided;
  if (!mayRetry || job.attempt >= maxAttempts) return { kind: 'failed', error };
  if (decided !== undefined && 'retryAtMs' in decided)
    return { kind: 'retry', error, runAtMs: Math.max(nowMs, decided.retryAtMs) };
  const delayMs = rule?.delayMs ?? policy.delayMs;
  const applied = { ...policy, delayMs, maxDelayMs: Math.max(policy.maxDelayMs, delayMs) };
  return { kind: 'retry', error, runAtMs: nowMs + backoffMs(applied, job.attempt, random) };
}

/**
 * The error name of a job that kept losing its workers even while it ran alone in its process. It probably ends the
 * process itself.
 */
export const QUARANTINED = 'JobQuarantined';

const quarantined = (message: string): JobError => ({
  name: QUARANTINED,
  message: `${message} After the first time it ran with no other job in its process, so it probably ends the process itself (memory, a native library, process.exit): see the worker's log, and redrive it once that is mended.`,
});

/** The error name of an attempt whose worker shut down. */
export const WORKER_STOPPED = 'WorkerStopped';

/** Returns the error of an attempt whose handler did not stop at its timeout. */
export const hungError = (ranMs: number): JobError => ({
  name: 'JobTimeout',
  message: `the attempt took longer than ${Math.round(ranMs)} ms, and its handler did not stop then: its process was ended; make it heed its signal`,
});

/**
 * Returns the verdict on an attempt that its worker gave back on shutdown: it is retried and nothing is counted. It
 * resumes from the last checkpoint unless `isFromStart` is set.
 */
export const afterRelease = (message: string, runAtMs: number, isFromStart: boolean): FailureVerdict => ({
  kind: 'retry',
  error: { name: WORKER_STOPPED, message },
  runAtMs,
  ...(isFromStart ? { isFromStart } : {}),
});

/**
 * Returns the verdict on an attempt whose worker is gone, and `as`, the outcome that the history records. The attempt
 * has failed if its worker had recorded on the job that the handler did not stop at its timeout. Otherwise it is lost.
 */
export function afterWorkerGone(
  job: Pick<MovingJob, 'attempt' | 'workersLost' | 'hung'>,
  type: Pick<JobTypeConfiguration, 'onWorkerLost' | 'retry'> | undefined,
  random: number,
  nowMs: number,
): { readonly as: Unfinished; readonly verdict: FailureVerdict } {
  const { hung } = job;
  if (hung === undefined) return { as: 'lost', verdict: afterWorkerLost(job, type, nowMs) };
  const verdict: FailureVerdict =
    type === undefined ? { kind: 'failed', error: hung } : afterFailure(job, hung, type.retry, random, nowMs);
  return { as: 'failed', verdict };
}

/**
 * Returns the verdict after a lost worker. `fail` fails the job; `retry`, for short jobs, starts anew; `resume`, for
 * long ones, goes on from the last checkpoint. With the last two the job keeps its age, because it is not punished for
 * its worker, but it fails once it has lost more than `maxWorkersLost` workers. A type that is not declared any more
 * has no policy, so its job fails. Source: workload-distribution, "Job Recovery" and "Heartbeat Monitoring Components".
 */
export function afterWorkerLost(
  job: { readonly workersLost: number },
  type: Pick<JobTypeConfiguration, 'onWorkerLost' | 'retry'> | undefined,
  nowMs: number,
): FailureVerdict {
  if (type === undefined || type.onWorkerLost === 'fail') {
    return { kind: 'failed', error: { name: WORKER_LOST, message: 'The worker that ran the job is gone.' } };
  }
  const lost = job.workersLost + 1;
  const { maxWorkersLost } = type.retry;
  const message = `The job lost its worker ${lost} ${lost === 1 ? 'time' : 'times'}; ${maxWorkersLost} are allowed.`;
  const error = { name: WORKER_LOST, message };
  if (lost > maxWorkersLost) return { kind: 'failed', error: lost === 1 ? error : quarantined(message) };
  const again = { kind: 'retry', error, runAtMs: nowMs } as const;
  return type.onWorkerLost === 'resume' ? again : { ...again, isFromStart: true };
}
