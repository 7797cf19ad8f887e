/** Membership: long-running dispatchers know each other and share the partitions. Without it functions make all passes. */
import type { DispatcherIdentity, DispatcherRecord } from './records.ts';
import type { Applied } from './requests.ts';

export interface MembershipStore {
  /**
   * Writes or renews a membership, fenced by its incarnation: no later incarnation of the dispatcher exists, and this one was not removed.
   * The expiry never goes back.
   */
  keepDispatcher(record: DispatcherRecord): Promise<Applied>;
  /** Ends a membership for good, fenced by its incarnation: a late renewal does not bring it back. */
  removeDispatcher(dispatcher: DispatcherIdentity): Promise<Applied>;
  /** Reads all memberships that have not expired, strongly consistent. */
  listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]>;
}
