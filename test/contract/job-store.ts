/** What every job store does: sentences, each checked on every implementation, in a file for each family of verbs. */
import { describe } from 'vitest';
import type { JobStoreHarness } from './harness.ts';
import { jobHistoryContract } from './job-history.ts';
import { claimsContract } from './job-store/claims.ts';
import { leadContract } from './job-store/lead.ts';
import { linesContract } from './job-store/lines.ts';
import { membershipContract } from './job-store/membership.ts';
import { operateContract } from './job-store/operate.ts';
import { parkingContract } from './job-store/parking.ts';
import { partitionContract } from './job-store/partition.ts';
import { payloadContract } from './job-store/payload.ts';
import { submitContract } from './job-store/submit.ts';
import { openSuite } from './job-store/suite.ts';
import { workerContract } from './job-store/worker.ts';

export function jobStoreContract(name: string, makeHarness: () => Promise<JobStoreHarness>): void {
  describe(`the job store on ${name}`, () => {
    const suite = openSuite(makeHarness);
    submitContract(suite);
    payloadContract(suite);
    linesContract(suite);
    leadContract(suite);
    partitionContract(suite);
    claimsContract(suite);
    parkingContract(suite);
    workerContract(suite);
    membershipContract(suite);
    operateContract(suite);
    jobHistoryContract(() => suite.opened().store);
  });
}
