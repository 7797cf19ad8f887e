import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import {
  dividedCaps,
  homePartitionsOf,
  partitionOf,
  requireSplittable,
  shareOfDivision,
  shareOfOverrides,
  shareOfPool,
} from '../../lib/core/partition.ts';

describe('a fairness key', () => {
  it.each([
    ['', [0, 0, 10]],
    ['tenant-a', [1, 0, 13]],
    ['tenant-b', [1, 1, 7]],
    ['Größe-日本', [0, 2, 12]],
    ['key/with/slashes', [1, 0, 5]],
  ] as const)('%j lives where it has always lived', (key, expected) => {
    expect([2, 3, 16].map((partitions) => partitionOf(key, partitions))).toEqual(expected);
    expect(partitionOf(key, 1)).toBe(0);
  });

  it('has had its home wherever a number of partitions put it, each place once', () => {
    expect(homePartitionsOf('tenant-a', [2, 3, 16])).toEqual([1, 0, 13]);
    expect(homePartitionsOf('tenant-b', [2, 1, 3, 2])).toEqual([1, 0]);
    expect(homePartitionsOf('tenant-b', [])).toEqual([]);
  });

  it('is as likely in any partition as in another', () => {
    const counts = [0, 0, 0, 0, 0];
    for (let at = 0; at < 10_000; at += 1) {
      const partition = partitionOf(`tenant-${at}`, counts.length);
      counts[partition] = (counts[partition] ?? 0) + 1;
    }
    for (const count of counts) expect(Math.abs(count - 2_000)).toBeLessThan(150);
  });
});

const caps = { min: 8, max: 50 };
const pools = fc
  .record({
    partitions: fc.integer({ min: 1, max: 8 }),
    pool: fc.option(fc.integer(caps)),
    tier: fc.option(fc.integer(caps)),
    type: fc.option(fc.integer(caps)),
    slots: fc.option(fc.integer(caps)),
    guaranteed: fc.integer({ min: 0, max: 8 }),
  })
  .map(({ partitions, pool, tier, type, slots, guaranteed }) =>
    resolveConfiguration({
      partitions,
      maxConcurrency: pool,
      tiers: [{ tier: 'standard', maxConcurrency: tier, guaranteed }],
      types: { resize: { maxConcurrency: type } },
      fleets: { images: { types: ['resize'], slots } },
    }),
  );

describe("a partition's share", () => {
  it('adds up to every cap of the pool, and is never none', () => {
    fc.assert(
      fc.property(pools, (configuration) => {
        const shares = Array.from({ length: configuration.partitions }, (_, at) =>
          shareOfPool(configuration, at),
        );
        const of = (pick: (pool: (typeof shares)[number]) => number | null | undefined) => {
          const whole = pick(configuration) ?? null;
          const parts = shares.map((share) => pick(share) ?? null);
          if (whole === null) expect(parts.every((part) => part === null)).toBe(true);
          else {
            expect(parts.reduce<number>((sum, part) => sum + (part ?? 0), 0)).toBe(whole);
            expect(Math.min(...parts.map((part) => part ?? 0))).toBeGreaterThan(0);
          }
        };
        of((pool) => pool.maxConcurrency);
        of((pool) => pool.tiers[0]?.maxConcurrency);
        of((pool) => pool.types[0]?.maxConcurrency);
        of((pool) => pool.fleets[0]?.slots);
        const guaranteed = shares.reduce((sum, share) => sum + (share.tiers[0]?.guaranteed ?? 0), 0);
        expect(guaranteed).toBe(configuration.tiers[0]?.guaranteed);
      }),
    );
  });

  it('is the whole pool where there is one partition', () => {
    const configuration = resolveConfiguration({ types: { a: {} }, maxConcurrency: 3 });
    expect(shareOfPool(configuration, 0)).toBe(configuration);
    const overrides = [{ scope: 'pool', paused: false, maxConcurrency: 3 }];
    expect(shareOfOverrides(overrides, 0, { partitions: 1 })).toBe(overrides);
  });

  it("grows and shrinks by what is lent, never below nothing, and is the lender's loss", () => {
    const configuration = resolveConfiguration({
      partitions: 2,
      maxConcurrency: 8,
      tiers: [{ tier: 'standard', maxConcurrency: 6 }],
      types: { resize: { maxConcurrency: 4 } },
      fleets: { images: { types: ['resize'], slots: 2 } },
    });
    const scopes = ['pool', 'tier/standard', 'type/resize', 'fleet/images'];
    const moved =
      (units: number) =>
      (scope: string, under: string): number =>
        scopes.includes(scope) && under.endsWith('/2') ? units : 0;
    const caps = (units: number): readonly (number | null | undefined)[] => {
      const share = shareOfPool(configuration, 0, moved(units));
      return [
        share.maxConcurrency,
        share.tiers[0]?.maxConcurrency,
        share.types[0]?.maxConcurrency,
        share.fleets[0]?.slots,
      ];
    };
    expect(caps(0)).toEqual([4, 3, 2, 1]);
    expect(caps(3)).toEqual([7, 6, 5, 4]);
    expect(caps(-2)).toEqual([2, 1, 0, 0]);
    const overrides = [
      { scope: 'pool', paused: false, maxConcurrency: 4 },
      { scope: 'fleet/images', paused: false, maxConcurrency: 4 },
    ];
    expect(
      shareOfOverrides(overrides, 0, { partitions: 2 }, moved(1)).map(({ maxConcurrency }) => maxConcurrency),
    ).toEqual([3, 2]);
  });

  it('is known of a cap that a loan names, whatever is configured by now', () => {
    expect([0, 1, 2, 3].map((partition) => shareOfDivision('7/3', partition))).toEqual([3, 2, 2, 0]);
  });

  it("names every divided cap, an operator's before the configured one", () => {
    const configuration = resolveConfiguration({
      partitions: 2,
      maxConcurrency: 8,
      tiers: [{ tier: 'standard' }],
      types: { resize: { maxConcurrency: 4 } },
      fleets: { images: { types: ['resize'], slots: 2 }, farm: { types: ['resize'], slots: null } },
    });
    const overrides = [
      { scope: 'pool', paused: true },
      { scope: 'tier/standard', paused: false, maxConcurrency: 5 },
      { scope: 'fleet/images', paused: false, maxConcurrency: 1 },
    ];
    expect(dividedCaps(configuration, overrides)).toEqual([
      { scope: 'pool', cap: 8, under: '8/2' },
      { scope: 'tier/standard', cap: 5, under: '5/2' },
      { scope: 'type/resize', cap: 4, under: '4/2' },
      { scope: 'fleet/images', cap: 2, under: '2/2' },
    ]);
  });

  it('is nothing for a partition that there is not any more', () => {
    const configuration = resolveConfiguration({ types: { a: {} }, maxConcurrency: 3 });
    expect(shareOfPool(configuration, 1).maxConcurrency).toBe(0);
  });

  it("of an operator's cap adds up to it, also where some partitions get none; a key's own is whole", () => {
    const overrides = [
      { scope: 'pool', paused: false, maxConcurrency: 2 },
      { scope: 'key/pool', paused: true, maxConcurrency: 2, weight: 3 },
      { scope: 'type/a', paused: true },
    ];
    const shares = [0, 1, 2].map((partition) => shareOfOverrides(overrides, partition, { partitions: 3 }));
    expect(shares.map(([pool]) => pool?.maxConcurrency)).toEqual([1, 1, 0]);
    for (const [, ...others] of shares) expect(others).toEqual(overrides.slice(1));
  });
});

describe('a cap that is smaller than the number of partitions', () => {
  const refused = (input: Parameters<typeof resolveConfiguration>[0]): string => {
    try {
      resolveConfiguration({ partitions: 3, ...input });
    } catch (error) {
      if (error instanceof Error && error.name === 'ConfigurationError') return error.message;
      throw error;
    }
    throw new Error('accepted');
  };

  it('is refused with the way out, whatever it limits', () => {
    const types = { a: {} };
    expect(refused({ types, maxConcurrency: 2 })).toBe(
      'maxConcurrency: cannot be split among 3 partitions: some would have no share of it, and their jobs would wait for ever, got 2. Raise it to at least 3, or declare at most 2 partitions.',
    );
    expect(refused({ types, tiers: [{ tier: 't', maxConcurrency: 1 }] })).toMatch(
      /^tiers\[0\]\.maxConcurrency: /,
    );
    expect(refused({ types: { a: { maxConcurrency: 2 } } })).toMatch(/^types\.a\.maxConcurrency: /);
    expect(refused({ fleets: { f: { types: ['a'], slots: 2 } } })).toMatch(/^fleets\.f\.slots: /);
  });

  it('is accepted if it is 0, which means nobody', () => {
    const configuration = resolveConfiguration({
      partitions: 3,
      types: { a: { maxConcurrency: 0 } },
      maxConcurrency: 3,
    });
    expect(() => requireSplittable(configuration)).not.toThrow();
  });
});
