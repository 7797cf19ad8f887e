/** Metrics of a process that runs on: lines of its output in CloudWatch's embedded metric format, once a minute and at its end. */
import { MetricCollector } from '../metrics/collector.ts';
import type { AskedMetrics, Metrics } from '../metrics/contract.ts';
import type { Clock } from './contract.ts';
import { emfText } from './emf.ts';

/** CloudWatch keeps a minute as one value; a line for each of them costs least. */
const EVERY_MS = 60_000;

export interface ProcessMetrics {
  readonly metrics: Metrics;
  /** Writes what was collected since the last time. */
  readonly flush: () => void;
  /** Writes every minute from now on, and what is left once the signal aborts; resolves then. */
  readonly tellUntil: (ended: AbortSignal) => Promise<void>;
}

/**
 * @param scheduler - what the metrics are of: the name of its table
 * @param write - takes a line, without its end
 * @param asked - what is told beside what always is
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
