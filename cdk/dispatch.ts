/** The dispatch function, which makes passes. The table's stream, the wake queue and a tick each minute invoke it. */
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

/** How long outcomes that a tick received stay hidden from other ticks. */
const OUTCOMES_HIDDEN = Duration.minutes(2);
/**
 * How often an outcome may be received before it becomes a dead letter: the largest number of SQS, because a failed
 * tick is not the fault of the outcomes that it received.
 */
const OUTCOMES_RECEIVED = 1_000;

/** The state of a schedule that paused itself, which the dispatch function publishes. Besides jobs, only schedules have a state. */
const SCHEDULE_STOPPED_STATE = 'stopped';

export interface DispatchProps {
  readonly table: ITableV2;
  readonly functions: FunctionSettings;
  readonly queues: QueueSettings;
  readonly logGroup?: ILogGroup | undefined;
  /** Invocations that are reserved for the function, so that the tick always runs. They also limit the function. */
  readonly reservedConcurrency?: number | undefined;
}

export class Dispatch extends Construct {
  readonly wakeQueue: Queue;
  /** The queue of outcomes that the bus has refused so far, with the dead letters that it refuses for good. */
  readonly outcomes: GuardedQueue;
  readonly function: NodejsFunction;
  /** The name of the rule that invokes the function each minute. */
  readonly tickRuleName: string;
  /**
   * The alias through which submitters wake the function. The right to invoke an alias does not include the function
   * itself, which trusts the records that it is given.
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
      description: 'Makes passes, which decide which jobs start, and publishes outcomes',
      timeout: TIMEOUT,
      memorySizeMb: 1_024,
      logGroup: props.logGroup,
      reservedConcurrency: props.reservedConcurrency,
      // A failed tick or lead is not repeated: the next tick does the work, and a lead is requested again.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(1),
    });
    consumeStream(this.function, props.table, {
      // The first records of a new table count too.
      startingPosition: StartingPosition.TRIM_HORIZON,
      // Each shard has one invocation at a time, so each should get as many records as there are.
      batchSize: 1_000,
      // Outcome events are made from these records. A failing record is tried for a day, as long as the stream keeps
      // it, and is separated from the others of its batch.
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
      description: 'Accepts wakes from submitters',
      // Unanswered wakes need no retry, because the stream has the same jobs.
      retryAttempts: 0,
      maxEventAge: Duration.minutes(1),
    });
    this.#letLead();
    // There is no maximum concurrency: with one, Lambda keeps five pollers even at an idle queue, without one it may
    // keep two.
    consumeQueue(this.function, this.wakeQueue, { batchSize: 10 });
    const tick = new Rule(this, 'Tick', {
      description: 'Starts a pass each minute, for jobs whose hints were lost',
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

  /** Lets the function invoke itself, to lead a partition for a while. */
  #letLead(): void {
    const { role } = this.function;
    if (role === undefined) return;
    // This policy is separate, because it depends on the function, which depends on its default policy.
    new Policy(this, 'Lead', {
      roles: [role],
      statements: [
        new PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [this.function.functionArn] }),
      ],
    });
  }
}
