/**
 * Keeps the keys line in the order of the ledgers.
 *
 * A key's rank there may trail its cost: a settled cost only grows, so a rank is never too high and a merge that reads
 * the line lazily stays exact; it only reads more. So ranks are no part of a commit: whoever reads the line remembers
 * what it saw, learns the costs from the ledgers it reads and commits, and afterwards moves what stands wrong, on
 * condition that it still stands there. A move that gets lost is made by the next pass that sees the key.
 */
import type { KeyBacklog, Ledger } from '../contract.ts';
import { costRank } from './codec.ts';

/** A key's entry in the keys line of a tier that stands at the wrong rank. */
export interface RankMove {
  readonly tier: string;
  readonly fairnessKey: string;
  readonly from: string;
  readonly to: string;
}

interface Seen {
  readonly ranksByTier: Map<string, string>;
  ledger?: Ledger | undefined;
}

/** Keys remembered of one partition between two commits; beyond, they are left to a later pass. */
const KEYS_MAX = 10_000;

/** What one store has seen of the keys lines since its last commit. */
export class KeyRanks {
  readonly #weightOf: (fairnessKey: string) => number;
  readonly #partitions = new Map<number, Map<string, Seen>>();

  constructor(weightOf: (fairnessKey: string) => number) {
    this.#weightOf = weightOf;
  }

  sawKey(partition: number, tier: string, backlog: KeyBacklog, rank: string): void {
    const keys = this.#partitions.get(partition) ?? new Map<string, Seen>();
    this.#partitions.set(partition, keys);
    const seen = keys.get(backlog.fairnessKey);
    if (seen !== undefined) seen.ranksByTier.set(tier, rank);
    else if (keys.size < KEYS_MAX) keys.set(backlog.fairnessKey, { ranksByTier: new Map([[tier, rank]]) });
  }

  sawLedger(partition: number, ledger: Ledger): void {
    const seen = this.#partitions.get(partition)?.get(ledger.fairnessKey);
    if (seen !== undefined) seen.ledger = ledger;
  }

  rankOf(ledger: Pick<Ledger, 'fairnessKey' | 'settledCostMs'>): string {
    return costRank(ledger.settledCostMs, this.#weightOf(ledger.fairnessKey), ledger.fairnessKey);
  }

  /** What stands wrong; forgets what it has seen. */
  takeMoves(partition: number): readonly RankMove[] {
    const keys = this.#partitions.get(partition) ?? new Map<string, Seen>();
    this.#partitions.delete(partition);
    const moves: RankMove[] = [];
    for (const [fairnessKey, { ranksByTier, ledger }] of keys) {
      if (ledger === undefined) continue;
      const to = this.rankOf(ledger);
      for (const [tier, from] of ranksByTier) {
        if (from !== to) moves.push({ tier, fairnessKey, from, to });
      }
    }
    return moves;
  }
}
