/** What is measured, on its way to wherever it is told. Nothing here reads or waits. */
import type { FinerScope, METRICS, MetricOnRequest, MetricScope } from './names.ts';

export type MetricKey = keyof typeof METRICS;

/** What a value is of, beside the whole scheduler: names by what narrows it. */
export type MetricScopes = Readonly<Partial<Record<MetricScope, string>>>;

export interface Metrics {
  /** Takes a value. Of a job, name the type and the tier: it counts for each of them, and for the whole. */
  readonly add: (metric: MetricKey, value: number, scopes?: MetricScopes) => void;
}

/** What somebody looks at, beside what is told always. */
export interface AskedMetrics {
  /** @default - none of those that are told on request */
  readonly metrics?: readonly MetricOnRequest[];
  /** What narrows metrics, beside what always does. @default - nothing */
  readonly by?: readonly FinerScope[];
}
