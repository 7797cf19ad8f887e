/** What the demonstration declares, and what follows from it for whoever comes behind a flood. */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { overtakenForMs, starvationBoundMs } from '../../lib/core/score.ts';

export const TYPE = 'render';
export const FLOOD = 'flood';
export const QUIET = 'quiet';

/** Jobs of the type at once, of the ten that the fleet has room for: the cap that is counted. */
export const CAP = 8;

export const POOL = {
  types: { [TYPE]: { maxConcurrency: CAP, defaultCostMs: 1_000, timeoutMs: 5_000 } },
  fleets: { renderers: { types: [TYPE], slots: 10 } },
  // What a start is charged at least: with the timeout, it bounds how many others may go before a new key. Nobody saves up, either.
  fairness: { admissionFloorMs: 1_000, creditMs: 1 },
} as const satisfies PoolInput;

/**
 * How long the only job of a second key may wait, in ms: `starvationBoundMs` without the time in which later jobs of its own
 * key could overtake it, for there are none.
 */
export function quietBoundMs(): number {
  const configuration = resolveConfiguration(POOL);
  const job = { type: TYPE, fairnessKey: QUIET, mode: 'queued', priority: 0 } as const;
  const boundMs = starvationBoundMs(configuration, { ...job, activeKeys: 2, jobsAhead: 0 });
  return boundMs - overtakenForMs(job, configuration.score);
}

export interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The most of them that overlap at one instant. One that ends as another begins does not. */
export function mostAtOnce(intervals: readonly Interval[]): number {
  const edges = intervals.flatMap(({ fromMs, toMs }) => [
    { atMs: fromMs, by: 1 },
    { atMs: toMs, by: -1 },
  ]);
  edges.sort((one, other) => one.atMs - other.atMs || one.by - other.by);
  let running = 0;
  let most = 0;
  for (const { by } of edges) {
    running += by;
    most = Math.max(most, running);
  }
  return most;
}
