/** The small items of a partition: its lease, its wakes, the shards of its due line, the last look at its workers. */
import type { Carried, Lookout } from '../../records.ts';
import { lookoutKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf } from './cells.ts';

export interface LeaseItem {
  readonly epoch: number;
  readonly holder: string | undefined;
  readonly expiresAtMs: number;
  readonly callId: string | undefined;
  readonly wakesSeen: number | undefined;
  readonly lastHolder: string | undefined;
  readonly takenAtMs: number | undefined;
  readonly declared: number | undefined;
  readonly carried: Carried | undefined;
}

export const encodeCarried = (carried: Carried): Item => ({
  [A.version]: carried.version,
  [A.moved]: carried.moved,
  [A.isDone]: carried.isDone,
  [A.after]: carried.after,
  [A.sinceEpoch]: carried.sinceEpoch,
  [A.isHandedOver]: carried.isHandedOver,
});

const decodeCarried = (cells: Cells): Carried => ({
  version: cells.count(A.version),
  moved: cells.count(A.moved),
  isDone: cells.flag(A.isDone),
  ...(cells.has(A.after) ? { after: cells.text(A.after) } : {}),
  ...(cells.has(A.sinceEpoch) ? { sinceEpoch: cells.count(A.sinceEpoch) } : {}),
  ...(cells.has(A.isHandedOver) ? { isHandedOver: cells.flag(A.isHandedOver) } : {}),
});

export function decodeLease(item: Item): LeaseItem {
  const cells = cellsOf(item);
  return {
    epoch: cells.count(A.epoch),
    holder: cells.has(A.holder) ? cells.text(A.holder) : undefined,
    expiresAtMs: cells.number(A.expiresAtMs),
    callId: cells.has(A.callId) ? cells.text(A.callId) : undefined,
    wakesSeen: cells.has(A.wakesSeen) ? cells.count(A.wakesSeen) : undefined,
    lastHolder: cells.has(A.lastHolder) ? cells.text(A.lastHolder) : undefined,
    takenAtMs: cells.has(A.takenAtMs) ? cells.number(A.takenAtMs) : undefined,
    declared: cells.has(A.declared) ? cells.count(A.declared) : undefined,
    carried: cells.has(A.carried) ? decodeCarried(cells.map(A.carried)) : undefined,
  };
}

export const decodeDueShards = (item: Item): number => cellsOf(item).count(A.dueShards);

export const decodeWakes = (item: Item): number => cellsOf(item).count(A.wakes);

export const encodeLookout = (partition: number, lookout: Lookout, callId: string): Item => ({
  ...lookoutKey(partition),
  [A.sinceMs]: lookout.sinceMs,
  [A.atMs]: lookout.atMs,
  [A.nextAtMs]: lookout.nextAtMs,
  [A.judgedUntilMs]: lookout.judgedUntilMs,
  [A.callId]: callId,
});

export function decodeLookout(item: Item): Lookout {
  const cells = cellsOf(item);
  return {
    sinceMs: cells.number(A.sinceMs),
    atMs: cells.number(A.atMs),
    nextAtMs: cells.number(A.nextAtMs),
    judgedUntilMs: cells.number(A.judgedUntilMs),
  };
}
