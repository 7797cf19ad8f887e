import { describe, expect, it } from 'vitest';
import { KeyRanks } from '../../../lib/store/table/key-ranks.ts';
import { costRank } from '../../../lib/store/table/schema.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';

const key = (fairnessKey: string) => ({ fairnessKey });

const sees = (ranks: KeyRanks, type: string, fairnessKey: string, costMs: number): void =>
  ranks.sawKey(0, type, key(fairnessKey), costRank(costMs, fairnessKey));

/** Of another key than those that are looked at: it stands too far in front, and has cost its readers so many ledgers. */
const spend = (ranks: KeyRanks, ledgers: number): void => {
  sees(ranks, 'other', 'other', 0);
  for (let at = 0; at < ledgers; at += 1)
    ranks.readLedgers(0, [aLedger({ fairnessKey: 'other', settledCostMs: 1 })], 1);
};

describe('the ranks of keys', () => {
  it('trail while moving a key back would cost more than its readers have paid for it', () => {
    const ranks = new KeyRanks();
    sees(ranks, 't', 'a', 0);
    for (let at = 0; at < 14; at += 1)
      ranks.readLedgers(0, [aLedger({ fairnessKey: 'a', settledCostMs: 5 + at })], 1);
    expect(ranks.takeMoves(0)).toEqual([]);
    // What was paid is not forgotten with what was seen.
    sees(ranks, 't', 'a', 0);
    ranks.readLedgers(0, [aLedger({ fairnessKey: 'a', settledCostMs: 30 })], 1);
    const moves = [{ type: 't', fairnessKey: 'a', from: costRank(0, 'a'), to: costRank(30, 'a') }];
    expect(ranks.takeMoves(0)).toEqual(moves);
    sees(ranks, 't', 'a', 1);
    expect(ranks.takeMoves(0)).toEqual([]);
  });

  it('are moved back for the entries alone once they were read some hundred times', () => {
    const ranks = new KeyRanks();
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 5 }));
    let reads = 0;
    do {
      reads += 1;
      sees(ranks, 't', 'a', 0);
    } while (ranks.takeMoves(0).length === 0 && reads < 2_000);
    expect(reads).toBeGreaterThan(700);
    expect(reads).toBeLessThan(1_000);
  });

  it('go back in every type where the key was seen, as far as it pays, a few hundred at once', () => {
    const ranks = new KeyRanks();
    for (let at = 0; at < 2_000; at += 1) {
      for (const type of ['high', 'low']) sees(ranks, type, `k${at}`, 0);
      ranks.sawLedger(0, aLedger({ fairnessKey: `k${at}`, settledCostMs: 5 }));
    }
    // 4,000 entries pay for four moves.
    expect(ranks.takeMoves(0).map(({ type, fairnessKey }) => [type, fairnessKey])).toEqual([
      ['high', 'k0'],
      ['low', 'k0'],
      ['high', 'k1'],
      ['low', 'k1'],
    ]);
    for (let at = 0; at < 2_000; at += 1) sees(ranks, 't', `k${at}`, 0);
    spend(ranks, 10_000);
    expect(ranks.takeMoves(0)).toHaveLength(250);
  });

  it('do not go back by ledgers that may count no more: their keys begin in front', () => {
    const ranks = new KeyRanks();
    const ledger = aLedger({ fairnessKey: 'a', settledCostMs: 5, lastSeenMs: 1_000 });
    for (const [expiredMs, moves] of [
      [1_000, 0],
      [999, 1],
    ] as const) {
      sees(ranks, 't', 'a', 0);
      for (let at = 0; at < 20; at += 1) ranks.readLedgers(0, [ledger], 1);
      expect(ranks.takeMoves(0, expiredMs)).toHaveLength(moves);
    }
  });

  it('go to the front at once when a ledger that was just written says so, however many they are', () => {
    const ranks = new KeyRanks();
    for (let at = 0; at < 500; at += 1) {
      sees(ranks, 't', `k${at}`, 9);
      ranks.sawLedger(0, aLedger({ fairnessKey: `k${at}`, settledCostMs: 0 }));
    }
    expect(ranks.takeMoves(0)).toHaveLength(500);
  });
});
