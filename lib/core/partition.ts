/**
 * A pool in partitions: where a fairness key lives, and what of the pool's capacity each partition may use.
 *
 * A key lives in partition `hashText(key) mod partitions`, for ever: whoever submits, by event or by a client, of whatever
 * version, must come to the same one. Each cap is split into whole shares that add up to it, so that partitions which
 * know nothing of each other never exceed it together. A key's own cap is not split: a key has one partition.
 */
import type { PoolConfiguration } from './configuration.ts';
import { ConfigurationError } from './errors.ts';
import { fleetScope, type Moved, NOTHING_MOVED, shareCap } from './lending.ts';
import { hashText } from './ring.ts';
import type { Override } from './scheduler.ts';

/** The partition of a fairness key: from 0 to `partitions - 1`. */
export const partitionOf = (fairnessKey: string, partitions: number): number =>
  partitions === 1 ? 0 : hashText(fairnessKey) % partitions;

/** Every partition in which jobs of a key may stand or run, or were controlled: where it lives, or lived, of so many. */
export const homesOf = (fairnessKey: string, numbers: readonly number[]): readonly number[] => [
  ...new Set(numbers.map((partitions) => partitionOf(fairnessKey, partitions))),
];

/** One partition's share of a cap; 0 for a partition that there is not, or not any more. */
const shareOf = (cap: number, partition: number, partitions: number): number =>
  shareCap(cap, partitions)[partition] ?? 0;

/** A divided cap, as loans name it: shares of it add up only among as many partitions. */
const underOf = (cap: number, partitions: number): string => `${cap}/${partitions}`;

/** One partition's share of the cap that a loan names. */
export function shareUnder(under: string, partition: number): number {
  const [cap = 0, partitions = 1] = under.split('/').map(Number);
  return shareOf(cap, partition, partitions);
}

/** A cap that is divided among the partitions. */
export interface DividedCap {
  readonly scope: string;
  /** The whole pool's. */
  readonly cap: number;
  readonly under: string;
}

/** All caps that are divided: those of pool, tiers and types as operators have set or left them, and declared slots. */
export function dividedCaps(
  configuration: PoolConfiguration,
  overrides: readonly Override[],
): readonly DividedCap[] {
  const { partitions, tiers, types, fleets } = configuration;
  const ofScope = new Map(overrides.map(({ scope, maxConcurrency }) => [scope, maxConcurrency]));
  const caps: readonly (readonly [scope: string, cap: number | null])[] = [
    ['pool', ofScope.get('pool') ?? configuration.maxConcurrency],
    ...tiers.map((tier) => {
      const scope = `tier/${tier.tier}`;
      return [scope, ofScope.get(scope) ?? tier.maxConcurrency] as const;
    }),
    ...types.map((type) => {
      const scope = `type/${type.type}`;
      return [scope, ofScope.get(scope) ?? type.maxConcurrency] as const;
    }),
    ...fleets.map((fleet) => [fleetScope(fleet.fleet), fleet.slots] as const),
  ];
  return caps.flatMap(([scope, cap]) =>
    cap === null ? [] : [{ scope, cap, under: underOf(cap, partitions) }],
  );
}

/** What one partition may use of a divided cap, with what it was lent and without what it has lent. */
export const shareOfCap = (
  { scope, cap, under }: DividedCap,
  partition: number,
  partitions: number,
  moved: Moved,
): number => Math.max(0, shareOf(cap, partition, partitions) + moved(scope, under));

/** What one partition may use of the pool. The whole pool if it is the only one. */
export function shareOfPool(
  configuration: PoolConfiguration,
  partition: number,
  moved: Moved = NOTHING_MOVED,
): PoolConfiguration {
  const { partitions } = configuration;
  if (partitions === 1 && partition === 0 && moved === NOTHING_MOVED) return configuration;
  const split = (scope: string, cap: number | null): number | null =>
    cap === null
      ? null
      : shareOfCap({ scope, cap, under: underOf(cap, partitions) }, partition, partitions, moved);
  return {
    ...configuration,
    maxConcurrency: split('pool', configuration.maxConcurrency),
    types: configuration.types.map((type) => ({
      ...type,
      maxConcurrency: split(`type/${type.type}`, type.maxConcurrency),
    })),
    tiers: configuration.tiers.map((tier) => ({
      ...tier,
      maxConcurrency: split(`tier/${tier.tier}`, tier.maxConcurrency),
      guaranteed: shareOf(tier.guaranteed, partition, partitions),
    })),
    fleets: configuration.fleets.map((fleet) => ({
      ...fleet,
      slots: split(fleetScope(fleet.fleet), fleet.slots),
    })),
  };
}

/** What one partition may use of what operators allow. What they allow a fleet stands beside its slots, and is not lent. */
export function shareOfOverrides<O extends Override>(
  overrides: readonly O[],
  partition: number,
  partitions: number,
  moved: Moved = NOTHING_MOVED,
): readonly O[] {
  if (partitions === 1 && partition === 0 && moved === NOTHING_MOVED) return overrides;
  return overrides.map((override) => {
    const { scope, maxConcurrency: cap } = override;
    if (cap === undefined || scope.startsWith('key/')) return override;
    const movable = scope.startsWith('fleet/') ? NOTHING_MOVED : moved;
    const divided = { scope, cap, under: underOf(cap, partitions) };
    return { ...override, maxConcurrency: shareOfCap(divided, partition, partitions, movable) };
  });
}

/**
 * @throws ConfigurationError for a cap that leaves a partition without a share: its jobs would wait for ever. A cap of 0
 * means nobody, and may be split.
 */
export function requireSplittable(configuration: PoolConfiguration): void {
  const { partitions } = configuration;
  const caps: readonly (readonly [string, number | null])[] = [
    ['maxConcurrency', configuration.maxConcurrency],
    ...configuration.tiers.map((tier, at) => [`tiers[${at}].maxConcurrency`, tier.maxConcurrency] as const),
    ...configuration.types.map((type) => [`types.${type.type}.maxConcurrency`, type.maxConcurrency] as const),
    ...configuration.fleets.map((fleet) => [`fleets.${fleet.fleet}.slots`, fleet.slots] as const),
  ];
  for (const [path, cap] of caps) {
    if (cap === null || cap === 0 || cap >= partitions) continue;
    throw new ConfigurationError(
      path,
      cap,
      `cannot be split among ${partitions} partitions: some would have no share of it, and their jobs would wait for ever`,
      `Raise it to at least ${partitions}, or declare at most ${cap} partitions.`,
    );
  }
}
