/**
 * The ledgers of a partition summary. The summary holds those that have changed since a snapshot, which is an item beside it. There may be
 * ten thousand ledgers, and each commit charges a few, so sums over all of them are cached and updated with each charge.
 */
import { LEDGERS_BYTES_MAX, LEDGERS_SINCE_BYTES_MAX } from '../contract/bounds.ts';
import type { Ledger } from '../contract/records.ts';
import { TRANSACTION_FACTOR } from './metering.ts';

type Ledgers = ReadonlyMap<string, Ledger>;

/**
 * A snapshot of all ledgers in the summary at one commit, in an item of its own. The summary item then holds only those that have changed
 * since, so a commit does not rewrite thousands of keys.
 */
export interface LedgerSnapshot {
  /**
   * The version of the summary that was written with it. The summary names it: if a reader finds another version, it has read the two at
   * different times.
   */
  readonly version: number;
  readonly ledgers: Ledgers;
}

/** The parts of a summary that concern ledgers. */
export interface SummaryLedgers {
  readonly version: number;
  readonly ledgers: Ledgers;
  readonly base?: LedgerSnapshot | undefined;
  readonly gone?: ReadonlySet<string> | undefined;
  readonly chargedMean?: number | undefined;
}

// These sizes assume names as JSON, and half of all digits, after deflate. `bounds.test.ts` writes the largest snapshots.
/** The bytes of a ledger besides its name: a cost, an instant and separators. */
const LEDGER_OVERHEAD_BYTES = 18;
/** The bytes between two names. */
const GONE_OVERHEAD_BYTES = 3;
/** Names in which each character is one byte of JSON. */
const PLAIN = /^[ !#-[\]-~]*$/;
const textBytes = (name: string): number =>
  PLAIN.test(name) ? name.length : Buffer.byteLength(JSON.stringify(name), 'utf8');
/** The bytes of one use: the time since the one before it, which is that of most, and an amount. */
const USE_BYTES = 12;
export function ledgerBytes({ fairnessKey, uses }: Ledger): number {
  let bytes = textBytes(fairnessKey) + LEDGER_OVERHEAD_BYTES;
  for (const [name, all] of uses ?? []) bytes += textBytes(name) + all.length * USE_BYTES;
  return bytes;
}

const bytesOf = (ledgers: Iterable<Ledger>): number => {
  let bytes = 0;
  for (const ledger of ledgers) bytes += ledgerBytes(ledger);
  return bytes;
};

const isChanged = (base: LedgerSnapshot | undefined, ledger: Ledger): boolean =>
  base?.ledgers.get(ledger.fairnessKey) !== ledger;

/** Sums over all ledgers of a summary. */
interface LedgerSums {
  readonly base: LedgerSnapshot | undefined;
  readonly bytes: number;
  /** The ledgers that differ from the snapshot, in the summary's order. */
  readonly changed: Ledgers;
  readonly changedBytes: number;
}

/** The sums that were computed before. Maps of ledgers never change, so their sums stay valid. */
const sumsCache = new WeakMap<Ledgers, LedgerSums>();

function sumsOf({ ledgers, base }: Pick<SummaryLedgers, 'ledgers' | 'base'>): LedgerSums {
  const kept = sumsCache.get(ledgers);
  if (kept !== undefined && kept.base === base) return kept;
  const changed =
    base === undefined ? ledgers : new Map([...ledgers].filter(([, each]) => isChanged(base, each)));
  const bytes = bytesOf(ledgers.values());
  const sums = { base, bytes, changed, changedBytes: base === undefined ? bytes : bytesOf(changed.values()) };
  sumsCache.set(ledgers, sums);
  return sums;
}

/** Returns the ledgers in a summary's own item: those that differ from the snapshot. */
export const changedLedgers = (summary: Pick<SummaryLedgers, 'ledgers' | 'base'>): Ledgers =>
  sumsOf(summary).changed;

/** The ledgers after a commit. */
export interface LedgersChange {
  readonly ledgers: Ledgers;
  /** The new snapshot, if one is written. */
  readonly base: LedgerSnapshot | undefined;
  /** Keys of the snapshot that are no longer in the summary. */
  readonly gone: ReadonlySet<string>;
  readonly chargedMean: number;
  /** Ledgers that no longer fit into the summary and get items of their own. */
  readonly spilled: readonly Ledger[];
}

export function nextLedgers(summary: SummaryLedgers, charged: readonly Ledger[]): LedgersChange {
  const before = sumsOf(summary);
  const ledgers = new Map(summary.ledgers);
  const changed = summary.base === undefined ? ledgers : new Map(before.changed);
  let { bytes, changedBytes } = before;
  for (const ledger of charged) {
    const key = ledger.fairnessKey;
    bytes += ledgerBytes(ledger) - bytesIn(ledgers, key);
    // planted: charged-twice-in-a-summary
    changedBytes += ledgerBytes(ledger) - bytesIn(changed, key);
    // Map order is the order of the last charge.
    for (const each of [ledgers, changed]) {
      each.delete(key);
      each.set(key, ledger);
    }
  }
  const spilled = chooseSpilled(
    summary.ledgers,
    bytes,
    new Set(charged.map(({ fairnessKey }) => fairnessKey)),
  );
  for (const { fairnessKey } of spilled) {
    bytes -= bytesIn(ledgers, fairnessKey);
    changedBytes -= bytesIn(changed, fairnessKey);
    ledgers.delete(fairnessKey);
    changed.delete(fairnessKey);
  }
  const gone = removedKeysAfter(summary, ledgers, spilled);
  const chargedMean = meanAfter(summary.chargedMean, charged.length);
  const isBaseDue = isSnapshotDue({ bytes, changedBytes }, { count: ledgers.size, gone, chargedMean });
  const base = isBaseDue ? { version: summary.version + 1, ledgers } : undefined;
  sumsCache.set(
    ledgers,
    base === undefined
      ? { base: summary.base, bytes, changed, changedBytes }
      : { base, bytes, changed: new Map(), changedBytes: 0 },
  );
  return { ledgers, base, gone, chargedMean, spilled };
}

function bytesIn(ledgers: Ledgers, key: string): number {
  const ledger = ledgers.get(key);
  return ledger === undefined ? 0 : ledgerBytes(ledger);
}

/**
 * Bytes of changed ledgers up to which the summary is not worth a new snapshot: they and the rest of the summary fit
 * into one write unit.
 */
const CHANGED_BYTES_MIN = 2_400;
/** Write units that a byte of ledgers costs: compressed, they take at most a third. */
const BYTE_UNITS = 0.3 / 1_024;

/**
 * Whether a new snapshot pays. To write one costs the units of the summary and of the snapshot, doubled by the
 * transaction. Not to write it makes every later commit larger. The sum is least when the changed ledgers have reached
 * a square root, as with the size of orders (F. W. Harris, "How Many Parts to Make at Once", 1913).
 */
function isSnapshotDue(
  { bytes, changedBytes }: Pick<LedgerSums, 'bytes' | 'changedBytes'>,
  {
    count,
    gone,
    chargedMean,
  }: { readonly count: number; readonly gone: ReadonlySet<string>; readonly chargedMean: number },
): boolean {
  let ownBytes = changedBytes;
  for (const key of gone) ownBytes += textBytes(key) + GONE_OVERHEAD_BYTES;
  if (ownBytes <= CHANGED_BYTES_MIN) return false;
  if (ownBytes > LEDGERS_SINCE_BYTES_MAX) return true;
  const snapshotUnits = TRANSACTION_FACTOR * (1 + bytes * BYTE_UNITS);
  const bytesOfCommit = Math.max(1, chargedMean / HUNDRED) * (bytes / count);
  return ownBytes > Math.sqrt((2 * snapshotUnits * bytesOfCommit) / BYTE_UNITS);
}

/** Keys of the snapshot that are no longer in the summary. */
function removedKeysAfter(
  { base, gone = new Set() }: SummaryLedgers,
  ledgers: Ledgers,
  spilled: readonly Ledger[],
): ReadonlySet<string> {
  const after = new Set<string>();
  for (const key of gone) if (!ledgers.has(key)) after.add(key);
  for (const { fairnessKey } of spilled) if (base?.ledgers.has(fairnessKey) === true) after.add(fairnessKey);
  return after;
}

/** The weight of the latest commit in the mean number of charged ledgers. */
const CHARGED_SHARE = 1 / 8;
const HUNDRED = 100;

const meanAfter = (before = 0, charged: number): number =>
  Math.round(before + (charged * HUNDRED - before) * CHARGED_SHARE);

/**
 * Chooses the ledgers that no longer fit, those without a charge for longest first. Ledgers that this commit charges stay. The others are
 * as before the commit, so it does no harm if their items are written and the commit then loses.
 */
function chooseSpilled(before: Ledgers, bytesAfter: number, charged: ReadonlySet<string>): readonly Ledger[] {
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
