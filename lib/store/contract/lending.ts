/**
 * Lending: a partition asks others for capacity, and commits move it (`Commit.lend` and `Commit.giveBack`, fenced by the versions of
 * both partitions' loans). Without it each partition keeps its fixed share of the caps, also while another one has more work than
 * its share allows.
 */
import type { LoanRequest } from '../../core/lending.ts';

export interface LendingStore {
  /**
   * Leaves a request with the partition that may grant it; needs no token, because it is a hint. It replaces an earlier request of the
   * same partition.
   */
  askForLoan(request: { readonly partition: number; readonly request: LoanRequest }): Promise<void>;
}
