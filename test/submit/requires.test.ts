/** What a type requires is asked for at every door by which a job, or what makes jobs, comes in. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { decodeConfiguration, encodeConfiguration } from '../../lib/declaration/codec.ts';
import { checkDeclaredSchedules } from '../../lib/deploy/declared-schedules.ts';
import { ingestSchedules } from '../../lib/schedules/ingest.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import { counter, fileOf } from '../cli/desk.ts';
import { resultsOf } from '../cli/run.ts';
import { desk, errorOf } from '../client/desk.ts';

const TYPES: PoolInput = {
  types: { render: { requires: ['resourceId', 'fairnessKey'] }, free: {} },
  fleets: { work: { types: ['render', 'free'], slots: 2 } },
};
const POOL = { pool: TYPES };
const WHOLE = { type: 'render', resourceId: 'scene-1', fairnessKey: 'acme' };

/** What is missing, and which field says so. */
const MISSING: readonly (readonly [string, Readonly<Record<string, unknown>>, string])[] = [
  ['a resource', { type: 'render', fairnessKey: 'acme' }, 'resourceId'],
  ['a fairness key', { type: 'render', resourceId: 'scene-1' }, 'fairnessKey'],
  ['a fairness key that is not empty', { ...WHOLE, fairnessKey: '' }, 'fairnessKey'],
  ['both', { type: 'render' }, 'resourceId'],
];
const CRON = { cron: '30 2 * * *' };

/** By its name, a door: answers why it refuses; undefined: it does not. */
const DOORS: Readonly<Record<string, (asked: object) => Promise<string | undefined>>> = {
  'submit of the client': async (asked) => {
    const scene = desk(POOL);
    const before = scene.everything();
    const told = await scene.client.submit(asked as never).then(
      () => undefined,
      (error: Error) => error,
    );
    if (told !== undefined) expect(scene.everything()).toBe(before);
    return told?.message;
  },
  'submitMany of the client': async (asked) => {
    const [entry, other] = await desk(POOL).client.submitMany([asked as never, { type: 'free' }]);
    expect(other?.kind).toBe('accepted');
    return entry?.kind === 'accepted' ? undefined : entry?.error.message;
  },
  'run of the client': async (asked) => {
    const scene = desk(POOL);
    const running = scene.client.run(asked as { readonly type: string }, { timeout: 100 });
    const error = await scene.finish(errorOf(running));
    return error.name === 'WaitTimeoutError' ? undefined : error.message;
  },
  'an event': async (asked) => {
    const on = desk(POOL);
    const context = { ...on.submitter(), events: on.bus, log: on.log, partitionOf: () => 0 };
    const body = JSON.stringify({ id: 'e', detail: asked });
    await on.finish(ingest(context, [{ messageId: 'm', body }]));
    const [rejection] = await on.store.listRejections('e');
    return rejection && `${rejection.field}: ${rejection.reason}`;
  },
  'jobs submit': async (asked) => {
    const { code, out } = await counter(POOL).fairlead(
      ...['jobs', 'submit', '--file', fileOf(JSON.stringify([asked])), '--json'],
    );
    return code === 0 ? undefined : out;
  },
  'a schedule of the client': async (asked) => {
    const told = await desk(POOL)
      .client.schedules.put('s', { ...CRON, ...asked } as never)
      .then(
        () => undefined,
        (error: Error) => error.message,
      );
    return told;
  },
  'a schedule of an event': async (asked) => {
    const on = desk(POOL);
    const context = { ...on.submitter(), events: on.bus, log: on.log, partitionOf: () => 0, random: () => 0 };
    const detail = { id: 's', schedule: { ...CRON, ...asked } };
    const about = { messageId: 'm', verb: 'put', eventId: 'e', sentAtMs: undefined, detail } as const;
    await on.finish(ingestSchedules(context as never, [about as never]));
    const [rejection] = await on.store.listRejections('e');
    return rejection && `${rejection.field}: ${rejection.reason}`;
  },
  'a declared schedule': async (asked) => {
    try {
      checkDeclaredSchedules({ s: { ...CRON, ...asked } }, resolveConfiguration(TYPES));
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  },
  simulate: async (asked) => {
    const jobs = [{ id: 'j', atMs: 0, durationMs: 1, ...asked }];
    const scenarios = [{ id: 's', untilMs: 10_000, configuration: TYPES, jobs }];
    return resultsOf({ schema: 'fairlead/1', scenarios }).then(
      () => undefined,
      (error: Error) => error.message,
    );
  },
};

describe.each(Object.entries(DOORS))('%s', (_, door) => {
  it.each(MISSING)('refuses a job without %s, by the name of the field', async (_what, asked, field) => {
    const told = await door(asked);
    expect(told).toContain(field);
    expect(told).toMatch(/is missing: jobs of type .{0,2}render.{0,2} must name the (resource|key)/);
  });

  it('takes one that names all, and any of a type that requires nothing', async () => {
    expect(await door(WHOLE)).toBeUndefined();
    expect(await door({ type: 'free' })).toBeUndefined();
  });
});

describe('a declaration', () => {
  it('carries what its types require, and requires nothing where that is empty', () => {
    const configuration = resolveConfiguration(TYPES);
    expect(decodeConfiguration(encodeConfiguration(configuration))).toEqual(configuration);
    const empty = resolveConfiguration({ ...TYPES, types: { render: { requires: [] }, free: {} } });
    expect(empty.types.map((type) => 'requires' in type)).toEqual([false, false]);
  });

  it.each([
    [['resource'], /types\.render\.requires\[0\]: must be one of resourceId, fairnessKey, got "resource"/],
    [['fairnessKey', 'fairnessKey'], /named twice/],
    ['resourceId', /types\.render\.requires/],
  ])('that requires %j is refused', (requires, message) => {
    const types = { render: { requires: requires as never } };
    expect(() => resolveConfiguration({ ...TYPES, types: { ...types, free: {} } })).toThrow(message);
  });
});
