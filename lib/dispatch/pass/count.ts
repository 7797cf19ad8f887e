/** Part of the settle and admit steps: counts ends and admissions for the statistics of the minute, if the pool keeps them. */

import type { Decision } from '../../core/scheduler.ts';
import { histogramOf, type MinuteCounts, minuteOf, noCounts } from '../../core/statistics.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { Settled } from '../view/settled.ts';

type Counting = Pick<DispatchContext, 'configuration'>;

/**
 * Returns a function that counts one ended attempt. It returns undefined if statistics are off, the claim was never made, or the job
 * has expired.
 */
export const counterOfEnds =
  ({ configuration }: Counting, nowMs: number) =>
  ({ state, durationMs }: Settled): MinuteCounts | undefined => {
    // An expired job has not run.
    if (configuration.statistics !== true || state === undefined || state === 'expired') return undefined;
    const isEnd = state === 'succeeded' || state === 'failed' || state === 'cancelled';
    return {
      ...noCounts(minuteOf(nowMs)),
      [isEnd ? state : 'again']: 1,
      runs: durationMs === undefined ? [] : histogramOf([durationMs]),
    };
  };

/** Counts admitted jobs. */
export function countOfAdmitted(
  { configuration }: Counting,
  decisions: readonly Decision[],
  nowMs: number,
): MinuteCounts | undefined {
  if (configuration.statistics !== true || decisions.length === 0) return undefined;
  return {
    ...noCounts(minuteOf(nowMs)),
    admitted: decisions.length,
    waits: histogramOf(decisions.map(({ readyAtMs }) => nowMs - readyAtMs)),
  };
}
