/** Builds what the commands need to reach a deployed scheduler, from the environment. */

import { parseEnv } from 'node:util';
import { MisconfiguredError } from '../core/errors.ts';
import type { ResidentOptions } from '../dispatch/resident/options.ts';
import type { Metrics } from '../metrics/contract.ts';
import { requiredVariable, SCHEDULER_ENVIRONMENT } from '../runtime/environment.ts';
import type { UnreadableItem } from '../store/contract/records.ts';
import type { ReadStack } from './env.ts';
import type { ForwardingHost } from './forwarding.ts';
import type { ConnectPublisher } from './outcomes.ts';
import type { Operator } from './perform.ts';
import type { ConnectQueues } from './queues.ts';
import { readText } from './usage.ts';

/** The parts of a dispatcher, and a way to close their connections. */
export interface DispatcherConnection {
  readonly parts: Pick<
    ResidentOptions,
    'store' | 'queue' | 'configuration' | 'deployed' | 'clock' | 'random'
  >;
  /** The name of the table, which names the scheduler in metrics. */
  readonly scheduler: string;
  /** Counts the store's writes in these metrics from now on. */
  readonly meterTo: (metrics: Metrics) => void;
  readonly close: () => void;
}

/** Connects a dispatcher. `unreadable` is called with items that cannot be read. */
export type ConnectDispatcher = (
  envFile: string | undefined,
  unreadable: (item: UnreadableItem) => void,
) => Promise<DispatcherConnection>;

/**
 * Makes a client for the scheduler that the environment names. Variables that are set already win over the file, as in
 * Node.
 */
export const connect: Operator['connect'] = async (envFile, credentials) => {
  loadEnvironment(envFile);
  // The client is imported here because the SDK takes longer to load than most other commands take.
  const { SchedulerClient } = await import('../client/aws.ts');
  const client = SchedulerClient.fromEnvironment(credentials === undefined ? {} : { credentials });
  return { client, close: () => client.destroy() };
};

/**
 * Timeouts of requests. A dispatcher's membership lasts 20 s, and the timeouts leave time for another try within it.
 */
const REQUESTS = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_500, throwOnRequestTimeout: true },
} as const;

const requiredSetting = (name: string): string => requiredVariable(process.env, name, SCHEDULER_ENVIRONMENT);

/** Connects a dispatcher, with the environment that `schedulerEnvironment()` of the construct returns. */
export const connectDispatcher: ConnectDispatcher = async (envFile, unreadable) => {
  loadEnvironment(envFile);
  const table = requiredSetting('FAIRLEAD_TABLE');
  const wakeQueueUrl = requiredSetting('FAIRLEAD_WAKE_QUEUE');
  const [{ DynamoDBClient }, { SQSClient }, { Declarations, declaredParts: deployedParts }] =
    await Promise.all([
      import('@aws-sdk/client-dynamodb'),
      import('@aws-sdk/client-sqs'),
      import('../declaration/declaration.ts'),
    ]);
  const [{ DynamoJobStore }, { SqsJobQueue }, { systemClock }] = await Promise.all([
    import('../store/dynamodb/store.ts'),
    import('../queue/sqs/queue.ts'),
    import('../runtime/system.ts'),
  ]);
  const dynamodb = new DynamoDBClient(REQUESTS);
  const sqs = new SQSClient(REQUESTS);
  const close = (): void => {
    dynamodb.destroy();
    sqs.destroy();
  };
  let metrics: Metrics | undefined;
  const store = new DynamoJobStore({
    client: dynamodb,
    table,
    place: (job) => declarations.place(job),
    unreadable,
    meter: (_, { writeUnits }) => metrics?.add('writeUnits', writeUnits),
  });
  const declarations = new Declarations({ store, clock: systemClock });
  try {
    const declared = await declarations.current();
    const parts = deployedParts(
      declarations,
      declared,
      (queueUrls) => new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl }),
    );
    return {
      parts: { ...parts, store, clock: systemClock, random: Math.random },
      scheduler: table,
      meterTo: (given) => {
        metrics = given;
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
};

/** Connects `outcomes publish`, with the environment of the dispatch function. */
export const connectPublisher: ConnectPublisher = async (envFile, unreadable) => {
  loadEnvironment(envFile);
  const table = requiredSetting('FAIRLEAD_TABLE');
  const busName = requiredSetting('FAIRLEAD_BUS');
  const [{ DynamoDBClient }, { EventBridgeClient }, { DynamoEndedJobs }, { EventBridgeBus }] =
    await Promise.all([
      import('@aws-sdk/client-dynamodb'),
      import('@aws-sdk/client-eventbridge'),
      import('../store/dynamodb/ended.ts'),
      import('../events/eventbridge/bus.ts'),
    ]);
  const dynamodb = new DynamoDBClient(REQUESTS);
  const eventBridge = new EventBridgeClient(REQUESTS);
  return {
    ended: new DynamoEndedJobs({ client: dynamodb, table, unreadable: ({ message }) => unreadable(message) }),
    events: new EventBridgeBus({ client: eventBridge, busName }),
    close: () => {
      dynamodb.destroy();
      eventBridge.destroy();
    },
  };
};

/** Connects `queues`, whose queues the declaration in the table names. */
export const connectQueues: ConnectQueues = async (envFile) => {
  loadEnvironment(envFile);
  const table = requiredSetting('FAIRLEAD_TABLE');
  const [{ DynamoDBClient }, { SQSClient }, { Declarations }, { DynamoJobStore }] = await Promise.all([
    import('@aws-sdk/client-dynamodb'),
    import('@aws-sdk/client-sqs'),
    import('../declaration/declaration.ts'),
    import('../store/dynamodb/store.ts'),
  ]);
  const [{ REQUEST_TYPES }, { SqsDeadLetterQueues }, { systemClock }] = await Promise.all([
    import('../events/contract.ts'),
    import('../queue/sqs/dead-letters.ts'),
    import('../runtime/system.ts'),
  ]);
  const dynamodb = new DynamoDBClient(REQUESTS);
  const sqs = new SQSClient(REQUESTS);
  const close = (): void => {
    dynamodb.destroy();
    sqs.destroy();
  };
  const store = new DynamoJobStore({
    client: dynamodb,
    table,
    place: (job) => declarations.place(job),
  });
  const declarations = new Declarations({ store, clock: systemClock });
  try {
    const { ownQueues } = await declarations.current();
    const queues = new SqsDeadLetterQueues({ client: sqs, queues: ownQueues, requests: REQUEST_TYPES });
    return { queues, close };
  } catch (error) {
    close();
    throw error;
  }
};

/** Reads a stack's outputs. @throws MisconfiguredError if CloudFormation refuses */
export const readStack: ReadStack = async (stack) => {
  const { CloudFormationClient, DescribeStacksCommand } = await import('@aws-sdk/client-cloudformation');
  const client = new CloudFormationClient(REQUESTS);
  try {
    const { Stacks = [] } = await client.send(new DescribeStacksCommand({ StackName: stack }));
    const entries = (Stacks[0]?.Outputs ?? []).map(({ OutputKey = '', OutputValue = '' }) => [
      OutputKey,
      OutputValue,
    ]);
    return { outputs: Object.fromEntries(entries), region: await client.config.region() };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new MisconfiguredError(
      `the outputs of the stack ${JSON.stringify(stack)} cannot be read (${reason}); check its name, AWS_REGION and the credentials`,
      { cause },
    );
  } finally {
    client.destroy();
  }
};

/** Runs a worker that forwards, with the environment that `workerEnvironment()` of the construct returns. */
export const runForwarding: ForwardingHost['runWorker'] = async (envFile, forward, options) => {
  loadEnvironment(envFile);
  const { runForwardingWorker } = await import('../worker/fleet-worker.ts');
  return runForwardingWorker(forward, options);
};

export const testForwarding: ForwardingHost['testWorker'] = async (url, type, payload, begin) => {
  const { checkWorker } = await import('../worker/conformance.ts');
  return checkWorker(url, type, payload, begin);
};

function loadEnvironment(envFile: string | undefined): void {
  if (envFile === undefined) return;
  for (const [name, value] of Object.entries(parseEnv(readText('--env-file', envFile))))
    process.env[name] ??= value;
}
