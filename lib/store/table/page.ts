/**
 * A partition's page: its summary, which is read with the partition and written by every commit. It has the ledgers of the keys that are
 * active, what whole types cost, reservations of few jobs, the names of the items that have the other reservations, and which of their places
 * are settled. So a settlement, and most reservations, rewrite this item and nothing else. Of many ledgers it has those that have changed since
 * its base, which is an item beside it.
 *
 * Its version is the partition's only lock: a commit writes the page on condition of the version that it loaded, and raises it by one. What
 * the page is about to name or to let go of is put ahead, before the page: items of reservations, and ledgers. An item of reservations has a
 * name that no other commit gives, is written once, and holds nothing unless the page names it. So a commit that loses may have put items all
 * the same, and they do no harm; where reservations are to stand in another item, they are put there, and the page names that one instead. A
 * ledger that is put ahead never overwrites a newer one, and does not count while the page has the key. Only a new base and loans are written
 * together with the page, in a transaction. What single resources cost follows a commit: hints, each in an item that says which version it is
 * of.
 */

import { COMMIT_ITEMS_MAX, INLINE_BYTES_MAX, MARKS_BYTES_MAX, PAGE_TYPES_MAX } from '../contract/bounds.ts';
import { commitNamesTwice, commitTooLarge } from '../contract/errors.ts';
import {
  type Attendance,
  type Carried,
  type EstimateRecord,
  type Ledger,
  placesWithout,
  type Quiet,
  type Reservation,
} from '../contract/records.ts';
import type { Commit } from '../contract/requests.ts';
import { type LedgerBase, nextLedgers } from './page-ledgers.ts';

/** What is known of a reservation beside its item, which is written once. */
export interface BatchMark {
  /** Places that hold nothing any more. */
  readonly settled: ReadonlySet<number>;
  /** Later than the reservation's own, if it was postponed. */
  readonly checkAtMs?: number | undefined;
}

export interface Page {
  /** Raised by every commit; 0: nothing was committed. */
  readonly version: number;
  /** The latest charged last. Of a key that is here, no other ledger counts. */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  /** What of them stands in an item beside the page. Undefined: nothing does. */
  readonly base?: LedgerBase | undefined;
  /** Keys of the base that have left: their ledgers have items of their own. */
  readonly gone?: ReadonlySet<string> | undefined;
  /** By type: of whole types. */
  readonly estimates: ReadonlyMap<string, EstimateRecord>;
  /** By batch id, of reservations that stand in items. */
  readonly batches: ReadonlyMap<string, BatchMark>;
  /** By batch id, the oldest first: reservations that stand in the page, because they are small. */
  readonly inline: ReadonlyMap<string, Reservation>;
  /** Names of the items of all other reservations, the oldest first, as long as any of these holds anything. */
  readonly named: ReadonlySet<string>;
  /** Whether any conflict key may have a blocked line. */
  readonly parks: boolean;
  /** How steadily the partition has been read. */
  readonly attendance?: Attendance | undefined;
  /** Nothing waits, by all that passes were told. */
  readonly quiet?: Quiet | undefined;
  /** A read of the lines that began before it may miss a job of which some pass was told. */
  readonly unseenUntilMs?: number | undefined;
  /** How far jobs were moved to where the declaration wants them. */
  readonly carried?: Carried | undefined;
  /** Ledgers that a commit writes, in hundredths, as the latest ones did. */
  readonly chargedMean?: number | undefined;
}

export const EMPTY_PAGE: Page = {
  version: 0,
  ledgers: new Map(),
  estimates: new Map(),
  batches: new Map(),
  inline: new Map(),
  named: new Set(),
  parks: false,
};

/** An item of reservations: its name, and what it was written with. */
export type ReservationItem = readonly [itemId: string, reservations: readonly Reservation[]];

/** What a commit makes of a page, and what it writes beside it. */
export interface PageChange {
  readonly page: Page;
  /** Written together with the page. */
  readonly base?: LedgerBase | undefined;
  /** Ledgers that leave the page, as it was: each is put into an item of its own before it. */
  readonly spilled: readonly Ledger[];
  /** Estimates that have items of their own: they are no part of the commit, and follow it. */
  readonly estimates: readonly EstimateRecord[];
  /** Items of reservations that are put before the page, which names them. */
  readonly ahead: readonly ReservationItem[];
}

/** Its places as one number, an instant, and what stands between them. */
const MARK_OVERHEAD_BYTES = 40;
const markBytes = (batchId: string): number => batchId.length + MARK_OVERHEAD_BYTES;

/** What stands between the parts of a job's row, and its numbers. */
const ROW_OVERHEAD_BYTES = 14;
const SHAPE_OVERHEAD_BYTES = 24;
const INLINE_OVERHEAD_BYTES = 60;
/** An id of 32 hexadecimal digits is packed. */
const PACKED_ID_BYTES = 23;
/** What a job takes with all that its row names. */
const ROW_BYTES = 80;
const nameBytes = (name = ''): number => Buffer.byteLength(name, 'utf8');
/** As it is packed: a row for each job, and what several of them share once. */
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
  } of jobs.values()) {
    bytes += (id.length === 32 ? PACKED_ID_BYTES : nameBytes(id)) + ROW_OVERHEAD_BYTES;
    shared.add(fairnessKey);
    shared.add(`${type}/${tier}/${fleet}/${estimatedCostMs}/${conflictKey ?? resourceId ?? ''}`);
  }
  for (const each of shared) bytes += nameBytes(each) + SHAPE_OVERHEAD_BYTES;
  return bytes;
};

/** A reservation that stands in the page for longer is one of long jobs. */
const LASTS_MS = 30_000;
/** Reservations that last may take so much of the page, which each commit writes; then they get items. */
const LASTING_BYTES_MAX = 2_000;

/**
 * The reservations of a page after a commit, and those that are to stand in items. While all of what comes and goes has room, it stands in
 * the page: a commit is one write then. Where it has not, nothing new does. What lasts leaves the page, many at once.
 */
function reserveIn(
  page: Page,
  commit: Commit,
  live: Iterable<ReservationItem>,
): { readonly inline: ReadonlyMap<string, Reservation>; readonly leaving: readonly Reservation[] } {
  const inline = inlineLeft(page, commit);
  const [first] = commit.reserve;
  if (first === undefined) return { inline, leaving: [] };
  const lasts = ({ reservedAtMs }: Reservation): boolean => first.reservedAtMs - reservedAtMs > LASTS_MS;
  let bytes = 0;
  let lastingBytes = 0;
  for (const each of inline.values()) {
    const own = inlineBytes(each);
    bytes += own;
    if (lasts(each)) lastingBytes += own;
  }
  const beside = rowsBeside(page, live, lasts) * ROW_BYTES;
  const leaving: Reservation[] = [];
  for (const each of commit.reserve) {
    const own = inlineBytes(each);
    if (beside + bytes + own > INLINE_BYTES_MAX) leaving.push(each);
    else {
      inline.set(each.batchId, each);
      bytes += own;
    }
  }
  if (leaving.length === 0 && lastingBytes <= LASTING_BYTES_MAX) return { inline, leaving };
  // Those that have lasted long will go on for long: they take the room of those that come and go.
  for (const each of inline.values()) {
    if (lasts(each) && inline.delete(each.batchId)) leaving.push(each);
  }
  return { inline, leaving };
}

/** Jobs in flight of reservations that stand in items and do not last, as far as they may be known from counts. */
function rowsBeside(
  page: Page,
  live: Iterable<ReservationItem>,
  lasts: (reservation: Reservation) => boolean,
): number {
  let rows = 0;
  for (const [, reservations] of live) {
    for (const each of reservations) {
      if (lasts(each)) continue;
      rows += Math.max(0, each.jobs.size - (page.batches.get(each.batchId)?.settled.size ?? 0));
    }
  }
  return rows;
}

/** The page's reservations without what a commit settles. */
function inlineLeft(page: Page, commit: Commit): Map<string, Reservation> {
  const inline = new Map(page.inline);
  for (const { reservation, positions } of commit.drop) {
    const present = inline.get(reservation.batchId);
    if (present === undefined) continue;
    const jobs = placesWithout(present.jobs, new Set(positions));
    if (jobs.size === 0) inline.delete(reservation.batchId);
    else inline.set(reservation.batchId, { ...present, jobs });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    const present = inline.get(reservation.batchId);
    if (present !== undefined) inline.set(reservation.batchId, { ...present, checkAtMs });
  }
  return inline;
}

/** Whether a commit writes the page by itself, and no transaction, behind what is put before it. */
export const isPageAlone = ({ base }: PageChange, commit: Commit): boolean =>
  base === undefined && lendingItems(commit) === 0;

/** Reservations in the items that a page names, as far as they hold capacity; as they were written. */
function* holdingIn(page: Page, items: Iterable<ReservationItem>): Generator<Reservation> {
  for (const [itemId, reservations] of items) {
    // planted: unnamed-counts
    if (!page.named.has(itemId)) continue;
    for (const each of reservations) if (holdsMore(each, page.batches)) yield each;
  }
}

/** All reservations that hold capacity: those in the page, and those in the items that it names, in the order in which they were made. */
export function reservationsIn(page: Page, items: Iterable<ReservationItem>): readonly Reservation[] {
  const all = [...page.inline.values()];
  for (const each of holdingIn(page, items)) all.push(asMarked(each, page.batches));
  return all.sort(
    (one, other) =>
      one.reservedAtMs - other.reservedAtMs ||
      one.version - other.version ||
      one.batchId.length - other.batchId.length ||
      (one.batchId < other.batchId ? -1 : 1),
  );
}

/** Which of these reservations hold capacity. */
export function presentIn(
  page: Page,
  items: Iterable<ReservationItem>,
  batchIds: ReadonlySet<string>,
): ReadonlySet<string> {
  const present = new Set([...batchIds].filter((batchId) => page.inline.has(batchId)));
  for (const { batchId } of holdingIn(page, items)) if (batchIds.has(batchId)) present.add(batchId);
  return present;
}

/**
 * The page after a commit that follows it.
 *
 * @param items - by name: all that the page names, and perhaps others
 * @param nonce - of the names of items that are put ahead: no other commit of this version has the same
 */
export function nextPage(
  page: Page,
  commit: Commit,
  items: ReadonlyMap<string, readonly Reservation[]>,
  nonce: string,
): PageChange {
  const live = [...page.named].map((itemId): ReservationItem => [itemId, items.get(itemId) ?? []]);
  const { estimates, own } = estimatesAfter(page, commit);
  const { inline, leaving } = reserveIn(page, commit, live);
  const { ledgers, base, gone, chargedMean, spilled } = nextLedgers(page, commit.ledgers);
  const { marks, named, ahead } = itemsAfter(page, commit, live, leaving, nonce);
  const { quiet } = commit;
  return {
    page: {
      version: page.version + 1,
      ledgers,
      base: base ?? page.base,
      ...(base !== undefined || gone.size === 0 ? {} : { gone }),
      estimates,
      batches: marks,
      inline,
      named,
      parks: commit.parks ?? page.parks,
      attendance: commit.attendance ?? page.attendance,
      quiet: quiet === null ? undefined : (quiet ?? page.quiet),
      unseenUntilMs: latest(commit.unseenUntilMs, page.unseenUntilMs),
      carried: commit.carried ?? page.carried,
      ...(chargedMean === 0 ? {} : { chargedMean }),
    },
    base,
    spilled,
    estimates: own,
    ahead,
  };
}

/** Costs of whole types stand in the page, as far as it has room. */
function estimatesAfter(
  page: Page,
  commit: Commit,
): { readonly estimates: Page['estimates']; readonly own: readonly EstimateRecord[] } {
  const estimates = new Map(page.estimates);
  const own: EstimateRecord[] = [];
  for (const estimate of commit.estimates) {
    const isOfType = estimate.resourceId === '';
    if (isOfType && (estimates.has(estimate.type) || estimates.size < PAGE_TYPES_MAX)) {
      estimates.set(estimate.type, estimate);
    } else own.push(estimate);
  }
  return { estimates, own };
}

const latest = (oneMs: number | undefined, otherMs: number | undefined): number | undefined =>
  oneMs === undefined || (otherMs !== undefined && otherMs > oneMs) ? otherMs : oneMs;

/** Names of items that stand in the page: where there are more, small items become one. */
const NAMED_MAX = 64;
/** Reservations that share an item, as they stand in the page. One that is larger has an item alone. */
const SHARED_BYTES_MAX = 16_000;

/**
 * What a page says after a commit of the reservations that stand in items. An item of which nothing is left has no name. Of the others, those
 * that have had marks for longest are written anew where the marks take too much room, and the small ones where the names do.
 */
function itemsAfter(
  page: Page,
  commit: Commit,
  live: readonly ReservationItem[],
  leaving: readonly Reservation[],
  nonce: string,
): Pick<PageChange, 'ahead'> & { readonly marks: Page['batches']; readonly named: Page['named'] } {
  const marks = marksAfter(page, commit);
  const left = live.filter(([, reservations]) => reservations.some((each) => holdsMore(each, marks)));
  const anew = outgrown(left, marks);
  const still = left
    .filter((item) => anew.has(item))
    .flatMap(([, reservations]) => reservations.filter((each) => holdsMore(each, marks)))
    .map((each) => asMarked(each, marks));
  const ahead = shared([...still, ...leaving]).map(
    (reservations, at): ReservationItem => [`${page.version}-${nonce}.${at}`, reservations],
  );
  const kept = left.filter((item) => !anew.has(item));
  const named = new Set([...kept, ...ahead].map(([itemId]) => itemId));
  for (const [itemId, reservations] of live)
    if (!named.has(itemId)) for (const { batchId } of reservations) marks.delete(batchId);
  return { marks, named, ahead };
}

/** What the page says of reservations in items, once a commit counts. */
function marksAfter(page: Page, commit: Commit): Map<string, BatchMark> {
  const marks = new Map(page.batches);
  for (const { reservation, positions } of commit.drop) {
    if (page.inline.has(reservation.batchId)) continue;
    const known = marks.get(reservation.batchId);
    marks.set(reservation.batchId, { ...known, settled: new Set([...(known?.settled ?? []), ...positions]) });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    if (page.inline.has(reservation.batchId)) continue;
    const settled = marks.get(reservation.batchId)?.settled ?? new Set();
    marks.set(reservation.batchId, { settled, checkAtMs });
  }
  return marks;
}

/** Items that are to be written anew. */
function outgrown(items: readonly ReservationItem[], marks: Page['batches']): ReadonlySet<ReservationItem> {
  const anew = new Set<ReservationItem>();
  const bytesOf = (reservations: readonly Reservation[], size: (each: Reservation) => number): number =>
    reservations.reduce((sum, each) => sum + size(each), 0);
  const marked = ({ batchId }: Reservation): number => (marks.has(batchId) ? markBytes(batchId) : 0);
  let markedBytes = 0;
  for (const batchId of marks.keys()) markedBytes += markBytes(batchId);
  // planted: unbounded-marker
  if (markedBytes > MARKS_BYTES_MAX) {
    for (const item of items) {
      const bytes = bytesOf(item[1], marked);
      if (bytes > 0) anew.add(item);
      markedBytes -= bytes;
      // As many at once as halve them: the next commits have room, and one item takes the place of several.
      if (markedBytes <= MARKS_BYTES_MAX / 2) break;
    }
  }
  if (items.length > NAMED_MAX) {
    for (const item of items) if (bytesOf(item[1], inlineBytes) < SHARED_BYTES_MAX / 2) anew.add(item);
  }
  return anew;
}

/** Reservations in as few items as their bound allows. */
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

/** Items of a commit that lend, grant, or give back: they stand with other partitions, too, and so are written together with the page. */
export function lendingItems({ lend = [], giveBack = [] }: Commit): number {
  return 2 * (lend.length + giveBack.length) + new Set(lend.map(({ to }) => to)).size;
}

/** Whether any place of a reservation is not settled. */
function holdsMore({ batchId, jobs }: Reservation, marks: Page['batches']): boolean {
  const settled = marks.get(batchId)?.settled;
  if (settled === undefined) return jobs.size > 0;
  // planted: names-of-the-untouched
  for (const position of jobs.keys()) if (!settled.has(position)) return true;
  return false;
}

/** A reservation as the page says it is by now. */
function asMarked(reservation: Reservation, marks: Page['batches']): Reservation {
  const mark = marks.get(reservation.batchId);
  if (mark === undefined) return reservation;
  const jobs = placesWithout(reservation.jobs, mark.settled);
  return { ...reservation, checkAtMs: mark.checkAtMs ?? reservation.checkAtMs, jobs };
}

/**
 * Refuses a commit that no store can carry out as a whole, before anything of it is written.
 *
 * @throws RefusedError when it has more items than one transaction may have
 * @throws RefusedError when it says two things of one item
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
