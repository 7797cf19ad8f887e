/** Writes metrics as log lines in CloudWatch's embedded metric format, which needs no requests. */
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

/** Parses an environment variable that holds names separated by commas. */
export const namesIn = (text = ''): readonly string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');

/** Returns the metrics that the environment asks for in addition to the standard ones. Unknown names are ignored. */
export function askedMetricsOf(environment: Readonly<Record<string, string | undefined>>): AskedMetrics {
  const [metrics, by] = [namesIn(environment[METRICS_TOLD]), namesIn(environment[METRICS_BY])];
  return {
    metrics: METRICS_ON_REQUEST.filter((name) => metrics.includes(name)),
    by: FINER_SCOPES.filter((scope) => by.includes(scope)),
  };
}

/** Returns a writer for the metrics of one scheduler, which is identified by the name of its table. */
function metricsOf(scheduler: string): Powertools {
  const metrics = new Powertools({ namespace: METRICS_NAMESPACE });
  // Powertools' default dimension names a service; ours names the scheduler.
  metrics.clearDefaultDimensions();
  metrics.setDefaultDimensions({ [METRIC_DIMENSION.scheduler]: scheduler });
  return metrics;
}

/** Adds a line's dimensions and values, ready to be published or serialised. */
function fill(metrics: Powertools, { sets, values }: MetricLine): void {
  for (const set of sets) metrics.addDimensions({ ...set });
  for (const [metric, each] of values) {
    const { name, unit } = METRICS[metric];
    for (const value of each) metrics.addMetric(name, unit, value);
  }
}

/**
 * Formats lines for callers that do not write to the log of a function.
 *
 * @param scheduler - the name of the scheduler's table
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

/** @param scheduler - the name of the scheduler's table */
export function emfWriter(scheduler: string): (lines: readonly MetricLine[]) => void {
  const metrics = metricsOf(scheduler);
  return (lines) => {
    for (const line of lines) {
      fill(metrics, line);
      metrics.publishStoredMetrics();
    }
  };
}
