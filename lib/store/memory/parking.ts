/** Jobs that wait for their conflict key. */

import type { Job } from '../../core/job.ts';
import { blockedGroup, blockedRank, endOfGroup } from '../contract/lines.ts';
import type { ParkingStore } from '../contract/parking.ts';
import type { ParkedMark } from '../contract/records.ts';
import {
  type Applied,
  BLOCKED_HEADS,
  BLOCKED_READ,
  type Heads,
  NOBODY,
  type ParkOutcome,
} from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { blockedLineName } from '../table/schema.ts';
import type { MemoryItems } from './items.ts';
import { compareText } from './sorted-line.ts';

export class MemoryParkingStore implements ParkingStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async markParked({ partition, conflictKeys, nowMs }: RequestOf<'markParked'>): Promise<void> {
    return this.#items.write('markParked', () => {
      const { parked } = this.#items.partition(partition);
      for (const conflictKey of conflictKeys) {
        this.#items.bill.small('markParked', 'write');
        parked.set(conflictKey, Math.max(nowMs, parked.get(conflictKey) ?? -Infinity));
      }
    });
  }

  async readParked({ partition, conflictKeys }: RequestOf<'readParked'>): Promise<readonly ParkedMark[]> {
    return this.#items.read('readParked', () => {
      this.#items.bill.readItems('readParked', conflictKeys.length);
      const { parked } = this.#items.partition(partition);
      return [...new Set(conflictKeys)].flatMap((conflictKey) => {
        const parkedAtMs = parked.get(conflictKey);
        return parkedAtMs === undefined ? [] : [{ conflictKey, parkedAtMs }];
      });
    });
  }

  async listParked({ partition, limit, after }: RequestOf<'listParked'>): Promise<{
    readonly marks: readonly ParkedMark[];
    readonly next?: string | undefined;
  }> {
    return this.#items.read('listParked', () => {
      const { parked } = this.#items.partition(partition);
      const isBehind = (key: string): boolean => after === undefined || compareText(key, after) > 0;
      const keys = [...parked.keys()].filter(isBehind).sort(compareText);
      this.#items.bill.list('listParked', Math.min(keys.length, limit));
      const marks = keys
        .slice(0, limit)
        .map((conflictKey) => ({ conflictKey, parkedAtMs: parked.get(conflictKey) ?? 0 }));
      return { marks, ...(keys.length > limit ? { next: marks.at(-1)?.conflictKey } : {}) };
    });
  }

  async unmarkParked({
    partition,
    mark: { conflictKey, parkedAtMs },
  }: RequestOf<'unmarkParked'>): Promise<Applied> {
    return this.#items.write('unmarkParked', () => {
      this.#items.bill.small('unmarkParked', 'write');
      const { parked } = this.#items.partition(partition);
      const present = parked.get(conflictKey);
      if (present !== undefined && present !== parkedAtMs) return 'superseded';
      parked.delete(conflictKey);
      return 'applied';
    });
  }

  async readBlocked(request: RequestOf<'readBlocked'>): Promise<Heads> {
    const { partition, conflictKey, groups, butFor = NOBODY, after } = request;
    return this.#items.read('readBlocked', () => {
      const line = blockedLineName(partition, conflictKey);
      const jobs: Job[] = [];
      let from = after;
      const shown = from === undefined ? undefined : { rank: from, id: '' };
      this.#items.bill.readHeads(
        'readBlocked',
        this.#items.jobLines.read(line, BLOCKED_READ + butFor.size, shown),
      );
      for (let count = 0; count < groups; count += 1) {
        const start = from === undefined ? undefined : { rank: from, id: '' };
        const entries = this.#items.jobLines.read(line, BLOCKED_HEADS + butFor.size, start);
        const [first] = entries;
        if (first === undefined) return { jobs };
        const group = blockedGroup(first.value);
        const heads = entries.filter(({ rank, value: { id } }) => rank.startsWith(group) && !butFor.has(id));
        jobs.push(...heads.slice(0, BLOCKED_HEADS).map(({ value }) => value));
        from = endOfGroup(group);
      }
      const follows = this.#items.jobLines.read(
        line,
        1,
        from === undefined ? undefined : { rank: from, id: '' },
      );
      return follows.length === 0 ? { jobs } : { jobs, next: from };
    });
  }

  async park({ partition, version, jobs, conflictKey }: RequestOf<'park'>): Promise<ParkOutcome> {
    const parkAll = (): ParkOutcome => {
      const items = this.#items.partition(partition);
      if (items.summary.version !== version) {
        this.#items.bill.raisedPage('park', partition, items.summary);
        return { kind: 'lost' };
      }
      const outcomes = jobs.map(({ id, version: jobVersion }): Applied => {
        const item = this.#items.item(id);
        if (item?.value.state !== 'pending' || item.value.version !== jobVersion) {
          this.#items.bill.refused('park', item);
          return 'superseded';
        }
        const { rank } = this.#items.place(item.value);
        const line = blockedLineName(item.value.partition, conflictKey);
        this.#items.put(item, item.value, undefined, { line, rank: blockedRank(item.value, rank) });
        this.#items.observe?.({ kind: 'parked', jobId: id });
        return 'applied';
      });
      if (outcomes.includes('applied')) {
        // planted: parked-at-the-same-version
        items.summary = { ...items.summary, version: version + 1 };
        this.#items.bill.raisedPage('park', partition, items.summary);
      }
      return { kind: 'parked', version: items.summary.version, outcomes };
    };
    return this.#items.write('park', () => this.#items.bill.inTransaction('park', parkAll));
  }

  async unpark({ jobs, conflictKey }: RequestOf<'unpark'>): Promise<readonly Applied[]> {
    return this.#items.write('unpark', () =>
      jobs.map(({ id, version }): Applied => {
        const item = this.#items.item(id);
        const isParked =
          item?.value.state === 'pending' &&
          item.value.version === version &&
          item.line === blockedLineName(item.value.partition, conflictKey);
        if (item === undefined || !isParked) {
          this.#items.bill.refused('unpark', item);
          return 'superseded';
        }
        this.#items.put(item, item.value, undefined, this.#items.readyStanding(item.value));
        this.#items.observe?.({ kind: 'unparked', jobId: id });
        return 'applied';
      }),
    );
  }
}
