/**
 * What calls to the table cost, by DynamoDB's rules for on-demand capacity: a write unit for each started KB of the
 * larger of the item before and after, doubled in a transaction, also when its condition fails; the same again for each
 * entry that the index gains, loses or sees changed, and both when an entry's key changes; a read unit for each started
 * 4 KB of what a strongly consistent request reads, half of one from the index.
 */
import { isDeepStrictEqual } from 'node:util';
import { PROJECTED, TABLE } from './schema.ts';

/** What one call used. */
export interface Usage {
  readonly readUnits: number;
  readonly writeUnits: number;
  /** Tries of the SDK included. */
  readonly requests: number;
  /** Of the write units, those of each partition key, where a call writes to several and whoever counts knows it. */
  readonly writeUnitsOf?: Readonly<Record<string, number>> | undefined;
}

/** Hears what each call used, by the verb of the store that made it. */
export type Meter = (verb: string, usage: Usage) => void;

type Values = Readonly<Record<string, unknown>>;

/** A transaction prepares each item and then commits it. */
export const TRANSACTION_FACTOR = 2;

const WRITE_BYTES = 1_024;
const READ_BYTES = 4_096;
/** Of a list or a map, and of each of its elements. */
const CONTAINER_BYTES = 3;
const ELEMENT_BYTES = 1;

export const writeUnitsOf = (bytes: number): number => Math.max(1, Math.ceil(bytes / WRITE_BYTES));

export const readUnitsOf = (bytes: number, isStrong: boolean): number =>
  Math.max(1, Math.ceil(bytes / READ_BYTES)) * (isStrong ? 1 : 0.5);

function valueBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value, 'utf8');
  if (typeof value === 'number') {
    const digits = Math.abs(value)
      .toString()
      .replace(/e.*$/, '')
      .replace('.', '')
      .replace(/^0+|0+$/g, '');
    return Math.ceil(digits.length / 2) + 1 + (value < 0 ? 1 : 0);
  }
  if (value instanceof Uint8Array) return value.byteLength;
  if (value instanceof Set) return [...value].reduce<number>((sum, each) => sum + valueBytes(each), 0);
  if (Array.isArray(value)) {
    return value.reduce<number>((sum, each) => sum + ELEMENT_BYTES + valueBytes(each), CONTAINER_BYTES);
  }
  if (typeof value === 'object' && value !== null) {
    return itemBytes(value as Values) + CONTAINER_BYTES + ELEMENT_BYTES * Object.keys(value).length;
  }
  return 1;
}

/** An item's size as it is billed: its attributes' names and values. */
export function itemBytes(item: Values): number {
  let bytes = 0;
  for (const name in item) {
    const value = item[name];
    if (value !== undefined) bytes += Buffer.byteLength(name, 'utf8') + valueBytes(value);
  }
  return bytes;
}

const ENTRY_ATTRIBUTES: readonly string[] = [
  TABLE.partitionKey,
  TABLE.sortKey,
  TABLE.line,
  TABLE.rank,
  ...PROJECTED,
];

const isInLine = (item: Values | undefined): item is Values => item?.[TABLE.line] !== undefined;

/** What the index holds of an item. */
export const entryOf = (item: Values): Values =>
  Object.fromEntries(ENTRY_ATTRIBUTES.map((name) => [name, item[name]]));

function indexUnits(before: Values | undefined, after: Values | undefined): number {
  const lost = isInLine(before) ? entryOf(before) : undefined;
  const gained = isInLine(after) ? entryOf(after) : undefined;
  if (lost === undefined || gained === undefined) {
    const entry = lost ?? gained;
    return entry === undefined ? 0 : writeUnitsOf(itemBytes(entry));
  }
  const units = [lost, gained].map((entry) => writeUnitsOf(itemBytes(entry)));
  const isSamePlace = lost[TABLE.line] === gained[TABLE.line] && lost[TABLE.rank] === gained[TABLE.rank];
  if (!isSamePlace) return units.reduce((sum, each) => sum + each, 0);
  return isDeepStrictEqual(lost, gained) ? 0 : Math.max(...units);
}

/**
 * Of one write that takes an item from one image to the other, index included.
 *
 * @param factor - of the item's own units, as in a transaction; the index is written behind it
 */
export function itemWriteUnits(before: Values | undefined, after: Values | undefined, factor = 1): number {
  const bytes = Math.max(itemBytes(before ?? {}), itemBytes(after ?? {}));
  return factor * writeUnitsOf(bytes) + indexUnits(before, after);
}
