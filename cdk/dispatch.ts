/** What runs passes: the dispatch function, behind the table's stream, the wake queue and a tick each minute. */
import { Duration } from 'aws-cdk-lib';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Alias, FilterCriteria, FilterRule, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import { SqsDestination } from 'aws-cdk-lib/aws-lambda-destinations';
import { SqsDlq } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { AWAITED_STATES } from '../lib/core/job.ts';
import { TABLE } from '../lib/store/schema.ts';
import { acknowledge } from './acknowledged.ts';
import { consumeQueue, consumeStream } from './event-sources.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import { deadLetterQueue, guardedQueue, type QueueSettings, visibilityFor } from './queues.ts';

const TIMEOUT = Duration.seconds(60);

/** A schedule that has paused itself: the bus is told. Of all items but jobs, it alone has a state. */
const SCHEDULE_STOPPED_STATE = 'stopped';

export interface DispatchProps {
  readonly table: TableV2;
  readonly functions: FunctionSettings;
  readonly queues: QueueSettings;
  readonly logGroup?: ILogGroup | undefined;
  /** Kept free for passes, so that the tick runs whatever else the account does; also their bound. */
  readonly reservedConcurrency?: number | undefined;
}

export class Dispatch extends Construct {
  readonly wakeQueue: Queue;
  readonly wakeDeadLetterQueue: Queue;
  /** Behind the stream, the tick and the function's asynchronous invocations. */
  readonly deadLetterQueue: Queue;
  readonly function: NodejsFunction;
  /**
   * By this name of the function, whoever may submit tells it of jobs while they are stored. A right to invoke an alias is none to
   * invoke the function by its own name, by which it believes what it is shown.
   */
  readonly wakeFunction: Alias;

  constructor(scope: Construct, id: string, props: DispatchProps) {
    super(scope, id);
    const wake = guardedQueue(this, 'WakeQueue', {
      ...props.queues,
      visibilityTimeout: visibilityFor(TIMEOUT),
    });
    this.wakeQueue = wake.queue;
    this.wakeDeadLetterQueue = wake.deadLetterQueue;
    this.deadLetterQueue = deadLetterQueue(this, 'DeadLetters', props.queues);
    acknowledge(this.deadLetterQueue, 'lastQueue');

    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'dispatch',
      description: 'Runs passes: settles, promotes, plans, claims, sends; tells the bus what became of jobs',
      timeout: TIMEOUT,
      memorySizeMb: 1_024,
      logGroup: props.logGroup,
      reservedConcurrency: props.reservedConcurrency,
      onFailure: new SqsDestination(this.deadLetterQueue),
      // The next tick does what a failed one left.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(1),
    });
    consumeStream(this.function, props.table, {
      // A new table's first records count too.
      startingPosition: StartingPosition.TRIM_HORIZON,
      // A shard has one invocation at a time: where much ends at once, each hears of as much as there is.
      batchSize: 1_000,
      bisectBatchOnError: true,
      retryAttempts: 10,
      // Outcome events come from here, so a record is worth more than one pass.
      maxRecordAge: Duration.hours(1),
      onFailure: new SqsDlq(this.deadLetterQueue),
      filters: [
        FilterCriteria.filter({
          dynamodb: {
            NewImage: { [TABLE.state]: { S: FilterRule.or(...AWAITED_STATES, SCHEDULE_STOPPED_STATE) } },
          },
        }),
      ],
    });
    if (this.function.role !== undefined) {
      acknowledge(this.function.role, 'streams', 'destinationKey', 'destinationDataKey');
    }
    this.wakeFunction = new Alias(this, 'Wake', {
      aliasName: 'wake',
      version: this.function.latestVersion,
      description: 'Takes wakes of those who submit jobs',
      // The stream tells of the same jobs.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(1),
    });
    this.#letLead();
    // No bound: Lambda may keep two pollers at an idle queue that has none, and keeps five at one that has.
    consumeQueue(this.function, wake.queue, { batchSize: 10 });
    new Rule(this, 'Tick', {
      description: 'Looks after what no hint came for',
      schedule: Schedule.rate(Duration.minutes(1)),
      targets: [
        new LambdaFunction(this.function, {
          deadLetterQueue: this.deadLetterQueue,
          retryAttempts: 2,
          maxEventAge: Duration.minutes(1),
        }),
      ],
    });
  }

  /** The function invokes itself to lead a partition for a while. */
  #letLead(): void {
    const { role } = this.function;
    if (role === undefined) return;
    // Not among the policies that the function waits for: this one waits for the function.
    new Policy(this, 'Lead', {
      roles: [role],
      statements: [
        new PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [this.function.functionArn] }),
      ],
    });
  }
}
