/** Encodes and decodes a fairness key's ledger with an item of its own. */
import { LEARNED_KEPT_MS } from '../../../core/defaults.ts';
import type { Use, Uses } from '../../../core/limits.ts';
import type { Ledger } from '../../contract/records.ts';
import type { ItemKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable, ttlSec } from './cells.ts';

/** A window's name, then the ends and the amounts of its uses in turn. */
export type UsesRow = readonly [name: string, ...numbers: readonly number[]];

export const rowsOfUses = (uses: Uses): readonly UsesRow[] =>
  [...uses].map(([name, all]) => [name, ...all.flatMap(([untilMs, amount]) => [untilMs, storable(amount)])]);

export function usesOfRows(packed: unknown): Uses {
  const uses = new Map<string, readonly Use[]>();
  for (const [name, ...numbers] of packed as readonly UsesRow[]) {
    if (typeof name !== 'string' || numbers.length % 2 !== 0 || !numbers.every(Number.isFinite))
      throw new TypeError(`uses of ${String(name)}`);
    const ends = numbers.filter((_, at) => at % 2 === 0);
    uses.set(
      name,
      ends.map((untilMs, at): Use => [untilMs, numbers[2 * at + 1] as number]),
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
