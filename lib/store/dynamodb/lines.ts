/** The waiting jobs of a partition, the keys that have them, and their costs. */

import type { MovingJob } from '../../core/job.ts';
import { RETIRED_KEPT_MS } from '../contract/bounds.ts';
import type { LineStore } from '../contract/core.ts';
import type { EstimateRecord, KeyBacklog, Ledger } from '../contract/records.ts';
import type { Heads } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { CLOSE_KEYS_MIN } from '../table/close-reads.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { decodeBacklog, encodeBacklogLine, lineNamesOf } from '../table/codec/backlog.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeEstimate } from '../table/codec/estimate.ts';
import { decodeJobHead, decodeMovingJob } from '../table/codec/job.ts';
import { decodeLedger } from '../table/codec/ledger.ts';
import { decodeSummary, matchesSnapshot } from '../table/codec/summary.ts';
import {
  backlogKey,
  dueLineName,
  estimateKey,
  instantRank,
  jobKey,
  keysLineName,
  ledgerKey,
  ledgerPk,
  lineNameOf,
  summaryKey,
} from '../table/schema.ts';
import { EMPTY_SUMMARY, type PartitionSummary } from '../table/summary.ts';
import type { DynamoConnection } from './connection.ts';
import { PARALLEL_MAX, standingValues, stateValues, versionValues } from './expressions.ts';
import { type TableItems, untilWhole } from './items.ts';
import { inParallel } from './parallel.ts';

const RETIRE_TRIES_MAX = 3;

export class DynamoLineStore implements LineStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async readKeys({ partition, type, limit, after }: RequestOf<'readKeys'>): Promise<{
    readonly keys: readonly KeyBacklog[];
    readonly next?: string | undefined;
  }> {
    const { items, next } = await this.#items.heads('readKeys', keysLineName(partition, type), limit, after);
    const keys = await this.#items.readable(partition, items, (item) => {
      const backlog = decodeBacklog(item);
      // If a line was read to its end, all its keys are known, and their order does not matter.
      if (next !== undefined) {
        this.#items.keyRanks.sawKey(partition, type, backlog, String(item[ATTRIBUTE.rank]));
      }
      return backlog;
    });
    return { keys, next };
  }

  async readBacklogs({
    partition,
    type,
    fairnessKeys,
  }: RequestOf<'readBacklogs'>): Promise<readonly (KeyBacklog | undefined)[]> {
    if (fairnessKeys.length === 0) return [];
    const sortKeys = fairnessKeys.map((key) => backlogKey(partition, type, key).sk);
    const { items } = await this.#items.getClose('readBacklogs', ledgerPk(partition), sortKeys);
    // A backlog without lines is kept for a while after its last line was retired.
    const standing = items.map((item) => (item?.[ATTRIBUTE.line] === undefined ? undefined : item));
    return this.#items.readableEach(partition, standing, decodeBacklog);
  }

  async getLedgers({
    partition,
    fairnessKeys,
  }: RequestOf<'getLedgers'>): Promise<readonly (Ledger | undefined)[]> {
    if (fairnessKeys.length === 0) return [];
    const sortKeys = fairnessKeys.map((key) => ledgerKey(partition, key).sk);
    const { summary, found, readUnits } = await untilWhole(() =>
      this.#getWithSummary('getLedgers', partition, sortKeys, decodeLedger),
    );
    const ledgers = fairnessKeys.map((key, at) => summary.ledgers.get(key) ?? found[at]);
    this.#items.keyRanks.readLedgers(partition, ledgers, readUnits / ledgers.length);
    return ledgers;
  }

  async getEstimates({
    partition,
    ids,
  }: RequestOf<'getEstimates'>): Promise<readonly (EstimateRecord | undefined)[]> {
    if (ids.length === 0) return [];
    const sortKeys = ids.map(({ type, resourceId }) => estimateKey(partition, type, resourceId).sk);
    // Estimates of single resources are never in the partition summary.
    if (ids.every(({ resourceId }) => resourceId !== '')) {
      const { items } = await this.#items.getClose('getEstimates', ledgerPk(partition), sortKeys);
      return this.#items.readableEach(partition, items, decodeEstimate);
    }
    const { summary, found } = await this.#getWithSummary(
      'getEstimates',
      partition,
      sortKeys,
      decodeEstimate,
    );
    return ids.map(
      ({ type, resourceId }, at) =>
        (resourceId === '' ? summary.estimates.get(type) : undefined) ?? found[at],
    );
  }

  /**
   * Reads the partition summary, then items. A value that moves from the summary to its own item between the reads is thus found twice,
   * never missed.
   */
  async #getWithSummary<T>(
    verb: 'getLedgers' | 'getEstimates',
    partition: number,
    sortKeys: readonly string[],
    decode: (item: Item) => T,
  ): Promise<{
    readonly summary: PartitionSummary;
    readonly staleSummary: Item | undefined;
    readonly found: readonly (T | undefined)[];
    /** The read units of the items, without those of the summary. */
    readonly readUnits: number;
  }> {
    const pk = ledgerPk(partition);
    const isMany = sortKeys.length >= CLOSE_KEYS_MIN;
    const few = isMany ? [] : sortKeys.map((sk) => ({ pk, sk }));
    const [summary, ...others] = await this.#items.getAll(
      verb,
      [summaryKey(partition), ...few],
      (item) => item,
    );
    const base =
      summary === undefined || verb === 'getEstimates'
        ? undefined
        : await this.#items.baseOf(verb, partition, summary);
    const { items, readUnits } = isMany
      ? await this.#items.getClose(verb, pk, sortKeys)
      : { items: others, readUnits: few.length };
    return {
      summary: summary === undefined ? EMPTY_SUMMARY : decodeSummary(summary, base),
      staleSummary: summary === undefined || matchesSnapshot(summary, base) ? undefined : summary,
      // A ledger or an estimate that cannot be read counts as missing: the next write replaces it.
      found: await this.#items.readableEach(partition, items, decode),
      readUnits,
    };
  }

  async readLine({ partition, line, limit, after }: RequestOf<'readLine'>): Promise<Heads> {
    const { items, next } = await this.#items.heads('readLine', lineNameOf(partition, line), limit, after);
    return { jobs: await this.#items.readable(partition, items, decodeJobHead), next };
  }

  async readDue({ partition, nowMs, limit, after, fromMs }: RequestOf<'readDue'>): Promise<Heads> {
    // DynamoDB refuses a range that ends before it begins.
    if (fromMs !== undefined && fromMs > nowMs) return { jobs: [] };
    const { items, next } = await this.#items.heads('readDue', dueLineName(partition), limit, after, {
      // The lowest rank of the next millisecond: all due jobs are below it.
      below: instantRank(Math.floor(nowMs) + 1, ''),
      from: fromMs === undefined ? undefined : instantRank(fromMs, ''),
    });
    return { jobs: await this.#items.readable(partition, items, decodeJobHead), next };
  }

  async promote({ jobs, nowMs }: RequestOf<'promote'>): Promise<readonly (MovingJob | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const outcome = await this.#table.update('promote', {
        key: jobKey(job.id),
        update: 'SET #state = :pending, #version = :next, #line = :line, #rank = :rank',
        condition: '#state = :scheduled AND #version = :version AND #runAtMs <= :now',
        values: {
          ...stateValues('pending', 'scheduled'),
          ':now': nowMs,
          ...versionValues(job.version),
          ...standingValues(this.#items.readyStanding(job)),
        },
      });
      if (!outcome.applied) return undefined;
      const [promoted] = await this.#items.readable(job.partition, [outcome.item], decodeMovingJob);
      return promoted;
    });
  }

  async retireLine({ partition, line, announcedAtMs }: RequestOf<'retireLine'>): Promise<'retired' | 'lost'> {
    const key = backlogKey(partition, line.type, line.fairnessKey);
    const name = encodeBacklogLine(line);
    const values = { ':announced': announcedAtMs, ':name': name, ':one': 1 };
    const isQuiet = '#announcedAtMs <= :announced AND contains(#lines, :name)';
    // Most keys have one line of a type. An announcement between the two writes can turn the last line into one of several, and a
    // retirement the reverse.
    for (let tries = 1; tries <= RETIRE_TRIES_MAX; tries += 1) {
      const last = await this.#table.update('retireLine', {
        key,
        update: 'SET #ttl = :ttl REMOVE #lines, #line, #rank',
        // planted: retired-with-others
        condition: `${isQuiet} AND size(#lines) = :one`,
        values: { ...values, ':ttl': ttlSec(announcedAtMs + RETIRED_KEPT_MS) },
      });
      if (last.applied || last.old === undefined) return 'retired';
      const backlog = last.old[ATTRIBUTE.lines] === undefined ? undefined : decodeBacklog(last.old);
      if (backlog === undefined || !lineNamesOf(backlog).includes(name)) return 'retired';
      if (backlog.announcedAtMs > announcedAtMs) return 'lost';
      const one = await this.#table.update('retireLine', {
        key,
        update: 'DELETE #lines :lines',
        // planted: retired-in-between
        condition: `${isQuiet} AND size(#lines) > :one`,
        values: { ...values, ':lines': new Set([name]) },
      });
      if (one.applied) return 'retired';
    }
    return 'lost';
  }
}
