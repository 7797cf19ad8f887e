/**
 * The partition summary (`PartitionSummary`): the item that every load reads and every commit writes. It holds the ledgers of the active keys, the
 * estimates of whole types, small reservations, the names of the items with the other reservations, and a note for each of those that has
 * settled positions. So a settlement, and most reservations, write only this item. If there are many ledgers, the summary holds those that
 * have changed since a snapshot in an item beside it.
 *
 * The version of the summary is the partition's only lock: a commit writes the summary on condition of the version that it loaded, and
 * raises it by one. Before that it writes the items that the new summary refers to: items of reservations, and ledgers that no longer fit.
 * An item of reservations has a name that no other commit uses, is written once, and counts only if the summary names it. So the items of a
 * commit that loses do no harm. To move reservations to another item, a commit writes the new item and names it instead of the old one. A
 * ledger item never overwrites a newer one, and does not count while the summary holds the key. Only a new snapshot and loans are written
 * in one transaction with the summary. Estimates of single resources are written after a commit. They are hints, and each holds the version
 * of the commit that it belongs to.
 */

import type { Uses } from '../../core/limits.ts';
import { countedWith, type MinuteCounts } from '../../core/statistics.ts';
import {
  COMMIT_ITEMS_MAX,
  INLINE_BYTES_MAX,
  RESERVATION_CHANGES_BYTES_MAX,
  SUMMARY_TYPES_MAX,
} from '../contract/bounds.ts';
import { commitNamesTwice, commitTooLarge } from '../contract/errors.ts';
import {
  type DeclarationProgress,
  type EstimateRecord,
  entriesWithout,
  type Ledger,
  type NothingWaits,
  type Observation,
  type Reservation,
} from '../contract/records.ts';
import type { Commit } from '../contract/requests.ts';
import { type LedgerSnapshot, nextLedgers } from './summary-ledgers.ts';

/** The changes to a reservation since its item was written. */
export interface ReservationChange {
  /** Positions of jobs in the reservation that were settled: they hold no capacity any more. */
  readonly settled: ReadonlySet<number>;
  /** Set if the reservation was postponed: replaces its own `checkAtMs`. */
  readonly checkAtMs?: number | undefined;
}

export interface PartitionSummary {
  /** The version of the partition. Every commit raises it by one; 0: nothing was committed. */
  readonly version: number;
  /**
   * The ledgers by fairness key, in the order of their last charge, the latest one last. For these keys no other ledger
   * counts.
   */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  /** The snapshot, whose ledgers are included in `ledgers`. Undefined: there is none. */
  readonly base?: LedgerSnapshot | undefined;
  /** Keys of the snapshot that are no longer in the summary: their ledgers have items of their own. */
  readonly gone?: ReadonlySet<string> | undefined;
  /** Estimates of whole types, by type. */
  readonly estimates: ReadonlyMap<string, EstimateRecord>;
  /** Changes to reservations that stand in items, by batch id. */
  readonly batches: ReadonlyMap<string, ReservationChange>;
  /** Small reservations, which stand in the summary itself, by batch id, the oldest first. */
  readonly inline: ReadonlyMap<string, Reservation>;
  /** Names of the items with the other reservations, the oldest first. An item is named while any of its reservations holds capacity. */
  readonly named: ReadonlySet<string>;
  /** Whether any conflict key may have a blocked line. */
  readonly parks: boolean;
  /** The time over which passes have read the partition regularly. */
  readonly observation?: Observation | undefined;
  /** Set if no job waits, as far as passes were notified. */
  readonly quiet?: NothingWaits | undefined;
  /** A read of the lines that began before this instant may miss a job that some pass knew from a hint. */
  readonly unseenUntilMs?: number | undefined;
  /** Uses of limits by ended attempts, over all keys. */
  readonly uses?: Uses | undefined;
  /** The counts of the last minute in which a commit counted something. */
  readonly counted?: MinuteCounts | undefined;
  /** The progress of moving jobs for a new declaration. */
  readonly carried?: DeclarationProgress | undefined;
  /** How many ledgers a commit charges, in hundredths: a moving average. */
  readonly chargedMean?: number | undefined;
}

export const EMPTY_SUMMARY: PartitionSummary = {
  version: 0,
  ledgers: new Map(),
  estimates: new Map(),
  batches: new Map(),
  inline: new Map(),
  named: new Set(),
  parks: false,
};

/** An item of reservations: its name, and its reservations as they were written. */
export type ReservationItem = readonly [itemId: string, reservations: readonly Reservation[]];

/** The new summary after a commit, and the items that the commit writes beside it. */
export interface SummaryChange {
  readonly summary: PartitionSummary;
  /** A new snapshot, written in one transaction with the summary. */
  readonly base?: LedgerSnapshot | undefined;
  /**
   * Ledgers that no longer fit into the summary, without this commit's charges. Each gets an item of its own before the summary is written.
   */
  readonly spilled: readonly Ledger[];
  /** Estimates with items of their own. They are written after the commit. */
  readonly estimates: readonly EstimateRecord[];
  /** Items of reservations that are written before the summary that names them. */
  readonly ahead: readonly ReservationItem[];
}

/**
 * The bytes of a note about a reservation (`ReservationChange`) besides the batch id: the positions as one number, an instant, and
 * separators.
 */
const MARK_OVERHEAD_BYTES = 40;
const markBytes = (batchId: string): number => batchId.length + MARK_OVERHEAD_BYTES;

/** The bytes of a job's row besides its id: numbers, and separators. */
const ROW_OVERHEAD_BYTES = 14;
const SHAPE_OVERHEAD_BYTES = 24;
/** The brackets of a row's units, and the place of a position before them. */
const UNITS_OVERHEAD_BYTES = 12;
const INLINE_OVERHEAD_BYTES = 60;
/** The bytes of the packed form of an id of 32 hexadecimal digits. */
const PACKED_ID_BYTES = 23;
/** An estimate of what one job takes in packed reservations, with everything that its row refers to. */
const ROW_BYTES = 80;
const nameBytes = (name = ''): number => Buffer.byteLength(name, 'utf8');
/** Returns the estimated size of a packed reservation: a row for each job, and values that several jobs share once. */
const inlineBytes = ({ batchId, jobs }: Reservation): number => {
  let bytes = INLINE_OVERHEAD_BYTES + batchId.length;
  const shared = new Set<string>();
  for (const {
    id,
    type,
    tier,
    fleet,
    fairnessKey,
    estimatedCostMs,
    conflictKey,
    resourceId,
    limits = [],
    keys = {},
    units,
    startByMs,
  } of jobs.values()) {
    bytes += (id.length === 32 ? PACKED_ID_BYTES : nameBytes(id)) + ROW_OVERHEAD_BYTES;
    if (units !== undefined) bytes += UNITS_OVERHEAD_BYTES + Object.values(units).join().length;
    shared.add(fairnessKey);
    shared.add(
      `${type}/${tier}/${fleet}/${estimatedCostMs}/${conflictKey ?? resourceId ?? ''}/${limits.join('/')}/${Object.entries(keys).flat().join('/')}/${startByMs ?? ''}`,
    );
  }
  for (const each of shared) bytes += nameBytes(each) + SHAPE_OVERHEAD_BYTES;
  return bytes;
};

/** A reservation that has been in the summary for longer than this counts as one of long jobs. */
const LONG_RESERVATION_MS = 30_000;
/** The room for reservations of long jobs in the summary, which every commit writes. Beyond this they are moved to items. */
const LONG_RESERVATIONS_BYTES_MAX = 2_000;

/**
 * Returns the reservations in the summary after a commit, and those that must move to items. While all reservations of
 * short jobs fit, they stay in the summary, so that a commit is one write. If they do not fit, new ones get items.
 * Reservations of long jobs are moved out of the summary together.
 */
function placeReservations(
  summary: PartitionSummary,
  commit: Commit,
  live: Iterable<ReservationItem>,
): { readonly inline: ReadonlyMap<string, Reservation>; readonly itemReservations: readonly Reservation[] } {
  const inline = inlineAfter(summary, commit);
  const [first] = commit.reserve;
  if (first === undefined) return { inline, itemReservations: [] };
  const isLong = ({ reservedAtMs }: Reservation): boolean =>
    first.reservedAtMs - reservedAtMs > LONG_RESERVATION_MS;
  let bytes = 0;
  let longBytes = 0;
  for (const each of inline.values()) {
    const own = inlineBytes(each);
    bytes += own;
    if (isLong(each)) longBytes += own;
  }
  const shortBytesInItems = countShortJobsInItems(summary, live, isLong) * ROW_BYTES;
  const itemReservations: Reservation[] = [];
  for (const each of commit.reserve) {
    const own = inlineBytes(each);
    if (shortBytesInItems + bytes + own > INLINE_BYTES_MAX) itemReservations.push(each);
    else {
      inline.set(each.batchId, each);
      bytes += own;
    }
  }
  if (itemReservations.length === 0 && longBytes <= LONG_RESERVATIONS_BYTES_MAX)
    return { inline, itemReservations };
  // Reservations of long jobs will stay for long, and would take the room of short ones.
  for (const each of inline.values()) {
    if (isLong(each) && inline.delete(each.batchId)) itemReservations.push(each);
  }
  return { inline, itemReservations };
}

/** Returns the number of jobs of short reservations that stand in items and still hold capacity. */
function countShortJobsInItems(
  summary: PartitionSummary,
  live: Iterable<ReservationItem>,
  isLong: (reservation: Reservation) => boolean,
): number {
  let rows = 0;
  for (const [, reservations] of live) {
    for (const each of reservations) {
      if (isLong(each)) continue;
      rows += Math.max(0, each.jobs.size - (summary.batches.get(each.batchId)?.settled.size ?? 0));
    }
  }
  return rows;
}

/** Returns the summary's reservations after a commit has dropped and postponed positions. */
function inlineAfter(summary: PartitionSummary, commit: Commit): Map<string, Reservation> {
  const inline = new Map(summary.inline);
  for (const { reservation, positions } of commit.drop) {
    const present = inline.get(reservation.batchId);
    if (present === undefined) continue;
    const jobs = entriesWithout(present.jobs, new Set(positions));
    if (jobs.size === 0) inline.delete(reservation.batchId);
    else inline.set(reservation.batchId, { ...present, jobs });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    const present = inline.get(reservation.batchId);
    if (present !== undefined) inline.set(reservation.batchId, { ...present, checkAtMs });
  }
  return inline;
}

/** Whether a commit writes the summary as a single item, without a transaction, after the items that it refers to. */
export const isSingleWrite = ({ base }: SummaryChange, commit: Commit): boolean =>
  base === undefined && lendingItems(commit) === 0;

/** The reservations with capacity in the items that the summary names, as they were written. */
function* reservationsWithCapacity(
  summary: PartitionSummary,
  items: Iterable<ReservationItem>,
): Generator<Reservation> {
  for (const [itemId, reservations] of items) {
    // planted: unnamed-counts
    if (!summary.named.has(itemId)) continue;
    for (const each of reservations) if (holdsCapacity(each, summary.batches)) yield each;
  }
}

/**
 * Returns all reservations with capacity, in the summary and in the items that it names, in the order in which they
 * were made.
 */
export function reservationsIn(
  summary: PartitionSummary,
  items: Iterable<ReservationItem>,
): readonly Reservation[] {
  const all = [...summary.inline.values()];
  for (const each of reservationsWithCapacity(summary, items)) all.push(withMark(each, summary.batches));
  return all.sort(
    (one, other) =>
      one.reservedAtMs - other.reservedAtMs ||
      one.version - other.version ||
      one.batchId.length - other.batchId.length ||
      (one.batchId < other.batchId ? -1 : 1),
  );
}

/** Returns the ids among `batchIds` whose reservations hold capacity. */
export function withCapacity(
  summary: PartitionSummary,
  items: Iterable<ReservationItem>,
  batchIds: ReadonlySet<string>,
): ReadonlySet<string> {
  const present = new Set([...batchIds].filter((batchId) => summary.inline.has(batchId)));
  for (const { batchId } of reservationsWithCapacity(summary, items))
    if (batchIds.has(batchId)) present.add(batchId);
  return present;
}

/**
 * Returns the summary after a commit.
 *
 * @param items - the reservations of at least all items that the summary names, by name
 * @param nonce - part of the names of new items; no other commit of this version has the same
 */
export function nextSummary(
  summary: PartitionSummary,
  commit: Commit,
  items: ReadonlyMap<string, readonly Reservation[]>,
  nonce: string,
): SummaryChange {
  const live = [...summary.named].map((itemId): ReservationItem => [itemId, items.get(itemId) ?? []]);
  const { estimates, own } = estimatesAfter(summary, commit);
  const { inline, itemReservations } = placeReservations(summary, commit, live);
  const { ledgers, base, gone, chargedMean, spilled } = nextLedgers(summary, commit.ledgers);
  const { marks, named, ahead } = itemsAfter(summary, commit, live, itemReservations, nonce);
  const { quiet } = commit;
  return {
    summary: {
      version: summary.version + 1,
      ledgers,
      base: base ?? summary.base,
      ...(base !== undefined || gone.size === 0 ? {} : { gone }),
      estimates,
      batches: marks,
      inline,
      named,
      parks: commit.parks ?? summary.parks,
      observation: commit.observation ?? summary.observation,
      quiet: quiet === null ? undefined : (quiet ?? summary.quiet),
      unseenUntilMs: latest(commit.unseenUntilMs, summary.unseenUntilMs),
      ...usesAfter(commit.uses ?? summary.uses),
      ...countedAfter(countedWith(summary.counted, commit.counts)),
      carried: commit.carried ?? summary.carried,
      ...(chargedMean === 0 ? {} : { chargedMean }),
    },
    base,
    spilled,
    estimates: own,
    ahead,
  };
}

const usesAfter = (uses: Uses | undefined): Pick<PartitionSummary, 'uses'> =>
  uses === undefined || uses.size === 0 ? {} : { uses };

const countedAfter = (counted: MinuteCounts | undefined): Pick<PartitionSummary, 'counted'> =>
  counted === undefined ? {} : { counted };

/** Estimates of whole types stay in the summary while it has room. */
function estimatesAfter(
  summary: PartitionSummary,
  commit: Commit,
): { readonly estimates: PartitionSummary['estimates']; readonly own: readonly EstimateRecord[] } {
  const estimates = new Map(summary.estimates);
  const own: EstimateRecord[] = [];
  for (const estimate of commit.estimates) {
    const isOfType = estimate.resourceId === '';
    if (isOfType && (estimates.has(estimate.type) || estimates.size < SUMMARY_TYPES_MAX)) {
      estimates.set(estimate.type, estimate);
    } else own.push(estimate);
  }
  return { estimates, own };
}

const latest = (oneMs: number | undefined, otherMs: number | undefined): number | undefined =>
  oneMs === undefined || (otherMs !== undefined && otherMs > oneMs) ? otherMs : oneMs;

/** How many items a summary names. Beyond this, small items are merged into one. */
const NAMED_MAX = 64;
/** The room for several reservations in one item, by their packed size. A larger reservation has an item alone. */
const SHARED_BYTES_MAX = 16_000;

/**
 * Returns the items of reservations after a commit. An item without capacity is no longer named. If the notes take too
 * much room, the items with the oldest notes are rewritten with their notes applied. If there are too many names, the
 * small items are rewritten as one.
 */
function itemsAfter(
  summary: PartitionSummary,
  commit: Commit,
  live: readonly ReservationItem[],
  itemReservations: readonly Reservation[],
  nonce: string,
): Pick<SummaryChange, 'ahead'> & {
  readonly marks: PartitionSummary['batches'];
  readonly named: PartitionSummary['named'];
} {
  const marks = marksAfter(summary, commit);
  const remaining = live.filter(([, reservations]) =>
    reservations.some((each) => holdsCapacity(each, marks)),
  );
  const toRewrite = itemsToRewrite(remaining, marks);
  const rewritten = remaining
    .filter((item) => toRewrite.has(item))
    .flatMap(([, reservations]) => reservations.filter((each) => holdsCapacity(each, marks)))
    .map((each) => withMark(each, marks));
  const ahead = shared([...rewritten, ...itemReservations]).map(
    (reservations, at): ReservationItem => [`${summary.version}-${nonce}.${at}`, reservations],
  );
  const kept = remaining.filter((item) => !toRewrite.has(item));
  const named = new Set([...kept, ...ahead].map(([itemId]) => itemId));
  for (const [itemId, reservations] of live)
    if (!named.has(itemId)) for (const { batchId } of reservations) marks.delete(batchId);
  return { marks, named, ahead };
}

/** Returns the summary's notes, after a commit, about reservations that stand in items of their own. */
function marksAfter(summary: PartitionSummary, commit: Commit): Map<string, ReservationChange> {
  const marks = new Map(summary.batches);
  for (const { reservation, positions } of commit.drop) {
    if (summary.inline.has(reservation.batchId)) continue;
    const known = marks.get(reservation.batchId);
    marks.set(reservation.batchId, { ...known, settled: new Set([...(known?.settled ?? []), ...positions]) });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    if (summary.inline.has(reservation.batchId)) continue;
    const settled = marks.get(reservation.batchId)?.settled ?? new Set();
    marks.set(reservation.batchId, { settled, checkAtMs });
  }
  return marks;
}

/**
 * Chooses the items of reservations to rewrite with their notes applied, because the notes take too much room or there are too many
 * items.
 */
function itemsToRewrite(
  items: readonly ReservationItem[],
  marks: PartitionSummary['batches'],
): ReadonlySet<ReservationItem> {
  const toRewrite = new Set<ReservationItem>();
  const bytesOf = (reservations: readonly Reservation[], size: (each: Reservation) => number): number =>
    reservations.reduce((sum, each) => sum + size(each), 0);
  const marked = ({ batchId }: Reservation): number => (marks.has(batchId) ? markBytes(batchId) : 0);
  let markedBytes = 0;
  for (const batchId of marks.keys()) markedBytes += markBytes(batchId);
  // planted: unbounded-marker
  if (markedBytes > RESERVATION_CHANGES_BYTES_MAX) {
    for (const item of items) {
      const bytes = bytesOf(item[1], marked);
      if (bytes > 0) toRewrite.add(item);
      markedBytes -= bytes;
      // The notes are halved at once: the next commits then have room for new ones, and one new item replaces several.
      if (markedBytes <= RESERVATION_CHANGES_BYTES_MAX / 2) break;
    }
  }
  if (items.length > NAMED_MAX) {
    for (const item of items) if (bytesOf(item[1], inlineBytes) < SHARED_BYTES_MAX / 2) toRewrite.add(item);
  }
  return toRewrite;
}

/** Distributes reservations over as few items as their bound allows. */
function shared(reservations: readonly Reservation[]): readonly (readonly Reservation[])[] {
  const items: Reservation[][] = [];
  let room = 0;
  for (const each of reservations) {
    const bytes = inlineBytes(each);
    if (bytes > room) {
      items.push([]);
      room = SHARED_BYTES_MAX;
    }
    items.at(-1)?.push(each);
    room -= bytes;
  }
  return items;
}

/**
 * Returns how many items of loans and requests a commit writes. They are shared with other partitions, so they are
 * written in one transaction with the summary.
 */
export function lendingItems({ lend = [], giveBack = [] }: Commit): number {
  return 2 * (lend.length + giveBack.length) + new Set(lend.map(({ to }) => to)).size;
}

/** Whether any position of a reservation still holds capacity. */
function holdsCapacity({ batchId, jobs }: Reservation, marks: PartitionSummary['batches']): boolean {
  const settled = marks.get(batchId)?.settled;
  if (settled === undefined) return jobs.size > 0;
  // planted: names-of-the-untouched
  for (const position of jobs.keys()) if (!settled.has(position)) return true;
  return false;
}

/** Returns a reservation as its note in the summary leaves it. */
function withMark(reservation: Reservation, marks: PartitionSummary['batches']): Reservation {
  const mark = marks.get(reservation.batchId);
  if (mark === undefined) return reservation;
  const jobs = entriesWithout(reservation.jobs, mark.settled);
  return { ...reservation, checkAtMs: mark.checkAtMs ?? reservation.checkAtMs, jobs };
}

/**
 * Refuses a commit that no store can carry out, before anything is written.
 *
 * @throws RefusedError if it has more items than one transaction may have
 * @throws RefusedError if it names one item twice
 */
export function requireBounded(commit: Commit): void {
  const { drop, postpone, reserve, ledgers, estimates } = commit;
  const touched = [...drop, ...postpone].map((each) => each.reservation.batchId);
  const batches = [...touched, ...reserve.map((each) => each.batchId)];
  const items = batches.length + ledgers.length + estimates.length + lendingItems(commit);
  if (items > COMMIT_ITEMS_MAX) throw commitTooLarge(items);
  requireDistinct('reservation', batches);
  requireDistinct(
    'ledger',
    ledgers.map(({ fairnessKey }) => fairnessKey),
  );
  requireDistinct(
    'estimate',
    estimates.map(({ type, resourceId }) => JSON.stringify([type, resourceId])),
  );
}

function requireDistinct(item: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw commitNamesTwice(item, name);
    seen.add(name);
  }
}
