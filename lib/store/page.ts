/**
 * A partition's page: its summary, which is read with the partition and written by every commit. It has the ledgers of the keys that are
 * active, what whole types cost, reservations of few jobs, the names of the other reservations, and which of their places are settled. So a
 * settlement, and most reservations, rewrite this item and nothing else. Of many ledgers it has those that have changed since its base,
 * which is an item beside it.
 *
 * Its version is the partition's only lock: a commit writes the page on condition of the version that it loaded, and raises it by one. What
 * the page is about to name or to let go of is put ahead, before the page: new reservations that have no room in it, reservations that it has
 * had for long, reservations with fewer places, and ledgers. Each item put ahead says which version its commit follows, and never overwrites
 * a newer one. A commit that loses may have put items all the same. They do no harm: a reservation that the page does not name holds nothing, a
 * ledger does not count while the page has the key, and neither fewer places nor ledgers that leave say more than the loaded page said. Only a
 * new base and loans are written together with the page, in a transaction. What single resources cost follows a commit: hints, each in an
 * item that says which version it is of.
 */
import type { ReservedJob } from '../core/job.ts';
import { COMMIT_ITEMS_MAX, INLINE_BYTES_MAX, MARKS_BYTES_MAX, PAGE_TYPES_MAX } from './bounds.ts';
import { CommitAmbiguous, CommitTooLarge } from './errors.ts';
import { type LedgerBase, nextLedgers } from './page-ledgers.ts';
import type { Attendance, Carried, EstimateRecord, Ledger, Quiet, Reservation } from './records.ts';
import type { Commit } from './requests.ts';

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
  /** By batch id, of reservations with items of their own. */
  readonly batches: ReadonlyMap<string, BatchMark>;
  /** By batch id, the oldest first: reservations that have no items, because they are small. */
  readonly inline: ReadonlyMap<string, Reservation>;
  /** Batch ids of the reservations with items of their own, as long as they hold anything. An item without a name holds nothing. */
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

/** What a commit makes of a page, and what it writes beside it. */
export interface PageChange {
  readonly page: Page;
  /** Written together with the page. */
  readonly base?: LedgerBase | undefined;
  /** Ledgers that leave the page, as it was: each is put into an item of its own before it. */
  readonly spilled: readonly Ledger[];
  /** Estimates that have items of their own: they are no part of the commit, and follow it. */
  readonly estimates: readonly EstimateRecord[];
  /** Reservations whose items are put before the page, which names them. */
  readonly ahead: readonly Reservation[];
  /** Reservations whose items are put again before the page, without the places that the page said were settled. */
  readonly absorbed: readonly Reservation[];
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
 * The reservations of a page after a commit, and those that get items. While all of what comes and goes has room, it stands in
 * the page: a commit is one write then. Where it has not, nothing new does. What lasts gets items, many at once.
 */
function reserveIn(
  page: Page,
  commit: Commit,
  live: ReadonlyMap<string, Reservation>,
): { readonly inline: ReadonlyMap<string, Reservation>; readonly ahead: readonly Reservation[] } {
  const inline = inlineLeft(page, commit);
  const [first] = commit.reserve;
  if (first === undefined) return { inline, ahead: [] };
  const lasts = ({ reservedAtMs }: Reservation): boolean => first.reservedAtMs - reservedAtMs > LASTS_MS;
  let bytes = 0;
  let lastingBytes = 0;
  for (const each of inline.values()) {
    const own = inlineBytes(each);
    bytes += own;
    if (lasts(each)) lastingBytes += own;
  }
  const beside = rowsBeside(page, live, lasts) * ROW_BYTES;
  const ahead: Reservation[] = [];
  for (const each of commit.reserve) {
    const own = inlineBytes(each);
    if (beside + bytes + own > INLINE_BYTES_MAX) ahead.push(each);
    else {
      inline.set(each.batchId, each);
      bytes += own;
    }
  }
  if (ahead.length === 0 && lastingBytes <= LASTING_BYTES_MAX) return { inline, ahead };
  // Those that have lasted long will go on for long: they take the room of those that come and go. Their items say what the page said:
  // another commit that follows the same version may put them, too, and the one of both that counts has marks for what it settles.
  for (const each of page.inline.values()) {
    if (lasts(each) && inline.delete(each.batchId)) ahead.push(each);
  }
  return { inline, ahead };
}

/** Jobs in flight of reservations that have items and do not last, as far as they may be known from counts. */
function rowsBeside(
  page: Page,
  live: ReadonlyMap<string, Reservation>,
  lasts: (reservation: Reservation) => boolean,
): number {
  let rows = 0;
  for (const each of live.values()) {
    if (lasts(each)) continue;
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

/** Whether a commit writes the page by itself, and no transaction, behind what is put before it. */
export const isPageAlone = ({ base }: PageChange, commit: Commit): boolean =>
  base === undefined && lendingItems(commit) === 0;

/** All reservations that hold capacity: those in the page, and those with items, in the order in which they were made. */
export function reservationsIn(page: Page, items: Iterable<Reservation>): readonly Reservation[] {
  const all = [...page.inline.values()];
  for (const each of items) {
    if (page.named.has(each.batchId)) all.push(asMarked(each, page));
  }
  return all.sort(
    (one, other) =>
      one.reservedAtMs - other.reservedAtMs ||
      one.version - other.version ||
      one.batchId.length - other.batchId.length ||
      (one.batchId < other.batchId ? -1 : 1),
  );
}

/**
 * The page after a commit that follows it.
 *
 * @param live - the reservations that it names, as their items were when it was loaded
 */
export function nextPage(page: Page, commit: Commit, live: ReadonlyMap<string, Reservation>): PageChange {
  const { estimates, own } = estimatesAfter(page, commit);
  const { inline, ahead } = reserveIn(page, commit, live);
  const { ledgers, base, gone, chargedMean, spilled } = nextLedgers(page, commit.ledgers);
  const items = new Map(live);
  for (const each of ahead) items.set(each.batchId, each);
  const { marks, named } = marksAfter(page, commit, items);
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
    absorbed: absorb(page, marks, live),
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

/** What a page says after a commit of reservations with items. One that is settled whole has neither a name nor a mark. */
function marksAfter(
  page: Page,
  commit: Commit,
  items: ReadonlyMap<string, Reservation>,
): { readonly marks: ReadonlyMap<string, BatchMark>; readonly named: ReadonlySet<string> } {
  const marks = new Map<string, BatchMark>();
  for (const [batchId, mark] of page.batches) {
    const reservation = items.get(batchId);
    if (reservation !== undefined && !saysItself(reservation, mark)) marks.set(batchId, mark);
  }
  for (const { reservation, positions } of commit.drop) {
    // planted: moved-without-a-mark
    if (!items.has(reservation.batchId)) continue;
    const known = marks.get(reservation.batchId);
    const settled = new Set(known?.settled);
    for (const position of positions) settled.add(position);
    marks.set(reservation.batchId, { ...known, settled });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    if (!items.has(reservation.batchId)) continue;
    const settled = marks.get(reservation.batchId)?.settled ?? new Set();
    marks.set(reservation.batchId, { settled, checkAtMs });
  }
  const named = new Set<string>();
  for (const [batchId, { jobs }] of items) {
    const settled = marks.get(batchId)?.settled;
    // planted: names-of-the-untouched
    if (settled === undefined || holdsMore(jobs, settled)) named.add(batchId);
    else marks.delete(batchId);
  }
  return { marks, named };
}

/**
 * Whether a reservation's item, as it was loaded, says what its mark says. Only then is the mark forgotten, not when the item is put: a
 * dispatcher that reads the partition meanwhile may see the item as it was, and the page as it is.
 */
function saysItself({ jobs, checkAtMs }: Reservation, mark: BatchMark): boolean {
  if (mark.checkAtMs !== undefined && mark.checkAtMs !== checkAtMs) return false;
  for (const position of mark.settled) if (jobs.has(position)) return false;
  return true;
}

/**
 * Reservations whose items are to say what their marks say, those that have one for longest first, until the other marks fit. It is what the
 * page said before this commit, so it is true whether or not the commit counts.
 */
function absorb(
  page: Page,
  marks: ReadonlyMap<string, BatchMark>,
  live: ReadonlyMap<string, Reservation>,
): readonly Reservation[] {
  let bytes = 0;
  for (const batchId of marks.keys()) bytes += markBytes(batchId);
  const absorbed: Reservation[] = [];
  for (const batchId of marks.keys()) {
    // planted: unbounded-marker
    if (bytes <= MARKS_BYTES_MAX) break;
    const reservation = live.get(batchId);
    if (reservation === undefined || !page.batches.has(batchId)) continue;
    absorbed.push(asMarked(reservation, page));
    bytes -= markBytes(batchId);
  }
  return absorbed;
}

/** Items of a commit that lend, grant, or give back: they stand with other partitions, too, and so are written together with the page. */
export function lendingItems({ lend = [], giveBack = [] }: Commit): number {
  return 2 * (lend.length + giveBack.length) + new Set(lend.map(({ to }) => to)).size;
}

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

/** A reservation as the page says it is by now. */
export function asMarked(reservation: Reservation, page: Page): Reservation {
  const mark = page.batches.get(reservation.batchId);
  if (mark === undefined) return reservation;
  const jobs = placesWithout(reservation.jobs, mark.settled);
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
