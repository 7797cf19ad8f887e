/**
 * What declares: a resource of the stack whose function checks the declaration and writes it into the table. It comes after
 * the queues that it names, and before the functions that read it; what it refuses fails the deployment with its reason.
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
import type { GuardedQueue } from './queues.ts';

const TIMEOUT = Duration.minutes(5);
/** CloudFormation would wait for an hour for a function that cannot answer. */
const ANSWER_WITHIN = Duration.minutes(10);

export interface DeclarationProps {
  /** As `encodeConfiguration` writes it; asked for when the app is complete. */
  readonly pool: () => string;
  /** As `encodeDeclaredSchedules` writes them; asked for when the app is complete. */
  readonly schedules: () => string;
  readonly table: ITableV2;
  readonly wakeQueue: Queue;
  /** By fleet; asked for when the app is complete. */
  readonly queues: () => Readonly<Record<string, Queue>>;
  /** Those whose messages must not be lost. */
  readonly ownQueues: Readonly<Record<OwnQueueName, GuardedQueue>>;
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
      description: 'Checks what a deployment declares, and writes it into the table',
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
        // Another table is declared into, too: without it, nothing here would change with the table.
        tableArn: props.table.tableArn,
        pool: Lazy.string({ produce: props.pool }),
        schedules: Lazy.string({ produce: props.schedules }),
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
    // With its rights, not only with the function itself.
    this.resource.node.addDependency(this.function);
  }
}
