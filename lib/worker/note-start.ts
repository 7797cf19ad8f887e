/** What every worker tells of a job that it has started. */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job } from '../core/job.ts';
import type { Metrics } from '../metrics/contract.ts';

/** What a job has waited, by the clocks of whoever made it ready and of this worker. */
export function noteStart(
  metrics: Metrics | undefined,
  { types }: PoolConfiguration,
  { type, readyAtMs, startedAtMs }: Job,
  nowMs: number,
): void {
  const tier = types.find((each) => each.type === type)?.tier;
  const scopes = { type, ...(tier === undefined ? {} : { tier }) };
  metrics?.add('started', 1, scopes);
  metrics?.add('waitTime', Math.max(0, (startedAtMs ?? nowMs) - readyAtMs), scopes);
}
