/** The interface through which the scheduler reports metrics. Its calls do no I/O. */
import type { FinerScope, METRICS, MetricOnRequest, MetricScope } from './names.ts';

export type MetricKey = keyof typeof METRICS;

/** Names of the type, tier, fleet or partition that a value belongs to, in addition to the whole scheduler. */
export type MetricScopes = Readonly<Partial<Record<MetricScope, string>>>;

export interface Metrics {
  /** Adds a value. A value of a job names the job's type and tier, and counts for each of them and for the scheduler. */
  readonly add: (metric: MetricKey, value: number, scopes?: MetricScopes) => void;
  /** Whether a metric on request was asked for. If not, a metric that needs reads is not computed. */
  readonly asksFor: (metric: MetricOnRequest) => boolean;
}

/** Metrics that the user asked for, in addition to the standard ones. */
export interface AskedMetrics {
  /** Metrics on request. @default - none */
  readonly metrics?: readonly MetricOnRequest[];
  /** Scopes on request. @default - none */
  readonly by?: readonly FinerScope[];
}
