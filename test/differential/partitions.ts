/**
 * A pool in several partitions, none of which lends: each decides alone, over its own keys' jobs and its share of each cap. So
 * what should start is what as many references say, each of which knows one partition. What starts at one instant is listed by
 * partition: between partitions there is no order.
 */

import { partitionOf } from '../../lib/core/partition.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { Happening, Player, Scenario, Start } from './play.ts';
import { Reference } from './reference.ts';

/** The reference of a scenario, in as many partitions as its pool has. */
export function referenceOf(scenario: Pick<Scenario, 'pool' | 'jobs'>): Player {
  const { partitions = 1 } = scenario.pool;
  return partitions === 1 ? new Reference(scenario) : new PartitionedReference(scenario, partitions);
}

class PartitionedReference implements Player {
  readonly #parts: readonly Reference[];
  readonly #partitionOf: ReadonlyMap<string, number>;

  constructor({ pool, jobs }: Pick<Scenario, 'pool' | 'jobs'>, partitions: number) {
    this.#partitionOf = new Map(
      jobs.map(({ id, fairnessKey }) => [id, partitionOf(fairnessKey, partitions)]),
    );
    this.#parts = Array.from(
      { length: partitions },
      (_, partition) => new Reference({ pool: shareOfPool(pool, partition, partitions) }),
    );
  }

  instant(atMs: number, happenings: readonly Happening[]): readonly Start[] {
    return this.#parts.flatMap((reference, partition) =>
      reference.instant(
        atMs,
        happenings.flatMap((happening) => this.#of(partition, happening)),
      ),
    );
  }

  /** What happens to a partition when this happens to the pool. */
  #of(partition: number, happening: Happening): readonly Happening[] {
    const concerns = (id: string): boolean => this.#partitionOf.get(id) === partition;
    switch (happening.op) {
      case 'submit':
        return concerns(happening.job.id) ? [happening] : [];
      case 'end':
        return concerns(happening.start.id) ? [happening] : [];
      case 'cancel':
      case 'retime':
        return concerns(happening.id) ? [happening] : [];
      case 'control': {
        const { scope, maxConcurrency: cap } = happening;
        if (cap === undefined || cap === null || scope.startsWith('key/')) return [happening];
        return [{ ...happening, maxConcurrency: shareOf(cap, partition, this.#parts.length) }];
      }
      case 'slots':
        return [{ ...happening, slots: shareOf(happening.slots, partition, this.#parts.length) }];
      case 'due':
      case 'tick':
      case 'wake':
        return [happening];
    }
  }
}

/** Whole shares that add up to the cap; the first partitions have one more where it does not divide evenly. */
export const shareOf = (cap: number, partition: number, partitions: number): number =>
  Math.floor(cap / partitions) + (partition < cap % partitions ? 1 : 0);

/** What one partition has of a pool. */
const shareOfPool = (pool: PoolInput, partition: number, partitions: number): PoolInput => ({
  ...withCaps(pool, (cap) => shareOf(cap, partition, partitions)),
  partitions: 1,
});

/** The pool with other caps, guarantees and slots, as far as it has any; a fairness key's own cap is not one of those that are divided. */
export function withCaps(pool: PoolInput, change: (cap: number) => number): PoolInput {
  const changed = <C extends number | null | undefined>(cap: C): C | number =>
    typeof cap === 'number' ? change(cap) : cap;
  const named = <T, U>(record: Readonly<Record<string, T>> = {}, map: (value: T) => U) =>
    Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
  return {
    ...pool,
    maxConcurrency: changed(pool.maxConcurrency),
    types: named(pool.types, (type) => ({
      ...type,
      maxConcurrency: changed(type.maxConcurrency),
      ...(type.maxConcurrencyPerResource === undefined
        ? {}
        : { maxConcurrencyPerResource: changed(type.maxConcurrencyPerResource) }),
    })),
    ...(pool.limits === undefined
      ? {}
      : {
          limits: named(pool.limits, (limit) => ({
            ...limit,
            total: changed(limit.total),
            ...(limit.keyedBy === undefined ? {} : { perKey: changed(limit.perKey) }),
          })),
        }),
    fleets: named(pool.fleets, (fleet) => ({ ...fleet, slots: changed(fleet.slots) })),
    tiers: (pool.tiers ?? []).map((tier) => ({
      ...tier,
      maxConcurrency: changed(tier.maxConcurrency),
      guaranteed: changed(tier.guaranteed),
    })),
  };
}
