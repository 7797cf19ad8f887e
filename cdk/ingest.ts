/** From the bus to job items: rule, ingest queue, ingest function. */
import { Duration } from 'aws-cdk-lib';
import { type IEventBus, Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import type { Architecture } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { DETAIL_TYPE } from '../lib/events/contract.ts';
import { schedulerFunction } from './function.ts';
import { guardedQueue, visibilityFor } from './queues.ts';

const TIMEOUT = Duration.seconds(30);

export interface IngestProps {
  readonly bus: IEventBus;
  readonly architecture: Architecture;
  readonly logRetention: RetentionDays;
  readonly batchSize: number;
  readonly batchingWindow?: Duration | undefined;
  readonly maxReceiveCount: number;
}

export class Ingest extends Construct {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: IngestProps) {
    super(scope, id);
    const { queue, deadLetterQueue } = guardedQueue(this, 'Queue', {
      visibilityTimeout: visibilityFor(TIMEOUT),
      maxReceiveCount: props.maxReceiveCount,
    });
    this.queue = queue;
    this.deadLetterQueue = deadLetterQueue;

    new Rule(this, 'Requested', {
      description: 'Requested jobs go to the ingest queue',
      eventBus: props.bus,
      eventPattern: { detailType: [DETAIL_TYPE.requested] },
      targets: [
        new SqsQueue(queue, {
          // The same events as behind the queue, so one redrive brings both back.
          deadLetterQueue,
          retryAttempts: 185,
          maxEventAge: Duration.hours(24),
        }),
      ],
    });

    this.function = schedulerFunction(this, 'Function', {
      entry: 'ingest',
      description: 'Turns requested jobs into job items',
      timeout: TIMEOUT,
      memorySizeMb: 512,
      architecture: props.architecture,
      logRetention: props.logRetention,
    });
    this.function.addEventSource(
      new SqsEventSource(queue, {
        batchSize: props.batchSize,
        reportBatchItemFailures: true,
        ...(props.batchingWindow === undefined ? {} : { maxBatchingWindow: props.batchingWindow }),
      }),
    );
  }
}
