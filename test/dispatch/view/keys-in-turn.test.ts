/** Keys of a type in the order of their shares, from a line in the order of ranks that trail. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import { BackloggedKeys, type KeyShares, keyShares } from '../../../lib/dispatch/view/keys.ts';
import { View } from '../../../lib/dispatch/view/view.ts';
import type { KeyBacklog } from '../../../lib/store/contract/records.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';

interface Key {
  readonly rankCostMs: number;
  readonly costMs: number;
}

/** A line of keys named by their places, read in pages of at most so many, of which the reads are counted. */
function lineOf(keys: readonly Key[], pageMax = Number.POSITIVE_INFINITY) {
  const entries = keys
    .map(({ rankCostMs }, at): KeyBacklog => {
      return { fairnessKey: `${at}`, lines: [{ mode: 'queued' }], announcedAtMs: NOW_MS, rankCostMs };
    })
    .sort((one, other) => one.rankCostMs - other.rankCostMs);
  const reads: number[] = [];
  const costOf = (fairnessKey: string): number => keys[Number(fairnessKey)]?.costMs ?? 0;
  const told = new Set<string>();
  const shares: KeyShares = {
    read: async (names) => {
      for (const name of names) told.add(name);
    },
    of: ({ fairnessKey }) => {
      if (!told.has(fairnessKey)) throw new Error(`nothing was read of ${fairnessKey}`);
      return costOf(fairnessKey);
    },
    behind: (rankCostMs) => rankCostMs,
  };
  const store = {
    readKeys: async ({ limit, after }: { readonly limit: number; readonly after?: string | undefined }) => {
      const from = Number(after ?? 0);
      const to = Math.min(from + Math.min(limit, pageMax), entries.length);
      reads.push(to - from);
      return { keys: entries.slice(from, to), ...(to < entries.length ? { next: String(to) } : {}) };
    },
    readBacklogs: async () => [],
  };
  const backlogged = new BackloggedKeys(store, {
    partition: 0,
    ledgerCache: { weighted: [] },
    view: new View(),
    livesHere: () => true,
    nowMs: NOW_MS,
  });
  return { backlogged, shares, reads, costOf };
}

describe('keys in turn', () => {
  it('come by what they were charged, each once, whatever their ranks, and in whatever bites', async () => {
    const key = fc
      .record({ rankCostMs: fc.integer({ min: 0, max: 50 }), more: fc.integer({ min: 0, max: 50 }) })
      .map(({ rankCostMs, more }): Key => ({ rankCostMs, costMs: rankCostMs + more }));
    await fc.assert(
      fc.asyncProperty(
        fc.array(key, { maxLength: 400 }),
        fc.array(fc.integer({ min: 1, max: 120 }), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 3, max: 90 }),
        async (keys, bites, pageMax) => {
          const { backlogged, shares, costOf } = lineOf(keys, pageMax);
          const costs: number[] = [];
          const names = new Set<string>();
          for (let bite = 0, more = true; more; bite += 1) {
            const given = await backlogged.next('t', bites[bite % bites.length] ?? 1, shares);
            for (const { key: met, share } of given.keys) {
              expect(share).toBe(costOf(met.fairnessKey));
              costs.push(share);
              names.add(met.fairnessKey);
            }
            ({ more } = given);
          }
          expect(costs).toEqual(keys.map(({ costMs }) => costMs).sort((one, other) => one - other));
          expect(names.size).toBe(keys.length);
        },
      ),
    );
  });

  it('are read as far as they may come next, and no further', async () => {
    const ordered = Array.from({ length: 1_000 }, (_, at) => ({ rankCostMs: at, costMs: at }));
    const one = lineOf(ordered);
    expect((await one.backlogged.next('t', 50, one.shares)).keys).toHaveLength(50);
    expect(one.reads).toEqual([100]);
    // The first three hundred were charged since: those behind are their better.
    const trailing = ordered.map((key, at) => (at < 300 ? { ...key, costMs: 2_000 } : key));
    const other = lineOf(trailing);
    const { keys, more } = await other.backlogged.next('t', 50, other.shares);
    expect(keys.map(({ key }) => key.fairnessKey)).toEqual(
      Array.from({ length: 50 }, (_, at) => `${300 + at}`),
    );
    expect(more).toBe(true);
    expect(other.reads).toEqual([100, 100, 200]);
  });

  it.each([
    [
      'are read to the end of their line where costs are reset, as ranks tell of charges before',
      1_000,
      '100',
    ],
    ['are not read further than their ranks ask for where nothing is reset', null, '0'],
  ])('%s', async (_, resetEveryMs, first) => {
    // A hundred keys of one rank, and one behind them that was forgiven all.
    const keys = [
      ...Array.from({ length: 100 }, () => ({ rankCostMs: 1, costMs: 1 })),
      { rankCostMs: 9, costMs: 0 },
    ];
    const { backlogged, shares } = lineOf(keys);
    const { fairness } = resolveConfiguration({ types: { t: {} }, fairness: { resetEveryMs } });
    const { behind } = keyShares(
      { isKnown: () => true, ledgerOf: () => undefined, readLedgers: async () => {}, weightOf: () => 1 },
      { isKeyFull: () => false },
      fairness,
    );
    const given = await backlogged.next('t', 1, { ...shares, behind });
    expect(given.keys.map(({ key }) => key.fairnessKey)).toEqual([first]);
  });
});
