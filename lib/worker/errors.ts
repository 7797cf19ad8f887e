/** Errors that end an attempt from outside its handler. */

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
  /** The handler's result is not JSON, or too large. */
  | 'ResultRefused'
  /** A checkpoint is not JSON, or too large. */
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
