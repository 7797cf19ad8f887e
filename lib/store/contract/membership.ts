/**
 * Membership: dispatchers that run on know each other and share the partitions. Without it there are no long-running dispatchers:
 * functions make all passes.
 */
import type { DispatcherIdentity, DispatcherRecord } from './records.ts';
import type { Applied } from './requests.ts';

export interface MembershipStore {
  /**
   * Writes or renews a membership, fenced by its incarnation: no later one of its name is there, and it has not left. The expiry never
   * goes back.
   */
  keepDispatcher(record: DispatcherRecord): Promise<Applied>;
  /** Ends a membership for good, fenced by its incarnation: a renewal that comes late does not bring it back. */
  removeDispatcher(dispatcher: DispatcherIdentity): Promise<Applied>;
  /** Reads all memberships that have not expired, strongly consistent. */
  listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]>;
}
