/** One stack in eleven states: as it is first deployed, and after each of ten changes, which add up. */
import type { SchedulerProps } from '../../cdk/props.ts';
import type { FleetInput, JobTypeInput, PoolInput } from '../../lib/core/pool-input.ts';

/** Names the state, for the process that deploys. */
export const STEP_VARIABLE = 'FAIRLEAD_REDEPLOY_STEP';

export interface DeployedState {
  readonly types: Readonly<Record<string, JobTypeInput>>;
  readonly tiers: NonNullable<PoolInput['tiers']>;
  /** All but `boxes` have the function behind them. */
  readonly fleets: Readonly<Record<string, FleetInput>>;
  readonly partitions: number;
  readonly fairness?: PoolInput['fairness'];
  readonly handler: { readonly edition: string; readonly memorySize: number; readonly timeoutSec: number };
  /** What is not about the pool. */
  readonly more: Pick<SchedulerProps, 'maxReceiveCount' | 'ingestConcurrency' | 'schedules'>;
  readonly isWatched: boolean;
}

type Change = readonly [what: string, change: (before: DeployedState) => DeployedState];

const SHELF = { conflictGroup: 'shelf', timeoutMs: 15_000 } as const;

const FIRST: DeployedState = {
  types: { print: { ...SHELF, tier: 'standard' }, pack: { tier: 'standard', timeoutMs: 15_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { general: { types: ['print'], slots: 4 }, boxes: { types: ['pack'] } },
  partitions: 1,
  handler: { edition: 'first', memorySize: 512, timeoutSec: 20 },
  more: {},
  isWatched: false,
};

export const CHANGES: readonly Change[] = [
  ['the handler', (before) => ({ ...before, handler: { ...before.handler, edition: 'second' } })],
  [
    'its memory and its timeout',
    (before) => ({ ...before, handler: { ...before.handler, memorySize: 640, timeoutSec: 30 } }),
  ],
  [
    'a fleet more',
    (before) => ({ ...before, fleets: { ...before.fleets, extra: { types: ['print'], slots: 2 } } }),
  ],
  [
    'a type more',
    (before) => ({
      ...before,
      types: { ...before.types, ship: { tier: 'standard', timeoutMs: 15_000 } },
      fleets: { ...before.fleets, general: { types: ['print', 'ship'], slots: 4 } },
    }),
  ],
  [
    'the name of the tier',
    ({ types, ...before }) => ({
      ...before,
      types: Object.fromEntries(
        Object.entries(types).map(([type, own]) => [type, { ...own, tier: 'urgent' }]),
      ),
      tiers: [{ tier: 'urgent' }],
    }),
  ],
  [
    'caps, weights and a conflict group',
    (before) => ({
      ...before,
      types: { ...before.types, print: { ...before.types.print, conflictGroup: 'album', maxConcurrency: 3 } },
      fairness: { weights: { ann: 3 }, maxConcurrencyPerKey: 4 },
    }),
  ],
  [
    'the name of a fleet',
    ({ fleets: { general, ...others }, ...before }) => ({
      ...before,
      fleets: { ...others, ...(general === undefined ? {} : { presses: general }) },
    }),
  ],
  ['partitions', (before) => ({ ...before, partitions: 2 })],
  [
    'how often, how many, and a schedule',
    (before) => ({
      ...before,
      more: {
        maxReceiveCount: 7,
        ingestConcurrency: 4,
        schedules: { yearly: { cron: '0 0 1 1 *', type: 'ship' } },
      },
    }),
  ],
  [
    'a fleet less, and what watches',
    ({ fleets: { extra: _, ...fleets }, ...before }) => ({ ...before, fleets, isWatched: true }),
  ],
];

/** After so many of the changes. */
export function stateAfter(changes: number): DeployedState {
  return CHANGES.slice(0, changes).reduce((state, [, change]) => change(state), FIRST);
}
