/** Encodes and decodes the counts of a minute: as a text in the partition summary, and as an item of its own. */
import {
  COUNTED,
  HISTOGRAM_BUCKETS,
  type Histogram,
  MINUTE_MS,
  type MinuteCounts,
} from '../../../core/statistics.ts';
import { STATISTICS_TTL_MS } from '../../contract/bounds.ts';
import { statisticsKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, ttlSec } from './cells.ts';

/** The number of the first bucket that has any, and the counts from there on: times of one minute fall into few buckets. */
function rowOf(histogram: Histogram): readonly number[] {
  const first = histogram.findIndex((count) => count > 0);
  return first === -1 ? [] : [first, ...histogram.slice(first)];
}

function histogramOfRow([first, ...counts]: readonly number[]): Histogram {
  const histogram = first === undefined ? [] : [...new Array<number>(first).fill(0), ...counts];
  const isSound = histogram.every((count) => Number.isSafeInteger(count) && count >= 0);
  if (!isSound || histogram.length > HISTOGRAM_BUCKETS) throw new TypeError('histogram');
  return histogram;
}

export const packCounts = (counts: MinuteCounts): string =>
  JSON.stringify([
    counts.minuteMs / MINUTE_MS,
    COUNTED.map((name) => counts[name]),
    rowOf(counts.waits),
    rowOf(counts.runs),
  ]);

export function unpackCounts(packed: unknown): MinuteCounts {
  const [minute, counts, waits, runs] = packed as readonly [
    number,
    readonly number[],
    readonly number[],
    readonly number[],
  ];
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
  if (!isCount(minute) || counts.length !== COUNTED.length || !counts.every(isCount))
    throw new TypeError('counts');
  const [admitted = 0, succeeded = 0, failed = 0, cancelled = 0, again = 0] = counts;
  return {
    minuteMs: minute * MINUTE_MS,
    admitted,
    succeeded,
    failed,
    cancelled,
    again,
    waits: histogramOfRow(waits),
    runs: histogramOfRow(runs),
  };
}

export const encodeStatistics = (partition: number, version: number, counts: MinuteCounts): Item => ({
  ...statisticsKey(partition, counts.minuteMs),
  [A.version]: version,
  [A.counted]: packCounts(counts),
  [A.ttl]: ttlSec(counts.minuteMs + STATISTICS_TTL_MS),
});

export const decodeStatistics = (item: Item): MinuteCounts => cellsOf(item).packed(A.counted, unpackCounts);
