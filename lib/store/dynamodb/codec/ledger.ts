/** A fairness key's ledger, where it stands beside the page. */
import type { Ledger } from '../../records.ts';
import type { ItemKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';

export const encodeLedger = (key: ItemKey, ledger: Ledger): Item => ({
  ...key,
  [A.fairnessKey]: ledger.fairnessKey,
  [A.settledCostMs]: storable(ledger.settledCostMs),
  [A.lastSeenMs]: ledger.lastSeenMs,
});

export function decodeLedger(item: Item): Ledger {
  const cells = cellsOf(item);
  return {
    fairnessKey: cells.text(A.fairnessKey),
    settledCostMs: cells.number(A.settledCostMs),
    lastSeenMs: cells.number(A.lastSeenMs),
  };
}
