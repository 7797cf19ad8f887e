/** Encodes and decodes the record of a conflict key with a blocked line. */
import type { ParkedMark } from '../../contract/records.ts';
import { parkedKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

export const encodeParkedMark = (partition: number, { conflictKey, parkedAtMs }: ParkedMark): Item => ({
  ...parkedKey(partition, conflictKey),
  [A.conflictKey]: conflictKey,
  [A.parkedAtMs]: parkedAtMs,
});

export function decodeParkedMark(item: Item): ParkedMark {
  const cells = cellsOf(item);
  return { conflictKey: cells.text(A.conflictKey), parkedAtMs: cells.number(A.parkedAtMs) };
}
