/**
 * Alarms for problems that need an operator: failures, and standstill without a failure. Missing data alone never alarms,
 * because a new deployment has none. If missing data is a sign of trouble, the alarm also needs other data that shows
 * that there should be some.
 *
 * CloudWatch receives the last minutes late. An expression that fills missing data has an invented value there, and an
 * alarm that needs all of its periods would never ring, or never end. So each alarm needs only some of its periods
 * (CloudWatch's guide, "Using metric math", on FILL).
 */

import { Annotations, Duration, Stack, Token } from 'aws-cdk-lib';
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
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { groupsOf } from '../lib/queue/message.ts';
import { TABLE } from '../lib/store/table/schema.ts';
import { isPartOf, uniqueId } from './names.ts';
import { durationWithin, having, listOf, toDuration } from './values.ts';
import { deadLettersIn, type WatchedFleet, type WatchedScheduler } from './watched.ts';

/** Thresholds of the alarms. With the defaults, all alarms are silent while the scheduler is healthy. */
export interface AlarmsProps {
  /** Actions of each alarm, such as a topic that it notifies. @default - none: alarms only show their state */
  readonly actions?: readonly IAlarmAction[];
  /** How long the first waiting job may have been ready, at least 1 second. @default '15m' */
  readonly oldestPending?: DurationInput;
  /**
   * How far the dispatch function may be behind the stream, and ingest behind its queue, at least 1 second.
   * @default '2m'
   */
  readonly lag?: DurationInput;
  /** The percentage of jobs that may fail for good, of at least 10 in 5 minutes; above 0 and up to 100. @default 50 */
  readonly failedPercent?: number;
}

interface AlarmsConstructProps extends AlarmsProps {
  readonly scheduler: WatchedScheduler;
}

/** The condition of an alarm: a metric, its threshold, and how many of the last periods must reach it. */
interface Watch {
  /** @default - the alarms' own */
  readonly scope?: Construct;
  readonly metric: IMetric;
  readonly from: number;
  readonly times: number;
  readonly periods: number;
  readonly says: string;
}

const PERIOD = Duration.minutes(1);
const LONG_PERIOD = Duration.minutes(5);
/**
 * The period of alarms about outcomes: an outcome that the bus refuses is tried again at least each quarter of an hour.
 */
const OUTCOMES_PERIOD = Duration.minutes(15);
/**
 * The age at which a message to a fleet or a wake is too old. A message to a fleet is deleted within 15 minutes, when
 * its function ends, and a wake is delayed by at most as much. This is twice that.
 */
const HINT_AGE = Duration.minutes(30);
/** The most metrics in one expression of CloudWatch. */
const METRICS_OF_ALARM = 10;
/** The least number of jobs for an alarm about failures. With fewer, failures say something about these jobs only. */
const JOBS_MIN = 10;
/** The longest time that an alarm may evaluate: a day, or a week if its periods are hours. */
const WINDOWS = [
  { period: LONG_PERIOD, window: Duration.days(1) },
  { period: Duration.hours(1), window: Duration.days(7) },
];
/** The longest period of an alarm about the stream: two of them end before the stream deletes a record, after a day. */
const STREAM_PERIOD_MAX = Duration.hours(8);

/** The dimensions of what may be throttled, besides the table's name: the table itself, and its indexes. */
const THROTTLED: readonly Readonly<Record<string, string>>[] = [
  {},
  ...[TABLE.linesIndex, TABLE.expiriesIndex].map((name) => ({ GlobalSecondaryIndexName: name })),
];

/** DynamoDB's metrics of throttled requests, by reason: a hot key, or a limit. */
const THROTTLES = {
  HotKeys: {
    metrics: ['ReadKeyRangeThroughputThrottleEvents', 'WriteKeyRangeThroughputThrottleEvents'],
    says: 'One key of the table or an index has more load than a partition of DynamoDB allows: see docs/scale.md on busy keys and partitions',
  },
  Quota: {
    metrics: ['ReadAccountLimitThrottleEvents', 'WriteAccountLimitThrottleEvents'],
    says: "The table has more load than the account's quota for one table: request a higher quota, or divide the work among schedulers",
  },
  TableLimit: {
    metrics: ['ReadMaxOnDemandThroughputThrottleEvents', 'WriteMaxOnDemandThroughputThrottleEvents'],
    says: 'The table has more load than the maximum throughput that is set for it: raise the maximum, or remove it',
  },
} as const;

/** Checks a threshold in seconds: such metrics have no value below one. */
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

/**
 * Checks the thresholds.
 * @throws ConfigurationError for a threshold at which an alarm would always ring, or never
 */
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
    this.#watchDeadLetters(scheduler);
    this.#watchOutcomes(scheduler);
    scheduler.whenSettled(() => this.#watchFleets(Object.values(scheduler.fleets)));
  }

  /** Returns the alarms created so far; some are created when everything is declared. */
  get all(): readonly Alarm[] {
    return [...this.#all];
  }

  #watchProgress(scheduler: WatchedScheduler, props: AlarmsProps): void {
    const { oldestPending = '15m', failedPercent = 50 } = props;
    this.#add('OldestPending', {
      metric: scheduler.metricOldestPending(),
      from: toDuration(oldestPending).toSeconds(),
      times: 3,
      periods: 5,
      says: 'A job has been ready for a long time and was not started: `fairlead jobs explain` says why it waits',
    });
    const ended = sumOf('failed', 'succeeded');
    this.#add('Failures', {
      metric: new MathExpression({
        label: 'Percentage of jobs that failed for good',
        expression: `IF((${ended}) >= ${JOBS_MIN}, 100 * ${zeroed('failed')} / (${ended}), 0)`,
        usingMetrics: {
          failed: scheduler.metricFailed({ period: LONG_PERIOD }),
          succeeded: scheduler.metricSucceeded({ period: LONG_PERIOD }),
        },
        period: LONG_PERIOD,
      }),
      from: failedPercent,
      times: 1,
      periods: 2,
      says: 'Many jobs fail for good: `fairlead dead-letters` lists them, and retries them',
    });
  }

  #watchFunctions(scheduler: WatchedScheduler, props: AlarmsProps): void {
    const lag = toDuration(props.lag ?? '2m');
    const { dispatchFunction, ingestFunction, ingestQueue, wakeQueue, api, collectFunction } = scheduler;
    this.#add('StreamAge', {
      metric: dispatchFunction.metric('IteratorAge', { statistic: 'Maximum', period: PERIOD }),
      from: lag.toMilliseconds(),
      times: 3,
      periods: 5,
      says: 'The dispatch function is behind the stream of the table, so outcome events are late: its log shows the errors. The stream keeps records for a day; `fairlead outcomes publish` publishes lost outcomes',
    });
    this.#add('IngestAge', {
      metric: ingestQueue.metricApproximateAgeOfOldestMessage({ statistic: 'Maximum', period: PERIOD }),
      from: lag.toSeconds(),
      times: 3,
      periods: 5,
      says: 'Events wait to become jobs: enable the event source of the ingest queue, check the errors of the ingest function, or raise ingestConcurrency',
    });
    const functions = {
      ingest: ingestFunction,
      dispatch: dispatchFunction,
      ...(api === undefined ? {} : { api: api.function }),
    };
    const which = `The ingest${api === undefined ? '' : ', the API'} or the dispatch function`;
    const ofAll = (label: string, metricOf: (lambda: IFunction) => IMetric): MathExpression =>
      new MathExpression({
        label,
        expression: sumOf(...Object.keys(functions)),
        usingMetrics: Object.fromEntries(
          Object.entries(functions).map(([name, lambda]) => [name, metricOf(lambda)]),
        ),
        period: PERIOD,
      });
    this.#add('FunctionErrors', {
      metric: ofAll('Errors', (lambda) => lambda.metricErrors({ period: PERIOD })),
      from: 1,
      times: 3,
      periods: 5,
      says: `${which} fails repeatedly: their logs say why`,
    });
    this.#add('FunctionThrottles', {
      metric: ofAll('Throttles', (lambda) => lambda.metricThrottles({ period: PERIOD })),
      from: 1,
      times: 3,
      periods: 5,
      says: `${which} is throttled, because the account's concurrency, or what is reserved, is used up: request a higher quota, or set reservedConcurrency`,
    });
    if (collectFunction !== undefined)
      this.#add('ObjectsKept', {
        metric: collectFunction.metricErrors({ period: Duration.days(1) }),
        from: 1,
        times: 2,
        periods: 3,
        says: 'Objects of large payloads whose job is gone are not deleted, so the bucket grows: the function that deletes them once a day has failed on two days, and its log says why',
      });
    this.#watchTick(scheduler);
    this.#add('WakeAge', {
      metric: wakeQueue.metricApproximateAgeOfOldestMessage({ statistic: 'Maximum', period: PERIOD }),
      from: HINT_AGE.toSeconds(),
      times: 3,
      periods: 5,
      says: 'No dispatcher receives wakes, so due jobs start up to a minute late: enable the event source of the wake queue',
    });
  }

  /** A disabled rule writes no metric, and neither does a new one. But Lambda polls the wake queue all the time. */
  #watchTick({ tickRuleName, wakeQueue }: WatchedScheduler): void {
    const at = { statistic: 'Sum', period: PERIOD };
    this.#add('NoTick', {
      metric: new MathExpression({
        label: 'No tick, though event sources are polled',
        expression: `IF((${zeroed('ticks')} == 0) AND ((${sumOf('empty', 'received')}) > 0), 1, 0)`,
        usingMetrics: {
          // This is a metric of the rule, because other callers invoke the function too.
          ticks: new Metric({
            namespace: 'AWS/Events',
            metricName: 'Invocations',
            dimensionsMap: { RuleName: tickRuleName },
            ...at,
          }),
          empty: wakeQueue.metricNumberOfEmptyReceives(at),
          received: wakeQueue.metricNumberOfMessagesReceived(at),
        },
        period: PERIOD,
      }),
      from: 1,
      times: 5,
      periods: 7,
      says: 'No tick has come for minutes, so due jobs do not start: enable the rule that invokes the dispatch function each minute',
    });
  }

  #watchTable({ tableName }: WatchedScheduler): void {
    for (const [reason, { metrics, says }] of Object.entries(THROTTLES)) {
      const used = metrics.flatMap((metricName) =>
        THROTTLED.map(
          (index) =>
            new Metric({
              namespace: 'AWS/DynamoDB',
              metricName,
              dimensionsMap: { TableName: tableName, ...index },
              statistic: 'Sum',
              period: PERIOD,
            }),
        ),
      );
      this.#add(`Throttled${reason}`, {
        metric: new MathExpression({
          label: 'Throttled requests',
          expression: sumOf(...used.map((_, at) => `t${at}`)),
          usingMetrics: Object.fromEntries(used.map((metric, at) => [`t${at}`, metric])),
          period: PERIOD,
        }),
        from: 1,
        times: 3,
        periods: 5,
        says,
      });
    }
  }

  #watchDeadLetters({ deadLetterQueues }: WatchedScheduler): void {
    this.#add('DeadLetters', {
      metric: deadLettersIn(Object.values(deadLetterQueues), { period: PERIOD }),
      from: 1,
      times: 1,
      periods: 5,
      says: 'Events could not become jobs, or the bus refuses outcomes: `fairlead queues list` shows them with their errors, `fairlead queues redrive` retries them. They are kept until 14 days after they were first sent',
    });
  }

  #watchOutcomes(scheduler: WatchedScheduler): void {
    this.#add('OutcomesUnpublished', {
      metric: scheduler.metricOutcomesUnpublished({ period: OUTCOMES_PERIOD }),
      from: 1,
      times: 2,
      periods: 3,
      says: 'The bus has not accepted outcome events for half an hour: the log of the dispatch function says why (its policy, its key, a quota). They are kept for 14 days, and published when the bus accepts them',
    });
  }

  /** Adds one alarm for as many functions, or queues, as CloudWatch allows in an expression. */
  #watchFleets(fleets: readonly WatchedFleet[]): void {
    const functions = fleets.flatMap((fleet) => (fleet.function === undefined ? [] : [fleet.function]));
    const failures = ['Errors', 'Throttles', 'RecursiveInvocationsDropped'];
    const perAlarm = Math.floor(METRICS_OF_ALARM / failures.length);
    // The stack of a function depends on this one, which therefore cannot refer to the function: its alarm is beside it.
    const scopes = Map.groupBy(functions, (lambda) =>
      isPartOf(Stack.of(lambda), Stack.of(this)) ? this : Stack.of(lambda),
    );
    const groups = [...scopes].flatMap(([scope, of]) =>
      [...groupsOf(of, perAlarm)].map((some, at) => ({ scope, some, at })),
    );
    for (const { scope, some, at } of groups) {
      const id = `WorkerFunctions${at === 0 ? '' : at}`;
      this.#addAny(scope === this ? id : `${uniqueId(this)}${id}`, {
        scope,
        metrics: some.flatMap((lambda) => failures.map((name) => lambda.metric(name, { statistic: 'Sum' }))),
        from: 1,
        says: 'The function of a fleet fails outside its handlers, is throttled by the account’s concurrency, or is stopped by Lambda’s loop detection: see its metrics Errors, Throttles and RecursiveInvocationsDropped, and its log',
      });
    }
    for (const [at, some] of [...groupsOf(fleets, METRICS_OF_ALARM)].entries()) {
      this.#addAny(`FleetQueueAge${at === 0 ? '' : at}`, {
        metrics: some.map((fleet) => fleet.metricQueueAge({ statistic: 'Maximum' })),
        from: HINT_AGE.toSeconds(),
        says: 'No worker has received a message to a fleet for half an hour, though the fleet has slots: enable its event source, or start its processes (`fairlead fleets`)',
      });
    }
  }

  /** Adds an alarm that rings if any of several metrics reaches the threshold. */
  #addAny(
    id: string,
    { metrics, ...watch }: Pick<Watch, 'from' | 'says' | 'scope'> & { readonly metrics: readonly Metric[] },
  ): void {
    const named = metrics.map((metric, at) => [`m${at}`, metric] as const);
    this.#add(id, {
      metric: new MathExpression({
        label: '1 if any of them is too high',
        expression: `IF(${named.map(([name]) => `(${zeroed(name)} >= ${watch.from})`).join(' OR ')}, 1, 0)`,
        usingMetrics: Object.fromEntries(named),
        period: LONG_PERIOD,
      }),
      times: 2,
      periods: 3,
      ...watch,
      from: 1,
    });
  }

  /** Watches for jobs that do not move although nothing fails. */
  #watchStandstill(scheduler: WatchedScheduler): void {
    const at = { period: LONG_PERIOD };
    // This is created at once, so that environments of processes that are created next contain these metrics.
    const finishes = new MathExpression({
      label: 'Jobs run, and none ends',
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
        label: 'Jobs could start, and none does',
        expression: `IF((${zeroed('startable')} > 0) AND (${zeroed('free')} > 0) AND (${zeroed('started')} == 0), 1, 0)`,
        usingMetrics: {
          startable: scheduler.metricStartable({ ...at, statistic: 'Minimum' }),
          free: scheduler.metricFreeSlots({ ...at, statistic: 'Minimum' }),
          started: scheduler.metricStarted(at),
        },
        ...at,
      }),
      from: 1,
      times: 2,
      periods: 3,
      says: 'Jobs wait although no cap, conflict or pause holds them back and slots are free: check the logs of the dispatch function, and the workers of the fleets',
    });
    scheduler.whenSettled(() => {
      const longestMs = Math.max(...scheduler.configuration.types.map(({ timeoutMs }) => timeoutMs));
      // Each running job ends by its type's timeout.
      const longest = Math.ceil(longestMs / LONG_PERIOD.toMilliseconds());
      this.#watchStream(scheduler, longest + 1);
      const evaluated = evaluationOf(longestMs);
      if (evaluated === undefined) {
        Annotations.of(this).addInfo(
          `There is no alarm NothingFinishes: a job may run for ${longestMs} ms, and an alarm can look back for a week.`,
        );
        return;
      }
      const { period, periods } = evaluated;
      this.#add('NothingFinishes', {
        metric: finishes.with({ period }),
        from: 1,
        times: periods - 1,
        periods,
        says: 'Jobs run, and none has ended for longer than the longest timeout: workers hang, or cannot reach the table',
      });
    });
  }

  /**
   * Watches for an event source that is disabled or lacks rights. Such an event source leaves no trace: no error, and
   * no age. But the stream gets a record of each job that a worker has started, when the job ends at the latest.
   *
   * @param longest - the number of long periods in which each started job ends
   */
  #watchStream(scheduler: WatchedScheduler, longest: number): void {
    const periods = 3;
    const period = Duration.minutes(
      Math.min(longest * LONG_PERIOD.toMinutes(), STREAM_PERIOD_MAX.toMinutes()),
    );
    this.#add('StreamUnread', {
      metric: new MathExpression({
        label: 'Jobs start, and the stream has no records',
        expression: `IF((${zeroed('started')} > 0) AND (FILL(age, -1) < 0), 1, 0)`,
        usingMetrics: {
          started: scheduler.metricStarted({ period }),
          age: scheduler.dispatchFunction.metric('IteratorAge', { statistic: 'Maximum', period }),
        },
        period,
      }),
      from: 1,
      times: 2,
      periods,
      says: 'Jobs start, but the dispatch function gets no records of the stream of the table, so no outcomes are published: enable its event source, and check its rights (`aws lambda list-event-source-mappings` shows the error). The stream keeps records for a day; `fairlead outcomes publish` publishes lost outcomes',
    });
  }

  #add(id: string, watch: Watch): void {
    const alarm = new Alarm(watch.scope ?? this, id, {
      metric: watch.metric,
      threshold: watch.from,
      evaluationPeriods: watch.periods,
      datapointsToAlarm: watch.times,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      alarmDescription: watch.says,
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    for (const action of this.#actions) alarm.addAlarmAction(action);
    this.#all.push(alarm);
  }
}

/**
 * Returns the periods of an alarm that looks back for longer than a job may run: one more for jobs that began during the
 * last one, and one for late metrics. Undefined: no alarm can look back so far.
 */
function evaluationOf(
  longestMs: number,
): (Pick<Watch, 'periods'> & { readonly period: Duration }) | undefined {
  return WINDOWS.map(({ period, window }) => ({
    period,
    window,
    periods: Math.ceil(longestMs / period.toMilliseconds()) + 2,
  })).find(({ period, window, periods }) => periods * period.toSeconds() <= window.toSeconds());
}

/** Returns an expression that is zero for a metric without data. */
const zeroed = (name: string): string => `FILL(${name}, 0)`;
const sumOf = (...names: readonly string[]): string => names.map(zeroed).join(' + ');
