/**
 * Whatever hints that there is something to do causes a pass: stream records, wake messages, the minute's tick. And where one pass follows the
 * other, the function asks itself to lead.
 */
import { inspect } from 'node:util';
import type { Context, DynamoDBRecord, DynamoDBStreamEvent, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { MovingJob } from '../lib/core/job.ts';
import { dispatchAll, leadWhileBusy, type WakeTrigger } from '../lib/dispatch/dispatch.ts';
import { lookAtWorkers } from '../lib/dispatch/look-at-workers.ts';
import { publishOrKeep, publishWaiting } from '../lib/dispatch/outcomes.ts';
import { triggersOf } from '../lib/dispatch/woken.ts';
import { leadIn } from '../lib/queue/lambda/leads.ts';
import { decodeWake, type LookWake, wakeIn } from '../lib/queue/message.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { changesIn, type JobChange } from '../lib/store/dynamodb/stream.ts';
import { type Compose, composition, type FunctionContext } from './composition.ts';

type DispatchEvent =
  | DynamoDBStreamEvent
  | SQSEvent
  | { readonly 'detail-type'?: string }
  | { readonly asks: 'lead'; readonly partition: number };

/** A batch that comes again is counted again; what it is of happened once. */
function count({ metrics }: FunctionContext, changes: readonly JobChange[]): void {
  for (const { job, before } of changes) {
    const { type, state } = job;
    if (before === undefined) metrics?.add('submitted', 1, { type });
    else if (before === state) continue;
    else if (state === 'succeeded' || state === 'failed' || state === 'cancelled')
      metrics?.add(state, 1, { type });
    else if (before === 'running') metrics?.add('retried', 1, { type });
  }
}

const isStream = (event: DispatchEvent): event is DynamoDBStreamEvent =>
  'Records' in event && event.Records.some((record) => record.eventSource === 'aws:dynamodb');

/** Wakes name their partitions; one that cannot be read wakes them all, as the minute's tick does. */
function asksOf(event: SQSEvent | object): {
  readonly passes: readonly WakeTrigger[];
  readonly looks: readonly LookWake[];
} {
  if (!('Records' in event)) return { passes: [{ jobs: [], reason: 'tick' }], looks: [] };
  const wakes = event.Records.map(({ body }) => decodeWake(body));
  const named = wakes.filter((wake) => wake !== undefined);
  const looks = named.filter((wake) => wake.asks === 'look');
  const passes = triggersOf(named.filter((wake) => wake.asks === 'pass'));
  return {
    passes: named.length < wakes.length ? [...passes, { jobs: [], reason: 'wake' }] : passes,
    looks,
  };
}

/**
 * A pass of the stream's batch has failed. If another one can be asked for, the batch need not come again: it would publish all
 * of its outcomes a second time. The other one hears of what this one was shown.
 *
 * @throws why the pass failed, where nobody can be asked
 */
async function askForAnother(
  context: FunctionContext,
  jobs: readonly MovingJob[],
  reason: unknown,
): Promise<void> {
  context.log.warn('a pass failed; another one is asked for', { error: String(reason) });
  try {
    for (const [partition, ofPartition] of Map.groupBy(jobs, (job) => job.partition)) {
      // First the letter: the dispatcher that is woken reads it.
      await context.store.putLetter({
        partition,
        letter: { hints: ofPartition },
        nowMs: context.clock.nowMs(),
      });
      await context.queue.sendWake(partition, 0);
    }
  } catch {
    throw reason;
  }
}

async function dispatchRecords(context: FunctionContext, records: readonly DynamoDBRecord[]): Promise<void> {
  const { jobs: changes, schedules } = changesIn(records, (keys, error) =>
    context.log.warn('a stream record is neither a job nor a schedule', { keys, error: String(error) }),
  );
  if (changes.length === 0 && schedules.length === 0) return;
  const jobs = changes.map(({ job }) => job);
  count(context, changes);
  const [published, passed] = await Promise.allSettled([
    publishOrKeep(context, { jobs, schedules }),
    jobs.length === 0 ? [] : dispatchAll(context, { jobs, reason: 'stream' }),
  ]);
  // Thrown, not answered: it is not known which record it failed on, and the batch may be repeated.
  if (published.status === 'rejected') throw published.reason;
  if (passed.status === 'rejected') await askForAnother(context, jobs, passed.reason);
}

async function dispatchAsked(context: FunctionContext, event: SQSEvent | object): Promise<void> {
  const led = leadIn(event);
  if (led !== undefined) {
    await leadWhileBusy(context, led);
    return;
  }
  const { passes, looks } = asksOf(event);
  const ends = await Promise.allSettled([
    ...passes.map((pass) => dispatchAll(context, pass)),
    ...looks.map(({ partition, atMs }) => lookAtWorkers(context, partition, atMs)),
    ...(passes.some(({ reason }) => reason === 'tick') ? [publishWaiting(context)] : []),
  ]);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/**
 * The event sources, whose records are believed, invoke the function by its own ARN. By any other name it is invoked by whoever may submit
 * jobs: it takes one wake, and nothing else.
 */
const OWN_ARN = /^arn:[\w-]+:lambda:[\w-]+:\d+:function:[\w-]+$/;

/** Of an event that anybody may have made, nested as it likes. */
const LOGGED_CHARS = 200;
const shown = (event: unknown): string =>
  inspect(event, { depth: 2, breakLength: Infinity, maxStringLength: LOGGED_CHARS }).slice(0, LOGGED_CHARS);

async function dispatchWake(context: FunctionContext, event: unknown): Promise<void> {
  const wake = wakeIn(event);
  if (wake?.asks !== 'pass') {
    context.log.warn('what was invoked by an alias is no wake', { event: shown(event) });
    return;
  }
  for (const trigger of triggersOf([wake])) await dispatchAll(context, trigger);
}

export const dispatching =
  (compose: Compose) =>
  async (
    event: DispatchEvent,
    invocation: Pick<Context, 'invokedFunctionArn'>,
  ): Promise<SQSBatchResponse> => {
    const context = await compose();
    if (!OWN_ARN.test(invocation.invokedFunctionArn)) await dispatchWake(context, event);
    else await (isStream(event) ? dispatchRecords(context, event.Records) : dispatchAsked(context, event));
    return { batchItemFailures: [] };
  };

const { log, metrics, wrap } = lambdaEntry();
export const handler = wrap(dispatching(composition({ log, metrics }, { mayLead: true })));
