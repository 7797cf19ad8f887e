/** Declared job types: what may be declared, and what the compiler knows of them. */

import { type } from 'arktype';
import * as v from 'valibot';
import { expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  defineJobs,
  type Json,
  job,
  only,
  type PayloadOf,
  type ResultOf,
  type ReturnedOf,
  type SentOf,
  type TypeOf,
} from '../../lib/jobs/jobs.ts';
import { type AnySchema, checkBySchema, jsonSchemaOf } from '../../lib/jobs/schema.ts';

interface Url {
  readonly url: string;
}

const jobs = defineJobs({
  thumbnail: job({
    payload: z.object({ key: z.string(), takenAt: z.coerce.date() }),
    result: z.object({ width: z.number() }),
    fairnessKey: ({ key }) => key.split('/')[0] ?? '',
    resourceId: ({ key }) => key,
  }),
  report: job<{ readonly month: number }, Url>(),
  ping: job(),
});

it('declares what producers send, handlers get and return, and producers get back', () => {
  type Declared = typeof jobs;
  expectTypeOf<TypeOf<Declared>>().toEqualTypeOf<'thumbnail' | 'report' | 'ping'>();
  expectTypeOf<SentOf<Declared['thumbnail']>['key']>().toEqualTypeOf<string>();
  expectTypeOf<PayloadOf<Declared['thumbnail']>['takenAt']>().toEqualTypeOf<Date>();
  expectTypeOf<ReturnedOf<Declared['thumbnail']>>().toEqualTypeOf<{ width: number }>();
  expectTypeOf<PayloadOf<Declared['report']>>().toEqualTypeOf<{ readonly month: number }>();
  expectTypeOf<ResultOf<Declared['report']>>().toEqualTypeOf<Url>();
  expectTypeOf<ResultOf<Declared['ping']>>().toEqualTypeOf<unknown>();
});

interface Tree {
  readonly name: string;
  readonly at?: number | undefined;
  readonly children: readonly Tree[];
  readonly pair?: readonly [string, number | null];
}

it('declares payloads that JSON can hold, and no others', () => {
  const declared = [
    job<Tree>(),
    job<Json>(),
    job<{ readonly a: unknown; readonly kind: 'a' | 'b' }>(),
    job<string | null>(),
    job<undefined>(),
    job<Readonly<Record<string, number>>>(),
    job({ payload: z.object({ at: z.iso.datetime(), more: z.json(), left: z.string().optional() }) }),
    // @ts-expect-error - a Date
    job<{ readonly at: Date }>(),
    // @ts-expect-error - a bigint, in a list
    job<{ readonly all: readonly { readonly no: bigint }[] }>(),
    // @ts-expect-error - a Map
    job<{ readonly by: Map<string, number> }>(),
    // @ts-expect-error - a Set
    job<ReadonlySet<string>>(),
    // @ts-expect-error - a function
    job<{ readonly then: () => void }>(),
    // @ts-expect-error - undefined alone
    job<{ readonly nothing: undefined }>(),
    // @ts-expect-error - a Date beside others
    job<{ readonly at: string | Date }>(),
    // @ts-expect-error - a Date
    job({ payload: z.object({ at: z.date() }) }),
  ];
  expect(declared).toHaveLength(15);
});

it('names the jobs that one fleet serves', () => {
  const some = only(jobs, 'report');
  expectTypeOf<TypeOf<typeof some>>().toEqualTypeOf<'report'>();
  expect(Object.keys(some)).toEqual(['report']);
  // @ts-expect-error - it is not declared
  expect(() => only(jobs, 'raport')).toThrow(
    /^types: is not a declared job type, got "raport"\. Did you mean "report"\?$/,
  );
});

it.each<readonly [string, () => unknown, RegExp]>([
  ['no object', () => defineJobs([] as never), /^jobs: must be an object of job types by name/],
  ['an empty name', () => defineJobs({ '': job() }), /must be a name of 1 to 100 characters/],
  ['a name that is a trap', () => defineJobs({ ['__proto__']: job() }), /must be a name/],
  [
    'a definition that is none',
    () => defineJobs({ a: 'b' as never }),
    /^jobs\.a: must be made by job\(\), got "b"/,
  ],
  [
    'an unknown option',
    () => job({ payloads: z.string() } as never),
    /^job\.payloads: is not a known field.*Did you mean "payload"\?/,
  ],
  [
    'a payload that is no schema',
    () => job({ payload: {} as never }),
    /^job\.payload: must be a schema.*zod/,
  ],
  [
    'a key that is no function',
    () => job({ fairnessKey: 'acme' as never }),
    /^job\.fairnessKey: must be a fun/,
  ],
])('refuses %s', (_, declare, message) => {
  expect(declare).toThrow(message);
});

it('checks a value by its schema, with the path of what is wrong', async () => {
  const schema = z.object({ pages: z.array(z.object({ no: z.number() })) });
  expect(await checkBySchema(schema, { pages: [{ no: 1 }] }, 'payload')).toEqual({
    kind: 'accepted',
    value: { pages: [{ no: 1 }] },
  });
  expect(await checkBySchema(schema, { pages: [{ no: 1 }, { no: 'two' }] }, 'payload')).toMatchObject({
    kind: 'refused',
    path: 'payload.pages[1].no',
  });
  expect(await checkBySchema(undefined, 7, 'payload')).toEqual({ kind: 'accepted', value: 7 });
});

it('refuses a value whose schema throws, and reads schemas that answer later', async () => {
  const broken = {
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: () => {
        throw new Error('no luck');
      },
    },
  };
  expect(await checkBySchema(broken, 1, 'payload')).toEqual({
    kind: 'refused',
    path: 'payload',
    reason: 'its schema threw Error: no luck',
  });
  const late = z.string().refine(async (text) => Promise.resolve(text === 'yes'), 'must be yes');
  expect(await checkBySchema(late, 'yes', 'payload')).toEqual({ kind: 'accepted', value: 'yes' });
  expect(await checkBySchema(late, 'no', 'payload')).toMatchObject({
    kind: 'refused',
    reason: 'must be yes',
  });
});

it.each<readonly [string, z.ZodType, unknown, unknown]>([
  ['a default', z.string().default('none'), null, 'none'],
  ['an optional value', z.object({}).optional(), null, undefined],
  ['null', z.string().nullable(), undefined, null],
  ['anything', z.unknown(), null, undefined],
])(
  'takes null for nothing, and nothing for null, where a schema accepts only %s',
  async (_, schema, given, value) => {
    expect(await checkBySchema(schema, given, 'payload')).toEqual({ kind: 'accepted', value });
  },
);

it('describes a schema as JSON Schema, where its library can', () => {
  expect(jsonSchemaOf(z.object({ key: z.string() }))).toMatchObject({
    type: 'object',
    properties: { key: { type: 'string' } },
    required: ['key'],
  });
  expect(jsonSchemaOf(z.object({ at: z.date() }))).toBeUndefined();
  const plain = {
    '~standard': { version: 1 as const, vendor: 'test', validate: (value: unknown) => ({ value }) },
  };
  expect(jsonSchemaOf(plain)).toBeUndefined();
});

it.each<readonly [string, AnySchema]>([
  ['zod', z.object({ pages: z.array(z.number()) })],
  ['valibot', v.object({ pages: v.array(v.number()) })],
  ['arktype', type({ pages: 'number[]' })],
])('takes the schemas of %s', async (_, payload) => {
  const declared = defineJobs({ print: job({ payload }) });
  const schema = declared.print.payload;
  expect(await checkBySchema(schema, { pages: [1] }, 'payload')).toEqual({
    kind: 'accepted',
    value: { pages: [1] },
  });
  expect(await checkBySchema(schema, { pages: [1, 'two'] }, 'payload')).toMatchObject({
    kind: 'refused',
    path: 'payload.pages[1]',
  });
});

it.each([[[]], [[{}]], [[{ message: undefined, path: undefined }]]])(
  'takes an answer with issues for a refusal, also where the schema does not say what is wrong: %j',
  async (issues) => {
    const schema = { '~standard': { version: 1, vendor: 'x', validate: () => ({ issues }) } };
    expect(await checkBySchema(schema as never, 1, 'payload')).toEqual({
      kind: 'refused',
      path: 'payload',
      reason: 'its schema refuses it',
    });
  },
);
