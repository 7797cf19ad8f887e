/** Durations as people write them. */
import { ConfigurationError } from './errors.ts';

/**
 * A duration: milliseconds as a number, a text such as `'500ms'`, `'30s'`, `'10m'`, `'1h30m'` or `'2d'`, or an object
 * such as a `Duration` of the AWS CDK.
 */
export type DurationInput = number | string | { readonly toMilliseconds: () => number };

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
/** The most characters of a text that is read as a duration. */
const TEXT_CHARS_MAX = 40;

const WAY_OUT = "Write milliseconds, or a text such as '500ms', '30s', '10m', '1h30m' or '2d'.";

/**
 * Returns the duration in milliseconds, 0 or more.
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
  // A decimal fraction of a second is a whole number of milliseconds, but the product of two floats may differ from it
  // a little.
  return Math.round(ms * 1_000) / 1_000;
}

function objectMs(value: unknown): number | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  try {
    const { toMilliseconds } = value as { readonly toMilliseconds?: unknown };
    return typeof toMilliseconds === 'function' ? Number(toMilliseconds.call(value)) : undefined;
  } catch {
    // This `Duration` of the CDK is a token, whose value is known only at the deployment.
    return undefined;
  }
}

/** A response of `fetch`, or of a client that keeps headers as fields with names in small letters. */
export interface ResponseHeaders {
  readonly headers:
    | { readonly get: (name: string) => string | null | undefined }
    | Readonly<Record<string, unknown>>;
}

/** A day of the week begins all three forms of an HTTP date. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;

/**
 * Returns how long the `Retry-After` header of a response says to wait, in milliseconds: a number of seconds, or a
 * date, which in the past means 0. Undefined if the header is missing or is neither. Source: RFC 9110, sections 10.2.3
 * and 5.6.7.
 */
export function retryAfterMs({ headers }: ResponseHeaders, nowMs: number): number | undefined {
  const { get } = headers;
  const given =
    typeof get === 'function' ? get.call(headers, 'retry-after') : headers['retry-after' as never];
  const text = String(given ?? '').trim();
  if (/^\d{1,15}$/.test(text)) return Number(text) * 1_000;
  if (!HTTP_DATE.test(text)) return undefined;
  // The oldest form names no zone. All forms are in GMT.
  const atMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}
