/** Limits that cannot work, and requests that do not fit them: each is refused with one sentence that names its field, and the way out. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { parseSchedule } from '../../lib/schedules/request.ts';
import { parseRequests } from '../../lib/submit/request.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

/** A declaration of one type that is under these limits. */
const pool = (limits: unknown, more: object = {}): unknown => ({
  types: {
    chat: { limits: typeof limits === 'object' && limits !== null ? Object.keys(limits).slice(0, 4) : [] },
  },
  limits,
  ...more,
});
const limit = (a: unknown, more: object = {}): unknown => pool({ a }, more);
const listing = (limits: unknown): unknown => ({ types: { chat: { limits } }, limits: { a: { total: 1 } } });
const rate = (fields: object): unknown => limit({ rate: fields });
const budget = (fields: object): unknown => limit({ budget: fields });
const THREE = { partitions: 3 };

const DECLARATIONS: readonly (readonly [field: string, says: RegExp, input: unknown])[] = [
  ['limits', /object/, pool([])],
  ['limits', /object/, pool('openai')],
  [
    'limits',
    /more than 20/,
    pool(Object.fromEntries(Array.from({ length: 21 }, (_, at) => [at, { total: 1 }]))),
  ],
  ['limits.a/b', /must not contain a slash.*Choose another name/, pool({ 'a/b': { total: 1 } })],
  ['limits.', /1 to 100 characters/, pool({ '': { total: 1 } })],
  [`limits.${'n'.repeat(101)}`, /1 to 100 characters/, pool({ ['n'.repeat(101)]: { total: 1 } })],
  ['limits.a', /limits nothing.*Name one of total, perKey, rate, budget/, limit({})],
  ['limits.a', /limits nothing/, limit({ total: null })],
  ['limits.a', /limits nothing/, limit({ keyedBy: 'org' })],
  ['limits.a', /object/, limit(3)],
  ['limits.a', /object/, limit(null)],
  ['limits.a', /object/, limit([25])],
  ['limits.a.totla', /total/, limit({ totla: 3 })],
  ['limits.a.max', /is not a known field/, limit({ max: 3 })],
  ['limits.a.units', /is not a known field/, limit({ total: 3, units: 2 })],
  ['limits.a.maxConcurrency', /is not a known field/, limit({ maxConcurrency: 3 })],
  ['limits.a.total', /at least 0/, limit({ total: -1 })],
  ['limits.a.total', /whole number/, limit({ total: 2.5 })],
  ['limits.a.total', /whole number/, limit({ total: '3' })],
  ['limits.a.total', /3 partitions.*Raise it to at least 3/, limit({ total: 2 }, THREE)],
  ['limits.a.perKey', /would let no job start, ever.*at least 1/, limit({ perKey: 0 })],
  ['limits.a.perKey', /whole number/, limit({ perKey: 1.5 })],
  ['limits.a.perKey', /whole number/, limit({ perKey: true })],
  ['limits.a.perKey', /3 partitions.*Raise it to at least 3/, limit({ keyedBy: 'org', perKey: 2 }, THREE)],
  ['limits.a.keyedBy', /has no effect.*Name perKey/, limit({ keyedBy: 'org', total: 1 })],
  [
    'limits.a.keyedBy',
    /has no effect.*Name perKey, rate\.perKey or budget/,
    limit({ keyedBy: 'org', rate: { starts: 5, per: '1m' } }),
  ],
  ['limits.a.keyedBy', /1 to 100 characters/, limit({ keyedBy: '', perKey: 1 })],
  ['limits.a.keyedBy', /1 to 100 characters/, limit({ keyedBy: 'n'.repeat(101), perKey: 1 })],
  ['limits.a.keyedBy', /characters|text/, limit({ keyedBy: ['org'], perKey: 1 })],
  ['limits.a.keyedBy', /characters|text/, limit({ keyedBy: null, perKey: 1 })],
  ['limits.a.keydBy', /keyedBy/, limit({ keydBy: 'org', perKey: 1 })],
  ['limits.a.rate', /object/, limit({ rate: 500 })],
  ['limits.a.rate', /object/, limit({ rate: '500/1m' })],
  ['limits.a.rate', /limits no starts.*starts: 500, per: "1m"/, rate({ per: '1m' })],
  ['limits.a.rate', /limits no starts/, rate({ starts: null, perKey: null, per: '1m' })],
  ['limits.a.rate.start', /starts/, rate({ start: 3, per: '1m' })],
  ['limits.a.rate.burst', /is not a known field/, rate({ starts: 3, per: '1m', burst: 6 })],
  ['limits.a.rate.starts', /would let no job start, ever/, rate({ starts: 0, per: '1m' })],
  ['limits.a.rate.starts', /whole number/, rate({ starts: 0.5, per: '1m' })],
  ['limits.a.rate.starts', /3 partitions.*Raise it/, limit({ rate: { starts: 2, per: '1m' } }, THREE)],
  ['limits.a.rate.perKey', /would let no job start, ever/, rate({ perKey: 0, per: '1m' })],
  ['limits.a.rate.perKey', /whole number/, rate({ perKey: '60', per: '1m' })],
  [
    'limits.a.rate.perKey',
    /3 partitions.*Raise it/,
    limit({ keyedBy: 'org', rate: { perKey: 2, per: '1m' } }, THREE),
  ],
  ['limits.a.rate.per', /is missing.*per: "1m"/, rate({ starts: 3 })],
  ['limits.a.rate.per', /duration/, rate({ starts: 3, per: '1 minute' })],
  ['limits.a.rate.per', /duration|whole/, rate({ starts: 3, per: null })],
  ['limits.a.rate.per', /at least 1000/, rate({ starts: 3, per: 999 })],
  ['limits.a.rate.per', /at most/, rate({ starts: 3, per: '31d' })],
  ['limits.a.rate.per', /duration|whole|at least/, rate({ starts: 3, per: -1 })],
  ['limits.a.rate.unit', /units/, rate({ unit: 9, perJob: 3, per: '1m' })],
  ['limits.a.rate.units', /would let no job start, ever/, rate({ units: 0, perJob: 3, per: '1m' })],
  ['limits.a.rate.units', /whole number/, rate({ units: 9.5, perJob: 3, per: '1m' })],
  ['limits.a.rate.units', /whole number/, rate({ units: Number.NaN, perJob: 3, per: '1m' })],
  ['limits.a.rate.units', /whole number/, rate({ units: Number.POSITIVE_INFINITY, perJob: 3, per: '1m' })],
  [
    'limits.a.rate.units',
    /below perJob \(3\).*Raise it to at least 3, or lower perJob/,
    rate({ units: 2, perJob: 3, per: '1m' }),
  ],
  [
    'limits.a.rate.units',
    /3 partitions: some would have a share below the 4 units of one job.*Raise it to at least 12, or declare at most 2/,
    limit({ rate: { units: 11, perJob: 4, per: '1m' } }, THREE),
  ],
  ['limits.a.rate.perJob', /is missing beside `units`.*perJob: 4000/, rate({ units: 9, per: '1m' })],
  ['limits.a.rate.perJob', /is missing beside `units`/, rate({ units: 9, perJob: null, per: '1m' })],
  ['limits.a.rate.perJob', /would let no job start, ever/, rate({ units: 9, perJob: 0, per: '1m' })],
  ['limits.a.rate.perJob', /whole number/, rate({ units: 9, perJob: '3', per: '1m' })],
  ['limits.a.rate', /limits no units.*units: 90000, perJob: 4000/, rate({ perJob: 3, per: '1m' })],
  ['limits.a.rate', /limits no units/, rate({ units: null, perKey: null, perJob: 3, per: '1m' })],
  [
    'limits.a.rate.starts',
    /cannot stand beside.*two limits, one for starts and one for units/,
    rate({ starts: 5, units: 9, perJob: 3, per: '1m' }),
  ],
  ['limits.a.rate.starts', /cannot stand beside/, rate({ starts: 5, perJob: 3, per: '1m' })],
  ['limits.a.rate.starts', /cannot stand beside/, rate({ starts: 5, units: 9, per: '1m' })],
  ['limits.a.rate.perKey', /below perJob \(3\)/, rate({ units: 9, perKey: 2, perJob: 3, per: '1m' })],
  [
    'limits.a.rate.perKey',
    /share below the 4 units of one job.*at least 12/,
    limit({ keyedBy: 'org', rate: { units: 90, perKey: 11, perJob: 4, per: '1m' } }, THREE),
  ],
  ['limits.a.budget', /object/, limit({ budget: null })],
  ['limits.a.budget', /object/, limit({ budget: 3600 })],
  ['limits.a.budget.slotSeconds', /is missing.*slotSeconds: 3600/, budget({ per: '1d' })],
  ['limits.a.budget.slotSeconds', /above 0/, budget({ slotSeconds: 0, per: '1d' })],
  ['limits.a.budget.slotSeconds', /above 0/, budget({ slotSeconds: -5, per: '1d' })],
  ['limits.a.budget.slotSeconds', /number/, budget({ slotSeconds: '1h', per: '1d' })],
  ['limits.a.budget.per', /is missing.*per: "1m"/, budget({ slotSeconds: 1 })],
  ['limits.a.budget.per', /at most/, budget({ slotSeconds: 1, per: '1000d' })],
  ['limits.a.budget.cost', /is not a known field/, budget({ cost: 1, per: '1d' })],
  [
    'limits.b',
    /is listed by no type.*List it in the `limits` of a type/,
    { types: { chat: { limits: ['a'] } }, limits: { a: { total: 1 }, b: { total: 1 } } },
  ],
  ['limits.a', /is listed by no type/, { types: { chat: {} }, limits: { a: { total: 1 } } }],
  ['types.chat.limits', /list|array/, listing('a')],
  ['types.chat.limits', /list|array/, listing({ a: true })],
  ['types.chat.limits', /at most 4/, listing(['a', 'b', 'c', 'd', 'e'])],
  ['types.chat.limits[0]', /characters|text/, listing([3])],
  [
    'types.chat.limits[0]',
    /names no declared limit \(there is none\)/,
    { types: { chat: { limits: ['a'] } } },
  ],
  ['types.chat.limits[0]', /names no declared limit \(a\).*Declare it in limits/, listing(['b'])],
  ['types.chat.limits[1]', /twice|already|again|repeat/, listing(['a', 'a'])],
  ['types.chat.limit', /limits/, { types: { chat: { limit: ['a'] } } }],
  [
    'types.chat.units',
    /is not a known field/,
    { types: { chat: { limits: ['a'], units: { a: 3 } } }, limits: { a: { total: 1 } } },
  ],
];

describe('limits that cannot work', () => {
  it.each(DECLARATIONS)('are refused with the field %s: %s', (field, says, input) => {
    let refused: unknown;
    try {
      resolveConfiguration(input as PoolInput);
    } catch (error) {
      refused = error;
    }
    if (!(refused instanceof ConfigurationError)) throw new Error(`accepted ${JSON.stringify(input)}`);
    expect(refused.field).toBe(field);
    expect(refused.message).toMatch(says);
    expect(refused.message.startsWith(`${field}: `)).toBe(true);
    expect(refused.message).not.toContain('\n');
    expect(refused.wayOut).toMatch(/^\S.*\.$/);
  });

  it('are as many as a person may get wrong', () => {
    expect(DECLARATIONS.length).toBeGreaterThanOrEqual(60);
  });
});

describe('what does not fit the limits of its type', () => {
  const configuration = resolveConfiguration({
    types: {
      chat: { limits: ['org', 'user'] },
      embed: { limits: ['org'] },
      ask: { limits: ['calls', 'tokens'] },
      free: {},
    },
    limits: {
      org: { keyedBy: 'org', perKey: 2 },
      user: { keyedBy: 'user', rate: { perKey: 5, per: '1m' } },
      calls: { rate: { starts: 5, per: '1m' } },
      tokens: { rate: { units: 9_000, perJob: 4_000, per: '1m' } },
    },
  });

  it.each<readonly [string, object, string]>([
    ['no keys at all', { type: 'chat' }, 'keys.org'],
    ['an empty object of keys', { type: 'chat', keys: {} }, 'keys.org'],
    ['one key of two', { type: 'chat', keys: { org: 'acme' } }, 'keys.user'],
    ['the other key of two', { type: 'chat', keys: { user: 'u' } }, 'keys.org'],
    ['a key of another case', { type: 'embed', keys: { Org: 'acme' } }, 'keys.org'],
    ['the fairness key only', { type: 'embed', fairnessKey: 'acme' }, 'keys.org'],
    ['an empty key', { type: 'embed', keys: { org: '' } }, 'keys.org'],
    ['a key that is a number', { type: 'embed', keys: { org: 7 } }, 'keys.org'],
    ['keys that are a text', { type: 'free', keys: 'acme' }, 'keys'],
    ['too many keys', { type: 'free', keys: { a: '1', b: '2', c: '3', d: '4', e: '5' } }, 'keys'],
    ['too long keys', { type: 'free', keys: { org: 'x'.repeat(300) } }, 'keys'],
    ['more units than a job may have', { type: 'ask', units: { tokens: 4_001 } }, 'units.tokens'],
    ['no unit', { type: 'ask', units: { tokens: 0 } }, 'units.tokens'],
    ['units below 0', { type: 'ask', units: { tokens: -1 } }, 'units.tokens'],
    ['half a unit', { type: 'ask', units: { tokens: 1.5 } }, 'units.tokens'],
    ['units that are no number', { type: 'ask', units: { tokens: Number.NaN } }, 'units.tokens'],
    ['units without end', { type: 'ask', units: { tokens: Number.POSITIVE_INFINITY } }, 'units.tokens'],
    ['units that are a text', { type: 'ask', units: { tokens: '12' } }, 'units.tokens'],
    ['units that are null', { type: 'ask', units: { tokens: null } }, 'units.tokens'],
    ['units for a limit that counts starts', { type: 'ask', units: { calls: 1 } }, 'units.calls'],
    ['units for a limit of another type', { type: 'free', units: { tokens: 1 } }, 'units.tokens'],
    ['units for a limit that is misspelt', { type: 'ask', units: { token: 1 } }, 'units.token'],
    ['units that are a number', { type: 'ask', units: 12 }, 'units'],
    ['units of many limits', { type: 'ask', units: { a: 1, b: 1, c: 1, d: 1, e: 1 } }, 'units'],
  ])('is refused, as a job and as a schedule: %s', (_, fields, field) => {
    const [refused] = parseRequests(fields, configuration).refused;
    expect(refused).toMatchObject({ field, reason: expect.stringMatching(/must|missing|names no limit/) });
    const scheduled = parseSchedule({ cron: '0 8 * * *', ...fields }, NOW_MS, configuration);
    expect(scheduled).toMatchObject({ refusal: { field } });
  });

  it('is accepted with units from 1 to the most of a job, which its schedule gives to its jobs', () => {
    for (const fields of [
      { type: 'ask' },
      { type: 'ask', units: {} },
      { type: 'ask', units: { tokens: 1 } },
      { type: 'ask', units: { tokens: 4_000 } },
    ]) {
      const units = Object.keys(fields.units ?? {}).length === 0 ? undefined : fields.units;
      const { accepted } = parseRequests(fields, configuration);
      expect(accepted.map(({ request }) => request.units)).toEqual([units]);
      const scheduled = parseSchedule({ cron: '0 8 * * *', ...fields }, NOW_MS, configuration);
      expect('spec' in scheduled && scheduled.spec.job.units).toEqual(units);
    }
  });

  it('says the value and the way out', () => {
    const reasonOf = (units: object): string | undefined =>
      parseRequests({ type: 'ask', units }, configuration).refused[0]?.reason;
    expect(reasonOf({ tokens: 4_001 })).toBe(
      'must be at most 4000, the most that limit "tokens" lets one job have (got 4001); split the job, or raise perJob',
    );
    expect(reasonOf({ tokns: 12 })).toBe(
      'names no limit of type "ask" that counts units. Did you mean "tokens"? Those are: tokens; name one of them, or leave it out',
    );
  });

  it('is accepted with all of its keys, which its schedule gives to its jobs', () => {
    const fields = { type: 'chat', keys: { org: 'acme', user: 'u' } };
    expect(parseRequests(fields, configuration).refused).toEqual([]);
    expect(parseSchedule({ cron: '0 8 * * *', ...fields }, NOW_MS, configuration)).toMatchObject({
      spec: { job: { keys: fields.keys } },
    });
  });
});
