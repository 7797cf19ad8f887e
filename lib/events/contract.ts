/** The bus, as the scheduler uses it: it tells what became of jobs. At least once, in no order. */
import type { Job, JobError, Json } from '../core/job.ts';
import type { Rejection } from '../store/contract.ts';

/** Detail types on the bus. */
export const DETAIL_TYPE = {
  requested: 'Job Requested',
  succeeded: 'Job Succeeded',
  failed: 'Job Failed',
  cancelled: 'Job Cancelled',
  rejected: 'Job Rejected',
} as const;

/** The `source` of the scheduler's own events. */
export const EVENT_SOURCE = 'fairlead';

/** What `Job Succeeded`, `Job Failed` and `Job Cancelled` say. `id` with `version` tells duplicates apart. */
export interface JobOutcomeDetail {
  readonly id: string;
  readonly version: number;
  readonly type: string;
  readonly state: Job['state'];
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly attempt: number;
  readonly submittedAtMs: number;
  readonly startedAtMs?: number | undefined;
  readonly finishedAtMs?: number | undefined;
  readonly result?: Json | undefined;
  readonly error?: JobError | undefined;
  /** What was left out because the event would have been too large, such as `result`: read it from the job. */
  readonly omitted?: readonly string[] | undefined;
}

export type OutcomeEvent =
  | { readonly kind: 'outcome'; readonly detail: JobOutcomeDetail }
  | { readonly kind: 'rejected'; readonly detail: Rejection };

export interface EventBus {
  /** Publishes in batches. Answers the events that were not accepted, in their order. */
  publish(events: readonly OutcomeEvent[]): Promise<readonly OutcomeEvent[]>;
}
