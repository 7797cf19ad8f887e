/** Decodes the leader of a partition, and encodes and decodes the last check of its workers. */
import type { Leader, Lookout } from '../../contract/records.ts';
import { lookoutKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf } from './cells.ts';

export interface LeaderItem {
  /** Undefined: the partition has no leader, or the last one has released it. */
  readonly leader: Leader | undefined;
  readonly declared: number | undefined;
}

export function decodeLeader(item: Item): LeaderItem {
  const cells = cellsOf(item);
  return {
    leader: cells.has(A.holder)
      ? {
          holder: cells.text(A.holder),
          untilMs: cells.number(A.untilMs),
          wantsLetters: cells.flag(A.wantsLetters),
        }
      : undefined,
    declared: cells.has(A.declared) ? cells.count(A.declared) : undefined,
  };
}

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
