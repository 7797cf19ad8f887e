/**
 * A pool's configuration on its way into a function: one environment variable, written at synth and read at start.
 *
 * Brotli, because a declaration repeats itself: a hundred types with the same policy cost little more than their
 * names. What is read is checked as strictly as what a person declares.
 */
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import type { PoolConfiguration } from '../core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../core/defaults.ts';
import { ConfigurationError } from '../core/errors.ts';

/** Of the 4,096 bytes that Lambda gives a function's whole environment; the queues' addresses need the rest. */
export const ENCODED_CONFIGURATION_MAX_BYTES = 3_072;

/** Says how the rest is written, so that another way can follow. */
const FORMAT = '1.';

/** What a decoder will inflate at most: a valid configuration of 3 KB encoded never comes near. */
const DECODED_MAX_BYTES = 4 * 1_024 * 1_024;

/**
 * The configuration as text of at most 3,072 URL-safe characters.
 * @throws ConfigurationError if it does not fit.
 */
export function encodeConfiguration(configuration: PoolConfiguration): string {
  const json = Buffer.from(JSON.stringify(configuration));
  const compressed = brotliCompressSync(json, {
    params: {
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: json.length,
    },
  });
  const encoded = FORMAT + compressed.toString('base64url');
  if (encoded.length <= ENCODED_CONFIGURATION_MAX_BYTES) return encoded;
  const { types, fleets, fairness } = configuration;
  throw new ConfigurationError(
    '',
    encoded.length,
    `takes too many bytes once compressed (at most ${ENCODED_CONFIGURATION_MAX_BYTES}): ` +
      `${types.length} types, ${fleets.length} fleets, ${Object.keys(fairness.weights).length} weights`,
    'Split the work into several pools, or set weights with operator controls instead.',
  );
}

/**
 * The configuration that `encodeConfiguration` made the text of.
 * @throws ConfigurationError for any other text.
 */
export function decodeConfiguration(encoded: string): PoolConfiguration {
  const parsed = parse(encoded);
  const types = readEntries(parsed, 'types', 'type');
  const resolved = resolveConfiguration({
    ...parsed,
    types: Object.fromEntries(types),
    fleets: Object.fromEntries(readEntries(parsed, 'fleets', 'fleet')),
  } as PoolInput);
  // Records put names that look like numbers first; the order of the declaration is the one that counts.
  return {
    ...resolved,
    types: inOrder(resolved.types, types, (type) => type.type),
    fleets: inOrder(resolved.fleets, readEntries(parsed, 'fleets', 'fleet'), (fleet) => fleet.fleet),
  };
}

function parse(encoded: string): Readonly<Record<string, unknown>> {
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
    'Deploy the stack again: it writes the configuration and its readers together.',
  );
  if (cause !== undefined) error.cause = cause;
  return error;
}
