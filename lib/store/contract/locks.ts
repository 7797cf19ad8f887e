/**
 * Locks: a claim may take the lock of a conflict key together with its job (`ClaimRequest.lock`). Without it, jobs of one conflict key
 * exclude each other only within their partition, so a pool with conflict keys must have one partition.
 */
import type { Lock } from './records.ts';

export interface LockStore {
  /** Reads the locks of these conflict keys, strongly consistent, in their order; undefined for a free one. */
  readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]>;
  /**
   * Records that a partition waits for a lock, unless the lock is open to the partition (`open`: nothing was recorded). The pass that
   * releases the lock wakes the partition.
   */
  awaitLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<'waiting' | 'open'>;
  /**
   * Releases a lock, fenced by the claim that holds it. Answers the next waiting partition, which has priority for the lock until `untilMs`
   * and which the caller is to wake. To be called after the claim's attempt is over, and before its reservation is dropped.
   */
  releaseLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly claimId: string;
    readonly untilMs: number;
  }): Promise<{ readonly next?: number | undefined }>;
}
