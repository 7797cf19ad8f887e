/** The composition root of the functions: the only place here that reads the environment and builds adapters. */
import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { partitionOf } from '../lib/core/partition.ts';
import { decodeConfiguration } from '../lib/dispatch/configuration-codec.ts';
import { DISPATCH_BUDGET, type DispatchContext } from '../lib/dispatch/context.ts';
import type { IngestContext } from '../lib/dispatch/ingest.ts';
import { placeOf } from '../lib/dispatch/submit.ts';
import { EventBridgeBus } from '../lib/events/eventbridge/bus.ts';
import { SqsJobQueue } from '../lib/queue/sqs/queue.ts';
import { jsonLog, systemClock } from '../lib/runtime/system.ts';
import { DynamoJobStore } from '../lib/store/dynamodb/store.ts';

/** Thrown when a function runs without what the Scheduler construct gives it. */
class FunctionEnvironmentError extends Error {
  override readonly name = 'FunctionEnvironmentError';
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') {
    throw new FunctionEnvironmentError(
      `${name} is not set; the Scheduler construct sets it: deploy the stack again`,
    );
  }
  return value;
}

function queueUrls(text: string): Readonly<Record<string, string>> {
  const value: unknown = JSON.parse(text);
  if (typeof value !== 'object' || value === null) {
    throw new FunctionEnvironmentError(`FAIRLEAD_QUEUES is not an object of queue URLs: ${text}`);
  }
  return Object.fromEntries(Object.entries(value).map(([fleet, url]) => [fleet, String(url)]));
}

function build(): DispatchContext & IngestContext {
  const configuration = decodeConfiguration(required('FAIRLEAD_POOL'));
  const log = jsonLog((line) => console.log(line));
  return {
    store: new DynamoJobStore({
      client: new DynamoDBClient(REQUESTS),
      table: required('FAIRLEAD_TABLE'),
      place: placeOf(configuration),
      unreadable: (item) => log.warn('an item cannot be read', { ...item }),
    }),
    queue: new SqsJobQueue({
      client: new SQSClient(REQUESTS),
      queueUrls: queueUrls(required('FAIRLEAD_QUEUES')),
      wakeQueueUrl: required('FAIRLEAD_WAKE_QUEUE'),
    }),
    events: new EventBridgeBus({
      client: new EventBridgeClient(REQUESTS),
      busName: required('FAIRLEAD_BUS'),
    }),
    configuration,
    clock: systemClock,
    nowMs: systemClock.nowMs,
    random: Math.random,
    log,
    holder: randomUUID(),
    budget: DISPATCH_BUDGET,
    announced: new Map(),
    books: new Map(),
    partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
  };
}

/** A request that hangs must not outlive the lease: it is given up, and tried again, well before. */
const REQUESTS = {
  maxAttempts: 4,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
} as const;

let built: (DispatchContext & IngestContext) | undefined;

/** Built at the first call and kept for the life of the process. */
export function composition(): DispatchContext & IngestContext {
  built ??= build();
  return built;
}
