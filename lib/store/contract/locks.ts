/**
 * Locks: a claim may take the lock of a conflict key together with its job (`ClaimRequest.lock`). Without it, jobs of one conflict
 * key exclude each other within their partition only: a pool with conflict keys has one partition.
 */
import type { Lock } from './records.ts';

export interface LockStore {
  /** Reads the locks of these conflict keys, strongly consistent, in their order; undefined for one that is free. */
  readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]>;
  /**
   * Notes that a partition waits for a lock, fenced by the lock's state: it must not be open to the partition (`open`: it is by now,
   * and nothing was noted). The pass that releases the lock wakes the partition.
   */
  awaitLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<'waiting' | 'open'>;
  /**
   * Releases a lock, fenced by the claim that holds it, and answers the next partition that waits: it has its turn until `untilMs` and
   * is to be woken. To be called once the claim's attempt is over, before its reservation is dropped.
   */
  releaseLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly claimId: string;
    readonly untilMs: number;
  }): Promise<{ readonly next?: number | undefined }>;
}
