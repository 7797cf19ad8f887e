/** Warnings about effects that an app may not expect: how long a job may take, and what metrics cost. */
import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import type { FinerScope } from '../lib/metrics/names.ts';
import type { PoolDeclaration } from './pool.ts';

/** Warns for each type whose timeout follows from Lambda's default timeout of a function. */
export function warnOfTimeouts(scheduler: Construct, pool: PoolDeclaration): void {
  for (const { type, timeoutMs } of pool.configuration.types) {
    if (pool.hasTimeout(type)) continue;
    const serving = pool.configuration.fleets.filter(({ types }) => types.includes(type));
    const silent = serving.find(({ fleet }) => pool.handlers.get(fleet)?.isTimeoutDefault === true);
    if (silent !== undefined) {
      Annotations.of(scheduler).addWarningV2(
        `fairlead:undeclared-timeout:${type}`,
        `A job of type ${type} may take ${timeoutMs} ms: the function of fleet ${silent.fleet} has no timeout, so Lambda's default of 3 seconds applies. Set the function's timeout, use WorkerFunction (5 minutes), or declare types.${type}.timeoutMs.`,
      );
    } else if (serving.every(({ fleet }) => !pool.handlers.has(fleet))) {
      Annotations.of(scheduler).addInfo(
        `A job of type ${type} may take ${timeoutMs} ms, the default for processes. Declare types.${type}.timeoutMs for another time.`,
      );
    }
  }
}

/** More names than this cost more than many a scheduler. A dashboard draws as many types. */
const NAMES_QUIET = 20;
/** The most metrics of one type, tier or fleet in use, and CloudWatch's price for each, in dollars a month. */
const METRICS_OF_NAME = 7;
const METRIC_MONTH = 0.3;

/** Warns if metrics are written by so many types, tiers or fleets that their number decides the cost. */
export function warnOfMetrics(
  scheduler: Construct,
  { types, tiers, fleets }: PoolConfiguration,
  by: ReadonlySet<FinerScope>,
): void {
  const counts = { type: types.length, tier: tiers.length, fleet: fleets.length };
  for (const scope of by) {
    const count = counts[scope];
    if (count <= NAMES_QUIET) continue;
    const most = Math.round(count * METRICS_OF_NAME * METRIC_MONTH);
    Annotations.of(scheduler).addWarningV2(
      `fairlead:metrics-by-${scope}`,
      `Metrics are written by ${scope}, because of metricsBy, a metric by ${scope}, or the dashboard. CloudWatch bills up to $${most} a month for ${count} ${scope}s in use. Remove that use, or acknowledge this warning.`,
    );
  }
}
