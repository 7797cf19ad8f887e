/** Every bad argument of every verb gets its typed error, which names the field, and changes nothing. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StoreClient } from '../../lib/client/client.ts';
import { ValidationError } from '../../lib/core/errors.ts';
import { allOf, desk, errorOf } from './desk.ts';

const GOOD = { type: 'resize', payload: 1, fairnessKey: 'tenant-a' };
const SOON = { runAt: '2027-01-31T08:00:00Z' };
const LONG = 'x'.repeat(513);
const circular: unknown[] = [];
circular.push(circular, circular);
const deep = JSON.parse(`${'['.repeat(101)}${']'.repeat(101)}`) as unknown;
const throwing = {
  get type(): string {
    throw new Error('not for you');
  },
};
class Money {
  readonly cents = 5;
}

/** What is no request, whoever submits it, and the field that is wrong. */
const REQUESTS: readonly (readonly [string, unknown, string])[] = [
  ['nothing', undefined, ''],
  ['null', null, ''],
  ['a number', 5, ''],
  ['an array', [GOOD], ''],
  ['a function', () => GOOD, ''],
  ['an object without fields', {}, 'type'],
  ['a promise', Promise.resolve(GOOD), ''],
  ['a date', new Date(0), ''],
  ['a map', new Map([['type', 'resize']]), ''],
  ['many at once', { jobs: [GOOD] }, 'type'],
  ['one that cannot be read', throwing, ''],
  ['no type', { ...GOOD, type: undefined }, 'type'],
  ['a null type', { ...GOOD, type: null }, 'type'],
  ['a type that is a number', { ...GOOD, type: 5 }, 'type'],
  ['an empty type', { ...GOOD, type: '' }, 'type'],
  ['an unknown type', { ...GOOD, type: 'resise' }, 'type'],
  ['a type of the prototype', { ...GOOD, type: 'constructor' }, 'type'],
  ['an unknown field', { ...GOOD, prority: 3 }, 'prority'],
  ['__proto__', JSON.parse('{"type":"resize","__proto__":{"priority":9}}'), '__proto__'],
  ['a priority below 0', { ...GOOD, priority: -1 }, 'priority'],
  ['a priority above 10', { ...GOOD, priority: 11 }, 'priority'],
  ['half a priority', { ...GOOD, priority: 2.5 }, 'priority'],
  ['a priority in words', { ...GOOD, priority: '5' }, 'priority'],
  ['no number as priority', { ...GOOD, priority: Number.NaN }, 'priority'],
  ['an endless priority', { ...GOOD, priority: Number.POSITIVE_INFINITY }, 'priority'],
  ['a null priority', { ...GOOD, priority: null }, 'priority'],
  ['a big priority', { ...GOOD, priority: 5n }, 'priority'],
  ['an unknown mode', { ...GOOD, mode: 'urgent' }, 'mode'],
  ['a mode that is true', { ...GOOD, mode: true }, 'mode'],
  ['a fairness key that is a number', { ...GOOD, fairnessKey: 7 }, 'fairnessKey'],
  ['a fairness key that is too long', { ...GOOD, fairnessKey: LONG }, 'fairnessKey'],
  ['a fairness key of half a character', { ...GOOD, fairnessKey: '\ud800' }, 'fairnessKey'],
  ['a fairness key that is too long in bytes', { ...GOOD, fairnessKey: 'ü'.repeat(257) }, 'fairnessKey'],
  ['an empty resource', { ...GOOD, resourceId: '' }, 'resourceId'],
  ['a resource that is too long', { ...GOOD, resourceId: LONG }, 'resourceId'],
  ['a resource that is an object', { ...GOOD, resourceId: {} }, 'resourceId'],
  ['an empty idempotency key', { ...GOOD, idempotencyKey: '' }, 'idempotencyKey'],
  ['an idempotency key that is too long', { ...GOOD, idempotencyKey: LONG }, 'idempotencyKey'],
  ['an idempotency key that is a symbol', { ...GOOD, idempotencyKey: Symbol('k') }, 'idempotencyKey'],
  ['a time without a zone', { ...GOOD, runAt: '2027-01-31T08:00:00' }, 'runAt'],
  ['a day as time', { ...GOOD, runAt: '2027-01-31' }, 'runAt'],
  ['a day that is none', { ...GOOD, runAt: '2027-02-30T08:00:00Z' }, 'runAt'],
  ['milliseconds as time', { ...GOOD, runAt: 1_800_000_000_000 }, 'runAt'],
  ['a date that is none', { ...GOOD, runAt: new Date(Number.NaN) }, 'runAt'],
  ['a delay that is none', { ...GOOD, runAt: '+soon' }, 'runAt'],
  ['a delay to a time without end', { ...GOOD, runAt: '+99999999999d' }, 'runAt'],
  ['a payload that is a function', { ...GOOD, payload: () => 1 }, 'payload'],
  ['a payload with a symbol', { ...GOOD, payload: { a: [Symbol('s')] } }, 'payload.a[0]'],
  ['a payload with a big number', { ...GOOD, payload: { a: 1n } }, 'payload.a'],
  ['a payload with a number that is none', { ...GOOD, payload: [0, Number.NaN] }, 'payload[1]'],
  ['a payload with nothing in an array', { ...GOOD, payload: [undefined] }, 'payload[0]'],
  ['a payload with a date', { ...GOOD, payload: { at: new Date(0) } }, 'payload.at'],
  ['a payload with a set', { ...GOOD, payload: { all: new Set([1]) } }, 'payload.all'],
  ['a payload with bytes', { ...GOOD, payload: Buffer.from('x') }, 'payload'],
  ['a payload of a class', { ...GOOD, payload: new Money() }, 'payload'],
  ['a payload that contains itself', { ...GOOD, payload: circular }, 'payload'],
  ['a payload that is too deep', { ...GOOD, payload: deep }, 'payload'],
  ['a payload that is too large', { ...GOOD, payload: 'x'.repeat(65_537) }, 'payload'],
  ['a payload of too many values', { ...GOOD, payload: new Array(70_000).fill(1) }, 'payload'],
];

type Case = readonly [string, (client: StoreClient, bad: never) => unknown, unknown, string];

/** What is wrong with an argument of one verb, and the field that is. */
const CASES: readonly Case[] = [
  ...[undefined, null, 5, true, {}, [], '', '\udc00', 'x'.repeat(257)].flatMap((bad) =>
    (
      [
        ['get', (client, id) => client.get(id)],
        ['cancel', (client, id) => client.cancel(id)],
        ['retime', (client, id) => client.retime(id, SOON)],
        ['setPriority', (client, id) => client.setPriority(id, 5)],
        ['retry', (client, id) => client.retry(id)],
        ['explain', (client, id) => client.explain(id)],
      ] as readonly [string, (client: StoreClient, bad: never) => unknown][]
    ).map(([verb, call]) => [`${verb}: id`, call, bad, 'jobId'] as const),
  ),
  ...[null, 5, 'fast', [], { timeoutMs: 5 }, { signal: {} }, { signal: null }].flatMap((bad) =>
    (
      [
        ['submit', (client, options) => client.submit(GOOD, options)],
        ['submitMany', (client, options) => client.submitMany([GOOD], options)],
        ['run', (client, options) => client.run(GOOD, options)],
        ['get', (client, options) => client.get('a', options)],
        ['cancel', (client, options) => client.cancel('a', options)],
        ['retime', (client, options) => client.retime('a', SOON, options)],
        ['retry', (client, options) => client.retry('a', options)],
        ['setPriority', (client, options) => client.setPriority('a', 5, options)],
        ['explain', (client, options) => client.explain('a', options)],
        ['fleets', (client, options) => client.fleets(options)],
        ['controls', (client, options) => client.controls(options)],
        ['pause', (client, options) => client.pause('pool', options)],
        ['resume', (client, options) => client.resume('pool', options)],
        ['override', (client, options) => client.override('pool', { maxConcurrency: 1 }, options)],
        ['drain', (client, options) => client.drain('pool', options)],
        ['list', (client, options) => client.list({ state: 'pending' }, options)],
        ['keys', (client, options) => client.keys(options)],
        ['deadLetters', (client, options) => client.deadLetters({}, options)],
        ['redriveDeadLetters', (client, options) => client.redriveDeadLetters({}, options)],
        ['cancelMany', (client, options) => client.cancelMany({ state: 'pending' }, options)],
        ['retimeMany', (client, options) => client.retimeMany({ state: 'pending' }, SOON, options)],
      ] as readonly [string, (client: StoreClient, bad: never) => unknown][]
    ).map(([verb, call]) => [`${verb}: options`, call, bad, 'options'] as const),
  ),
  ...[0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5 s', '25h', null, 86_400_001].flatMap(
    (timeoutMs): Case[] => [
      [
        'run: timeout',
        (client, bad) => client.run(GOOD, { timeout: bad }),
        timeoutMs,
        'options.timeout',
      ] as const,
      [
        'drain: timeout',
        (client, bad) => client.drain('pool', { timeout: bad }),
        timeoutMs,
        'options.timeout',
      ] as const,
    ],
  ),
  ...(
    [
      [undefined, 'change'],
      [null, 'change'],
      [5, 'change'],
      ['2027-01-31T08:00:00Z', 'change'],
      [new Date(0), 'change'],
      [[], 'change'],
      [{}, 'change.runAt'],
      [{ runAt: undefined }, 'change.runAt'],
      [{ runAt: null }, 'change.runAt'],
      [{ runAt: 0 }, 'change.runAt'],
      [{ runAt: new Date(Number.NaN) }, 'change.runAt'],
      [{ runAt: '' }, 'change.runAt'],
      [{ runAt: 'now' }, 'change.runAt'],
      [{ runAt: '2027-01-31' }, 'change.runAt'],
      [{ runAt: '2027-01-31T08:00:00' }, 'change.runAt'],
      [{ runAt: '2027-02-30T08:00:00Z' }, 'change.runAt'],
      [{ runAt: '+012027-01-31T08:00:00Z' }, 'change.runAt'],
      [{ ...SOON, delayMs: 5 }, 'change.delayMs'],
      [{ runAtMs: 5 }, 'change'],
    ] as const
  ).map(
    ([bad, field]) =>
      [
        'retime: change',
        (client: StoreClient, change: never) => client.retime('a', change),
        bad,
        field,
      ] as const,
  ),
  [
    'run: dieWithWaiter',
    (client, bad) => client.run(GOOD, { dieWithWaiter: bad }),
    'yes',
    'options.dieWithWaiter',
  ],
  [
    'drain: onProgress',
    (client, bad) => client.drain('pool', { onProgress: bad }),
    'log',
    'options.onProgress',
  ],
  ...[-1, 1.5, '5', null, 10_001].map(
    (countUpTo) =>
      [
        'keys: countUpTo',
        (client: StoreClient, bad: never) => client.keys({ countUpTo: bad }),
        countUpTo,
        'options.countUpTo',
      ] as const,
  ),
  ...[undefined, null, '5', -1, 11, 1.5, Number.NaN].map(
    (priority) =>
      [
        'setPriority: priority',
        (client: StoreClient, bad: never) => client.setPriority('a', bad),
        priority,
        'priority',
      ] as const,
  ),
  ...['yes', 1, null].map(
    (dryRun) =>
      [
        'cancelMany: dryRun',
        (client: StoreClient, bad: never) => client.cancelMany({ state: 'pending' }, { dryRun: bad }),
        dryRun,
        'options.dryRun',
      ] as const,
  ),
  ...(
    [
      [undefined, 'filter'],
      [{}, 'filter.state'],
      [{ state: 'succeeded' }, 'filter.state'],
      [{ state: 'pending', type: 'resise' }, 'filter.type'],
      [{ state: 'pending', since: '2027-01-31T08:00:00Z' }, 'filter.since'],
      [{ state: 'pending', tags: 'order' }, 'filter.tags'],
    ] as const
  ).flatMap(([filter, field]): Case[] => [
    ['cancelMany: filter', (client, bad) => client.cancelMany(bad), filter, field],
    ['retimeMany: filter', (client, bad) => client.retimeMany(bad, SOON), filter, field],
  ]),
  ['retimeMany: filter', (client, bad) => client.retimeMany(bad, SOON), { state: 'running' }, 'filter.state'],
  ...[0, -1, 1.5, '5', null, 10_001].map(
    (limit) =>
      [
        'redrive: limit',
        (client: StoreClient, bad: never) => client.redriveDeadLetters({}, { limit: bad }),
        limit,
        'options.limit',
      ] as const,
  ),
  ...(
    [
      [undefined, 'filter'],
      [null, 'filter'],
      ['pending', 'filter'],
      [{}, 'filter.state'],
      [{ state: 'done' }, 'filter.state'],
      [{ state: 'succeeded' }, 'filter.type'],
      [{ state: 'cancelled' }, 'filter.type'],
      [{ state: 'any' }, 'filter.tags'],
      [{ state: 'any', tags: { order: '4711' } }, 'filter.tags'],
      [{ state: 'succeeded', type: 'resize' }, 'filter.type'],
      [{ state: 'succeeded', type: 'resize', since: '2027-01-31' }, 'filter.since'],
      [{ state: 'pending', since: '2027-01-31T08:00:00Z' }, 'filter.since'],
      [{ state: 'failed', until: '2027-01-31T08:00:00Z' }, 'filter.until'],
      [{ state: 'pending', tags: { order: 4711 } }, 'filter.tags.order'],
      [{ state: ['pending'] }, 'filter.state'],
      [{ state: 'pending', type: 'resise' }, 'filter.type'],
      [{ state: 'pending', type: 5 }, 'filter.type'],
      [{ state: 'pending', fairnessKey: 5 }, 'filter.fairnessKey'],
      [{ state: 'pending', fairnessKey: LONG }, 'filter.fairnessKey'],
      [{ state: 'pending', mode: 'slow' }, 'filter.mode'],
      [{ state: 'pending', key: 'a' }, 'filter.key'],
    ] as const
  ).map(
    ([bad, field]) =>
      ['list: filter', (client: StoreClient, filter: never) => client.list(filter), bad, field] as const,
  ),
  ...(
    [
      [null, 'filter'],
      [5, 'filter'],
      [{ type: 'resise' }, 'filter.type'],
      [{ type: '' }, 'filter.type'],
      [{ fairnessKey: null }, 'filter.fairnessKey'],
      [{ errorName: '' }, 'filter.errorName'],
      [{ errorName: 'x'.repeat(129) }, 'filter.errorName'],
      [{ errorName: /Broken/ }, 'filter.errorName'],
      [{ failedAfter: 'yesterday' }, 'filter.failedAfter'],
      [{ failedAfter: 0 }, 'filter.failedAfter'],
      [{ failedBefore: '2027-01-31' }, 'filter.failedBefore'],
      [{ state: 'failed' }, 'filter.state'],
    ] as const
  ).flatMap(([bad, field]) => [
    [
      'deadLetters: filter',
      (client: StoreClient, filter: never) => client.deadLetters(filter),
      bad,
      field,
    ] as const,
    [
      'redrive: filter',
      (client: StoreClient, filter: never) => client.redriveDeadLetters(filter),
      bad,
      field,
    ] as const,
  ]),
  ['redrive: no filter', (client, bad) => client.redriveDeadLetters(bad), undefined, 'filter'],
  ...(
    [
      [undefined, 'scope'],
      [null, 'scope'],
      ['everything', 'scope'],
      ['type/resize', 'scope'],
      [{}, 'scope'],
      [[], 'scope'],
      [{ type: 'resize', fleet: 'images' }, 'scope'],
      [{ key: 'tenant-a' }, 'scope'],
      [{ fairnessKey: LONG }, 'scope'],
      [{ fairnessKey: '\ud800' }, 'scope'],
      [{ type: 'resise' }, 'scope.type'],
      [{ type: '__proto__' }, 'scope.type'],
      [{ tier: 'gold' }, 'scope.tier'],
      [{ fleet: 'trucks' }, 'scope.fleet'],
      [{ fleet: '' }, 'scope'],
    ] as const
  ).flatMap(([bad, field]) => [
    ['pause: scope', (client: StoreClient, scope: never) => client.pause(scope), bad, field] as const,
    ['resume: scope', (client: StoreClient, scope: never) => client.resume(scope), bad, field] as const,
    ['drain: scope', (client: StoreClient, scope: never) => client.drain(scope), bad, field] as const,
    [
      'override: scope',
      (client: StoreClient, scope: never) => client.override(scope, { maxConcurrency: 1 }),
      bad,
      field,
    ] as const,
  ]),
  ...(
    [
      [undefined, 'change'],
      [null, 'change'],
      [{}, 'change'],
      [{ maxConcurrency: undefined }, 'change'],
      [{ maxConcurrency: 0 }, 'change.maxConcurrency'],
      [{ maxConcurrency: -1 }, 'change.maxConcurrency'],
      [{ maxConcurrency: 1.5 }, 'change.maxConcurrency'],
      [{ maxConcurrency: '5' }, 'change.maxConcurrency'],
      [{ maxConcurrency: Number.POSITIVE_INFINITY }, 'change.maxConcurrency'],
      [{ maxConcurrency: 1_000_001 }, 'change.maxConcurrency'],
      [{ weight: 0 }, 'change.weight'],
      [{ weight: -2 }, 'change.weight'],
      [{ weight: Number.NaN }, 'change.weight'],
      [{ weight: '2' }, 'change.weight'],
      [{ paused: true }, 'change.paused'],
    ] as const
  ).map(
    ([bad, field]) =>
      [
        'override: change',
        (client: StoreClient, change: never) => client.override({ fairnessKey: 'a' }, change),
        bad,
        field,
      ] as const,
  ),
  [
    'override: the weight of a type',
    (client, bad) => client.override({ type: 'resize' }, bad),
    { weight: 2 },
    'change.weight',
  ],
  [
    'override: the weight of the pool',
    (client, bad) => client.override('pool', bad),
    { weight: 2 },
    'change.weight',
  ],
];

/** Calls a verb as a user does; what an iterator has against its arguments counts as well. */
async function outcomeOf(call: () => unknown): Promise<unknown> {
  const answer = call();
  return answer !== null && typeof answer === 'object' && Symbol.asyncIterator in answer
    ? allOf(answer as AsyncIterable<unknown>)
    : answer;
}

/** A scheduler that holds something worth spoiling. */
async function inhabited() {
  const scene = desk();
  await scene.deadLetter();
  await scene.put(scene.job(), scene.job());
  await scene.pass();
  await scene.put(scene.job());
  await scene.client.pause({ fairnessKey: 'tenant-b' });
  return { ...scene, before: scene.everything() };
}

const named = (bad: unknown): string => {
  try {
    return (JSON.stringify(bad) ?? String(bad)).slice(0, 40);
  } catch {
    return typeof bad;
  }
};

describe('a request that is refused changes nothing', () => {
  it.each(REQUESTS)('%s', async (_, bad, field) => {
    const { client, everything, before } = await inhabited();
    for (const call of [() => client.submit(bad as never), () => client.run(bad as never)]) {
      const error = await errorOf(outcomeOf(call) as Promise<unknown>);
      expect(error).toBeInstanceOf(ValidationError);
      expect(error).toMatchObject({ name: 'ValidationError', field });
      expect(error.message.length).toBeLessThan(500);
    }
    expect(await client.submitMany([bad as never])).toMatchObject([
      { kind: 'refused', error: { name: 'ValidationError', field } },
    ]);
    expect(everything()).toBe(before);
  });
});

describe('an argument that is refused changes nothing', () => {
  it.each(CASES.map((each) => [each[0], named(each[2]), each] as const))(
    '%s %s',
    async (_, __, [, call, bad, field]) => {
      const { client, everything, before } = await inhabited();
      const error = await errorOf((async () => outcomeOf(() => call(client, bad as never)))());
      expect(error).toBeInstanceOf(ValidationError);
      expect((error as ValidationError).field.startsWith(field)).toBe(true);
      expect(error.message.length).toBeLessThan(500);
      expect(everything()).toBe(before);
    },
  );

  it('of which there are enough cases', () => {
    expect(CASES.length + REQUESTS.length).toBeGreaterThanOrEqual(80);
  });
});

describe('whatever is handed over', () => {
  const whatever = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
  });
  const verbs: readonly (readonly [string, (client: StoreClient, bad: never, worse: never) => unknown])[] = [
    ['get', (client, a, b) => client.get(a, b)],
    ['explain', (client, a, b) => client.explain(a, b)],
    ['cancel', (client, a, b) => client.cancel(a, b)],
    ['retry', (client, a, b) => client.retry(a, b)],
    ['retime', (client, a, b) => client.retime(a, b)],
    ['retime, with good options,', (client, a) => client.retime('nobody' as never, a)],
    ['list', (client, a, b) => client.list(a, b)],
    ['keys', (client, a) => client.keys(a)],
    ['deadLetters', (client, a, b) => client.deadLetters(a, b)],
    ['fleets', (client, a) => client.fleets(a)],
    ['override', (client, a, b) => client.override(a, b)],
    ['pause', (client, a, b) => client.pause(a, b)],
  ];

  it.each(verbs)(
    'to %s, it answers or throws an error of its own, and changes nothing that it refuses',
    async (_, call) => {
      const { client, everything, before } = await inhabited();
      await fc.assert(
        fc.asyncProperty(whatever, fc.option(whatever, { nil: undefined }), async (bad, worse) => {
          const failed = await outcomeOf(() => call(client, bad as never, worse as never))
            .then(
              () => undefined,
              (error: unknown) => error,
            )
            .catch((error: unknown) => error);
          if (failed === undefined) return;
          expect(['ValidationError', 'NotFoundError', 'JobStateError']).toContain((failed as Error).name);
          expect(everything()).toBe(before);
        }),
        { numRuns: 300 },
      );
    },
  );

  const almost = fc.record(
    {
      type: fc.oneof(fc.constantFrom('resize', 'report'), whatever),
      payload: fc.oneof(fc.jsonValue(), whatever),
      priority: fc.oneof(fc.integer({ min: -2, max: 12 }), whatever),
      mode: fc.oneof(fc.constantFrom('queued', 'onDemand'), whatever),
      fairnessKey: fc.oneof(fc.string({ unit: 'binary' }), whatever),
      resourceId: fc.oneof(fc.string({ unit: 'binary' }), whatever),
      runAt: fc.oneof(
        fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
        whatever,
      ),
      idempotencyKey: fc.oneof(fc.string(), whatever),
    },
    { requiredKeys: [] },
  );

  it('to submit, it becomes exactly what was asked for, or a refusal that changes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(almost, whatever), async (request) => {
        const { client, everything, store } = desk();
        const before = everything();
        const outcome = await client.submit(request as never).then(
          (result) => result,
          (error: unknown) => error,
        );
        if (outcome instanceof Error) {
          expect(outcome.name).toBe('ValidationError');
          expect(everything()).toBe(before);
          return;
        }
        const [job] = [...store.everyJob()];
        const { type, payload = null } = request as { type: string; payload?: unknown };
        expect(job).toMatchObject({ type });
        expect(JSON.stringify(job?.payload)).toBe(JSON.stringify(payload));
      }),
      { numRuns: 1_000 },
    );
  });

  it('to submitMany, each entry is judged as it would be alone', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.oneof(almost, whatever), { minLength: 1, maxLength: 8 }),
        async (requests) => {
          const alone = await Promise.all(
            requests.map((request) =>
              desk()
                .client.submit(request as never)
                .then(
                  () => 'accepted',
                  () => 'refused',
                ),
            ),
          );
          const { client, store } = desk();
          const entries = await client.submitMany(requests as never);
          const jobs = new Set(entries.flatMap((entry) => (entry.kind === 'accepted' ? [entry.jobId] : [])));
          expect([...store.everyJob()]).toHaveLength(jobs.size);
          entries.forEach((entry, at) => {
            // One key may stand for two requests of the same call.
            if (entry.kind === 'refused' && entry.error.name === 'ConflictError') return;
            expect(entry.kind).toBe(alone[at]);
          });
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('the article of what was given', () => {
  class Amount {
    readonly cents = 5;
  }
  it.each([
    ['no list', (client: StoreClient) => client.submitMany({} as never), /not an object$/],
    ['a text', (client: StoreClient) => client.submitMany('x' as never), /not a string$/],
    ['nothing', (client: StoreClient) => client.submitMany(undefined as never), /not undefined$/],
    [
      'an instance of a class',
      (client: StoreClient) => client.submit({ ...GOOD, payload: new Amount() as never }),
      /an Amount/,
    ],
    [
      'another',
      (client: StoreClient) => client.submit({ ...GOOD, payload: new Money() as never }),
      /a Money/,
    ],
  ])('fits the word: %s', async (_, asked, message) => {
    expect((await errorOf(asked(desk().client))).message).toMatch(message);
  });
});
