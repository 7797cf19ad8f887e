/** The waiting jobs of a partition, the keys that have them, and their costs. */

import type { Job, MovingJob } from '../../core/job.ts';
import { promote } from '../../core/life-cycle.ts';
import type { LineStore } from '../contract/core.ts';
import type { EstimateRecord, KeyBacklog, Ledger } from '../contract/records.ts';
import type { Heads } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { dueLineName, instantRank, keysLineName, lineNameOf } from '../table/schema.ts';
import { withoutLine } from './backlogs.ts';
import { estimateId, headsOf, type MemoryItems, tokenOf } from './items.ts';

export class MemoryLineStore implements LineStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async readKeys({ partition, type, limit, after }: RequestOf<'readKeys'>): Promise<{
    readonly keys: readonly KeyBacklog[];
    readonly next?: string | undefined;
  }> {
    return this.#items.read('readKeys', () => {
      const { entries, next } = headsOf(this.#items.keyLines, keysLineName(partition, type), limit, after);
      this.#items.bill.readKeys('readKeys', partition, type, entries);
      // If a line was read to its end, all its keys are known, and their order does not matter.
      if (next !== undefined)
        for (const { rank, value } of entries) this.#items.keyRanks.sawKey(partition, type, value, rank);
      return { keys: entries.map((entry) => entry.value), next };
    });
  }

  async readBacklogs({
    partition,
    type,
    fairnessKeys,
  }: RequestOf<'readBacklogs'>): Promise<readonly (KeyBacklog | undefined)[]> {
    return this.#items.read('readBacklogs', () => {
      const { backlogs } = this.#items.partition(partition);
      this.#items.bill.readBacklogsOf(partition, type, fairnessKeys, backlogs);
      return fairnessKeys.map((key) => backlogs.get(key)?.get(type)?.value);
    });
  }

  async getLedgers({
    partition,
    fairnessKeys,
  }: RequestOf<'getLedgers'>): Promise<readonly (Ledger | undefined)[]> {
    return this.#items.read('getLedgers', () => {
      const { summary, ownLedgers } = this.#items.partition(partition);
      const ledgers = fairnessKeys.map((key) => summary.ledgers.get(key) ?? ownLedgers.get(key));
      const readUnits = this.#items.bill.readLedgers(partition, fairnessKeys, summary, ownLedgers);
      this.#items.keyRanks.readLedgers(partition, ledgers, readUnits);
      return ledgers;
    });
  }

  async getEstimates({
    partition,
    ids,
  }: RequestOf<'getEstimates'>): Promise<readonly (EstimateRecord | undefined)[]> {
    return this.#items.read('getEstimates', () => {
      const { summary, ownEstimates } = this.#items.partition(partition);
      this.#items.bill.readEstimates(partition, ids, summary, ownEstimates);
      return ids.map(
        ({ type, resourceId }) =>
          (resourceId === '' ? summary.estimates.get(type) : undefined) ??
          ownEstimates.get(estimateId(type, resourceId)),
      );
    });
  }

  async readLine({ partition, line, limit, after }: RequestOf<'readLine'>): Promise<Heads> {
    return this.#items.read('readLine', () => {
      return this.#items.headsOf('readLine', lineNameOf(partition, line), limit, after);
    });
  }

  async readDue({ partition, nowMs, limit, after, fromMs }: RequestOf<'readDue'>): Promise<Heads> {
    return this.#items.read('readDue', () => {
      const isDue = (job: Job): boolean => job.runAtMs <= nowMs;
      const from = fromMs === undefined ? after : tokenOf({ rank: instantRank(fromMs, ''), id: '' });
      return this.#items.headsOf('readDue', dueLineName(partition), limit, from, isDue);
    });
  }

  async promote({ jobs, nowMs }: RequestOf<'promote'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#items.write('promote', () =>
      jobs.map((job) => {
        const item = this.#items.item(job.id);
        // planted: promote-version
        const transition = item?.value.version === job.version ? promote(item.value, nowMs) : undefined;
        if (transition?.kind === 'moved') return this.#items.put(item, transition.job);
        this.#items.bill.refused('promote', item);
        return undefined;
      }),
    );
  }

  async retireLine({ partition, line, announcedAtMs }: RequestOf<'retireLine'>): Promise<'retired' | 'lost'> {
    return this.#items.write('retireLine', () => {
      const { backlogs } = this.#items.partition(partition);
      const present = backlogs.get(line.fairnessKey)?.get(line.type)?.value;
      if (present === undefined) return 'retired';
      const left = withoutLine(present, line);
      if (left.lines.length === present.lines.length) return 'retired';
      if (present.announcedAtMs > announcedAtMs) return 'lost';
      // DynamoDB's first write, which requires that the key has no other line of the type, has failed.
      if (left.lines.length > 0) this.#items.bill.small('retireLine', 'write');
      this.#items.putBacklog(partition, line.type, left);
      return 'retired';
    });
  }
}
