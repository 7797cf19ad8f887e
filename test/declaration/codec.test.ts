import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import {
  type DeclaredPool,
  decodeConfiguration,
  encodeConfiguration,
  packDeclaration,
  unpackDeclaration,
} from '../../lib/declaration/codec.ts';
import { declarationParts } from '../../lib/store/table/declaration.ts';

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

/** Text that nothing makes shorter. */
function randomText(seed: number, length: number): string {
  let text = '';
  for (let at = 0; text.length < length; at += 1) {
    text += createHash('sha256').update(`${seed}/${at}`).digest('base64url');
  }
  return text.slice(0, length);
}

/** As many fleets and types as a declaration must have room for, with names that share nothing. */
function largestPool(): DeclaredPool {
  const types = Array.from({ length: 1_000 }, (_, n) => randomText(n, 100));
  const fleets = Array.from({ length: 200 }, (_, n) => randomText(5_000 + n, 100));
  const configuration = resolveConfiguration({
    tiers: [{ tier: 'default' }],
    types: Object.fromEntries(
      types.map((type, n) => [
        type,
        {
          tier: 'default',
          timeoutMs: 1_000 + n,
          conflictGroup: randomText(10_000 + n, 100),
          retry: { errors: [{ name: randomText(20_000 + n, 40), retry: false }] },
        },
      ]),
    ),
    fleets: Object.fromEntries(
      fleets.map((fleet, n) => [fleet, { types: types.slice(5 * n, 5 * n + 5), slots: n + 1 }]),
    ),
  });
  return {
    configuration,
    queueUrls: Object.fromEntries(
      fleets.map((fleet, n) => [
        fleet,
        `https://sqs.eu-central-1.amazonaws.com/123456789012/${randomText(n, 80)}`,
      ]),
    ),
    ownQueues: { outcomes: { queueUrl: 'https://sqs/outcomes', deadLetterQueueUrl: 'https://sqs/dead' } },
    formerTypes: Array.from({ length: 1_000 }, (_, n) => randomText(30_000 + n, 100)),
    partitionsEver: 4_096,
    partitionNumbers: Array.from({ length: 4_096 }, (_, at) => at + 1),
    sharedSince: 1_000_000,
    deployment: 'a deployment',
  };
}

describe('the declaration codec', () => {
  it('gives back 200 fleets and 1,000 types whose names share nothing, with room to spare', () => {
    const declared = largestPool();
    const text = packDeclaration(declared);
    expect(declarationParts(text).length).toBeLessThanOrEqual(2);
    expect(unpackDeclaration(text)).toEqual(declared);
  });

  it.each(['queueUrls', 'formerTypes', 'partitionsEver', 'configuration'])(
    'refuses a declaration without its %s by name',
    (field) => {
      const configuration = resolveConfiguration(poolOf(1, false));
      const declared = { configuration, queueUrls: {}, formerTypes: [], partitionsEver: 1, deployment: '' };
      const text = packDeclaration({ ...declared, [field]: undefined } as unknown as DeclaredPool);
      expect(() => unpackDeclaration(text)).toThrow(ConfigurationError);
    },
  );
});

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

  it('writes only characters that are safe in a template', () => {
    expect(encodeConfiguration(resolveConfiguration(poolOf(3, true)))).toMatch(/^1\.[A-Za-z0-9_-]+$/);
  });

  it('refuses a configuration that is too large, with its size and what to do', () => {
    const configuration = resolveConfiguration(poolOf(1_000, true));
    const weights = Object.fromEntries(
      Array.from({ length: 6_500 }, (_, n) => [`${randomText(n, 200)}`, n + 1]),
    );
    const large = { ...configuration, fairness: { ...configuration.fairness, weights } };
    let refused: unknown;
    try {
      encodeConfiguration(large);
    } catch (error) {
      refused = error;
    }
    expect(refused).toBeInstanceOf(ConfigurationError);
    expect(String(refused)).toMatch(
      /at most 1200000\): 1000 types, 1000 fleets.*Split the work into several pools/,
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
