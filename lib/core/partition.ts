/**
 * Partitions of a pool: where a fairness key belongs, and how much of the pool's capacity each partition may use.
 *
 * A key belongs to partition `hashText(key) mod partitions`, for ever: every producer, by event or by a client of any
 * version, must compute the same one. Each cap is split into whole shares that add up to it, so partitions that know
 * nothing of each other never exceed it together. A key's own cap is not split, because a key has one partition.
 */

import type { Control } from './capacity.ts';
import type { PoolConfiguration } from './configuration.ts';
import { ConfigurationError } from './errors.ts';
import { type LoanBalance, NO_LOANS, shareCap } from './lending.ts';
import { declaredCaps, isKeyOfLimit, ruleOf, withCaps } from './scope.ts';

/**
 * Returns a 32-bit hash of a text, evenly spread even for texts that differ in one digit. Two lanes multiply and xor
 * the UTF-16 units; they are crossed and mixed at the end. It is not for secrets. It must never change, because stored
 * keys depend on it.
 */
export function hashText(text: string): number {
  let low = 0x9e3779b9;
  let high = 0x85ebca6b ^ text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    low = Math.imul(low ^ unit, 0x01000193);
    high = Math.imul(high ^ unit, 0x5bd1e995);
    high ^= high >>> 15;
  }
  return mix(mix(low) ^ high);
}

// Two rounds of xor-shift and multiply, so that each bit of the input affects each bit of the output.
function mix(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x7feb352d);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** Returns the partition of a fairness key, from 0 to `partitions - 1`. */
export const partitionOf = (fairnessKey: string, partitions: number): number =>
  partitions === 1 ? 0 : hashText(fairnessKey) % partitions;

/**
 * Returns every partition that may have jobs or controls of a key: its partition for each of these numbers of
 * partitions, present and former.
 */
export const homePartitionsOf = (fairnessKey: string, numbers: readonly number[]): readonly number[] => [
  ...new Set(numbers.map((partitions) => partitionOf(fairnessKey, partitions))),
];

/** Returns one partition's share of a cap; 0 for a partition that does not exist, or not any more. */
const shareOf = (cap: number, partition: number, partitions: number): number =>
  shareCap(cap, partitions)[partition] ?? 0;

/**
 * Returns the text by which loans name a divided cap. It includes the number of partitions, because only shares of the
 * same division add up.
 */
const divisionName = (cap: number, partitions: number): string => `${cap}/${partitions}`;

/** Returns one partition's share of the divided cap that a loan names. */
export function shareOfDivision(under: string, partition: number): number {
  const [cap = 0, partitions = 1] = under.split('/').map(Number);
  return shareOf(cap, partition, partitions);
}

/** A cap that is divided among the partitions. */
export interface DividedCap {
  readonly scope: string;
  /** The cap of the whole pool. */
  readonly cap: number;
  readonly under: string;
}

/** Returns all divided caps: those of the pool, tiers and types, with operators' overrides, and the declared slots. */
export function dividedCaps(
  configuration: PoolConfiguration,
  overrides: readonly Control[],
): readonly DividedCap[] {
  const overrideByScope = new Map(overrides.map(({ scope, maxConcurrency }) => [scope, maxConcurrency]));
  return declaredCaps(configuration).flatMap(({ scope, cap: declared }) => {
    const override =
      ruleOf(scope, configuration).control === 'instead' ? overrideByScope.get(scope) : undefined;
    const cap = override ?? declared;
    return cap === null ? [] : [{ scope, cap, under: divisionName(cap, configuration.partitions) }];
  });
}

/** Returns the part of a divided cap that one partition may use: its share, plus borrowed units, minus lent ones. */
export const shareOfCap = (
  { scope, cap, under }: DividedCap,
  partition: number,
  partitions: number,
  moved: LoanBalance,
): number => Math.max(0, shareOf(cap, partition, partitions) + moved(scope, under));

/** Returns the part of the pool that one partition may use. A single partition has the whole pool. */
export function shareOfPool(
  configuration: PoolConfiguration,
  partition: number,
  moved: LoanBalance = NO_LOANS,
): PoolConfiguration {
  const { partitions } = configuration;
  if (partitions === 1 && partition === 0 && moved === NO_LOANS) return configuration;
  const shared = withCaps(configuration, ({ scope, cap }) =>
    cap === null
      ? null
      : shareOfCap({ scope, cap, under: divisionName(cap, partitions) }, partition, partitions, moved),
  );
  const tiers = shared.tiers.map((tier) => ({
    ...tier,
    guaranteed: shareOf(tier.guaranteed, partition, partitions),
  }));
  return { ...shared, tiers };
}

/**
 * Returns the part of operators' overrides that one partition may use. A fleet's override applies in addition to its
 * slots and is not lent.
 */
export function shareOfOverrides<O extends Control>(
  overrides: readonly O[],
  partition: number,
  configuration: Pick<PoolConfiguration, 'partitions' | 'limits'>,
  moved: LoanBalance = NO_LOANS,
): readonly O[] {
  const { partitions } = configuration;
  if (partitions === 1 && partition === 0 && moved === NO_LOANS) return overrides;
  return overrides.map((override) => {
    const { scope, maxConcurrency: cap } = override;
    const { isDivided, control } = ruleOf(scope, configuration);
    if (cap === undefined || !isDivided) return override;
    const movedUnits = control === 'beside' ? NO_LOANS : moved;
    const divided = { scope, cap, under: divisionName(cap, partitions) };
    return { ...override, maxConcurrency: shareOfCap(divided, partition, partitions, movedUnits) };
  });
}

/**
 * Refuses a cap that leaves a partition without a share, because jobs there would wait for ever. A cap of 0 lets no job
 * run, and may be split.
 * @throws ConfigurationError for such a cap
 */
export function requireSplittable(configuration: PoolConfiguration): void {
  const { partitions } = configuration;
  for (const { path, cap, least = 1 } of declaredCaps(configuration)) {
    if (cap === null || cap === 0 || cap >= partitions * least) continue;
    const lack = least === 1 ? 'no share of it' : `a share below the ${least} units of one job (perJob)`;
    throw new ConfigurationError(
      path,
      cap,
      `cannot be split among ${partitions} partitions: some would have ${lack}, and their jobs would wait for ever`,
      `Raise it to at least ${partitions * least}, or declare at most ${Math.floor(cap / least)} partitions.`,
    );
  }
}

/**
 * Returns the least cap that an operator may set for a scope. A lower one would leave a partition without a share, and its jobs would
 * wait for ever, unless it can borrow one: what a fleet's override takes away is not lent, and neither is a key of a limit.
 *
 * @param scope - as text
 */
export function leastOverride(scope: string, configuration: PoolConfiguration): number {
  const { partitions, lending } = configuration;
  const { isDivided, control } = ruleOf(scope, configuration);
  const isLent = control === 'instead' && lending?.maxBorrowed !== 0 && !isKeyOfLimit(scope);
  return isDivided && !isLent ? partitions : 1;
}

/**
 * The number of partitions that functions lead: only the first ones, because each takes one invocation for as long as
 * it is busy.
 */
export const LED_PARTITIONS_MAX = 32;
