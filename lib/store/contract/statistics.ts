/**
 * Statistics: an item for each partition and minute in which something happened. The counts of the running minute stand in the partition, where
 * each commit adds its own. Without this capability nothing shows how waits and throughput were a while ago.
 */
import type { MinuteCounts } from '../../core/statistics.ts';
import type { Applied } from './requests.ts';

export interface StatisticsStore {
  /**
   * Stores the counts of a minute as a version of the partition showed them, fenced by that version: counts of an earlier version change
   * nothing.
   */
  putStatistics(request: {
    readonly partition: number;
    readonly version: number;
    readonly counts: MinuteCounts;
  }): Promise<Applied>;
  /**
   * Reads the minutes that begin at `fromMs` or later and before `toMs`, the earliest first, at most `limit` of them. A minute that has
   * expired may still be among them.
   */
  readStatistics(request: {
    readonly partition: number;
    readonly fromMs: number;
    readonly toMs: number;
    readonly limit: number;
  }): Promise<readonly MinuteCounts[]>;
}
