/** A scheduler of declared jobs: its types, what names it refuses, and the JSON Schemas that it deploys. */
import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import type { SchedulerProps } from '../../cdk/props.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { decodeConfiguration, decodePayloadSchemas } from '../../lib/declaration/codec.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { noise } from '../fixtures/noise.ts';
import { at, emptyStack, resourcesOf, workerFunction } from './stacks.ts';

const jobs = defineJobs({
  thumbnail: job({ payload: z.object({ key: z.string() }), resourceId: ({ key }) => key }),
  report: job<{ readonly month: number }, { readonly url: string }>(),
});

/** What the deployment would declare. */
const declaredIn = (scheduler: Scheduler): unknown =>
  at(
    resourcesOf(Template.fromStack(Stack.of(scheduler)), 'Custom::FairleadDeclaration')[0]?.[1],
    'Properties',
  );

describe('a scheduler of declared jobs', () => {
  it('has each of them, with its settings or with the defaults', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', {
      jobs,
      types: { thumbnail: { maxConcurrency: 3, timeoutMs: '10m' } },
    });
    const { pool } = declaredIn(scheduler) as { readonly pool: string };
    expect(decodeConfiguration(pool).types).toMatchObject([
      { type: 'thumbnail', maxConcurrency: 3, timeoutMs: 600_000 },
      { type: 'report', maxConcurrency: null, timeoutMs: 870_000 },
    ]);
  });

  it('gives types without settings the longest timeout that their functions can keep', () => {
    const stack = emptyStack();
    const handler = workerFunction(stack, 'Images');
    const scheduler = new Scheduler(stack, 'Jobs', {
      jobs,
      fleets: { images: { types: ['thumbnail'], handler } },
    });
    expect(scheduler.configuration.types[0]).toMatchObject({ type: 'thumbnail', timeoutMs: 27_000 });
  });

  it('takes more types and fleets later', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', { jobs }).addJobType('index');
    scheduler.addFleet('all', { types: ['thumbnail', 'report', 'index'] });
    expect(Object.keys(scheduler.fleets)).toEqual(['all']);
    expect(() => scheduler.addJobType('report')).toThrow(/^types\.report: is already declared/);
  });

  it('is known to the compiler by the names of its jobs', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', { jobs, types: { report: {} } });
    expectTypeOf(scheduler).toEqualTypeOf<Scheduler<'thumbnail' | 'report'>>();
    const misspelt = [
      () =>
        new Scheduler(emptyStack(), 'Jobs', {
          jobs,
          // @ts-expect-error - Object literal may only specify known properties. Did you mean to write 'thumbnail'?
          types: { thumbnial: {} },
        }),
      () =>
        new Scheduler(emptyStack(), 'Jobs', {
          jobs,
          // @ts-expect-error - Type '"thumbnial"' is not assignable to type '"thumbnail" | "report"'.
          fleets: { images: { types: ['thumbnial'] } },
        }),
      () =>
        new Scheduler(emptyStack(), 'Jobs', {
          jobs,
          // @ts-expect-error - Type '"thumbnial"' is not assignable to type '"thumbnail" | "report"'.
          schedules: { nightly: { cron: '0 2 * * *', type: 'thumbnial' } },
        }),
      // @ts-expect-error - Argument of type '"thumbnial"' is not assignable
      () => scheduler.addFleet('images', { types: ['thumbnial'] }),
    ];
    for (const attempt of misspelt) expect(attempt).toThrow(/Did you mean "thumbnail"\?/);
  });

  it('deploys the JSON Schemas of payloads, of the types that have a schema', () => {
    const { payloadSchemas } = declaredIn(new Scheduler(emptyStack(), 'Jobs', { jobs })) as {
      readonly payloadSchemas: string;
    };
    expect(decodePayloadSchemas(payloadSchemas)).toEqual({
      thumbnail: expect.objectContaining({ type: 'object', required: ['key'] }),
    });
    const { report } = jobs;
    for (const props of [{ jobs: { report } }, { types: { report: {} } }, {}])
      expect(declaredIn(new Scheduler(emptyStack(), 'Jobs', props))).not.toHaveProperty('payloadSchemas');
  });

  it('packs the schemas of fifty types into a twentieth of what a deployment can send', () => {
    const fifty = defineJobs(
      Object.fromEntries(
        Array.from({ length: 50 }, (_, index) => [
          `type-${index}`,
          job({
            payload: z.object({
              key: z.string().min(1),
              [`width${index}`]: z.number().int().positive(),
              tags: z.array(z.string()).optional(),
              at: z.iso.datetime(),
            }),
          }),
        ]),
      ),
    );
    const declared = declaredIn(new Scheduler(emptyStack(), 'Jobs', { jobs: fifty }));
    expect(String(at(declared, 'payloadSchemas')).length).toBeLessThan(6_000);
  });

  it('is refused when the schemas are too large for a deployment', () => {
    const schema = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) => ({ value }),
        jsonSchema: { input: () => ({ description: noise(150_000) }) },
      },
    };
    const larger = { large: job({ payload: schema }) };
    expect(() => new Scheduler(emptyStack(), 'Jobs', { jobs: larger })).toThrow(
      /is too large for a deployment.*payload schemas \d{6}/,
    );
  });

  it.each<readonly [string, unknown, RegExp]>([
    [
      'a misspelt name of settings',
      { jobs, types: { thumbnial: {} } },
      /^types\.thumbnial: is not a declared job \(thumbnail, report\), got "thumbnial"\. Did you mean "thumbnail"\?/,
    ],
    [
      'a misspelt type of a fleet',
      { jobs, fleets: { a: { types: ['raport'] } } },
      /^fleets\.a\.types\[0\]: names no declared type \(thumbnail, report\), got "raport"\. Did you mean "report"\?/,
    ],
    ['settings that are no object', { jobs, types: ['thumbnail'] }, /^types: must be an object/],
    [
      'settings of one type that are none',
      { jobs, types: { report: 3 } },
      /^types\.report: must be an object/,
    ],
    ['jobs that are a list', { jobs: ['thumbnail'] }, /^jobs: must be an object of job types by name/],
    [
      'jobs that are names',
      { jobs: { thumbnail: 'thumbnail' } },
      /^jobs\.thumbnail: must be made by job\(\)/,
    ],
    ['no jobs', { jobs: {} }, /^jobs: declares no job type/],
    ['a misspelt prop', { job: jobs }, /^job: is not a known field.*Did you mean "jobs"\?/],
  ])('refuses %s, and creates nothing', (_, props, message) => {
    const stack = emptyStack();
    expect(() => new Scheduler(stack, 'Jobs', props as SchedulerProps)).toThrow(message);
    expect(stack.node.tryFindChild('Jobs')?.node.children ?? []).toEqual([]);
  });
});
