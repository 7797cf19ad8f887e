/** The parts of a scheduler that alarms and dashboards use. */
import { Duration } from 'aws-cdk-lib';
import {
  MathExpression,
  type MathExpressionOptions,
  type Metric,
  type MetricOptions,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import type { SchedulerMetrics } from './metrics.ts';

/** A scheduler of this app. All its parts are known once everything is declared. */
export interface WatchedScheduler extends SchedulerMetrics {
  readonly configuration: PoolConfiguration;
  readonly ingestQueue: IQueue;
  readonly wakeQueue: IQueue;
  readonly ingestFunction: IFunction;
  readonly dispatchFunction: IFunction;
  /** The HTTP protocol; undefined: the scheduler has none. */
  readonly api: { readonly function: IFunction } | undefined;
  /** Deletes objects of large payloads once a day; undefined: the scheduler has no `largePayloads`. */
  readonly collectFunction: IFunction | undefined;
  readonly deadLetterQueues: Readonly<Record<string, IQueue>>;
  /** The name of the rule that invokes the dispatch function each minute. */
  readonly tickRuleName: string;
  /** The fleets by name, once everything is declared. */
  readonly fleets: Readonly<Record<string, WatchedFleet>>;
  /** The fleets whose workers are scaled by their backlog. */
  readonly scaledFleets: readonly string[];
  /** Calls `effect` when everything is declared. */
  whenSettled(effect: () => void): void;
}

export interface WatchedFleet {
  readonly function: IFunction | undefined;
  metricQueueAge(options?: MetricOptions): Metric;
}

/** Returns the number of messages in these dead-letter queues. */
export function deadLettersIn(queues: readonly IQueue[], options?: MathExpressionOptions): MathExpression {
  const metrics = queues.map(
    (queue, index) =>
      [`q${index}`, queue.metricApproximateNumberOfMessagesVisible({ statistic: 'Maximum' })] as const,
  );
  return new MathExpression({
    label: 'Dead letters',
    period: Duration.minutes(1),
    ...options,
    // CloudWatch has no data of a queue that was not used for some hours.
    expression: metrics.map(([name]) => `FILL(${name}, 0)`).join(' + '),
    usingMetrics: Object.fromEntries(metrics),
  });
}
