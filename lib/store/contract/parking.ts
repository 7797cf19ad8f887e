/**
 * Parking: jobs that wait for a busy conflict key stand in a blocked line of their own. Without it they stay in their ready lines,
 * where passes meet them again and again, so that thousands of jobs for one resource slow all other jobs of their lines down.
 */
import type { JobHead } from './job-fields.ts';
import type { ParkedMark } from './records.ts';
import type { Applied, Heads, ParkOutcome } from './requests.ts';

export interface ParkingStore {
  /**
   * Notes that conflict keys have blocked lines from now on; needs no token, because no mark ever gets older. To be called before any
   * job is parked there, and after a commit that says so (`parks`), or no pass looks for them.
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
  /** Reads the conflict keys that may have a blocked line, in an order of the store's own, strongly consistent. */
  listParked(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }>;
  /** Deletes a mark whose blocked line was found empty, fenced by the mark's time. */
  unmarkParked(request: { readonly partition: number; readonly mark: ParkedMark }): Promise<Applied>;
  /**
   * Reads the first jobs of each group of a conflict key's blocked line, in the order of their ranks: at least one of each group, at
   * most `BLOCKED_HEADS`. A group holds the jobs of one ready line. Up to `groups` groups, after the cursor; `next` if others may
   * follow. From an index, so it may lag.
   *
   * @param butFor - jobs that are reserved and have not started: they are left out, and the jobs behind them are read. @default none
   */
  readBlocked(request: {
    readonly partition: number;
    readonly conflictKey: string;
    readonly groups: number;
    readonly butFor?: ReadonlySet<string> | undefined;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Moves pending jobs to the blocked line of a conflict key, each fenced by its version, and raises the partition's version, fenced
   * by `version`: a settlement that read the blocked line before must not be written after. The jobs stay pending at their version, so
   * a claim wins them where they stand. To be called after the conflict key was marked.
   */
  park(request: {
    readonly partition: number;
    readonly version: number;
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<ParkOutcome>;
  /**
   * Moves parked jobs back to their ready lines, which were announced before, each fenced by its version. A repetition may read its
   * own success as a lost race.
   */
  unpark(request: {
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<readonly Applied[]>;
}
