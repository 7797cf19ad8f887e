import { describe, expect, it } from 'vitest';
import { KeyRanks } from '../../../lib/store/dynamodb/key-ranks.ts';
import { costRank } from '../../../lib/store/schema.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';

const backlog = (fairnessKey: string) => ({ fairnessKey, lines: [], announcedAtMs: 1, rankCostMs: 0 });

describe('the ranks of keys', () => {
  it('move where a ledger says another cost than the line, in every type where the key was seen', () => {
    const ranks = new KeyRanks();
    const from = costRank(0, 'a');
    ranks.sawKey(0, 'high', backlog('a'), from);
    ranks.sawKey(0, 'low', backlog('a'), from);
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 5 }));
    const to = costRank(5, 'a');
    expect(ranks.takeMoves(0)).toEqual([
      { type: 'high', fairnessKey: 'a', from, to },
      { type: 'low', fairnessKey: 'a', from, to },
    ]);
  });

  it('stay where they are right, where no ledger was seen, and where the key was not seen', () => {
    const ranks = new KeyRanks();
    ranks.sawKey(0, 't', backlog('right'), costRank(7, 'right'));
    ranks.sawKey(0, 't', backlog('never charged'), costRank(0, 'never charged'));
    ranks.sawLedger(0, aLedger({ fairnessKey: 'right', settledCostMs: 7 }));
    ranks.sawLedger(0, aLedger({ fairnessKey: 'without backlog', settledCostMs: 7 }));
    expect(ranks.takeMoves(0)).toEqual([]);
  });

  it('follow the newest ledger, and are forgotten once taken', () => {
    const ranks = new KeyRanks();
    const from = costRank(1, 'a');
    ranks.sawKey(0, 't', backlog('a'), from);
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 2 }));
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 3 }));
    expect(ranks.takeMoves(0)).toEqual([{ type: 't', fairnessKey: 'a', from, to: costRank(3, 'a') }]);
    expect(ranks.takeMoves(0)).toEqual([]);
  });

  it('know a ledger from an earlier pass, and let it move a key on but not back', () => {
    const ranks = new KeyRanks();
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 5 }));
    expect(ranks.takeMoves(0)).toEqual([]);
    const from = costRank(1, 'a');
    ranks.sawKey(0, 't', backlog('a'), from);
    expect(ranks.takeMoves(0)).toEqual([{ type: 't', fairnessKey: 'a', from, to: costRank(5, 'a') }]);
    ranks.sawKey(0, 't', backlog('a'), costRank(9, 'a'));
    expect(ranks.takeMoves(0)).toEqual([]);
  });

  it('go back when a ledger that was just written says so', () => {
    const ranks = new KeyRanks();
    const from = costRank(9, 'a');
    ranks.sawKey(0, 't', backlog('a'), from);
    ranks.sawLedger(0, aLedger({ fairnessKey: 'a', settledCostMs: 0 }));
    expect(ranks.takeMoves(0)).toEqual([{ type: 't', fairnessKey: 'a', from, to: costRank(0, 'a') }]);
  });

  it('are apart by partition', () => {
    const ranks = new KeyRanks();
    ranks.sawKey(0, 't', backlog('a'), costRank(0, 'a'));
    ranks.sawLedger(1, aLedger({ fairnessKey: 'a', settledCostMs: 9 }));
    expect(ranks.takeMoves(0)).toEqual([]);
    expect(ranks.takeMoves(1)).toEqual([]);
  });
});
