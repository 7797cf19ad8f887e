/** Decodes the lock of a conflict key. */

import type { Lock } from '../../contract/records.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf } from './cells.ts';

/** Returns a partition as an element of a set. */
export const encodePartition = (partition: number): string => String(partition);

/** Decodes a set of partitions, in ascending order. */
export function decodePartitions(cells: Cells, name: string): readonly number[] {
  const texts = cells.has(name) ? cells.texts(name) : [];
  return texts
    .map((text) => {
      if (!/^\d{1,6}$/.test(text)) throw cells.malformed(name, 'a set of partitions');
      return Number(text);
    })
    .sort((one, other) => one - other);
}

export function decodeLock(item: Item): Lock {
  const cells = cellsOf(item);
  return {
    conflictKey: cells.text(A.conflictKey),
    ...(cells.has(A.claimId)
      ? {
          holder: {
            partition: cells.count(A.partition),
            claimId: cells.text(A.claimId),
            jobId: cells.text(A.jobId),
          },
        }
      : {}),
    ...(cells.has(A.turnOf)
      ? { turn: { partition: cells.count(A.turnOf), untilMs: cells.number(A.untilMs) } }
      : {}),
    waiting: decodePartitions(cells, A.waiting),
  };
}
