/**
 * Whatever a handler gives its worker: what it throws, returns, or says on the way. It is the user's, so it may be anything; its attempt
 * ends as any other does, and its process, its batch and its log tell of it.
 */
import { once } from 'node:events';
import { request } from 'node:http';
import { type AddressInfo, createServer, type LookupFunction } from 'node:net';
import { runInNewContext } from 'node:vm';
import type { Context, SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { HISTORY_STACKS_BYTES_MAX, historyOf } from '../../lib/core/history.ts';
import { ERROR_STACK_BYTES_MAX, type Job, type JobError } from '../../lib/core/job.ts';
import type { DispatchMessage } from '../../lib/queue/contract.ts';
import { encodeDispatchMessage } from '../../lib/queue/message.ts';
import { lambdaWorker } from '../../lib/worker/lambda-batch.ts';
import { type JobHandler, runJob } from '../../lib/worker/run-job.ts';
import { jobErrorOf } from '../../lib/worker/thrown.ts';
import { type Stage, stage } from '../stage/stage.ts';
import { toldJobs } from '../testing/received.ts';
import { HOSTILE, WAYS } from './hostile.ts';

const setting = (maxAttempts = 1): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 10_000, retry: { jitter: 'none', delayMs: 1_000, maxAttempts } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 10 } },
    },
  });

async function claimed(on: Stage, count = 1): Promise<readonly DispatchMessage[]> {
  await on.put(...Array.from({ length: count }, (_, n) => on.job({ payload: n })));
  await on.pass();
  return toldJobs(await on.queue.receive('images', 10, 0, 60_000)).map(({ message }) => message);
}

const jobIn = (on: Stage, id: string): Job => {
  const job = on.store.inspectJob(id);
  if (job === undefined) throw new Error(`no job ${id}`);
  return job;
};

async function run(on: Stage, resize: JobHandler, message?: DispatchMessage): Promise<Job> {
  const [first] = message === undefined ? await claimed(on) : [message];
  if (first === undefined) throw new Error('nothing was sent');
  const { store, configuration, clock, random, log } = on;
  const worker = { workerId: 'worker-1', incarnation: 'first' };
  await on.finish(runJob({ store, configuration, clock, random, log, worker }, { resize }, first));
  return jobIn(on, first.jobId);
}

describe.each(WAYS)('what is %s', (_way, handlerOf) => {
  it.each(HOSTILE)('ends its attempt as any other, whatever it is: %s', async (_, given) => {
    const on = setting();
    const messages = await claimed(on, 2);
    const exits: string[] = [];
    const handler = lambdaWorker(() => ({ ...on, exit: (reason) => void exits.push(reason) }), {
      resize: (payload, context) => (payload === 0 ? handlerOf(given)(payload, context) : payload),
    });
    const event = { Records: [{ messageId: 'm', body: encodeDispatchMessage(messages) }] };
    const context = { functionName: 'f', awsRequestId: 'r', getRemainingTimeInMillis: () => 60_000 };
    const response = await on.finish(handler(event as unknown as SQSEvent, context as unknown as Context));
    expect(response.batchItemFailures).toEqual([]);
    expect(exits).toEqual([]);
    const jobs = messages.map(({ jobId }) => jobIn(on, jobId));
    const [first, second] = [0, 1].map((n) => jobs.find(({ payload }) => payload === n));
    expect(['succeeded', 'failed']).toContain(first?.state);
    expect(second?.state).toBe('succeeded');
    if (first?.state !== 'failed') return;
    expect(first).toMatchObject({ attempt: 1, workersLost: 0, error: { message: expect.any(String) } });
    expect(first.error?.message).not.toBe('');
    expect(JSON.stringify(first.error).length).toBeLessThan(8_000);
  });
});

/** A port that nothing listens to. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
/** A name of two addresses: Node tries both. */
const lookup: LookupFunction = (_host, _options, found) =>
  found(null, [
    { address: '127.0.0.1', family: 4 },
    { address: '127.0.0.2', family: 4 },
  ]);
const refusedConnection = async (): Promise<unknown> => {
  const options = { host: 'there', port: await closedPort(), lookup, autoSelectFamily: true };
  const sent = request(options);
  return new Promise((_, reject) => sent.on('error', reject).end());
};
const refusedFetch = async (): Promise<unknown> => fetch(`http://127.0.0.1:${await closedPort()}`);
const caught = async (work: () => unknown): Promise<unknown> => {
  try {
    return await work();
  } catch (error) {
    return error;
  }
};

describe('the reason of a failure', () => {
  it.each<readonly [string, () => unknown, RegExp, RegExp]>([
    ['a refused connection', refusedConnection, /ECONNREFUSED/, /ECONNREFUSED/],
    ['a refused fetch', refusedFetch, /^fetch failed: .*ECONNREFUSED/, /cause: Error: connect ECONNREFUSED/],
    [
      'a cause of a cause',
      () => new Error('outer', { cause: new TypeError('middle', { cause: new RangeError('inner') }) }),
      /^outer: middle: inner$/,
      /cause: TypeError: middle[\s\S]*cause: RangeError: inner/,
    ],
    [
      'several errors',
      () => new AggregateError([new Error('one'), new Error('two')], ''),
      /^one; two$/,
      /cause: Error: one[\s\S]*cause: Error: two/,
    ],
    [
      'what was thrown while another error was on its way',
      () => new SuppressedError(new Error('cannot close'), 'cannot write', ''),
      /^cannot close; cannot write$/,
      /cause: Error: cannot close[\s\S]*cause: Error: cannot write/,
    ],
    [
      'a code that the message does not say',
      () => Object.assign(new Error('duplicate key'), { code: '23505' }),
      /^duplicate key \(23505\)$/,
      /thrown\.test\.ts/,
    ],
    ['an error of another realm', () => runInNewContext("new Error('elsewhere')"), /^elsewhere$/, /^at /],
    [
      'a cause that is no error',
      () => new Error('no', { cause: 'a text' }),
      /^no: a text$/,
      /cause: Error: a text/,
    ],
  ])('is kept with its code and its causes: %s', async (_, make, message, stack) => {
    const error = jobErrorOf(await caught(make));
    expect(error.message).toMatch(message);
    expect(error.stack).toMatch(stack);
  });

  it.each([
    ['a cause', () => new Error('outer', { cause: { config: { authorization: 'SECRET' }, code: 'E1' } })],
    ['one of several', () => new AggregateError([{ headers: { authorization: 'SECRET' } }], 'outer')],
    ['itself', () => ({ response: { headers: { authorization: 'SECRET' } }, code: 'E1' })],
  ])('names the fields of an object that is no error, and nothing in them: %s', (_, make) => {
    const { message, stack = '' } = jobErrorOf(make());
    expect(message).toMatch(/an object with the fields \w+/);
    expect(message + stack).not.toContain('SECRET');
  });

  it('says nothing twice that a message says itself', () => {
    const inner = new Error('the disk is full');
    expect(jobErrorOf(new Error('cannot write: the disk is full', { cause: inner })).message).toBe(
      'cannot write: the disk is full',
    );
  });

  it('names the place that threw', async () => {
    const on = setting();
    const job = await run(on, async function resizes() {
      await Promise.resolve();
      throw new Error('no');
    });
    expect(job.error?.stack?.split('\n')[0]).toMatch(/^at .*resizes.*thrown\.test\.ts:\d+/);
  });

  it('has ten frames of the error, and four of each cause', () => {
    const below = (depth: number, make: () => Error): Error =>
      depth === 0 ? make() : below(depth - 1, make);
    const inner = below(9, () => new Error('inner'));
    const { stack = '' } = jobErrorOf(below(9, () => new Error('outer', { cause: inner })));
    expect(stack.split('\n').map((line) => /^ *(at|cause)/.exec(line)?.[0])).toEqual([
      ...Array.from({ length: 10 }, () => 'at'),
      'cause',
      ...Array.from({ length: 4 }, () => '  at'),
    ]);
  });

  it('is of a bounded size, however long the error and its chain are', () => {
    let error = new Error('m'.repeat(100_000));
    for (let depth = 0; depth < 1_000; depth += 1)
      error = new AggregateError([error, new Error('日'.repeat(10_000))], 'm'.repeat(100_000), {
        cause: error,
      });
    error.stack = `at x\n${'  at y\n'.repeat(1_000_000)}`;
    const { name, message, stack = '' } = jobErrorOf(error);
    expect(name.length + message.length).toBeLessThanOrEqual(128 + 2_048);
    expect(Buffer.byteLength(JSON.stringify(stack), 'utf8')).toBeLessThanOrEqual(ERROR_STACK_BYTES_MAX + 2);
  });
});

/** Lets the job's delay pass, and runs it again. */
async function runAgain(on: Stage, failed: Job, resize: JobHandler): Promise<Job> {
  await on.pass({ jobs: [failed], reason: 'stream' });
  await on.advance(failed.runAtMs - on.time.nowMs);
  await on.pass();
  const [message] = toldJobs(await on.queue.receive('images', 10, 0, 60_000));
  if (message === undefined) throw new Error('nothing was sent again');
  return run(on, resize, message.message);
}

describe('a failed attempt', () => {
  const broken = (): never => {
    throw new TypeError('out of reach', { cause: new Error('the root') });
  };
  const told = (error: JobError | undefined) => ({ ...error, stack: expect.stringContaining('the root') });

  it('is logged as a warning with all that is known of it, and as an error where it was the last one', async () => {
    const on = setting(2);
    const first = await run(on, broken);
    expect(first.state).toBe('scheduled');
    const last = await runAgain(on, first, broken);
    expect(last.state).toBe('failed');
    const lines = on.logged.filter(({ message: said }) => said.startsWith('attempt failed'));
    expect(lines).toMatchObject([
      { level: 'warn', fields: { jobId: first.id, type: 'resize', attempt: 1, error: told(last.error) } },
      { level: 'error', fields: { jobId: first.id, type: 'resize', attempt: 2, error: told(last.error) } },
    ]);
  });

  it('is shown by the history with its stack, each one, and the job itself carries it once', async () => {
    const on = setting(2);
    const first = await run(on, broken);
    // The next transitions are billed for what the job carries.
    expect(first.error).toEqual({ name: 'TypeError', message: 'out of reach: the root' });
    const last = await runAgain(on, first, broken);
    const errors = historyOf(last).events.flatMap((event) => ('error' in event ? [event.error] : []));
    expect(errors).toMatchObject([told(last.error), told(last.error)]);
  });

  it('keeps the stacks of the last attempts, where there are more than are kept', async () => {
    const on = setting(20);
    const long = (): never => {
      const error = new Error('x');
      error.stack = Array.from({ length: 10 }, () => `  at ${'x'.repeat(390)}`).join('\n');
      throw error;
    };
    let job = await run(on, long);
    for (let attempt = 2; attempt <= 5; attempt += 1) job = await runAgain(on, job, long);
    const stacks = (job.history?.entries ?? []).map((entry) => 'error' in entry && entry.error?.stack);
    expect(stacks.map((stack) => typeof stack === 'string')).toEqual([
      ...Array(2).fill(false),
      true,
      true,
      true,
    ]);
    expect(Buffer.byteLength(JSON.stringify(stacks.slice(-3)))).toBeLessThan(HISTORY_STACKS_BYTES_MAX + 100);
  });
});

it('reads errors in an array of a class of its own, and an array whose iteration throws', () => {
  class Odd<Value> extends Array<Value> {
    override slice(): never {
      return 5 as never;
    }
    override [Symbol.iterator](): never {
      throw new Error('no iteration');
    }
  }
  const errors = Odd.of<unknown>(new Error('inner'), 2);
  const { message } = jobErrorOf(Object.assign(new Error('boom'), { errors }));
  expect(message).toMatch(/^boom.*inner/);
  const trapped = new Proxy([new Error('hidden')], {
    get: () => {
      throw new Error('no');
    },
  });
  expect(jobErrorOf(Object.assign(new Error('boom'), { errors: trapped })).message).toBe('boom');
});
