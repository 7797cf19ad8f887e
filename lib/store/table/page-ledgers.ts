/**
 * The ledgers of a page. The page has those that have changed since its base, which is an item beside it. They may be ten
 * thousand, and each commit charges a few: what is asked of all of them is kept beside them, and follows each charge.
 */
import { LEDGERS_BYTES_MAX, LEDGERS_SINCE_BYTES_MAX } from '../contract/bounds.ts';
import type { Ledger } from '../contract/records.ts';
import { TRANSACTION_FACTOR } from './metering.ts';

type Ledgers = ReadonlyMap<string, Ledger>;

/**
 * The ledgers of a page as they were at one commit, in an item of their own: the page then holds those only that have changed
 * since. So a commit writes what it charges, not a thousand keys.
 */
export interface LedgerBase {
  /** Of the page that the commit made. The page names it: a reader that finds another one has read the two at different times. */
  readonly version: number;
  readonly ledgers: Ledgers;
}

/** What a page has of ledgers. */
export interface PageLedgers {
  readonly version: number;
  readonly ledgers: Ledgers;
  readonly base?: LedgerBase | undefined;
  readonly gone?: ReadonlySet<string> | undefined;
  readonly chargedMean?: number | undefined;
}

// Names as JSON, and half of all digits, as deflate leaves them: `bounds.test.ts` writes the largest bases.
/** A cost, an instant, and what stands between. */
const LEDGER_OVERHEAD_BYTES = 18;
/** What stands between two names. */
const GONE_OVERHEAD_BYTES = 3;
/** Of a name as JSON, each character is a byte. */
const PLAIN = /^[ !#-[\]-~]*$/;
const textBytes = (name: string): number =>
  PLAIN.test(name) ? name.length : Buffer.byteLength(JSON.stringify(name), 'utf8');
export const ledgerBytes = ({ fairnessKey }: Ledger): number =>
  textBytes(fairnessKey) + LEDGER_OVERHEAD_BYTES;

const bytesOf = (ledgers: Iterable<Ledger>): number => {
  let bytes = 0;
  for (const ledger of ledgers) bytes += ledgerBytes(ledger);
  return bytes;
};

const isSince = (base: LedgerBase | undefined, ledger: Ledger): boolean =>
  base?.ledgers.get(ledger.fairnessKey) !== ledger;

/** What is asked of all ledgers of a page. */
interface Sums {
  readonly base: LedgerBase | undefined;
  readonly bytes: number;
  /** Of those that the base does not have as they are, in the page's order. */
  readonly since: Ledgers;
  readonly sinceBytes: number;
}

/** Of ledgers that do not change any more. */
const sumsKept = new WeakMap<Ledgers, Sums>();

function sumsOf({ ledgers, base }: Pick<PageLedgers, 'ledgers' | 'base'>): Sums {
  const kept = sumsKept.get(ledgers);
  if (kept !== undefined && kept.base === base) return kept;
  const since =
    base === undefined ? ledgers : new Map([...ledgers].filter(([, each]) => isSince(base, each)));
  const bytes = bytesOf(ledgers.values());
  const sums = { base, bytes, since, sinceBytes: base === undefined ? bytes : bytesOf(since.values()) };
  sumsKept.set(ledgers, sums);
  return sums;
}

/** Ledgers that a page with a base writes with itself: those that the base does not have as they are. */
export const ledgersSince = (page: Pick<PageLedgers, 'ledgers' | 'base'>): Ledgers => sumsOf(page).since;

/** What a commit makes of a page's ledgers. */
export interface LedgersChange {
  readonly ledgers: Ledgers;
  /** Written anew with the page. */
  readonly base: LedgerBase | undefined;
  /** Keys of the base that are in the page no more. */
  readonly gone: ReadonlySet<string>;
  readonly chargedMean: number;
  /** What gave way to others. */
  readonly spilled: readonly Ledger[];
}

export function nextLedgers(page: PageLedgers, charged: readonly Ledger[]): LedgersChange {
  const before = sumsOf(page);
  const ledgers = new Map(page.ledgers);
  const since = page.base === undefined ? ledgers : new Map(before.since);
  let { bytes, sinceBytes } = before;
  for (const ledger of charged) {
    const key = ledger.fairnessKey;
    bytes += ledgerBytes(ledger) - bytesIn(ledgers, key);
    // planted: charged-twice-in-a-page
    sinceBytes += ledgerBytes(ledger) - bytesIn(since, key);
    // The latest charged last.
    for (const each of [ledgers, since]) {
      each.delete(key);
      each.set(key, ledger);
    }
  }
  const spilled = toSpill(page.ledgers, bytes, new Set(charged.map(({ fairnessKey }) => fairnessKey)));
  for (const { fairnessKey } of spilled) {
    bytes -= bytesIn(ledgers, fairnessKey);
    sinceBytes -= bytesIn(since, fairnessKey);
    ledgers.delete(fairnessKey);
    since.delete(fairnessKey);
  }
  const gone = goneAfter(page, ledgers, spilled);
  const chargedMean = meanAfter(page.chargedMean, charged.length);
  const isBaseDue = changesMuch({ bytes, sinceBytes }, { count: ledgers.size, gone, chargedMean });
  const base = isBaseDue ? { version: page.version + 1, ledgers } : undefined;
  sumsKept.set(
    ledgers,
    base === undefined
      ? { base: page.base, bytes, since, sinceBytes }
      : { base, bytes, since: new Map(), sinceBytes: 0 },
  );
  return { ledgers, base, gone, chargedMean, spilled };
}

function bytesIn(ledgers: Ledgers, key: string): number {
  const ledger = ledgers.get(key);
  return ledger === undefined ? 0 : ledgerBytes(ledger);
}

/** A page that says so little of ledgers takes one write unit with all else. */
const SINCE_BYTES_KEPT = 2_400;
/** Write units for a byte of ledgers: compressed, they take a third and less. */
const BYTE_UNITS = 0.3 / 1_024;

/**
 * Whether a base is to be written anew. That costs the page and the base, twice; not to do it costs what each commit adds, in
 * every commit until then. Both together cost least where this has grown to a square root, as with orders for a store (F. W. Harris,
 * "How Many Parts to Make at Once", 1913).
 */
function changesMuch(
  { bytes, sinceBytes }: Pick<Sums, 'bytes' | 'sinceBytes'>,
  {
    count,
    gone,
    chargedMean,
  }: { readonly count: number; readonly gone: ReadonlySet<string>; readonly chargedMean: number },
): boolean {
  let ownBytes = sinceBytes;
  for (const key of gone) ownBytes += textBytes(key) + GONE_OVERHEAD_BYTES;
  if (ownBytes <= SINCE_BYTES_KEPT) return false;
  if (ownBytes > LEDGERS_SINCE_BYTES_MAX) return true;
  const anewUnits = TRANSACTION_FACTOR * (1 + bytes * BYTE_UNITS);
  const bytesOfCommit = Math.max(1, chargedMean / HUNDRED) * (bytes / count);
  return ownBytes > Math.sqrt((2 * anewUnits * bytesOfCommit) / BYTE_UNITS);
}

/** Keys of the base that are in the page no more. */
function goneAfter(
  { base, gone = new Set() }: PageLedgers,
  ledgers: Ledgers,
  spilled: readonly Ledger[],
): ReadonlySet<string> {
  const after = new Set<string>();
  for (const key of gone) if (!ledgers.has(key)) after.add(key);
  for (const { fairnessKey } of spilled) if (base?.ledgers.has(fairnessKey) === true) after.add(fairnessKey);
  return after;
}

/** Of the mean number of ledgers that a commit writes, the latest one is so much. */
const CHARGED_SHARE = 1 / 8;
const HUNDRED = 100;

const meanAfter = (before = 0, charged: number): number =>
  Math.round(before + (charged * HUNDRED - before) * CHARGED_SHARE);

/**
 * What a page has no room for, the longest not charged first. Each is as it was before the commit, as a commit that loses has put it, too:
 * what the commit charges stays.
 */
function toSpill(before: Ledgers, bytesAfter: number, charged: ReadonlySet<string>): readonly Ledger[] {
  const spilled: Ledger[] = [];
  let left = bytesAfter;
  for (const ledger of before.values()) {
    if (left <= LEDGERS_BYTES_MAX) break;
    if (charged.has(ledger.fairnessKey)) continue;
    spilled.push(ledger);
    left -= ledgerBytes(ledger);
  }
  return spilled;
}
