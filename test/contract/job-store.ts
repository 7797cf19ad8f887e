/** The suites of the job store: the core has one, and each capability. */
import { describe } from 'vitest';
import type { CoreStore } from '../../lib/store/contract/core.ts';
import type { JobStoreHarness } from './harness.ts';
import { boundsContract } from './job-store/bounds.ts';
import { attemptsContract } from './job-store/core/attempts.ts';
import { claimsContract } from './job-store/core/claims.ts';
import { jobHistoryContract } from './job-store/core/history.ts';
import { linesContract } from './job-store/core/lines.ts';
import { movesContract } from './job-store/core/moves.ts';
import { partitionContract } from './job-store/core/partition.ts';
import { payloadContract } from './job-store/core/payload.ts';
import { submitContract } from './job-store/core/submit.ts';
import { workersContract } from './job-store/core/workers.ts';
import { declaringContract } from './job-store/declaring.ts';
import { dedupingContract } from './job-store/deduping.ts';
import { expiringContract } from './job-store/expiring.ts';
import { leadingContract } from './job-store/leading.ts';
import { lendingContract } from './job-store/lending.ts';
import { locksContract } from './job-store/locks.ts';
import { membershipContract } from './job-store/membership.ts';
import { operateContract } from './job-store/operate.ts';
import { parkingContract } from './job-store/parking.ts';
import { statisticsContract } from './job-store/statistics.ts';
import { openSuite, type StoreSuite } from './job-store/suite.ts';

function coreContract(suite: StoreSuite<CoreStore>, isOneProcess = true): void {
  submitContract(suite);
  payloadContract(suite);
  linesContract(suite, isOneProcess);
  partitionContract(suite);
  claimsContract(suite);
  attemptsContract(suite);
  workersContract(suite);
  movesContract(suite);
  jobHistoryContract(() => suite.opened().store);
}

/** The suite that any store must pass. */
export function coreStoreContract(
  name: string,
  makeHarness: () => Promise<JobStoreHarness<CoreStore>>,
): void {
  describe(`the core of the job store on ${name}`, () => coreContract(openSuite(makeHarness)));
}

/**
 * The suites of a store with all capabilities, whose items, keys and transactions are bounded as those of a table.
 * @param isOneProcess - whether the process that calls the store lives from one call to the next
 */
export function jobStoreContract(
  name: string,
  makeHarness: () => Promise<JobStoreHarness>,
  isOneProcess = true,
): void {
  describe(`the job store on ${name}`, () => {
    const suite = openSuite(makeHarness);
    coreContract(suite, isOneProcess);
    parkingContract(suite);
    locksContract(suite);
    lendingContract(suite);
    leadingContract(suite);
    expiringContract(suite);
    dedupingContract(suite);
    membershipContract(suite);
    declaringContract(suite);
    operateContract(suite);
    statisticsContract(suite);
    boundsContract(suite);
  });
}
