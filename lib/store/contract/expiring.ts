/**
 * Expiring: jobs that have not started in time end. Without it they do not start either, but wait for ever.
 */
import type { MovingJob } from '../../core/job.ts';

/** How many lines the index of expiries has. One takes some 500 jobs a second, as each is written and removed. */
export const EXPIRY_LINES = 4;

export interface ExpiringStore {
  /**
   * Reads ids of jobs that have not started and whose time to do so is over, soonest first, from one of `EXPIRY_LINES` lines, counted from
   * 0; from an index, so it may lag.
   */
  readExpired(request: {
    readonly line: number;
    readonly nowMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly ids: readonly string[]; readonly next?: string | undefined }>;
  /**
   * Ends jobs that have not started in time, each fenced by its version. Answers the job as it ended, or undefined for a lost race. A
   * repeated call may report its own success as a lost race.
   */
  expireJobs(request: {
    readonly jobs: readonly MovingJob[];
    readonly nowMs: number;
    /** When the jobs may be garbage collected. */
    readonly expiresAtMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
}
