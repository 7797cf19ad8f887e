/** What ends an attempt from outside its handler. */

/** Why an attempt ended that its handler did not end itself. Kept with the job as the name of its error. */
export type AttemptReason =
  /** The attempt took longer than its type allows. */
  | 'JobTimeout'
  /** A client or an operator has cancelled the job. */
  | 'JobCancelled'
  /** Another attempt holds the job: nothing that this one does counts. */
  | 'JobSuperseded'
  /** The job's record cannot be read in full: it is not run, and not tried again. */
  | 'JobUnreadable'
  /** The worker has no handler for the job's type. Another attempt would find none either. */
  | 'MissingHandler'
  /** The handler's result is not JSON, or too large. */
  | 'ResultRefused'
  /** A checkpoint is not JSON, or too large. */
  | 'CheckpointRefused'
  /** The attempt was started too late: its handler has not run, and the job is as it was before. */
  | 'NotBegun'
  /** The handler goes on after it was told to stop, for the reason in `cause`: its process must end before the job may run again. */
  | 'HandlerHung';

/** Ends an attempt. As the reason of a handler's signal it says why the handler is to stop. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError';
  readonly reason: AttemptReason;

  constructor(reason: AttemptReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Whether this is an attempt's end for one of these reasons. */
export const isAttemptError = (error: unknown, ...reasons: readonly AttemptReason[]): error is AttemptError =>
  error instanceof AttemptError && reasons.includes(error.reason);

/** The worker ends, or could not begin: the reason of the signals of its attempts. */
export class WorkerStoppedError extends Error {
  override readonly name = 'WorkerStoppedError';
  /** The worker did not end in order and counts as lost. */
  readonly isLoss: boolean;

  constructor(message: string, options: ErrorOptions & { readonly isLoss?: boolean } = {}) {
    super(message, options);
    this.isLoss = options.isLoss === true;
  }
}
