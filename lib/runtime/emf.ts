/** Metrics as lines of the log, in CloudWatch's embedded metric format: no requests, and nothing to wait for. */
import { Metrics as Powertools } from '@aws-lambda-powertools/metrics';
import type { MetricLine } from '../metrics/collector.ts';
import type { AskedMetrics } from '../metrics/contract.ts';
import {
  FINER_SCOPES,
  METRIC_DIMENSION,
  METRICS,
  METRICS_BY,
  METRICS_NAMESPACE,
  METRICS_ON_REQUEST,
  METRICS_TOLD,
} from '../metrics/names.ts';

/** As variables of the environment have them: with commas between them. */
export const namesIn = (text = ''): readonly string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

/** What is told beside what always is, as the environment says; names that it does not know are left out. */
export function askedMetricsOf(environment: Readonly<Record<string, string | undefined>>): AskedMetrics {
  const [metrics, by] = [namesIn(environment[METRICS_TOLD]), namesIn(environment[METRICS_BY])];
  return {
    metrics: METRICS_ON_REQUEST.filter((name) => metrics.includes(name)),
    by: FINER_SCOPES.filter((scope) => by.includes(scope)),
  };
}

/** What writes the metrics of one scheduler, by the name of its table. */
function metricsOf(scheduler: string): Powertools {
  const metrics = new Powertools({ namespace: METRICS_NAMESPACE });
  // Its own dimension names a service; ours names the scheduler.
  metrics.clearDefaultDimensions();
  metrics.setDefaultDimensions({ [METRIC_DIMENSION.scheduler]: scheduler });
  return metrics;
}

/** Puts a line in, to be written or serialised. */
function fill(metrics: Powertools, { sets, values }: MetricLine): void {
  for (const set of sets) metrics.addDimensions({ ...set });
  for (const [metric, each] of values) {
    const { name, unit } = METRICS[metric];
    for (const value of each) metrics.addMetric(name, unit, value);
  }
}

/**
 * A line as it is written, for whoever writes it elsewhere than a function's log.
 *
 * @param scheduler - what the metrics are of: the name of its table
 */
export function emfText(scheduler: string): (line: MetricLine) => string {
  const metrics = metricsOf(scheduler);
  return (line) => {
    fill(metrics, line);
    const text = JSON.stringify(metrics.serializeMetrics());
    metrics.clearMetrics();
    metrics.clearDimensions();
    return text;
  };
}

/** @param scheduler - what the metrics are of: the name of its table */
export function emfWriter(scheduler: string): (lines: readonly MetricLine[]) => void {
  const metrics = metricsOf(scheduler);
  return (lines) => {
    for (const line of lines) {
      fill(metrics, line);
      metrics.publishStoredMetrics();
    }
  };
}
