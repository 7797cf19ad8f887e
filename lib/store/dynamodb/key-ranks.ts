/**
 * Keeps the keys line in the order of the ledgers.
 *
 * A key's rank there may trail its cost: a settled cost only grows, so a rank is never too high. So ranks are no part of
 * a commit: whoever reads the line remembers what it saw, knows the costs from the ledgers it read and committed, and
 * afterwards moves what stands wrong, on condition that it still stands there. A move that gets lost is made by the next
 * pass that sees the key.
 */
import type { KeyBacklog, Ledger } from '../records.ts';
import { costRank } from '../schema.ts';

/** A key's entry in the keys line of a type that stands at the wrong rank. */
export interface RankMove {
  readonly type: string;
  readonly fairnessKey: string;
  readonly from: string;
  readonly to: string;
}

interface KnownLedger {
  readonly ledger: Ledger;
  /** Read or committed since the last moves: older ones may have been overtaken by another dispatcher. */
  isFresh: boolean;
}

interface Known {
  /** By fairness key, then by type: ranks seen since the last moves. */
  readonly ranks: Map<string, Map<string, string>>;
  readonly ledgers: Map<string, KnownLedger>;
}

/** Keys remembered of one partition; beyond, they are left to a later pass. */
const KEYS_MAX = 10_000;

/** What one store knows of the keys lines. */
export class KeyRanks {
  readonly #partitions = new Map<number, Known>();

  sawKey(partition: number, type: string, backlog: KeyBacklog, rank: string): void {
    const { ranks } = this.#knownOf(partition);
    const ofKey = ranks.get(backlog.fairnessKey);
    if (ofKey !== undefined) ofKey.set(type, rank);
    else if (ranks.size < KEYS_MAX) ranks.set(backlog.fairnessKey, new Map([[type, rank]]));
  }

  sawLedger(partition: number, ledger: Ledger): void {
    const { ledgers } = this.#knownOf(partition);
    // Behind all others: the one that was not seen for longest is the first to be forgotten.
    ledgers.delete(ledger.fairnessKey);
    ledgers.set(ledger.fairnessKey, { ledger, isFresh: true });
    if (ledgers.size <= KEYS_MAX) return;
    const [oldest] = ledgers.keys();
    if (oldest !== undefined) ledgers.delete(oldest);
  }

  rankOf(ledger: Pick<Ledger, 'fairnessKey' | 'settledCostMs'>): string {
    return costRank(ledger.settledCostMs, ledger.fairnessKey);
  }

  /** What stands wrong; forgets the ranks it has seen. */
  takeMoves(partition: number): readonly RankMove[] {
    const { ranks, ledgers } = this.#knownOf(partition);
    const moves: RankMove[] = [];
    for (const [fairnessKey, byType] of ranks) {
      const known = ledgers.get(fairnessKey);
      if (known === undefined) continue;
      const to = this.rankOf(known.ledger);
      for (const [type, from] of byType) {
        // Only a fresh ledger takes a rank back, as when costs are reset.
        if (from < to || (known.isFresh && from !== to)) moves.push({ type, fairnessKey, from, to });
      }
    }
    ranks.clear();
    for (const known of ledgers.values()) known.isFresh = false;
    return moves;
  }

  #knownOf(partition: number): Known {
    const known = this.#partitions.get(partition) ?? { ranks: new Map(), ledgers: new Map() };
    this.#partitions.set(partition, known);
    return known;
  }
}
