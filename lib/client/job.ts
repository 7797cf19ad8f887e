/** Jobs as users of the client see them: what is certain about a job follows from its state. */
import type { ConfigurationError } from '../core/errors.ts';
import type { Job, Json } from '../core/job.ts';
import { placed, placeOf } from '../operate/places.ts';

interface JobFields extends Omit<Job, 'state' | 'result'> {}

/** A job that waits, for its time or for its turn. */
export interface WaitingJobView extends JobFields {
  readonly state: 'scheduled' | 'pending';
}

/** A job that was sent to a fleet, and has not started. */
export interface ClaimedJobView extends JobFields {
  readonly state: 'claimed';
}

export interface RunningJob extends JobFields {
  readonly state: 'running';
  readonly claim: NonNullable<Job['claim']>;
  readonly worker: NonNullable<Job['worker']>;
  /** When the attempt started. */
  readonly startedAtMs: number;
}

export interface SucceededJob<Result = Json | undefined> extends JobFields {
  readonly state: 'succeeded';
  /** The return value of the handler. */
  readonly result: Result;
  readonly finishedAtMs: number;
}

export interface FailedJob extends JobFields {
  readonly state: 'failed';
  /** The error of the last attempt. */
  readonly error: NonNullable<Job['error']>;
  readonly finishedAtMs: number;
}

export interface CancelledJob extends JobFields {
  readonly state: 'cancelled';
}

/** A job that had not started in time. */
export interface ExpiredJob extends JobFields {
  readonly state: 'expired';
  /** The instant until which the job had time to start. */
  readonly expireAtMs: number;
}

/** A job, told apart by its `state`. */
export type ClientJob<Result = Json | undefined> =
  | WaitingJobView
  | ClaimedJobView
  | RunningJob
  | SucceededJob<Result>
  | FailedJob
  | CancelledJob
  | ExpiredJob;

const NO_ERROR = { name: 'JobUnreadable', message: 'no error could be read' } as const;

/**
 * Returns the job with the type of its state. The life cycle sets the fields of each state; only the error of a failed
 * job whose record was damaged may be missing.
 */
export const clientJobOf = (job: Job): ClientJob =>
  (job.state === 'failed' && job.error === undefined
    ? placed({ ...job, error: NO_ERROR }, placeOf(job))
    : job) as ClientJob;

/** The end of a job. */
export type JobOutcome<Result = Json | undefined> =
  | { readonly status: 'succeeded'; readonly result: Result; readonly job: SucceededJob }
  | { readonly status: 'failed'; readonly error: FailedJob['error']; readonly job: FailedJob }
  | { readonly status: 'cancelled'; readonly job: CancelledJob }
  | { readonly status: 'expired'; readonly job: ExpiredJob }
  /**
   * The job succeeded, and the declaration of this client has a schema that refuses its result; or the result was over
   * 64 KB, and its object is lost.
   */
  | { readonly status: 'refused'; readonly error: ConfigurationError; readonly job: SucceededJob };
