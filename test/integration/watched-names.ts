/** What the watched stack and its test both know. */
import type { FleetInput, JobTypeInput } from '../../lib/core/pool-input.ts';

export const STACK = 'fairlead-watched';
export const PARAMETER = '/fairlead/watched';
export const DASHBOARD = 'fairlead-watched';
/** Names, for the process that deploys, where the functions reach EventBridge. */
export const BUS_ENDPOINT_VARIABLE = 'FAIRLEAD_TEST_BUS_ENDPOINT';

export const WATCHED_POOL = {
  types: { echo: {} },
  fleets: { echoes: { types: ['echo'], slots: 8 } },
} as const satisfies {
  readonly types: Record<string, JobTypeInput>;
  readonly fleets: Record<string, FleetInput>;
};
