/**
 * The cost of calls to the table, by DynamoDB's rules for on-demand capacity:
 * - A write costs a unit for each started KB of the larger of the item before and after, doubled in a transaction, also if its condition
 *   fails.
 * - Each index entry that appears, disappears or changes costs the same again, and both if its key changes.
 * - A strongly consistent read costs a unit for each started 4 KB, a read from the index half of that.
 */
import { isDeepStrictEqual } from 'node:util';
import { PROJECTED, TABLE } from './schema.ts';

/** The capacity that one call used. */
export interface Usage {
  readonly readUnits: number;
  readonly writeUnits: number;
  /** How many requests were made, the SDK's retries included. */
  readonly requests: number;
  /** The write units by partition key, for a call that writes to several, if they are known. */
  readonly writeUnitsOf?: Readonly<Record<string, number>> | undefined;
}

/** Receives the capacity that each call used, with the verb of the store that made it. */
export type Meter = (verb: string, usage: Usage) => void;

type Values = Readonly<Record<string, unknown>>;

/** How many times the units of a plain write a transaction costs: it prepares each item and then commits it. */
export const TRANSACTION_FACTOR = 2;

const WRITE_BYTES = 1_024;
const READ_BYTES = 4_096;
/** The size of an empty list or map. */
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

/** Returns an item's billed size: the names and values of its attributes. */
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

/** Returns an item's entry in the index. */
export const entryOf = (item: Values): Values =>
  Object.fromEntries(ENTRY_ATTRIBUTES.map((name) => [name, item[name]]));

const EXPIRY_ATTRIBUTES: readonly string[] = [
  TABLE.partitionKey,
  TABLE.sortKey,
  TABLE.expiry,
  TABLE.expireAtMs,
];

/** Returns a job's entry in the index of expiries. */
export const expiryEntryOf = (item: Values): Values =>
  Object.fromEntries(EXPIRY_ATTRIBUTES.map((name) => [name, item[name]]));

/** Most items have no such entry before or after. */
function expiryUnits(before: Values | undefined, after: Values | undefined): number {
  const [lost, gained] = [before, after].map((item) =>
    item?.[TABLE.expiry] === undefined ? undefined : expiryEntryOf(item),
  );
  if (isDeepStrictEqual(lost, gained)) return 0;
  return [lost, gained].reduce(
    (sum, entry) => sum + (entry === undefined ? 0 : writeUnitsOf(itemBytes(entry))),
    0,
  );
}

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
 * Returns the units of one write that changes an item from `before` to `after`, index included.
 * @param factor - multiplies the item's own units, as in a transaction; the index is written without it
 */
export function itemWriteUnits(before: Values | undefined, after: Values | undefined, factor = 1): number {
  const bytes = Math.max(itemBytes(before ?? {}), itemBytes(after ?? {}));
  return factor * writeUnitsOf(bytes) + indexUnits(before, after) + expiryUnits(before, after);
}
