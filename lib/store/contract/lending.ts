/**
 * Lending: a partition asks others for capacity, and commits move it (`Commit.lend` and `Commit.giveBack`, fenced by the versions of both
 * partitions' loans). Without it each partition keeps its fixed share of the caps, even if another one has more work than its share allows.
 */
import type { LoanRequest } from '../../core/lending.ts';

export interface LendingStore {
  /**
   * Stores a request for a loan at the partition that may grant it. It replaces an earlier request of the same partition. Needs no token,
   * because it is a hint.
   */
  askForLoan(request: { readonly partition: number; readonly request: LoanRequest }): Promise<void>;
}
