/** Jobs that have ended, whatever became of the hints of their ends. For people and repairs: it reads the whole table. */
import type { MovingJob } from '../../core/job.ts';

export interface EndedFilter {
  /** Ended at this instant, or after it. */
  readonly sinceMs: number;
  /** And before this one. */
  readonly untilMs: number;
  readonly type?: string | undefined;
  readonly state?: 'succeeded' | 'failed' | 'cancelled' | undefined;
}

export interface EndedJobs {
  /** In no order, a page at a time; pages may be empty. */
  endedJobs(filter: EndedFilter): AsyncIterable<readonly MovingJob[]>;
}
