/** Encodes and decodes the partition summary, which every load reads and every commit writes. */

import { deflateRawSync } from 'node:zlib';
import { costOf, unitsOf } from '../../../core/fairness.ts';
import type { Uses } from '../../../core/limits.ts';
import type { MalformedItemError } from '../../contract/errors.ts';
import type {
  DeclarationProgress,
  EstimateRecord,
  Ledger,
  NothingWaits,
  Observation,
} from '../../contract/records.ts';
import { itemBytes, writeUnitsOf } from '../metering.ts';
import { ledgerSnapshotKey, summaryKey } from '../schema.ts';
import type { PartitionSummary } from '../summary.ts';
import { changedLedgers, type LedgerSnapshot } from '../summary-ledgers.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, storable } from './cells.ts';
import { rowsOfUses, type UsesRow, usesOfRows } from './ledger.ts';
import { packReservations, unescapeControls, unpackReservations } from './reservation.ts';
import { packCounts, unpackCounts } from './statistics.ts';

/** Packs a set of positions as one number in base 36, with a bit for each position. */
function packPositions(positions: ReadonlySet<number>): string {
  let bits = 0n;
  for (const position of positions) bits |= 1n << BigInt(position);
  return bits.toString(36);
}

function unpackPositions(packed: string): ReadonlySet<number> {
  let bits = 0n;
  for (const digit of packed) bits = bits * 36n + BigInt(Number.parseInt(digit, 36));
  const positions = new Set<number>();
  for (let position = 0; bits > 0n; position += 1, bits >>= 1n)
    if ((bits & 1n) === 1n) positions.add(position);
  return positions;
}

/**
 * Packs ledgers in columns: the earliest instant, fairness keys, settled costs in whole units, and the last touch of
 * each key relative to that instant. Columns of whole numbers compress to half the size.
 */
function packLedgers(ledgers: ReadonlyMap<string, Ledger>): string {
  const all = [...ledgers.values()];
  const sinceMs = all.reduce((least, { lastSeenMs }) => Math.min(least, lastSeenMs), Infinity);
  const seen = all.map(({ lastSeenMs }) => lastSeenMs - sinceMs);
  const [keys, costs] = [
    all.map(({ fairnessKey }) => fairnessKey),
    all.map(({ settledCostMs }) => unitsOf(settledCostMs)),
  ];
  // Only keys of limits with windows have uses.
  const uses = all.some((ledger) => ledger.uses !== undefined)
    ? [all.map((ledger) => (ledger.uses === undefined ? 0 : rowsOfUses(ledger.uses)))]
    : [];
  return JSON.stringify(all.length === 0 ? [] : [sinceMs, keys, costs, seen, ...uses]);
}

function unpackLedgers(packed: unknown): ReadonlyMap<string, Ledger> {
  const [sinceMs = 0, keys = [], costs = [], seen = [], uses = []] = packed as Columns;
  const ledgers = new Map<string, Ledger>();
  for (const [at, fairnessKey] of keys.entries()) {
    const settledCostMs = costOf(costs[at] ?? Number.NaN);
    const lastSeenMs = sinceMs + (seen[at] ?? Number.NaN);
    const isSound = Number.isFinite(settledCostMs) && Number.isFinite(lastSeenMs);
    if (typeof fairnessKey !== 'string' || !isSound) throw new TypeError(`entry ${at}`);
    const rows = uses[at] ?? 0;
    ledgers.set(fairnessKey, {
      fairnessKey,
      settledCostMs,
      lastSeenMs,
      ...(rows === 0 ? {} : { uses: usesOfRows(rows) }),
    });
  }
  return ledgers;
}

type Columns =
  | readonly []
  | readonly [
      number,
      readonly string[],
      readonly number[],
      readonly number[],
      (readonly (0 | readonly UsesRow[])[])?,
    ];

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

const packBatches = (batches: PartitionSummary['batches']): string =>
  JSON.stringify(
    [...batches].map(([batchId, { settled, checkAtMs }]) => [
      batchId,
      packPositions(settled),
      ...(checkAtMs === undefined ? [] : [checkAtMs]),
    ]),
  );

function unpackBatches(packed: unknown): PartitionSummary['batches'] {
  const rows = packed as readonly (readonly [string, string, number?])[];
  return new Map(
    rows.map(([batchId, positions, checkAtMs]) => {
      if (typeof batchId !== 'string' || !/^[0-9a-z]+$/.test(positions))
        throw new TypeError(`batch ${batchId}`);
      return [
        batchId,
        { settled: unpackPositions(positions), ...(checkAtMs === undefined ? {} : { checkAtMs }) },
      ] as const;
    }),
  );
}

const packObservation = ({ sinceMs, atMs, heldBackSinceMs }: Observation): string =>
  JSON.stringify([sinceMs, atMs, ...(heldBackSinceMs === undefined ? [] : [heldBackSinceMs])]);

function unpackObservation(packed: unknown): Observation {
  const [sinceMs, atMs, heldBackSinceMs] = packed as readonly [number, number, number?];
  if (![sinceMs, atMs, heldBackSinceMs ?? 0].every(Number.isFinite)) throw new TypeError('instants');
  return { sinceMs, atMs, ...(heldBackSinceMs === undefined ? {} : { heldBackSinceMs }) };
}

function unpackNames(packed: unknown): ReadonlySet<string> {
  if (!Array.isArray(packed) || !packed.every((each) => typeof each === 'string'))
    throw new TypeError('names');
  return new Set(packed);
}

const packQuiet = ({ lookedAtMs, declared }: NothingWaits): string =>
  JSON.stringify([lookedAtMs, ...(declared === undefined ? [] : [declared])]);

function unpackQuiet(packed: unknown): NothingWaits {
  const [lookedAtMs, declared] = packed as readonly [number, number?];
  if (![lookedAtMs, declared ?? 0].every(Number.isFinite)) throw new TypeError('instants');
  return { lookedAtMs, ...(declared === undefined ? {} : { declared }) };
}

const packCarried = ({
  version,
  moved,
  isDone,
  after,
  sinceVersion,
  isHandedOver,
}: DeclarationProgress): string =>
  JSON.stringify([version, moved, isDone, after ?? null, sinceVersion ?? null, isHandedOver ?? null]);

function unpackCarried(packed: unknown): DeclarationProgress {
  const [version, moved, isDone, after, sinceVersion, isHandedOver] = packed as readonly [
    number,
    number,
    boolean,
    string | null,
    number | null,
    boolean | null,
  ];
  const isSound =
    [version, moved, sinceVersion ?? 0].every(Number.isFinite) &&
    [isDone, isHandedOver ?? false].every((each) => typeof each === 'boolean') &&
    typeof (after ?? '') === 'string';
  if (!isSound) throw new TypeError('progress of a declaration');
  return {
    version,
    moved,
    isDone,
    ...(after === null ? {} : { after }),
    ...(sinceVersion === null ? {} : { sinceVersion }),
    ...(isHandedOver === null ? {} : { isHandedOver }),
  };
}

const packUses = (uses: Uses): string => JSON.stringify(rowsOfUses(uses));

/** The attributes that hold JSON. Each is a single line of text. */
const TEXTS = [
  A.ledgers,
  A.estimates,
  A.batches,
  A.inline,
  A.observation,
  A.quiet,
  A.uses,
  A.counted,
  A.carried,
  A.ledgersSince,
  A.namedBatches,
  A.goneSince,
] as const;
/** More bytes than any summary has. Anything larger was damaged, or written by other software. */
const TEXTS_BYTES_MAX = 4 * 1024 * 1024;

/** @param commitId - names the commit that wrote it, so that a repeated commit recognizes its own success */
export const encodeSummary = (partition: number, summary: PartitionSummary, commitId: string): Item =>
  compressed(plainSummary(partition, summary, commitId));

export const encodeLedgerSnapshot = (partition: number, base: LedgerSnapshot): Item =>
  compressed(plainLedgerSnapshot(partition, base));

/** Compresses the JSON attributes into one, if that takes fewer write units: a commit always writes the whole item. */
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

/** Returns the item with its JSON attributes uncompressed. */
function withPlainTexts(item: Item): Item {
  if (item[A.texts] === undefined) return item;
  const texts = cellsOf(item).inflated(A.texts, 'texts', TEXTS_BYTES_MAX, (text) => text.split('\n'));
  const named = TEXTS.map((name, at) => [name, texts[at] || undefined] as const);
  return { ...item, ...Object.fromEntries(named) };
}

/** Returns the uncompressed item, which is its largest possible form. */
export function plainSummary(partition: number, summary: PartitionSummary, commitId: string): Item {
  return {
    ...summaryKey(partition),
    [A.version]: summary.version,
    [A.commitId]: commitId,
    ...(summary.base === undefined
      ? { [A.ledgers]: packLedgers(summary.ledgers) }
      : {
          [A.baseVersion]: summary.base.version,
          [A.ledgersSince]: packLedgers(changedLedgers(summary)),
          [A.goneSince]: summary.gone === undefined ? undefined : JSON.stringify([...summary.gone]),
        }),
    [A.estimates]: packEstimates(summary.estimates),
    [A.batches]: packBatches(summary.batches),
    [A.inline]: summary.inline.size === 0 ? undefined : packReservations(summary.inline.values()),
    [A.namedBatches]: summary.named.size === 0 ? undefined : JSON.stringify([...summary.named]),
    [A.parks]: summary.parks ? true : undefined,
    [A.observation]: summary.observation === undefined ? undefined : packObservation(summary.observation),
    [A.quiet]: summary.quiet === undefined ? undefined : packQuiet(summary.quiet),
    [A.unseenUntilMs]: summary.unseenUntilMs,
    [A.uses]: summary.uses === undefined ? undefined : packUses(summary.uses),
    [A.counted]: summary.counted === undefined ? undefined : packCounts(summary.counted),
    [A.carried]: summary.carried === undefined ? undefined : packCarried(summary.carried),
    [A.chargedMean]: summary.chargedMean,
  };
}

/** Returns the uncompressed snapshot. */
export const plainLedgerSnapshot = (partition: number, { version, ledgers }: LedgerSnapshot): Item => ({
  ...ledgerSnapshotKey(partition),
  [A.version]: version,
  [A.ledgers]: packLedgers(ledgers),
});

export function decodeLedgerSnapshot(item: Item): LedgerSnapshot {
  const cells = cellsOf(withPlainTexts(item));
  return { version: cells.count(A.version), ledgers: cells.packed(A.ledgers, unpackLedgers) };
}

/**
 * Returns the version of the snapshot that a summary names; undefined: it names none, or the attribute cannot be read.
 * A snapshot of a version is written once, so a process that has read it need not read it again.
 */
export const baseVersionOf = (item: Item): number | undefined => {
  const version = item[A.baseVersion];
  return typeof version === 'number' ? version : undefined;
};

/** Whether a summary names this snapshot, or none. A snapshot of another version was read before or after the summary changed. */
export const matchesSnapshot = (item: Item, base: LedgerSnapshot | undefined): boolean =>
  item[A.baseVersion] === undefined || item[A.baseVersion] === base?.version;

/** Returns the error for a summary whose snapshot is missing or cannot be read. */
export const snapshotMissing = (item: Item): MalformedItemError =>
  cellsOf(item).malformed(A.baseVersion, 'the version of the snapshot of ledgers');

/**
 * Returns the id of the commit that wrote a summary, and the summary's version, which parking may have raised since.
 */
export const commitOf = (item: Item): { readonly commitId: unknown; readonly version: number } => ({
  commitId: item[A.commitId],
  version: cellsOf(item).count(A.version),
});

/**
 * @param base - the snapshot of ledgers that was read beside the summary. If the summary names a different snapshot, only the ledgers in
 *   the summary itself are returned
 */
export function decodeSummary(item: Item, base?: LedgerSnapshot): PartitionSummary {
  const cells = cellsOf(withPlainTexts(item));
  return {
    version: cells.count(A.version),
    ...(cells.has(A.baseVersion)
      ? mergeLedgers(
          cells.packed(A.ledgersSince, unpackLedgers),
          matchesSnapshot(item, base) ? base : undefined,
          cells.has(A.goneSince) ? cells.packed(A.goneSince, unpackNames) : undefined,
        )
      : { ledgers: cells.packed(A.ledgers, unpackLedgers) }),
    estimates: cells.packed(A.estimates, unpackEstimates),
    batches: cells.packed(A.batches, unpackBatches),
    inline: cells.has(A.inline) ? cells.packed(A.inline, unpackReservations, unescapeControls) : new Map(),
    named: cells.has(A.namedBatches) ? cells.packed(A.namedBatches, unpackNames) : new Set(),
    parks: cells.has(A.parks),
    ...(cells.has(A.observation) ? { observation: cells.packed(A.observation, unpackObservation) } : {}),
    ...(cells.has(A.quiet) ? { quiet: cells.packed(A.quiet, unpackQuiet) } : {}),
    ...(cells.has(A.unseenUntilMs) ? { unseenUntilMs: cells.number(A.unseenUntilMs) } : {}),
    ...(cells.has(A.uses) ? { uses: cells.packed(A.uses, usesOfRows) } : {}),
    ...(cells.has(A.counted) ? { counted: cells.packed(A.counted, unpackCounts) } : {}),
    ...(cells.has(A.carried) ? { carried: cells.packed(A.carried, unpackCarried) } : {}),
    ...(cells.has(A.chargedMean) ? { chargedMean: cells.count(A.chargedMean) } : {}),
  };
}

/** Merges the snapshot with the changed ledgers. The order stays that of the last charge. */
function mergeLedgers(
  since: PartitionSummary['ledgers'],
  base: LedgerSnapshot | undefined,
  gone: ReadonlySet<string> | undefined,
): Pick<PartitionSummary, 'ledgers' | 'base' | 'gone'> {
  if (base === undefined) return { ledgers: since };
  // planted: gone-forgotten
  const before = [...base.ledgers].filter(([key]) => !since.has(key) && gone?.has(key) !== true);
  return { ledgers: new Map([...before, ...since]), base, ...(gone === undefined ? {} : { gone }) };
}
