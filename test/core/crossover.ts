/** When one job's score overtakes another's. Source: affinity-scoring, "The formula". */
import type { ScoreLine } from '../../lib/core/score.ts';

/**
 * When `a`, ageing from 0, ties with `b`: seconds, or undefined if it never does (it is ahead from the start, or gains nothing).
 * `b` is a job of the fixed age `bAgeSec` whenever it is compared (`fixed`), or ages with `a` (`together`).
 */
export function crossoverSec(
  a: ScoreLine,
  b: ScoreLine,
  kind: 'fixed' | 'together',
  bAgeSec = 0,
): number | undefined {
  const gap = b.startPoints + b.pointsPerSec * bAgeSec - a.startPoints;
  const gain = kind === 'fixed' ? a.pointsPerSec : a.pointsPerSec - b.pointsPerSec;
  if (gap < 0 || gain <= 0) return undefined;
  return gap / gain;
}
