/** The counts of past minutes. */

import type { MinuteCounts } from '../../core/statistics.ts';
import type { Applied } from '../contract/requests.ts';
import type { StatisticsStore } from '../contract/statistics.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { encodeStatistics } from '../table/codec/statistics.ts';
import { requireItemFits } from '../table/limits.ts';
import type { MemoryItems } from './items.ts';

export class MemoryStatisticsStore implements StatisticsStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async putStatistics({ partition, version, counts }: RequestOf<'putStatistics'>): Promise<Applied> {
    const item = encodeStatistics(partition, version, counts);
    requireItemFits(item);
    return this.#items.write('putStatistics', () => {
      const { statistics } = this.#items.partition(partition);
      const present = statistics.get(counts.minuteMs);
      const before = present && encodeStatistics(partition, present.version, present.counts);
      // planted: minute-of-any-version-2
      if (present !== undefined && present.version >= version) {
        this.#items.bill.wroteItem('putStatistics', before, before);
        return present.version === version ? 'applied' : 'superseded';
      }
      this.#items.bill.wroteItem('putStatistics', before, item);
      statistics.set(counts.minuteMs, { version, counts });
      return 'applied';
    });
  }

  async readStatistics(request: RequestOf<'readStatistics'>): Promise<readonly MinuteCounts[]> {
    const { partition, fromMs, toMs, limit } = request;
    return this.#items.read('readStatistics', () => {
      const found = [...this.#items.partition(partition).statistics.values()]
        .map(({ counts }) => counts)
        .filter(({ minuteMs }) => minuteMs >= fromMs && minuteMs < toMs)
        .sort((one, other) => one.minuteMs - other.minuteMs)
        .slice(0, limit);
      this.#items.bill.list('readStatistics', found.length);
      return found;
    });
  }
}
