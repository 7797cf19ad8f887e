/** What producers may ask for: a table of what is refused and why, and properties over anything that JSON can say. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { SubmitRequest } from '../../lib/client/submissions.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import {
  dependsOnDeclaration,
  type JobRequest,
  jobFrom,
  jobIdOf,
  jobIdOfEvent,
  type jobRequest,
  parseRequests,
  REQUEST_LIMITS,
} from '../../lib/submit/request.ts';
import { desk } from '../client/desk.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

/** What the client takes is what an event may ask for. This line does not compile for a field that one of them lacks. */
type Asked = keyof z.input<typeof jobRequest>;
true satisfies [Asked, keyof SubmitRequest] extends [keyof SubmitRequest, Asked] ? true : never;

const pool = resolveConfiguration({ types: { echo: {}, slow: {} } });
const WAIT_MS = 60_000;
const LONG_KEY = 'k'.repeat(REQUEST_LIMITS.keyBytes + 1);
const LONE_SURROGATE = '\ud800';
const kilobytes = (count: number): string => 'x'.repeat(count * 1_024);
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));

/** As it would arrive: the text of the event's detail. */
const parsed = (text: string): unknown => JSON.parse(text);
const job = (fields: Record<string, unknown> = {}): Record<string, unknown> => ({ type: 'echo', ...fields });
/** A job whose field is what JSON.parse makes of the text. */
const withText = (text: string): unknown => parsed(`{"type":"echo",${text}}`);

type Bad = readonly [what: string, detail: unknown, field: string, reason: RegExp];

const BAD_WHOLES: readonly Bad[] = [
  ['nothing', undefined, '', /must be an object/],
  ['null', null, '', /must be an object/],
  ['text', 'echo', '', /must be an object.*"echo"/],
  ['an empty array', [], '', /must be an object.*array/],
  ['a very deep array', nested(20_000), '', /must be an object/],
  ['an empty object', {}, 'type', /missing/],
  ['no jobs', { jobs: [] }, 'jobs', /empty/],
  ['jobs that are an object', { jobs: { 0: job() } }, 'jobs', /array/],
  ['jobs that are null', { jobs: null }, 'jobs', /array/],
  [
    'too many jobs',
    { jobs: Array.from({ length: REQUEST_LIMITS.jobsPerEvent + 1 }, () => job()) },
    'jobs',
    /1001/,
  ],
  ['a type beside jobs', { jobs: [job()], type: 'echo' }, 'type', /beside "jobs"/],
  ['a priority before jobs', { priority: 1, jobs: [job()] }, 'priority', /beside "jobs"/],
  ['__proto__ beside jobs', parsed('{"jobs":[{"type":"echo"}],"__proto__":{}}'), '__proto__', /beside/],
  ['a very long field beside jobs', { jobs: [], [kilobytes(300)]: 1 }, 'x', /beside/],
];

const BAD_JOBS: readonly Bad[] = [
  ['no type', { payload: 1 }, 'type', /missing/],
  ['a type that is null', { type: null }, 'type', /null/],
  ['a type that is a number', { type: 5 }, 'type', /5/],
  ['an unknown type', { type: 'resize' }, 'type', /unknown job type "resize".*echo, slow/],
  ['an empty type', { type: '' }, 'type', /unknown job type ""/],
  ['the type constructor', { type: 'constructor' }, 'type', /unknown/],
  ['the type __proto__', { type: '__proto__' }, 'type', /unknown/],
  ['a type of 300 KB', { type: kilobytes(300) }, 'type', /unknown/],
  ['priority -1', job({ priority: -1 }), 'priority', /-1/],
  ['priority 11', job({ priority: 11 }), 'priority', /11/],
  ['priority "5"', job({ priority: '5' }), 'priority', /"5"/],
  ['priority NaN', job({ priority: Number.NaN }), 'priority', /NaN/],
  ['priority null', job({ priority: null }), 'priority', /null/],
  ['priority 1e400', withText('"priority":1e400'), 'priority', /Infinity/],
  ['an unknown mode', job({ mode: 'later' }), 'mode', /"later"/],
  ['mode null', job({ mode: null }), 'mode', /null/],
  ['fairnessKey 7', job({ fairnessKey: 7 }), 'fairnessKey', /7/],
  ['a fairnessKey of 513 bytes', job({ fairnessKey: LONG_KEY }), 'fairnessKey', /512 bytes/],
  [
    'a fairnessKey of 513 bytes in 171 characters',
    job({ fairnessKey: '€'.repeat(171) }),
    'fairnessKey',
    /512/,
  ],
  ['an ill-formed fairnessKey', job({ fairnessKey: `a${LONE_SURROGATE}b` }), 'fairnessKey', /Unicode/],
  ['an empty resourceId', job({ resourceId: '' }), 'resourceId', /empty/],
  ['resourceId 0', job({ resourceId: 0 }), 'resourceId', /0/],
  ['tags that are a list', job({ tags: ['order'] }), 'tags', /object|record/i],
  ['a tag that is a number', job({ tags: { order: 4711 } }), 'tags.order', /4711/],
  [
    '9 tags',
    job({ tags: Object.fromEntries([...'abcdefghi'].map((name) => [name, ''])) }),
    'tags',
    /at most 8/,
  ],
  ['a tag without a name', job({ tags: { '': 'x' } }), 'tags', /1 to 64/],
  ['a tag with a name of 65 characters', job({ tags: { ['n'.repeat(65)]: 'x' } }), 'tags', /1 to 64/],
  ['tags of 513 bytes', job({ tags: { order: 'x'.repeat(508) } }), 'tags', /512 bytes/],
  ['an ill-formed tag', job({ tags: { order: LONE_SURROGATE } }), 'tags', /well-formed/],
  ['the tag __proto__', job({ tags: parsed('{"__proto__":"x"}') }), 'tags.__proto__', /unknown/],
  ['a fairnessKey with U+0000 in front', job({ fairnessKey: '\u0000k' }), 'fairnessKey', /U\+0000/],
  ['keys that are a text', job({ keys: 'acme' }), 'keys', /object|record/i],
  ['keys that are a list', job({ keys: ['acme'] }), 'keys', /object|record/i],
  ['keys that are null', job({ keys: null }), 'keys', /null/],
  ['a key that is a number', job({ keys: { org: 4711 } }), 'keys.org', /4711/],
  ['a key that is a list', job({ keys: { org: ['acme'] } }), 'keys.org', /array/],
  ['an empty key', job({ keys: { org: '' } }), 'keys.org', /empty; leave it out/],
  ['5 keys', job({ keys: { a: '1', b: '2', c: '3', d: '4', e: '5' } }), 'keys', /at most 4/],
  ['a key without a name', job({ keys: { '': 'acme' } }), 'keys', /1 to 100/],
  ['a key with a name of 101 characters', job({ keys: { ['n'.repeat(101)]: 'x' } }), 'keys', /1 to 100/],
  ['keys of 257 bytes', job({ keys: { org: 'x'.repeat(254) } }), 'keys', /256 bytes/],
  ['keys of 257 bytes in few characters', job({ keys: { orgs: `${'€'.repeat(84)}x` } }), 'keys', /256 bytes/],
  ['an ill-formed key', job({ keys: { org: LONE_SURROGATE } }), 'keys.org', /well-formed/],
  ['an ill-formed name of a key', job({ keys: { [LONE_SURROGATE]: 'x' } }), 'keys', /well-formed/],
  ['the units __proto__', job({ units: parsed('{"__proto__":1}') }), 'units.__proto__', /unknown/],
  ['the key __proto__', job({ keys: parsed('{"__proto__":"x"}') }), 'keys.__proto__', /unknown/],
  ['an empty label', job({ label: '' }), 'label', /empty/],
  ['a label of 257 bytes', job({ label: 'l'.repeat(257) }), 'label', /256 bytes/],
  ['a label of 258 bytes in 86 characters', job({ label: '€'.repeat(86) }), 'label', /256 bytes/],
  ['an empty idempotencyKey', job({ idempotencyKey: '' }), 'idempotencyKey', /empty/],
  ['idempotencyKey 4711', job({ idempotencyKey: 4711 }), 'idempotencyKey', /4711/],
  ['runAt in milliseconds', job({ runAt: NOW_MS }), 'runAt', /ISO 8601/],
  ['runAt tomorrow', job({ runAt: 'tomorrow' }), 'runAt', /"tomorrow"/],
  ['runAt without a zone', job({ runAt: '2027-01-31T08:00:00' }), 'runAt', /zone/],
  ['runAt with a date only', job({ runAt: '2027-01-31' }), 'runAt', /zone/],
  ['runAt on 30 February', job({ runAt: '2027-02-30T00:00:00Z' }), 'runAt', /zone/],
  ['runAt at 24:00', job({ runAt: '2027-01-31T24:00:00Z' }), 'runAt', /zone/],
  ['runAt in zone +25:00', job({ runAt: '2027-01-31T08:00:00+25:00' }), 'runAt', /zone/],
  ['runAt with a second line', job({ runAt: '2027-01-31T08:00:00Z\n' }), 'runAt', /zone/],
  ['a payload of 300 KB', job({ payload: kilobytes(300) }), 'payload', /307202 bytes/],
  ['a payload one byte too large', job({ payload: kilobytes(64).slice(1) }), 'payload', /65537 bytes/],
  ['a payload large in bytes only', job({ payload: '€'.repeat(22_000) }), 'payload', /66002 bytes/],
  ['a payload of 101 levels', job({ payload: nested(101) }), 'payload', /deep/],
  ['a payload of 20,000 levels', job({ payload: nested(20_000) }), 'payload', /deep/],
  [
    'a payload of many objects in each other',
    withText(`"payload":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`),
    'payload',
    /deep/,
  ],
  ['an unknown field', job({ colour: 'red' }), 'colour', /unknown field "colour"/],
  [
    'an unknown field of dedupe',
    job({ dedupe: { key: 'k', keeps: 'last' } }),
    'dedupe.keeps',
    /Did you mean "keep"\? Known here: key, keep, quiet, atMost, whileRunning$/,
  ],
  ["the item's own version", job({ version: 99 }), 'version', /unknown field/],
  ['runAtMs', job({ runAtMs: NOW_MS }), 'runAtMs', /unknown field/],
  ['__proto__', withText('"__proto__":{"priority":10}'), '__proto__', /unknown field/],
  ['constructor', withText('"constructor":{"prototype":{}}'), 'constructor', /unknown field/],
  ['a traceparent that is null', job({ traceparent: null }), 'traceparent', /null/],
  ['a traceparent of 300 KB', job({ traceparent: kilobytes(300) }), 'traceparent', /W3C traceparent/],
  ['an empty field name', job({ '': 1 }), '', /unknown field ""/],
  ['an ill-formed field name', job({ [LONE_SURROGATE]: 1 }), '\ufffd', /unknown field/],
  ['a field name of 300 KB', job({ [kilobytes(300)]: 1 }), 'x', /unknown field/],
];

const BAD_ENTRIES: readonly Bad[] = [
  ...BAD_JOBS,
  ['null', null, '', /must be an object/],
  ['text', 'echo', '', /must be an object/],
  ['an array', [job()], '', /must be an object/],
  ['jobs within jobs', { jobs: [job()] }, '', /missing|unknown/],
];

describe('a request that is not acceptable', () => {
  it.each([...BAD_WHOLES, ...BAD_JOBS])(
    'is refused by the name of its field: %s',
    (_, detail, field, reason) => {
      const { accepted, refused } = parseRequests(detail, pool);
      expect(accepted).toEqual([]);
      expect(refused).toHaveLength(1);
      expect(refused[0]).toMatchObject({ position: 0, reason: expect.stringMatching(reason) });
      const named = refused[0]?.field ?? '';
      if (field === 'x') expect(named).toMatch(/^x+$/);
      else expect(named).toBe(field);
    },
  );

  it.each(BAD_ENTRIES)('spoils none of its neighbours: %s', (_, entry, field, reason) => {
    const { accepted, refused } = parseRequests(
      { jobs: [job({ payload: 0 }), entry, job({ payload: 2 })] },
      pool,
    );
    expect(accepted.map(({ position, request }) => [position, request.payload])).toEqual([
      [0, 0],
      [2, 2],
    ]);
    expect(refused).toHaveLength(1);
    expect(refused[0]).toMatchObject({ position: 1, reason: expect.stringMatching(reason) });
    expect(refused[0]?.field.startsWith('jobs[1]')).toBe(true);
    if (field.length > 1) expect(refused[0]?.field).toBe(`jobs[1].${field}`);
  });

  it('is answered in bounded, well-formed text, whatever was sent', () => {
    for (const [, detail] of [...BAD_WHOLES, ...BAD_JOBS]) {
      for (const { field, reason } of parseRequests(detail, pool).refused) {
        expect(field.length).toBeLessThanOrEqual(300);
        expect(reason.length).toBeLessThanOrEqual(1_000);
        expect(field.isWellFormed() && reason.isWellFormed()).toBe(true);
      }
    }
  });
});

describe('a request that is acceptable', () => {
  const only = (detail: unknown): JobRequest => {
    const { accepted, refused } = parseRequests(detail, pool);
    expect(refused).toEqual([]);
    expect(accepted).toHaveLength(1);
    return (accepted[0] as { request: JobRequest }).request;
  };

  it('gets its defaults', () => {
    expect(only({ type: 'echo' })).toEqual({
      type: 'echo',
      payload: null,
      priority: 0,
      mode: 'queued',
      fairnessKey: '',
      resourceId: undefined,
      runAtMs: undefined,
      idempotencyKey: undefined,
    });
  });

  it('keeps all that it says', () => {
    const given = {
      type: 'slow',
      payload: { a: [1, null] },
      priority: 10,
      mode: 'onDemand',
      fairnessKey: 'k',
    };
    const names = {
      resourceId: 'r',
      label: 'l',
      keys: { org: 'acme', user: 'u' },
      tags: { order: '4711' },
      idempotencyKey: 'i',
      traceparent: TRACEPARENT,
    };
    expect(only({ ...given, ...names, runAt: '2027-01-31T08:00:00+01:00' })).toEqual({
      ...given,
      ...names,
      runAtMs: Date.UTC(2027, 0, 31, 7),
    });
  });

  it.each<readonly [string, Record<string, unknown>]>([
    ['priority 0', { priority: 0 }],
    ['priority 10', { priority: 10 }],
    ['priority 5.0', { priority: 5.0 }],
    ['a fairnessKey of 512 bytes', { fairnessKey: 'k'.repeat(512) }],
    ['an empty fairnessKey', { fairnessKey: '' }],
    ['a label of 256 bytes', { label: 'l'.repeat(256) }],
    ['8 tags', { tags: Object.fromEntries([...'abcdefgh'].map((name) => [name, ''])) }],
    ['tags of 512 bytes', { tags: { order: 'x'.repeat(507) } }],
    ['the tag constructor', { tags: { constructor: 'x' } }],
    ['4 keys', { keys: { a: '1', b: '2', c: '3', d: '4' } }],
    ['keys of 256 bytes', { keys: { org: 'x'.repeat(253) } }],
    ['the key constructor', { keys: { constructor: 'x' } }],
    ['the fairnessKey __proto__', { fairnessKey: '__proto__' }],
    ['the resourceId constructor', { resourceId: 'constructor' }],
    ['an emoji', { resourceId: '🎞/../%2F' }],
    ['a runAt in the past', { runAt: '1970-01-01T00:00:00Z' }],
    ['a runAt with fractions', { runAt: '2027-01-31T08:00:00.123456Z' }],
    ['29 February of a leap year', { runAt: '2028-02-29T00:00:00Z' }],
    ['the last year', { runAt: '9999-12-31T23:59:59.999Z' }],
    ['a payload of exactly 64 KB', { payload: kilobytes(64).slice(2) }],
    ['a payload of 100 levels', { payload: nested(100) }],
    ['an ill-formed payload', { payload: LONE_SURROGATE }],
    ['a payload that is null', { payload: null }],
    ['a payload that is false', { payload: false }],
  ])('may have %s', (_, fields) => {
    only(job(fields));
  });

  it('may come with exactly as many others as an event takes', () => {
    const jobs = Array.from({ length: REQUEST_LIMITS.jobsPerEvent }, () => job());
    expect(parseRequests({ jobs }, pool).accepted).toHaveLength(REQUEST_LIMITS.jobsPerEvent);
  });

  it('keeps __proto__ in its payload as data, and pollutes nothing', () => {
    const { payload } = only(
      withText('"payload":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
    );
    expect(JSON.stringify(payload)).toBe(
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    );
    expect('polluted' in {}).toBe(false);
    const stored = jobFrom(only(withText('"payload":{"__proto__":[1]}')), 'id', 0, NOW_MS);
    expect(JSON.stringify(stored.payload)).toBe('{"__proto__":[1]}');
  });
});

describe('a job under a limit that counts by another key', () => {
  const limited = resolveConfiguration({
    types: { chat: { limits: ['org', 'api'] }, echo: {} },
    limits: { org: { keyedBy: 'org', perKey: 2 }, api: { perKey: 2 } },
  });
  const refusalOf = (detail: unknown) => parseRequests(detail, limited).refused[0];

  it.each<readonly [string, Record<string, unknown>]>([
    ['no keys', {}],
    ['other keys', { keys: { user: 'u' } }],
    ['the key under the name of a prototype', { keys: { constructor: 'x' } }],
    ['the fairness key only', { fairnessKey: 'acme' }],
  ])('is refused with %s', (_, fields) => {
    expect(refusalOf({ type: 'chat', ...fields })).toEqual({
      position: 0,
      field: 'keys.org',
      reason:
        'is missing: jobs of type "chat" are under limit "org", which counts by it; name it as keys: { "org": "..." }',
    });
    expect(refusalOf({ jobs: [{ type: 'echo' }, { type: 'chat', ...fields }] })).toMatchObject({
      position: 1,
      field: 'jobs[1].keys.org',
    });
  });

  it('is accepted with it, and so is a job of another type without any', () => {
    const { accepted } = parseRequests(
      {
        jobs: [
          { type: 'chat', keys: { org: 'acme' } },
          { type: 'echo', keys: {} },
        ],
      },
      limited,
    );
    expect(accepted.map(({ request }) => request.keys)).toEqual([{ org: 'acme' }, undefined]);
  });

  it('is checked again against a newer declaration', () => {
    const isDeclared = (field: string): boolean => dependsOnDeclaration({ field });
    expect(
      ['keys.org', 'jobs[3].keys.org', 'units.gpt-4.1', 'jobs[0].units.x', 'type'].every(isDeclared),
    ).toBe(true);
    expect(['keys', 'units', 'tags.org', 'tags.keys.org'].some(isDeclared)).toBe(false);
  });
});

describe('anything at all that JSON can say', () => {
  const anyField = fc.constantFrom(
    'type',
    'payload',
    'priority',
    'mode',
    'fairnessKey',
    'resourceId',
    'label',
    'keys',
    'units',
    'tags',
    'runAt',
    'idempotencyKey',
    'jobs',
    '__proto__',
    'constructor',
    'x',
  );
  const likelyValue = fc.oneof(
    fc.constantFrom(
      'echo',
      'slow',
      'queued',
      'onDemand',
      '2027-01-31T08:00:00Z',
      '',
      null,
      0,
      10,
      11,
      -0,
      1.5,
      LONE_SURROGATE,
    ),
    fc.jsonValue({ maxDepth: 3 }),
  );
  const likelyJob = fc
    .dictionary(anyField, likelyValue, { maxKeys: 5 })
    .map((fields) => ({ type: 'echo', ...fields }));
  const anyEntry = fc.oneof(likelyJob, fc.dictionary(anyField, likelyValue), fc.jsonValue({ maxDepth: 3 }));
  const anyJobs = fc.array(anyEntry, { minLength: 1, maxLength: 20 });
  const arrived = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

  const expectValid = (request: JobRequest): void => {
    expect(['echo', 'slow']).toContain(request.type);
    expect(Number.isInteger(request.priority) && request.priority >= 0 && request.priority <= 10).toBe(true);
    expect(['queued', 'onDemand']).toContain(request.mode);
    for (const key of [request.fairnessKey, request.resourceId ?? '', request.idempotencyKey ?? '']) {
      expect(Buffer.byteLength(key)).toBeLessThanOrEqual(REQUEST_LIMITS.keyBytes);
      expect(key.isWellFormed()).toBe(true);
    }
    expect(Buffer.byteLength(request.label ?? '')).toBeLessThanOrEqual(REQUEST_LIMITS.labelBytes);
    if (request.runAtMs !== undefined) expect(Number.isSafeInteger(request.runAtMs)).toBe(true);
    const made = jobFrom(request, 'id', 0, NOW_MS);
    expect(made.state).toBe(made.runAtMs > NOW_MS ? 'scheduled' : 'pending');
    expect(made.contentHash).toMatch(/^[0-9a-f]{32}$/);
  };

  it('is accepted or refused, never thrown at', { timeout: WAIT_MS }, () => {
    fc.assert(
      fc.property(fc.oneof(anyEntry, fc.jsonValue()), (value) => {
        const { accepted, refused } = parseRequests(arrived(value), pool);
        expect(accepted.length + refused.length).toBeGreaterThanOrEqual(1);
        for (const { request } of accepted) expectValid(request);
      }),
      { numRuns: 2_000 },
    );
  });

  it('in a list, each entry is accepted or refused, once, in its place', { timeout: WAIT_MS }, () => {
    fc.assert(
      fc.property(anyJobs, (jobs) => {
        const { accepted, refused } = parseRequests(arrived({ jobs }), pool);
        const positions = [...accepted, ...refused].map((each) => each.position).sort((a, b) => a - b);
        expect(positions).toEqual(jobs.map((_, at) => at));
        for (const { request } of accepted) expectValid(request);
        for (const { field, position } of refused) expect(field.startsWith(`jobs[${position}]`)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  it('in a list is judged as it is alone', { timeout: WAIT_MS }, () => {
    fc.assert(
      fc.property(anyJobs, (jobs) => {
        const list = parseRequests(arrived({ jobs }), pool);
        for (const [at, entry] of jobs.entries()) {
          const isBatch = typeof entry === 'object' && entry !== null && Object.hasOwn(entry, 'jobs');
          if (isBatch) continue;
          const alone = parseRequests(arrived(entry), pool);
          const inList = list.accepted.find(({ position }) => position === at);
          expect(inList?.request).toEqual(alone.accepted[0]?.request);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("a job's id", () => {
  it('is the same for the same idempotency key, and never one of an event', () => {
    expect(jobIdOf('upload-4711')).toBe(jobIdOf('upload-4711'));
    expect(jobIdOf('upload-4711')).toBe('51da435b0d5a52da5217e2afd8c569bb');
    expect(jobIdOf('a')).not.toBe(jobIdOfEvent('a', 0));
  });

  it('is another one for each place of an event', () => {
    const ids = Array.from({ length: 1_000 }, (_, position) => jobIdOfEvent('event', position));
    expect(new Set(ids).size).toBe(1_000);
    expect(jobIdOfEvent('e/1', 1)).not.toBe(jobIdOfEvent('e', 11));
    expect(jobIdOfEvent('event', 3)).toBe(ids[3]);
  });
});

describe('the content of a job', () => {
  const hashOf = (detail: unknown): string => {
    const request = parseRequests(detail, pool).accepted[0]?.request;
    if (request === undefined) throw new Error('not accepted');
    return jobFrom(request, 'id', 0, NOW_MS).contentHash;
  };

  it('is the same whatever the order of its fields', () => {
    const one = parsed('{"type":"echo","payload":{"a":1,"b":{"c":[{"d":1,"e":2}]}},"priority":3}');
    const other = parsed('{"priority":3,"payload":{"b":{"c":[{"e":2,"d":1}]},"a":1},"type":"echo"}');
    expect(hashOf(one)).toBe(hashOf(other));
  });

  it('is the same in whatever trace it is asked for', () => {
    const hash = hashOf(job());
    expect(hashOf(job({ traceparent: TRACEPARENT }))).toBe(hash);
    expect(hashOf(job({ traceparent: TRACEPARENT.replace('01', '00') }))).toBe(hash);
  });

  it('is the same whether a default is named or not, and whoever sends it when', () => {
    expect(hashOf(job())).toBe(hashOf(job({ priority: 0, mode: 'queued', payload: null, fairnessKey: '' })));
    const request = parseRequests(job(), pool).accepted[0]?.request as JobRequest;
    expect(jobFrom(request, 'a', 0, NOW_MS).contentHash).toBe(
      jobFrom(request, 'b', 3, NOW_MS + 1).contentHash,
    );
  });

  it.each<readonly [string, Record<string, unknown>, Record<string, unknown>]>([
    ['the type', { type: 'echo' }, { type: 'slow' }],
    ['the payload', { payload: { a: 1 } }, { payload: { a: 2 } }],
    ['the order of a list', { payload: [1, 2] }, { payload: [2, 1] }],
    ['text and number', { payload: '1' }, { payload: 1 }],
    ['null and its text', { payload: null }, { payload: 'null' }],
    ['an object and its text', { payload: {} }, { payload: '{}' }],
    ['the priority', { priority: 1 }, { priority: 2 }],
    ['the mode', { mode: 'queued' }, { mode: 'onDemand' }],
    ['the fairness key', { fairnessKey: 'a' }, { fairnessKey: 'b' }],
    ['the resource', { resourceId: 'a' }, {}],
    ['the label', { label: 'a' }, { label: 'b' }],
    ['the tags', { tags: { a: '1' } }, { tags: { a: '2' } }],
    ['whether there are tags', { tags: { a: '1' } }, {}],
    ['the keys', { keys: { org: 'a' } }, { keys: { org: 'b' } }],
    ['whether there are keys', { keys: { org: 'a' } }, {}],
    ['the time', { runAt: '2027-01-31T08:00:00Z' }, { runAt: '2027-01-31T08:00:01Z' }],
    ['whether there is a time', { runAt: '2027-01-31T08:00:00Z' }, {}],
    ['__proto__ in the payload', { payload: parsed('{"__proto__":1}') }, { payload: {} }],
  ])('tells apart %s', (_, one, other) => {
    expect(hashOf(job(one))).not.toBe(hashOf(job(other)));
  });

  it('is the same for keys in any order, and for no keys', () => {
    expect(hashOf(job({ keys: { a: '1', b: '2' } }))).toBe(hashOf(job({ keys: { b: '2', a: '1' } })));
    expect(hashOf(job({ keys: {} }))).toBe(hashOf(job({})));
  });

  it('is the same for tags in any order, and for no tags', () => {
    expect(hashOf(job({ tags: { a: '1', b: '2' } }))).toBe(hashOf(job({ tags: { b: '2', a: '1' } })));
    expect(hashOf(job({ tags: {} }))).toBe(hashOf(job({})));
  });

  it('is the same instant in every zone', () => {
    expect(hashOf(job({ runAt: '2027-01-31T08:00:00Z' }))).toBe(
      hashOf(job({ runAt: '2027-01-31T09:00:00+01:00' })),
    );
  });
});

describe('a new job', () => {
  const request = parseRequests(job({ runAt: '2027-01-31T08:00:00Z' }), pool).accepted[0]
    ?.request as JobRequest;
  const runAtMs = Date.UTC(2027, 0, 31, 8);

  it('waits for its time, and ages from then', () => {
    expect(jobFrom(request, 'id', 0, runAtMs - 1)).toMatchObject({
      state: 'scheduled',
      runAtMs,
      readyAtMs: runAtMs,
    });
  });

  it('is pending when its time has come, and ages from its submission', () => {
    expect(jobFrom(request, 'id', 0, runAtMs)).toMatchObject({ state: 'pending', readyAtMs: runAtMs });
    expect(jobFrom(request, 'id', 0, runAtMs + 5)).toMatchObject({
      state: 'pending',
      readyAtMs: runAtMs + 5,
    });
  });
});

describe('how long a job may wait for its start', () => {
  const configuration = resolveConfiguration({
    types: { resize: { expireAfter: '10m' }, free: {} },
    fleets: { images: { types: ['resize', 'free'], slots: 1 } },
  });
  const jobOf = (asked: object, nowMs = 1_000): Job => {
    const { accepted, refused } = parseRequests(asked, configuration);
    expect(refused).toEqual([]);
    return jobFrom(accepted[0]?.request as JobRequest, 'id', 0, nowMs);
  };

  it('counts from its submission, or from its time if that is later', () => {
    expect(jobOf({ type: 'free', expireAfter: '30s' }).expireAtMs).toBe(31_000);
    expect(jobOf({ type: 'free', expireAfter: 30_000 }).expireAtMs).toBe(31_000);
    expect(jobOf({ type: 'free', expireAfter: '30s', runAt: '1970-01-01T00:01:00Z' }).expireAtMs).toBe(
      90_000,
    );
    expect(jobOf({ type: 'free' })).not.toHaveProperty('expireAtMs');
  });

  it('is what its type says, whoever makes the job', async () => {
    const { client, bus, log, store, submitter, advance, pass, finish, deadLetter } = desk({
      pool: {
        types: { resize: { expireAfter: '10m', retry: { maxAttempts: 1 } } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
    });
    const failed = await deadLetter();
    await client.schedules.put('s', { every: '1m', type: 'resize' });
    await advance(60_000);
    await pass();
    const [firing] = (await client.schedules.get('s')).firings;
    const made = new Map([
      ['client', (await client.submit({ type: 'resize' })).jobId],
      ['firing', firing?.jobId],
      ['run by hand', (await finish(client.schedules.runNow('s'))).jobId],
      ['redrive', (await client.retry(failed.id)).jobId],
    ]);
    const context = { ...submitter(), events: bus, log, partitionOf: () => 0 };
    for (const [name, body] of [
      ['event', { id: 'a', detail: { type: 'resize' } }],
      ['rule', { id: 'b', detail: { order: 7 }, job: { type: 'resize', payload: '$.detail.order' } }],
    ] as const) {
      const { created } = await ingest(context, [{ messageId: name, body: JSON.stringify(body) }]);
      made.set(name, created[0]?.id);
    }
    for (const [name, id = ''] of made) {
      const { expireAtMs = 0, readyAtMs = 0 } = store.inspectJob(id) ?? {};
      expect([name, expireAtMs - readyAtMs]).toEqual([name, 600_000]);
    }
  });

  it('is what its type says, unless the request says it, and only the request makes it another job', () => {
    expect(jobOf({ type: 'resize' }).expireAtMs).toBe(601_000);
    expect(jobOf({ type: 'resize', expireAfter: '1s' }).expireAtMs).toBe(2_000);
    const hashes = [{}, { expireAfter: '10m' }, { expireAfter: 600_000 }, { expireAfter: '9m' }].map(
      (own) => jobOf({ type: 'resize', ...own }).contentHash,
    );
    expect(hashes[1]).toBe(hashes[2]);
    expect(new Set(hashes).size).toBe(3);
  });

  it.each([0, 999, 1_000.5, '999ms', '366d', 'soon', '', '-1s', null, true, {}, Number.POSITIVE_INFINITY])(
    'is refused as %j',
    (expireAfter) => {
      const { refused } = parseRequests({ type: 'free', expireAfter }, configuration);
      expect(refused).toMatchObject([{ field: 'expireAfter', reason: expect.any(String) }]);
    },
  );
});
