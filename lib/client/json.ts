/** From whatever a caller hands over to JSON of the client's own: nobody can change it later. */
import { show, ValidationError } from '../core/errors.ts';
import type { Json } from '../core/job.ts';
import { withArticle } from '../core/spelling.ts';
import { REQUEST_LIMITS } from '../submit/request.ts';

/** Every value takes a byte at least, so more of them than bytes are too many; the request's other fields get some room. */
const VALUES_MAX = REQUEST_LIMITS.payloadBytes + 1_000;
/** The request itself is a level, and one more lets the request's own rule name the payload. */
const LEVELS_MAX = REQUEST_LIMITS.payloadLevels + 2;
const FIELD_CHARS_MAX = 200;

/**
 * A copy as JSON would carry it. Properties that are `undefined` are left out, as `JSON.stringify` does; whatever else
 * JSON would change or lose is refused by name.
 * @throws ValidationError
 */
export function jsonOf(value: unknown): Json {
  let values = 0;
  const copy = (part: unknown, at: string, level: number): Json => {
    values += 1;
    if (values > VALUES_MAX) {
      throw new ValidationError(
        topOf(at),
        `has more than ${VALUES_MAX} values, or contains itself; store it elsewhere and send a reference`,
      );
    }
    if (level > LEVELS_MAX) {
      throw new ValidationError(
        topOf(at),
        `is too deep: at most ${REQUEST_LIMITS.payloadLevels} arrays and objects within each other are accepted; send it as text`,
      );
    }
    switch (typeof part) {
      case 'string':
      case 'boolean':
        return part;
      case 'number':
        if (Number.isFinite(part)) return part;
        throw new ValidationError(cut(at), `${part} is no JSON number; send null or text instead`);
      case 'object': {
        if (part === null) return null;
        if (Array.isArray(part)) {
          return Array.from(part, (entry: unknown, index) => copy(entry, `${at}[${index}]`, level + 1));
        }
        if (!isPlain(part)) {
          throw new ValidationError(cut(at), `${nameOf(part)} is no JSON; send plain data, such as its text`);
        }
        const entries = Object.entries(part).filter(([, entry]) => entry !== undefined);
        return Object.fromEntries(
          entries.map(([name, entry]) => [name, copy(entry, at === '' ? name : `${at}.${name}`, level + 1)]),
        );
      }
      default:
        throw new ValidationError(cut(at), `${show(part)} is no JSON; leave it out, or send plain data`);
    }
  };
  try {
    return copy(value, '', 0);
  } catch (error) {
    if (error instanceof ValidationError) throw error;
    // A getter, or a proxy, that throws.
    throw new ValidationError('', `cannot be read: ${String(error)}`, { cause: error });
  }
}

/** Names are the caller's words: kept only as far as they tell which field it was. */
const cut = (at: string): string => at.slice(0, FIELD_CHARS_MAX);

/** The request's own field in which something stands. */
const topOf = (at: string): string => cut(/^[^.[]*/.exec(at)?.[0] ?? '');

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
