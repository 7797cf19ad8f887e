/** The past hour, as the statistics of each minute show it. */
import {
  addHistograms,
  type Histogram,
  MINUTE_MS,
  type MinuteCounts,
  minuteOf,
  quantileMs,
} from '../../core/statistics.ts';
import type { StatisticsView } from '../../operate/statistics.ts';

/** One read of each partition, and of its minutes. */
export const STATISTICS_EVERY_MS = 60_000;
/** The headline is about as many minutes: few enough to show a change, enough for a quantile. */
const RECENT_MINUTES = 5;

export interface Delays {
  /** How many jobs were given a slot. */
  readonly jobs: number;
  /** Half of them waited no longer; undefined: there are none. */
  readonly medianMs?: number | undefined;
  readonly p95Ms?: number | undefined;
}

function delaysIn(minutes: readonly MinuteCounts[]): Delays {
  const waits = minutes.reduce<Histogram>((sum, each) => addHistograms(sum, each.waits), []);
  return {
    jobs: minutes.reduce((sum, { admitted }) => sum + admitted, 0),
    medianMs: quantileMs(waits, 0.5),
    p95Ms: quantileMs(waits, 0.95),
  };
}

export const delaysOf = ({ minutes }: StatisticsView): Delays => delaysIn(minutes);

export const recentDelays = ({ minutes, toMs }: StatisticsView): Delays =>
  delaysIn(minutes.filter(({ minuteMs }) => minuteMs > toMs - (RECENT_MINUTES + 1) * MINUTE_MS));

export const RECENT_TEXT = `the last ${RECENT_MINUTES} minutes`;

/** One point of the charts. */
export interface MinutePoint {
  readonly atSec: number;
  /** null: no job was given a slot. */
  readonly medianSec: number | null;
  readonly p95Sec: number | null;
  readonly admitted: number;
  readonly ended: number;
  readonly failed: number;
}

const secondsOf = (ms: number | undefined): number | null =>
  ms === undefined ? null : Math.round(ms / 10) / 100;

/** A point for each minute, also for those in which nothing was counted. */
export function pointsOf({ minutes, fromMs, toMs }: StatisticsView): readonly MinutePoint[] {
  const byMinute = new Map(minutes.map((each) => [each.minuteMs, each]));
  const points: MinutePoint[] = [];
  for (let minuteMs = minuteOf(fromMs); minuteMs < toMs; minuteMs += MINUTE_MS) {
    const counts = byMinute.get(minuteMs);
    const { medianMs, p95Ms } = delaysIn(counts === undefined ? [] : [counts]);
    points.push({
      atSec: minuteMs / 1_000,
      medianSec: secondsOf(medianMs),
      p95Sec: secondsOf(p95Ms),
      admitted: counts?.admitted ?? 0,
      ended: (counts?.succeeded ?? 0) + (counts?.failed ?? 0) + (counts?.cancelled ?? 0),
      failed: counts?.failed ?? 0,
    });
  }
  return points;
}
