/**
 * Encodes declarations as text: the configuration on its way from the stack into the deployment, and everything that
 * the table keeps of a declaration.
 *
 * Brotli compresses the text, because declarations are repetitive: a hundred types with the same policy cost little
 * more than their names. Decoding validates the text as if a person had written it, except that it ignores unknown
 * fields, which another version of fairlead may have written. So a deployment can be rolled back, and older clients
 * keep working, unless the newer version forbids it with `readableBy`.
 */

import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import type { PoolConfiguration } from '../core/configuration.ts';
import { resolveConfiguration } from '../core/defaults.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { PoolInput } from '../core/pool-input.ts';
import { withoutUnknownFields } from '../core/unknown-fields.ts';
import { DECLARATION_CHARS_MAX } from '../store/contract/bounds.ts';

/** A queue, and the dead-letter queue behind it. */
export interface OwnQueue {
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
}

/**
 * The queue of producers' requests, and the queue of outcomes that the bus has not taken. A queue that the deployment
 * did not name is absent.
 */
export type OwnQueues = Readonly<Partial<Record<OwnQueueName, OwnQueue>>>;
export type OwnQueueName = 'ingest' | 'outcomes';

/** Reads the queues as a deployment or the table gives them. */
export function ownQueuesIn(value: unknown): OwnQueues {
  const named = (['ingest', 'outcomes'] as const).flatMap((name) => {
    const queue = isRecord(value) ? value[name] : undefined;
    if (!isRecord(queue)) return [];
    const { queueUrl, deadLetterQueueUrl } = queue;
    return [[name, { queueUrl: String(queueUrl), deadLetterQueueUrl: String(deadLetterQueueUrl) }] as const];
  });
  return Object.fromEntries(named);
}

/** A declaration with everything in it. */
export interface DeclaredPool {
  readonly configuration: PoolConfiguration;
  /** URL of each fleet's queue, by fleet. */
  readonly queueUrls: Readonly<Record<string, string>>;
  /** Queues whose messages must not be lost; see `OwnQueues`. */
  readonly ownQueues: OwnQueues;
  /** The name of the bucket for values over 64 KB; absent without `largePayloads`. */
  readonly bucket?: string | undefined;
  /** Types that were declared before and are not any more, the latest last. Jobs of these types may still wait. */
  readonly formerTypes: readonly string[];
  /** The largest number of partitions ever declared. Jobs may still wait in partitions that no longer exist. */
  readonly partitionsEver: number;
  /** Every number of partitions ever declared, ascending. They tell in which partitions a key may have been. */
  readonly partitionNumbers: readonly number[];
  /**
   * The version since which the settings that all partitions share have been the same: their number and, if there are
   * several, the divided caps and the types' conflict groups. 0 if they never changed.
   */
  readonly sharedSince: number;
  /** Id of the deployment that declared this. A repeated deployment declares once. */
  readonly deployment: string;
  /**
   * JSON Schemas of payloads by type, of the types that were declared with a schema; absent if there are none. They are for
   * people, forms and other languages: nothing here reads them.
   */
  readonly payloadSchemas?: Readonly<Record<string, unknown>> | undefined;
}

/** Prefix that names the encoding, so that another encoding can follow. */
const FORMAT = '1.';

/**
 * The format that this version of fairlead reads; it refuses declarations whose `readableBy` is higher. Raise it
 * together with a field that older readers must not ignore.
 */
const READABLE_FORMAT = 1;

/** The most bytes that a text may inflate to. A valid declaration is far smaller. */
const DECODED_MAX_BYTES = 16 * 1_024 * 1_024;

/**
 * Encodes the configuration as URL-safe text.
 * @throws ConfigurationError if the text is longer than a declaration may be.
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
 * Decodes a text of `encodeConfiguration`.
 * @throws ConfigurationError for any other text.
 */
export const decodeConfiguration = (encoded: string): PoolConfiguration => configurationIn(inflate(encoded));

/** Encodes JSON Schemas of payloads, by type, on their way from the stack into the deployment. */
export const encodePayloadSchemas = (schemas: Readonly<Record<string, unknown>>): string => compress(schemas);

/**
 * Decodes a text of `encodePayloadSchemas`.
 * @throws ConfigurationError for any other text.
 */
export const decodePayloadSchemas = (encoded: string): Readonly<Record<string, unknown>> => inflate(encoded);

export const packDeclaration = (declared: DeclaredPool): string =>
  compress({ ...declared, readableBy: READABLE_FORMAT });

/**
 * Decodes a text of `packDeclaration`.
 * @throws ConfigurationError for any other text.
 */
export function unpackDeclaration(text: string): DeclaredPool {
  const { configuration, queueUrls, formerTypes, partitionsEver, deployment, ...rest } = inflate(text);
  // These fields are optional; the defaults describe a pool whose number of partitions never changed.
  const {
    partitionNumbers = [partitionsEver],
    sharedSince = 0,
    ownQueues,
    readableBy = READABLE_FORMAT,
    payloadSchemas,
    bucket,
  } = rest;
  if (!(typeof readableBy === 'number' && readableBy <= READABLE_FORMAT)) {
    throw new ConfigurationError(
      'readableBy',
      readableBy,
      `was set by a later version of fairlead, whose declarations this version (which reads up to ${READABLE_FORMAT}) cannot read`,
      'Update fairlead in this process.',
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
    ...(bucket === undefined ? {} : { bucket: String(bucket) }),
    ...(isRecord(payloadSchemas) ? { payloadSchemas } : {}),
  };
}

/** The parts of the previous declaration that the next one builds on. */
export interface FormerDeclaration
  extends Pick<DeclaredPool, 'formerTypes' | 'partitionsEver' | 'partitionNumbers' | 'sharedSince'> {
  readonly types: readonly string[];
  readonly deployment: string;
  /** The configuration; undefined if this version of fairlead cannot read it. */
  readonly configuration: PoolConfiguration | undefined;
}

/** Reads as much as possible of a declaration that any version of fairlead wrote; undefined if nothing is readable. */
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
    types: Object.fromEntries(types.map(([type, fields]) => [type, asWritten(fields)])),
    fleets: Object.fromEntries(fleets),
    ...(parsed.limits === undefined ? {} : { limits: limitsIn(parsed) }),
  });
  const resolved = resolveConfiguration(known as PoolInput);
  // An object lists names that look like numbers first, so the declared order is restored here.
  return {
    ...resolved,
    types: inOrder(resolved.types, types, (type) => type.type),
    fleets: inOrder(resolved.fleets, fleets, (fleet) => fleet.fleet),
  };
}

/** Returns a resolved type as a person writes it: with `expireAfter` in place of `expireAfterMs`. */
const asWritten = ({ expireAfterMs, ...fields }: Readonly<Record<string, unknown>>) =>
  expireAfterMs === undefined ? fields : { ...fields, expireAfter: expireAfterMs };

/** Returns the resolved limits as a person writes them: with `per` and `slotSeconds` in place of `perMs` and `slotMs`. */
function limitsIn(parsed: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const withPer = (window: unknown): Readonly<Record<string, unknown>> => {
    const { perMs, ...fields } = isRecord(window) ? window : {};
    return { ...fields, per: perMs };
  };
  return Object.fromEntries(
    readEntries(parsed, 'limits', 'limit').map(([name, fields]) => {
      const { rate, budget, ...caps } = fields;
      const { slotMs, ...rest } = budget === undefined ? {} : withPer(budget);
      return [
        name,
        {
          ...caps,
          ...(rate === undefined ? {} : { rate: withPer(rate) }),
          ...(budget === undefined ? {} : { budget: { ...rest, slotSeconds: Number(slotMs) / 1_000 } }),
        },
      ];
    }),
  );
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

/** Returns the list's entries by name, with the name removed, as `resolveConfiguration` takes them. */
function readEntries(
  parsed: Readonly<Record<string, unknown>>,
  list: 'types' | 'fleets' | 'limits',
  nameField: 'type' | 'fleet' | 'limit',
): readonly (readonly [string, Readonly<Record<string, unknown>>])[] {
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
  const positions = new Map(entries.map(([name], position) => [name, position]));
  const positionOf = (value: T): number => positions.get(nameOf(value)) ?? entries.length;
  return resolved.toSorted((a, b) => positionOf(a) - positionOf(b));
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
