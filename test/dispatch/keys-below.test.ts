/** The keys among which a search for the least share looks, however often it looks in one pass. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
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

/** A search in a pool, with pages of keys that are made as they are asked for. */
async function searchOf(
  types: readonly string[],
  pageOf: (type: string, after: number) => Pick<CachedKeys, 'keys' | 'next'>,
  shareMs = 0,
  fairness: PoolInput['fairness'] = {},
) {
  const below = new KeysBelow(
    {
      configuration: resolveConfiguration({
        types: Object.fromEntries(types.map((type) => [type, {}])),
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types, slots: 1 } },
        fairness,
      }),
    },
    {
      ledgerCache: { readLedgers: async () => {} },
      keysOf: async (type, after) => ({ readAtMs: NOW_MS, ...pageOf(type, after) }),
      namedOf: async () => [],
      recentJobs: () => [],
      isInFlight: () => false,
      shareOf: () => shareMs,
    },
  );
  const so = { leastMs: 10, isCutShort: false };
  const names: string[] = [];
  const hasKeys: boolean[] = [];
  for await (const page of below.search(10, so, new Set())) {
    names.push(...page.below.map(({ fairnessKey }) => fairnessKey));
    hasKeys.push(page.hasKeys);
  }
  return { names: names.sort(), hasKeys, isCutShort: so.isCutShort };
}

const keyOf = (fairnessKey: string, rankCostMs = 0): CachedKey => ({
  fairnessKey,
  lines: [{ mode: 'queued' }],
  announcedAtMs: NOW_MS,
  rankCostMs,
});

/** So many keys one by one, all at one rank. */
const oneByOne =
  (count: number, rankCostMs = 0) =>
  (type: string, after: number): Pick<CachedKeys, 'keys' | 'next'> => {
    const read = Math.min(count, after + 1);
    const keys = Array.from({ length: read }, (_, at) => keyOf(`${type}-${at}`, rankCostMs));
    return { keys, ...(read < count ? { next: `${read}` } : {}) };
  };

it('are not all where more keys stand than a search meets, and it says so', async () => {
  const keys = Array.from({ length: 20_000 }, (_, at) => keyOf(`${at}`));
  expect((await searchOf(['one'], () => ({ keys, next: 'more' }))).isCutShort).toBe(true);
  expect((await searchOf(['one'], () => ({ keys: keys.slice(0, 5) }))).isCutShort).toBe(false);
});

it('are there if any type has some', async () => {
  const pageOf = (type: string) => ({ keys: type === 'two' ? [keyOf('a')] : [] });
  expect((await searchOf(['one', 'two'], pageOf)).hasKeys).toEqual([true]);
});

it('are looked for further in each type whose keys may be below, not in the first only', async () => {
  const { names } = await searchOf(['one', 'two'], oneByOne(3));
  expect(names).toEqual(['one-0', 'one-1', 'one-2', 'two-0', 'two-1', 'two-2']);
});

it.each([
  ['the weight of a key that has none of its own', { defaultWeight: 20 }, 100],
  ['a reset, after which it says nothing', { resetEveryMs: 60_000 }, 1_000],
])('stand behind a rank that is taken with %s', async (_, fairness, rankCostMs) => {
  const { names } = await searchOf(['one'], oneByOne(2, rankCostMs), 5, fairness);
  expect(names).toEqual(['one-0', 'one-1']);
});
