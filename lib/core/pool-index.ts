/** A configuration's types and tiers as numbers. A class is a type and a mode: all its jobs are ranked alike. */
import type { JobTypeConfiguration, PoolConfiguration, TierConfiguration } from './configuration.ts';
import { type ConflictRule, conflictRuleOf } from './conflict.ts';
import { ConfigurationError } from './errors.ts';
import type { JobMode } from './job.ts';

export interface PoolIndex {
  readonly types: readonly JobTypeConfiguration[];
  readonly typeNumbers: ReadonlyMap<string, number>;
  readonly tiers: readonly TierConfiguration[];
  readonly tierNumbers: ReadonlyMap<string, number>;
  readonly tierOfType: Int32Array;
  /** By tier: its classes. */
  readonly classesOfTier: readonly Int32Array[];
  /** By type; undefined: nothing excludes its jobs. */
  readonly conflictRules: readonly (ConflictRule | undefined)[];
  readonly classes: number;
}

/** @throws ConfigurationError for a type in a tier that is not declared. */
export function indexPool(configuration: Pick<PoolConfiguration, 'types' | 'tiers'>): PoolIndex {
  const { types, tiers } = configuration;
  const tierNumbers = new Map(tiers.map((tier, index) => [tier.tier, index]));
  const tierOfType = Int32Array.from(types, ({ type, tier }) => {
    const number = tierNumbers.get(tier);
    if (number !== undefined) return number;
    throw new ConfigurationError(
      `types.${type}.tier`,
      tier,
      `names no declared tier (${tiers.map((candidate) => candidate.tier).join(', ')})`,
      'Declare it in tiers, or name one of those.',
    );
  });
  return {
    types,
    typeNumbers: new Map(types.map(({ type }, index) => [type, index])),
    tiers,
    tierNumbers,
    tierOfType,
    classesOfTier: tiers.map((_, tier) =>
      Int32Array.from(
        types.flatMap((_, type) =>
          tierOfType[type] === tier ? [classOf(type, 'queued'), classOf(type, 'onDemand')] : [],
        ),
      ),
    ),
    conflictRules: types.map(conflictRuleOf),
    classes: types.length * 2,
  };
}

export function classOf(type: number, mode: JobMode): number {
  return type * 2 + (mode === 'onDemand' ? 1 : 0);
}

export function typeOf(class_: number): number {
  return class_ >> 1;
}

export function isOnDemand(class_: number): boolean {
  return (class_ & 1) === 1;
}
