/**
 * A user's app by the paths of its files: declared jobs, one stack, a worker function and one of before, and a program that submits and follows jobs. It
 * imports nothing of Fairlead but the package's entries.
 */

const JOBS = `import { defineJobs, job } from 'fairlead/jobs';
import * as z from 'zod';

export const jobs = defineJobs({
  order: job({
    payload: z.object({ order: z.string(), customer: z.string(), total: z.number() }),
    result: z.object({ charge: z.string(), attempt: z.number() }),
    fairnessKey: ({ customer }) => customer,
  }),
  webhook: job<{ status: 400 | 429 }, { attempt: number }>(),
  mail: job<{ to: string }>(),
  invoice: job<{ invoice: string }>(),
  label: job<{ image: string }, { label: string }>(),
});
`;

const STACK = `import { App, Duration, Stack } from 'aws-cdk-lib';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Scheduler, WorkerFunction } from 'fairlead';
import { jobs } from './lib/jobs.ts';

const stack = new Stack(new App(), 'Shop');
// A function that the app has already, and that a fleet takes as it is.
const billing = new NodejsFunction(stack, 'Billing', {
  entry: 'lib/billing.ts',
  runtime: Runtime.NODEJS_24_X,
  timeout: Duration.seconds(30),
  bundling: { externalModules: [] },
});
new Scheduler(stack, 'Jobs', {
  jobs,
  searchableTags: ['batch'],
  largePayloads: { maxBytes: 1_048_576 },
  types: {
    order: { listFinished: true, retry: { maxAttempts: 3, delayMs: '1s', jitter: 'none' } },
    webhook: { retry: { maxAttempts: 3, delayMs: '10m' } },
    mail: { maxConcurrency: 1 },
    invoice: { retry: { maxAttempts: 1 } },
    label: {},
  },
  fleets: {
    shop: {
      types: ['order', 'webhook', 'mail', 'label'],
      slots: 4,
      handler: new WorkerFunction(stack, 'Shop', { entry: 'lib/worker.ts' }),
    },
    billing: { types: ['invoice'], slots: 2, handler: billing },
  },
});
`;

/** A function of before: it knows nothing of jobs. */
const INVOICES = `import type { SQSHandler } from 'aws-lambda';

export const handler: SQSHandler = async ({ Records }) => {
  const failed = Records.filter(({ body }) => JSON.parse(body).invoice === 'unknown');
  return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
};
`;

const BILLING = `import { only } from 'fairlead/jobs';
import { fromSqsHandler, worker } from 'fairlead/worker';
import { handler as existing } from './invoices.ts';
import { jobs } from './jobs.ts';

export const handler = worker(only(jobs, 'invoice'), { invoice: fromSqsHandler(existing) });
`;

const WORKER = `import { trace } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { only } from 'fairlead/jobs';
import { traceJobs } from 'fairlead/otel';
import { type JobMiddleware, PermanentError, RetryAfterError, worker } from 'fairlead/worker';
import { jobs } from './jobs.ts';

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));

/** Logs the spans that the attempt has ended. */
const logSpans: JobMiddleware = async (ctx, next) => {
  try {
    return await next();
  } finally {
    for (const span of exporter.getFinishedSpans())
      if (span.attributes['messaging.message.id'] === ctx.id && span.attributes['fairlead.attempt'] === ctx.attempt)
        ctx.log.info('span', { span: span.name, links: span.links.map(({ context }) => context.traceId) });
  }
};

export const handler = worker(
  only(jobs, 'order', 'webhook', 'mail', 'label'),
  {
    order: async ({ order }, { attempt, step, log }) => {
      const charge = await step('charge', async () => {
        log.info('charged', { order });
        return order + ' by attempt ' + attempt;
      });
      if (attempt === 1) throw new Error('the mail server is away');
      return { charge, attempt };
    },
    webhook: async ({ status }, { attempt }) => {
      if (status === 400) throw new PermanentError('refused', { cause: new TypeError('no such field') });
      if (attempt === 1) throw new RetryAfterError('2s');
      return { attempt };
    },
    mail: async () => {},
    label: async ({ image }) => ({ label: image.toUpperCase() }),
  },
  { use: [logSpans, traceJobs()] },
);
`;

/** It prints what it has seen as JSON. */
const PRODUCER = `import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { JobFailedError, SchedulerClient, ValidationError } from 'fairlead/client';
import { traceSubmissions } from 'fairlead/otel';
import { jobs } from './lib/jobs.ts';

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

const client = SchedulerClient.for(jobs, traceSubmissions());
const untyped = SchedulerClient.fromEnvironment();
const timeout = '3m';

async function all<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const list: Value[] = [];
  for await (const value of values) list.push(value);
  return list;
}

/** Payloads that the schema of their type refuses: one that is submitted, and one that a producer without the schema has stored. */
async function refusals() {
  const wrong = { order: '1', customer: 'c', total: 'much' };
  const atSubmit = await client.submit('order', JSON.parse(JSON.stringify(wrong))).then(
    () => undefined,
    (error: unknown) => (error instanceof ValidationError ? error.field : String(error)),
  );
  const stored = await untyped.submit('order', wrong);
  const outcome = await stored.outcome({ timeout });
  const letters = await all(client.deadLetters({ type: 'order', errorName: 'PayloadRefused' }));
  return {
    atSubmit,
    atWorker: outcome.status === 'failed' ? outcome.error : outcome.status,
    attempts: outcome.job.attempt,
    isDeadLetter: letters.some(({ id }) => id === stored.id),
  };
}

/** An order whose first attempt fails after its step. */
async function order() {
  const payload = { order: '4711', customer: 'c-7', total: 12 };
  const options = { idempotencyKey: 'order-4711', tags: { batch: 'monday' } };
  const handle = await client.submit('order', payload, options);
  const again = await client.submit('order', payload, options);
  const { charge, attempt } = await handle.result({ timeout });
  const waited = await client.wait({ idempotencyKey: 'order-4711' }, { timeout });
  const { events } = await client.history(handle.id);
  const ownSpan = exporter
    .getFinishedSpans()
    .find((span) => handle.job.traceparent?.split('-')[2] === span.spanContext().spanId);
  return {
    id: handle.id,
    fairnessKey: handle.job.fairnessKey,
    repeated: [handle.repeated, again.repeated, again.id === handle.id],
    result: { charge, attempt },
    waited: waited.status,
    attempts: events.flatMap((event) => (event.kind === 'attempt' ? [{ outcome: event.outcome, stack: event.error?.stack }] : [])),
    byTag: (await all(client.list({ state: 'any', tags: { batch: 'monday' } }))).map(({ id }) => id === handle.id),
    byType: (await all(client.list({ state: 'succeeded', type: 'order', fairnessKey: 'c-7' }))).map(({ id }) => id === handle.id),
    traceparent: handle.job.traceparent,
    submitSpan: ownSpan?.name,
  };
}

/** Three orders at once; one of the requests is wrong. */
async function many() {
  const requests = ['1', '2', '3'].map((order) => ({ type: 'order' as const, payload: { order, customer: 'c-8', total: 1 } }));
  const entries = await client.submitMany([...requests, JSON.parse('{"type":"order","payload":{"order":"4"}}')]);
  const ids = entries.flatMap((entry) => (entry.kind === 'accepted' ? [entry.jobId] : []));
  const ended = await all(client.waitMany(ids, { timeout }));
  return {
    entries: entries.map(({ kind }) => kind),
    ended: ended.map(({ outcome }) => outcome.status),
    sameIds: ended.map(({ id }) => id).sort().join() === [...ids].sort().join(),
  };
}

async function webhooks() {
  const refused = await client.submit('webhook', { status: 400 });
  const later = await client.submit('webhook', { status: 429 });
  const error = await refused.result({ timeout }).catch((thrown: unknown) => thrown);
  const failed = await client.get(refused.id);
  const result = await later.result({ timeout });
  const [first, second] = (await client.history(later.id)).events.flatMap((event) => (event.kind === 'attempt' ? [event] : []));
  return {
    permanent: {
      isFailure: error instanceof JobFailedError,
      attempts: failed.attempt,
      error: failed.state === 'failed' ? failed.error : undefined,
    },
    retryAfter: { result, waitedMs: (second?.startedAtMs ?? 0) - (first?.endedAtMs ?? 0) },
  };
}

async function invoices() {
  const known = await client.submit('invoice', { invoice: '1' });
  const unknown = await client.submit('invoice', { invoice: 'unknown' });
  const ended = [await known.outcome({ timeout }), await unknown.outcome({ timeout })];
  return ended.map((outcome) => (outcome.status === 'failed' ? outcome.error.name : outcome.status));
}

/** A payload and a result of more than 64 KB. */
async function labels() {
  const image = 'x'.repeat(200_000);
  const handle = await client.submit('label', { image });
  const { label } = await handle.result({ timeout });
  const { payload } = await client.get(handle.id);
  return { label: label === image.toUpperCase(), payload: JSON.stringify(payload) === JSON.stringify({ image }) };
}

/** Mails wait while their type is paused: some are cancelled by their tag, and of the others one goes before an older one. */
async function mails() {
  await client.pause({ type: 'mail' }, { reason: 'the mail server moves', actor: 'ann' });
  const older = await client.submit('mail', { to: 'a' });
  const urgent = await client.submit('mail', { to: 'b' });
  const dropped = [
    await client.submit('mail', { to: 'c' }, { tags: { list: 'old' } }),
    await client.submit('mail', { to: 'd' }, { tags: { list: 'old' } }),
  ];
  const filter = { state: 'pending', type: 'mail', tags: { list: 'old' } } as const;
  let counted = await all(client.cancelMany(filter, { dryRun: true }));
  // The list may lag by about a second.
  while (counted.length < dropped.length) counted = await all(client.cancelMany(filter, { dryRun: true }));
  const statesAfterCount = await Promise.all(dropped.map(async ({ id }) => (await client.get(id)).state));
  const cancelled = await all(client.cancelMany(filter, { actor: 'ann' }));
  const { priority } = await client.setPriority(urgent.id, 10, { actor: 'ann' });
  await client.resume({ type: 'mail' });
  const [before, after] = [await urgent.outcome({ timeout }), await older.outcome({ timeout })];
  return {
    counted: counted.map(({ kind }) => kind),
    statesAfterCount,
    cancelled: cancelled.map(({ kind }) => kind),
    statesAfterCancel: await Promise.all(dropped.map(async ({ id }) => (await client.get(id)).state)),
    priority,
    ended: [before.status, after.status],
    isUrgentFirst: (before.job.startedAtMs ?? Number.NaN) < (after.job.startedAtMs ?? Number.NaN),
  };
}

const [refused, ordered, together, called, invoiced, labelled, mailed] = await Promise.all([
  refusals(),
  order(),
  many(),
  webhooks(),
  invoices(),
  labels(),
  mails(),
]);
console.log(JSON.stringify({ refused, ordered, together, called, invoiced, labelled, mailed }));
client.destroy();
untyped.destroy();
`;

export const SHOP: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({ name: 'shop', private: true, version: '0.1.0', type: 'module' }),
  'cdk.json': JSON.stringify({ app: 'node stack.ts' }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'ES2024',
      module: 'NodeNext',
      allowImportingTsExtensions: true,
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: true,
      noEmit: true,
      types: ['node'],
    },
    include: ['*.ts', 'lib/*.ts'],
  }),
  'lib/jobs.ts': JOBS,
  'lib/invoices.ts': INVOICES,
  'lib/billing.ts': BILLING,
  'lib/worker.ts': WORKER,
  'stack.ts': STACK,
  'producer.ts': PRODUCER,
};
