/**
 * Computes what DynamoDB would bill for the memory store's calls: sizes come from the real codec, units from `../../table/metering.ts`.
 * Without a meter it computes only the read units that `KeyRanks` needs.
 */
import type { Job } from '../../../core/job.ts';
import type { ReadyLine } from '../../contract/lines.ts';
import type { EstimateRecord, KeyBacklog, Ledger, Letter, Reservation } from '../../contract/records.ts';
import type { Commit } from '../../contract/requests.ts';
import { CLOSE_ITEMS, CLOSE_KEYS_MIN, CloseReads } from '../../table/close-reads.ts';
import type { Item } from '../../table/codec/attributes.ts';
import { lineNamesOf } from '../../table/codec/backlog.ts';
import { encodeEstimate } from '../../table/codec/estimate.ts';
import { encodeJob, encodePayload } from '../../table/codec/job.ts';
import { encodeLedger } from '../../table/codec/ledger.ts';
import { encodeLetter } from '../../table/codec/letter.ts';
import { encodeReservations } from '../../table/codec/reservation.ts';
import { encodeLedgerSnapshot, encodeSummary } from '../../table/codec/summary.ts';
import {
  entryOf,
  expiryEntryOf,
  itemBytes,
  itemWriteUnits,
  type Meter,
  readUnitsOf,
  TRANSACTION_FACTOR,
  writeUnitsOf,
} from '../../table/metering.ts';
import { hasOwnItem } from '../../table/payload.ts';
import { backlogKey, estimateKey, ledgerKey, partitionPk, TABLE } from '../../table/schema.ts';
import {
  isSingleWrite,
  lendingItems,
  type PartitionSummary,
  type SummaryChange,
} from '../../table/summary.ts';
import type { LineEntry } from './lines-index.ts';

const BATCH_GET_MAX = 100;
/** The bytes of small items, such as the leader: each write and each read of one is one unit. */
const SMALL_BYTES = 200;

/** A text as long as every `payloadId`. */
const PAYLOAD_ID = 'x'.repeat(12);

const jobItem = (entry: LineEntry<Job>): Item =>
  encodeJob(
    entry.value,
    entry.line === '' ? undefined : { line: entry.line, rank: entry.rank },
    hasOwnItem(entry.value) ? PAYLOAD_ID : undefined,
  );

/** Returns the size of the payload's item; 0 if the payload is in the job's item. */
const payloadBytes = (job: Job): number =>
  hasOwnItem(job) ? itemBytes(encodePayload(job, PAYLOAD_ID, job.runAtMs)) : 0;

const backlogItem = (partition: number, type: string, entry: LineEntry<KeyBacklog>): Item => ({
  ...backlogKey(partition, type, entry.value.fairnessKey),
  fairnessKey: entry.value.fairnessKey,
  lines: new Set(lineNamesOf(entry.value)),
  announcedAtMs: entry.value.announcedAtMs,
  [TABLE.line]: entry.line,
  [TABLE.rank]: entry.rank,
});

/** Returns the sizes of a letter's items. */
const letterBytes = (partition: number, letter: Letter): readonly number[] =>
  encodeLetter(partition, letter, { newId: () => LETTER_NONCE, nowMs: 0 }).map(itemBytes);

const ledgerBytes = (partition: number, ledger: Ledger, version: number): number =>
  itemBytes(encodeLedger(ledgerKey(partition, ledger.fairnessKey), ledger, version));

/** Returns the items of a job that stands in no line: one, or two if the payload has its own. */
export const tableItemsOf = (job: Job): readonly Item[] =>
  hasOwnItem(job)
    ? [encodePayload(job, PAYLOAD_ID, job.runAtMs), encodeJob(job, undefined, PAYLOAD_ID)]
    : [encodeJob(job, undefined)];

/** A text as long as every nonce of a letter. */
const LETTER_NONCE = '0123456789ab';
/** A text as long as every id of a commit. */
const COMMIT_ID = '01234567';
/**
 * Caches sizes of summaries and snapshots, which never change. Each is needed when it is written, when it is read and when the next one is
 * written.
 */
function cachedBytes<T extends object>(
  encode: (partition: number, value: T) => Item,
): (partition: number, value: T | undefined) => number {
  const known = new WeakMap<T, number>();
  return (partition, value) => {
    if (value === undefined) return 0;
    const bytes = known.get(value) ?? itemBytes(encode(partition, value));
    known.set(value, bytes);
    return bytes;
  };
}

const pageBytes = cachedBytes<PartitionSummary>((partition, summary) =>
  encodeSummary(partition, summary, COMMIT_ID),
);
const baseBytes = cachedBytes(encodeLedgerSnapshot);

/** A partition's summary, and its items of reservations. */
interface BilledPartition {
  readonly summary: PartitionSummary;
  readonly items: ReadonlyMap<string, readonly Reservation[]>;
}

/** A text as long as the name of each item of reservations. */
const ITEM_ID = '100000-AAAAAAAA.0';
const reservationsBytes = cachedBytes<readonly Reservation[]>((partition, reservations) =>
  encodeReservations(partition, [ITEM_ID, reservations], 1),
);

function itemsBytes(partition: number, { items }: BilledPartition): number {
  let bytes = 0;
  for (const each of items.values()) bytes += reservationsBytes(partition, each);
  return bytes;
}

const NO_OTHER_ITEMS = { count: 0, readUnits: 0 } as const;

/** Returns the cost of reading items of one partition key by their sort keys, as `CloseReads` does. */
function closeReads(
  sortKeys: readonly string[],
  kept: readonly Item[],
): { readonly readUnits: number; readonly requests: number } {
  const bySortKey = kept.map((item) => ({ sk: String(item[TABLE.sortKey]), item }));
  bySortKey.sort((one, other) => (one.sk < other.sk ? -1 : 1));
  const reads = new CloseReads(sortKeys);
  let requests = 0;
  let at = 0;
  for (let range = reads.next; range !== undefined; range = reads.next) {
    const { from, to } = range;
    while (at < bySortKey.length && (bySortKey[at]?.sk ?? '') < from) at += 1;
    const summary = bySortKey.slice(at, at + CLOSE_ITEMS).filter(({ sk }) => sk <= to);
    const bytes = summary.reduce((sum, { item }) => sum + itemBytes(item), 0);
    reads.took(summary.length === CLOSE_ITEMS ? summary.at(-1)?.sk : undefined, readUnitsOf(bytes, true));
    requests += 1;
  }
  return { readUnits: reads.readUnits, requests: requests + Math.ceil(reads.left.length / BATCH_GET_MAX) };
}

export class Bill {
  /** Receives the capacity that each verb would have used. */
  meter: Meter | undefined;
  #factor = 1;

  /** Bills all writes of `act` as one transaction. */
  inTransaction<T>(verb: string, act: () => T): T {
    if (this.meter === undefined) return act();
    const { meter } = this;
    let writeUnits = 0;
    this.#factor = TRANSACTION_FACTOR;
    this.meter = (_, usage) => {
      writeUnits += usage.writeUnits;
    };
    try {
      return act();
    } finally {
      this.meter = meter;
      this.#factor = 1;
      meter(verb, { readUnits: 0, writeUnits, requests: 1 });
    }
  }

  small(verb: string, kind: 'read' | 'write'): void {
    if (this.meter === undefined) return;
    this.meter(verb, {
      readUnits: kind === 'read' ? readUnitsOf(SMALL_BYTES, true) : 0,
      writeUnits: kind === 'write' ? this.#factor * writeUnitsOf(SMALL_BYTES) : 0,
      requests: 1,
    });
  }

  putLetter(partition: number, letter: Letter): void {
    if (this.meter === undefined) return;
    for (const bytes of letterBytes(partition, letter))
      this.meter('putLetter', { readUnits: 0, writeUnits: writeUnitsOf(bytes), requests: 1 });
  }

  /** Bills the reading of letters: one query. */
  readLetters(partition: number, letters: readonly Letter[]): void {
    if (this.meter === undefined) return;
    const bytes = letters
      .flatMap((each) => letterBytes(partition, each))
      .reduce((sum, each) => sum + each, 0);
    this.meter('readLetters', { readUnits: readUnitsOf(bytes, true), writeUnits: 0, requests: 1 });
  }

  deletedLetter(partition: number, letter: Letter): void {
    if (this.meter === undefined) return;
    for (const bytes of letterBytes(partition, letter))
      this.meter('deleteLetters', { readUnits: 0, writeUnits: writeUnitsOf(bytes), requests: 1 });
  }

  wroteJob(verb: string, before: LineEntry<Job> | undefined, after: LineEntry<Job>): void {
    if (this.meter === undefined) return;
    this.wroteItem(verb, before === undefined ? undefined : jobItem(before), jobItem(after));
  }

  /** Bills a write whose condition failed at this item. */
  refused(verb: string, present: LineEntry<Job> | undefined): void {
    if (this.meter === undefined) return;
    const bytes = present === undefined ? 0 : itemBytes(jobItem(present));
    this.meter(verb, { readUnits: 0, writeUnits: this.#factor * writeUnitsOf(bytes), requests: 1 });
  }

  wroteBacklog(
    verb: string,
    partition: number,
    type: string,
    before: LineEntry<KeyBacklog> | undefined,
    after: LineEntry<KeyBacklog> | undefined,
  ): void {
    if (this.meter === undefined) return;
    const items = [before, after].map((entry) =>
      entry === undefined ? undefined : backlogItem(partition, type, entry),
    );
    this.wroteItem(verb, items[0], items[1]);
  }

  readJobs(verb: string, entries: readonly (LineEntry<Job> | undefined)[]): void {
    if (this.meter === undefined || entries.length === 0) return;
    const readUnits = entries.reduce(
      (sum, entry) => sum + readUnitsOf(entry === undefined ? 0 : itemBytes(jobItem(entry)), true),
      0,
    );
    this.meter(verb, { readUnits, writeUnits: 0, requests: Math.ceil(entries.length / BATCH_GET_MAX) });
  }

  /** Bills the reads of the payloads that have items of their own. */
  readPayloads(verb: string, entries: readonly (LineEntry<Job> | undefined)[], isStrong: boolean): void {
    if (this.meter === undefined) return;
    const sizes = entries.flatMap((entry) => (entry === undefined ? [] : payloadBytes(entry.value) || []));
    if (sizes.length === 0) return;
    const readUnits = sizes.reduce((sum, bytes) => sum + readUnitsOf(bytes, isStrong), 0);
    this.meter(verb, { readUnits, writeUnits: 0, requests: Math.ceil(sizes.length / BATCH_GET_MAX) });
  }

  /** Bills a write of a payload that has its own item: it is put, discarded, or gets a `ttl`. */
  wrotePayload(verb: string, job: Job): void {
    if (this.meter === undefined) return;
    const bytes = payloadBytes(job);
    if (bytes > 0) this.meter(verb, { readUnits: 0, writeUnits: writeUnitsOf(bytes), requests: 1 });
  }

  readHeads(verb: string, entries: readonly LineEntry<Job>[]): void {
    if (this.meter === undefined) return;
    const bytes = entries.reduce((sum, entry) => sum + itemBytes(entryOf(jobItem(entry))), 0);
    this.meter(verb, { readUnits: readUnitsOf(bytes, false), writeUnits: 0, requests: 1 });
  }

  readExpiries(verb: string, entries: readonly LineEntry<Job>[]): void {
    if (this.meter === undefined) return;
    const bytes = entries.reduce((sum, entry) => sum + itemBytes(expiryEntryOf(jobItem(entry))), 0);
    this.meter(verb, { readUnits: readUnitsOf(bytes, false), writeUnits: 0, requests: 1 });
  }

  readKeys(verb: string, partition: number, type: string, entries: readonly LineEntry<KeyBacklog>[]): void {
    if (this.meter === undefined) return;
    const bytes = entries.reduce(
      (sum, entry) => sum + itemBytes(entryOf(backlogItem(partition, type, entry))),
      0,
    );
    this.meter(verb, { readUnits: readUnitsOf(bytes, false), writeUnits: 0, requests: 1 });
  }

  /** Bills one read of each key's backlog item. */
  readBacklogs(verb: string, lines: readonly Pick<ReadyLine, 'type' | 'fairnessKey'>[]): void {
    if (this.meter === undefined) return;
    const keys = new Set(lines.map(({ type, fairnessKey }) => JSON.stringify([type, fairnessKey])));
    const readUnits = keys.size * readUnitsOf(SMALL_BYTES, true);
    this.meter(verb, { readUnits, writeUnits: 0, requests: keys.size });
  }

  readItems(verb: string, count: number): void {
    if (this.meter === undefined || count === 0) return;
    this.meter(verb, {
      readUnits: count * readUnitsOf(SMALL_BYTES, true),
      writeUnits: 0,
      requests: Math.ceil(count / BATCH_GET_MAX),
    });
  }

  /** Bills one query of `count` small items. */
  list(verb: string, count: number): void {
    this.meter?.(verb, { readUnits: readUnitsOf(count * SMALL_BYTES, true), writeUnits: 0, requests: 1 });
  }

  /**
   * Bills reads of items of the ledgers' partition key by their sort keys, together with the items in `others`.
   * @param kept - all items of that kind in the partition; computed only if many are read
   * @returns the read units of each item
   */
  #readClose(
    verb: string,
    count: number,
    sortKeys: () => readonly string[],
    others: { readonly count: number; readonly readUnits: number },
    kept: () => readonly Item[],
  ): number {
    if (count === 0) return 0;
    const isMany = count >= CLOSE_KEYS_MIN;
    const { readUnits, requests } = isMany
      ? closeReads(sortKeys(), kept())
      : { readUnits: count, requests: Math.ceil((count + others.count) / BATCH_GET_MAX) };
    this.meter?.(verb, {
      readUnits: others.readUnits + readUnits,
      writeUnits: 0,
      requests: requests + (isMany && others.count > 0 ? 1 : 0),
    });
    return readUnits / count;
  }

  /**
   * Bills reads of ledgers that have items, after the partition summary, whose snapshot the reader knows from its load.
   * Returns the read units of each.
   */
  readLedgers(
    partition: number,
    fairnessKeys: readonly string[],
    summary: PartitionSummary,
    ownLedgers: ReadonlyMap<string, Ledger>,
  ): number {
    const readUnits = this.meter === undefined ? 0 : readUnitsOf(pageBytes(partition, summary), true);
    return this.#readClose(
      'getLedgers',
      fairnessKeys.length,
      () => fairnessKeys.map((key) => ledgerKey(partition, key).sk),
      { count: 1, readUnits },
      () =>
        Array.from(ownLedgers.values(), (each) =>
          encodeLedger(ledgerKey(partition, each.fairnessKey), each, summary.version),
        ),
    );
  }

  /** Bills reads of backlogs of a type by their keys. */
  readBacklogsOf(
    partition: number,
    type: string,
    fairnessKeys: readonly string[],
    kept: ReadonlyMap<string, ReadonlyMap<string, LineEntry<KeyBacklog>>>,
  ): void {
    if (this.meter === undefined) return;
    this.#readClose(
      'readBacklogs',
      fairnessKeys.length,
      () => fairnessKeys.map((key) => backlogKey(partition, type, key).sk),
      NO_OTHER_ITEMS,
      () =>
        [...kept.values()].flatMap((byType) => {
          const entry = byType.get(type);
          return entry === undefined ? [] : [backlogItem(partition, type, entry)];
        }),
    );
  }

  /** Bills reads of estimates. If the estimate of a whole type is among them, the partition summary is read, too. */
  readEstimates(
    partition: number,
    ids: readonly { readonly type: string; readonly resourceId: string }[],
    summary: PartitionSummary,
    ownEstimates: ReadonlyMap<string, EstimateRecord>,
  ): void {
    if (this.meter === undefined) return;
    const readsSummary = ids.some(({ resourceId }) => resourceId === '');
    const readUnits = readsSummary ? readUnitsOf(pageBytes(partition, summary), true) : 0;
    this.#readClose(
      'getEstimates',
      ids.length,
      () => ids.map(({ type, resourceId }) => estimateKey(partition, type, resourceId).sk),
      readsSummary ? { count: 1, readUnits } : NO_OTHER_ITEMS,
      () =>
        Array.from(ownEstimates.values(), (each) =>
          encodeEstimate(estimateKey(partition, each.type, each.resourceId), each, 0),
        ),
    );
  }

  /** Bills a write of an item of any kind, index included; `after` undefined: the item is deleted. */
  wroteItem(verb: string, before: Item | undefined, after: Item | undefined): void {
    if (this.meter === undefined) return;
    const writeUnits = itemWriteUnits(before, after, this.#factor);
    this.meter(verb, { readUnits: 0, writeUnits, requests: 1 });
  }

  /** Bills reads of the items' entries from the index. */
  readEntries(verb: string, items: readonly Item[]): void {
    if (this.meter === undefined) return;
    const bytes = items.reduce((sum, item) => sum + itemBytes(entryOf(item)), 0);
    this.meter(verb, { readUnits: readUnitsOf(bytes, false), writeUnits: 0, requests: 1 });
  }

  /**
   * Bills the load of a partition: one query of its item collection, in which workers and controls are small. The
   * snapshot of ledgers is not billed: the process that wrote it has it cached, and any other reads it once.
   */
  load(partition: number, kept: BilledPartition, others: number): void {
    if (this.meter === undefined) return;
    const bytes = pageBytes(partition, kept.summary) + others * SMALL_BYTES + itemsBytes(partition, kept);
    this.meter('loadPartition', { readUnits: readUnitsOf(bytes, true), writeUnits: 0, requests: 1 });
  }

  committed(
    partition: number,
    { summary: before }: BilledPartition,
    change: SummaryChange,
    commit: Commit,
  ): void {
    if (this.meter === undefined) return;
    const unitsOf = (items: readonly number[]): number =>
      items.reduce((sum, bytes) => sum + writeUnitsOf(bytes), 0);
    const { summary, base, ahead, spilled } = change;
    const pageOrBefore = Math.max(...[before, summary].map((each) => pageBytes(partition, each)));
    const factor = isSingleWrite(change, commit) ? 1 : TRANSACTION_FACTOR;
    const partitionUnits =
      unitsOf(ahead.map(([, reservations]) => reservationsBytes(partition, reservations))) +
      factor * unitsOf([pageOrBefore, ...Array.from({ length: lendingItems(commit) }, () => SMALL_BYTES)]);
    const snapshots =
      base === undefined ? [] : [Math.max(baseBytes(partition, before.base), baseBytes(partition, base))];
    const others =
      unitsOf(spilled.map((ledger) => ledgerBytes(partition, ledger, before.version))) +
      factor * unitsOf(snapshots);
    this.#wroteEstimates(partition, change);
    const byKey = {
      [partitionPk(partition)]: partitionUnits,
      ...(others === 0 ? {} : { [ledgerKey(partition, '').pk]: others }),
    };
    const requests = 1 + ahead.length + spilled.length;
    this.meter('commit', {
      readUnits: 0,
      writeUnits: partitionUnits + others,
      requests,
      writeUnitsOf: byKey,
    });
  }

  /**
   * Bills a commit of another version, which the condition of the summary refuses. The items that a commit writes
   * before the summary are not billed.
   */
  lostCommit(partition: number, summary: PartitionSummary): void {
    if (this.meter === undefined) return;
    const bytes = pageBytes(partition, summary);
    this.meter('commit', { readUnits: 0, writeUnits: writeUnitsOf(bytes), requests: 1 });
  }

  /** Bills the estimates: single writes after the commit. */
  #wroteEstimates(partition: number, { estimates, summary: { version } }: SummaryChange): void {
    for (const each of estimates) {
      const key = estimateKey(partition, each.type, each.resourceId);
      const writeUnits = writeUnitsOf(itemBytes(encodeEstimate(key, each, version)));
      const byKey = { [key.pk]: writeUnits };
      this.meter?.('commit', { readUnits: 0, writeUnits, requests: 1, writeUnitsOf: byKey });
    }
  }

  /** Bills a transaction in which only the version of the summary is changed. */
  raisedPage(verb: string, partition: number, summary: PartitionSummary): void {
    if (this.meter === undefined) return;
    const writeUnits = this.#factor * writeUnitsOf(pageBytes(partition, summary));
    this.meter(verb, { readUnits: 0, writeUnits, requests: 1 });
  }

  deletedReservations(partition: number, reservations: readonly Reservation[]): void {
    if (this.meter === undefined) return;
    const writeUnits = writeUnitsOf(reservationsBytes(partition, reservations));
    this.meter('tidy', { readUnits: 0, writeUnits, requests: 1 });
  }
}
