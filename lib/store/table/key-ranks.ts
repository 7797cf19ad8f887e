/**
 * Moves keys in the keys line to the position of their ledgers' costs, if that pays.
 *
 * A key's rank may lag behind its cost. A settled cost only grows, so a rank is never too high. Ranks are therefore no part of a commit:
 * the store remembers the ranks that it has read and the costs that it has read or committed, and moves wrong entries afterwards, on
 * condition that the rank is unchanged. If a move gets lost, the next pass that reads the key repeats it.
 *
 * A key that stands too far in front costs its readers an entry, and sometimes a ledger. To move it back costs three write units, as much
 * as 800 entries or 15 ledgers, and has to be repeated whenever the key is charged. So the costs of such keys are added up, and one key is
 * moved whenever the sum would have paid for the move. The total is then at most twice the least possible cost
 * (docs/decisions/fair-shares.md).
 */
import type { KeyBacklog, Ledger } from '../contract/records.ts';
import { costRank } from './schema.ts';

/** A move of a key's entry in the keys line of a type, from a wrong rank to the right one. */
export interface RankMove {
  readonly type: string;
  readonly fairnessKey: string;
  readonly from: string;
  readonly to: string;
}

interface PartitionRanks {
  /** Ranks that were read since the last moves: by fairness key, then by type. */
  readonly ranks: Map<string, Map<string, string>>;
  readonly ledgers: Map<string, Ledger>;
  /** Keys whose ledgers were read or committed since the last moves. Older ledgers may have been changed by another dispatcher. */
  readonly fresh: Set<string>;
  /** Read units that keys too far in front have cost and that no move was charged for. */
  spentUnits: number;
}

/** How many keys of one partition are remembered. A later pass moves the others. */
const KEYS_MAX = 10_000;
/** Read units of one entry of the line, some 150 bytes. */
const ENTRY_UNITS = 0.018;
/** The cost of a move in read units: three write units, of five read units each. */
const MOVE_UNITS = 15;
/** How many keys are moved back at once. One partition key of the index takes a thousand write units a second. */
const MOVES_MAX = 250;

/** The ranks and ledgers that one store has seen. */
export class KeyRanks {
  readonly #partitions = new Map<number, PartitionRanks>();

  /**
   * Records an entry of a line that has more entries than were read. A line that was read to its end needs no moves, because all its keys
   * are known.
   */
  sawKey(
    partition: number,
    type: string,
    { fairnessKey }: Pick<KeyBacklog, 'fairnessKey'>,
    rank: string,
  ): void {
    const { ranks } = this.#partition(partition);
    const ofKey = ranks.get(fairnessKey);
    if (ofKey !== undefined) ofKey.set(type, rank);
    else if (ranks.size < KEYS_MAX) ranks.set(fairnessKey, new Map([[type, rank]]));
  }

  /**
   * Records ledgers that were read because their keys were found in the line, and what these reads cost.
   * @param readUnits - the cost of each ledger
   */
  readLedgers(partition: number, ledgers: readonly (Ledger | undefined)[], readUnits: number): void {
    const known = this.#partition(partition);
    for (const ledger of ledgers) {
      if (ledger === undefined) continue;
      const to = this.rankOf(ledger);
      for (const from of known.ranks.get(ledger.fairnessKey)?.values() ?? [])
        if (from < to) known.spentUnits += readUnits;
      this.sawLedger(partition, ledger);
    }
  }

  sawLedger(partition: number, ledger: Ledger): void {
    const { ledgers, fresh } = this.#partition(partition);
    fresh.add(ledger.fairnessKey);
    // Moves the key to the end of the map: the key that was not seen for longest is forgotten first.
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
   * Chooses the entries to move now, and forgets the ranks that it has seen.
   *
   * @param expiredMs - a ledger that was last seen at this instant, or before, may have expired, so its key is not moved back
   */
  takeMoves(partition: number, expiredMs = Number.NEGATIVE_INFINITY): readonly RankMove[] {
    const known = this.#partition(partition);
    const toFront: RankMove[] = [];
    const toBack: RankMove[] = [];
    for (const [fairnessKey, byType] of known.ranks) {
      const ledger = known.ledgers.get(fairnessKey);
      if (ledger === undefined) continue;
      const to = this.rankOf(ledger);
      for (const [type, from] of byType) {
        if (from < to && ledger.lastSeenMs > expiredMs) toBack.push({ type, fairnessKey, from, to });
        // A key too far behind would be skipped. This happens when costs are reset, and only a fresh ledger proves it.
        else if (from > to && known.fresh.has(fairnessKey)) toFront.push({ type, fairnessKey, from, to });
      }
    }
    known.ranks.clear();
    known.fresh.clear();
    known.spentUnits += ENTRY_UNITS * toBack.length;
    const paid = Math.min(Math.floor(known.spentUnits / MOVE_UNITS), toBack.length, MOVES_MAX);
    known.spentUnits -= MOVE_UNITS * paid;
    return [...toFront, ...toBack.slice(0, paid)];
  }

  #partition(partition: number): PartitionRanks {
    let known = this.#partitions.get(partition);
    if (known === undefined) {
      known = { ranks: new Map(), ledgers: new Map(), fresh: new Set(), spentUnits: 0 };
      this.#partitions.set(partition, known);
    }
    return known;
  }
}
