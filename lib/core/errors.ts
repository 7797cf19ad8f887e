/**
 * The errors that all parts share. `name` is stable and the class's own: tell errors apart by it. A lost race is never an error:
 * it is a value in an answer. `docs/errors.md` lists all of them, with what to do.
 */

/**
 * A declaration that cannot work: a pool's configuration, a retry policy, a schedule or a ring. It is thrown before
 * anything has changed.
 */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  /** The path of the wrong field, such as `types.pdf.timeoutMs`; empty for the whole configuration. */
  readonly field: string;
  /** The offending value. */
  readonly value: unknown;
  /** The reason why the value is wrong. */
  readonly problem: string;
  /** The allowed values, or the step that solves the problem. */
  readonly wayOut: string;

  constructor(field: string, value: unknown, problem: string, wayOut: string) {
    super(`${field === '' ? 'The configuration' : field}: ${problem}, got ${show(value)}. ${wayOut}`);
    this.field = field;
    this.value = value;
    this.problem = problem;
    this.wayOut = wayOut;
  }
}

/** An input that is not accepted: an argument, an option, a field of a file. Nothing was changed. */
export class ValidationError extends Error {
  override readonly name = 'ValidationError';
  /** Path of the wrong input, such as `payload.items[3]` or `options.timeoutMs`; empty for the whole. */
  readonly field: string;

  constructor(field: string, reason: string, options?: ErrorOptions) {
    super(field === '' ? reason : `${field}: ${reason}`, options);
    this.field = field;
  }
}

/** The process lacks something that it runs with: a variable, a program, a stack that can be read. */
export class EnvironmentError extends Error {
  override readonly name = 'EnvironmentError';
  /** The variable of the environment that is missing; undefined if something else is. */
  readonly setting: string | undefined;

  constructor(message: string, options: ErrorOptions & { readonly setting?: string } = {}) {
    super(message, options);
    this.setting = options.setting;
  }
}

/** The table, a queue or the bus refused for now: too many requests, or a transaction met another one. Nothing was changed; try again. */
export class ThrottledError extends Error {
  override readonly name = 'ThrottledError';
}

/** The table, a queue or the bus gave no answer. A write may or may not have been applied: repeat it, or read the item. */
export class UnavailableError extends Error {
  override readonly name = 'UnavailableError';
}

/** A table, an index, a queue, a bus, a declaration or the right to use one is missing: waiting does not help. */
export class MisconfiguredError extends Error {
  override readonly name = 'MisconfiguredError';
}

/**
 * Returns the error for an SDK client that has no Region, which the SDK says only in the message of a plain error;
 * undefined for other errors.
 */
export const regionMissing = (error: unknown, verb: string): EnvironmentError | undefined =>
  error instanceof Error && error.message === 'Region is missing'
    ? new EnvironmentError(`${verb}: AWS_REGION is not set; set it to the Region of the stack`, {
        cause: error,
        setting: 'AWS_REGION',
      })
    : undefined;

/** A request that is never accepted: an item too large, a key too long, a commit of too many items. Nothing was changed. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

/** Returns a value as a message shows it: one line, cut to a bounded length. */
export function show(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : describe(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

/** How many errors below one are read, and how deep they may be. More would say no more. */
const REASONS_MAX = 3;

/**
 * Returns the message of an error with those of the errors below it. `fetch` itself says only "fetch failed", and a connection that was
 * tried at several addresses says nothing.
 */
export function reasonOf(error: unknown, levels: number = REASONS_MAX): string {
  if (!(error instanceof Error)) return textOf(error);
  const { message, cause, code = '', errors } = error as Error & { code?: string; errors?: unknown };
  const inner: readonly unknown[] = Array.isArray(errors) ? errors.slice(0, REASONS_MAX) : [];
  const below = [...inner, ...(cause === undefined ? [] : [cause])];
  const reasons = levels === 0 ? [] : below.map((each) => reasonOf(each, levels - 1));
  return [message === '' && reasons.length === 0 ? code : message, [...new Set(reasons)].join('; ')]
    .filter((part) => part !== '')
    .join(': ');
}

/** Returns the refusal of a value that threw while it was read, as a getter or a proxy may; a `ValidationError` itself. */
export function unreadable(field: string, thrown: unknown): ValidationError {
  return isRefusal(thrown)
    ? thrown
    : new ValidationError(field, `cannot be read: ${textOf(thrown)}`, { cause: thrown });
}

function isRefusal(thrown: unknown): thrown is ValidationError {
  try {
    return thrown instanceof ValidationError;
  } catch {
    // A proxy throws even that question.
    return false;
  }
}

/** Returns what a user's code threw as text. It may be a value that throws again when it is made text. */
export function textOf(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return 'a value that cannot be shown as text';
  }
}

function describe(value: unknown): string {
  if (isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'function') return 'a function';
  if (typeof value === 'bigint') return `the bigint ${value}`;
  return textOf(value);
}

/** Whether it is an array. Of a revoked proxy, JavaScript itself throws that question. */
export function isArray(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}
