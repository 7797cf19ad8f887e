/** The keys among which a search for the least share looks, however often it looks in one pass. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { KeysBelow } from '../../lib/dispatch/keys-below.ts';
import type { CachedKey, CachedKeys } from '../../lib/dispatch/partition-cache.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

const configuration = resolveConfiguration({
  types: { resize: {} },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 1 } },
});
const PAGE = 5;

interface Key {
  readonly rankCostMs: number;
  /** Charged since it got its rank. */
  readonly moreMs: number;
}

/** One type's line of these keys, which are named by their places, and of which nothing was read. */
function lineOf(keys: readonly Key[], inFlight: ReadonlySet<string> = new Set()) {
  const all = keys
    .map(({ rankCostMs }, at): CachedKey => {
      return { fairnessKey: `${at}`, lines: [{ mode: 'queued' }], announcedAtMs: NOW_MS, rankCostMs };
    })
    .sort((one, other) => one.rankCostMs - other.rankCostMs);
  const shares = new Map(keys.map(({ rankCostMs, moreMs }, at) => [`${at}`, rankCostMs + moreMs]));
  const known = new Set<string>();
  let line: CachedKeys | undefined;
  const below = new KeysBelow(
    { configuration },
    {
      ledgerCache: {
        readLedgers: async (read) => {
          for (const key of read) known.add(key);
        },
      },
      keysOf: async (_type, after) => {
        if (line === undefined || line.keys.length <= after) {
          const count = Math.min(all.length, (line?.keys.length ?? 0) + PAGE);
          const next = count < all.length ? { next: `${count}` } : {};
          line = { readAtMs: NOW_MS, keys: all.slice(0, count), ...next };
        }
        return line;
      },
      namedOf: async () => [],
      recentJobs: () => [],
      isInFlight: (key) => inFlight.has(key),
      shareOf: (key) => {
        if (!known.has(key)) throw new Error(`nobody has read what ${key} was charged`);
        return shares.get(key) ?? 0;
      },
    },
  );
  const found = async (heldMs: number, leastMs: number, except: readonly string[]): Promise<string[]> => {
    const names: string[] = [];
    const so = { leastMs, isCutShort: false };
    for await (const page of below.search(heldMs, so, new Set(except)))
      names.push(...page.below.map(({ fairnessKey }) => fairnessKey));
    return names;
  };
  return { found, raise: (key: string, ms: number) => shares.set(key, (shares.get(key) ?? 0) + ms), shares };
}

const keys = fc.array(
  fc.record({ rankCostMs: fc.integer({ min: 0, max: 20 }), moreMs: fc.integer({ min: 0, max: 10 }) }),
  { maxLength: 25 },
);

it('are all that are charged less, in each search of a pass, whatever an earlier one found', async () => {
  const search = fc.record({
    leastMs: fc.integer({ min: 0, max: 30 }),
    except: fc.uniqueArray(fc.nat(24), { maxLength: 3 }),
    raised: fc.nat(24),
  });
  await fc.assert(
    fc.asyncProperty(
      keys,
      fc.integer({ min: 0, max: 35 }),
      fc.array(search, { minLength: 2, maxLength: 4 }),
      fc.uniqueArray(fc.nat(24), { maxLength: 3 }),
      async (drawn, heldMs, searches, running) => {
        const inFlight = new Set(running.map(String));
        const { found, raise, shares } = lineOf(drawn, inFlight);
        for (const { leastMs, except, raised } of searches) {
          const fromMs = Math.min(leastMs, heldMs);
          const out = new Set([...except.map(String), ...inFlight]);
          const expected = [...shares]
            .filter(([key, ms]) => ms < fromMs && !out.has(key))
            .map(([key]) => key);
          expect((await found(heldMs, fromMs, except.map(String))).sort()).toEqual(expected.sort());
          // As a lift does.
          if (shares.has(`${raised}`)) raise(`${raised}`, 4);
        }
      },
    ),
  );
});

it('come with the least share first, as far as a page of the line goes', async () => {
  const { found } = lineOf([5, 9, 2, 7].map((moreMs) => ({ rankCostMs: 0, moreMs })));
  expect(await found(8, 8, [])).toEqual(['2', '0', '3']);
});
