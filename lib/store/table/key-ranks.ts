/**
 * Keeps the keys line near the order of the ledgers, as far as that pays.
 *
 * A key's rank there may trail its cost: a settled cost only grows, so a rank is never too high. So ranks are no part of
 * a commit: whoever reads the line remembers what it saw, knows the costs from the ledgers it read and committed, and
 * afterwards moves what stands wrong, on condition that it still stands there. A move that gets lost is made by the next
 * pass that sees the key.
 *
 * A key that stands too far in front costs its readers: an entry more, and sometimes its ledger. To move it back costs three
 * write units, as much as 800 entries or 15 ledgers, and would be to do again whenever the key is charged. So what keys in front
 * have cost is added up, and one of them is moved when that would have paid for it: both together are never more than twice what
 * they had to be (docs/decisions/fair-shares.md).
 */
import type { KeyBacklog, Ledger } from '../contract/records.ts';
import { costRank } from './schema.ts';

/** A key's entry in the keys line of a type that stands at the wrong rank. */
export interface RankMove {
  readonly type: string;
  readonly fairnessKey: string;
  readonly from: string;
  readonly to: string;
}

interface Known {
  /** By fairness key, then by type: ranks seen since the last moves. */
  readonly ranks: Map<string, Map<string, string>>;
  readonly ledgers: Map<string, Ledger>;
  /** Keys whose ledgers were read or committed since the last moves: older ones may have been overtaken by another dispatcher. */
  readonly fresh: Set<string>;
  /** What keys too far in front have cost since one was moved back, in read units. */
  spentUnits: number;
}

/** Keys remembered of one partition; beyond, they are left to a later pass. */
const KEYS_MAX = 10_000;
/** Read units of an entry of the line, some 150 bytes. */
const ENTRY_UNITS = 0.018;
/** What a move costs, in read units: three write units, of five read units each. */
const MOVE_UNITS = 15;
/** Keys moved back at once: one partition key of the index takes a thousand write units a second. */
const MOVES_MAX = 250;

/** What one store knows of the keys lines. */
export class KeyRanks {
  readonly #partitions = new Map<number, Known>();

  /** An entry of a line that goes on: of one that was read to its end, every key is known, wherever it stands. */
  sawKey(
    partition: number,
    type: string,
    { fairnessKey }: Pick<KeyBacklog, 'fairnessKey'>,
    rank: string,
  ): void {
    const { ranks } = this.#knownOf(partition);
    const ofKey = ranks.get(fairnessKey);
    if (ofKey !== undefined) ofKey.set(type, rank);
    else if (ranks.size < KEYS_MAX) ranks.set(fairnessKey, new Map([[type, rank]]));
  }

  /**
   * Ledgers that were read because their keys were met in the line.
   *
   * @param readUnits - of each of them
   */
  readLedgers(partition: number, ledgers: readonly (Ledger | undefined)[], readUnits: number): void {
    const known = this.#knownOf(partition);
    for (const ledger of ledgers) {
      if (ledger === undefined) continue;
      const to = this.rankOf(ledger);
      for (const from of known.ranks.get(ledger.fairnessKey)?.values() ?? [])
        if (from < to) known.spentUnits += readUnits;
      this.sawLedger(partition, ledger);
    }
  }

  sawLedger(partition: number, ledger: Ledger): void {
    const { ledgers, fresh } = this.#knownOf(partition);
    fresh.add(ledger.fairnessKey);
    // Behind all others: the one that was not seen for longest is the first to be forgotten.
    ledgers.delete(ledger.fairnessKey);
    ledgers.set(ledger.fairnessKey, ledger);
    if (ledgers.size <= KEYS_MAX) return;
    const [oldest] = ledgers.keys();
    if (oldest !== undefined) ledgers.delete(oldest);
  }

  rankOf(ledger: Pick<Ledger, 'fairnessKey' | 'settledCostMs'>): string {
    return costRank(ledger.settledCostMs, ledger.fairnessKey);
  }

  /**
   * What stands wrong and is to be moved now; forgets the ranks it has seen.
   *
   * @param expiredMs - a ledger whose key was there last at this instant, or before, may count no more: by it, no key is moved back
   */
  takeMoves(partition: number, expiredMs = Number.NEGATIVE_INFINITY): readonly RankMove[] {
    const known = this.#knownOf(partition);
    const toFront: RankMove[] = [];
    const back: RankMove[] = [];
    for (const [fairnessKey, byType] of known.ranks) {
      const ledger = known.ledgers.get(fairnessKey);
      if (ledger === undefined) continue;
      const to = this.rankOf(ledger);
      for (const [type, from] of byType) {
        if (from < to && ledger.lastSeenMs > expiredMs) back.push({ type, fairnessKey, from, to });
        // Too far behind, a key would be passed over. Only a fresh ledger says so, as when costs are reset.
        else if (from > to && known.fresh.has(fairnessKey)) toFront.push({ type, fairnessKey, from, to });
      }
    }
    known.ranks.clear();
    known.fresh.clear();
    known.spentUnits += ENTRY_UNITS * back.length;
    const paid = Math.min(Math.floor(known.spentUnits / MOVE_UNITS), back.length, MOVES_MAX);
    known.spentUnits -= MOVE_UNITS * paid;
    return [...toFront, ...back.slice(0, paid)];
  }

  #knownOf(partition: number): Known {
    let known = this.#partitions.get(partition);
    if (known === undefined) {
      known = { ranks: new Map(), ledgers: new Map(), fresh: new Set(), spentUnits: 0 };
      this.#partitions.set(partition, known);
    }
    return known;
  }
}
