/** Decodes an operator's control of one scope. */

import type { Control } from '../../../core/capacity.ts';
import { CONTROL_PREFIX } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

/** A control that cannot be read counts as a pause of its scope. */
export const unreadableControl = (item: Item): Control => ({
  scope: String(item[A.sk]).slice(CONTROL_PREFIX.length),
  paused: true,
});

export function decodeControl(item: Item): Control {
  const cells = cellsOf(item);
  return {
    scope: cells.text(A.scope),
    paused: cells.flag(A.paused),
    ...(cells.has(A.maxConcurrency) ? { maxConcurrency: cells.count(A.maxConcurrency) } : {}),
    ...(cells.has(A.weight) ? { weight: cells.number(A.weight) } : {}),
  };
}
