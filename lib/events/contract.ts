/** The bus, as the scheduler uses it: it tells what became of jobs. At least once, in no order. */
import type { JobError, MovingJob } from '../core/job.ts';
import type { ToldField } from '../store/contract/job-fields.ts';
import type { Rejection } from '../store/contract/records.ts';

/** Detail types on the bus. */
export const DETAIL_TYPE = {
  requested: 'Job Requested',
  succeeded: 'Job Succeeded',
  failed: 'Job Failed',
  cancelled: 'Job Cancelled',
  rejected: 'Job Rejected',
} as const;

/** What jobs that are there are asked, by detail type. */
export const JOB_REQUESTS: ReadonlyMap<string, JobVerb> = new Map([
  ['Job Move Requested', 'move'],
  ['Job Cancel Requested', 'cancel'],
]);
export type JobVerb = 'move' | 'cancel';

/** What schedules are asked, by detail type. */
export const SCHEDULE_REQUESTS: ReadonlyMap<string, ScheduleVerb> = new Map([
  ['Schedule Put Requested', 'put'],
  ['Schedule Delete Requested', 'delete'],
  ['Schedule Pause Requested', 'pause'],
  ['Schedule Resume Requested', 'resume'],
  ['Schedule Run Requested', 'run'],
]);
export type ScheduleVerb = 'put' | 'delete' | 'pause' | 'resume' | 'run';

/** A schedule has paused itself. */
export const SCHEDULE_STOPPED = 'Schedule Stopped';

/** What `Schedule Stopped` says. `id` with `revision` tells duplicates apart. */
export interface ScheduleStoppedDetail {
  readonly id: string;
  readonly revision: number;
  /** `failures`: too many of its jobs in a row have failed. `type`: the type of its jobs is not declared any more. */
  readonly reason: 'failures' | 'type';
  readonly failures: number;
  readonly stoppedAtMs: number;
}

/** The `source` of the scheduler's own events. */
export const EVENT_SOURCE = 'fairlead';

/** What `Job Succeeded`, `Job Failed` and `Job Cancelled` say. `id` with `version` tells duplicates apart. */
export interface JobOutcomeDetail extends Pick<MovingJob, Exclude<ToldField, 'error'>> {
  /** Its stack stays with the job: whoever hears events need not see where its code stands. */
  readonly error?: Pick<JobError, 'name' | 'message'> | undefined;
  /** What was left out because the event would have been too large, such as `result`: read it from the job. */
  readonly omitted?: readonly string[] | undefined;
}

export type OutcomeEvent =
  | { readonly kind: 'outcome'; readonly detail: JobOutcomeDetail }
  | { readonly kind: 'rejected'; readonly detail: Rejection }
  | { readonly kind: 'stopped'; readonly detail: ScheduleStoppedDetail };

/** An event that the bus did not accept. */
export interface Unpublished {
  readonly event: OutcomeEvent;
  /** Why the bus will never take it; undefined: it may take it later. */
  readonly reason?: string | undefined;
}

export interface EventBus {
  /** Publishes in batches. Answers the events that were not accepted, in their order. */
  publish(events: readonly OutcomeEvent[]): Promise<readonly Unpublished[]>;
}

/** Of all events that ask for something. */
export const REQUEST_TYPES: readonly string[] = [
  DETAIL_TYPE.requested,
  ...JOB_REQUESTS.keys(),
  ...SCHEDULE_REQUESTS.keys(),
];
