/**
 * A partition's page: what each pass changes a little of, in one small item that is read with the partition and written
 * by every commit. Ledgers of the keys that are active, what whole types cost, and which places of the reservations are
 * settled. So a settlement rewrites this item and nothing else.
 *
 * A page is exact for whoever holds the lease: only commits turn it, and each names the turn that it follows.
 */
import type { ReservedJob } from '../core/job.ts';
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
  readonly leastShareMs: number;
  /** The latest charged last. Of a key that is here, no other ledger counts. */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  /** By type: of whole types. */
  readonly estimates: ReadonlyMap<string, EstimateRecord>;
  /** By batch id. */
  readonly batches: ReadonlyMap<string, BatchMark>;
  /** Conflict keys that have a blocked line, with the instant at which a job was last parked there. */
  readonly parked: ReadonlyMap<string, number>;
  /** How steadily the partition has been read. */
  readonly attendance?: Attendance | undefined;
}

export const EMPTY_PAGE: Page = {
  turn: 0,
  leastShareMs: 0,
  ledgers: new Map(),
  estimates: new Map(),
  batches: new Map(),
  parked: new Map(),
};

/** What a commit makes of a page, and what it writes beside it. */
export interface PageTurn {
  readonly page: Page;
  /** Ledgers that gave way to others: each goes to an item of its own. */
  readonly spilled: readonly Ledger[];
  /** Estimates that have items of their own. */
  readonly estimates: readonly EstimateRecord[];
}

/** Bounds of a page. A transaction bills each started KB twice, so a page is small. */
const LEDGERS_BYTES_MAX = 4_000;
const LEDGER_OVERHEAD_BYTES = 24;
const TYPES_MAX = 40;
/** A transaction has room for this many beside what a commit writes anyway. */
const SPILLED_MAX = 40;

const ledgerBytes = (fairnessKey: string): number =>
  Buffer.byteLength(fairnessKey, 'utf8') + LEDGER_OVERHEAD_BYTES;

/**
 * The page after a commit.
 *
 * @param live - reservations whose items are there, before what the commit reserves: marks of others are forgotten
 */
export function turnPage(page: Page, commit: Commit, live: ReadonlySet<string>): PageTurn {
  const ledgers = new Map(page.ledgers);
  for (const ledger of commit.ledgers) {
    ledgers.delete(ledger.fairnessKey);
    ledgers.set(ledger.fairnessKey, ledger);
  }
  const estimates = new Map(page.estimates);
  const own: EstimateRecord[] = [];
  for (const estimate of commit.estimates) {
    const isOfType = estimate.resourceId === '';
    if (isOfType && (estimates.has(estimate.type) || estimates.size < TYPES_MAX)) {
      estimates.set(estimate.type, estimate);
    } else own.push(estimate);
  }
  const parked = new Map(page.parked);
  for (const [conflictKey, atMs] of commit.park ?? []) parked.set(conflictKey, atMs);
  for (const conflictKey of commit.unpark ?? []) parked.delete(conflictKey);
  return {
    page: {
      turn: page.turn + 1,
      leastShareMs: commit.leastShareMs,
      ledgers,
      estimates,
      batches: marksAfter(page, commit, live),
      parked,
      attendance: commit.attendance ?? page.attendance,
    },
    spilled: spill(ledgers),
    estimates: own,
  };
}

/** Takes out what a page has no room for, the longest not charged first. */
function spill(ledgers: Map<string, Ledger>): readonly Ledger[] {
  let bytes = 0;
  for (const fairnessKey of ledgers.keys()) bytes += ledgerBytes(fairnessKey);
  const spilled: Ledger[] = [];
  for (const ledger of ledgers.values()) {
    if (bytes <= LEDGERS_BYTES_MAX || spilled.length === SPILLED_MAX) break;
    spilled.push(ledger);
    bytes -= ledgerBytes(ledger.fairnessKey);
  }
  for (const { fairnessKey } of spilled) ledgers.delete(fairnessKey);
  return spilled;
}

function marksAfter(page: Page, commit: Commit, live: ReadonlySet<string>): ReadonlyMap<string, BatchMark> {
  const batches = new Map([...page.batches].filter(([batchId]) => live.has(batchId)));
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

/** Items of a commit that lend, grant, or give back. */
export const lendingItems = ({ lend = [], giveBack = [] }: Commit): number =>
  2 * (lend.length + giveBack.length) + new Set(lend.map(({ to }) => to)).size;

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
