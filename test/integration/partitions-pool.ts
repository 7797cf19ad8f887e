/** What is declared while partitions come and go: for the process that deploys, and for the test. */
import type { RedeployPool } from './redeploy-pools.ts';

/** How many partitions the process that deploys declares. */
export const PARTITIONS_VARIABLE = 'FAIRLEAD_PARTITIONS';
export const PROCESS_FLEET = 'processes';

/** Its workers are processes, which say themselves how many slots they have. */
export const partitionsPool = (partitions: number): RedeployPool => ({
  types: { work: { tier: 'standard', conflictGroup: 'shelf', timeoutMs: 60_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { [PROCESS_FLEET]: { types: ['work'] } },
  partitions,
});
