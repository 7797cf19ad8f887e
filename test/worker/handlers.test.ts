/** What surrounds a handler: the schemas of its type, middlewares, its context, and errors by which it decides. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { RetryPolicy } from '../../lib/core/configuration.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import { defineJobs, job, only } from '../../lib/jobs/jobs.ts';
import type { StandardSchema } from '../../lib/jobs/schema.ts';
import { PermanentError, RETRY_AFTER_MAX_MS, RetryAfterError } from '../../lib/worker/errors.ts';
import { type JobMiddleware, readHandling } from '../../lib/worker/handlers.ts';
import { worker } from '../../lib/worker/lambda.ts';
import { type JobContext, type JobHandlers, type RunContext, runJob } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const TIMEOUT_MS = 30_000;
const WORKER = { workerId: 'worker-1', incarnation: 'first' };

interface Url {
  readonly url: string;
}

const jobs = defineJobs({
  resize: job({
    payload: z.object({ key: z.string(), takenAt: z.coerce.date() }),
    result: z.object({ width: z.number(), tags: z.array(z.string()).default([]) }),
  }),
  report: job<{ readonly month: number }, Url>(),
});

const GOOD = { key: 'a/b', takenAt: '2026-11-29T00:00:00Z' };
const resizing = (resize: (payload: { key: string; takenAt: Date }, ctx: JobContext) => unknown) =>
  readHandling(only(jobs, 'resize'), [{ resize }]).handlers;

const setting = (retry: Partial<RetryPolicy> = {}): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: TIMEOUT_MS, retry: { jitter: 'none', delayMs: 1_000, ...retry } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
  });

async function run(
  handlers: JobHandlers,
  payload: Json = GOOD,
  { on = setting(), ...own }: Partial<RunContext> & { readonly on?: Stage } = {},
): Promise<{ readonly on: Stage; readonly outcome: string; readonly job: Job }> {
  await on.put(on.job({ payload, fairnessKey: 'acme', resourceId: 'album' }));
  await on.pass();
  const [received] = await on.queue.receive('images', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  const message = onlyJob(received);
  const { store, configuration, clock, random, log } = on;
  const context = { store, configuration, clock, random, log, worker: WORKER, ...own };
  const outcome = await on.finish(runJob(context, handlers, message));
  const ended = on.store.inspectJob(message.jobId);
  if (ended === undefined) throw new Error(`no job ${message.jobId}`);
  return { on, outcome, job: ended };
}

describe('a typed handler', () => {
  it('gets what its schema made of the payload; stored is what was sent, and what it returned', async () => {
    const ran = await run(
      resizing(({ takenAt }) => ({ width: takenAt.getUTCFullYear() })),
      GOOD,
    );
    expect(ran.outcome).toBe('succeeded');
    expect(ran.job).toMatchObject({ payload: GOOD, result: { width: 2026 } });
    expect(ran.job.result).not.toHaveProperty('tags');
  });

  it('keeps what was sent and what it returned, although their schemas change what they get', async () => {
    const stamping: StandardSchema<{ a: number; stamp?: string }> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) => ({
          value: Object.assign(value as { a: number }, { stamp: 'by the schema' }),
        }),
      },
    };
    const stamped = defineJobs({ resize: job({ payload: stamping, result: stamping }) });
    const seen: unknown[] = [];
    const handle = (payload: unknown) => {
      seen.push(payload);
      return { a: 2 };
    };
    const { job: ended } = await run(readHandling(stamped, [{ resize: handle }]).handlers, { a: 1 });
    expect(ended).toMatchObject({ state: 'succeeded' });
    expect([ended.payload, seen, ended.result]).toEqual([
      { a: 1 },
      [{ a: 1, stamp: 'by the schema' }],
      { a: 2 },
    ]);
  });

  it('does not run for a payload that its schema refuses: the job is a dead letter at once', async () => {
    let runs = 0;
    const { outcome, job: ended } = await run(
      resizing(() => {
        runs += 1;
        return { width: 1 };
      }),
      { key: 7, takenAt: GOOD.takenAt },
      { on: setting({ maxAttempts: 5 }) },
    );
    expect([outcome, ended.state, runs]).toEqual(['failed', 'failed', 0]);
    expect(ended.error).toMatchObject({
      name: 'PayloadRefused',
      message: expect.stringMatching(
        /^the payload does not fit the schema of its type: payload\.key: .*expected string/,
      ),
    });
  });

  it('has failed if its result is refused, and is tried again by the rules of its type', async () => {
    const { outcome, job: ended } = await run(resizing(() => ({ width: 'wide' })));
    expect(outcome).toBe('retry');
    expect(ended.error).toMatchObject({
      name: 'ResultRefused',
      message: expect.stringMatching(
        /^the handler's result does not fit the schema of its type: result\.width: /,
      ),
    });
  });

  it.each<readonly [string, Partial<Record<'payload' | 'result', StandardSchema>>]>([
    ['payload', { payload: silent() }],
    ['result', { result: silent() }],
  ])('whose %s is checked for ever ends at its timeout', async (_, schemas) => {
    const slow = defineJobs({ resize: job({ payload: z.unknown(), ...schemas }) });
    const { handlers } = readHandling(slow, [{ resize: () => 1 }]);
    const on = setting();
    const began = on.time.nowMs;
    expect((await run(handlers, GOOD, { on })).job.error?.name).toBe('JobTimeout');
    expect(on.time.nowMs - began).toBe(TIMEOUT_MS);
  });

  it('does not begin after a check that took all its time', async () => {
    let runs = 0;
    const on = setting();
    const late: StandardSchema = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value) => on.clock.sleep(TIMEOUT_MS + 1_000).then(() => ({ value })),
      },
    };
    const { handlers } = readHandling(defineJobs({ resize: job({ payload: late }) }), [
      { resize: () => (runs += 1) },
    ]);
    expect((await run(handlers, GOOD, { on })).job.error?.name).toBe('JobTimeout');
    expect(runs).toBe(0);
  });

  it('has a result that counts, although its worker was told to end meanwhile', async () => {
    const over = new AbortController();
    const handlers = resizing(() => {
      over.abort();
      return { width: 2 };
    });
    const { outcome, job: ended } = await run(handlers, GOOD, { signal: over.signal });
    expect([outcome, ended.result]).toEqual(['succeeded', { width: 2 }]);
  });

  it('may return an interface, and gets types from the declaration', () => {
    const url: Url = { url: 'https://a.b' };
    expect(
      worker(jobs, {
        resize: async ({ key, takenAt }, { attempt }) => ({
          width: key.length + takenAt.getTime() + attempt,
        }),
        report: ({ month }) => (month > 0 ? url : Promise.resolve(url)),
      }),
    ).toBeTypeOf('function');
    expect(worker({ any: () => url }, { use: [] })).toBeTypeOf('function');
    const untyped = {
      own: async (payload: Url) => payload.url,
      other: (payload: { a: number }) => payload.a,
    };
    expect(worker(untyped)).toBeTypeOf('function');
    expect(worker({ own: async (payload: { a: number }) => payload.a })).toBeTypeOf('function');
  });
});

/** A schema that never answers. */
function silent(): StandardSchema {
  return { '~standard': { version: 1, vendor: 'test', validate: () => new Promise(() => {}) } };
}

const COMPLAINTS: readonly (readonly [string, handlers: string, first: RegExp])[] = [
  [
    'a missing handler',
    '{ resize: () => ({ width: 1 }) }',
    /^Property 'report' is missing in type .* but required/,
  ],
  [
    'a superfluous handler',
    "{ resize: () => ({ width: 1 }), report: () => ({ url: '' }), rendr: () => 1 }",
    /^Object literal may only specify known properties, and 'rendr' does not exist in type 'HandlersOf</,
  ],
  [
    'a wrong payload',
    "{ resize: ({ kee }) => ({ width: 1 }), report: () => ({ url: '' }) }",
    /^Property 'kee' does not exist on type '\{ key: string; \}'/,
  ],
  [
    'a wrong result',
    "{ resize: () => ({ width: 'wide' }), report: () => ({ url: '' }) }",
    /^Type 'string' is not assignable to type 'number'/,
  ],
  ['no handlers', '', /^Expected 2-3 arguments, but got 1/],
];

it('what does not fit the declaration does not compile, and the first line says why', {
  timeout: 120_000,
}, async () => {
  const project = resolve(import.meta.dirname, '../..');
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-types-'));
  const file = join(folder, 'workers.ts');
  const text = `
    import { defineJobs, job } from '${project}/lib/jobs/jobs.ts';
    import type { StandardSchema } from '${project}/lib/jobs/schema.ts';
    import { worker } from '${project}/lib/worker/lambda.ts';
    declare const payload: StandardSchema<{ key: string }>;
    declare const result: StandardSchema<{ width: number }>;
    const jobs = defineJobs({ resize: job({ payload, result }), report: job<{ month: number }, { url: string }>() });
    ${COMPLAINTS.map(([, handlers]) => `worker(jobs${handlers === '' ? '' : `, ${handlers}`});`).join('\n')}`;
  await writeFile(file, text);
  const options =
    '--noEmit --strict --exactOptionalPropertyTypes --skipLibCheck --allowImportingTsExtensions';
  const modules = '--module nodenext --target es2024 --types node --ignoreConfig';
  const tsc = join(project, 'node_modules/.bin/tsc');
  const said = await promisify(execFile)(tsc, [...`${options} ${modules}`.split(' '), file], { cwd: project })
    .then(({ stdout }) => stdout)
    .catch(({ stdout }: { stdout: string }) => stdout);
  await rm(folder, { recursive: true });
  const lines = said
    .split('\n')
    .flatMap((line) => /workers\.ts\(\d+,\d+\): error \w+: (.*)/.exec(line)?.[1] ?? []);
  expect(lines).toEqual(COMPLAINTS.map(([, , first]) => expect.stringMatching(first)));
});

describe('middlewares', () => {
  const noted =
    (name: string, said: string[]): JobMiddleware =>
    async (ctx, next) => {
      said.push(`${name} of ${ctx.type}`);
      const result = await next();
      said.push(`${name} after`);
      return result;
    };
  const through = (use: readonly JobMiddleware[], resize: () => unknown = () => ({ width: 1 })) =>
    readHandling(only(jobs, 'resize'), [{ resize }, { use }]).handlers;

  it('surround the handler, the first outermost, and know its checked payload', async () => {
    const said: string[] = [];
    const payloads: unknown[] = [];
    const reads: JobMiddleware = (ctx, next) => {
      payloads.push(ctx.payload);
      return next();
    };
    const ran = await run(through([noted('a', said), noted('b', said), reads]));
    expect(ran.job.result).toEqual({ width: 1 });
    expect(said).toEqual(['a of resize', 'b of resize', 'b after', 'a after']);
    expect(payloads).toEqual([{ key: 'a/b', takenAt: new Date(GOOD.takenAt) }]);
  });

  it('surround handlers of jobs that are not declared, too', async () => {
    const said: string[] = [];
    const { handlers } = readHandling({ resize: () => 7 }, [{ use: [noted('a', said)] }]);
    expect((await run(handlers)).job.result).toBe(7);
    expect(said).toHaveLength(2);
  });

  it.each<readonly [string, JobMiddleware, Partial<Job>]>([
    [
      'replace the result',
      async (_, next) => {
        await next();
        return { width: 2 };
      },
      { result: { width: 2 } },
    ],
    ['answer without the handler', () => ({ width: 3 }), { result: { width: 3 } }],
    [
      'fail the attempt',
      () => Promise.reject(new RangeError('no')),
      { error: { name: 'RangeError', message: 'no' } },
    ],
    [
      'bear what the handler throws',
      (_, next) => next().catch(() => ({ width: 4 })),
      { result: { width: 4 } },
    ],
  ])('may %s', async (what, middleware, ended) => {
    const fails = what.startsWith('bear');
    const resize = (): unknown => (fails ? Promise.reject(new Error('broken')) : { width: 1 });
    const { job: seen } = await run(through([middleware], resize));
    expect(seen).toMatchObject(ended.error === undefined ? { state: 'succeeded', ...ended } : ended);
  });

  it('may call next once', async () => {
    const twice: JobMiddleware = async (_, next) => [await next(), await next()];
    const { job: ended } = await run(through([noted('a', []), twice]));
    expect(ended.error?.message).toBe(
      'use[1] called next() a second time; a handler runs once in each attempt',
    );
  });

  it('run no handler after they have ended, or after the attempt was told to stop', async () => {
    const on = setting();
    const errors: unknown[] = [];
    let runs = 0;
    const late: JobMiddleware = (_, next) => {
      const later = on.clock.sleep(1_000).then(next);
      void later.catch((error: unknown) => errors.push(String(error)));
      return { width: 6 };
    };
    const slow =
      (own: Stage): JobMiddleware =>
      async (_, next) => {
        await own.clock.sleep(TIMEOUT_MS + 1);
        return next();
      };
    const resize = () => (runs += 1);
    expect((await run(through([late], resize), GOOD, { on })).job.result).toEqual({ width: 6 });
    await on.advance(1_000);
    expect(errors).toEqual([expect.stringContaining('use[0] called next() after it had ended')]);
    const another = setting();
    const slept = await run(through([slow(another)], resize), GOOD, { on: another });
    expect(slept.job.error?.name).toBe('JobTimeout');
    expect(runs).toBe(0);
  });

  it('end after their handler, although they do not wait for it, and its failure ends nothing else', async () => {
    const on = setting();
    const began = on.time.nowMs;
    const careless: JobMiddleware = (_, next) => {
      void next();
      return { width: 5 };
    };
    const resize = async (): Promise<never> => {
      await on.clock.sleep(2_000);
      throw new Error('nobody waits for this');
    };
    const { job: ended } = await run(through([careless], resize), GOOD, { on });
    expect(ended).toMatchObject({ state: 'succeeded', finishedAtMs: began + 2_000 });
  });
});

describe("a handler's context", () => {
  const contextIn = async (
    own: Partial<RunContext> = {},
  ): Promise<{ ctx: JobContext; on: Stage; job: Job }> => {
    const found: JobContext[] = [];
    const { on, job: ended } = await run({ resize: (_, given) => void found.push(given) }, GOOD, own);
    const [ctx] = found;
    if (ctx === undefined) throw new Error('it did not run');
    return { ctx, on, job: ended };
  };

  it('says when its time is over, and how much is left', async () => {
    const seen: unknown[] = [];
    const on = setting();
    await run(
      {
        resize: async (_, { id, jobId, deadline, remainingMs }) => {
          seen.push(id === jobId, deadline, remainingMs());
          await on.clock.sleep(1_000);
          seen.push(remainingMs());
        },
      },
      GOOD,
      { on },
    );
    expect(seen).toEqual([true, new Date(NOW_MS + TIMEOUT_MS), TIMEOUT_MS, TIMEOUT_MS - 1_000]);
  });

  it('has a log with the fields of its job on each line', async () => {
    const { ctx, on, job: ended } = await contextIn();
    ctx.log.info('resized', { width: 640, jobId: 'another' });
    ctx.log.warn('slow');
    ctx.log.error('broken', { error: new Error('x') });
    ctx.log.debug('dropped, unless the worker writes such lines');
    const fields = { jobId: ended.id, type: 'resize', attempt: 1 };
    expect(on.logged.filter(({ message }) => message === 'resized')).toEqual([
      { level: 'info', message: 'resized', fields: { width: 640, ...fields } },
    ]);
    expect(on.logged.slice(-2).map(({ level }) => level)).toEqual(['warn', 'error']);
  });

  it('has the client of its worker, or says what to grant', async () => {
    const client = { isClient: true };
    const { ctx } = await contextIn({ client: () => client as never });
    expect(ctx.client).toBe(client);
    const without = (await contextIn()).ctx;
    expect(() => without.client).toThrow(
      /^FAIRLEAD_TABLE is not set, so ctx\.client cannot .*`scheduler\.grantSubmit\(fn\)`/,
    );
    // A copy does not ask for it.
    expect({ ...without }).toMatchObject({ type: 'resize' });
  });
});

describe('an error that decides', () => {
  const endAfter = async (thrown: unknown, retry: Partial<RetryPolicy> = {}): Promise<Job> =>
    (await run({ resize: () => Promise.reject(thrown) }, GOOD, { on: setting(retry) })).job;
  const RULES = { errors: [{ name: '*', retry: true, delayMs: 60_000 }] } as const;

  it('PermanentError: the job is a dead letter at once, with what caused it', async () => {
    const cause = Object.assign(new Error('declined'), { code: 'card_declined' });
    const ended = await endAfter(new PermanentError('no charge', { cause }), { maxAttempts: 9, ...RULES });
    expect(ended).toMatchObject({
      state: 'failed',
      attempt: 1,
      error: { name: 'PermanentError', message: 'no charge: declined (card_declined)' },
    });
    expect(ended.error?.stack).toContain('cause: Error: declined');
  });

  it.each<readonly [string, RetryAfterError, number]>([
    ['a duration', new RetryAfterError('30s'), 30_000],
    ['milliseconds', new RetryAfterError(0), 0],
    ['an instant', new RetryAfterError(new Date(NOW_MS + 5_000), { message: 'busy' }), 5_000],
    ['an instant in the past', new RetryAfterError(new Date(0)), 0],
    ['the longest duration', new RetryAfterError('366d'), RETRY_AFTER_MAX_MS],
  ])(
    'RetryAfterError with %s: the job is tried again then, and not by the rules',
    async (_, thrown, delayMs) => {
      const ended = await endAfter(thrown, { maxAttempts: 2, ...RULES });
      expect(ended).toMatchObject({ state: 'scheduled', attempt: 2, runAtMs: NOW_MS + delayMs });
    },
  );

  it.each<readonly [string | undefined, number | 'otherwise']>([
    ['120', 120_000],
    ['0', 0],
    [' 7 ', 7_000],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
    [undefined, 'otherwise'],
    ['', 'otherwise'],
    ['soon', 'otherwise'],
    ['-5', 'otherwise'],
    ['1.5', 'otherwise'],
    ['99999999999', 3_600_000],
  ])('RetryAfterError reads the header of a response: %j', (header, expected) => {
    const headers = new Headers(header === undefined ? {} : { 'Retry-After': header });
    const options = { otherwise: '20s', atMost: '1h' } as const;
    const ms = expected === 'otherwise' ? 20_000 : expected;
    expect(RetryAfterError.from({ headers }, options).retryAfterMs).toBe(ms);
    const fields = { headers: { 'retry-after': header } };
    expect(RetryAfterError.from(fields, { ...options, message: 'busy' })).toMatchObject({
      retryAfterMs: ms,
      message: 'busy',
    });
  });

  it('RetryAfterError comes before a rule that forbids a retry, and never after the last attempt', async () => {
    const error = new RetryAfterError('1s', { cause: new Error('429') });
    expect(
      await endAfter(error, { maxAttempts: 2, errors: [{ name: 'RetryAfterError', retry: false }] }),
    ).toMatchObject({
      state: 'scheduled',
    });
    expect(await endAfter(error, { maxAttempts: 1 })).toMatchObject({
      state: 'failed',
      error: { name: 'RetryAfterError', message: 'to be retried after 1000 ms: 429' },
    });
  });

  it('is known by its name and fields, whatever copy of the package made it', async () => {
    const foreign = runInNewContext(
      `Object.assign(new Error('m'), { name: 'RetryAfterError', retryAfterMs: 7000 })`,
    );
    expect(await endAfter(foreign)).toMatchObject({ state: 'scheduled', runAtMs: NOW_MS + 7_000 });
    expect(await endAfter({ name: 'PermanentError' })).toMatchObject({ state: 'failed', attempt: 1 });
    expect(await endAfter(Object.assign(new Error('m'), { name: 'PayloadRefused' }))).toMatchObject({
      state: 'scheduled',
    });
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(await endAfter(proxy)).toMatchObject({ state: 'scheduled' });
    // It decides nothing that it cannot say.
    const hostile = { name: 'RetryAfterError', retryAfterMs: 'soon' };
    expect(await endAfter(hostile)).toMatchObject({ state: 'scheduled', runAtMs: NOW_MS + 1_000 });
  });
});

describe('refused when the worker is made', () => {
  const typed = only(jobs, 'resize');
  const resize = (): { width: number } => ({ width: 1 });
  it.each<readonly [string, () => unknown, RegExp]>([
    [
      'a missing handler',
      () => worker(jobs, { resize } as never),
      /^handlers: has none for report, .*only\(jobs/,
    ],
    ['no handlers', () => worker(typed, undefined as never), /^handlers: must be an object/],
    ['empty handlers', () => worker(typed, {} as never), /^handlers: is empty/],
    ['an empty declaration', () => worker(defineJobs({}), {}), /^handlers: is empty/],
    [
      'a superfluous handler',
      () => worker(typed, { resize, resiz: resize } as never),
      /^handlers\.resiz: is not a declared job type, got a function\. Did you mean "resize"\?/,
    ],
    [
      'a handler that is undefined',
      () => worker(typed, { resize: undefined } as never),
      /^handlers: is empty/,
    ],
    [
      'a handler that is no function',
      () => worker(typed, { resize: 'x' } as never),
      /^handlers\.resize: must be a f/,
    ],
    ['a list of handlers', () => worker(typed, [resize] as never), /^handlers: must be an object/],
    [
      'a definition that is none',
      () => worker({ ...typed, b: {} } as never, {} as never),
      /^jobs\.b: must be made by/,
    ],
    ['options that are none', () => worker(typed, { resize }, 7 as never), /^options: must be an object/],
    [
      'an unknown option',
      () => worker(typed, { resize }, { uses: [] } as never),
      /^options\.uses: is .*"use"/,
    ],
    [
      'a middleware instead of a list',
      () => worker({ a: resize }, { use: resize } as never),
      /^options\.use: must be an a/,
    ],
    [
      'a middleware that is none',
      () => worker({ a: resize }, { use: [7] } as never),
      /^options\.use\[0\]: must be a f/,
    ],
    [
      'too many middlewares',
      () => worker({ a: resize }, { use: Array.from({ length: 101 }, () => resize) }),
      /at most 100/,
    ],
    [
      'handlers in the place of options',
      () => worker({ a: resize }, { b: resize } as never),
      /^options\.b: is not a/,
    ],
    ['null as jobs', () => worker(null as never), /^handlers: must be an object/],
    [
      'a retry after no duration',
      () => new RetryAfterError('soon'),
      /^after: must be a duration, got "soon"/,
    ],
    ['a retry after less than nothing', () => new RetryAfterError(-1), /^after: must be a duration, got -1/],
    [
      'a retry after no date',
      () => new RetryAfterError(new Date('x')),
      /^after: must be a duration or a Date/,
    ],
    [
      'a retry after years',
      () => new RetryAfterError('400d'),
      /^after: must be at most 366 days ahead, got "400d"/,
    ],
    [
      'a retry at a date in years',
      () => new RetryAfterError(new Date('9999-01-01')),
      /^after: must be at most 366 days ahead, got /,
    ],
    [
      'a retry after nothing',
      () => new RetryAfterError(undefined as never),
      /^after: must be a duration, got undefined/,
    ],
  ])('%s', (_, make, message) => {
    expect(make).toThrow(message);
    expect(make).toThrow(expect.objectContaining({ name: 'ConfigurationError' }));
  });
});
