import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import {
  decodeConfiguration,
  ENCODED_CONFIGURATION_MAX_BYTES,
  encodeConfiguration,
} from '../../lib/dispatch/configuration-codec.ts';

const nameArbitrary = fc
  .oneof(fc.string({ minLength: 1, maxLength: 12 }), fc.nat(20).map(String))
  .filter((name) => name !== '__proto__');

const poolArbitrary: fc.Arbitrary<PoolInput> = fc
  .record({
    tiers: fc.uniqueArray(nameArbitrary, { minLength: 1, maxLength: 3 }),
    types: fc.uniqueArray(nameArbitrary, { minLength: 1, maxLength: 6 }),
    cap: fc.option(fc.integer({ min: 1, max: 500 })),
    timeoutMs: fc.integer({ min: 1, max: 900_000 }),
    group: fc.option(nameArbitrary),
    delayMs: fc.option(fc.nat(10_000), { nil: undefined }),
    weights: fc.dictionary(
      nameArbitrary,
      fc.double({ min: 0.01, max: 9, noNaN: true, noDefaultInfinity: true }),
      { maxKeys: 4 },
    ),
    fleetsReversed: fc.boolean(),
  })
  .map(({ tiers, types, cap, timeoutMs, group, delayMs, weights, fleetsReversed }) => ({
    tiers: tiers.map((tier) => ({ tier, maxConcurrency: cap })),
    // Half of the types are declared, the others only named by the fleet: their order is not a record's.
    types: Object.fromEntries(
      types.map((type) => [
        type,
        {
          timeoutMs,
          conflictGroup: group,
          retry: { errors: [{ name: 'Busy', retry: true, delayMs }] },
        },
      ]),
    ),
    fleets: {
      all: { types: fleetsReversed ? types.toReversed() : [...types, 'undeclared', '7'].filter(firstOnly) },
    },
    fairness: { weights },
  }));

function firstOnly(name: string, index: number, names: readonly string[]): boolean {
  return names.indexOf(name) === index;
}

function poolOf(types: number, differing: boolean): PoolInput {
  return {
    types: Object.fromEntries(
      Array.from({ length: types }, (_, n) => [
        `type-${n}`,
        {
          timeoutMs: differing ? 1_000 + ((n * 7_919) % 100_003) : 30_000,
          conflictGroup: differing ? `group-${((n * 104_729) % 1_000_003).toString(36)}` : null,
          tier: 'default',
        },
      ]),
    ),
  };
}

describe('the configuration codec', () => {
  it('gives back every configuration as it was, order included', () => {
    fc.assert(
      fc.property(poolArbitrary, (input) => {
        const configuration = resolveConfiguration(input);
        expect(decodeConfiguration(encodeConfiguration(configuration))).toEqual(configuration);
      }),
      { numRuns: 200 },
    );
  });

  it('writes only characters that are safe in an environment variable', () => {
    expect(encodeConfiguration(resolveConfiguration(poolOf(3, true)))).toMatch(/^1\.[A-Za-z0-9_-]+$/);
  });

  it('fits 150 types that share a policy', () => {
    const encoded = encodeConfiguration(resolveConfiguration(poolOf(150, false)));
    expect(encoded.length).toBeLessThanOrEqual(ENCODED_CONFIGURATION_MAX_BYTES);
  });

  it('refuses a configuration that does not fit, with its size and what to do', () => {
    const configuration = resolveConfiguration(poolOf(900, true));
    expect(() => encodeConfiguration(configuration)).toThrow(ConfigurationError);
    expect(() => encodeConfiguration(configuration)).toThrow(
      /at most 3072\): 900 types, 900 fleets.*Split the work into several pools/,
    );
  });

  it.each([
    ['empty text', ''],
    ['another format', '2.abc'],
    ['damaged text', '1.!!!!'],
    ['a cut', encodeConfiguration(resolveConfiguration(poolOf(3, true))).slice(0, -6)],
  ])('refuses %s by name', (_, text) => {
    expect(() => decodeConfiguration(text)).toThrow(ConfigurationError);
    expect(() => decodeConfiguration(text)).toThrow(/Deploy the stack again/);
  });

  it('refuses a configuration that nobody could have declared', () => {
    const configuration = resolveConfiguration(poolOf(1, false));
    const broken = encodeConfiguration({ ...configuration, partitions: 0 });
    expect(() => decodeConfiguration(broken)).toThrow(/partitions/);
  });
});
