/** How large the values of jobs may be. */
import type { PoolConfiguration } from './configuration.ts';
import { JSON_LIMITS } from './json.ts';
import { readInteger, readObject } from './read-fields.ts';
import { FIELDS } from './unknown-fields.ts';

/**
 * Bounds of `largePayloads.maxBytes`, and its default. A process holds a value in memory several times over while it copies,
 * checks and sends it; a function of 256 MB can do so with the default.
 */
export const LARGE_PAYLOAD_BYTES = {
  least: JSON_LIMITS.bytes + 1,
  byDefault: 4 * 1024 * 1024,
  most: 16 * 1024 * 1024,
} as const;

/** @throws ConfigurationError - it names the field, the value and the way out */
export function readLargePayloads(value: unknown): Pick<PoolConfiguration, 'largePayloads'> {
  if (value === undefined) return {};
  const fields = readObject('largePayloads', value, FIELDS.largePayloads);
  const { least, byDefault, most } = LARGE_PAYLOAD_BYTES;
  const maxBytes = readInteger('largePayloads.maxBytes', fields.get('maxBytes'), byDefault, least, most);
  return { largePayloads: { maxBytes } };
}
