/** Handlers that were written for a queue run as the handlers of jobs: what they see, and how they fail. */
import { runInNewContext } from 'node:vm';
import type { Context, SQSEvent, SQSHandler, SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { runJob } from '../../lib/worker/run-job.ts';
import { fromSqsHandler } from '../../lib/worker/sqs-handler.ts';
import { stage } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

/** Runs one attempt of a job with the handler, and gives the job afterwards. */
async function attempt(
  handler: SQSHandler,
  { options = {}, ...changes }: Partial<Job> & { readonly options?: { readonly queueArn?: string } } = {},
): Promise<Job> {
  const on = stage({
    pool: {
      types: {
        invoice: {
          timeoutMs: '30s',
          retry: { delayMs: '1s', errors: [{ name: 'SqsMessageFailed', retry: false }] },
        },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { billing: { types: ['invoice'], slots: 1 } },
    },
  });
  await on.put(on.job({ type: 'invoice', ...changes }));
  await on.pass();
  const [received] = await on.queue.receive('billing', 1, 0, 60_000);
  if (received === undefined) throw new Error('nothing was sent');
  const message = onlyJob(received);
  const { store, configuration, clock, random, log } = on;
  const worker = { workerId: 'worker-1', incarnation: 'first' };
  const context = { store, configuration, clock, random, log, worker };
  await on.finish(runJob(context, { invoice: fromSqsHandler(handler, options) }, message));
  const job = on.store.inspectJob(message.jobId);
  if (job === undefined) throw new Error('the job is gone');
  return job;
}

/** What the handler saw of the attempt. */
async function seen(changes: Parameters<typeof attempt>[1] = {}): Promise<{
  readonly event: SQSEvent;
  readonly record: SQSRecord;
  readonly context: Context;
  readonly job: Job;
}> {
  let found: { readonly event: SQSEvent; readonly context: Context } | undefined;
  const job = await attempt(async (event, context) => {
    found = { event, context };
  }, changes);
  const [record] = found?.event.Records ?? [];
  if (found === undefined || record === undefined) throw new Error('the handler saw no record');
  return { ...found, record, job };
}

describe('a handler of a queue', () => {
  it('gets an event with one record: the payload, and what is known of the job', async () => {
    const { event, record, context, job } = await seen({
      payload: { invoice: 7 },
      fairnessKey: 'acme',
    });
    expect(event.Records).toHaveLength(1);
    expect(record).toMatchObject({
      messageId: job.id,
      body: '{"invoice":7}',
      attributes: { ApproximateReceiveCount: '1', MessageGroupId: 'acme' },
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:::invoice',
    });
    expect(Number(record.attributes.SentTimestamp)).toBeGreaterThan(0);
    expect(context).toMatchObject({ functionName: 'invoice', awsRequestId: `${job.id}/1` });
    expect(context.getRemainingTimeInMillis()).toBeGreaterThan(0);
    expect(job.state).toBe('succeeded');
    expect(job.result ?? null).toBeNull();
  });

  it('gets a text as it is, and the queue that it was written for', async () => {
    const queueArn = 'arn:aws:sqs:eu-west-1:111122223333:invoices';
    const { record } = await seen({ payload: '<invoice/>', options: { queueArn } });
    expect(record).toMatchObject({ body: '<invoice/>', eventSourceARN: queueArn, awsRegion: 'eu-west-1' });
  });

  it.each<readonly [string, SQSHandler]>([
    ['a promise', async () => ({ batchItemFailures: [] })],
    ['a promise of nothing', async () => {}],
    ['a promise of another realm', () => runInNewContext('Promise.resolve()') as never],
    ['an answer without a promise', () => ({ batchItemFailures: [] }) as never],
    ['a callback', (_event, _context, callback) => void queueMicrotask(() => callback(null))],
    ['its context', (_event, context, _callback) => void queueMicrotask(() => context.succeed('done'))],
  ])('succeeds by %s', async (_, handler) => {
    expect((await attempt(handler)).state).toBe('succeeded');
  });

  it.each<readonly [string, SQSHandler, string]>([
    ['a promise', () => Promise.reject(new TypeError('no such invoice')), 'TypeError: no such invoice'],
    [
      'an error that it throws at once',
      () => {
        throw new RangeError('too many');
      },
      'RangeError: too many',
    ],
    ['a callback', (_event, _context, callback) => callback(new TypeError('late')), 'TypeError: late'],
    ['a callback with a text', (_event, _context, callback) => callback('broken'), 'Error: broken'],
    ['its context', (_event, context, _callback) => context.fail('broken'), 'Error: broken'],
  ])('fails by %s, and its job is tried again', async (_, handler, message) => {
    const { state, attempt: number, error } = await attempt(handler);
    expect({ state, number, error: `${error?.name}: ${error?.message}` }).toEqual({
      state: 'scheduled',
      number: 2,
      error: message,
    });
  });

  it.each<readonly [string, (later: (end: () => void) => void) => SQSHandler]>([
    [
      'the last of its arguments',
      (later) =>
        (...given) =>
          later(() => given[2](new TypeError('late'))),
    ],
    [
      'a callback with a default',
      (later) =>
        (_event, _context, callback = () => {}) =>
          later(() => callback(new TypeError('late'))),
    ],
    ['its context', (later) => (_event, context) => later(() => context.fail(new TypeError('late')))],
    [
      'its context, at last',
      (later) => (_event, context) => later(() => context.done(new TypeError('late'))),
    ],
  ])('is not over before it calls %s', async (_, made) => {
    const job = await attempt((...given) =>
      made((end) => queueMicrotask(() => queueMicrotask(end)))(...given),
    );
    expect(job).toMatchObject({ state: 'scheduled', attempt: 2, error: { message: 'late' } });
  });

  it('that neither returns a promise nor calls back is never taken for done', async () => {
    await expect(attempt(() => {})).rejects.toMatchObject({ reason: 'HandlerHung' });
  });

  it.each([
    ['its record', (event: SQSEvent) => event.Records.map(({ messageId }) => messageId)],
    ['a record that is none', () => ['']],
  ])('fails by naming %s in batchItemFailures, which a rule can decide about', async (_, failures) => {
    const job = await attempt(async (event) => ({
      batchItemFailures: failures(event).map((itemIdentifier) => ({ itemIdentifier })),
    }));
    expect(job).toMatchObject({ state: 'failed', error: { name: 'SqsMessageFailed' } });
  });

  it.each<readonly [string, () => unknown, RegExp]>([
    ['no function', () => fromSqsHandler('handler' as never), /^handler: must be a function, got "handler"/],
    [
      'an unknown option',
      () => fromSqsHandler(async () => {}, { queue: 'a' } as never),
      /^queue: is not a known field/,
    ],
    ['an empty ARN', () => fromSqsHandler(async () => {}, { queueArn: '' }), /^queueArn: must be a text/],
  ])('is refused if it is, or has, %s', (_, make, message) => {
    expect(make).toThrow(message);
  });
});
