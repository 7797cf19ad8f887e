/** Jobs that wait for their conflict key. */

import { randomUUID } from 'node:crypto';
import { TRANSACTION_ITEMS_MAX } from '../contract/bounds.ts';
import type { JobHead } from '../contract/job-fields.ts';
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
import { ATTRIBUTE } from '../table/codec/attributes.ts';
import { decodeJobHead } from '../table/codec/job.ts';
import { decodeParkedMark, encodeParkedMark } from '../table/codec/parking.ts';
import { blockedLineName, jobKey, parkedKey, parkedPk, summaryKey } from '../table/schema.ts';
import { EMPTY_SUMMARY } from '../table/summary.ts';
import type { DynamoConnection, TransactionPart } from './connection.ts';
import { PARALLEL_MAX, SUMMARY_PART, standingValues, stateValues, versionValues } from './expressions.ts';
import type { TableItems } from './items.ts';
import { chunksOf, inParallel } from './parallel.ts';
import { type DynamoPartitionStore, summaryAfter } from './partition.ts';

const PARK_TRIES_MAX = 3;

export class DynamoParkingStore implements ParkingStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;
  readonly #partitions: DynamoPartitionStore;

  constructor(items: TableItems, partitions: DynamoPartitionStore) {
    this.#items = items;
    this.#partitions = partitions;
    this.#table = items.table;
  }

  async markParked({ partition, conflictKeys, nowMs }: RequestOf<'markParked'>): Promise<void> {
    await inParallel(conflictKeys, PARALLEL_MAX, async (conflictKey) => {
      // The time never goes back: another call may have written a later one.
      await this.#table.put('markParked', {
        item: encodeParkedMark(partition, { conflictKey, parkedAtMs: nowMs }),
        condition: 'attribute_not_exists(#pk) OR #parkedAtMs < :now',
        values: { ':now': nowMs },
      });
    });
  }

  async readParked({ partition, conflictKeys }: RequestOf<'readParked'>): Promise<readonly ParkedMark[]> {
    const keys = [...new Set(conflictKeys)].map((conflictKey) => parkedKey(partition, conflictKey));
    const found = await this.#items.getAll('readParked', keys, decodeParkedMark);
    return found.filter((mark) => mark !== undefined);
  }

  async listParked({ partition, limit, after }: RequestOf<'listParked'>): Promise<{
    readonly marks: readonly ParkedMark[];
    readonly next?: string | undefined;
  }> {
    const pk = parkedPk(partition);
    const { items, last } = await this.#items.upTo(limit, 'listParked', {
      condition: '#pk = :pk',
      values: { ':pk': pk },
      after: after === undefined ? undefined : { [ATTRIBUTE.pk]: pk, [ATTRIBUTE.sk]: after },
    });
    const next = last === undefined ? {} : { next: String(last[ATTRIBUTE.sk]) };
    return { marks: items.map(decodeParkedMark), ...next };
  }

  async unmarkParked({
    partition,
    mark: { conflictKey, parkedAtMs },
  }: RequestOf<'unmarkParked'>): Promise<Applied> {
    const outcome = await this.#table.delete(
      'unmarkParked',
      parkedKey(partition, conflictKey),
      'attribute_not_exists(#pk) OR #parkedAtMs = :parkedAtMs',
      { ':parkedAtMs': parkedAtMs },
    );
    return outcome.applied ? 'applied' : 'superseded';
  }

  async readBlocked(request: RequestOf<'readBlocked'>): Promise<Heads> {
    const { partition, conflictKey, groups, butFor = NOBODY, after } = request;
    const line = blockedLineName(partition, conflictKey);
    const jobs: JobHead[] = [];
    let from = after;
    let found = 0;
    // A read mostly shows several groups of the line whole. If it ends within a group of which it has shown a waiting job, the next
    // read begins behind that group.
    for (;;) {
      const limit = BLOCKED_READ + butFor.size;
      const { items, next } = await this.#items.heads('readBlocked', line, limit, undefined, { above: from });
      const read = await this.#items.readable(partition, items, decodeJobHead);
      const byGroup = Map.groupBy(read, (job) => blockedGroup(job));
      const last = next === undefined ? undefined : read.at(-1);
      for (const [group, heads] of byGroup) {
        if (found === groups) return { jobs, next: from };
        const waiting = heads.filter(({ id }) => !butFor.has(id));
        // The read has shown no waiting job of its last group, and others may follow, so the next read begins at that group again.
        if (waiting.length === 0 && byGroup.size > 1 && last !== undefined && group === blockedGroup(last))
          break;
        jobs.push(...waiting.slice(0, BLOCKED_HEADS));
        found += 1;
        from = endOfGroup(group);
      }
      // If no job of this query can be decoded, it is unknown behind which group to continue, so `readBlocked` ends here
      // without a cursor.
      if (next === undefined || byGroup.size === 0) return { jobs };
    }
  }

  async park({ partition, version, jobs, conflictKey }: RequestOf<'park'>): Promise<ParkOutcome> {
    const outcomes = new Map<string, Applied>();
    let present = version;
    for (const chunk of chunksOf(jobs, TRANSACTION_ITEMS_MAX - 1)) {
      let left = chunk;
      // A job that has changed makes DynamoDB refuse the transaction; the other jobs are tried again without it.
      for (let tries = 1; left.length > 0 && tries <= PARK_TRIES_MAX; tries += 1) {
        const outcome = await this.#table.transact('park', randomUUID(), [
          this.#raisePart(partition, present),
          ...left.map((job) => this.#parkPart(job, conflictKey)),
        ]);
        if (outcome.applied) {
          this.#partitions.raised(partition, present);
          present += 1;
          for (const { id } of left) outcomes.set(id, 'applied');
          break;
        }
        if (outcome.refused.has(SUMMARY_PART)) return { kind: 'lost' };
        left = left.filter((_, at) => !outcome.refused.has(at + 1));
      }
    }
    const parked = jobs.map(({ id }) => outcomes.get(id) ?? 'superseded');
    return { kind: 'parked', version: present, outcomes: parked };
  }

  /** Raises the version of the partition summary and changes nothing else. */
  #raisePart(partition: number, version: number): TransactionPart {
    if (version === 0)
      return this.#table.putPart(summaryAfter(partition, { ...EMPTY_SUMMARY, version: 1 }, ''));
    return this.#table.updatePart({
      key: summaryKey(partition),
      // planted: parked-at-the-same-version-2
      update: 'SET #version = :next',
      condition: '#version = :version',
      values: versionValues(version),
    });
  }

  #parkPart(job: JobHead, conflictKey: string): TransactionPart {
    const { rank } = this.#items.place(job);
    return this.#table.updatePart({
      key: jobKey(job.id),
      update: 'SET #line = :line, #rank = :rank',
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('pending'),
        ':version': job.version,
        ':line': blockedLineName(job.partition, conflictKey),
        ':rank': blockedRank(job, rank),
      },
    });
  }

  async unpark({ jobs, conflictKey }: RequestOf<'unpark'>): Promise<readonly Applied[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job): Promise<Applied> => {
      const outcome = await this.#table.update('unpark', {
        key: jobKey(job.id),
        update: 'SET #line = :line, #rank = :rank',
        condition: '#state = :pending AND #version = :version AND #line = :blocked',
        values: {
          ...stateValues('pending'),
          ':version': job.version,
          ':blocked': blockedLineName(job.partition, conflictKey),
          ...standingValues(this.#items.readyStanding(job)),
        },
      });
      return outcome.applied ? 'applied' : 'superseded';
    });
  }
}
