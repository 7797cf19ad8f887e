/** Encodes and decodes the note about an item that cannot be read. */

import { MalformedItemError } from '../../contract/errors.ts';
import type { UnreadableItem } from '../../contract/records.ts';
import { CONTROL_PREFIX, type ItemKey, unreadableKey, WORKER_PREFIX } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { decodeBacklog } from './backlog.ts';
import { cellsOf } from './cells.ts';
import { decodeControl } from './control.ts';
import { decodeMovingJob, isJobItem } from './job.ts';
import { decodeWorkerRecord } from './worker.ts';

/** Encodes a note. It outlives the process that found the item. */
export const encodeUnreadable = (partition: number, item: Item, reason: string, seenAtMs: number): Item => {
  const key = { pk: String(item[A.pk]), sk: String(item[A.sk]) };
  return {
    ...unreadableKey(partition, key),
    [A.itemPk]: key.pk,
    [A.itemSk]: key.sk,
    [A.reason]: reason,
    [A.formerLine]: item[A.line],
    [A.formerRank]: item[A.rank],
    [A.seenAtMs]: seenAtMs,
  };
};

export function decodeUnreadable(item: Item): { readonly itemKey: ItemKey; readonly note: UnreadableItem } {
  const cells = cellsOf(item);
  const itemKey = { pk: cells.text(A.itemPk), sk: cells.text(A.itemSk) };
  return {
    itemKey,
    note: {
      key: `${itemKey.pk} ${itemKey.sk}`,
      reason: cells.text(A.reason),
      ...(cells.has(A.formerLine) ? { line: cells.text(A.formerLine) } : {}),
      ...(cells.has(A.formerRank) ? { rank: cells.text(A.formerRank) } : {}),
      seenAtMs: cells.number(A.seenAtMs),
    },
  };
}

/** Whether an item can be read that a note was written about. */
export function isReadable(item: Item): boolean {
  const sk = String(item[A.sk]);
  const decode = isJobItem(item)
    ? decodeMovingJob
    : sk.startsWith(WORKER_PREFIX)
      ? decodeWorkerRecord
      : sk.startsWith(CONTROL_PREFIX)
        ? decodeControl
        : decodeBacklog;
  try {
    decode(item);
    return true;
  } catch (error) {
    if (error instanceof MalformedItemError) return false;
    throw error;
  }
}
