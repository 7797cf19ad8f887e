import { describe, expect, it } from 'vitest';
import { jobsPerMessage } from '../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import {
  CONFIGURATION_LIMITS,
  FAIRNESS_DEFAULTS,
  RETRY_DEFAULTS,
  resolveConfiguration,
  SCORE_DEFAULTS,
  TYPE_DEFAULTS,
} from '../../lib/core/defaults.ts';
import { ConfigurationError, show } from '../../lib/core/errors.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';

/** What is wrong with a declaration, as its author would see it. */
function refusal(input: unknown): ConfigurationError {
  try {
    resolveConfiguration(input as PoolInput);
  } catch (error) {
    if (error instanceof ConfigurationError) return error;
    throw error;
  }
  throw new Error(`accepted ${JSON.stringify(input)}`);
}

const PDF = { types: { pdf: {} } };

describe('a sparse declaration', () => {
  it('gets every default', () => {
    expect(resolveConfiguration(PDF)).toEqual({
      types: [{ type: 'pdf', tier: 'default', retry: RETRY_DEFAULTS, ...TYPE_DEFAULTS }],
      tiers: [{ tier: 'default', maxConcurrency: null, guaranteed: 0 }],
      fleets: [{ fleet: 'pdf', types: ['pdf'], slots: null }],
      maxConcurrency: null,
      score: SCORE_DEFAULTS,
      fairness: FAIRNESS_DEFAULTS,
      partitions: 1,
    });
  });

  it('has the defaults that are documented', () => {
    expect(SCORE_DEFAULTS).toEqual({
      priority: 1024,
      ageSec: 16,
      rarity: 500,
      onDemand: 4096,
      onDemandAgeSec: 32,
    });
    expect(RETRY_DEFAULTS).toMatchObject({
      maxAttempts: 3,
      backoff: 'exponential',
      jitter: 'full',
      delayMs: 1_000,
      maxDelayMs: 300_000,
      maxWorkersLost: 3,
    });
    expect(TYPE_DEFAULTS.timeoutMs).toBeLessThan(15 * 60_000);
    expect(FAIRNESS_DEFAULTS).toMatchObject({
      alpha: 0.3,
      idlePolicy: 'advance',
      trueUp: true,
      defaultWeight: 1,
      keyTtlMs: 3_600_000,
      estimateTtlMs: 2_592_000_000,
      estimateFallback: 'type',
    });
  });

  it('lends as it does by default unless something else is said', () => {
    expect(resolveConfiguration(PDF)).not.toHaveProperty('lending');
    expect(resolveConfiguration({ ...PDF, lending: { batch: 3 } }).lending).toEqual({
      backlogThreshold: 2,
      lentShare: 0.5,
      batch: 3,
      maxBorrowed: 100,
      loanMs: 30_000,
    });
  });

  it('knows a type that only a fleet names, and gives a type without a fleet its own', () => {
    const { types, fleets } = resolveConfiguration({
      types: { a: { maxConcurrency: 2 } },
      fleets: { many: { types: ['b', 'c'], slots: 4 } },
    });
    expect(types.map(({ type }) => type)).toEqual(['a', 'b', 'c']);
    expect(fleets).toEqual([
      { fleet: 'many', types: ['b', 'c'], slots: 4 },
      { fleet: 'a', types: ['a'], slots: null },
    ]);
  });

  it('has a function take ten jobs at once, or as many as its fleet says', () => {
    const fleetWith = (batchSize?: number) =>
      resolveConfiguration({ fleets: { pdf: { types: ['a'], slots: 40, batchSize } } }).fleets.map(
        jobsPerMessage,
      );
    expect([fleetWith(), fleetWith(10), fleetWith(1)]).toEqual([[10], [10], [1]]);
    expect(resolveConfiguration({ fleets: { pdf: { types: ['a'] } } }).fleets.map(jobsPerMessage)).toEqual([
      1,
    ]);
  });

  it('puts a type without a tier into `default`, or else into the lowest', () => {
    const tierOf = (tiers: string[]): string | undefined =>
      resolveConfiguration({ ...PDF, tiers: tiers.map((tier) => ({ tier })) }).types[0]?.tier;
    expect(tierOf(['high', 'default', 'low'])).toBe('default');
    expect(tierOf(['high', 'low'])).toBe('low');
  });

  it('keeps everything that is said', () => {
    const retry = {
      maxAttempts: 9,
      backoff: 'linear',
      delayMs: 5,
      maxDelayMs: 50,
      jitter: 'none',
      errors: [
        { name: 'Busy', retry: true, delayMs: 7, maxAttempts: 8 },
        { name: '*', retry: false },
      ],
      maxWorkersLost: 0,
    } as const;
    const type = {
      tier: 'high',
      maxConcurrency: 0,
      conflictGroup: 'git',
      defaultCostMs: 0,
      timeoutMs: 1,
      retry,
      onWorkerLost: 'resume',
    } as const;
    const score = { priority: 0, ageSec: 0.5, rarity: 0, onDemand: 0, onDemandAgeSec: 0 };
    const fairness = {
      alpha: 1,
      admissionFloorMs: 0,
      weights: { alice: 2, '': 0.5, constructor: 3 },
      defaultWeight: 4,
      maxConcurrencyPerKey: 5,
      idlePolicy: 'none',
      creditMs: 8,
      trueUp: false,
      keyTtlMs: null,
      estimateFallback: 'default',
      estimateTtlMs: 6,
      resetEveryMs: 7,
    } as const;
    const tiers = [{ tier: 'high', maxConcurrency: 3, guaranteed: 3 }];
    const resolved = resolveConfiguration({
      types: { pdf: type },
      tiers,
      fleets: { pdf: { types: ['pdf'], slots: 0 } },
      maxConcurrency: 3,
      score,
      fairness,
      partitions: 2,
    });
    expect(resolved).toEqual({
      types: [{ type: 'pdf', ...type }],
      tiers,
      fleets: [{ fleet: 'pdf', types: ['pdf'], slots: 0 }],
      maxConcurrency: 3,
      score,
      fairness,
      partitions: 2,
    });
  });

  it('takes null for no limit and the empty group for none', () => {
    const { types, fairness } = resolveConfiguration({
      types: { a: { maxConcurrency: null, conflictGroup: '' }, b: { conflictGroup: null } },
      fairness: {
        creditMs: null,
        keyTtlMs: null,
        estimateTtlMs: null,
        resetEveryMs: null,
        maxConcurrencyPerKey: null,
      },
    });
    expect(types.map(({ conflictGroup }) => conflictGroup)).toEqual([null, null]);
    expect(fairness).toMatchObject({
      creditMs: null,
      keyTtlMs: null,
      estimateTtlMs: null,
      resetEveryMs: null,
    });
  });

  it('raises the longest delay with a longer first one', () => {
    const { types } = resolveConfiguration({ types: { a: { retry: { delayMs: 400_000 } } } });
    expect(types[0]?.retry.maxDelayMs).toBe(400_000);
  });
});

describe('a declaration that cannot work', () => {
  const wrong: readonly (readonly [string, unknown])[] = [
    ['', null],
    ['', []],
    ['', 'pool'],
    ['fleets', {}],
    ['fleet', { ...PDF, fleet: {} }],
    ['types', { types: [] }],
    ['types.pdf', { types: { pdf: 3 } }],
    ['types.', { types: { '': {} } }],
    [`types.${'x'.repeat(101)}`, { types: { ['x'.repeat(101)]: {} } }],
    ['types.__proto__', JSON.parse('{"types":{"__proto__":{}}}')],
    ['types.pdf.tmieoutMs', { types: { pdf: { tmieoutMs: 3 } } }],
    ['types.pdf.tier', { types: { pdf: { tier: 'high' } } }],
    ['types.pdf.tier', { types: { pdf: { tier: 3 } } }],
    ['types.pdf.maxConcurrency', { types: { pdf: { maxConcurrency: -1 } } }],
    ['types.pdf.maxConcurrency', { types: { pdf: { maxConcurrency: 1.5 } } }],
    ['types.pdf.maxConcurrency', { types: { pdf: { maxConcurrency: '3' } } }],
    ['types.pdf.conflictGroup', { types: { pdf: { conflictGroup: 3 } } }],
    ['types.pdf.maxConcurrencyPerResource', { types: { pdf: { maxConcurrencyPerResource: 0 } } }],
    ['types.pdf.maxConcurrencyPerResource', { types: { pdf: { maxConcurrencyPerResource: 1.5 } } }],
    [
      'types.pdf.maxConcurrencyPerResource',
      { types: { pdf: { maxConcurrencyPerResource: 2, conflictGroup: 'git' } } },
    ],
    [
      'types.pdf.maxConcurrencyPerResource',
      { types: { pdf: { maxConcurrencyPerResource: 2 } }, partitions: 3 },
    ],
    ['types.pdf.defaultCostMs', { types: { pdf: { defaultCostMs: -1 } } }],
    ['types.pdf.defaultCostMs', { types: { pdf: { defaultCostMs: Infinity } } }],
    ['types.pdf.timeoutMs', { types: { pdf: { timeoutMs: 0 } } }],
    ['types.pdf.timeoutMs', { types: { pdf: { timeoutMs: Number.NaN } } }],
    ['types.pdf.timeoutMs', { types: { pdf: { timeoutMs: null } } }],
    ['types.pdf.onWorkerLost', { types: { pdf: { onWorkerLost: 'panic' } } }],
    ['types.pdf.retry', { types: { pdf: { retry: 3 } } }],
    ['types.pdf.retry.maxAttempts', { types: { pdf: { retry: { maxAttempts: 0 } } } }],
    ['types.pdf.retry.backoff', { types: { pdf: { retry: { backoff: 'quadratic' } } } }],
    ['types.pdf.retry.jitter', { types: { pdf: { retry: { jitter: 'half' } } } }],
    ['types.pdf.retry.delayMs', { types: { pdf: { retry: { delayMs: -1 } } } }],
    ['types.pdf.retry.maxDelayMs', { types: { pdf: { retry: { delayMs: 9, maxDelayMs: 8 } } } }],
    ['types.pdf.retry.maxWorkersLost', { types: { pdf: { retry: { maxWorkersLost: -1 } } } }],
    ['types.pdf.retry.errors', { types: { pdf: { retry: { errors: {} } } } }],
    ['types.pdf.retry.errors', { types: { pdf: { retry: { errors: Array(101).fill({}) } } } }],
    ['types.pdf.retry.errors[0].name', { types: { pdf: { retry: { errors: [{ retry: true }] } } } }],
    ['types.pdf.retry.errors[0].retry', { types: { pdf: { retry: { errors: [{ name: 'A' }] } } } }],
    [
      'types.pdf.retry.errors[0].delayMs',
      { types: { pdf: { retry: { errors: [{ name: 'A', retry: true, delayMs: -1 }] } } } },
    ],
    [
      'types.pdf.retry.errors[0].maxAttempts',
      { types: { pdf: { retry: { errors: [{ name: 'A', retry: true, maxAttempts: 0 }] } } } },
    ],
    ['tiers', { ...PDF, tiers: {} }],
    ['tiers', { ...PDF, tiers: [] }],
    ['tiers', { ...PDF, tiers: Array(101).fill({ tier: 'a' }) }],
    ['tiers[1].tier', { ...PDF, tiers: [{ tier: 'a' }, { tier: 'a' }] }],
    ['tiers[0].guaranteed', { ...PDF, tiers: [{ tier: 'a', maxConcurrency: 1, guaranteed: 2 }] }],
    ['tiers[0].guaranteed', { ...PDF, tiers: [{ tier: 'a', guaranteed: -1 }] }],
    [
      'tiers[1].guaranteed',
      {
        ...PDF,
        maxConcurrency: 3,
        tiers: [
          { tier: 'a', guaranteed: 2 },
          { tier: 'b', guaranteed: 2 },
        ],
      },
    ],
    ['fleets.pdf.types', { fleets: { pdf: {} } }],
    ['fleets.pdf.types', { fleets: { pdf: { types: [] } } }],
    ['fleets.pdf.types[1]', { fleets: { pdf: { types: ['a', 'a'] } } }],
    ['fleets.pdf.types[0]', { fleets: { pdf: { types: [3] } } }],
    ['fleets.pdf.slots', { fleets: { pdf: { types: ['a'], slots: -1 } } }],
    ['fleets.pdf.batchSize', { fleets: { pdf: { types: ['a'], slots: 4, batchSize: 0 } } }],
    ['fleets.pdf.batchSize', { fleets: { pdf: { types: ['a'], slots: 4, batchSize: 11 } } }],
    ['fleets.pdf.batchSize', { fleets: { pdf: { types: ['a'], slots: null, batchSize: 2 } } }],
    ['fleets.pdf.types', { ...PDF, fleets: { pdf: { types: ['other'] } } }],
    ['fleets', { fleets: { a: { types: names(600, 'a') }, b: { types: names(600, 'b') } } }],
    ['types', { types: Object.fromEntries(names(1_001, 't').map((name) => [name, {}])) }],
    ['maxConcurrency', { ...PDF, maxConcurrency: -1 }],
    ['partitions', { ...PDF, partitions: 0 }],
    ['partitions', { ...PDF, partitions: CONFIGURATION_LIMITS.partitions + 1 }],
    ['score.ageSec', { ...PDF, score: { ageSec: 0 } }],
    ['score.rarity', { ...PDF, score: { rarity: -1 } }],
    ['fairness.alpha', { ...PDF, fairness: { alpha: 1.1 } }],
    ['lostClaimsInARow', { ...PDF, lostClaimsInARow: -1 }],
    ['lostClaimsInARow', { ...PDF, lostClaimsInARow: 2.5 }],
    ['lostClaimsInARow', { ...PDF, lostClaimsInARow: 1_001 }],
    ['searchableTags', { ...PDF, searchableTags: 'order' }],
    ['searchableTags', { ...PDF, searchableTags: Array.from({ length: 9 }, (_, at) => `tag-${at}`) }],
    ['searchableTags[0]', { ...PDF, searchableTags: [''] }],
    ['searchableTags[0]', { ...PDF, searchableTags: ['x'.repeat(65)] }],
    ['searchableTags[1]', { ...PDF, searchableTags: ['order', 'order'] }],
    ['lending', { ...PDF, lending: null }],
    ['lending.threshold', { ...PDF, lending: { threshold: 2 } }],
    ['lending.backlogThreshold', { ...PDF, lending: { backlogThreshold: 0 } }],
    ['lending.backlogThreshold', { ...PDF, lending: { backlogThreshold: 101 } }],
    ['lending.lentShare', { ...PDF, lending: { lentShare: 0 } }],
    ['lending.lentShare', { ...PDF, lending: { lentShare: 1.01 } }],
    ['lending.batch', { ...PDF, lending: { batch: 0 } }],
    ['lending.maxBorrowed', { ...PDF, lending: { maxBorrowed: -1 } }],
    ['lending.loanMs', { ...PDF, lending: { loanMs: 4_999 } }],
    ['lending.loanMs', { ...PDF, lending: { loanMs: '30 s' } }],
    ['fairness.weights.alice', { ...PDF, fairness: { weights: { alice: 0 } } }],
    ['fairness.defaultWeight', { ...PDF, fairness: { defaultWeight: 0 } }],
    ['fairness.trueUp', { ...PDF, fairness: { trueUp: 'yes' } }],
    ['fairness.idlePolicy', { ...PDF, fairness: { idlePolicy: 'rest' } }],
    ['fairness.estimateFallback', { ...PDF, fairness: { estimateFallback: 'guess' } }],
    ['fairness.keyTtlMs', { ...PDF, fairness: { keyTtlMs: 0 } }],
    ['fairness.keyTtlMs', { ...PDF, fairness: { keyTtlMs: 90 * 86_400_000 + 1 } }],
    ['fairness.estimateTtlMs', { ...PDF, fairness: { estimateTtlMs: 90 * 86_400_000 + 1 } }],
  ];

  it.each(wrong)('is refused with the field %j', (field, input) => {
    const error = refusal(input);
    expect(error.field).toBe(field);
    expect(error.name).toBe('ConfigurationError');
    expect(error.message).toContain(field === '' ? 'The configuration' : field);
  });

  it.each([
    [
      { ...PDF, partitions: 0 },
      'partitions: must be a whole number of at least 1 and at most 4096, got 0. Leave it out for 1.',
    ],
    [
      { ...PDF, types: { pdf: { timeoutMs: 0.5 } } },
      'types.pdf.timeoutMs: must be a whole number of at least 1, got 0.5. Leave it out for 870000.',
    ],
  ])('is told what is meant by it: %j', (input, message) => {
    expect(() => resolveConfiguration(input as PoolInput)).toThrow(message);
  });

  it('is told the offending value and the way out', () => {
    expect(refusal({ types: { pdf: { tier: 'high' } } }).message).toBe(
      'types.pdf.tier: names no declared tier (default), got "high". Declare it in tiers, or name one of those.',
    );
    expect(refusal({ types: { pdf: { maxConcurrency: '3' } } })).toMatchObject({ value: '3' });
    expect(refusal({ ...PDF, fairness: { alpha: 2 } }).message).toBe(
      'fairness.alpha: must be a number of at least 0 and at most 1, got 2. Leave it out for 0.3.',
    );
    expect(refusal({ ...PDF, fairness: { defaultWeight: 0 } }).message).toContain('must be a number above 0');
    expect(refusal({ ...PDF, partitions: 5_000 }).message).toContain('of at least 1 and at most 4096');
  });
});

describe('show', () => {
  it.each([
    ['text', '"text"'],
    [[1, 2], 'an array of 2'],
    [{}, 'an object'],
    [() => 1, 'a function'],
    [null, 'null'],
    [undefined, 'undefined'],
    [Number.NaN, 'NaN'],
    ['x'.repeat(100), `"${'x'.repeat(76)}...`],
  ])('puts %o on one line', (value, shown) => {
    expect(show(value)).toBe(shown);
  });
});

function names(count: number, prefix: string): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

/** Each duration of a declaration: a place for it, and its value once resolved. */
const DURATIONS: Readonly<
  Record<string, readonly [(given: unknown) => unknown, (pool: PoolConfiguration) => unknown]>
> = {
  'types.pdf.defaultCostMs': [ofType('defaultCostMs'), ({ types: [pdf] }) => pdf?.defaultCostMs],
  'types.pdf.timeoutMs': [ofType('timeoutMs'), ({ types: [pdf] }) => pdf?.timeoutMs],
  'types.pdf.retry.delayMs': [ofRetry('delayMs'), ({ types: [pdf] }) => pdf?.retry.delayMs],
  'types.pdf.retry.maxDelayMs': [ofRetry('maxDelayMs'), ({ types: [pdf] }) => pdf?.retry.maxDelayMs],
  'types.pdf.retry.errors[0].delayMs': [
    (given) => ofRetry('errors')([{ name: 'Busy', retry: true, delayMs: given }]),
    ({ types: [pdf] }) => pdf?.retry.errors[0]?.delayMs,
  ],
  ...Object.fromEntries(
    (['admissionFloorMs', 'creditMs', 'keyTtlMs', 'estimateTtlMs', 'resetEveryMs'] as const).map((name) => [
      `fairness.${name}`,
      [
        (given: unknown) => ({ ...PDF, fairness: { [name]: given } }),
        ({ fairness }: PoolConfiguration) => fairness[name],
      ],
    ]),
  ),
  'lending.loanMs': [(given) => ({ ...PDF, lending: { loanMs: given } }), ({ lending }) => lending?.loanMs],
};

function ofType(name: string): (given: unknown) => unknown {
  return (given) => ({ types: { pdf: { [name]: given } } });
}

function ofRetry(name: string): (given: unknown) => unknown {
  return (given) => ({ types: { pdf: { retry: { [name]: given } } } });
}

/** Those whose fractions of a millisecond are kept. The others refuse them. */
const FRACTIONAL = [
  'types.pdf.defaultCostMs',
  'types.pdf.retry.delayMs',
  'types.pdf.retry.maxDelayMs',
  'types.pdf.retry.errors[0].delayMs',
  'fairness.admissionFloorMs',
];

describe.each(Object.entries(DURATIONS))('the duration %s', (field, [place, valueIn]) => {
  it.each([
    [6_000, 6_000],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['90s', 90_000],
    ['5000ms', 5_000],
    [{ toMilliseconds: () => 7_000 }, 7_000],
  ])('takes %j, and keeps milliseconds', (given, ms) => {
    expect(valueIn(resolveConfiguration(place(given) as PoolInput))).toBe(ms);
  });

  it.each([
    '10',
    '10 m',
    '-5s',
    '5M',
    true,
    {},
    [],
    { toMilliseconds: () => Number.NaN },
    { toMilliseconds: () => -1 },
  ])('refuses %j by its name, and says how a duration is written', (given) => {
    const error = refusal(place(given));
    expect(error.message).toMatch(/must be a duration, got .*Write milliseconds, or a text such as/);
    expect(error.field).toBe(field);
  });

  it('has the same bounds however it is written', () => {
    for (const given of [-1, '0.5ms', 0.5]) {
      if (given !== -1 && FRACTIONAL.includes(field)) continue;
      expect(refusal(place(given)).field).toBe(field);
    }
    if (FRACTIONAL.includes(field))
      expect(valueIn(resolveConfiguration(place('5000.5ms') as PoolInput))).toBe(5_000.5);
    else
      expect(refusal(place('5000.5ms')).message).toMatch(/must be a whole number of at least .*got 5000\.5/);
    if (field === 'fairness.keyTtlMs')
      expect(refusal(place('91d')).message).toMatch(/at most 7776000000, got 7862400000/);
  });
});

describe('the numbers of limits', () => {
  it.each([
    [{ rate: { starts: 5, per: 999 } }, /per: .* Write it as per: "1m"\.$/],
    [{ rate: { starts: -1, per: '1m' } }, /starts: .*at least 1.* Leave it out for no limit\.$/],
    [{ budget: { slotSeconds: 0, per: '1m' } }, /slotSeconds: .*above 0.* Write it as slotSeconds: 3600\.$/],
    [{ budget: { slotSeconds: 1e300, per: '1m' } }, /slotSeconds: .*at most 1000000000.* Write it as/],
  ])('of %j are refused with their bounds, and a way out that is one', (api, says) => {
    expect(() => resolveConfiguration({ types: { a: { limits: ['api'] } }, limits: { api } })).toThrow(says);
  });
});
