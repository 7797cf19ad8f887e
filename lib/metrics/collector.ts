/**
 * Collects what one invocation has to tell, and says it in as few lines of the log as can be: what was added up is one number,
 * what has a distribution is a list, and each line stands for several sets of dimensions.
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
  /** Beside `Scheduler`; an empty set is the whole scheduler. */
  readonly sets: readonly Readonly<Record<string, string>>[];
  readonly values: ReadonlyMap<MetricKey, readonly number[]>;
}

/** Of one metric in one line, less than CloudWatch takes. What comes beyond is left out: of so many, it changes no percentile much. */
const VALUES_MAX = 99;

interface Group {
  readonly sets: MetricLine['sets'];
  readonly values: Map<MetricKey, number[]>;
}

const EVERYTHING: AskedMetrics = { metrics: METRICS_ON_REQUEST, by: FINER_SCOPES };

/** Gauges say what is so, so the greatest counts: they are told of exactly what they are of, and of nothing around it. */
const isGauge = ({ statistic }: MetricSpec): boolean => statistic === 'Maximum';

function setsOf(
  spec: MetricSpec,
  scopes: MetricScopes,
  finerBy: ReadonlySet<MetricScope>,
): MetricLine['sets'] {
  const finer: readonly MetricScope[] = spec.finer ?? [];
  const named = spec.by.filter((scope) => scopes[scope] !== undefined);
  const told = named.filter((scope) => !finer.includes(scope) || finerBy.has(scope));
  const setOf = (scope: MetricScope): Readonly<Record<string, string>> => ({
    [METRIC_DIMENSION[scope]]: scopes[scope] ?? '',
  });
  return isGauge(spec) && named.length > 0 ? told.map(setOf) : [{}, ...told.map(setOf)];
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
  /** Something was done, whether or not somebody asked how much: what it cost is worth a line. */
  #hasNews = false;

  /** @param asked - what is told beside what always is; all, unless it is given */
  constructor({ metrics = [], by = [] }: AskedMetrics = EVERYTHING) {
    this.#asked = new Set(metrics);
    this.#finerBy = new Set(by);
  }

  readonly add = (metric: MetricKey, value: number, scopes: MetricScopes = {}): void => {
    const spec: MetricSpec = METRICS[metric];
    // Nothing is not worth a line; a gauge that is back at nothing is.
    if (!Number.isFinite(value) || (value === 0 && spec.statistic === 'Sum')) return;
    if (spec.isBeside !== true) this.#hasNews = true;
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

  /** What was collected since the last time. */
  take(): readonly MetricLine[] {
    const lines = this.#hasNews ? [...this.#groups.values()] : [];
    this.#groups.clear();
    this.#hasNews = false;
    return lines;
  }
}
