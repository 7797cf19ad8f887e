/**
 * Parking: jobs that wait for a busy conflict key stand in a blocked line of their own. Without it they stay in their ready lines, where
 * every pass reads them again, so that thousands of jobs for one resource delay all other jobs of these lines.
 */
import type { JobHead } from './job-fields.ts';
import type { ParkedMark } from './records.ts';
import type { Applied, Heads, ParkOutcome } from './requests.ts';

export interface ParkingStore {
  /**
   * Records that these conflict keys may have blocked lines from now on. Needs no token, because the recorded time never goes back. To be
   * called before any job is parked there, and after a commit with `parks`: without both, no pass looks for the jobs.
   */
  markParked(request: {
    readonly partition: number;
    readonly conflictKeys: readonly string[];
    readonly nowMs: number;
  }): Promise<void>;
  /** Reads which of these conflict keys may have a blocked line, strongly consistent. */
  readParked(request: {
    readonly partition: number;
    readonly conflictKeys: readonly string[];
  }): Promise<readonly ParkedMark[]>;
  /** Reads all conflict keys that may have a blocked line, strongly consistent, in an order of the store's choice. */
  listParked(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }>;
  /** Deletes the mark of a conflict key whose blocked line was found empty, fenced by the mark's `parkedAtMs`. */
  unmarkParked(request: { readonly partition: number; readonly mark: ParkedMark }): Promise<Applied>;
  /**
   * Reads the first jobs of each group of a conflict key's blocked line, in the order of their ranks: at least one of each group, at most
   * `BLOCKED_HEADS`. A group holds the jobs of one ready line. Reads up to `groups` groups after the cursor; `next` is set if others may
   * follow. From an index, so it may lag.
   *
   * @param butFor - ids of jobs that are reserved and have not started: they are skipped. @default none
   */
  readBlocked(request: {
    readonly partition: number;
    readonly conflictKey: string;
    readonly groups: number;
    readonly butFor?: ReadonlySet<string> | undefined;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Moves pending jobs to the blocked line of a conflict key, each fenced by its version, and raises the partition's version, fenced by
   * `version`: a settlement that read the blocked line earlier must fail. The jobs stay pending at their version, so a planned claim still
   * succeeds. To be called after `markParked`.
   */
  park(request: {
    readonly partition: number;
    readonly version: number;
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<ParkOutcome>;
  /**
   * Moves parked jobs back to their ready lines, which the caller announced before, each fenced by its version. A repeated call may report
   * its own success as a lost race.
   */
  unpark(request: {
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<readonly Applied[]>;
}
