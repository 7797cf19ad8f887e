/** Encodes and decodes the control of one scope. */

import {
  CONTROL_FIELDS,
  type Control,
  type ControlEntry,
  type ControlField,
} from '../../../core/capacity.ts';
import { inOrder } from '../../contract/requests.ts';
import { CONTROL_PREFIX } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf, numberIn, textIn } from './cells.ts';

/** Returns the control for an item that cannot be read: a pause of its scope. */
export const unreadableControl = (item: Item): Control => ({
  scope: String(item[A.sk]).slice(CONTROL_PREFIX.length),
  paused: true,
});

export function decodeControl(item: Item): Control {
  const cells = cellsOf(item);
  const changes = inOrder(CONTROL_FIELDS.flatMap((field) => changesIn(cells, field)));
  return {
    scope: cells.text(A.scope),
    paused: cells.flag(A.paused),
    ...(cells.has(A.maxConcurrency) ? { maxConcurrency: cells.count(A.maxConcurrency) } : {}),
    ...(cells.has(A.weight) ? { weight: cells.number(A.weight) } : {}),
    ...(cells.has(A.restsUntilMs) ? { restsUntilMs: cells.number(A.restsUntilMs) } : {}),
    ...(changes.length === 0 ? {} : { changes }),
  };
}

/** New value, time, end or 0, reason or 0, author. */
type ChangeRow = readonly [ControlEntry['to'], number, number, string | 0, string?];

/** Returns the changes of one part as text; undefined for none. */
export function encodeChanges(
  changes: readonly ControlEntry[] | undefined,
  field: ControlField,
): string | undefined {
  const rows = (changes ?? [])
    .filter((entry) => entry.field === field)
    .map(
      ({ to, atMs, untilMs = 0, reason, by }): ChangeRow => [
        to,
        atMs,
        untilMs,
        reason ?? 0,
        ...(by === undefined ? ([] as const) : ([by] as const)),
      ],
    );
  return rows.length === 0 ? undefined : JSON.stringify(rows);
}

function changesIn(cells: Cells, field: ControlField): readonly ControlEntry[] {
  const name = A[`${field}Changes`];
  if (!cells.has(name)) return [];
  return cells.packed(name, (rows) =>
    (rows as readonly ChangeRow[]).map(([to, atMs, untilMs, reason, by]) => ({
      field,
      to: to === null || typeof to === 'boolean' ? to : numberIn(to),
      atMs: numberIn(atMs),
      ...(untilMs === 0 ? {} : { untilMs: numberIn(untilMs) }),
      ...(reason === 0 ? {} : { reason: textIn(reason) }),
      ...(by === undefined ? {} : { by: textIn(by) }),
    })),
  );
}
