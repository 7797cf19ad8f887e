/**
 * What a table would bill for what the store in memory does: sizes come from the codec of the real one, units from the
 * one set of rules. Nothing is computed while nobody listens.
 */
import type { Job } from '../../core/job.ts';
import type { Commit, KeyBacklog, Ledger } from '../contract.ts';
import {
  encodeEstimate,
  encodeJob,
  encodeLedger,
  encodePage,
  encodeReservation,
  type Item,
  namesOf,
} from '../dynamodb/codec.ts';
import { entryOf, itemBytes, itemWriteUnits, type Meter, readUnitsOf, writeUnitsOf } from '../metering.ts';
import { lendingItems, type Page, type PageTurn } from '../page.ts';
import { backlogKey, estimateKey, ledgerKey, partitionPk, TABLE } from '../schema.ts';
import type { LineEntry } from './lines.ts';

/** A transaction prepares each item and then commits it. */
const TRANSACTION_FACTOR = 2;
const BATCH_GET_MAX = 100;
/** Small items whose every write and read is one unit: leases, wakes. */
const SMALL_BYTES = 200;

const jobItem = (entry: LineEntry<Job>): Item =>
  encodeJob(entry.value, entry.line === '' ? undefined : { line: entry.line, rank: entry.rank });

const backlogItem = (partition: number, type: string, entry: LineEntry<KeyBacklog>): Item => ({
  ...backlogKey(partition, type, entry.value.fairnessKey),
  fairnessKey: entry.value.fairnessKey,
  lines: new Set(namesOf(entry.value)),
  announcedAtMs: entry.value.announcedAtMs,
  [TABLE.line]: entry.line,
  [TABLE.rank]: entry.rank,
});

const ledgerBytes = (partition: number, ledger: Ledger): number =>
  itemBytes(encodeLedger(ledgerKey(partition, ledger.fairnessKey), ledger));

export class Bill {
  /** Hears what each verb would have used. */
  meter: Meter | undefined;

  small(verb: string, kind: 'read' | 'write'): void {
    if (this.meter === undefined) return;
    this.meter(verb, {
      readUnits: kind === 'read' ? readUnitsOf(SMALL_BYTES, true) : 0,
      writeUnits: kind === 'write' ? writeUnitsOf(SMALL_BYTES) : 0,
      requests: 1,
    });
  }

  wroteJob(verb: string, before: LineEntry<Job> | undefined, after: LineEntry<Job>): void {
    if (this.meter === undefined) return;
    const units = itemWriteUnits(before === undefined ? undefined : jobItem(before), jobItem(after));
    this.meter(verb, { readUnits: 0, writeUnits: units, requests: 1 });
  }

  /** A condition failed at this item. */
  refused(verb: string, present: LineEntry<Job> | undefined): void {
    if (this.meter === undefined) return;
    const bytes = present === undefined ? 0 : itemBytes(jobItem(present));
    this.meter(verb, { readUnits: 0, writeUnits: writeUnitsOf(bytes), requests: 1 });
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
    this.meter(verb, { readUnits: 0, writeUnits: itemWriteUnits(items[0], items[1]), requests: 1 });
  }

  readJobs(verb: string, entries: readonly (LineEntry<Job> | undefined)[]): void {
    if (this.meter === undefined || entries.length === 0) return;
    const readUnits = entries.reduce(
      (sum, entry) => sum + readUnitsOf(entry === undefined ? 0 : itemBytes(jobItem(entry)), true),
      0,
    );
    this.meter(verb, { readUnits, writeUnits: 0, requests: Math.ceil(entries.length / BATCH_GET_MAX) });
  }

  readHeads(verb: string, entries: readonly LineEntry<Job>[]): void {
    if (this.meter === undefined) return;
    const bytes = entries.reduce((sum, entry) => sum + itemBytes(entryOf(jobItem(entry))), 0);
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

  readItems(verb: string, count: number): void {
    if (this.meter === undefined || count === 0) return;
    this.meter(verb, {
      readUnits: count * readUnitsOf(SMALL_BYTES, true),
      writeUnits: 0,
      requests: Math.ceil(count / BATCH_GET_MAX),
    });
  }

  /** One query of the whole collection; workers and controls are small. */
  load(partition: number, page: Page, batches: Iterable<Commit['reserve'][number]>, others: number): void {
    if (this.meter === undefined) return;
    let bytes = itemBytes(encodePage(partition, page)) + (others + 1) * SMALL_BYTES;
    for (const reservation of batches) bytes += itemBytes(encodeReservation(partition, reservation));
    this.meter('loadPartition', { readUnits: readUnitsOf(bytes, true), writeUnits: 0, requests: 1 });
  }

  committed(partition: number, before: Page, turn: PageTurn, commit: Commit): void {
    if (this.meter === undefined) return;
    const unitsOf = (items: readonly number[]): number =>
      TRANSACTION_FACTOR * items.reduce((sum, bytes) => sum + writeUnitsOf(bytes), 0);
    const pages = [before, turn.page].map((page) => itemBytes(encodePage(partition, page)));
    const own = unitsOf([
      SMALL_BYTES,
      Math.max(...pages),
      ...[...commit.reserve, ...turn.absorbed].map((each) => itemBytes(encodeReservation(partition, each))),
      ...Array.from({ length: lendingItems(commit) }, () => SMALL_BYTES),
    ]);
    const beside = unitsOf([
      ...turn.spilled.map((ledger) => ledgerBytes(partition, ledger)),
      ...turn.estimates.map((each) =>
        itemBytes(encodeEstimate(estimateKey(partition, each.type, each.resourceId), each)),
      ),
    ]);
    const byKey = { [partitionPk(partition)]: own, [ledgerKey(partition, '').pk]: beside };
    this.meter('commit', { readUnits: 0, writeUnits: own + beside, requests: 1, writeUnitsOf: byKey });
  }

  deletedReservation(partition: number, reservation: Commit['reserve'][number]): void {
    if (this.meter === undefined) return;
    const writeUnits = writeUnitsOf(itemBytes(encodeReservation(partition, reservation)));
    this.meter('tidy', { readUnits: 0, writeUnits, requests: 1 });
  }
}
