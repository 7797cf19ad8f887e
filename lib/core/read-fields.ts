/**
 * Readers of a declaration's fields, which are not trusted. Each takes a field's path, its value and its default. A
 * wrong value is refused by a `ConfigurationError` with the path, the value and the way out.
 */
import { durationMs } from './duration.ts';
import { ConfigurationError } from './errors.ts';
import { didYouMean } from './spelling.ts';

/** The most characters of a name. */
export const NAME_LENGTH_MAX = 100;

/** Returns the fields of an object that may have only the known fields. */
export function readObject(
  path: string,
  value: unknown,
  known: readonly string[],
): ReadonlyMap<string, unknown> {
  const fields = new Map(entriesOf(path, value));
  for (const name of fields.keys()) {
    if (known.includes(name)) continue;
    throw new ConfigurationError(
      path === '' ? name : `${path}.${name}`,
      fields.get(name),
      'is not a known field',
      `${didYouMean(name, known)}Known here: ${known.join(', ')}.`,
    );
  }
  return fields;
}

/** Returns the entries of an object whose keys are names; none if it is absent. */
export function readRecord(path: string, value: unknown, most: number): readonly [string, unknown][] {
  if (value === undefined) return [];
  const entries = entriesOf(path, value);
  if (entries.length <= most) return entries;
  throw new ConfigurationError(
    path,
    value,
    `has ${entries.length} entries, more than ${most}`,
    'Split the work into several pools.',
  );
}

function entriesOf(path: string, value: unknown): [string, unknown][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return Object.entries(value);
  throw new ConfigurationError(path, value, 'must be an object', 'Write it as { name: value }.');
}

export function readArray(path: string, value: unknown, most: number): readonly unknown[] {
  if (!Array.isArray(value)) {
    throw new ConfigurationError(path, value, 'must be an array', 'Write it as [first, second].');
  }
  if (value.length <= most) return value;
  throw new ConfigurationError(path, value, `must have at most ${most} entries`, 'Remove some.');
}

export function readName(path: string, value: unknown): string {
  // Names become keys of records, in which `__proto__` would set the prototype.
  if (typeof value === 'string' && value !== '' && value.length <= NAME_LENGTH_MAX && value !== '__proto__') {
    return value;
  }
  throw new ConfigurationError(
    path,
    value,
    `must be a name of 1 to ${NAME_LENGTH_MAX} characters`,
    'Choose another name.',
  );
}

export function refuseRepeated(path: string, name: string, seen: Set<string>): void {
  if (seen.has(name)) throw new ConfigurationError(path, name, 'is named twice', 'Name it once.');
  seen.add(name);
}

interface Range {
  readonly min?: number;
  readonly above?: number;
  readonly max?: number;
}

export function readNumber(path: string, value: unknown, byDefault: number, range: Range): number {
  if (value === undefined) return byDefault;
  const { min = -Infinity, above = -Infinity, max = Number.MAX_SAFE_INTEGER } = range;
  if (typeof value === 'number' && value >= min && value > above && value <= max) return value;
  const bound = range.above === undefined ? `of at least ${min}` : `above ${above}`;
  throw new ConfigurationError(
    path,
    value,
    `must be a number ${bound}${range.max === undefined ? '' : ` and at most ${max}`}`,
    `Leave it out for ${byDefault}.`,
  );
}

export function readInteger(
  path: string,
  value: unknown,
  byDefault: number,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  if (value === undefined) return byDefault;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new ConfigurationError(
    path,
    value,
    `must be a whole number of at least ${min}${max === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${max}`}`,
    `Leave it out for ${byDefault}.`,
  );
}

/** Reads a duration in milliseconds, which may be a fraction. Texts and `Duration`s become milliseconds first. */
export const readDuration = (path: string, value: unknown, byDefault: number): number =>
  readNumber(path, msOf(path, value), byDefault, { min: 0 });

/** Returns a duration in whole milliseconds: a fraction is refused, not rounded. */
export const readWholeDuration = (
  path: string,
  value: unknown,
  byDefault: number,
  minMs: number,
  maxMs?: number,
): number => readInteger(path, msOf(path, value), byDefault, minMs, maxMs);

/**
 * Returns the milliseconds of a text or a `Duration`. Other values are returned as they are, because the checks of
 * bounds have messages of their own.
 */
const msOf = (path: string, value: unknown): unknown =>
  value === undefined || typeof value === 'number' ? value : durationMs(path, value);

export function readCap(path: string, value: unknown, byDefault: number | null): number | null {
  if (value === undefined) return byDefault;
  if (value === null) return null;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new ConfigurationError(
    path,
    value,
    'must be a whole number of at least 0, or null',
    'Null means no limit.',
  );
}

export function readBoolean(path: string, value: unknown, byDefault: boolean | undefined): boolean {
  const given = value === undefined ? byDefault : value;
  if (typeof given === 'boolean') return given;
  throw new ConfigurationError(path, value, 'must be true or false', 'Write it without quotes.');
}

export function readChoice<Choice extends string>(
  path: string,
  value: unknown,
  choices: readonly Choice[],
  byDefault: Choice | undefined,
): Choice {
  if (value === undefined && byDefault !== undefined) return byDefault;
  const chosen = choices.find((choice) => choice === value);
  if (chosen !== undefined) return chosen;
  throw new ConfigurationError(
    path,
    value,
    `must be one of ${choices.join(', ')}`,
    `Leave it out${byDefault === undefined ? '' : ` for ${byDefault}`}.`,
  );
}

/** A check of a field. It throws for a value that the field cannot have. */
export type Check = (field: string, value: unknown) => void;

/** Checks an object that has only these fields. All may be absent. */
export const objectOf =
  (checks: Readonly<Record<string, Check>>): Check =>
  (field, value) => {
    for (const [name, each] of readObject(field, value, Object.keys(checks)))
      if (each !== undefined) checks[name]?.(`${field === '' ? '' : `${field}.`}${name}`, each);
  };

/**
 * Returns a check for numbers from `min` to `max`.
 * @param wayOut - the alternative for the message, such as leaving the field out
 */
export const numberWithin =
  (min: number, max: number, wayOut: string): Check =>
  (field, value) => {
    if (typeof value === 'number' && value >= min && value <= max) return;
    throw new ConfigurationError(field, value, `must be a number from ${min} to ${max}`, wayOut);
  };

/** Returns a check for durations, as milliseconds, as a text or as a `Duration`, between two bounds in milliseconds. */
export const durationWithin = (minMs: number, maxMs: number, wayOut: string): Check => {
  const isWithin = numberWithin(minMs, maxMs, wayOut);
  return (field, value) => isWithin(field, msOf(field, value));
};

export const wholeWithin =
  (min: number, max: number, wayOut: string): Check =>
  (field, value) => {
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
    throw new ConfigurationError(field, value, `must be a whole number from ${min} to ${max}`, wayOut);
  };

/**
 * Returns a check for texts of well-formed Unicode that are not empty.
 * @param bytesMax - the most bytes of the text in UTF-8
 */
export const textWithin =
  (bytesMax: number, wayOut: string): Check =>
  (field, value) => {
    const isText = typeof value === 'string' && value !== '' && value.isWellFormed();
    if (isText && new TextEncoder().encode(value).byteLength <= bytesMax) return;
    const rule = `must be a text of 1 to ${bytesMax} bytes of well-formed Unicode`;
    throw new ConfigurationError(field, value, rule, wayOut);
  };

export const isBoolean: Check = (field, value) => void readBoolean(field, value, undefined);

export const isFunction: Check = (field, value) => {
  if (typeof value === 'function') return;
  throw new ConfigurationError(field, value, 'must be a function', 'Give the function itself.');
};

/** Checks each value of an object. */
export const recordOf =
  (check: Check): Check =>
  (field, value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new ConfigurationError(field, value, 'must be an object', 'Write it as { name: value }.');
    for (const [name, each] of Object.entries(value)) check(`${field}.${name}`, each);
  };
