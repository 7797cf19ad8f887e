/** From the bus to job items: rule, ingest queue, ingest function. */
import { Duration, Stack } from 'aws-cdk-lib';
import {
  type CfnEventBus,
  type IEventBus,
  type IRuleTarget,
  Rule,
  type RuleTargetInput,
} from 'aws-cdk-lib/aws-events';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { DurationInput } from '../lib/core/duration.ts';
import { REQUEST_TYPES } from '../lib/events/contract.ts';
import { consumeQueue } from './event-sources.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import { allowRules } from './keys.ts';
import { guardedQueue, type QueueSettings, visibilityFor } from './queues.ts';
import { toDuration } from './values.ts';

const TIMEOUT = Duration.seconds(30);

/**
 * How often and how long EventBridge tries to deliver an event: the most that it allows. Events that it cannot deliver
 * within a day become dead letters.
 */
const RETRIES = { maximumRetryAttempts: 185, maximumEventAgeInSeconds: Duration.hours(24).toSeconds() };

export interface IngestProps {
  readonly bus: IEventBus;
  /** The sources whose requests are accepted. An empty list means every source. */
  readonly sources: readonly string[];
  readonly functions: FunctionSettings;
  /** Whether jobs may have values over 64 KB. */
  readonly usesObjects: boolean;
  readonly queues: QueueSettings;
  readonly logGroup?: ILogGroup | undefined;
  /** Deliveries of an event before it becomes a dead letter. */
  readonly maxReceiveCount: number;
  readonly batchSize: number;
  readonly batchingWindow?: DurationInput | undefined;
  /** The most invocations at once. Dispatchers, fleets and other functions of the account need the rest of its concurrency. */
  readonly concurrency: number;
  readonly reservedConcurrency?: number | undefined;
}

export class Ingest extends Construct {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: IngestProps) {
    super(scope, id);
    const { queue, deadLetterQueue } = guardedQueue(this, 'Queue', {
      ...props.queues,
      visibilityTimeout: visibilityFor(TIMEOUT),
      maxReceiveCount: props.maxReceiveCount,
    });
    this.queue = queue;
    this.deadLetterQueue = deadLetterQueue;

    const rule = new Rule(this, 'Requested', {
      description: 'Sends requests for jobs to the ingest queue',
      eventBus: props.bus,
      eventPattern: {
        detailType: [...REQUEST_TYPES],
        ...(props.sources.length === 0 ? {} : { source: [...props.sources] }),
      },
    });
    rule.addTarget(this.#target({ ArnEquals: { 'aws:SourceArn': rule.ruleArn } }));
    if (props.queues.encryptionKey !== undefined) allowRules(this, props.queues.encryptionKey);

    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'ingest',
      description: 'Turns requests into job items',
      timeout: TIMEOUT,
      memorySizeMb: 512,
      usesObjects: props.usesObjects,
      logGroup: props.logGroup,
      reservedConcurrency: props.reservedConcurrency,
    });
    consumeQueue(this.function, queue, {
      batchSize: props.batchSize,
      maxConcurrency: props.concurrency,
      ...(props.batchingWindow === undefined ? {} : { maxBatchingWindow: toDuration(props.batchingWindow) }),
    });
  }

  /**
   * Returns the target of a rule of business events whose name begins with `prefix`, on any bus. One statement of a
   * policy lets all of them send, because SQS accepts at most 20 statements and 8,192 bytes.
   * @param input - the message made from an event
   */
  targetOfRules(prefix: string, input: RuleTargetInput): IRuleTarget {
    const rules = (bus: string): string =>
      Stack.of(this).formatArn({ service: 'events', resource: 'rule', resourceName: `${bus}${prefix}-*` });
    // The ARN of a rule of the default bus does not name the bus.
    return this.#target({ ArnLike: { 'aws:SourceArn': [rules(''), rules('*/')] } }, input);
  }

  /** Keeps events that a bus with its own key cannot encrypt or decrypt, and that no rule sees therefore. */
  keepUnreadableOf(bus: IEventBus): void {
    const resource = bus.node.defaultChild as CfnEventBus;
    resource.deadLetterConfig = { arn: this.deadLetterQueue.queueArn };
    const rules = Stack.of(bus).formatArn({
      service: 'events',
      resource: 'rule',
      resourceName: `${bus.eventBusName}/*`,
    });
    // EventBridge's guide does not say whether it sends these events in the name of the bus or of a rule.
    letSend(this.deadLetterQueue, { ArnEquals: { 'aws:SourceArn': [bus.eventBusArn, rules] } });
  }

  /**
   * It is not the target of aws-cdk-lib, which lets rules of any account send to an encrypted queue and use its key,
   * unless a feature flag is set.
   */
  #target(senders: Senders, input?: RuleTargetInput): IRuleTarget {
    for (const queue of [this.queue, this.deadLetterQueue]) letSend(queue, senders);
    return {
      bind: () => ({
        arn: this.queue.queueArn,
        targetResource: this.queue,
        // This is the same dead-letter queue as behind the ingest queue, so that one redrive returns both.
        deadLetterConfig: { arn: this.deadLetterQueue.queueArn },
        retryPolicy: RETRIES,
        ...(input === undefined ? {} : { input }),
      }),
    };
  }
}

/** The rules that may send, as conditions of a policy. */
type Senders = Readonly<
  Partial<Record<'ArnEquals' | 'ArnLike', { readonly 'aws:SourceArn': string | readonly string[] }>>
>;

function letSend(queue: Queue, conditions: Senders): void {
  queue.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [queue.queueArn],
      conditions,
    }),
  );
}
