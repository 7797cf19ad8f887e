/** The idle month under either model of Lambda's pollers. */
import { PRICES } from '../metering/prices.ts';
import { DEPLOYMENT, LONG_POLL_MS, type PollerModel, pollersOf } from './deployment.ts';
import type { Idle } from './measure.ts';
import { IDLE_POOL } from './pools.ts';

const MONTH_MS = 730 * 3_600_000;

/** Empty receives of a month of all queues that functions stand behind, in dollars. */
export function idlePollingDollars(model: PollerModel): number {
  const { wakeQueue, ingestQueue, fleetQueue } = DEPLOYMENT;
  const pollers =
    pollersOf(model, wakeQueue.maxConcurrency !== undefined, true) +
    pollersOf(model, ingestQueue.maxConcurrency !== undefined, true) +
    IDLE_POOL.fleets * pollersOf(model, fleetQueue.hasMaxConcurrency, true);
  return (pollers * (MONTH_MS / LONG_POLL_MS) * PRICES.queueRequests) / 1_000_000;
}

/** What the same month comes to where Lambda keeps five pollers at every queue. */
export function otherPollers(idle: Idle): { readonly name: string; readonly dollarsPerMonth: number } {
  const more = idlePollingDollars('five') - idlePollingDollars('documented');
  return {
    name: 'with five pollers at every queue, whether or not a maximum concurrency is set',
    dollarsPerMonth: idle.dollarsPerMonth + more,
  };
}
