/** A fleet: its queue, and the function behind it if there is one. */
import { createHash } from 'node:crypto';
import { Duration, Stack, Token } from 'aws-cdk-lib';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { FleetConfiguration } from '../lib/core/configuration.ts';
import { fleetVisibilityFor, guardedQueue, type SharedTls } from './queues.ts';
import { TABLE_ACTIONS } from './table.ts';

/** SQS accepts nothing lower; the fleet's slots are what holds below it. */
const EVENT_SOURCE_MIN_CONCURRENCY = 2;

/** A process says with each receive how long it hides a message; this is for one that does not. */
const PROCESS_VISIBILITY = Duration.minutes(1);

/** SQS takes 80 characters: the end of the fleet's path, and what tells it from all others. */
const QUEUE_NAME_READABLE = 63;
const QUEUE_NAME_HASH = 16;

/** One fleet, as the platform engineer declares it. */
export interface FleetProps {
  /** The types it takes. One: specialised. Several: versatile. */
  readonly types: readonly string[];
  /**
   * Jobs that it runs at once.
   * @default 10 with a handler; without one, workers register their own slots
   */
  readonly slots?: number | null | undefined;
  /**
   * The function that does the work: its handler is one that `worker()` made. It is given what it needs to find
   * the scheduler in its environment, the rights to start and finish jobs, and the queue as its event source.
   * If its jobs submit further jobs in long chains, declare it with `RecursiveLoop.ALLOW`: else Lambda takes the
   * chain for a mistake and breaks it after some 16 links.
   * @default - long-running processes serve the queue: see `grantWork` and `workerEnvironment`
   */
  readonly handler?: LambdaFunction | undefined;
  /**
   * Jobs that one invocation of the handler runs, 1 to 10.
   * @default 1
   */
  readonly batchSize?: number | undefined;
  /**
   * How long a message that was received stays hidden. That of a function that died is what says so: its job starts again
   * when the message is seen, the handler's timeout and 10 s after the start at the earliest.
   * @default - 20 s more than the handler's timeout; 1 minute without a handler
   */
  readonly visibilityTimeout?: Duration | undefined;
}

export interface FleetConstructProps {
  readonly fleet: FleetConfiguration;
  readonly table: TableV2;
  readonly handler?: LambdaFunction | undefined;
  readonly batchSize: number;
  readonly visibilityTimeout?: Duration | undefined;
  readonly maxReceiveCount: number;
  readonly tls: SharedTls;
}

export class Fleet extends Construct {
  /** The name it was declared under. */
  readonly fleet: string;
  readonly types: readonly string[];
  /** Null: workers register their own. */
  readonly slots: number | null;
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
  /** Undefined where long-running processes serve the queue. */
  readonly function: LambdaFunction | undefined;
  private readonly table: TableV2;

  constructor(scope: Construct, id: string, props: FleetConstructProps) {
    super(scope, id);
    this.fleet = props.fleet.fleet;
    this.types = props.fleet.types;
    this.slots = props.fleet.slots;
    this.function = props.handler;
    this.table = props.table;
    const queueName = nameForOthers(this, props.handler);
    const { queue, deadLetterQueue } = guardedQueue(this, 'Queue', {
      visibilityTimeout:
        props.visibilityTimeout ??
        (props.handler === undefined ? PROCESS_VISIBILITY : fleetVisibilityFor(timeoutOf(props.handler))),
      maxReceiveCount: props.maxReceiveCount,
      queueName,
      tls: props.tls,
    });
    this.queue = queue;
    this.deadLetterQueue = deadLetterQueue;
    if (props.handler === undefined) return;
    props.handler.addEventSource(
      new SqsEventSource(queueName === undefined ? queue : namedQueue(this, props.handler, queueName), {
        batchSize: props.batchSize,
        // Not reserved concurrency: that takes from the account, and throttled receives would count as failures.
        maxConcurrency: eventSourceConcurrency(props.fleet.slots ?? 0, props.batchSize),
        reportBatchItemFailures: true,
      }),
    );
    this.grantTable(props.handler);
  }

  /** Lets a long-running process take this fleet's jobs: receive, start, heartbeat, finish. */
  grantWork(grantee: IGrantable): void {
    this.queue.grants.consumeMessages(grantee);
    this.table.grants.actions(grantee, ...TABLE_ACTIONS.serve);
  }

  /** How long the first message has waited for a worker: above some seconds the fleet is too small or stuck. */
  metricQueueAge(options?: MetricOptions): Metric {
    return this.queue.metricApproximateAgeOfOldestMessage(options);
  }

  /** Jobs that were sent to the fleet and not yet received. */
  metricQueueDepth(options?: MetricOptions): Metric {
    return this.queue.metricApproximateNumberOfMessagesVisible(options);
  }

  private grantTable(grantee: IGrantable): void {
    this.table.grants.actions(grantee, ...TABLE_ACTIONS.work);
  }
}

/**
 * The name of the queue of a function in another stack; undefined: it is generated. An export for each queue would be more than
 * the 200 that a stack may have, and one that is imported cannot be taken away: a fleet could not be removed.
 */
function nameForOthers(fleet: Fleet, handler: LambdaFunction | undefined): string | undefined {
  const { stackName } = Stack.of(fleet);
  if (handler === undefined || Stack.of(handler) === Stack.of(fleet) || Token.isUnresolved(stackName))
    return undefined;
  const path = `${stackName}/${fleet.node.path}`;
  const readable = path.replaceAll(/[^A-Za-z0-9]+/g, '-').slice(-QUEUE_NAME_READABLE);
  return `${readable}-${createHash('sha256').update(path).digest('hex').slice(0, QUEUE_NAME_HASH)}`;
}

/** The fleet's queue as the function's stack names it. */
function namedQueue(fleet: Fleet, handler: LambdaFunction, queueName: string): IQueue {
  Stack.of(handler).addStackDependency(Stack.of(fleet), 'the fleet has its queue there');
  const arn = Stack.of(fleet).formatArn({ service: 'sqs', resource: queueName });
  return Queue.fromQueueArn(handler, `Queue of ${fleet.fleet}`, arn);
}

/** Invocations at once that run so many jobs, within what an SQS event source accepts from below. */
export function eventSourceConcurrency(slots: number, batchSize: number): number {
  return Math.max(EVENT_SOURCE_MIN_CONCURRENCY, Math.ceil(slots / batchSize));
}

/** A function without a timeout has Lambda's own default. */
export function timeoutOf(handler: LambdaFunction): Duration {
  return handler.timeout ?? Duration.seconds(3);
}
