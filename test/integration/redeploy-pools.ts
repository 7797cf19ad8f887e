/** What is declared, one deployment after the other. */
import type { FleetInput, JobTypeInput, TierInput } from '../../lib/core/pool-input.ts';
import type { ScheduleRequest } from '../../lib/schedules/request.ts';

export interface RedeployPool {
  readonly types: Readonly<Record<string, JobTypeInput>>;
  readonly tiers: readonly TierInput[];
  readonly fleets: Readonly<Record<string, FleetInput>>;
  readonly partitions?: number;
  readonly schedules?: Readonly<Record<string, ScheduleRequest>>;
}

/** Names the pool for the process that deploys. */
export const REDEPLOY_VARIABLE = 'FAIRLEAD_REDEPLOY_POOL';

const FIRST: RedeployPool = {
  types: {
    print: { tier: 'standard', conflictGroup: 'shelf', timeoutMs: 200_000 },
    pack: { tier: 'standard', timeoutMs: 200_000 },
  },
  tiers: [{ tier: 'standard' }],
  // Nobody serves the second one: its workers are processes.
  fleets: { general: { types: ['print'], slots: 4 }, boxes: { types: ['pack'] } },
  schedules: {
    nightly: { cron: '30 2 * * *', zone: 'Europe/Berlin', type: 'print' },
    weekly: { cron: '@weekly', type: 'print' },
    dropped: { every: '10d', type: 'print' },
  },
};

/** Another tier and another conflict group, and a new type. Of the schedules one is changed, one removed, one new. */
const SECOND: RedeployPool = {
  types: {
    print: { tier: 'urgent', conflictGroup: 'album', timeoutMs: 200_000 },
    pack: { tier: 'urgent', timeoutMs: 200_000 },
    ship: { tier: 'urgent', timeoutMs: 200_000 },
  },
  tiers: [{ tier: 'urgent' }],
  fleets: { general: { types: ['print', 'ship'], slots: 4 }, boxes: { types: ['pack'] } },
  schedules: {
    nightly: { cron: '30 4 * * *', zone: 'Europe/Berlin', type: 'ship' },
    weekly: { cron: '@weekly', type: 'print' },
    fresh: { every: '10d', type: 'ship' },
  },
};

const POOLS = { FIRST, SECOND } as const;

export type PoolName = keyof typeof POOLS;

export function redeployPool(name: string | undefined): RedeployPool {
  const found = Object.entries(POOLS).find(([each]) => each === name);
  if (found === undefined) throw new Error(`${REDEPLOY_VARIABLE} names no pool: ${name}`);
  return found[1];
}
