/**
 * A declaration as text: the pool on its way from the stack into the deployment, and all that is declared in the table.
 *
 * Brotli, because a declaration repeats itself: a hundred types with the same policy cost little more than their
 * names. What is read is checked as what a person declares, but for fields that are not known: another version may have declared them, which is
 * passed over as long as that version does not say otherwise. So a deployment can be rolled back, and clients of other teams go on.
 */

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import type { PoolConfiguration } from '../core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../core/defaults.ts';
import { ConfigurationError } from '../core/errors.ts';
import { withoutUnknownFields } from '../core/unknown-fields.ts';
import { DECLARATION_CHARS_MAX } from '../store/contract/bounds.ts';

/** A queue, and where what could not be processed of it stands. */
export interface OwnQueue {
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
}

/** Requests of producers, and outcomes that the bus has not taken. One that the deployment does not name is not there. */
export type OwnQueues = Readonly<Partial<Record<OwnQueueName, OwnQueue>>>;
export type OwnQueueName = 'ingest' | 'outcomes';

/** As a deployment, or a table, says them. */
export function ownQueuesIn(value: unknown): OwnQueues {
  const named = (['ingest', 'outcomes'] as const).flatMap((name) => {
    const queue = isRecord(value) ? value[name] : undefined;
    if (!isRecord(queue)) return [];
    const { queueUrl, deadLetterQueueUrl } = queue;
    return [[name, { queueUrl: String(queueUrl), deadLetterQueueUrl: String(deadLetterQueueUrl) }] as const];
  });
  return Object.fromEntries(named);
}

/** All that is declared. */
export interface DeclaredPool {
  readonly configuration: PoolConfiguration;
  /** By fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  /** Queues whose messages must not be lost, by what is in them; see `OwnQueues`. */
  readonly ownQueues: OwnQueues;
  /** Types that were declared once and are not any more, the latest last: jobs of theirs may wait still. */
  readonly formerTypes: readonly string[];
  /** As many partitions as there ever were: what waits in those that are not any more is not forgotten. */
  readonly partitionsEver: number;
  /** Every number of partitions that was ever declared, ascending: where a key may have lived. */
  readonly partitionNumbers: readonly number[];
  /**
   * The version since which all that partitions share has been the same: their number, and among several the divided caps
   * and the types' conflict groups. 0: since ever.
   */
  readonly sharedSince: number;
  /** Names the deployment that declared it: one that comes twice declares once. */
  readonly deployment: string;
}

/** Says how the rest is written, so that another way can follow. */
const FORMAT = '1.';

/** What this version can read. A declaration that says more must not be read by it: raise it with a field that others may not pass over. */
const READS = 1;

/** What a decoder will inflate at most: a valid declaration never comes near. */
const DECODED_MAX_BYTES = 16 * 1_024 * 1_024;

/**
 * The configuration as URL-safe text.
 * @throws ConfigurationError if it is more than a declaration may have.
 */
export function encodeConfiguration(configuration: PoolConfiguration): string {
  const encoded = compress(configuration);
  if (encoded.length <= DECLARATION_CHARS_MAX) return encoded;
  const { types, fleets, fairness } = configuration;
  throw new ConfigurationError(
    '',
    encoded.length,
    `takes too many bytes once compressed (at most ${DECLARATION_CHARS_MAX}): ` +
      `${types.length} types, ${fleets.length} fleets, ${Object.keys(fairness.weights).length} weights`,
    'Split the work into several pools, or set weights with operator controls instead.',
  );
}

/**
 * The configuration that `encodeConfiguration` made the text of.
 * @throws ConfigurationError for any other text.
 */
export const decodeConfiguration = (encoded: string): PoolConfiguration => configurationIn(inflate(encoded));

export const packDeclaration = (declared: DeclaredPool): string =>
  compress({ ...declared, readableBy: READS });

/**
 * What `packDeclaration` made the text of.
 * @throws ConfigurationError for any other text.
 */
export function unpackDeclaration(text: string): DeclaredPool {
  const { configuration, queueUrls, formerTypes, partitionsEver, deployment, ...rest } = inflate(text);
  // What was declared before the number could change says neither.
  const { partitionNumbers = [partitionsEver], sharedSince = 0, ownQueues, readableBy = READS } = rest;
  if (!(typeof readableBy === 'number' && readableBy <= READS)) {
    throw new ConfigurationError(
      'readableBy',
      readableBy,
      `was declared by a later version of fairlead, for those that read ${READS} no more`,
      'Update fairlead where this runs.',
    );
  }
  if (!isRecord(configuration)) throw unreadable('configuration', 'is not an object');
  if (!isRecord(queueUrls)) throw unreadable('queueUrls', 'is not an object');
  if (!Array.isArray(formerTypes)) throw unreadable('formerTypes', 'is not a list');
  if (typeof partitionsEver !== 'number') throw unreadable('partitionsEver', 'is not a number');
  if (!Array.isArray(partitionNumbers)) throw unreadable('partitionNumbers', 'is not a list');
  if (typeof sharedSince !== 'number') throw unreadable('sharedSince', 'is not a number');
  return {
    configuration: configurationIn(configuration),
    queueUrls: Object.fromEntries(Object.entries(queueUrls).map(([fleet, url]) => [fleet, String(url)])),
    ownQueues: ownQueuesIn(ownQueues),
    formerTypes: formerTypes.map(String),
    partitionsEver,
    partitionNumbers: partitionNumbers.map(Number),
    sharedSince,
    deployment: String(deployment),
  };
}

/** What the next declaration takes over of the one before. */
export interface FormerDeclaration
  extends Pick<DeclaredPool, 'formerTypes' | 'partitionsEver' | 'partitionNumbers' | 'sharedSince'> {
  readonly types: readonly string[];
  readonly deployment: string;
  /** Undefined: this version cannot read it. */
  readonly configuration: PoolConfiguration | undefined;
}

/** As much as can be read of what any version has declared; undefined: nothing. */
export function formerDeclaration(text: string): FormerDeclaration | undefined {
  try {
    const declared = unpackDeclaration(text);
    return { ...declared, types: declared.configuration.types.map(({ type }) => type) };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
  }
  let parsed: Readonly<Record<string, unknown>>;
  try {
    parsed = inflate(text);
  } catch {
    return undefined;
  }
  const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
  const { configuration, formerTypes, partitionNumbers, partitionsEver, sharedSince, deployment } = parsed;
  const { types, partitions } = isRecord(configuration) ? configuration : {};
  const numbers = [...listOf(partitionNumbers), partitions].filter((each) => Number.isSafeInteger(each));
  return {
    types: listOf(types).flatMap((type) =>
      isRecord(type) && typeof type.type === 'string' ? [type.type] : [],
    ),
    formerTypes: listOf(formerTypes).map(String),
    partitionNumbers: numbers.map(Number),
    partitionsEver: Math.max(1, ...numbers.map(Number), Number(partitionsEver) || 1),
    sharedSince: Number(sharedSince) || 0,
    deployment: String(deployment),
    configuration: undefined,
  };
}

function configurationIn(parsed: Readonly<Record<string, unknown>>): PoolConfiguration {
  const types = readEntries(parsed, 'types', 'type');
  const fleets = readEntries(parsed, 'fleets', 'fleet');
  const known = withoutUnknownFields({
    ...parsed,
    types: Object.fromEntries(types),
    fleets: Object.fromEntries(fleets),
  });
  const resolved = resolveConfiguration(known as PoolInput);
  // Records put names that look like numbers first; the order of the declaration is the one that counts.
  return {
    ...resolved,
    types: inOrder(resolved.types, types, (type) => type.type),
    fleets: inOrder(resolved.fleets, fleets, (fleet) => fleet.fleet),
  };
}

function compress(value: unknown): string {
  const json = Buffer.from(JSON.stringify(value));
  const compressed = brotliCompressSync(json, {
    params: {
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_SIZE_HINT]: json.length,
    },
  });
  return FORMAT + compressed.toString('base64url');
}

function inflate(encoded: string): Readonly<Record<string, unknown>> {
  if (!encoded.startsWith(FORMAT)) throw unreadable(encoded, `does not start with "${FORMAT}"`);
  let parsed: unknown;
  try {
    const compressed = Buffer.from(encoded.slice(FORMAT.length), 'base64url');
    const json = brotliDecompressSync(compressed, { maxOutputLength: DECODED_MAX_BYTES });
    parsed = JSON.parse(json.toString());
  } catch (cause) {
    throw unreadable(encoded, 'is cut or damaged', cause);
  }
  if (isRecord(parsed)) return parsed;
  throw unreadable(encoded, 'does not hold an object');
}

/** The list's entries by name, without the name, as `resolveConfiguration` takes them. */
function readEntries(
  parsed: Readonly<Record<string, unknown>>,
  list: 'types' | 'fleets',
  nameField: 'type' | 'fleet',
): readonly (readonly [string, unknown])[] {
  const entries = parsed[list];
  if (!Array.isArray(entries)) throw unreadable(list, 'is not a list');
  return entries.map((entry: unknown, index) => {
    if (!isRecord(entry)) throw unreadable(`${list}[${index}]`, 'is not an object');
    const { [nameField]: name, ...fields } = entry;
    if (typeof name !== 'string') throw unreadable(`${list}[${index}]`, 'has no name');
    return [name, fields] as const;
  });
}

function inOrder<T>(
  resolved: readonly T[],
  entries: readonly (readonly [string, unknown])[],
  nameOf: (value: T) => string,
): readonly T[] {
  const places = new Map(entries.map(([name], place) => [name, place]));
  const place = (value: T): number => places.get(nameOf(value)) ?? entries.length;
  return resolved.toSorted((a, b) => place(a) - place(b));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unreadable(value: string, problem: string, cause?: unknown): ConfigurationError {
  const error = new ConfigurationError(
    '',
    value,
    `cannot be read because it ${problem}`,
    'Deploy the stack again: it writes the declaration and its readers together.',
  );
  if (cause !== undefined) error.cause = cause;
  return error;
}
