/**
 * Statistics of one minute of a partition: counts of attempts, and their times as histograms. Counts of several partitions or minutes add
 * up, histograms included.
 */

export const MINUTE_MS = 60_000;

/**
 * How many times fell into each bucket; a bucket that is missing at the end has none. Bucket 0 holds 0 ms. Bucket b holds the times from
 * 2^((b-1)/2) ms to less than 2^(b/2) ms, so a time is known to a factor of 1.4.
 */
export type Histogram = readonly number[];

/** The last bucket begins at 25 days. */
export const HISTOGRAM_BUCKETS = 64;

/** The counted events of attempts. A dispatcher need not see each submit, so submits are not counted. */
export const COUNTED = ['admitted', 'succeeded', 'failed', 'cancelled', 'again'] as const;

export interface MinuteCounts {
  /** Epoch ms at which the minute begins, by the dispatchers' clocks. */
  readonly minuteMs: number;
  /** Jobs that were given a slot. */
  readonly admitted: number;
  /** Attempts whose job ended with them, by its state. */
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
  /** Attempts whose job will run again: it failed, lost its worker, or was parked. */
  readonly again: number;
  /** From when a job was ready until it was given a slot. */
  readonly waits: Histogram;
  /** From the start of an attempt to its end. */
  readonly runs: Histogram;
}

/** The first instant of a minute. */
export const minuteOf = (atMs: number): number => Math.floor(atMs / MINUTE_MS) * MINUTE_MS;

export const noCounts = (minuteMs: number): MinuteCounts => ({
  minuteMs,
  admitted: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  again: 0,
  waits: [],
  runs: [],
});

export const bucketOf = (ms: number): number =>
  ms < 1 ? 0 : Math.min(HISTOGRAM_BUCKETS - 1, 1 + Math.floor(2 * Math.log2(ms)));

/** The least time of a bucket, in ms. */
export const bucketFromMs = (bucket: number): number => (bucket === 0 ? 0 : 2 ** ((bucket - 1) / 2));

export function histogramOf(timesMs: readonly number[]): Histogram {
  const counts: number[] = [];
  for (const ms of timesMs) {
    const bucket = bucketOf(ms);
    while (counts.length <= bucket) counts.push(0);
    counts[bucket] = (counts[bucket] ?? 0) + 1;
  }
  return counts;
}

export const addHistograms = (one: Histogram, other: Histogram): Histogram =>
  Array.from({ length: Math.max(one.length, other.length) }, (_, at) => (one[at] ?? 0) + (other[at] ?? 0));

/** The sum of both, under the minute of the first. */
export const sumOf = (one: MinuteCounts, other: MinuteCounts): MinuteCounts => ({
  minuteMs: one.minuteMs,
  admitted: one.admitted + other.admitted,
  succeeded: one.succeeded + other.succeeded,
  failed: one.failed + other.failed,
  cancelled: one.cancelled + other.cancelled,
  again: one.again + other.again,
  waits: addHistograms(one.waits, other.waits),
  runs: addHistograms(one.runs, other.runs),
});

/**
 * The counts of a partition's minute after more were counted. A later minute replaces an earlier one. Counts by a clock that is behind
 * belong to the minute that has begun.
 */
export function countedWith(
  counted: MinuteCounts | undefined,
  more: MinuteCounts | undefined,
): MinuteCounts | undefined {
  if (more === undefined) return counted;
  return counted === undefined || counted.minuteMs < more.minuteMs ? more : sumOf(counted, more);
}

/**
 * The time below which this part of all times lies, in ms; undefined: there is none. Times are taken as evenly spread within their bucket.
 *
 * @param part - from 0 to 1
 */
export function quantileMs(histogram: Histogram, part: number): number | undefined {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  let left = part * total;
  for (const [bucket, count] of histogram.entries()) {
    if (left > count || count === 0) {
      left -= count;
      continue;
    }
    const fromMs = bucketFromMs(bucket);
    return bucket === 0 ? 0 : fromMs + (left / count) * (bucketFromMs(bucket + 1) - fromMs);
  }
  return bucketFromMs(histogram.length);
}
