/** Errors that end an attempt from outside its handler, and errors by which a handler decides about its job. */

import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError } from '../core/errors.ts';

/**
 * The reason of an attempt's end that did not come from its handler. Stored with the job as the name of its error.
 */
export type AttemptReason =
  /** The attempt took longer than its type allows. */
  | 'JobTimeout'
  /** A client or an operator has cancelled the job. */
  | 'JobCancelled'
  /** Another attempt holds the job, or the job has ended: nothing that this attempt does counts. */
  | 'JobSuperseded'
  /** The job's record cannot be read in full: it is not run, and not retried. */
  | 'JobUnreadable'
  /** The worker has no handler for the job's type. A retry would not find one either. */
  | 'MissingHandler'
  /** The payload does not fit the schema of its type: the handler has not run, and a retry would not help. */
  | 'PayloadRefused'
  /** The handler's result does not fit the schema of its type, is not JSON, or is too large. */
  | 'ResultRefused'
  /** A checkpoint or the value of a step is not JSON, or too large. */
  | 'CheckpointRefused'
  /** The attempt started too late: its handler has not run, and the job is as it was before. */
  | 'NotBegun'
  /**
   * The handler kept running after its signal was aborted for the reason in `cause`. Its process must end before the
   * job may run again.
   */
  | 'HandlerHung';

/** Ends an attempt. As the reason of a handler's signal it says why the handler has to stop. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError';
  readonly reason: AttemptReason;

  constructor(reason: AttemptReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Whether `error` is an `AttemptError` with one of these reasons. */
export const isAttemptError = (error: unknown, ...reasons: readonly AttemptReason[]): error is AttemptError =>
  error instanceof AttemptError && reasons.includes(error.reason);

/** The worker ends, or could not be registered. Its attempts' signals carry it as their reason. */
export class WorkerStoppedError extends Error {
  override readonly name = 'WorkerStoppedError';
  /** Whether the worker counts as lost, because it did not end in order. */
  readonly isLoss: boolean;

  constructor(message: string, options: ErrorOptions & { readonly isLoss?: boolean } = {}) {
    super(message, options);
    this.isLoss = options.isLoss === true;
  }
}

/**
 * A handler throws it if a retry would not help: the job fails at once and becomes a dead letter, whatever the rules of
 * its type say.
 *
 * @example throw new PermanentError('the card was declined', { cause: error });
 */
export class PermanentError extends Error {
  override readonly name = 'PermanentError';
}

/** The longest time that a `RetryAfterError` may ask for. */
export const RETRY_AFTER_MAX_MS = 366 * 24 * 3_600_000;

const RETRY_AFTER_WAY_OUT = "Write milliseconds, a text such as '30s', or a Date, at most 366 days ahead.";

/**
 * A handler throws it to be retried at a time of its choice: the attempt counts as failed, and `maxAttempts` of the
 * type ends the retries all the same. The type's rules and backoff do not apply.
 *
 * @example throw new RetryAfterError(response.headers.get('retry-after') + 's', { cause: error });
 */
export class RetryAfterError extends Error {
  override readonly name = 'RetryAfterError';
  /** How long the job waits, in milliseconds; undefined if an instant was given. */
  readonly retryAfterMs: number | undefined;
  /** When the job is retried, in epoch milliseconds; undefined if a duration was given. An instant in the past means now. */
  readonly retryAtMs: number | undefined;

  /** @throws ConfigurationError - `after` is no duration of at most 366 days, and no valid Date */
  constructor(after: DurationInput | Date, options: ErrorOptions & { readonly message?: string } = {}) {
    const isDate = after instanceof Date;
    const ms = isDate ? after.getTime() : durationMs('after', after);
    if (Number.isNaN(ms) || (!isDate && ms > RETRY_AFTER_MAX_MS))
      throw new ConfigurationError('after', after, 'must be a duration or a Date', RETRY_AFTER_WAY_OUT);
    super(
      options.message ?? `to be retried ${isDate ? `at ${after.toISOString()}` : `after ${ms} ms`}`,
      options,
    );
    this.retryAfterMs = isDate ? undefined : ms;
    this.retryAtMs = isDate ? ms : undefined;
  }
}
