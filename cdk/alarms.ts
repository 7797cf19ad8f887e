/**
 * Alarms for what somebody must look at: what went wrong, and what stands still although nothing went wrong. Missing data
 * alarms only where a tick each minute must leave some.
 */

import { Duration, Token } from 'aws-cdk-lib';
import {
  Alarm,
  ComparisonOperator,
  type IAlarmAction,
  type IMetric,
  MathExpression,
  Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { TABLE } from '../lib/store/schema.ts';
import { durationWithin, having, listOf } from './values.ts';
import { deadLettersIn, METRICS_OF_ALARM, type WatchedScheduler } from './watched.ts';

/** When alarms ring. Each has a default that is silent where all is well. */
export interface AlarmsProps {
  /** Who is told, such as a topic. @default - nobody: the alarms can be seen */
  readonly actions?: readonly IAlarmAction[];
  /** How long the first waiting job may have been ready. @default Duration.minutes(15) */
  readonly oldestPending?: Duration;
  /** How far the dispatch function may be behind the stream, and ingest behind its queue. @default Duration.minutes(2) */
  readonly lag?: Duration;
  /** Jobs of a hundred that may fail for good, of at least 10 in 5 minutes. @default 50 */
  readonly failedPercent?: number;
}

interface AlarmsConstructProps extends AlarmsProps {
  readonly scheduler: WatchedScheduler;
}

/** What to ring for: a metric, the value from which it does, and for how many of its periods. */
interface Watch {
  readonly metric: IMetric;
  readonly from: number;
  readonly periods: number;
  readonly says: string;
  readonly missing?: TreatMissingData;
}

const PERIOD = Duration.minutes(1);
const LONG_PERIOD = Duration.minutes(5);
/** Failures of fewer jobs are those of these jobs. */
const JOBS_MIN = 10;
/** What an alarm may look back over: a day. */
const DAY_PERIODS = 288;

/** What DynamoDB says of why it throttles: of a key that is too hot, or of a quota. */
const THROTTLES = {
  HotKeys: {
    metrics: ['ReadKeyRangeThroughputThrottleEvents', 'WriteKeyRangeThroughputThrottleEvents'],
    says: 'One key of the table or its index takes more than a partition of DynamoDB gives: see docs/scale.md on busy keys and partitions',
  },
  Quota: {
    metrics: ['ReadAccountLimitThrottleEvents', 'WriteAccountLimitThrottleEvents'],
    says: "The table takes more than the account's quota for one table: have it raised, or divide the work among schedulers",
  },
  TableLimit: {
    metrics: ['ReadMaxOnDemandThroughputThrottleEvents', 'WriteMaxOnDemandThroughputThrottleEvents'],
    says: 'The table takes more than the most that somebody has set for it',
  },
} as const;

/** A metric of seconds has nothing below one. */
const checkThreshold = durationWithin({ least: Duration.seconds(1) });

const checkPercent: Check = (field, value) => {
  if (typeof value === 'number' && (Token.isUnresolved(value) || (value > 0 && value <= 100))) return;
  throw new ConfigurationError(field, value, 'must be above 0 and at most 100', 'Leave it out for 50.');
};

const CHECKS: Readonly<Record<keyof AlarmsProps, Check>> = {
  actions: listOf(having('bind', 'an action of an alarm, such as SnsAction')),
  oldestPending: checkThreshold,
  lag: checkThreshold,
  failedPercent: checkPercent,
};

/** @throws ConfigurationError for a threshold at which an alarm would always ring, or never */
export const checkAlarms = (props: AlarmsProps): void => objectOf(CHECKS)('', props);

export class SchedulerAlarms extends Construct {
  readonly #actions: readonly IAlarmAction[];
  readonly #all: Alarm[] = [];

  constructor(scope: Construct, id: string, props: AlarmsConstructProps) {
    super(scope, id);
    const { scheduler, ...given } = props;
    const { actions = [] } = given;
    this.#actions = actions;
    this.#watchProgress(scheduler, props);
    this.#watchFunctions(scheduler, props);
    this.#watchTable(scheduler);
    this.#watchStandstill(scheduler);
    scheduler.whenSettled(() => this.#watchDeadLetters(scheduler));
  }

  /** Those that there are: of dead letters and of what runs, some come when everything is declared. */
  get all(): readonly Alarm[] {
    return [...this.#all];
  }

  #watchProgress(scheduler: WatchedScheduler, props: AlarmsProps): void {
    const { oldestPending = Duration.minutes(15), failedPercent = 50 } = props;
    this.#add('OldestPending', {
      metric: scheduler.metricOldestPending(),
      from: oldestPending.toSeconds(),
      periods: 5,
      says: 'A job has been ready for long and was not started: `fairlead jobs explain` says what it waits for',
    });
    const ended = sumOf('failed', 'succeeded');
    this.#add('Failures', {
      metric: new MathExpression({
        label: 'Jobs of a hundred that failed for good',
        expression: `IF((${ended}) >= ${JOBS_MIN}, 100 * ${zeroed('failed')} / (${ended}), 0)`,
        usingMetrics: {
          failed: scheduler.metricFailed({ period: LONG_PERIOD }),
          succeeded: scheduler.metricSucceeded({ period: LONG_PERIOD }),
        },
        period: LONG_PERIOD,
      }),
      from: failedPercent,
      periods: 1,
      says: 'Many jobs fail for good: `fairlead dead-letters` shows them, and tries them again',
    });
  }

  #watchFunctions(scheduler: WatchedScheduler, { lag = Duration.minutes(2) }: AlarmsProps): void {
    const { dispatchFunction, ingestFunction, ingestQueue } = scheduler;
    this.#add('StreamAge', {
      metric: dispatchFunction.metric('IteratorAge', { statistic: 'Maximum', period: PERIOD }),
      from: lag.toMilliseconds(),
      periods: 5,
      says: 'The dispatch function is behind the stream of the table: outcome events come late',
    });
    this.#add('IngestAge', {
      metric: ingestQueue.metricApproximateAgeOfOldestMessage({ statistic: 'Maximum', period: PERIOD }),
      from: lag.toSeconds(),
      periods: 5,
      says: 'Events wait to become jobs: raise ingestConcurrency, or look at the errors of the ingest function',
    });
    const ofBoth = (label: string, metricOf: (lambda: IFunction) => IMetric): MathExpression =>
      new MathExpression({
        label,
        expression: sumOf('ingest', 'dispatch'),
        usingMetrics: { ingest: metricOf(ingestFunction), dispatch: metricOf(dispatchFunction) },
        period: PERIOD,
      });
    this.#add('FunctionErrors', {
      metric: ofBoth('Errors', (lambda) => lambda.metricErrors({ period: PERIOD })),
      from: 1,
      periods: 3,
      says: 'The ingest or the dispatch function fails again and again: their logs say why',
    });
    this.#add('FunctionThrottles', {
      metric: ofBoth('Throttles', (lambda) => lambda.metricThrottles({ period: PERIOD })),
      from: 1,
      periods: 5,
      says: "The ingest or the dispatch function finds no room in the account's concurrency: see reservedConcurrency",
    });
    this.#add(
      'NoTick',
      {
        metric: dispatchFunction.metricInvocations({ period: PERIOD }),
        from: 1,
        periods: 5,
        says: 'The dispatch function has not run for minutes, although a tick comes each minute: its rule or it is disabled',
        missing: TreatMissingData.BREACHING,
      },
      ComparisonOperator.LESS_THAN_THRESHOLD,
    );
  }

  #watchTable({ tableName }: WatchedScheduler): void {
    for (const [reason, { metrics, says }] of Object.entries(THROTTLES)) {
      const used = metrics.flatMap((metricName) =>
        [{ TableName: tableName }, { TableName: tableName, GlobalSecondaryIndexName: TABLE.linesIndex }].map(
          (dimensionsMap) =>
            new Metric({
              namespace: 'AWS/DynamoDB',
              metricName,
              dimensionsMap,
              statistic: 'Sum',
              period: PERIOD,
            }),
        ),
      );
      this.#add(`Throttled${reason}`, {
        metric: new MathExpression({
          label: 'Throttled requests',
          expression: sumOf('t0', 't1', 't2', 't3'),
          usingMetrics: Object.fromEntries(used.map((metric, at) => [`t${at}`, metric])),
          period: PERIOD,
        }),
        from: 1,
        periods: 5,
        says,
      });
    }
  }

  /** One alarm for every ten queues. */
  #watchDeadLetters({ deadLetterQueues }: WatchedScheduler): void {
    const queues = Object.values(deadLetterQueues);
    for (let from = 0; from < queues.length; from += METRICS_OF_ALARM) {
      const some = queues.slice(from, from + METRICS_OF_ALARM);
      this.#add(`DeadLetters${from === 0 ? '' : from / METRICS_OF_ALARM}`, {
        metric: deadLettersIn(some, { period: PERIOD }),
        from: 1,
        periods: 1,
        says: 'Something could not be processed: `fairlead dead-letters` shows jobs; what else is in the queues waits there for 14 days',
      });
    }
  }

  /** All looks well, and nothing moves. */
  #watchStandstill(scheduler: WatchedScheduler): void {
    const at = { period: LONG_PERIOD };
    // Asked for at once: an environment that a process is given next must name them.
    const finishes = new MathExpression({
      label: 'Something runs, and nothing ends',
      expression: `IF((${zeroed('running')} > 0) AND ((${sumOf('succeeded', 'failed', 'cancelled', 'retried')}) == 0), 1, 0)`,
      usingMetrics: {
        running: scheduler.metricRunning({ ...at, statistic: 'Minimum' }),
        succeeded: scheduler.metricSucceeded(at),
        failed: scheduler.metricFailed(at),
        cancelled: scheduler.metricCancelled(at),
        retried: scheduler.metricRetried(at),
      },
      ...at,
    });
    this.#add('NothingStarts', {
      metric: new MathExpression({
        label: 'Something could start, and nothing does',
        expression: `IF((${zeroed('startable')} > 0) AND (${zeroed('free')} > 0) AND (${zeroed('started')} == 0), 1, 0)`,
        usingMetrics: {
          startable: scheduler.metricStartable({ ...at, statistic: 'Minimum' }),
          free: scheduler.metricFreeSlots({ ...at, statistic: 'Minimum' }),
          started: scheduler.metricStarted(at),
        },
        ...at,
      }),
      from: 1,
      periods: 2,
      says: 'Jobs wait that nothing holds back, slots are free, and none starts: look at the logs of the dispatch function and at the fleets’ workers',
    });
    scheduler.whenSettled(() => {
      const longestMs = Math.max(...scheduler.configuration.types.map(({ timeoutMs }) => timeoutMs));
      // Whoever runs, ends by the timeout of its type; one period more for what has begun in the last one.
      const periods = Math.min(DAY_PERIODS, Math.ceil(longestMs / LONG_PERIOD.toMilliseconds()) + 1);
      this.#add('NothingFinishes', {
        metric: finishes,
        from: 1,
        periods,
        says: 'Jobs are running and none has ended for longer than any of them may take: workers hang, or cannot reach the table',
      });
    });
  }

  #add(id: string, watch: Watch, operator = ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD): void {
    const alarm = new Alarm(this, id, {
      metric: watch.metric,
      threshold: watch.from,
      evaluationPeriods: watch.periods,
      comparisonOperator: operator,
      alarmDescription: watch.says,
      treatMissingData: watch.missing ?? TreatMissingData.NOT_BREACHING,
    });
    for (const action of this.#actions) alarm.addAlarmAction(action);
    this.#all.push(alarm);
  }
}

/** Of a metric: where nothing was told there was nothing. */
const zeroed = (name: string): string => `FILL(${name}, 0)`;
const sumOf = (...names: readonly string[]): string => names.map(zeroed).join(' + ');
