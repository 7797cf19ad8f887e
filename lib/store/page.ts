/**
 * A partition's page: what each pass changes a little of, in one small item that is read with the partition and written
 * by every commit. Ledgers of the keys that are active, what whole types cost, reservations of few jobs, and which places of
 * the other reservations are settled. So a settlement, and most reservations, rewrite this item and nothing else. Of many ledgers it
 * has those that have changed since its base, which is an item beside it.
 *
 * A page is exact for whoever holds the lease: only commits turn it, and each names the turn that it follows. It also says
 * under which epoch it was written, or whoever took an expired lease fenced it: nothing of an earlier epoch turns it. So a
 * commit that writes nothing but the page is one conditional write. So is one whose reservations are too many for it: their items are
 * put before the page, which names them. Any other is a transaction. What single resources cost follows a commit: hints, each in an
 * item that says which turn it is of.
 *
 * An item that was put before a page says which turn that page follows. Until a page names it, it holds nothing, and nobody claims for
 * it; once the page has turned without naming it, none ever will (test/protocol/reservation_model.py).
 */
import type { ReservedJob } from '../core/job.ts';
import {
  ABSORBED_BYTES_MAX,
  COMMIT_ITEMS_MAX,
  INLINE_BYTES_MAX,
  MARKS_BYTES_MAX,
  NAMES_BYTES_MAX,
  PAGE_TYPES_MAX,
  reservationBytesAtMost,
} from './bounds.ts';
import { CommitAmbiguous, CommitTooLarge } from './errors.ts';
import { type LedgerBase, turnLedgers } from './page-ledgers.ts';
import type { Attendance, EstimateRecord, Ledger, Quiet, Reservation } from './records.ts';
import type { Commit } from './requests.ts';

/** What is known of a reservation beside its item, which is written once. */
export interface BatchMark {
  /** Places that hold nothing any more. */
  readonly settled: ReadonlySet<number>;
  /** Later than the reservation's own, if it was postponed. */
  readonly checkAtMs?: number | undefined;
}

export interface Page {
  /** Raised by every commit. */
  readonly turn: number;
  /** Nothing of an earlier one turns it. */
  readonly epoch: number;
  /** The latest charged last. Of a key that is here, no other ledger counts. */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  /** What of them stands in an item beside the page. Undefined: nothing does. */
  readonly base?: LedgerBase | undefined;
  /** Keys of the base that have left: their ledgers have items of their own. */
  readonly gone?: ReadonlySet<string> | undefined;
  /** By type: of whole types. */
  readonly estimates: ReadonlyMap<string, EstimateRecord>;
  /** By batch id, of reservations with items of their own. */
  readonly batches: ReadonlyMap<string, BatchMark>;
  /** By batch id, the oldest first: reservations that have no items, because they are small. */
  readonly inline: ReadonlyMap<string, Reservation>;
  /**
   * By batch id: of the reservations whose items were put before a page, those that hold anything. Undefined: an earlier version has
   * written this page, or nobody has, and each item counts that is there.
   */
  readonly named?: ReadonlySet<string> | undefined;
  /** Whether any conflict key may have a blocked line. */
  readonly parks: boolean;
  /** How steadily the partition has been read. */
  readonly attendance?: Attendance | undefined;
  /** By when all keys that came were lifted. */
  readonly liftedAtMs?: number | undefined;
  /** No key has come unseen since. */
  readonly isLifted?: boolean | undefined;
  /** Nothing waits, by all that passes were shown. */
  readonly quiet?: Quiet | undefined;
  /** Ledgers that a commit writes, in hundredths, as the latest ones did. */
  readonly chargedMean?: number | undefined;
}

export const EMPTY_PAGE: Page = {
  turn: 0,
  epoch: 0,
  ledgers: new Map(),
  estimates: new Map(),
  batches: new Map(),
  inline: new Map(),
  parks: false,
};

/** What a commit makes of a page, and what it writes beside it. */
export interface PageTurn {
  readonly page: Page;
  /** Written anew with the page. */
  readonly base?: LedgerBase | undefined;
  /** Ledgers that gave way to others: each goes to an item of its own. */
  readonly spilled: readonly Ledger[];
  /** Estimates that have items of their own: they are no part of the commit, and follow it. */
  readonly estimates: readonly EstimateRecord[];
  /** Reservations whose items are put before the page, which names them. */
  readonly ahead: readonly Reservation[];
  /** Reservations that get an item of their own together with the page. */
  readonly reserved: readonly Reservation[];
  /** Reservations that say by themselves what the page said of them: their items are written anew, or taken away. */
  readonly absorbed: readonly Reservation[];
}

/** Its places as one number, an instant, and what stands between them. */
const MARK_OVERHEAD_BYTES = 40;
const markBytes = (batchId: string): number => batchId.length + MARK_OVERHEAD_BYTES;

/** The page. */
const OWN_ITEMS = 1;
/** What its ledgers are told from. */
const BASE_ITEMS = 1;

/** What stands between the parts of a job's row, and its numbers. */
const ROW_OVERHEAD_BYTES = 14;
const SHAPE_OVERHEAD_BYTES = 24;
/** Version, attempt and position before it, which are left out elsewhere. */
const TAKES_OVER_OVERHEAD_BYTES = 12;
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
    takesOver,
  } of jobs.values()) {
    bytes += (id.length === 32 ? PACKED_ID_BYTES : nameBytes(id)) + ROW_OVERHEAD_BYTES;
    if (takesOver !== undefined) bytes += takesOver.length + TAKES_OVER_OVERHEAD_BYTES;
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
/** With fewer parts of the transaction left, no item is written for reservations that stand in the page. */
const MOVE_ROOM_MIN = 40;

/**
 * The reservations of a page after a commit, and those that get items. While all of what comes and goes has room, it stands in
 * the page: a commit is one write then. Where it has not, nothing new does. What lasts gets items, many at once.
 */
function reserveIn(
  page: Page,
  commit: Commit,
  live: ReadonlyMap<string, Reservation>,
  room: number,
): { readonly inline: ReadonlyMap<string, Reservation>; readonly reserved: readonly Reservation[] } {
  const inline = inlineLeft(page, commit);
  // Whoever reads the partition meanwhile may see the page and not yet the item: it leaves the page once its item is known.
  for (const batchId of inline.keys()) if (live.has(batchId)) inline.delete(batchId);
  const [first] = commit.reserve;
  if (first === undefined) return { inline, reserved: [] };
  const lasts = ({ reservedAtMs }: Reservation): boolean => first.reservedAtMs - reservedAtMs > LASTS_MS;
  let bytes = 0;
  let lastingBytes = 0;
  for (const each of inline.values()) {
    const own = inlineBytes(each);
    bytes += own;
    if (lasts(each)) lastingBytes += own;
  }
  const beside = rowsBeside(page, live, lasts) * ROW_BYTES;
  const reserved: Reservation[] = [];
  for (const each of commit.reserve) {
    const own = inlineBytes(each);
    if (beside + bytes + own > INLINE_BYTES_MAX) reserved.push(each);
    else {
      inline.set(each.batchId, each);
      bytes += own;
    }
  }
  const isMoving = reserved.length > 0 || lastingBytes > LASTING_BYTES_MAX;
  if (!isMoving || room < MOVE_ROOM_MIN) return { inline, reserved };
  // Those that have lasted long will go on for long: they take the room of those that come and go.
  for (const each of page.inline.values()) {
    if (reserved.length >= MOVE_ROOM_MIN) break;
    if (inline.has(each.batchId) && lasts(each)) reserved.push(inline.get(each.batchId) as Reservation);
  }
  return { inline, reserved };
}

/** Jobs in flight of reservations that have items and do not last, as far as they may be known from counts. */
function rowsBeside(
  page: Page,
  live: ReadonlyMap<string, Reservation>,
  lasts: (reservation: Reservation) => boolean,
): number {
  let rows = 0;
  for (const each of live.values()) {
    if (page.inline.has(each.batchId) || lasts(each)) continue;
    rows += Math.max(0, each.jobs.size - (page.batches.get(each.batchId)?.settled.size ?? 0));
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

/** Whether a commit writes nothing but the page, behind what is put before it and before what follows it. */
export const isPageAlone = (turn: PageTurn, commit: Commit): boolean =>
  transactionPartsOf(turn, commit) === OWN_ITEMS;

/**
 * Whether whoever reads one item of a commit, and not yet another, overlooks nothing that holds capacity, and no charge. A base is
 * named by its page: whoever has read another one reads both again.
 */
export const isSafeInParts = ({ ahead, reserved, absorbed, spilled }: PageTurn, commit: Commit): boolean =>
  ahead.length + reserved.length + absorbed.length + spilled.length + lendingItems(commit) === 0;

/** Whether an item that was put before a page counts by this one. A mark is of one that did when it was made. */
export const isNamed = ({ named, batches }: Page, batchId: string): boolean =>
  named === undefined || named.has(batchId) || batches.has(batchId);

/** Whether no page will ever name an item that was put before the one which follows this turn. */
export const isVoid = (page: Page, batchId: string, follows: number): boolean =>
  !isNamed(page, batchId) && follows < page.turn;

/** All reservations that hold capacity: those in the page, and those with items, in the order in which they were made. */
export function reservationsIn(page: Page, items: Iterable<Reservation>): readonly Reservation[] {
  const all = [...page.inline.values()];
  for (const each of items) {
    // One that has an item, too, is still what the page says.
    if (page.inline.has(each.batchId)) continue;
    const left = asMarked(each, page);
    if (left !== undefined) all.push(left);
  }
  return all.sort(
    (one, other) =>
      one.reservedAtMs - other.reservedAtMs ||
      one.epoch - other.epoch ||
      one.batchId.length - other.batchId.length ||
      (one.batchId < other.batchId ? -1 : 1),
  );
}

/** Packed, so many places are two read units and more: what a read saves that is made in two parts, around them. */
const LEFT_OUT_PLACES_MIN = 400;

/** Whether a read of a partition whose reservations are known is made around them. Each of its parts is a read unit at least. */
export function isReadAround(batches: Iterable<Reservation>): boolean {
  let places = 0;
  for (const { jobs } of batches) {
    places += jobs.size;
    if (places >= LEFT_OUT_PLACES_MIN) return true;
  }
  return false;
}

/**
 * The page after a commit under an epoch.
 *
 * @param live - reservations that count, as their items are, before what the commit reserves: marks of others are forgotten
 * @param follows - of those whose items were put before a page, the turn that it followed
 */
export function turnPage(
  page: Page,
  commit: Commit,
  live: ReadonlyMap<string, Reservation>,
  epoch: number,
  follows: ReadonlyMap<string, number> = new Map(),
): PageTurn {
  const estimates = new Map(page.estimates);
  const own: EstimateRecord[] = [];
  for (const estimate of commit.estimates) {
    const isOfType = estimate.resourceId === '';
    if (isOfType && (estimates.has(estimate.type) || estimates.size < PAGE_TYPES_MAX)) {
      estimates.set(estimate.type, estimate);
    } else own.push(estimate);
  }
  const atMost = COMMIT_ITEMS_MAX - lendingItems(commit);
  const touched = commit.drop.length + commit.postpone.length;
  const { inline, reserved } = reserveIn(page, commit, live, atMost - commit.ledgers.length - touched);
  const room = atMost - Math.max(reserved.length, commit.reserve.length);
  // As many marks as it makes new, a commit can take out: it writes no other item for those.
  const { ledgers, base, gone, chargedMean, spilled } = turnLedgers(page, commit.ledgers, room - touched);
  const batches = marksAfter(page, commit, live);
  const absorbed = absorb(batches, live, room - spilled.length);
  const named = namesLeft(batches, live, follows);
  const isAlone = base === undefined && spilled.length + absorbed.length + lendingItems(commit) === 0;
  const items = divided(page, named, reserved, isAlone);
  return {
    page: {
      turn: page.turn + 1,
      epoch,
      ledgers,
      base: base ?? page.base,
      ...(base !== undefined || gone.size === 0 ? {} : { gone }),
      estimates,
      batches,
      inline,
      named: new Set([...named, ...items.ahead.map(({ batchId }) => batchId)]),
      parks: commit.parks ?? page.parks,
      attendance: commit.attendance ?? page.attendance,
      liftedAtMs: commit.liftedAtMs ?? page.liftedAtMs,
      isLifted: commit.isLifted ?? page.isLifted,
      quiet: commit.quiet === null ? undefined : (commit.quiet ?? page.quiet),
      ...(chargedMean === 0 ? {} : { chargedMean }),
    },
    base,
    spilled,
    estimates: own,
    ...items,
    absorbed,
  };
}

/** Of the reservations whose items were put before a page, those that hold anything still. */
function namesLeft(
  batches: ReadonlyMap<string, BatchMark>,
  live: ReadonlyMap<string, Reservation>,
  follows: ReadonlyMap<string, number>,
): ReadonlySet<string> {
  const named = new Set<string>();
  for (const batchId of follows.keys()) {
    const reservation = live.get(batchId);
    if (reservation === undefined) continue;
    const settled = batches.get(batchId)?.settled;
    // planted: names-of-the-untouched
    if (settled === undefined || holdsMore(reservation.jobs, settled)) named.add(batchId);
  }
  return named;
}

/** What stands between two names. */
const NAME_OVERHEAD_BYTES = 3;

/**
 * Which items are put before the page, and which with it: all of them the one way or the other. What else the commit writes beside its
 * page makes it a transaction anyway. The name of one that stands in the page is no commit's alone: an earlier one may have tried to
 * move it. And a page that does not say which items count is followed first by one that does.
 */
function divided(
  { named: before, inline }: Page,
  named: ReadonlySet<string>,
  reserved: readonly Reservation[],
  isAlone: boolean,
): Pick<PageTurn, 'ahead' | 'reserved'> {
  let bytes = 0;
  for (const batchId of named) bytes += batchId.length + NAME_OVERHEAD_BYTES;
  for (const { batchId } of reserved) bytes += batchId.length + NAME_OVERHEAD_BYTES;
  const isTried = before === undefined || reserved.some(({ batchId }) => inline.has(batchId));
  // planted: names-without-bound
  const isAhead = isAlone && !isTried && bytes <= NAMES_BYTES_MAX;
  return isAhead ? { ahead: reserved, reserved: [] } : { ahead: [], reserved };
}

function marksAfter(
  page: Page,
  commit: Commit,
  live: ReadonlyMap<string, Reservation>,
): ReadonlyMap<string, BatchMark> {
  const batches = new Map<string, BatchMark>();
  for (const [batchId, mark] of page.batches) {
    const reservation = live.get(batchId);
    if (reservation !== undefined && !saysItself(reservation, mark)) batches.set(batchId, mark);
  }
  const left = inlineLeft(page, commit);
  for (const batchId of page.inline.keys()) {
    const item = live.get(batchId);
    // planted: moved-without-a-mark
    if (item !== undefined) batches.set(batchId, markOf(item, left.get(batchId)));
  }
  for (const { reservation, positions } of commit.drop) {
    if (page.inline.has(reservation.batchId)) continue;
    const known = batches.get(reservation.batchId);
    const settled = new Set(known?.settled);
    for (const position of positions) settled.add(position);
    batches.set(reservation.batchId, { ...known, settled });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    if (page.inline.has(reservation.batchId)) continue;
    const settled = batches.get(reservation.batchId)?.settled ?? new Set();
    batches.set(reservation.batchId, { settled, checkAtMs });
  }
  return batches;
}

/** What an item does not say of a reservation that stood in the page until now. */
function markOf({ jobs, checkAtMs }: Reservation, left: Reservation | undefined): BatchMark {
  const settled = new Set([...jobs.keys()].filter((position) => left?.jobs.has(position) !== true));
  return left === undefined || left.checkAtMs === checkAtMs
    ? { settled }
    : { settled, checkAtMs: left.checkAtMs };
}

/**
 * Whether a reservation's item says what its mark says. Only then is the mark forgotten, not when the item is written:
 * whoever reads the partition meanwhile may see the one item before and the other one after.
 */
function saysItself({ jobs, checkAtMs }: Reservation, mark: BatchMark): boolean {
  if (mark.checkAtMs !== undefined && mark.checkAtMs !== checkAtMs) return false;
  for (const position of mark.settled) if (jobs.has(position)) return false;
  return true;
}

/** Reservations that take over their marks, those that have one for longest first, until the others fit. */
function absorb(
  batches: ReadonlyMap<string, BatchMark>,
  live: ReadonlyMap<string, Reservation>,
  absorbedMax: number,
): readonly Reservation[] {
  let bytes = 0;
  for (const batchId of batches.keys()) bytes += markBytes(batchId);
  const absorbed: Reservation[] = [];
  let written = 0;
  for (const [batchId, mark] of batches) {
    // planted: unbounded-marker
    if (bytes <= MARKS_BYTES_MAX || absorbed.length >= absorbedMax || written > ABSORBED_BYTES_MAX) break;
    const reservation = live.get(batchId);
    if (reservation === undefined) continue;
    const checkAtMs = mark.checkAtMs ?? reservation.checkAtMs;
    const jobs = placesWithout(reservation.jobs, mark.settled);
    absorbed.push({ ...reservation, checkAtMs, jobs });
    written += reservationBytesAtMost(jobs.values());
    bytes -= markBytes(batchId);
  }
  return absorbed;
}

/** Items of a commit that lend, grant, or give back: what stands with other partitions, too, is checked against the lease as well. */
export function lendingItems({ lend = [], giveBack = [] }: Commit): number {
  const loans = lend.length + giveBack.length;
  return loans === 0 ? 0 : 1 + 2 * loans + new Set(lend.map(({ to }) => to)).size;
}

/** Parts of the transaction that turns a page. */
export const transactionPartsOf = (turn: PageTurn, commit: Commit): number =>
  OWN_ITEMS +
  (turn.base === undefined ? 0 : BASE_ITEMS) +
  turn.spilled.length +
  turn.absorbed.length +
  turn.reserved.length +
  lendingItems(commit);

/** The places of a reservation that are not among these. */
export function placesWithout(
  places: Reservation['jobs'],
  positions: ReadonlySet<number>,
): ReadonlyMap<number, ReservedJob> {
  const left = new Map<number, ReservedJob>();
  // Each pass looks at all that is in flight: no pair is made for each place.
  places.forEach((entry, position) => {
    if (!positions.has(position)) left.set(position, entry);
  });
  return left;
}

/** Whether any place of a reservation is not among these. */
function holdsMore(places: Reservation['jobs'], positions: ReadonlySet<number>): boolean {
  for (const position of places.keys()) if (!positions.has(position)) return true;
  return false;
}

/** A reservation as the page says it is by now; undefined once all of its places are settled. */
export function asMarked(reservation: Reservation, page: Page): Reservation | undefined {
  const mark = page.batches.get(reservation.batchId);
  if (mark === undefined) return reservation;
  const jobs = placesWithout(reservation.jobs, mark.settled);
  if (jobs.size === 0) return undefined;
  return { ...reservation, checkAtMs: mark.checkAtMs ?? reservation.checkAtMs, jobs };
}

/**
 * Refuses a commit that no store can carry out as a whole, before anything of it is written.
 *
 * @throws CommitTooLarge when it has more items than one transaction may have
 * @throws CommitAmbiguous when it says two things of one item
 */
export function requireBounded(commit: Commit): void {
  const { drop, postpone, reserve, ledgers, estimates } = commit;
  const touched = [...drop, ...postpone].map((each) => each.reservation.batchId);
  const batches = [...touched, ...reserve.map((each) => each.batchId)];
  const items = batches.length + ledgers.length + estimates.length + lendingItems(commit);
  if (items > COMMIT_ITEMS_MAX) throw new CommitTooLarge(items);
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
    if (seen.has(name)) throw new CommitAmbiguous(item, name);
    seen.add(name);
  }
}
