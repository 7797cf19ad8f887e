/**
 * Collects the metrics of one invocation, and groups them into as few log lines as possible: sums are one number,
 * distributions are lists, and each line may cover several sets of dimensions.
 */
import type { AskedMetrics, MetricKey, MetricScopes, Metrics } from './contract.ts';
import {
  FINER_SCOPES,
  isOnRequest,
  METRIC_DIMENSION,
  METRICS,
  METRICS_ON_REQUEST,
  type MetricOnRequest,
  type MetricScope,
  type MetricSpec,
} from './names.ts';

/** One line: values of metrics that have the same dimensions. */
export interface MetricLine {
  /** The sets of dimensions, each in addition to `Scheduler`. An empty set means the whole scheduler. */
  readonly sets: readonly Readonly<Record<string, string>>[];
  readonly values: ReadonlyMap<MetricKey, readonly number[]>;
}

/**
 * The most values of one metric in a line, which is below CloudWatch's limit. Further values are dropped, which changes
 * a percentile little.
 */
const VALUES_MAX = 99;

interface Group {
  readonly sets: MetricLine['sets'];
  readonly values: Map<MetricKey, number[]>;
}

const ALL_METRICS: AskedMetrics = { metrics: METRICS_ON_REQUEST, by: FINER_SCOPES };

/**
 * Whether a metric is a gauge: it shows a current value, of which the maximum is reported. A gauge with named scopes is
 * reported for those only, not for the whole scheduler as well.
 */
const isGauge = ({ statistic }: MetricSpec): boolean => statistic === 'Maximum';

function setsOf(
  spec: MetricSpec,
  scopes: MetricScopes,
  finerBy: ReadonlySet<MetricScope>,
): MetricLine['sets'] {
  const finer: readonly MetricScope[] = spec.finer ?? [];
  const named = spec.by.filter((scope) => scopes[scope] !== undefined);
  const reported = named.filter((scope) => !finer.includes(scope) || finerBy.has(scope));
  const setOf = (scope: MetricScope): Readonly<Record<string, string>> => ({
    [METRIC_DIMENSION[scope]]: scopes[scope] ?? '',
  });
  return isGauge(spec) && named.length > 0 ? reported.map(setOf) : [{}, ...reported.map(setOf)];
}

function merge(values: number[], value: number, { statistic }: MetricSpec): void {
  const [first] = values;
  if (statistic === 'Sum' && first !== undefined) values[0] = first + value;
  else if (statistic === 'Maximum' && first !== undefined) values[0] = Math.max(first, value);
  else if (values.length < VALUES_MAX) values.push(value);
}

export class MetricCollector implements Metrics {
  readonly #groups = new Map<string, Group>();
  readonly #asked: ReadonlySet<MetricOnRequest>;
  readonly #finerBy: ReadonlySet<MetricScope>;
  /** Whether a metric other than a cost was added. An invocation with nothing but costs writes no line. */
  #hasMoreThanCosts = false;

  /** @param asked - the metrics to report in addition to the standard ones; all of them by default */
  constructor({ metrics = [], by = [] }: AskedMetrics = ALL_METRICS) {
    this.#asked = new Set(metrics);
    this.#finerBy = new Set(by);
  }

  readonly add = (metric: MetricKey, value: number, scopes: MetricScopes = {}): void => {
    const spec: MetricSpec = METRICS[metric];
    // A sum of zero is not reported. A gauge that returns to zero is.
    if (!Number.isFinite(value) || (value === 0 && spec.statistic === 'Sum')) return;
    if (spec.isBeside !== true) this.#hasMoreThanCosts = true;
    if (isOnRequest(metric) && !this.#asked.has(metric)) return;
    const sets = setsOf(spec, scopes, this.#finerBy);
    if (sets.length === 0) return;
    const name = JSON.stringify(sets);
    const group = this.#groups.get(name) ?? { sets, values: new Map() };
    this.#groups.set(name, group);
    const values = group.values.get(metric) ?? [];
    group.values.set(metric, values);
    merge(values, value, spec);
  };

  readonly asksFor = (metric: MetricOnRequest): boolean => this.#asked.has(metric);

  /** Returns the lines that were collected since the last call. */
  take(): readonly MetricLine[] {
    const lines = this.#hasMoreThanCosts ? [...this.#groups.values()] : [];
    this.#groups.clear();
    this.#hasMoreThanCosts = false;
    return lines;
  }
}
