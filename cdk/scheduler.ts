/** The whole scheduler as one construct. */
import { Duration, type RemovalPolicy } from 'aws-cdk-lib';
import {
  MathExpression,
  type MathExpressionOptions,
  type Metric,
  type MetricOptions,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { EventBus, EventBusGrants, type IEventBus } from 'aws-cdk-lib/aws-events';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../lib/core/defaults.ts';
import { ConfigurationError, show } from '../lib/core/errors.ts';
import { encodeConfiguration } from '../lib/dispatch/declaration-codec.ts';
import { Declaration } from './declaration.ts';
import { Dispatch } from './dispatch.ts';
import { Fleet, type FleetProps } from './fleet.ts';
import { Ingest } from './ingest.ts';
import { SharedTls } from './queues.ts';
import { schedulerTable, TABLE_ACTIONS } from './table.ts';
import { checkDeclaration, checkTimeouts, poolInput } from './validation.ts';

/** What a scheduler does, and for whom. Only `fleets` must be there. */
export interface SchedulerProps {
  /** Who does the work, by name. */
  readonly fleets: Readonly<Record<string, FleetProps>>;
  /**
   * Job types by name.
   * @default - the types that fleets name, each with its defaults; a timeout that is not declared is the longest
   * that the handlers of the type's fleets can keep
   */
  readonly types?: PoolInput['types'];
  /**
   * Tiers, from the top.
   * @default - one, named `default`
   */
  readonly tiers?: PoolInput['tiers'];
  /**
   * Running jobs of the whole pool.
   * @default - no limit but the fleets' slots
   */
  readonly maxConcurrency?: PoolInput['maxConcurrency'];
  /**
   * Coefficients of the score.
   * @default - those of `SCORE_DEFAULTS`
   */
  readonly score?: PoolInput['score'];
  /**
   * Cost accounting per fairness key.
   * @default - that of `FAIRNESS_DEFAULTS`
   */
  readonly fairness?: PoolInput['fairness'];
  /**
   * When partitions lend each other slots and shares of caps, and how much; see docs/scale.md. With one, nothing is lent.
   * @default - that of `LENDING_DEFAULTS`
   */
  readonly lending?: PoolInput['lending'];
  /**
   * Shards with a single writer each: fairness keys and caps are divided among them. Every cap must be at least as
   * large. A deployment that changes it while jobs wait or run is refused; see docs/scale.md.
   * @default 1: one exact order for the whole pool
   */
  readonly partitions?: PoolInput['partitions'];
  /**
   * The bus that `Job Requested` events come from and outcome events go to.
   * @default - a bus of its own
   */
  readonly eventBus?: IEventBus | undefined;
  /**
   * What becomes of the table, and every job in it, when the stack is deleted.
   * @default RemovalPolicy.RETAIN
   */
  readonly removalPolicy?: RemovalPolicy | undefined;
  /**
   * Of the scheduler's own functions.
   * @default Architecture.ARM_64
   */
  readonly architecture?: Architecture | undefined;
  /**
   * How long the scheduler's own functions' logs are kept.
   * @default RetentionDays.TWO_WEEKS
   */
  readonly logRetention?: RetentionDays | undefined;
  /**
   * Events that one ingest invocation takes: 1 to 10, or to 100 with an `ingestBatchingWindow`.
   * @default 10
   */
  readonly ingestBatchSize?: number | undefined;
  /**
   * How long the ingest function waits to fill its batch. Cheaper under load, slower without.
   * @default - not at all
   */
  readonly ingestBatchingWindow?: Duration | undefined;
  /**
   * Deliveries of one message before it goes to its dead-letter queue.
   * @default 5
   */
  readonly maxReceiveCount?: number | undefined;
}

/**
 * Jobs in, finished work out: table, bus, queues, functions and fleets, each with what catches its failures.
 *
 * @example
 * const scheduler = new Scheduler(this, 'Jobs', {
 *   fleets: { pdf: { types: ['render'], slots: 20, handler: renderFunction } },
 * });
 * scheduler.grantPutEvents(orderService);
 *
 * @throws ConfigurationError at synth, for a declaration that cannot work.
 */
export class Scheduler extends Construct {
  readonly table: TableV2;
  readonly bus: IEventBus;
  readonly ingestQueue: Queue;
  readonly wakeQueue: Queue;
  /** By what they stand behind: `ingest`, `wake`, `dispatch` (stream and tick), `fleet/<fleet>`. */
  readonly deadLetterQueues: Readonly<Record<string, Queue>>;
  /** By name; a type that no fleet named has its own. */
  readonly fleets: Readonly<Record<string, Fleet>>;
  readonly dispatchFunction: NodejsFunction;
  readonly ingestFunction: NodejsFunction;
  /** The declaration with every default filled in. */
  readonly configuration: PoolConfiguration;

  constructor(scope: Construct, id: string, props: SchedulerProps) {
    super(scope, id);
    const {
      fleets,
      eventBus,
      removalPolicy,
      architecture = Architecture.ARM_64,
      logRetention = RetentionDays.TWO_WEEKS,
      ingestBatchSize = 10,
      ingestBatchingWindow,
      maxReceiveCount = 5,
      ...declaration
    } = props;
    checkCount('ingestBatchSize', ingestBatchSize, ingestBatchingWindow === undefined ? 10 : 100);
    checkCount('maxReceiveCount', maxReceiveCount, 1_000);
    this.configuration = resolveConfiguration(poolInput(declaration, fleets));
    checkTimeouts(this.configuration, fleets);
    const pool = encodeConfiguration(this.configuration);
    checkDeclaration(this.configuration, pool);

    this.table = schedulerTable(this, 'Table', { removalPolicy });
    this.bus =
      eventBus ??
      // The library's own types are looser than ours about absent properties.
      (new EventBus(this, 'Bus', { description: 'Requested jobs, and what became of them' }) as IEventBus);
    const shared = { architecture, logRetention, maxReceiveCount };
    const ingest = new Ingest(this, 'Ingest', {
      ...shared,
      bus: this.bus,
      batchSize: ingestBatchSize,
      batchingWindow: ingestBatchingWindow,
    });
    const dispatch = new Dispatch(this, 'Dispatch', { ...shared, table: this.table });
    const fleetsScope = new Construct(this, 'Fleets');
    const tls = new SharedTls(this, 'FleetTls');
    this.fleets = Object.fromEntries(
      this.configuration.fleets.map((fleet) => [
        fleet.fleet,
        new Fleet(fleetsScope, fleet.fleet, {
          fleet,
          table: this.table,
          handler: fleets[fleet.fleet]?.handler,
          batchSize: fleets[fleet.fleet]?.batchSize ?? 1,
          visibilityTimeout: fleets[fleet.fleet]?.visibilityTimeout,
          maxReceiveCount,
          tls,
        }),
      ]),
    );
    const declared = new Declaration(this, 'Declaration', {
      pool,
      table: this.table,
      wakeQueue: dispatch.wakeQueue,
      queues: Object.fromEntries(Object.values(this.fleets).map(({ fleet, queue }) => [fleet, queue])),
      architecture,
      logRetention,
    });
    // Whoever reads the declaration comes after it.
    ingest.function.node.addDependency(declared.resource);
    dispatch.function.node.addDependency(declared.resource);
    this.ingestQueue = ingest.queue;
    this.ingestFunction = ingest.function;
    this.wakeQueue = dispatch.wakeQueue;
    this.dispatchFunction = dispatch.function;
    this.deadLetterQueues = {
      ingest: ingest.deadLetterQueue,
      wake: dispatch.wakeDeadLetterQueue,
      dispatch: dispatch.deadLetterQueue,
      ...Object.fromEntries(
        Object.values(this.fleets).map((fleet) => [`fleet/${fleet.fleet}`, fleet.deadLetterQueue]),
      ),
    };
    this.connect();
  }

  /** Lets a producer submit with the client: put jobs into the table and wake the dispatcher. */
  grantSubmit(grantee: IGrantable): void {
    this.table.grants.actions(grantee, ...TABLE_ACTIONS.submit);
    this.wakeQueue.grants.sendMessages(grantee);
  }

  /** Lets a producer put `Job Requested` events on the bus. */
  grantPutEvents(grantee: IGrantable): void {
    // Not `allPutEvents`, which means every bus of the account.
    EventBusGrants.fromEventBus(this.bus).actions(grantee, ['events:PutEvents']);
  }

  /**
   * Lets a long-running process work for a fleet; `workerEnvironment` tells it where.
   * @throws ConfigurationError for a fleet that is not declared.
   */
  grantWork(grantee: IGrantable, fleet: string): void {
    this.fleetNamed(fleet).grantWork(grantee);
    this.wakeQueue.grants.sendMessages(grantee);
  }

  /** Lets a process run passes, as `fairlead dispatcher` does; `schedulerEnvironment` tells it where. */
  grantDispatch(grantee: IGrantable): void {
    this.table.grants.actions(grantee, ...TABLE_ACTIONS.dispatch);
    this.wakeQueue.grants.sendMessages(grantee);
    for (const fleet of Object.values(this.fleets)) fleet.queue.grants.sendMessages(grantee);
  }

  /** Lets an operator look at jobs, move, cancel and pause them, wake dispatchers and redrive dead letters. */
  grantOperate(grantee: IGrantable): void {
    this.table.grants.actions(grantee, ...TABLE_ACTIONS.operate);
    this.wakeQueue.grants.sendMessages(grantee);
    this.ingestQueue.grants.sendMessages(grantee);
    for (const fleet of Object.values(this.fleets)) fleet.queue.grants.sendMessages(grantee);
    for (const queue of Object.values(this.deadLetterQueues)) {
      queue.grants.consumeMessages(grantee);
      queue.grants.actions(grantee, [
        'sqs:StartMessageMoveTask',
        'sqs:CancelMessageMoveTask',
        'sqs:ListMessageMoveTasks',
      ]);
    }
  }

  /**
   * The environment of a process that works for a fleet: a container's, say.
   * @throws ConfigurationError for a fleet that is not declared.
   */
  workerEnvironment(fleet: string): Readonly<Record<string, string>> {
    return {
      FAIRLEAD_TABLE: this.table.tableName,
      FAIRLEAD_FLEET: this.fleetNamed(fleet).fleet,
      FAIRLEAD_WAKE_QUEUE: this.wakeQueue.queueUrl,
    };
  }

  /** The environment of a function or process that submits, or runs passes. */
  schedulerEnvironment(): Readonly<Record<string, string>> {
    return {
      FAIRLEAD_TABLE: this.table.tableName,
      FAIRLEAD_BUS: this.bus.eventBusName,
      FAIRLEAD_WAKE_QUEUE: this.wakeQueue.queueUrl,
    };
  }

  /**
   * Messages in all dead-letter queues: above zero, somebody must look. An alarm takes ten queues at most;
   * beyond that (more than seven fleets) watch `deadLetterQueues` one by one.
   */
  metricDeadLetters(options?: MathExpressionOptions): MathExpression {
    const metrics = Object.values(this.deadLetterQueues).map(
      (queue, index) =>
        [`q${index}`, queue.metricApproximateNumberOfMessagesVisible({ statistic: 'Maximum' })] as const,
    );
    return new MathExpression({
      label: 'Dead letters',
      period: Duration.minutes(1),
      ...options,
      expression: metrics.map(([name]) => name).join(' + '),
      usingMetrics: Object.fromEntries(metrics),
    });
  }

  /** How long the first event has waited to become a job. */
  metricIngestAge(options?: MetricOptions): Metric {
    return this.ingestQueue.metricApproximateAgeOfOldestMessage(options);
  }

  /** How far the dispatch function is behind the table's stream, in milliseconds. */
  metricStreamAge(options?: MetricOptions): Metric {
    return this.dispatchFunction.metric('IteratorAge', { statistic: 'Maximum', ...options });
  }

  /**
   * How long the first job that was sent to a fleet has waited for a worker.
   * @throws ConfigurationError for a fleet that is not declared.
   */
  metricFleetQueueAge(fleet: string, options?: MetricOptions): Metric {
    return this.fleetNamed(fleet).metricQueueAge(options);
  }

  /** Tells each function where everything is, and lets it do its part. */
  private connect(): void {
    // Whoever stores jobs may run the pass at once, so the ingest function may do all that a dispatcher does.
    for (const dispatcher of [this.ingestFunction, this.dispatchFunction]) {
      for (const [name, value] of Object.entries(this.schedulerEnvironment())) {
        dispatcher.addEnvironment(name, value);
      }
      this.grantDispatch(dispatcher);
      this.grantPutEvents(dispatcher);
    }
    for (const fleet of Object.values(this.fleets)) {
      for (const [name, value] of Object.entries(this.workerEnvironment(fleet.fleet))) {
        fleet.function?.addEnvironment(name, value);
      }
    }
  }

  private fleetNamed(fleet: string): Fleet {
    const found = this.fleets[fleet];
    if (found !== undefined) return found;
    throw new ConfigurationError(
      'fleet',
      fleet,
      `names no fleet of this scheduler (${Object.keys(this.fleets).map(show).join(', ')})`,
      'Declare it in fleets, or name one of those.',
    );
  }
}

function checkCount(prop: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= max) return;
  throw new ConfigurationError(
    prop,
    value,
    `must be a whole number from 1 to ${max}`,
    'Leave it out for the default.',
  );
}
