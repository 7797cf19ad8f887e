/**
 * A partition's page: what each pass changes a little of, in one small item that is read with the partition and written
 * by every commit. Ledgers of the keys that are active, what whole types cost, and which places of the reservations are
 * settled. So a settlement rewrites this item and nothing else.
 *
 * A page is exact for whoever holds the lease: only commits turn it, and each names the turn that it follows.
 */
import type { ReservedJob } from '../core/job.ts';
import {
  ABSORBED_BYTES_MAX,
  LEDGERS_BYTES_MAX,
  MARKS_BYTES_MAX,
  PAGE_TYPES_MAX,
  reservationBytesAtMost,
  TRANSACTION_ITEMS_MAX,
} from './bounds.ts';
import type { Attendance, Commit, EstimateRecord, Ledger, Reservation } from './contract.ts';

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
  /** The latest charged last. Of a key that is here, no other ledger counts. */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  /** By type: of whole types. */
  readonly estimates: ReadonlyMap<string, EstimateRecord>;
  /** By batch id. */
  readonly batches: ReadonlyMap<string, BatchMark>;
  /** Whether any conflict key may have a blocked line. */
  readonly parks: boolean;
  /** How steadily the partition has been read. */
  readonly attendance?: Attendance | undefined;
  /** By when all keys that came were lifted. */
  readonly liftedAtMs?: number | undefined;
  /** No key has come unseen since. */
  readonly isLifted?: boolean | undefined;
}

export const EMPTY_PAGE: Page = {
  turn: 0,
  ledgers: new Map(),
  estimates: new Map(),
  batches: new Map(),
  parks: false,
};

/** What a commit makes of a page, and what it writes beside it. */
export interface PageTurn {
  readonly page: Page;
  /** Ledgers that gave way to others: each goes to an item of its own. */
  readonly spilled: readonly Ledger[];
  /** Estimates that have items of their own. */
  readonly estimates: readonly EstimateRecord[];
  /** Reservations that say by themselves what the page said of them: their items are written anew, or taken away. */
  readonly absorbed: readonly Reservation[];
}

const LEDGER_OVERHEAD_BYTES = 24;
/** A hash, an instant, and what stands between them. */
const LATER_JOB_BYTES = 24;
const ledgerBytes = ({ fairnessKey, later = [] }: Ledger): number =>
  Buffer.byteLength(fairnessKey, 'utf8') + LEDGER_OVERHEAD_BYTES + later.length * LATER_JOB_BYTES;

/** Its places as one number, an instant, and what stands between them. */
const MARK_OVERHEAD_BYTES = 40;
const markBytes = (batchId: string): number => batchId.length + MARK_OVERHEAD_BYTES;

/** The page, and the check of the lease's epoch. */
const OWN_ITEMS = 2;

/**
 * The page after a commit.
 *
 * @param live - reservations as their items are, before what the commit reserves: marks of others are forgotten
 */
export function turnPage(page: Page, commit: Commit, live: ReadonlyMap<string, Reservation>): PageTurn {
  const ledgers = new Map(page.ledgers);
  for (const ledger of commit.ledgers) {
    ledgers.delete(ledger.fairnessKey);
    ledgers.set(ledger.fairnessKey, ledger);
  }
  const estimates = new Map(page.estimates);
  const own: EstimateRecord[] = [];
  for (const estimate of commit.estimates) {
    const isOfType = estimate.resourceId === '';
    if (isOfType && (estimates.has(estimate.type) || estimates.size < PAGE_TYPES_MAX)) {
      estimates.set(estimate.type, estimate);
    } else own.push(estimate);
  }
  const room = TRANSACTION_ITEMS_MAX - OWN_ITEMS - own.length - commit.reserve.length - lendingItems(commit);
  // As many marks as it makes new, a commit can take out: it writes no other item for those.
  const spilled = spill(ledgers, room - commit.drop.length - commit.postpone.length);
  const batches = marksAfter(page, commit, live);
  return {
    page: {
      turn: page.turn + 1,
      ledgers,
      estimates,
      batches,
      parks: commit.parks ?? page.parks,
      attendance: commit.attendance ?? page.attendance,
      liftedAtMs: commit.liftedAtMs ?? page.liftedAtMs,
      isLifted: commit.isLifted ?? page.isLifted,
    },
    spilled,
    estimates: own,
    absorbed: absorb(batches, live, room - spilled.length),
  };
}

/**
 * Takes out what a page has no room for, the longest not charged first; where so many are not enough, the largest ones.
 * A commit has room for as many as it charges, so what was within the bound before is so afterwards.
 */
function spill(ledgers: Map<string, Ledger>, spilledMax: number): readonly Ledger[] {
  let bytes = 0;
  for (const ledger of ledgers.values()) bytes += ledgerBytes(ledger);
  let spilled = spillFrom(ledgers.values(), bytes, spilledMax);
  if (spilled.isShort) {
    const largest = [...ledgers.values()].sort((one, other) => ledgerBytes(other) - ledgerBytes(one));
    spilled = spillFrom(largest, bytes, spilledMax);
  }
  for (const { fairnessKey } of spilled.ledgers) ledgers.delete(fairnessKey);
  return spilled.ledgers;
}

function spillFrom(
  ledgers: Iterable<Ledger>,
  bytes: number,
  spilledMax: number,
): { readonly ledgers: readonly Ledger[]; readonly isShort: boolean } {
  const spilled: Ledger[] = [];
  let left = bytes;
  for (const ledger of ledgers) {
    if (left <= LEDGERS_BYTES_MAX) break;
    if (spilled.length >= spilledMax) return { ledgers: spilled, isShort: true };
    spilled.push(ledger);
    left -= ledgerBytes(ledger);
  }
  return { ledgers: spilled, isShort: false };
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
  for (const { reservation, positions } of commit.drop) {
    const known = batches.get(reservation.batchId);
    const settled = new Set(known?.settled);
    for (const position of positions) settled.add(position);
    batches.set(reservation.batchId, { ...known, settled });
  }
  for (const { reservation, checkAtMs } of commit.postpone) {
    const settled = batches.get(reservation.batchId)?.settled ?? new Set();
    batches.set(reservation.batchId, { settled, checkAtMs });
  }
  return batches;
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

/** Items of a commit that lend, grant, or give back. */
export const lendingItems = ({ lend = [], giveBack = [] }: Commit): number =>
  2 * (lend.length + giveBack.length) + new Set(lend.map(({ to }) => to)).size;

/** Parts of the transaction that turns a page. */
export const partsOf = (turn: PageTurn, commit: Commit): number =>
  OWN_ITEMS +
  turn.spilled.length +
  turn.estimates.length +
  turn.absorbed.length +
  commit.reserve.length +
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

/** A reservation as the page says it is by now; undefined once all of its places are settled. */
export function asMarked(reservation: Reservation, page: Page): Reservation | undefined {
  const mark = page.batches.get(reservation.batchId);
  if (mark === undefined) return reservation;
  const jobs = placesWithout(reservation.jobs, mark.settled);
  if (jobs.size === 0) return undefined;
  return { ...reservation, checkAtMs: mark.checkAtMs ?? reservation.checkAtMs, jobs };
}
