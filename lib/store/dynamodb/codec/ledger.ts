/** A fairness key's ledger, where it stands beside the page. */
import type { Ledger } from '../../records.ts';
import type { ItemKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';

/** @param version - of the page that it leaves: what left an earlier one never takes its place */
export const encodeLedger = (key: ItemKey, ledger: Ledger, version: number): Item => ({
  ...key,
  [A.version]: version,
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
