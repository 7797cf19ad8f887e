/** Whatever hints that there is something to do causes a pass: stream records, wake messages, the minute's tick. */
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type {
  DynamoDBRecord,
  DynamoDBStreamEvent,
  SQSBatchResponse,
  SQSEvent,
  AttributeValue as StreamAttribute,
} from 'aws-lambda';
import type { Job } from '../lib/core/job.ts';
import { dispatchAll, type Trigger } from '../lib/dispatch/dispatch.ts';
import { lookAtWorkers } from '../lib/dispatch/look.ts';
import { publishOutcomes } from '../lib/dispatch/outcomes.ts';
import { decodeWake } from '../lib/queue/message.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { decodeJob } from '../lib/store/dynamodb/codec.ts';
import { BLOCKED_PREFIX, TABLE } from '../lib/store/schema.ts';
import { type Compose, composition, type FunctionContext } from './composition.ts';

type DispatchEvent = DynamoDBStreamEvent | SQSEvent | { readonly 'detail-type'?: string };

function jobsOf(records: readonly DynamoDBRecord[], { log }: FunctionContext): readonly Job[] {
  return records.flatMap((record) => {
    const image: Record<string, StreamAttribute> | undefined = record.dynamodb?.NewImage;
    // A job that was parked is the same job: as a hint it would only be met, and parked, again.
    if (image === undefined || image[TABLE.line]?.S?.startsWith(BLOCKED_PREFIX)) return [];
    try {
      return [decodeJob(unmarshall(image as Parameters<typeof unmarshall>[0]))];
    } catch (error) {
      log.warn('a stream record is not a job', { keys: record.dynamodb?.Keys, error: String(error) });
      return [];
    }
  });
}

const isStream = (event: DispatchEvent): event is DynamoDBStreamEvent =>
  'Records' in event && event.Records.some((record) => record.eventSource === 'aws:dynamodb');

type Asked = Pick<Trigger, 'reason' | 'partitions' | 'dueAtMs'>;

/** Wakes name their partitions; one that cannot be read wakes them all, as the minute's tick does. */
function asksOf(event: SQSEvent | object): {
  readonly passes: readonly Asked[];
  readonly looks: readonly number[];
} {
  if (!('Records' in event)) return { passes: [{ reason: 'tick' }], looks: [] };
  const wakes = event.Records.map(({ body }) => decodeWake(body));
  const named = wakes.filter((wake) => wake !== undefined);
  const looks = new Set(named.flatMap(({ partition, asks }) => (asks === 'look' ? [partition] : [])));
  /** By partition: the latest instant that its wakes are for. */
  const due = new Map<number, number>();
  for (const { partition, asks, dueAtMs } of named) {
    if (asks !== 'pass') continue;
    due.set(partition, Math.max(dueAtMs ?? -Infinity, due.get(partition) ?? -Infinity));
  }
  const byDue = Map.groupBy(due.keys(), (partition) => due.get(partition));
  const passes = Array.from(
    byDue,
    ([dueAtMs = -Infinity, partitions]): Asked => ({
      reason: 'wake',
      partitions,
      ...(dueAtMs === -Infinity ? {} : { dueAtMs }),
    }),
  );
  return {
    passes: named.length < wakes.length ? [...passes, { reason: 'wake' }] : passes,
    looks: [...looks],
  };
}

export const dispatching =
  (compose: Compose) =>
  async (event: DispatchEvent): Promise<SQSBatchResponse> => {
    const context = await compose();
    if (isStream(event)) {
      const jobs = jobsOf(event.Records, context);
      if (jobs.length === 0) return { batchItemFailures: [] };
      const [published, passed] = await Promise.allSettled([
        publishOutcomes(context.events, jobs),
        dispatchAll(context, { jobs, reason: 'stream' }),
      ]);
      // Thrown, not answered: neither step knows which record it failed on, and both may be repeated.
      if (published.status === 'rejected') throw published.reason;
      if (passed.status === 'rejected') throw passed.reason;
    } else {
      const { passes, looks } = asksOf(event);
      const outcomes = await Promise.allSettled([
        ...passes.map((pass) => dispatchAll(context, { jobs: [], ...pass })),
        ...looks.map((partition) => lookAtWorkers(context, partition)),
      ]);
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    }
    return { batchItemFailures: [] };
  };

const { log, wrap } = lambdaEntry();
export const handler = wrap(dispatching(composition(log)));
