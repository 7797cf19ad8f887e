/** The composition root of the functions: the only file here that reads the environment and builds adapters. */
import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { partitionOf } from '../lib/core/partition.ts';
import {
  DECLARATION_AGAIN_MS,
  Declarations,
  declaredParts,
  type VersionedDeclaration,
} from '../lib/declaration/declaration.ts';
import type { DeclareContext } from '../lib/deploy/declare.ts';
import type { PublishContext } from '../lib/dispatch/outcomes.ts';
import type { DispatchContext } from '../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../lib/dispatch/tuning.ts';
import { EventBridgeBus } from '../lib/events/eventbridge/bus.ts';
import type { Metrics } from '../lib/metrics/contract.ts';
import { declaredBucket, s3Settings } from '../lib/objects/s3/declared.ts';
import { S3ObjectStore } from '../lib/objects/s3/objects.ts';
import type { CollectContext } from '../lib/operate/collect-objects.ts';
import type { JobIngestContext } from '../lib/operate/ingest.ts';
import { leadClient, leadRequester } from '../lib/queue/lambda/leads.ts';
import { SqsOutcomeOutbox } from '../lib/queue/sqs/outbox.ts';
import { SqsJobQueue } from '../lib/queue/sqs/queue.ts';
import type { Log } from '../lib/runtime/contract.ts';
import { requiredVariable } from '../lib/runtime/environment.ts';
import { systemClock } from '../lib/runtime/system.ts';
import type { ScheduleIngestContext } from '../lib/schedules/ingest.ts';
import { DynamoJobStore } from '../lib/store/dynamodb/store.ts';
import type { IngestContext } from '../lib/submit/ingest.ts';

const required = (name: string): string =>
  requiredVariable(process.env, name, '; the Scheduler construct sets it: deploy the stack again');

/**
 * Timeouts of requests. A request that hangs must not take as long as a lead, so it times out and is retried well
 * before the lead ends.
 */
const REQUESTS = {
  maxAttempts: 4,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
} as const;

/** Returns how a dispatcher asks the function to lead a partition; undefined outside Lambda. */
function askToLead(): DispatchContext['askToLead'] {
  const functionName = process.env.AWS_LAMBDA_FUNCTION_NAME;
  return functionName === undefined ? undefined : leadRequester({ client: leadClient(), functionName });
}

/** The log and the metrics of a function. */
export interface FunctionTold {
  readonly log: Log;
  readonly metrics: Metrics;
}

export type FunctionContext = DispatchContext &
  IngestContext &
  ScheduleIngestContext &
  JobIngestContext &
  PublishContext;

/** Options in which the functions differ. */
export interface FunctionDuties {
  /** Whether the function accepts requests to lead a partition. */
  readonly mayLead?: boolean | undefined;
  /** Whether the function stores payloads of producers. */
  readonly takesPayloads?: boolean | undefined;
}

/** Builds the parts of a process that do not depend on the declaration. */
function build(
  { log, metrics }: FunctionTold,
  { mayLead = false, takesPayloads = false }: FunctionDuties,
): {
  readonly declarations: Declarations;
  /** Returns the context for this version, built anew only when the version changes. */
  readonly under: (declared: VersionedDeclaration) => FunctionContext;
} {
  let composed: FunctionContext | undefined;
  const client = new DynamoDBClient(REQUESTS);
  const sqs = new SQSClient(REQUESTS);
  const wakeQueueUrl = required('FAIRLEAD_WAKE_QUEUE');
  const store = new DynamoJobStore({
    client,
    table: required('FAIRLEAD_TABLE'),
    place: (job) => declarations.place(job),
    unreadable: (item) => log.warn('an item cannot be read', { ...item }),
    meter: (_, { writeUnits }) => metrics.add('writeUnits', writeUnits),
  });
  const declarations = new Declarations({ store, clock: systemClock, log });
  const shared = {
    store,
    events: new EventBridgeBus({
      client: new EventBridgeClient(REQUESTS),
      busName: required('FAIRLEAD_BUS'),
    }),
    clock: systemClock,
    nowMs: systemClock.nowMs,
    random: Math.random,
    log,
    metrics,
    holder: randomUUID(),
    budget: DISPATCH_BUDGET,
    announced: new Map(),
    counted: new Map(),
    seen: new Map(),
    askToLead: mayLead ? askToLead() : undefined,
    large: takesPayloads
      ? declaredBucket({
          bucket: (again) => declarations.bucket(again),
          clock: systemClock,
          environment: process.env,
        }).large
      : undefined,
  };
  const queueOf = (queueUrls: Readonly<Record<string, string>>): SqsJobQueue =>
    new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl });
  const under = (declared: VersionedDeclaration): FunctionContext => {
    if (composed?.deployed?.version === declared.version) return composed;
    composed = {
      ...shared,
      ...declaredParts(declarations, declared, queueOf),
      outbox: new SqsOutcomeOutbox({ client: sqs, queue: declared.ownQueues.outcomes }),
      // Items that were read under another declaration may belong in other places under this one.
      caches: new Map(),
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, declared.configuration.partitions),
      newest: async () => under(await declarations.current(DECLARATION_AGAIN_MS)),
    };
    return composed;
  };
  return { declarations, under };
}

/**
 * Returns the function's context. The first call builds it from the environment; later calls rebuild it only for a new
 * declaration.
 */
export type Compose = () => Promise<FunctionContext>;

export function composition(told: FunctionTold, duties: FunctionDuties = {}): Compose {
  let built: ReturnType<typeof build> | undefined;
  return async () => {
    built ??= build(told, duties);
    return built.under(await built.declarations.current());
  };
}

/** Builds the context of a deployment, which works without an earlier declaration. */
export function declaring(log: Log): DeclareContext {
  const store = new DynamoJobStore({
    client: new DynamoDBClient(REQUESTS),
    table: required('FAIRLEAD_TABLE'),
    // The store ranks a job here only when it completes a firing that was recorded and not carried out.
    place: (job) => declarations.place(job),
  });
  const declarations = new Declarations({ store, clock: systemClock, log });
  return {
    store,
    refresh: () => declarations.current(0),
    queue: new SqsJobQueue({
      client: new SQSClient(REQUESTS),
      queueUrls: {},
      wakeQueueUrl: required('FAIRLEAD_WAKE_QUEUE'),
    }),
    nowMs: systemClock.nowMs,
    log,
  };
}

/** Builds the context of the collection of objects; undefined if no bucket is declared any more. */
export async function collecting(log: Log): Promise<CollectContext | undefined> {
  const store = new DynamoJobStore({
    client: new DynamoDBClient(REQUESTS),
    table: required('FAIRLEAD_TABLE'),
    place: (job) => declarations.place(job),
  });
  const declarations = new Declarations({ store, clock: systemClock, log });
  const { bucket } = await declarations.current();
  if (bucket === undefined) return undefined;
  const objects = new S3ObjectStore({ bucket, client: s3Settings(process.env) });
  return { store, objects, clock: systemClock, random: Math.random, log };
}
