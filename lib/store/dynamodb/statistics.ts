/** The counts of past minutes. */

import type { MinuteCounts } from '../../core/statistics.ts';
import type { Applied } from '../contract/requests.ts';
import type { StatisticsStore } from '../contract/statistics.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE } from '../table/codec/attributes.ts';
import { decodeStatistics, encodeStatistics } from '../table/codec/statistics.ts';
import { statisticsKey, statisticsPk } from '../table/schema.ts';
import type { TableItems } from './items.ts';

export class DynamoStatisticsStore implements StatisticsStore {
  readonly #items: TableItems;

  constructor(items: TableItems) {
    this.#items = items;
  }

  async putStatistics({ partition, version, counts }: RequestOf<'putStatistics'>): Promise<Applied> {
    const item = encodeStatistics(partition, version, counts);
    const outcome = await this.#items.table.put('putStatistics', {
      item,
      // planted: minute-of-any-version
      condition: 'attribute_not_exists(#pk) OR #version < :version',
      values: { ':version': version },
    });
    // A repeated request finds the item that it wrote itself: a version of the partition has the same counts for all.
    return outcome.applied || outcome.old?.[ATTRIBUTE.version] === version ? 'applied' : 'superseded';
  }

  async readStatistics(request: RequestOf<'readStatistics'>): Promise<readonly MinuteCounts[]> {
    const { partition, fromMs, toMs, limit } = request;
    const { items } = await this.#items.upTo(limit, 'readStatistics', {
      condition: '#pk = :pk AND #sk BETWEEN :from AND :to',
      values: {
        ':pk': statisticsPk(partition),
        ':from': statisticsKey(partition, fromMs).sk,
        ':to': statisticsKey(partition, toMs - 1).sk,
      },
    });
    return this.#items.readable(partition, items, decodeStatistics);
  }
}
