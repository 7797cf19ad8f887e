/** What runs passes: the dispatch function, behind the table's stream, the wake queue and a tick each minute. */
import { Duration } from 'aws-cdk-lib';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Alias, FilterCriteria, FilterRule, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { NOTIFIED_STATES } from '../lib/core/job.ts';
import { TABLE } from '../lib/store/table/schema.ts';
import { consumeQueue, consumeStream } from './event-sources.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import { type GuardedQueue, guardedQueue, hintQueue, type QueueSettings, visibilityFor } from './queues.ts';

const TIMEOUT = Duration.seconds(60);

/** Between two ticks that take what waits for the bus. Whoever takes it hides it for as long. */
const OUTCOMES_HIDDEN = Duration.minutes(2);
/** SQS's most: a tick that takes outcomes and fails has done nothing wrong with them. */
const OUTCOMES_RECEIVED = 1_000;

/** A schedule that has paused itself: the bus is told. Of all items but jobs, it alone has a state. */
const SCHEDULE_STOPPED_STATE = 'stopped';

export interface DispatchProps {
  readonly table: ITableV2;
  readonly functions: FunctionSettings;
  readonly queues: QueueSettings;
  readonly logGroup?: ILogGroup | undefined;
  /** Kept free for passes, so that the tick runs whatever else the account does; also their bound. */
  readonly reservedConcurrency?: number | undefined;
}

export class Dispatch extends Construct {
  readonly wakeQueue: Queue;
  /** What the bus has not taken, and behind it what it never will. */
  readonly outcomes: GuardedQueue;
  readonly function: NodejsFunction;
  /** Of the rule that invokes it each minute. */
  readonly tickRuleName: string;
  /**
   * By this name of the function, whoever may submit tells it of jobs while they are stored. A right to invoke an alias is none to
   * invoke the function by its own name, by which it believes what it is shown.
   */
  readonly wakeFunction: Alias;

  constructor(scope: Construct, id: string, props: DispatchProps) {
    super(scope, id);
    this.wakeQueue = hintQueue(this, 'WakeQueue', {
      ...props.queues,
      visibilityTimeout: visibilityFor(TIMEOUT),
    });
    this.outcomes = guardedQueue(this, 'OutcomeQueue', {
      ...props.queues,
      visibilityTimeout: OUTCOMES_HIDDEN,
      maxReceiveCount: OUTCOMES_RECEIVED,
    });

    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'dispatch',
      description: 'Runs passes: settles, promotes, plans, claims, sends; tells the bus what became of jobs',
      timeout: TIMEOUT,
      memorySizeMb: 1_024,
      logGroup: props.logGroup,
      reservedConcurrency: props.reservedConcurrency,
      // The next tick does what a failed one left, and a lead is asked for again.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(1),
    });
    consumeStream(this.function, props.table, {
      // A new table's first records count too.
      startingPosition: StartingPosition.TRIM_HORIZON,
      // A shard has one invocation at a time: where much ends at once, each hears of as much as there is.
      batchSize: 1_000,
      // Outcome events come from here: a record is tried for as long as the stream keeps it, a day, and by itself where others would fail with it.
      bisectBatchOnError: true,
      filters: [
        FilterCriteria.filter({
          dynamodb: {
            NewImage: { [TABLE.state]: { S: FilterRule.or(...NOTIFIED_STATES, SCHEDULE_STOPPED_STATE) } },
          },
        }),
      ],
    });
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
    consumeQueue(this.function, this.wakeQueue, { batchSize: 10 });
    const tick = new Rule(this, 'Tick', {
      description: 'Looks after what no hint came for',
      schedule: Schedule.rate(Duration.minutes(1)),
      targets: [
        new LambdaFunction(this.function, {
          retryAttempts: 2,
          maxEventAge: Duration.minutes(1),
        }),
      ],
    });
    this.tickRuleName = tick.ruleName;
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
