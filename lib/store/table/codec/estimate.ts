/** Encodes and decodes an estimate with an item of its own. */

import { LEARNED_KEPT_MS } from '../../../core/defaults.ts';
import type { EstimateRecord } from '../../contract/records.ts';
import type { ItemKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable, ttlSec } from './cells.ts';

/** @param version - the version of the commit that it belongs to: an earlier one never overwrites it */
export const encodeEstimate = (key: ItemKey, estimate: EstimateRecord, version: number): Item => ({
  ...key,
  [A.version]: version,
  [A.type]: estimate.type,
  [A.resourceId]: estimate.resourceId,
  [A.meanMs]: storable(estimate.meanMs),
  [A.varianceMs2]: storable(estimate.varianceMs2),
  [A.samples]: estimate.samples,
  [A.lastSeenMs]: estimate.lastSeenMs,
  [A.ttl]: ttlSec(estimate.lastSeenMs + LEARNED_KEPT_MS),
});

export function decodeEstimate(item: Item): EstimateRecord {
  const cells = cellsOf(item);
  return {
    type: cells.text(A.type),
    resourceId: cells.text(A.resourceId),
    meanMs: cells.number(A.meanMs),
    varianceMs2: cells.number(A.varianceMs2),
    samples: cells.count(A.samples),
    lastSeenMs: cells.number(A.lastSeenMs),
  };
}
