/** The page of the configuration, the comments that editors show, and what `resolveConfiguration` does, say the same. */
import { readFile } from 'node:fs/promises';
import { runInNewContext } from 'node:vm';
import { Duration } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { BATCH_SIZE_MAX } from '../lib/core/capacity.ts';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { LOST_CLAIMS_IN_A_ROW, resolveConfiguration } from '../lib/core/defaults.ts';
import { durationMs } from '../lib/core/duration.ts';
import type { PoolInput } from '../lib/core/pool-input.ts';
import { FIELDS } from '../lib/core/unknown-fields.ts';
import {
  CONFIGURATION_PAGE,
  configurationPage,
  type DescribedField,
  describedObjects,
  type ObjectName,
} from './configuration-page.ts';

type Fields = Readonly<Record<string, unknown>>;

interface Place {
  readonly known: readonly string[];
  /** A declaration with these fields, and no others, in this object. */
  readonly pool: (fields: Fields) => unknown;
  /** The object in the resolved configuration. */
  readonly resolved: (pool: PoolConfiguration) => object | undefined;
}

/** Limits of these names, which the types of a declaration must list. */
const limitsNamed = (names: unknown): Fields =>
  Array.isArray(names) ? { limits: Object.fromEntries(names.map((name) => [name, { total: 1 }])) } : {};

const ofLimit = (limit: Fields): unknown => ({
  types: { a: { limits: ['shared'] } },
  limits: { shared: limit },
});

const ofType = (fields: Fields): unknown => ({
  ...limitsNamed(fields.limits),
  types: { a: fields },
  tiers: [{ tier: 'urgent' }, { tier: 'default' }],
});

const PLACES: Readonly<Record<ObjectName, Place>> = {
  PoolInput: {
    known: FIELDS.pool,
    pool: (fields) => ({ types: { a: { limits: Object.keys(Object(fields.limits)) } }, ...fields }),
    resolved: (pool) => ({ lostClaimsInARow: LOST_CLAIMS_IN_A_ROW, ...pool }),
  },
  JobTypeInput: { known: FIELDS.type, pool: ofType, resolved: ({ types: [a] }) => a },
  RetryInput: {
    known: FIELDS.retry,
    // A longest delay may not be below the delay.
    pool: (fields) => ofType({ retry: 'maxDelayMs' in fields ? { delayMs: 0, ...fields } : fields }),
    resolved: ({ types: [a] }) => a?.retry,
  },
  ErrorRuleInput: {
    known: FIELDS.errorRule,
    pool: (fields) => ofType({ retry: { errors: [{ name: 'Busy', retry: true, ...fields }] } }),
    resolved: ({ types: [a] }) => ({ ...a?.retry.errors[0], name: undefined, retry: undefined }),
  },
  TierInput: {
    known: FIELDS.tier,
    pool: (fields) => ({ types: { a: {} }, tiers: [{ tier: 'default', ...fields }] }),
    resolved: ({ tiers: [tier] }) => ({ ...tier, tier: undefined }),
  },
  FleetInput: {
    known: FIELDS.fleet,
    pool: (fields) => ({
      fleets: { all: { types: ['a'], ...('batchSize' in fields ? { slots: 1 } : {}), ...fields } },
    }),
    resolved: ({ fleets: [fleet] }) => ({ batchSize: BATCH_SIZE_MAX, ...fleet }),
  },
  LimitInput: {
    known: FIELDS.limit,
    // A limit has at least one bound.
    pool: (fields) =>
      ofLimit({ ...('total' in fields || 'keyedBy' in fields ? { perKey: 1 } : { total: 1 }), ...fields }),
    resolved: ({ limits: [limit] = [] }) => ({ ...limit, total: null }),
  },
  RateInput: {
    known: FIELDS.rate,
    // A rate bounds starts or units, of all keys or of each.
    pool: (fields) => {
      const beside = {
        starts: { perKey: 1 },
        units: { perKey: 1, perJob: 1 },
        perJob: { perKey: 1_000_000 },
      };
      const [, others = { starts: 1 }] = Object.entries(beside).find(([name]) => name in fields) ?? [];
      return ofLimit({ rate: { per: '1m', ...others, ...fields } });
    },
    resolved: ({ limits: [limit] = [] }) => ({ ...limit?.rate, starts: null }),
  },
  BudgetInput: {
    known: FIELDS.budget,
    pool: (fields) => ofLimit({ budget: { slotSeconds: 1, per: '1m', ...fields } }),
    resolved: ({ limits: [limit] = [] }) => limit?.budget,
  },
  FairnessInput: {
    known: FIELDS.fairness,
    pool: (fairness) => ({ types: { a: {} }, fairness }),
    resolved: ({ fairness }) => fairness,
  },
  ScoreInput: {
    known: FIELDS.score,
    pool: (score) => ({ types: { a: {} }, score }),
    resolved: ({ score }) => score,
  },
  LendingInput: {
    known: FIELDS.lending,
    pool: (lending) => ({ types: { a: {} }, lending }),
    resolved: ({ lending }) => lending,
  },
  LargePayloadsInput: {
    known: FIELDS.largePayloads,
    pool: (largePayloads) => ({ types: { a: {} }, largePayloads }),
    resolved: ({ largePayloads }) => largePayloads,
  },
};

/** Fields whose default is a name of the declaration. */
const NAMED_BY_OTHERS = ['JobTypeInput.tier'];

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const;

/** As the comments write a default. */
function written(value: unknown, isDuration: boolean): string {
  if (typeof value === 'string') return `'${value}'`;
  if (typeof value !== 'number') return String(value);
  if (!isDuration) return value.toLocaleString('en-US');
  let restMs = value;
  return UNITS.map(([unit, unitMs]) => {
    const count = Math.floor(restMs / unitMs);
    restMs -= count * unitMs;
    return count === 0 ? '' : `${count}${unit}`;
  }).join('');
}

const accepts = (place: Place, name: string, value: unknown): boolean => {
  try {
    resolveConfiguration(place.pool({ [name]: value }) as PoolInput);
    return true;
  } catch {
    return false;
  }
};

const NUMBERS =
  /^(above )?([\d.,]+(?:ms|[dhms])?)(?: to ([\d.,]+(?:ms|[dhms])?)| or more)?(, whole)?(, or null)?$/;
const CHOICES = /^(?:'\w+'(?:, )?)+ or '\w+'$/;
const CHARACTERS = /^1 to (\d+) characters(, or null)?$/;

const numberIn = (text: string): number =>
  /[a-z]$/.test(text) ? durationMs('bound', text) : Number(text.replaceAll(',', ''));

/** Values at the bounds, and beyond them, with whether they are accepted. */
function around(bounds: string): readonly (readonly [value: unknown, isAccepted: boolean])[] {
  const [, above, least = '', most, whole, orNull] = NUMBERS.exec(bounds) ?? [];
  if (least !== '') {
    const [min, max] = [numberIn(least), most === undefined ? undefined : numberIn(most)];
    return [
      [min, above === undefined],
      [above === undefined ? min - 0.001 : min + 0.001, above !== undefined],
      [min + 1.5, whole === undefined && (max === undefined || min + 1.5 <= max)],
      [null, orNull !== undefined],
      ...(max === undefined
        ? ([[1_000_000, true]] as const)
        : ([
            [max, true],
            [max + 1, false],
          ] as const)),
    ];
  }
  const characters = CHARACTERS.exec(bounds);
  if (characters !== null) {
    const longest = Number(characters[1]);
    return [
      ['n'.repeat(longest), true],
      ['n'.repeat(longest + 1), false],
      [null, characters[2] !== undefined],
    ];
  }
  if (CHOICES.test(bounds))
    return [
      ...Array.from(bounds.matchAll(/'(\w+)'/g), ([, choice]) => [choice, true] as const),
      ['other', false],
      [null, false],
    ];
  if (bounds === 'true or false')
    return [
      [true, true],
      [false, true],
      ['yes', false],
      [null, false],
    ];
  return [];
}

/** Fields whose bounds are no numbers, names or choices: how many entries they have, and of what. */
const OF_ENTRIES = [
  'PoolInput.types',
  'PoolInput.tiers',
  'PoolInput.fleets',
  'PoolInput.score',
  'PoolInput.fairness',
  'PoolInput.lending',
  'PoolInput.limits',
  'PoolInput.searchableTags',
  'PoolInput.largePayloads',
  'JobTypeInput.tier',
  'JobTypeInput.requires',
  'JobTypeInput.limits',
  'JobTypeInput.retry',
  'LimitInput.rate',
  'LimitInput.budget',
  'RetryInput.errors',
  'FleetInput.types',
  'FairnessInput.weights',
];

const objects = await describedObjects();
const FIELDS_SAID = Object.entries(PLACES).flatMap(([object, place]) =>
  (objects.get(object)?.fields ?? []).map((field): readonly [string, DescribedField, Place] => [
    `${object}.${field.name}`,
    field,
    place,
  ]),
);

it('is current: run npm run docs:configuration', async () => {
  expect(await readFile(CONFIGURATION_PAGE, 'utf8')).toBe(await configurationPage());
});

it.each(Object.entries(PLACES))('describes each field of %s, and no others', (object, { known }) => {
  const names = (objects.get(object)?.fields ?? []).map(({ name }) => name);
  expect(names.toSorted()).toEqual(known.toSorted());
});

const source = await readFile('lib/core/pool-input.ts', 'utf8');
/** The fields of each object whose type is a duration. */
const DURATION_FIELDS = Array.from(
  source.matchAll(/^export interface (\w+) \{\n(.*?)^\}/gms),
  ([, object = '', body = '']) =>
    Array.from(
      body.matchAll(/readonly (\w+)\??: DurationInput\b/g),
      ([, name = '']) => [object, name] as const,
    ),
).flat();

it.each(DURATION_FIELDS)('%s.%s is milliseconds, a text or a Duration', (object, name) => {
  const { pool, resolved } = PLACES[object as ObjectName];
  const of = (value: unknown) => resolved(resolveConfiguration(pool({ [name]: value }) as PoolInput));
  expect(of('1m')).toEqual(of(60_000));
  expect(of(Duration.minutes(1))).toEqual(of(60_000));
  expect(JSON.stringify(of(60_000))).toContain('60000');
});

describe.each(FIELDS_SAID)('the comment of %s', (path, field, place) => {
  const { name, meaning, byDefault, bounds, example } = field;

  it('has a meaning, and a default that is the real one', () => {
    expect(meaning).toMatch(/^[A-Z].*\.$/);
    const resolved = place.resolved(resolveConfiguration(place.pool({}) as PoolInput));
    const real: unknown = Object.entries(resolved ?? {}).find(([key]) => key === name)?.[1];
    const isPlain = real !== undefined && (real === null || typeof real !== 'object');
    if (!isPlain || NAMED_BY_OTHERS.includes(path)) expect(byDefault).toMatch(/^- \w/);
    else expect(byDefault).toBe(written(real, name.endsWith('Ms')));
  });

  it('has bounds at which values are accepted, and beyond which they are not', () => {
    const tries = around(bounds);
    expect(tries.length > 0).toBe(!OF_ENTRIES.includes(path));
    for (const [value, isAccepted] of tries)
      expect([value, accepts(place, name, value)]).toEqual([value, isAccepted]);
  });

  it('has an example that is accepted, with a unit if it is a duration', () => {
    const fields: Fields = runInNewContext(`({ ${example} })`);
    expect(Object.keys(fields)).toEqual([name]);
    expect(() =>
      resolveConfiguration(place.pool(JSON.parse(JSON.stringify(fields)) as Fields) as PoolInput),
    ).not.toThrow();
    if (name.endsWith('Ms')) expect(fields[name]).toMatch(/^[\d.]+(?:ms|[dhms])$/);
  });
});
