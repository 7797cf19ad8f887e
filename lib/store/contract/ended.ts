/** Reads ended jobs from the whole table, independent of hints. For operators and repairs. */
import type { EndState, MovingJob } from '../../core/job.ts';

export interface EndedFilter {
  /** Only jobs that ended at this instant or later. */
  readonly sinceMs: number;
  /** Only jobs that ended before this instant. */
  readonly untilMs: number;
  readonly type?: string | undefined;
  readonly state?: EndState | undefined;
}

export interface EndedJobs {
  /** Yields batches of jobs in no order. A batch may be empty. */
  endedJobs(filter: EndedFilter): AsyncIterable<readonly MovingJob[]>;
}
