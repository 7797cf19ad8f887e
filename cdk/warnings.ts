/** Warnings about effects that an app may not expect: how long a job may take, what is throttled, and what metrics cost. */
import { Annotations, Token } from 'aws-cdk-lib';
import type { CfnFunction } from 'aws-cdk-lib/aws-lambda';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import type { JobTypeConfiguration, PoolConfiguration } from '../lib/core/configuration.ts';
import type { FinerScope } from '../lib/metrics/names.ts';
import type { Fleet } from './fleet.ts';
import type { PoolDeclaration } from './pool.ts';

/**
 * The most types, tiers or fleets without a warning about the cost of their metrics: with more names they cost more than
 * many a scheduler. A dashboard draws, and a line names, as many types.
 */
const NAMES_QUIET = 20;

/** Warns for each type whose timeout follows from Lambda's default timeout of a function. */
export function warnOfTimeouts(scheduler: Construct, pool: PoolDeclaration): void {
  const ofProcesses: Pick<JobTypeConfiguration, 'type' | 'timeoutMs'>[] = [];
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
      ofProcesses.push({ type, timeoutMs });
    }
  }
  const [first] = ofProcesses;
  if (first === undefined) return;
  const named = ofProcesses.slice(0, NAMES_QUIET).map(({ type }) => type);
  const more = ofProcesses.length - named.length;
  Annotations.of(scheduler).addInfo(
    `Jobs of these types may take ${first.timeoutMs} ms, the default for processes: ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}. Declare timeoutMs in types for another time.`,
  );
}

/**
 * Warns for each function with less reserved concurrency than its event source may use: then Lambda throttles
 * invocations, and jobs wait for their messages to return.
 */
export function warnOfReserved(pool: PoolDeclaration): void {
  for (const { fleet, slots } of pool.configuration.fleets) {
    const own = pool.handlers.get(fleet)?.own;
    const reserved = (own?.node.defaultChild as CfnFunction | undefined)?.reservedConcurrentExecutions;
    if (own === undefined || reserved === undefined || Token.isUnresolved(reserved)) continue;
    const { maxConcurrency, provisionedPollers } = pool.fleet(fleet) ?? {};
    const most = Math.min(slots ?? Infinity, maxConcurrency ?? Infinity);
    if (reserved >= most || Token.isUnresolved(most)) continue;
    Annotations.of(own).addWarningV2(
      `fairlead:reserved-concurrency:${fleet}`,
      `The function of fleet ${fleet} has a reserved concurrency of ${reserved}, and its event source may invoke it ${most} times at once: Lambda throttles the others. Reserve ${most}, or lower ${provisionedPollers === undefined ? 'slots or maxConcurrency' : 'slots'}.`,
    );
  }
}

/** Returns the queue of a fleet for processes. Warns if a function receives its messages already. */
export function queueForProcesses(fleet: Fleet): Queue {
  if (fleet.function !== undefined)
    Annotations.of(fleet).addWarningV2(
      `fairlead:work-beside-function:${fleet.fleet}`,
      `The function of fleet ${fleet.fleet} runs its jobs, and grants.work lets processes receive its messages too. Grant the work of a fleet without a handler, or acknowledge this warning.`,
    );
  return fleet.queue;
}

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
