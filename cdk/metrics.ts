/** Metrics of a scheduler, which its functions and workers write under the names of `lib/metrics/names.ts`. */

import { Duration } from 'aws-cdk-lib';
import { Metric, type MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { didYouMean } from '../lib/core/spelling.ts';
import {
  type FinerScope,
  isOnRequest,
  METRIC_DIMENSION,
  METRICS,
  METRICS_NAMESPACE,
  type MetricOnRequest,
  type MetricScope,
  type MetricSpec,
} from '../lib/metrics/names.ts';
import { libraryNames, libraryObjectOf } from './values.ts';

export type MetricName = keyof typeof METRICS;

/** Options of a metric, and one dimension that narrows it: a type, tier, fleet or partition. */
export interface SchedulerMetricOptions extends MetricOptions {
  readonly type?: string;
  readonly tier?: string;
  readonly fleet?: string;
  readonly partition?: number;
}

const OPTIONS = libraryNames({
  type: true,
  tier: true,
  fleet: true,
  partition: true,
  account: true,
  color: true,
  dimensionsMap: true,
  id: true,
  label: true,
  period: true,
  region: true,
  stackAccount: true,
  stackRegion: true,
  statistic: true,
  unit: true,
  visible: true,
} satisfies Readonly<Record<keyof SchedulerMetricOptions, true>>);
const checkOptions = libraryObjectOf(OPTIONS);

export abstract class SchedulerMetrics extends Construct {
  /** The name of the table, which is the dimension of all metrics. */
  abstract readonly tableName: string;

  /**
   * A metric by name, with its usual statistic unless you give another one. If the metric is on request, its use turns it
   * on; if it is narrowed by type, tier or fleet, the use turns on metrics by that dimension. For a scheduler that was
   * deployed elsewhere, its own `metrics` and `metricsBy` decide.
   * @throws ConfigurationError for an unknown metric, and for a misspelt option
   * @throws RangeError for a dimension that the metric does not have, and for more than one dimension: each is written
   * alone
   */
  metric(name: MetricName, options: SchedulerMetricOptions = {}): Metric {
    checkOptions('', options);
    const { type, tier, fleet, partition, ...rest } = options;
    const narrowed: Readonly<Record<MetricScope, string | number | undefined>> = {
      type,
      tier,
      fleet,
      partition,
    };
    if (!Object.hasOwn(METRICS, name)) {
      throw new ConfigurationError(
        'name',
        name,
        'is not a metric',
        `${didYouMean(name, Object.keys(METRICS))}They are: ${Object.keys(METRICS).join(', ')}.`,
      );
    }
    const spec: MetricSpec = METRICS[name];
    const { by, finer = [] } = spec;
    const asked = Object.keys(narrowed).filter(
      (scope) => narrowed[scope as MetricScope] !== undefined,
    ) as MetricScope[];
    for (const scope of asked) {
      if (by.includes(scope)) continue;
      throw new RangeError(
        `${spec.name} is not written by ${scope}${by.length === 0 ? '' : `, only by ${by.join(', ')}`}: leave ${scope} out`,
      );
    }
    if (asked.length > 1) {
      throw new RangeError(
        `${spec.name} is written by ${by.join(', or by ')}: choose one of them, not ${asked.join(' and ')}`,
      );
    }
    const dimensions = asked.map((scope) => [METRIC_DIMENSION[scope], String(narrowed[scope])] as const);
    const metric = new Metric({
      namespace: METRICS_NAMESPACE,
      metricName: spec.name,
      statistic: spec.statistic,
      period: Duration.minutes(1),
      ...rest,
      dimensionsMap: { [METRIC_DIMENSION.scheduler]: this.tableName, ...Object.fromEntries(dimensions) },
    }).attachTo(this);
    if (isOnRequest(name)) this.turnOn(name);
    for (const scope of finer) if (asked.includes(scope)) this.turnOnBy(scope);
    return metric;
  }

  /**
   * Called when a metric on request is used. `Scheduler` overrides it, so that its functions publish the metric; an
   * imported scheduler cannot change its functions and ignores it.
   */
  protected turnOn(_metric: MetricOnRequest): void {}

  /** Called when a metric is used by this dimension. `Scheduler` overrides it, as it does `turnOn`. */
  protected turnOnBy(_scope: FinerScope): void {}

  /** Jobs that were stored, whether through the bus or the client. */
  metricSubmitted(options?: SchedulerMetricOptions): Metric {
    return this.metric('submitted', options);
  }

  /** Entries of events that were refused, with a record of the reason. */
  metricRejected(options?: MetricOptions): Metric {
    return this.metric('rejected', options);
  }

  /** Jobs that passes assigned to a fleet. */
  metricClaimed(options?: MetricOptions): Metric {
    return this.metric('claimed', options);
  }

  /** Attempts that workers have started. */
  metricStarted(options?: SchedulerMetricOptions): Metric {
    return this.metric('started', options);
  }

  /** Jobs that succeeded. */
  metricSucceeded(options?: SchedulerMetricOptions): Metric {
    return this.metric('succeeded', options);
  }

  /** Jobs that failed for good. */
  metricFailed(options?: SchedulerMetricOptions): Metric {
    return this.metric('failed', options);
  }

  /** Jobs that were cancelled. */
  metricCancelled(options?: SchedulerMetricOptions): Metric {
    return this.metric('cancelled', options);
  }

  /** Jobs that had not started in time. */
  metricExpired(options?: SchedulerMetricOptions): Metric {
    return this.metric('expired', options);
  }

  /** Attempts that did not succeed and whose jobs are retried. */
  metricRetried(options?: SchedulerMetricOptions): Metric {
    return this.metric('retried', options);
  }

  /** The time from when a job was ready to run until a worker started it. */
  metricWaitTime(options?: SchedulerMetricOptions): Metric {
    return this.metric('waitTime', options);
  }

  /** Jobs in flight after a pass, at least once a minute while there are any. */
  metricRunning(options?: SchedulerMetricOptions): Metric {
    return this.metric('running', options);
  }

  /** Jobs in flight as a share of the cap, or of the slots of the fleet. */
  metricCapUsed(options?: SchedulerMetricOptions): Metric {
    return this.metric('capUsed', options);
  }

  /** Ready jobs that a pass saw and that wait after it; there may be more. */
  metricBacklog(options?: SchedulerMetricOptions): Metric {
    return this.metric('backlog', options);
  }

  /** How long the oldest waiting job that a pass saw has been ready. */
  metricOldestPending(options?: SchedulerMetricOptions): Metric {
    return this.metric('oldestPending', options);
  }

  /**
   * How long the jobs that wait for a full fleet would take on its slots, or how long the oldest of them has waited if that is
   * longer; zero while a slot is free. `scale()` uses it.
   */
  metricBacklogTime(options?: SchedulerMetricOptions): Metric {
    return this.metric('backlogTime', options);
  }

  /** Slots without a job in flight after a pass. */
  metricFreeSlots(options?: SchedulerMetricOptions): Metric {
    return this.metric('freeSlots', options);
  }

  /** Waiting jobs that a pass saw, for which a slot is free and which no cap, conflict or pause blocks: if it stays above zero, something is wrong. */
  metricStartable(options?: SchedulerMetricOptions): Metric {
    return this.metric('startable', options);
  }

  /** How long the passes of one lead took. */
  metricPassDuration(options?: MetricOptions): Metric {
    return this.metric('passDuration', options);
  }

  /** Claims and commits that failed because another dispatcher was faster. */
  metricLostRaces(options?: MetricOptions): Metric {
    return this.metric('lostRaces', options);
  }

  /** Write units of the table that the functions used, those of its index included. */
  metricWriteUnits(options?: MetricOptions): Metric {
    return this.metric('writeUnits', options);
  }

  /** Outcome events that the bus did not accept; they are published again. */
  metricOutcomesUnpublished(options?: MetricOptions): Metric {
    return this.metric('outcomesUnpublished', options);
  }
}
