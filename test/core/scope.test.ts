/** Scopes are written and read in one way, and the table of their kinds says what holds for their caps. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { ReservedJob } from '../../lib/core/job.ts';
import {
  declaredCaps,
  declaredScopeOf,
  isDeclared,
  isInScope,
  lentScopesOf,
  nameIn,
  parseScope,
  printScope,
  resourceIn,
  resourceScope,
  ruleOf,
  type Scope,
  scopesOfType,
  withCaps,
} from '../../lib/core/scope.ts';

const TEXTS: readonly (readonly [string, Scope])[] = [
  ['pool', 'pool'],
  ['tier/urgent', { tier: 'urgent' }],
  ['type/resize', { type: 'resize' }],
  ['fleet/images', { fleet: 'images' }],
  ['key/tenant-a', { fairnessKey: 'tenant-a' }],
];

const POOL = resolveConfiguration({
  types: { resize: { maxConcurrency: 4 }, report: {} },
  tiers: [{ tier: 'urgent', maxConcurrency: 6 }, { tier: 'rest' }],
  fleets: { images: { types: ['resize'], slots: 8 }, books: { types: ['report'] } },
  maxConcurrency: 10,
});

const job: ReservedJob = {
  id: 'a',
  version: 1,
  attempt: 1,
  type: 'resize',
  tier: 'urgent',
  fairnessKey: 'tenant-a',
  fleet: 'images',
  estimatedCostMs: 1,
};

describe('a scope', () => {
  it.each(TEXTS)('is written as %s, as in tables that are deployed', (text, scope) => {
    expect(printScope(scope)).toBe(text);
    expect(parseScope(text)).toEqual(scope);
  });

  it('comes back from its text, whatever its name', () => {
    const kinds = fc.constantFrom('tier', 'type', 'fleet', 'fairnessKey');
    fc.assert(
      fc.property(kinds, fc.string(), (kind, name) => {
        const scope = { [kind]: name } as unknown as Scope;
        expect(parseScope(printScope(scope))).toEqual(scope);
      }),
    );
  });

  it.each(['', 'pools', 'tier', 'Tier/a', 'queue/a', '/a', 'constructor/a', 'fairnessKey/a'])(
    'is not named by %j',
    (text) => {
      expect(parseScope(text)).toBeUndefined();
    },
  );

  it('of a limit has its name, or one fairness key of it, whatever that is called', () => {
    expect(printScope({ limit: 'openai' })).toBe('limit/openai');
    expect(printScope({ limit: 'openai', key: 'a/b' })).toBe('limit/openai/a/b');
    expect(parseScope('limit/openai/a/b')).toEqual({ limit: 'openai', key: 'a/b' });
    const pool = resolveConfiguration({
      types: { chat: { limits: ['openai'] }, other: {} },
      limits: { openai: { total: 3, rate: { starts: 60, per: '1m' } } },
    });
    expect([{ limit: 'openai' }, { limit: 'opnai' }].map((scope) => isDeclared(scope, pool))).toEqual([
      true,
      false,
    ]);
    const chat = { ...job, type: 'chat' };
    const scopes = [
      { limit: 'openai' },
      { limit: 'openai', key: job.fairnessKey },
      { limit: 'openai', key: '?' },
    ];
    expect(scopes.map((scope) => isInScope(scope, chat, pool))).toEqual([true, true, false]);
    // A job counts under the terms that it was reserved with, too.
    expect(isInScope({ limit: 'openai' }, { ...chat, type: 'other', limits: ['openai'] }, pool)).toBe(true);
    expect(isInScope({ limit: 'openai' }, { ...chat, type: 'other' }, pool)).toBe(false);
    expect(lentScopesOf(pool, chat)).toContain('limit/openai');
    expect(ruleOf('limit/openai', pool)).toMatchObject({ isDivided: true });
    expect(ruleOf('limit/openai/acme', pool)).toMatchObject({ isDivided: false });
    expect(declaredCaps(pool)).toContainEqual({
      scope: 'rate.starts/openai',
      path: 'limits.openai.rate.starts',
      cap: 60,
    });
  });

  it('of a limit that counts by another key has that of the job, and is divided', () => {
    const pool = resolveConfiguration({
      types: { chat: { limits: ['org'] } },
      limits: { org: { keyedBy: 'org', total: 9, perKey: 3, rate: { perKey: 60, per: '1m' } } },
      partitions: 2,
    });
    const chat = { ...job, type: 'chat', keys: { org: 'acme' } };
    const scopes = ['acme', job.fairnessKey, ''].map((key) => ({ limit: 'org', key }));
    expect(scopes.map((scope) => isInScope(scope, chat, pool))).toEqual([true, false, false]);
    const { keys: _keys, ...without } = chat;
    expect(scopes.map((scope) => isInScope(scope, without, pool))).toEqual([false, false, true]);
    expect(ruleOf('limit/org/acme', pool)).toMatchObject({ isDivided: true, control: 'instead' });
    expect(declaredCaps(pool)).toEqual(
      expect.arrayContaining([
        { scope: 'perKey/org', path: 'limits.org.perKey', cap: 3 },
        { scope: 'rate.perKey/org', path: 'limits.org.rate.perKey', cap: 60 },
      ]),
    );
  });

  it('tells its name only to whoever asks for its kind', () => {
    expect(nameIn('fairnessKey', 'key/a/b')).toBe('a/b');
    expect(nameIn('fairnessKey', 'keys/a')).toBeUndefined();
    expect(nameIn('fleet', 'key/a')).toBeUndefined();
  });

  it('is declared if the pool has its name, and always for a fairness key', () => {
    expect(TEXTS.map(([, scope]) => isDeclared(scope, POOL))).toEqual([true, true, true, true, true]);
    const others: readonly Scope[] = [
      { tier: 'resize' },
      { type: 'urgent' },
      { fleet: 'x' },
      { fairnessKey: 'x' },
    ];
    expect(others.map((scope) => isDeclared(scope, POOL))).toEqual([false, false, false, true]);
  });

  it('holds a job in flight of its name', () => {
    expect(TEXTS.map(([, scope]) => isInScope(scope, job, POOL))).toEqual([true, true, true, true, true]);
    expect(TEXTS.slice(1).some(([, scope]) => isInScope(scope, OTHER, POOL))).toBe(false);
  });

  it('of a resource names its type too, whatever it is called, and nobody controls it', () => {
    const scope = resourceScope('a/b', 'album/1');
    expect(printScope(scope)).toBe('resource/a%2Fb/album/1');
    expect(parseScope(printScope(scope))).toEqual(scope);
    expect(resourceIn(printScope(scope))).toEqual({ type: 'a/b', resourceId: 'album/1' });
    expect(declaredScopeOf(printScope(scope))).toBe('resource/a%2Fb');
    expect([resourceIn('type/resize'), declaredScopeOf('type/resize')]).toEqual([undefined, 'type/resize']);
    expect(isDeclared(resourceScope('resize', 'album'), POOL)).toBe(false);
    const of = (changes: Partial<ReservedJob>) =>
      isInScope(resourceScope('resize', 'album'), { ...job, ...changes }, POOL);
    expect([of({}), of({ resourceId: 'album' }), of({ conflictKey: 'g/album' })]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('of those that partitions divide and lend are all but that of the key', () => {
    expect(lentScopesOf(POOL, job)).toEqual(['pool', 'tier/urgent', 'type/resize', 'fleet/images']);
    expect(scopesOfType(POOL, 'urgent', 'resize')).toEqual(['pool', 'tier/urgent', 'type/resize']);
    expect(TEXTS.map(([text]) => ruleOf(text, POOL))).toEqual(
      [
        { isDivided: true, control: 'instead' },
        { isDivided: true, control: 'instead' },
        { isDivided: true, control: 'instead' },
        { isDivided: true, control: 'beside' },
        { isDivided: false, control: 'instead' },
      ].map((rule) => expect.objectContaining(rule)),
    );
  });
});

const OTHER: ReservedJob = { ...job, type: 'report', tier: 'rest', fairnessKey: 'tenant-b', fleet: 'books' };

describe('declared caps', () => {
  it('stand at their paths, with their scopes', () => {
    expect(declaredCaps(POOL)).toEqual([
      { scope: 'pool', path: 'maxConcurrency', cap: 10 },
      { scope: 'tier/urgent', path: 'tiers[0].maxConcurrency', cap: 6 },
      { scope: 'tier/rest', path: 'tiers[1].maxConcurrency', cap: null },
      { scope: 'type/resize', path: 'types.resize.maxConcurrency', cap: 4 },
      { scope: 'type/report', path: 'types.report.maxConcurrency', cap: null },
      { scope: 'fleet/images', path: 'fleets.images.slots', cap: 8 },
      { scope: 'fleet/books', path: 'fleets.books.slots', cap: null },
    ]);
  });

  it('are there for the resources of a type that limits them', () => {
    const limited = resolveConfiguration({ types: { resize: { maxConcurrencyPerResource: 6 }, report: {} } });
    const caps = declaredCaps(limited).filter(({ cap }) => cap !== null);
    expect(caps).toEqual([
      { scope: 'resource/resize', path: 'types.resize.maxConcurrencyPerResource', cap: 6 },
    ]);
    const { types } = withCaps(limited, ({ cap }) => (cap === null ? null : cap / 2));
    expect(types.map(({ maxConcurrencyPerResource }) => maxConcurrencyPerResource)).toEqual([3, undefined]);
  });

  it('are replaced where they stand, and nothing else is', () => {
    expect(withCaps(POOL, ({ cap }) => cap)).toEqual(POOL);
    const less = withCaps(POOL, ({ cap }) => (cap === null ? 1 : cap - 1));
    expect(declaredCaps(less).map(({ cap }) => cap)).toEqual([9, 5, 1, 3, 1, 7, 1]);
    expect(
      withCaps(less, ({ scope }) => declaredCaps(POOL).find((each) => each.scope === scope)?.cap ?? null),
    ).toEqual(POOL);
  });
});
