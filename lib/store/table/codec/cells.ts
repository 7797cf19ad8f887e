/** Reads the attributes of an item. A malformed one is an error that names it and says what to do; no value is guessed. */

import { inflateRawSync } from 'node:zlib';
import type { Json } from '../../../core/job.ts';
import { MalformedItemError } from '../../contract/errors.ts';
import {
  LOAN_PREFIX,
  leaderKey,
  ledgerSnapshotKey,
  PARTITION_PREFIX,
  RESERVATION_PREFIX,
  summaryKey,
} from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';

const isRecord = (value: unknown): value is Item =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Set);

const areTexts = (values: readonly unknown[]): values is readonly string[] =>
  values.every((each) => typeof each === 'string');

/** Reads attributes of one item, or of a map inside it. */
export class Cells {
  readonly #values: Item;
  readonly #key: string;
  readonly #path: string;

  constructor(values: Item, key: string, path: string) {
    this.#values = values;
    this.#key = key;
    this.#path = path;
  }

  malformed(name: string, expected: string, options?: ErrorOptions): MalformedItemError {
    const value = this.#values[name];
    const found = value === undefined ? 'is missing' : `is ${printValue(value)}`;
    const problem = `${found}, not ${expected}`;
    return new MalformedItemError(this.#key, `${this.#path}${name}`, problem, wayOutOf(this.#key), options);
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined;
  }

  text(name: string): string {
    const value = this.#values[name];
    if (typeof value !== 'string') throw this.malformed(name, 'text');
    return value;
  }

  number(name: string): number {
    const value = this.#values[name];
    if (typeof value !== 'number' || !Number.isFinite(value)) throw this.malformed(name, 'a number');
    return value;
  }

  count(name: string): number {
    const value = this.number(name);
    if (!Number.isSafeInteger(value) || value < 0) throw this.malformed(name, 'a whole number from 0 up');
    return value;
  }

  flag(name: string): boolean {
    const value = this.#values[name];
    if (typeof value !== 'boolean') throw this.malformed(name, 'true or false');
    return value;
  }

  oneOf<T extends string>(name: string, choices: readonly T[]): T {
    const value = this.#values[name];
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw this.malformed(name, `one of ${choices.join(', ')}`);
    return found;
  }

  json(name: string, loosen = (text: string): string => text): Json {
    const text = this.text(name);
    try {
      return JSON.parse(loosen(text)) as Json;
    } catch (cause) {
      throw this.malformed(name, 'JSON', { cause });
    }
  }

  /** Reads JSON with a format of its own; `unpack` throws if the format is wrong. */
  packed<T>(name: string, unpack: (json: unknown) => T, loosen?: (text: string) => string): T {
    const json = this.json(name, loosen);
    try {
      return unpack(json);
    } catch (cause) {
      throw this.malformed(name, "JSON in this attribute's format", { cause });
    }
  }

  /** Reads a deflated text of at most `bytesMax` bytes; `read` throws if the text is wrong. */
  inflated<T>(name: string, what: string, bytesMax: number, read: (text: string) => T): T {
    const value = this.#values[name];
    if (!(value instanceof Uint8Array)) throw this.malformed(name, 'bytes');
    try {
      return read(inflateRawSync(value, { maxOutputLength: bytesMax }).toString());
    } catch (cause) {
      throw this.malformed(name, `${what} as deflate`, { cause });
    }
  }

  texts(name: string): readonly string[] {
    const value = this.#values[name];
    if (!(value instanceof Set) || !areTexts([...value])) throw this.malformed(name, 'a set of text');
    return [...(value as ReadonlySet<string>)];
  }

  map(name: string): Cells {
    const value = this.#values[name];
    if (!isRecord(value)) throw this.malformed(name, 'a map');
    return new Cells(value, this.#key, `${this.#path}${name}.`);
  }

  entries(name: string): readonly (readonly [string, Cells])[] {
    const value = this.#values[name];
    if (!isRecord(value)) throw this.malformed(name, 'a map');
    const within = this.map(name);
    return Object.keys(value).map((entry) => [entry, within.map(entry)] as const);
  }

  list(name: string): readonly Cells[] {
    const value = this.#values[name];
    if (!Array.isArray(value)) throw this.malformed(name, 'a list');
    return value.map((each: unknown, index) => {
      if (!isRecord(each)) throw this.malformed(name, 'a list of maps');
      return new Cells(each, this.#key, `${this.#path}${name}[${index}].`);
    });
  }
}

function printValue(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
  const text = value instanceof Set ? 'a set' : (JSON.stringify(value) ?? String(value));
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** Advice for items that must be neither guessed nor simply deleted, by the beginning of the sort key. */
const WAYS_OUT: readonly (readonly [string, string])[] = [
  [leaderKey(0).sk, 'delete it, and deploy the stack again, which writes the declaration to the partition'],
  [
    summaryKey(0).sk,
    'correct it; deleting it forgets the costs of active keys, and settled positions count again',
  ],
  [ledgerSnapshotKey(0).sk, 'delete it: the costs of its keys are forgotten'],
  [
    RESERVATION_PREFIX,
    'correct it, or restore it from a backup, because it holds the capacity of its jobs. Once none of them can be running, set its j to the text [], and submit the jobs again that had not ended',
  ],
  [LOAN_PREFIX, "correct it to match the other partition's copy, or delete both once nothing lent is in use"],
];

function wayOutOf(key: string): string | undefined {
  const [pk = '', sk = ''] = key.split(' ');
  if (!pk.startsWith(PARTITION_PREFIX)) return undefined;
  return WAYS_OUT.find(([name]) => (name.endsWith('/') ? sk.startsWith(name) : sk === name))?.[1];
}

export function cellsOf(item: Item): Cells {
  return new Cells(item, `${String(item[A.pk])} ${String(item[A.sk])}`, '');
}

/** DynamoDB's smallest number is 1e-130; a variance may be smaller. */
export const storable = (value: number): number => (Math.abs(value) < 1e-100 ? 0 : value);

/** `ttl` counts seconds. It is rounded up, so that an item is never collected early. */
export const ttlSec = (expiresAtMs: number): number => Math.ceil(expiresAtMs / 1000);

/** JSON is stored as text, so that the table does not interpret the names in it. */
export const encodeJson = (value: Json): string => JSON.stringify(value);

/** Leaves out fields that are undefined. */
export function present<T extends Item>(
  fields: T,
): { readonly [Name in keyof T]?: Exclude<T[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { readonly [Name in keyof T]?: Exclude<T[Name], undefined> };
}

export function textIn(value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`${JSON.stringify(value)} is not text`);
  return value;
}

export function numberIn(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw new TypeError(`${String(value)} is not a number`);
  return value;
}
