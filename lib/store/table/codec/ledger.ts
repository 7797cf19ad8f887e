/** Encodes and decodes a fairness key's ledger with an item of its own. */
import { LEARNED_KEPT_MS } from '../../../core/defaults.ts';
import type { Use, Uses } from '../../../core/limits.ts';
import type { Ledger } from '../../contract/records.ts';
import type { ItemKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable, ttlSec } from './cells.ts';

/**
 * A window's name, then for each of its uses the seconds from the end of the one before it, and its amount. Most of these times
 * are alike, so they compress to half the size of the instants.
 */
export type UsesRow = readonly [name: string, ...numbers: readonly number[]];

export const rowsOfUses = (uses: Uses): readonly UsesRow[] =>
  [...uses].map(([name, all]) => {
    const sorted = all.toSorted(([one], [other]) => one - other);
    return [
      name,
      ...sorted.flatMap(([untilMs, amount], at) => [
        (untilMs - (sorted[at - 1]?.[0] ?? 0)) / 1_000,
        storable(amount),
      ]),
    ];
  });

export function usesOfRows(packed: unknown): Uses {
  const uses = new Map<string, readonly Use[]>();
  for (const [name, ...numbers] of packed as readonly UsesRow[]) {
    if (typeof name !== 'string' || numbers.length % 2 !== 0 || !numbers.every(Number.isFinite))
      throw new TypeError(`uses of ${String(name)}`);
    const timesSec = numbers.filter((_, at) => at % 2 === 0);
    let untilMs = 0;
    uses.set(
      name,
      timesSec.map((timeSec, at): Use => {
        untilMs += Math.round(timeSec * 1_000);
        return [untilMs, numbers[2 * at + 1] as number];
      }),
    );
  }
  return uses;
}

/** @param version - of the summary that no longer holds it: an earlier one never overwrites it */
export const encodeLedger = (key: ItemKey, ledger: Ledger, version: number): Item => ({
  ...key,
  [A.version]: version,
  [A.fairnessKey]: ledger.fairnessKey,
  [A.settledCostMs]: storable(ledger.settledCostMs),
  [A.lastSeenMs]: ledger.lastSeenMs,
  [A.uses]: ledger.uses === undefined ? undefined : JSON.stringify(rowsOfUses(ledger.uses)),
  [A.ttl]: ttlSec(ledger.lastSeenMs + LEARNED_KEPT_MS),
});

export function decodeLedger(item: Item): Ledger {
  const cells = cellsOf(item);
  return {
    fairnessKey: cells.text(A.fairnessKey),
    settledCostMs: cells.number(A.settledCostMs),
    lastSeenMs: cells.number(A.lastSeenMs),
    ...(cells.has(A.uses) ? { uses: cells.packed(A.uses, usesOfRows) } : {}),
  };
}
