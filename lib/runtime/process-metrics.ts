/** Metrics of a long-running process. It prints lines in CloudWatch's embedded metric format once a minute and at its end. */
import { MetricCollector } from '../metrics/collector.ts';
import type { AskedMetrics, Metrics } from '../metrics/contract.ts';
import type { Clock } from './contract.ts';
import { emfText } from './emf.ts';

/** Milliseconds between two lines. CloudWatch keeps one value a minute, so one line a minute is cheapest. */
const EVERY_MS = 60_000;

export interface ProcessMetrics {
  readonly metrics: Metrics;
  /** Writes what was collected since the last call. */
  readonly flush: () => void;
  /** Writes every minute until the signal aborts, then writes the rest and resolves. */
  readonly tellUntil: (ended: AbortSignal) => Promise<void>;
}

/**
 * @param scheduler - the name of the scheduler's table
 * @param write - takes a line without its line break
 * @param asked - the metrics to report in addition to the standard ones
 */
export function processMetrics(
  scheduler: string,
  clock: Pick<Clock, 'sleep'>,
  write: (line: string) => void,
  asked: AskedMetrics = {},
): ProcessMetrics {
  const metrics = new MetricCollector(asked);
  const text = emfText(scheduler);
  const flush = (): void => {
    for (const line of metrics.take()) write(text(line));
  };
  const tellUntil = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      await clock.sleep(EVERY_MS, ended);
      flush();
    }
  };
  return { metrics, flush, tellUntil };
}
