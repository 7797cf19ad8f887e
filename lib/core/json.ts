/** Copies a user's values as JSON, so that later changes by the user have no effect. */
import { show, unreadable, ValidationError } from './errors.ts';
import type { Json } from './job.ts';
import { withArticle } from './spelling.ts';

/** Bounds of a payload, a result, a checkpoint and the like. */
export const JSON_LIMITS = {
  /** UTF-8 bytes as JSON. */
  bytes: 64 * 1024,
  /** Levels of nested arrays and objects. Recursive readers such as JSON.stringify overflow the stack at some thousand. */
  levels: 100,
} as const;

/** The most bytes of the body of one HTTP request. A function URL lets 6 MB through, as JSON in JSON. */
export const HTTP_BODY_BYTES_MAX = 4 * 1024 * 1024;

/** Values of a request's other fields, beside its payload. */
const OTHER_VALUES_MAX = 1_000;
/**
 * Most levels in one request: the payload's, one for the request itself, and one so that the request's own rule names
 * the payload.
 */
const LEVELS_MAX = JSON_LIMITS.levels + 2;
const FIELD_CHARS_MAX = 200;

/**
 * Returns a copy as JSON would carry it. Properties that are `undefined` are left out, as by `JSON.stringify`; any
 * other value that JSON would change or lose is refused.
 * @param verb - what the user does with the value, for the way out
 * @param bytesMax - the most bytes of a payload. Every value takes at least a byte, so more values are too many
 * @throws ValidationError - it names the field
 */
export function jsonOf(value: unknown, verb = 'send', bytesMax: number = JSON_LIMITS.bytes): Json {
  const valuesMax = bytesMax + OTHER_VALUES_MAX;
  let values = 0;
  const copy = (part: unknown, at: string, level: number): Json => {
    values += 1;
    if (values > valuesMax) {
      throw new ValidationError(
        topField(at),
        `has more than ${valuesMax} values, or contains itself; store it elsewhere and ${verb} a reference`,
      );
    }
    if (level > LEVELS_MAX) {
      throw new ValidationError(
        topField(at),
        `is too deep, or contains itself: arrays and objects may be nested ${JSON_LIMITS.levels} levels at most; ${verb} it as text`,
      );
    }
    switch (typeof part) {
      case 'string':
      case 'boolean':
        return part;
      case 'number':
        if (Number.isFinite(part)) return part;
        throw new ValidationError(
          shortField(at),
          `${part} is not a JSON number; ${verb} null or text instead`,
        );
      case 'object': {
        if (part === null) return null;
        if (Array.isArray(part)) {
          return Array.from(part, (entry: unknown, index) => copy(entry, `${at}[${index}]`, level + 1));
        }
        if (!isPlain(part)) {
          throw new ValidationError(
            shortField(at),
            `${nameOf(part)} is not JSON; ${verb} plain data, such as its text`,
          );
        }
        const entries = Object.entries(part).filter(([, entry]) => entry !== undefined);
        return Object.fromEntries(
          entries.map(([name, entry]) => [name, copy(entry, at === '' ? name : `${at}.${name}`, level + 1)]),
        );
      }
      default:
        throw new ValidationError(
          shortField(at),
          `${show(part)} is not JSON; leave it out, or ${verb} plain data`,
        );
    }
  };
  try {
    return copy(value, '', 0);
  } catch (error) {
    throw unreadable('', error);
  }
}

/** Field names come from the caller, so they may be very long. */
const shortField = (at: string): string => at.slice(0, FIELD_CHARS_MAX);

/** Returns the field of the request that contains `at`. */
const topField = (at: string): string => shortField(/^[^.[]*/.exec(at)?.[0] ?? '');

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  // Plain data of another realm, such as a test runner's.
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, 'hasOwnProperty');
}

function nameOf(value: object): string {
  const maker: unknown = value.constructor;
  return typeof maker === 'function' && maker.name !== '' ? withArticle(maker.name) : 'an object of a class';
}
