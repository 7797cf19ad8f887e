/** Encodes and decodes a rejected request. */
import type { Rejection } from '../../contract/records.ts';
import { REJECTIONS_LINE, rejectionKey, rejectionRank } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, ttlSec } from './cells.ts';

export const encodeRejection = (rejection: Rejection): Item => ({
  ...rejectionKey(rejection.sourceId, rejection.position),
  [A.sourceId]: rejection.sourceId,
  [A.position]: rejection.position,
  [A.field]: rejection.field,
  [A.reason]: rejection.reason,
  [A.detail]: rejection.detail,
  [A.rejectedAtMs]: rejection.rejectedAtMs,
  [A.expiresAtMs]: rejection.expiresAtMs,
  [A.line]: REJECTIONS_LINE,
  [A.rank]: rejectionRank(rejection),
  [A.ttl]: ttlSec(rejection.expiresAtMs),
});

export function decodeRejection(item: Item): Rejection {
  const cells = cellsOf(item);
  return {
    sourceId: cells.text(A.sourceId),
    position: cells.count(A.position),
    field: cells.text(A.field),
    reason: cells.text(A.reason),
    detail: cells.text(A.detail),
    rejectedAtMs: cells.number(A.rejectedAtMs),
    expiresAtMs: cells.number(A.expiresAtMs),
  };
}
