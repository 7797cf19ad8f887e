/** Encodes and decodes a fairness key's ledger with an item of its own. */
import { LEARNED_KEPT_MS } from '../../../core/defaults.ts';
import type { Ledger } from '../../contract/records.ts';
import type { ItemKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable, ttlSec } from './cells.ts';

/** @param version - of the summary that no longer holds it: an earlier one never overwrites it */
export const encodeLedger = (key: ItemKey, ledger: Ledger, version: number): Item => ({
  ...key,
  [A.version]: version,
  [A.fairnessKey]: ledger.fairnessKey,
  [A.settledCostMs]: storable(ledger.settledCostMs),
  [A.lastSeenMs]: ledger.lastSeenMs,
  [A.ttl]: ttlSec(ledger.lastSeenMs + LEARNED_KEPT_MS),
});

export function decodeLedger(item: Item): Ledger {
  const cells = cellsOf(item);
  return {
    fairnessKey: cells.text(A.fairnessKey),
    settledCostMs: cells.number(A.settledCostMs),
    lastSeenMs: cells.number(A.lastSeenMs),
  };
}
