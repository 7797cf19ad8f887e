/** What alarms and dashboards look at. */
import { Duration } from 'aws-cdk-lib';
import { MathExpression, type MathExpressionOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import type { SchedulerMetrics } from './metrics.ts';

/** A scheduler of this app, all of whose parts are known once everything is declared. */
export interface WatchedScheduler extends SchedulerMetrics {
  readonly configuration: PoolConfiguration;
  readonly ingestQueue: IQueue;
  readonly ingestFunction: IFunction;
  readonly dispatchFunction: IFunction;
  readonly deadLetterQueues: Readonly<Record<string, IQueue>>;
  /** Calls back when everything is declared. */
  whenSettled(effect: () => void): void;
}

/** Messages in these dead-letter queues. */
export function deadLettersIn(queues: readonly IQueue[], options?: MathExpressionOptions): MathExpression {
  const metrics = queues.map(
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
