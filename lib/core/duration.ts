/** Durations as people write them. */
import { ConfigurationError } from './errors.ts';

/**
 * A duration: milliseconds as a number, a text such as `'500ms'`, `'30s'`, `'10m'`, `'1h30m'` or `'2d'`, or an object
 * such as a `Duration` of the AWS CDK.
 */
export type DurationInput = number | string | { readonly toMilliseconds: () => number };

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
/** A longer text is no duration. */
const TEXT_CHARS_MAX = 40;

const WAY_OUT = "Write milliseconds, or a text such as '500ms', '30s', '10m', '1h30m' or '2d'.";

/**
 * The duration in milliseconds, 0 or more.
 *
 * @throws ConfigurationError - it names the field, the value and the way out
 */
export function durationMs(field: string, value: unknown): number {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? textMs(value) : objectMs(value);
  if (ms !== undefined && Number.isFinite(ms) && ms >= 0) return ms;
  throw new ConfigurationError(field, value, 'must be a duration', WAY_OUT);
}

function textMs(text: string): number | undefined {
  if (text === '' || text.length > TEXT_CHARS_MAX || text.replaceAll(PART, '') !== '') return undefined;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(PART))
    ms += Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  // A decimal fraction of a second is whole milliseconds, though the product of two floats may not be.
  return Math.round(ms * 1_000) / 1_000;
}

function objectMs(value: unknown): number | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  try {
    const { toMilliseconds } = value as { readonly toMilliseconds?: unknown };
    return typeof toMilliseconds === 'function' ? Number(toMilliseconds.call(value)) : undefined;
  } catch {
    // A duration of the CDK that is not known before the deployment.
    return undefined;
  }
}
