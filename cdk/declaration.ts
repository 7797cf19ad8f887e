/**
 * The custom resource whose function checks the declaration and writes it into the table. It is deployed after the queues
 * that the declaration names, and before the functions that read it. A refused declaration fails the deployment with the
 * reason.
 */
import { CustomResource, Duration, Lazy } from 'aws-cdk-lib';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { OwnQueueName } from '../lib/declaration/codec.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import { type SchedulerGrants, sendMessages } from './grants.ts';
import type { PoolDeclaration } from './pool.ts';
import type { GuardedQueue } from './queues.ts';

const TIMEOUT = Duration.minutes(5);
/**
 * How long CloudFormation waits for the function's answer. Without a limit it would wait an hour for a function that
 * cannot answer.
 */
const ANSWER_WITHIN = Duration.minutes(10);

export interface DeclarationProps {
  /** The declared pool, which is encoded when the app is complete. */
  readonly pool: Pick<PoolDeclaration, 'encode' | 'payloadSchemas'>;
  /** Returns the output of `encodeDeclaredSchedules`. It is called when the app is complete. */
  readonly schedules: () => string;
  readonly table: ITableV2;
  readonly wakeQueue: Queue;
  /** Returns the queues by fleet. It is called when the app is complete. */
  readonly queues: () => Readonly<Record<string, Queue>>;
  /** The queues whose messages must not be lost. */
  readonly ownQueues: Readonly<Record<OwnQueueName, GuardedQueue>>;
  /** The name of the bucket for values over 64 KB. @default - none */
  readonly bucketName?: string | undefined;
  readonly grants: SchedulerGrants;
  readonly functions: FunctionSettings;
  readonly logGroup?: ILogGroup | undefined;
}

export class Declaration extends Construct {
  readonly function: NodejsFunction;
  readonly resource: CustomResource;

  constructor(scope: Construct, id: string, props: DeclarationProps) {
    super(scope, id);
    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'declare',
      description: 'Checks the declaration of a deployment, and writes it into the table',
      timeout: TIMEOUT,
      memorySizeMb: 512,
      logGroup: props.logGroup,
    });
    this.function.addEnvironment('FAIRLEAD_TABLE', props.table.tableName);
    this.function.addEnvironment('FAIRLEAD_WAKE_QUEUE', props.wakeQueue.queueUrl);
    props.grants.table(this.function, 'declare');
    sendMessages(props.wakeQueue, this.function);
    this.resource = new CustomResource(this, 'Resource', {
      serviceToken: this.function.functionArn,
      resourceType: 'Custom::FairleadDeclaration',
      serviceTimeout: ANSWER_WITHIN,
      properties: {
        // A new table needs the declaration too. Without its ARN, a change of the table would change no property here.
        tableArn: props.table.tableArn,
        pool: Lazy.string({ produce: () => props.pool.encode() }),
        schedules: Lazy.string({ produce: props.schedules }),
        ...(props.bucketName === undefined ? {} : { bucket: props.bucketName }),
        ...(props.pool.payloadSchemas === undefined ? {} : { payloadSchemas: props.pool.payloadSchemas }),
        queueUrls: Lazy.any({
          produce: () =>
            Object.fromEntries(
              Object.entries(props.queues()).map(([fleet, queue]) => [fleet, queue.queueUrl]),
            ),
        }),
        ownQueues: Object.fromEntries(
          Object.entries(props.ownQueues).map(([name, { queue, deadLetterQueue }]) => [
            name,
            { queueUrl: queue.queueUrl, deadLetterQueueUrl: deadLetterQueue.queueUrl },
          ]),
        ),
      },
    });
    // The dependency includes the function's rights.
    this.resource.node.addDependency(this.function);
  }
}
