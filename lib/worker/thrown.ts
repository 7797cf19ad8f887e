/**
 * Reads what a handler threw. That may be anything: a text, an object without a prototype, a revoked proxy, an error
 * whose getters throw or whose causes form a circle. So each property is read here, each guarded by itself, and the
 * result is plain text of a bounded size. No other code of the worker looks at the thrown value.
 */
import { isNativeError } from 'node:util/types';
import { cutToBytes } from '../core/history.ts';
import { ERROR_STACK_BYTES_MAX, type JobError } from '../core/job.ts';
import type { HandlerDecision } from '../core/retry.ts';
import {
  AttemptError,
  type AttemptReason,
  REST_LEAST_MS,
  REST_MAX_MS,
  RETRY_AFTER_MAX_MS,
} from './errors.ts';

const NAME_CHARS_MAX = 128;
const MESSAGE_CHARS_MAX = 2_048;
/** The most characters of the message of a cause. */
const INNER_MESSAGE_CHARS_MAX = 512;
const CODE_CHARS_MAX = 64;
/** How many errors of one chain are kept. Twice as many would say no more, and leave less room for each. */
const ERRORS_MAX = 12;
/** The most stack frames that are kept of the error itself. */
const FRAMES_MAX = 10;
/** The most stack frames that are kept of each cause of an error. */
const INNER_FRAMES_MAX = 4;
/** How many field names are listed for an object without a message. */
const FIELDS_MAX = 20;
/** How much of a stack is searched for frames. */
const STACK_CHARS_READ_MAX = 64 * 1024;

const UNREADABLE = 'the handler threw a value that cannot be shown as text';

/** An error after it was read. */
interface ReadError {
  readonly name: string;
  /** The message, without those of its causes. */
  readonly message: string;
  /** The error's code, such as `ECONNREFUSED`; empty if it has none. */
  readonly code: string;
  readonly frames: readonly string[];
  /** The error's causes: the errors of an `AggregateError` first, those of a `SuppressedError` last. */
  readonly causes: readonly ReadError[];
}

/**
 * Returns the thrown value as the job stores it. The message includes those of its causes, and the stack has frames of
 * all of them.
 */
export function jobErrorOf(thrown: unknown): JobError {
  const error = readError(thrown, new Set(), FRAMES_MAX);
  const name = error.name.slice(0, NAME_CHARS_MAX).toWellFormed();
  const message = reasonOf(error).slice(0, MESSAGE_CHARS_MAX).toWellFormed();
  const stack = [...error.frames, ...causesOf(error)].join('\n').toWellFormed();
  return { name, message, ...(stack === '' ? {} : { stack: cutToBytes(stack, ERROR_STACK_BYTES_MAX) }) };
}

/**
 * Returns what the thrown error decides about its job; undefined if it leaves that to the type's policy. Such an error
 * is known by its name and its fields, so that a class of another copy of this package counts too.
 */
export function decisionOf(thrown: unknown, nowMs: number): HandlerDecision | Cooldown | undefined {
  if (!isObject(thrown)) return undefined;
  const field = (name: string): unknown => orUndefined(() => Reflect.get(thrown, name));
  const reason = attemptReasonOf(thrown);
  if (reason === 'PayloadRefused' || reason === 'CheckpointRefused') return { retry: false };
  const name = field('name');
  if (name === 'PermanentError') return { retry: false };
  if (name === 'CooldownError') return cooldownOf(field, nowMs);
  if (name !== 'RetryAfterError') return undefined;
  const [after, at] = [field('retryAfterMs'), field('retryAtMs')];
  const retryAtMs = typeof at === 'number' ? at : typeof after === 'number' ? nowMs + after : Number.NaN;
  return Number.isNaN(retryAtMs) ? undefined : { retryAtMs: Math.min(retryAtMs, nowMs + RETRY_AFTER_MAX_MS) };
}

/** The rest that a handler asked for. */
export interface Cooldown {
  readonly restUntilMs: number;
  readonly type: string | undefined;
  readonly limit: string | undefined;
  /** The fairness key that rests; true: the job's own. */
  readonly key: string | true | undefined;
}

function cooldownOf(field: (name: string) => unknown, nowMs: number): Cooldown | undefined {
  const [after, at, type, limit, key] = ['restMs', 'restUntilMs', 'type', 'limit', 'key'].map(field);
  const untilMs = typeof at === 'number' ? at : typeof after === 'number' ? nowMs + after : Number.NaN;
  if (Number.isNaN(untilMs)) return undefined;
  return {
    // planted: rests-for-nothing
    restUntilMs: Math.min(Math.max(untilMs, nowMs + REST_LEAST_MS), nowMs + REST_MAX_MS),
    type: typeof type === 'string' ? type : undefined,
    limit: typeof limit === 'string' ? limit : undefined,
    key: typeof key === 'string' || key === true ? key : undefined,
  };
}

/** The name of an error without a name, and of a value that is no error; `Error` uses the same. */
const DEFAULT_NAME = 'Error';

function readError(thrown: unknown, seen: Set<unknown>, framesMax: number): ReadError {
  seen.add(thrown);
  if (!isObject(thrown)) {
    const message = textOf(() => thrown) ?? UNREADABLE;
    return { name: DEFAULT_NAME, message, code: '', frames: [], causes: [] };
  }
  const field = (name: string): unknown => orUndefined(() => Reflect.get(thrown, name));
  const text = (name: string): string | undefined => {
    const value = field(name);
    return value === undefined ? undefined : textOf(() => value);
  };
  const name = attemptReasonOf(thrown) ?? (text('name') || DEFAULT_NAME);
  // The error that was thrown last, and the one that it hid. On other errors, fields of these names may hold
  // anything.
  const suppressed = name === 'SuppressedError' ? [field('error'), field('suppressed')] : [];
  return {
    name,
    message: text('message') ?? (isError(thrown) ? UNREADABLE : (fieldsOf(thrown) ?? UNREADABLE)),
    code: codeIn(field('code')),
    frames: framesIn(text('stack') ?? '', framesMax),
    causes: [...entriesIn(field('errors')), field('cause'), ...suppressed].flatMap((inner) => {
      if (inner === undefined || inner === null || seen.size >= ERRORS_MAX || seen.has(inner)) return [];
      return [readError(inner, seen, INNER_FRAMES_MAX)];
    }),
  };
}

/** Returns the reason of an `AttemptError`, which is stored as the error's name. */
const attemptReasonOf = (thrown: object): AttemptReason | undefined =>
  orUndefined(() => (thrown instanceof AttemptError ? thrown.reason : undefined)) as
    | AttemptReason
    | undefined;

/** Whether it is an error, also one of another realm. */
const isError = (thrown: unknown): thrown is object =>
  isNativeError(thrown) || orUndefined(() => thrown instanceof Error) === true;

function orUndefined<Value>(look: () => Value): Value | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

const textOf = (look: () => unknown): string | undefined => orUndefined(() => String(look()));

const isObject = (thrown: unknown): thrown is object =>
  (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function';

/**
 * Returns the field names of an object without a message. Values are left out, because they may be secret, such as the
 * headers of a request.
 */
const fieldsOf = (thrown: object): string | undefined =>
  orUndefined(() => {
    const names = Object.keys(thrown).slice(0, FIELDS_MAX);
    return names.length === 0 ? 'an object without fields' : `an object with the fields ${names.join(', ')}`;
  });

const codeIn = (code: unknown): string =>
  typeof code === 'string' || typeof code === 'number' ? String(code).slice(0, CODE_CHARS_MAX) : '';

/**
 * Returns the entries of an array. They are read by index, because an array of a class of its own may answer anything
 * to `slice`, or to an iteration.
 */
const entriesIn = (errors: unknown): readonly unknown[] =>
  orUndefined(() => {
    if (!Array.isArray(errors)) return [];
    const count = Math.min(Number(errors.length), ERRORS_MAX);
    return Array.from({ length: count }, (_, at): unknown => errors[at]);
  }) ?? [];

const framesIn = (stack: string, max: number): readonly string[] =>
  stack
    .slice(0, STACK_CHARS_READ_MAX)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, max)
    .map((line) => line.trim());

/** Returns a message with its code and the messages of its causes, each unless the message already contains it. */
function reasonOf({ message, code, causes }: ReadError): string {
  const own = withCode(message, code);
  const inner = causes.map(reasonOf).filter((reason) => reason !== '' && !own.includes(reason));
  return [own, [...new Set(inner)].join('; ')].filter((part) => part !== '').join(': ');
}

const withCode = (message: string, code: string): string => {
  if (code === '' || message.includes(code)) return message;
  return message === '' ? code : `${message} (${code})`;
};

/** Returns the lines of an error's causes and of their causes, each indented below the error that it caused. */
function causesOf({ causes }: ReadError): readonly string[] {
  return causes.flatMap((cause) => {
    const message = withCode(cause.message, cause.code).slice(0, INNER_MESSAGE_CHARS_MAX);
    return [
      `cause: ${cause.name.slice(0, NAME_CHARS_MAX)}: ${message}`,
      ...[...cause.frames, ...causesOf(cause)].map((line) => `  ${line}`),
    ];
  });
}
