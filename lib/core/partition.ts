/**
 * A pool in partitions: where a fairness key lives, and what of the pool's capacity each partition may use.
 *
 * A key lives in partition `hashText(key) mod partitions`, for ever: whoever submits, by event or by a client, of whatever
 * version, must come to the same one. Each cap is split into whole shares that add up to it, so that partitions which
 * know nothing of each other never exceed it together. A key's own cap is not split: a key has one partition.
 */
import type { PoolConfiguration } from './configuration.ts';
import { ConfigurationError } from './errors.ts';
import { shareCap } from './lending.ts';
import { hashText } from './ring.ts';
import type { Override } from './scheduler.ts';

/** The partition of a fairness key: from 0 to `partitions - 1`. */
export const partitionOf = (fairnessKey: string, partitions: number): number =>
  partitions === 1 ? 0 : hashText(fairnessKey) % partitions;

/** One partition's share of a cap; 0 for a partition that there is not, or not any more. */
const shareOf = (cap: number, partition: number, partitions: number): number =>
  shareCap(cap, partitions)[partition] ?? 0;

/** What one partition may use of the pool. The whole pool if it is the only one. */
export function shareOfPool(configuration: PoolConfiguration, partition: number): PoolConfiguration {
  const { partitions } = configuration;
  if (partitions === 1 && partition === 0) return configuration;
  const split = (cap: number | null): number | null =>
    cap === null ? null : shareOf(cap, partition, partitions);
  return {
    ...configuration,
    maxConcurrency: split(configuration.maxConcurrency),
    types: configuration.types.map((type) => ({ ...type, maxConcurrency: split(type.maxConcurrency) })),
    tiers: configuration.tiers.map((tier) => ({
      ...tier,
      maxConcurrency: split(tier.maxConcurrency),
      guaranteed: shareOf(tier.guaranteed, partition, partitions),
    })),
    fleets: configuration.fleets.map((fleet) => ({ ...fleet, slots: split(fleet.slots) })),
  };
}

/** What one partition may use of what operators allow. */
export function shareOfOverrides<O extends Override>(
  overrides: readonly O[],
  partition: number,
  partitions: number,
): readonly O[] {
  if (partitions === 1 && partition === 0) return overrides;
  return overrides.map((override) =>
    override.maxConcurrency === undefined || override.scope.startsWith('key/')
      ? override
      : { ...override, maxConcurrency: shareOf(override.maxConcurrency, partition, partitions) },
  );
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
