/** The page: what every pass reads and writes, packed. */
import { deflateRawSync } from 'node:zlib';
import { costOf, unitsOf } from '../../../core/fairness.ts';
import type { MalformedItemError } from '../../errors.ts';
import { itemBytes, writeUnitsOf } from '../../metering.ts';
import { EMPTY_PAGE, type Page } from '../../page.ts';
import { type LedgerBase, ledgersSince } from '../../page-ledgers.ts';
import type { Attendance, EstimateRecord, Ledger, Quiet } from '../../records.ts';
import { ledgerBaseKey, pageKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';
import { packLater, unpackLater } from './ledger.ts';
import { loosened, packReservations, unpackReservations } from './reservation.ts';

/** A set of places as one number in base 36: a bit for each. */
function packPlaces(places: ReadonlySet<number>): string {
  let bits = 0n;
  for (const place of places) bits |= 1n << BigInt(place);
  return bits.toString(36);
}

function unpackPlaces(packed: string): ReadonlySet<number> {
  let bits = 0n;
  for (const digit of packed) bits = bits * 36n + BigInt(Number.parseInt(digit, 36));
  const places = new Set<number>();
  for (let place = 0; bits > 0n; place += 1, bits >>= 1n) if ((bits & 1n) === 1n) places.add(place);
  return places;
}

/**
 * The instant from which the others count; fairness keys; settled costs in whole units; when each was seen last. Columns of whole
 * numbers take half as much, compressed. Where there is more to say of a key, a list in place of the last: last seen, present
 * until, whether undecided, and a hash and an instant for each later job.
 */
function packLedgers(ledgers: ReadonlyMap<string, Ledger>): string {
  const all = [...ledgers.values()];
  const sinceMs = all.reduce((least, { lastSeenMs }) => Math.min(least, lastSeenMs), Infinity);
  const seen = all.map(({ lastSeenMs, presentUntilMs, isUndecided, later = [] }) => {
    const lastMs = lastSeenMs - sinceMs;
    const untilMs = presentUntilMs === undefined ? null : presentUntilMs - sinceMs;
    if (isUndecided === true || later.length > 0)
      return [lastMs, untilMs, Number(isUndecided === true), ...packLater(later, sinceMs)];
    return untilMs === null ? lastMs : [lastMs, untilMs];
  });
  const [keys, costs] = [
    all.map(({ fairnessKey }) => fairnessKey),
    all.map(({ settledCostMs }) => unitsOf(settledCostMs)),
  ];
  return JSON.stringify(all.length === 0 ? [] : [sinceMs, keys, costs, seen]);
}

function unpackLedgers(packed: unknown): ReadonlyMap<string, Ledger> {
  const [sinceMs = 0, keys = [], costs = [], seen = []] = columnsOf(packed as Columns | Flat);
  const ledgers = new Map<string, Ledger>();
  for (const [at, fairnessKey] of keys.entries()) {
    const settledCostMs = costOf(costs[at] ?? Number.NaN);
    const [last, until, undecided = 0, ...pairs] = [seen[at]].flat() as unknown as Packed;
    const numbers = [settledCostMs, last, until ?? 0, undecided, ...pairs];
    const isSound = numbers.every((each) => Number.isFinite(each)) && pairs.length % 2 === 0;
    if (typeof fairnessKey !== 'string' || !isSound) throw new TypeError(`entry ${at}`);
    ledgers.set(fairnessKey, {
      fairnessKey,
      settledCostMs,
      lastSeenMs: sinceMs + last,
      ...(typeof until === 'number' ? { presentUntilMs: sinceMs + until } : {}),
      ...(undecided === 1 ? { isUndecided: true } : {}),
      ...(pairs.length > 0 ? { later: unpackLater(pairs, sinceMs) } : {}),
    });
  }
  return ledgers;
}

type Seen = number | readonly (number | null)[];
type Packed = readonly [last: number, until?: number | null, undecided?: number, ...pairs: number[]];
type Columns = readonly [] | readonly [number, readonly string[], readonly number[], readonly Seen[]];
/** As it was packed before there were columns: the instant, then fairness key, settled cost in ms and last seen for each. */
type Flat = readonly [number, ...(string | Seen)[]];

function columnsOf(packed: Columns | Flat): Columns {
  if (packed.length === 0 || Array.isArray(packed[1])) return packed as Columns;
  const [sinceMs, ...flat] = packed as Flat;
  const column = (which: number): readonly unknown[] => flat.filter((_, at) => at % 3 === which);
  const costs = (column(1) as readonly number[]).map(unitsOf);
  return [sinceMs, column(0) as readonly string[], costs, column(2) as readonly Seen[]];
}

const packEstimates = (estimates: ReadonlyMap<string, EstimateRecord>): string =>
  JSON.stringify(
    [...estimates.values()].map(({ type, meanMs, varianceMs2, samples, lastSeenMs }) => [
      type,
      storable(meanMs),
      storable(varianceMs2),
      samples,
      lastSeenMs,
    ]),
  );

function unpackEstimates(packed: unknown): ReadonlyMap<string, EstimateRecord> {
  const rows = packed as readonly (readonly [string, number, number, number, number])[];
  return new Map(
    rows.map(([type, meanMs, varianceMs2, samples, lastSeenMs]) => {
      if (typeof type !== 'string' || ![meanMs, varianceMs2, samples, lastSeenMs].every(Number.isFinite)) {
        throw new TypeError(`estimate ${String(type)}`);
      }
      return [type, { type, resourceId: '', meanMs, varianceMs2, samples, lastSeenMs }] as const;
    }),
  );
}

const packBatches = (batches: Page['batches']): string =>
  JSON.stringify(
    [...batches].map(([batchId, { settled, checkAtMs }]) => [
      batchId,
      packPlaces(settled),
      ...(checkAtMs === undefined ? [] : [checkAtMs]),
    ]),
  );

function unpackBatches(packed: unknown): Page['batches'] {
  const rows = packed as readonly (readonly [string, string, number?])[];
  return new Map(
    rows.map(([batchId, places, checkAtMs]) => {
      if (typeof batchId !== 'string' || !/^[0-9a-z]+$/.test(places)) throw new TypeError(`batch ${batchId}`);
      return [
        batchId,
        { settled: unpackPlaces(places), ...(checkAtMs === undefined ? {} : { checkAtMs }) },
      ] as const;
    }),
  );
}

const packAttendance = ({ sinceMs, atMs, heldBackSinceMs }: Attendance): string =>
  JSON.stringify([sinceMs, atMs, ...(heldBackSinceMs === undefined ? [] : [heldBackSinceMs])]);

function unpackAttendance(packed: unknown): Attendance {
  const [sinceMs, atMs, heldBackSinceMs] = packed as readonly [number, number, number?];
  if (![sinceMs, atMs, heldBackSinceMs ?? 0].every(Number.isFinite)) throw new TypeError('instants');
  return { sinceMs, atMs, ...(heldBackSinceMs === undefined ? {} : { heldBackSinceMs }) };
}

/** Without them, nobody would know which reservations count: an earlier version does not write them. */
function unpackNames(packed: unknown): ReadonlySet<string> {
  if (!Array.isArray(packed) || !packed.every((each) => typeof each === 'string'))
    throw new TypeError('names');
  return new Set(packed);
}

const packQuiet = ({ sinceMs, lookedAtMs, declared }: Quiet): string =>
  JSON.stringify([sinceMs, lookedAtMs, ...(declared === undefined ? [] : [declared])]);

function unpackQuiet(packed: unknown): Quiet {
  const [sinceMs, lookedAtMs, declared] = packed as readonly [number, number, number?];
  if (![sinceMs, lookedAtMs, declared ?? 0].every(Number.isFinite)) throw new TypeError('instants');
  return { sinceMs, lookedAtMs, ...(declared === undefined ? {} : { declared }) };
}

/** What the page says of keys, types and reservations: a text of JSON each, in one line. */
const TEXTS = [
  A.ledgers,
  A.estimates,
  A.batches,
  A.inline,
  A.attendance,
  A.quiet,
  A.ledgersSince,
  A.namedBatches,
  A.goneSince,
] as const;
/** Far beyond any page: more is damaged, or was put there by somebody else. */
const TEXTS_BYTES_MAX = 4 * 1024 * 1024;

/** @param commitId - names the commit that wrote it, so that it knows itself when it comes again */
export const encodePage = (partition: number, page: Page, commitId: string): Item =>
  compressed(plainPage(partition, page, commitId));

export const encodeLedgerBase = (partition: number, base: LedgerBase): Item =>
  compressed(plainLedgerBase(partition, base));

/** Its texts are one attribute, compressed, where that takes fewer write units: it is written whole. */
function compressed(item: Item): Item {
  const units = writeUnitsOf(itemBytes(item));
  if (units === 1) return item;
  const texts = deflateRawSync(TEXTS.map((name) => item[name] ?? '').join('\n'));
  const packed = {
    ...item,
    ...Object.fromEntries(TEXTS.map((name) => [name, undefined])),
    [A.texts]: texts,
  };
  return writeUnitsOf(itemBytes(packed)) < units ? packed : item;
}

/** An item whose texts stand in it as they are. */
function withTexts(item: Item): Item {
  if (item[A.texts] === undefined) return item;
  const texts = cellsOf(item).inflated(A.texts, 'texts', TEXTS_BYTES_MAX, (text) => text.split('\n'));
  // An earlier version compressed fewer of them.
  const named = TEXTS.slice(0, texts.length).map((name, at) => [name, texts[at] || undefined] as const);
  return { ...item, ...Object.fromEntries(named) };
}

/** The page as it is before anything of it is compressed: the most that it can take. */
export function plainPage(partition: number, page: Page, commitId: string): Item {
  return {
    ...pageKey(partition),
    [A.turn]: page.turn,
    [A.pageEpoch]: page.epoch,
    [A.commitId]: commitId,
    ...(page.base === undefined
      ? { [A.ledgers]: packLedgers(page.ledgers) }
      : {
          [A.baseTurn]: page.base.turn,
          [A.ledgersSince]: packLedgers(ledgersSince(page)),
          [A.goneSince]: page.gone === undefined ? undefined : JSON.stringify([...page.gone]),
        }),
    [A.estimates]: packEstimates(page.estimates),
    [A.batches]: packBatches(page.batches),
    [A.inline]: page.inline.size === 0 ? undefined : packReservations(page.inline.values()),
    [A.namedBatches]: page.named === undefined ? undefined : JSON.stringify([...page.named]),
    [A.parks]: page.parks ? true : undefined,
    [A.attendance]: page.attendance === undefined ? undefined : packAttendance(page.attendance),
    [A.liftedAtMs]: page.liftedAtMs,
    [A.isLifted]: page.isLifted === true ? true : undefined,
    [A.quiet]: page.quiet === undefined ? undefined : packQuiet(page.quiet),
    [A.chargedMean]: page.chargedMean,
  };
}

/** A base as it is before it is compressed. */
export const plainLedgerBase = (partition: number, { turn, ledgers }: LedgerBase): Item => ({
  ...ledgerBaseKey(partition),
  [A.turn]: turn,
  [A.ledgers]: packLedgers(ledgers),
});

export function decodeLedgerBase(item: Item): LedgerBase {
  const cells = cellsOf(withTexts(item));
  return { turn: cells.count(A.turn), ledgers: cells.packed(A.ledgers, unpackLedgers) };
}

/**
 * The turn of the base that a page names; undefined: it names none, or nobody can tell which. Each turn is written once, and its base with
 * it: who has read that one need not read it again.
 */
export const baseTurnOf = (item: Item): number | undefined => {
  const turn = item[A.baseTurn];
  return typeof turn === 'number' ? turn : undefined;
};

/** Whether a page names this base, or none: one of another turn was read before it, or after. */
export const isOfBase = (item: Item, base: LedgerBase | undefined): boolean =>
  item[A.baseTurn] === undefined || item[A.baseTurn] === base?.turn;

/** That a page names a base which is not there, or cannot be read. */
export const baseMissing = (item: Item): MalformedItemError =>
  cellsOf(item).malformed(A.baseTurn, 'the turn of the ledgers beside it');

export const commitIdOf = (item: Item): unknown => item[A.commitId];

/** @param base - as it was read beside; without the one that the page names, its ledgers are those that have changed since */
export function decodePage(item: Item, base?: LedgerBase): Page {
  const cells = cellsOf(withTexts(item));
  const turn = cells.count(A.turn);
  const epoch = cells.has(A.pageEpoch) ? cells.count(A.pageEpoch) : 0;
  // Fenced before the first commit.
  if (turn === 0) return { ...EMPTY_PAGE, epoch };
  return {
    turn,
    epoch,
    ...(cells.has(A.baseTurn)
      ? onBase(
          cells.packed(A.ledgersSince, unpackLedgers),
          isOfBase(item, base) ? base : undefined,
          cells.has(A.goneSince) ? cells.packed(A.goneSince, unpackNames) : undefined,
        )
      : { ledgers: cells.packed(A.ledgers, unpackLedgers) }),
    estimates: cells.packed(A.estimates, unpackEstimates),
    batches: cells.packed(A.batches, unpackBatches),
    inline: cells.has(A.inline) ? cells.packed(A.inline, unpackReservations, loosened) : new Map(),
    ...(cells.has(A.namedBatches) ? { named: cells.packed(A.namedBatches, unpackNames) } : {}),
    parks: cells.has(A.parks),
    ...(cells.has(A.attendance) ? { attendance: cells.packed(A.attendance, unpackAttendance) } : {}),
    ...(cells.has(A.liftedAtMs) ? { liftedAtMs: cells.number(A.liftedAtMs) } : {}),
    ...(cells.has(A.isLifted) ? { isLifted: true } : {}),
    ...(cells.has(A.quiet) ? { quiet: cells.packed(A.quiet, unpackQuiet) } : {}),
    ...(cells.has(A.chargedMean) ? { chargedMean: cells.count(A.chargedMean) } : {}),
  };
}

/** The latest charged last, as they were. */
function onBase(
  since: Page['ledgers'],
  base: LedgerBase | undefined,
  gone: ReadonlySet<string> | undefined,
): Pick<Page, 'ledgers' | 'base' | 'gone'> {
  if (base === undefined) return { ledgers: since };
  // planted: gone-forgotten
  const before = [...base.ledgers].filter(([key]) => !since.has(key) && gone?.has(key) !== true);
  return { ledgers: new Map([...before, ...since]), base, ...(gone === undefined ? {} : { gone }) };
}
