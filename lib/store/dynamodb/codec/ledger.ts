/** A fairness key's ledger, where it stands beside the page. */
import type { LaterJob, Ledger } from '../../records.ts';
import type { ItemKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';

export const packLater = (later: readonly LaterJob[], sinceMs: number): readonly number[] =>
  later.flatMap(({ hash, untilMs }) => [hash, untilMs - sinceMs]);

/** @param pairs - hash and instant of each, in turn */
export function unpackLater(pairs: readonly number[], sinceMs: number): readonly LaterJob[] {
  return pairs.flatMap((hash, at) =>
    at % 2 === 0 ? [{ hash, untilMs: sinceMs + (pairs[at + 1] ?? Number.NaN) }] : [],
  );
}

const decodeLater = (packed: unknown): readonly LaterJob[] => {
  const pairs = packed as readonly number[];
  if (!pairs.every((each) => Number.isFinite(each)) || pairs.length % 2 !== 0) throw new TypeError('pairs');
  return unpackLater(pairs, 0);
};

/** @param version - of the page that it leaves: what left an earlier one never takes its place */
export const encodeLedger = (key: ItemKey, ledger: Ledger, version: number): Item => ({
  ...key,
  [A.version]: version,
  [A.fairnessKey]: ledger.fairnessKey,
  [A.settledCostMs]: storable(ledger.settledCostMs),
  [A.lastSeenMs]: ledger.lastSeenMs,
  [A.presentUntilMs]: ledger.presentUntilMs,
  [A.later]: ledger.later === undefined ? undefined : JSON.stringify(packLater(ledger.later, 0)),
  [A.isUndecided]: ledger.isUndecided === true ? true : undefined,
});

export function decodeLedger(item: Item): Ledger {
  const cells = cellsOf(item);
  return {
    fairnessKey: cells.text(A.fairnessKey),
    settledCostMs: cells.number(A.settledCostMs),
    lastSeenMs: cells.number(A.lastSeenMs),
    ...(cells.has(A.presentUntilMs) ? { presentUntilMs: cells.number(A.presentUntilMs) } : {}),
    ...(cells.has(A.later) ? { later: cells.packed(A.later, decodeLater) } : {}),
    ...(cells.has(A.isUndecided) ? { isUndecided: true } : {}),
  };
}
