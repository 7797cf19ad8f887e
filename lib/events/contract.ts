/** The bus on which the scheduler publishes the outcomes of jobs, at least once and in no order. */
import type { JobError, MovingJob } from '../core/job.ts';
import type { ToldField } from '../store/contract/job-fields.ts';
import type { Rejection } from '../store/contract/records.ts';

/** Detail types on the bus. */
export const DETAIL_TYPE = {
  requested: 'Job Requested',
  succeeded: 'Job Succeeded',
  failed: 'Job Failed',
  cancelled: 'Job Cancelled',
  expired: 'Job Expired',
  rejected: 'Job Rejected',
} as const;

/** Requests about existing jobs, by detail type. */
export const JOB_REQUESTS: ReadonlyMap<string, JobVerb> = new Map([
  ['Job Move Requested', 'move'],
  ['Job Cancel Requested', 'cancel'],
]);
export type JobVerb = 'move' | 'cancel';

/** Requests about schedules, by detail type. */
export const SCHEDULE_REQUESTS: ReadonlyMap<string, ScheduleVerb> = new Map([
  ['Schedule Put Requested', 'put'],
  ['Schedule Delete Requested', 'delete'],
  ['Schedule Pause Requested', 'pause'],
  ['Schedule Resume Requested', 'resume'],
  ['Schedule Run Requested', 'run'],
]);
export type ScheduleVerb = 'put' | 'delete' | 'pause' | 'resume' | 'run';

/** Detail type of the event that a schedule has paused itself. */
export const SCHEDULE_STOPPED = 'Schedule Stopped';

/** The detail of `Schedule Stopped`. Duplicates have the same `id` and `revision`. */
export interface ScheduleStoppedDetail {
  readonly id: string;
  readonly revision: number;
  /** `failures`: too many of its jobs failed in a row. `type`: the type of its jobs is not declared any more. */
  readonly reason: 'failures' | 'type';
  readonly failures: number;
  readonly stoppedAtMs: number;
}

/** The `source` of the scheduler's own events. */
export const EVENT_SOURCE = 'fairlead';

/** The detail of `Job Succeeded`, `Job Failed`, `Job Cancelled` and `Job Expired`. Duplicates have the same `id` and `version`. */
export interface JobOutcomeDetail extends Pick<MovingJob, Exclude<ToldField, 'error'>> {
  /** The stack is left out, because it would show consumers of the bus where the code is. It stays with the job. */
  readonly error?: Pick<JobError, 'name' | 'message'> | undefined;
  /** Fields that were left out because the event would have been too large, such as `result`. They can be read from the job. */
  readonly omitted?: readonly string[] | undefined;
}

export type OutcomeEvent =
  | { readonly kind: 'outcome'; readonly detail: JobOutcomeDetail }
  | { readonly kind: 'rejected'; readonly detail: Rejection }
  | { readonly kind: 'stopped'; readonly detail: ScheduleStoppedDetail };

/** An event that the bus did not accept. */
export interface Unpublished {
  readonly event: OutcomeEvent;
  /** Why the bus will never accept it; undefined if it may accept it later. */
  readonly reason?: string | undefined;
}

export interface EventBus {
  /** Publishes in batches. Returns the events that were not accepted; the others of a batch are not affected. */
  publish(events: readonly OutcomeEvent[]): Promise<readonly Unpublished[]>;
}

/** Detail types of all events that request something. */
export const REQUEST_TYPES: readonly string[] = [
  DETAIL_TYPE.requested,
  ...JOB_REQUESTS.keys(),
  ...SCHEDULE_REQUESTS.keys(),
];
