/** From the bus to job items: rule, ingest queue, ingest function. */
import { Duration, Stack } from 'aws-cdk-lib';
import {
  type CfnEventBus,
  type IEventBus,
  type IRuleTarget,
  Rule,
  type RuleTargetConfig,
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

/** The most that EventBridge allows. Events that it cannot deliver within a day become dead letters. */
const RETRIES = { maximumRetryAttempts: 185, maximumEventAgeInSeconds: Duration.hours(24).toSeconds() };

export interface IngestProps {
  readonly bus: IEventBus;
  /** The sources whose requests are accepted. An empty list means every source. */
  readonly sources: readonly string[];
  readonly functions: FunctionSettings;
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
    rule.addTarget(this.targetOf(rule));
    if (props.queues.encryptionKey !== undefined) allowRules(this, props.queues.encryptionKey);

    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'ingest',
      description: 'Turns requests into job items',
      timeout: TIMEOUT,
      memorySizeMb: 512,
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
   * The target of a rule whose events go to the queue. It is not the target of aws-cdk-lib, which lets rules of any
   * account send to an encrypted queue and use its key, unless a feature flag is set.
   *
   * @param input - the message made from an event; by default the event itself
   */
  targetOf(rule: Rule, input?: RuleTargetInput): IRuleTarget {
    return { bind: () => ({ ...this.#target(rule.ruleArn), ...(input === undefined ? {} : { input }) }) };
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
    letSend(this.deadLetterQueue, [bus.eventBusArn, rules]);
  }

  #target(ruleArn: string): RuleTargetConfig {
    for (const queue of [this.queue, this.deadLetterQueue]) letSend(queue, ruleArn);
    return {
      arn: this.queue.queueArn,
      targetResource: this.queue,
      // The same dead-letter queue as behind the ingest queue, so that one redrive returns both.
      deadLetterConfig: { arn: this.deadLetterQueue.queueArn },
      retryPolicy: RETRIES,
    };
  }
}

function letSend(queue: Queue, sourceArn: string | readonly string[]): void {
  queue.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['sqs:SendMessage'],
      resources: [queue.queueArn],
      conditions: { ArnEquals: { 'aws:SourceArn': sourceArn } },
    }),
  );
}
