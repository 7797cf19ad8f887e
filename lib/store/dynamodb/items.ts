/**
 * Reads and changes of single items that all parts of the DynamoDB store share: queries page by page, conditional
 * changes of a job, and items that cannot be read.
 */

import { RefusedError, ThrottledError, UnavailableError } from '../../core/errors.ts';
import type { MovingJob } from '../../core/job.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { JobHead } from '../contract/job-fields.ts';
import { readyLineName } from '../contract/lines.ts';
import type { UnreadableItem } from '../contract/records.ts';
import type { RankOf } from '../contract/verbs.ts';
import { CLOSE_ITEMS, CloseReads } from '../table/close-reads.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { decodeMovingJob, isJobItem, type Standing } from '../table/codec/job.ts';
import { isScheduleItem } from '../table/codec/schedule.ts';
import { baseVersionOf, decodeLedgerSnapshot } from '../table/codec/summary.ts';
import { decodeUnreadable, encodeUnreadable } from '../table/codec/unreadable.ts';
import { KeyRanks } from '../table/key-ranks.ts';
import { itemBytes, readUnitsOf } from '../table/metering.ts';
import { type ItemKey, jobKey, ledgerSnapshotKey, TABLE } from '../table/schema.ts';
import type { LedgerSnapshot } from '../table/summary-ledgers.ts';
import { type ConnectionOptions, DynamoConnection, isForbidden, type Update } from './connection.ts';
import { dueStanding } from './expressions.ts';
import { Payloads } from './payloads.ts';

export interface DynamoJobStoreOptions extends ConnectionOptions {
  readonly place: RankOf;
  /**
   * Returns the time, in epoch milliseconds. An item that has expired by then counts as gone, even if DynamoDB has not
   * deleted it.
   */
  readonly nowMs?: (() => number) | undefined;
  /** Receives each item that cannot be read, once. */
  readonly unreadable?: ((item: UnreadableItem) => void) | undefined;
}

/** How many items that cannot be read are listed, and how many a process remembers. */
export const UNREADABLE_MAX = 1_000;

/** The partition of notes about items that belong to none. */
export const NO_PARTITION = 0;

/** Returns the partition in a job's item, even if the item cannot be read as a whole. */
export const partitionIn = (item: Item): number => {
  const partition = item[ATTRIBUTE.partition];
  return typeof partition === 'number' ? partition : NO_PARTITION;
};

/** At most this many pages of one query. DynamoDB's pages hold up to 1 MB. */
const PAGES_MAX = 1_000;

/**
 * How often a partition summary and the items that it names are read until all are of one commit. After that, an item is damaged or
 * missing.
 */
const INCOMPLETE_READS_MAX = 5;

/**
 * Repeats a read until the summary names the snapshot of ledgers that was read with it, and all items of reservations that it names were
 * read. Otherwise a commit came in between, or an item is damaged or missing.
 */
export async function untilWhole<
  T extends { readonly staleSummary: Item | undefined; readonly missingItem?: string | undefined },
>(read: () => Promise<T>): Promise<T> {
  for (let reads = 1; ; reads += 1) {
    const found = await read();
    if (
      (found.staleSummary === undefined && found.missingItem === undefined) ||
      reads === INCOMPLETE_READS_MAX
    )
      return found;
  }
}

/** A query without its summary. */
type PagedQuery = Omit<Parameters<DynamoConnection['query']>[1], 'limit'>;

/** A range of ranks in a line: all, below a rank, from one rank to another, or above a rank. */
interface RankRange {
  readonly below?: string | undefined;
  /**
   * The lowest rank, if `below` is set. Both bounds are inclusive, but no rank equals a bound, because ranks end with
   * an id.
   */
  readonly from?: string | undefined;
  readonly above?: string | undefined;
}

function conditionOf({ below, from, above }: RankRange): string {
  if (above !== undefined) return ' AND #rank > :above';
  if (below === undefined) return '';
  return from === undefined ? ' AND #rank < :below' : ' AND #rank BETWEEN :from AND :below';
}

const withJob = (item: Item): { readonly item: Item; readonly job: MovingJob } => ({
  item,
  job: decodeMovingJob(item),
});

/** The result of a change of a job. */
export type ChangedJob =
  | { readonly applied: boolean; readonly item: Item; readonly job: MovingJob }
  | { readonly applied: false; readonly item: undefined; readonly job: undefined };

const MISSING = { applied: false, item: undefined, job: undefined } as const;

const encodeCursor = (item: Item): string => {
  const { pk, sk, rank } = ATTRIBUTE;
  return Buffer.from(JSON.stringify([item[pk], item[sk], item[rank]])).toString('base64url');
};

function decodeCursor(verb: string, line: string, cursor: string): Item {
  const refused = (cause?: unknown): RefusedError =>
    new RefusedError(`${verb}: ${JSON.stringify(cursor)} is not a cursor; pass \`next\` as it was returned`, {
      cause,
    });
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch (cause) {
    throw refused(cause);
  }
  if (!Array.isArray(parts) || parts.length !== 3 || !parts.every((part) => typeof part === 'string'))
    throw refused();
  const [pk, sk, rank] = parts;
  return { [ATTRIBUTE.pk]: pk, [ATTRIBUTE.sk]: sk, [ATTRIBUTE.line]: line, [ATTRIBUTE.rank]: rank };
}

export class TableItems {
  readonly table: DynamoConnection;
  readonly place: RankOf;
  /** Epoch milliseconds. */
  readonly nowMs: () => number;
  /** Ranks of keys that this process has seen. */
  readonly keyRanks = new KeyRanks();
  readonly payloads: Payloads;
  /** The snapshot of ledgers that this process has last read or written, by partition. */
  readonly #bases = new Map<number, LedgerSnapshot>();
  readonly #reportUnreadable: ((item: UnreadableItem) => void) | undefined;
  /** Keys of items that cannot be read and were reported, and whether a note was written. */
  readonly #reportedUnreadable = new Map<string, boolean>();

  constructor(options: DynamoJobStoreOptions) {
    this.table = new DynamoConnection(options);
    this.place = options.place;
    this.nowMs = options.nowMs ?? Date.now;
    this.#reportUnreadable = options.unreadable;
    this.payloads = new Payloads(this.table, this.nowMs, (effect) => this.hint(effect));
  }

  standingOf(job: MovingJob): Standing | undefined {
    if (job.state === 'scheduled') return dueStanding(job, job.runAtMs);
    return job.state === 'pending' ? this.readyStanding(job) : undefined;
  }

  readyStanding(job: JobHead): Standing {
    return { line: readyLineName(job.partition, job), rank: this.place(job).rank };
  }

  /** Changes a job. Answers the job and its item after the change, or as they were if the condition failed. */
  async changeJob(verb: string, id: string, change: Omit<Update, 'key'>): Promise<ChangedJob> {
    const outcome = await this.table.update(verb, { key: jobKey(id), ...change });
    if (outcome.applied) return { applied: true, ...withJob(outcome.item) };
    const { old } = outcome;
    return old === undefined || this.hasExpired(old) ? MISSING : { applied: false, ...withJob(old) };
  }

  hasExpired(item: Item): boolean {
    const ttl = item[ATTRIBUTE.ttl];
    return typeof ttl === 'number' && ttl * 1000 <= this.nowMs();
  }

  /**
   * Decodes the items and leaves out those that cannot be read. Each of these is reported, noted, and taken out of its line, so that no
   * later read finds it; `instead` may give a substitute.
   */
  async readable<T>(
    partition: number,
    items: readonly Item[],
    decode: (item: Item) => T,
    instead?: (cause: MalformedItemError) => T | undefined,
  ): Promise<readonly T[]> {
    const each = await this.readableEach(partition, items, decode, instead);
    return each.filter((value) => value !== undefined);
  }

  /** Like `readable`, but with undefined for items that cannot be read. */
  async readableEach<T>(
    partition: number,
    items: readonly (Item | undefined)[],
    decode: (item: Item) => T,
    instead?: (cause: MalformedItemError, at: number) => T | undefined,
  ): Promise<readonly (T | undefined)[]> {
    const read: (T | undefined)[] = [];
    for (const [at, item] of items.entries()) {
      try {
        read.push(item === undefined ? undefined : decode(item));
      } catch (error) {
        if (item === undefined || !(error instanceof MalformedItemError)) throw error;
        read.push(instead?.(error, at));
        await this.setAside(partition, item, error);
      }
    }
    return read;
  }

  /**
   * Writes a note about an item that cannot be read, then takes it out of its line: an item in no line must at least be in the list of
   * notes. A role that may not write the note leaves the item in its line for a dispatcher.
   */
  async setAside(partition: number, item: Item, error: MalformedItemError): Promise<void> {
    const { pk, sk, line, rank } = ATTRIBUTE;
    if (!(await this.#noteUnreadable(partition, item, error))) return;
    if (typeof item[line] !== 'string' || typeof item[rank] !== 'string') return;
    // Without its wrong attribute, a backlog is complete again as soon as one of its lines is announced.
    const isKept = isJobItem(item) || isScheduleItem(item);
    const wrong = isKept ? '' : `, #${error.attribute}`;
    await this.hint(() =>
      this.table.update('setAside', {
        key: { pk: String(item[pk]), sk: String(item[sk]) },
        update: `REMOVE #line, #rank, #expiry${wrong}`,
        condition: '#line = :line AND #rank = :rank',
        values: { ':line': item[line], ':rank': item[rank] },
      }),
    );
  }

  /** Answers whether the note was written. Reports the item once in either case. */
  async #noteUnreadable(
    partition: number,
    item: Item,
    { key, message }: MalformedItemError,
  ): Promise<boolean> {
    if (this.#reportedUnreadable.get(key) === true) return true;
    const note = encodeUnreadable(partition, item, message, this.nowMs());
    const { [ATTRIBUTE.pk]: pk, [ATTRIBUTE.sk]: sk, ...cells } = note;
    const names = Object.keys(cells).filter((name) => cells[name] !== undefined);
    // An update and not a put, because the role of workers may only update.
    let wayOut = '';
    const write = () =>
      this.table.update('setAside', {
        key: { pk: String(pk), sk: String(sk) },
        update: `SET ${names.map((name) => `#${name} = :${name}`).join(', ')}`,
        condition: 'attribute_not_exists(#pk)',
        values: Object.fromEntries(names.map((name) => [`:${name}`, cells[name]])),
      });
    const isNoted = await this.hint(write).catch((error: unknown) => {
      if (!isForbidden(error)) throw error;
      wayOut = '; this role may not take it out of its line, so a dispatcher will do it';
      return false;
    });
    if (!this.#reportedUnreadable.has(key)) {
      const { note: reported } = decodeUnreadable(note);
      this.#reportUnreadable?.({ ...reported, reason: `${reported.reason}${wayOut}` });
    }
    if (this.#reportedUnreadable.size >= UNREADABLE_MAX) this.#reportedUnreadable.clear();
    this.#reportedUnreadable.set(key, isNoted);
    return isNoted;
  }

  /** Runs an effect whose failure a later pass makes up for. Answers whether it succeeded. */
  async hint(effect: () => Promise<unknown>): Promise<boolean> {
    try {
      await effect();
      return true;
    } catch (error) {
      if (!(error instanceof ThrottledError || error instanceof UnavailableError)) throw error;
      return false;
    }
  }

  async getAll<T>(
    verb: string,
    keys: readonly ItemKey[],
    decode: (item: Item) => T | undefined,
  ): Promise<readonly (T | undefined)[]> {
    const nameOf = (pk: unknown, sk: unknown): string => JSON.stringify([pk, sk]);
    const distinct = new Map(keys.map((key) => [nameOf(key.pk, key.sk), key]));
    const items = await this.table.getAll(verb, [...distinct.values()]);
    const found = new Map(
      items.map((item) => [nameOf(item[ATTRIBUTE.pk], item[ATTRIBUTE.sk]), decode(item)] as const),
    );
    return keys.map((key) => found.get(nameOf(key.pk, key.sk)));
  }

  /**
   * Reads the snapshot of ledgers that a summary names; undefined: it does not exist. The read is strongly consistent,
   * so if it finds another version, the summary is out of date.
   */
  async baseOf(verb: string, partition: number, summary: Item): Promise<LedgerSnapshot | undefined> {
    const version = baseVersionOf(summary);
    if (version === undefined) return undefined;
    const known = this.#bases.get(partition);
    if (known?.version === version) return known;
    const item = await this.table.get(verb, ledgerSnapshotKey(partition));
    const [read] = await this.readableEach(partition, [item], decodeLedgerSnapshot);
    if (read !== undefined) this.knowBase(partition, read);
    return read;
  }

  knowBase(partition: number, base: LedgerSnapshot): void {
    if ((this.#bases.get(partition)?.version ?? 0) < base.version) this.#bases.set(partition, base);
  }

  /** Reads many items of one partition key, strongly consistent, in the order of `sortKeys`. */
  async getClose(
    verb: string,
    pk: string,
    sortKeys: readonly string[],
  ): Promise<{ readonly items: readonly (Item | undefined)[]; readonly readUnits: number }> {
    const reads = new CloseReads(sortKeys);
    const found = new Map<unknown, Item>();
    for (let range = reads.next; range !== undefined; range = reads.next) {
      const { items, next } = await this.table.query(verb, {
        condition: '#pk = :pk AND #sk BETWEEN :from AND :to',
        values: { ':pk': pk, ':from': range.from, ':to': range.to },
        limit: CLOSE_ITEMS,
      });
      let bytes = 0;
      for (const item of items) {
        found.set(item[ATTRIBUTE.sk], item);
        bytes += itemBytes(item);
      }
      const last = next?.[ATTRIBUTE.sk];
      reads.took(typeof last === 'string' ? last : undefined, readUnitsOf(bytes, true));
    }
    const left = reads.left.map((sk) => ({ pk, sk }));
    for (const item of await this.table.getAll(verb, left)) found.set(item[ATTRIBUTE.sk], item);
    return { items: sortKeys.map((sk) => found.get(sk)), readUnits: reads.readUnits };
  }

  /** Reads all items of a partition key, strongly consistent, in the order of their sort keys. */
  collection(verb: string, pk: string): Promise<readonly Item[]> {
    return this.pages(verb, { condition: '#pk = :pk', values: { ':pk': pk } });
  }

  /** Reads up to `limit` items of a line, in its order; `next` is set only if more follow. */
  async heads(
    verb: string,
    line: string,
    limit: number,
    cursor: string | undefined,
    { below, from, above }: RankRange = {},
  ): Promise<{ readonly items: readonly Item[]; readonly next: string | undefined }> {
    if (limit < 1) return { items: [], next: cursor };
    const query = {
      index: TABLE.linesIndex,
      condition: `#line = :line${conditionOf({ below, from, above })}`,
      values: {
        ':line': line,
        ...(below === undefined ? {} : { ':below': below }),
        ...(from === undefined ? {} : { ':from': from }),
        ...(above === undefined ? {} : { ':above': above }),
      },
      after: cursor === undefined ? undefined : decodeCursor(verb, line, cursor),
    };
    const { items, last } = await this.upTo(limit, verb, query);
    return { items, next: last === undefined ? undefined : encodeCursor(last) };
  }

  /** Reads the first items of a query; `last` is the last of these, and set only if more follow. */
  async upTo(
    limit: number,
    verb: string,
    query: PagedQuery,
  ): Promise<{ readonly items: readonly Item[]; readonly last: Item | undefined }> {
    // One item more than `limit` shows whether others follow.
    const items = await this.pages(verb, query, limit + 1);
    return { items: items.slice(0, limit), last: items.length > limit ? items[limit - 1] : undefined };
  }

  /**
   * Reads the items of a query, at most `most`. DynamoDB may end a page anywhere, or leave it empty, although others
   * follow.
   */
  async pages(verb: string, query: PagedQuery, most?: number): Promise<readonly Item[]> {
    const items: Item[] = [];
    let { after } = query;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const limit = most === undefined ? undefined : most - items.length;
      const answer = await this.table.query(verb, { ...query, limit, after });
      items.push(...answer.items);
      // planted: first-page-of-a-query
      after = answer.next;
      // planted: empty-page-ends
      if (after === undefined || (most !== undefined && items.length >= most)) return items;
    }
    throw new RefusedError(
      `${verb}: more than ${PAGES_MAX} pages of items match ${JSON.stringify(query.values)}; delete old items`,
    );
  }
}
