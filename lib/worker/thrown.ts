/**
 * Reads what a handler threw. It belongs to the user and may be anything: a text, an object without a prototype, a proxy that was
 * revoked, an error whose getters throw or whose causes go round in a circle. So every property of it is read here, each by itself,
 * and what comes out is plain text of a bounded size. Nothing else in the worker touches what was thrown.
 */
import { isNativeError } from 'node:util/types';
import { cutToBytes } from '../core/history.ts';
import { ERROR_STACK_BYTES_MAX, type JobError } from '../core/job.ts';
import { AttemptError, type AttemptReason } from './errors.ts';

const NAME_CHARS_MAX = 128;
const MESSAGE_CHARS_MAX = 2_048;
/** Of an error that an error names as its cause, or as one of several. */
const INNER_MESSAGE_CHARS_MAX = 512;
const CODE_CHARS_MAX = 64;
/** Errors of one chain that are told of. Twice as many say no more, and leave less room for each. */
const ERRORS_MAX = 12;
/** Frames of the error itself, and of each other error of its chain. */
const FRAMES_MAX = 10;
const INNER_FRAMES_MAX = 4;
/** Names that are told of an object without a message. */
const FIELDS_MAX = 20;
/** Of a stack as its error has it: more is not searched for frames. */
const STACK_CHARS_READ_MAX = 64 * 1024;

const UNREADABLE = 'the handler threw what cannot be shown as text';

/** An error as it was read. */
interface Read {
  readonly name: string;
  /** Its own. */
  readonly message: string;
  /** Such as `ECONNREFUSED`; empty: it has none. */
  readonly code: string;
  readonly frames: readonly string[];
  /** What it names as its causes: those of an `AggregateError` first, those of a `SuppressedError` last. */
  readonly causes: readonly Read[];
}

/** What was thrown, as the job keeps it: with the reasons of its causes in its message, and where all of them came from. */
export function jobErrorOf(thrown: unknown): JobError {
  const error = read(thrown, new Set(), FRAMES_MAX);
  const name = error.name.slice(0, NAME_CHARS_MAX).toWellFormed();
  const message = reasonOf(error).slice(0, MESSAGE_CHARS_MAX).toWellFormed();
  const stack = [...error.frames, ...causesOf(error)].join('\n').toWellFormed();
  return { name, message, ...(stack === '' ? {} : { stack: cutToBytes(stack, ERROR_STACK_BYTES_MAX) }) };
}

/** What `Error` itself would call it where it has no name of its own, or is no error. */
const NAMELESS = 'Error';

function read(thrown: unknown, seen: Set<unknown>, framesMax: number): Read {
  seen.add(thrown);
  if (!isObject(thrown)) {
    const message = textOf(() => thrown) ?? UNREADABLE;
    return { name: NAMELESS, message, code: '', frames: [], causes: [] };
  }
  const field = (name: string): unknown => attempted(() => Reflect.get(thrown, name));
  const text = (name: string): string | undefined => {
    const value = field(name);
    return value === undefined ? undefined : textOf(() => value);
  };
  const name = attemptReasonOf(thrown) ?? (text('name') || NAMELESS);
  // What was thrown last, and what it hid. Of other errors, fields of these names may be anything.
  const suppressed = name === 'SuppressedError' ? [field('error'), field('suppressed')] : [];
  return {
    name,
    message: text('message') ?? (isError(thrown) ? UNREADABLE : (fieldsOf(thrown) ?? UNREADABLE)),
    code: codeIn(field('code')),
    frames: framesIn(text('stack') ?? '', framesMax),
    causes: [...entriesIn(field('errors')), field('cause'), ...suppressed].flatMap((inner) => {
      if (inner === undefined || inner === null || seen.size >= ERRORS_MAX || seen.has(inner)) return [];
      return [read(inner, seen, INNER_FRAMES_MAX)];
    }),
  };
}

/** The name under which an attempt's end is kept with its job. */
const attemptReasonOf = (thrown: object): AttemptReason | undefined =>
  attempted(() => (thrown instanceof AttemptError ? thrown.reason : undefined)) as AttemptReason | undefined;

/** Also one that another realm has made. */
const isError = (thrown: unknown): thrown is object =>
  isNativeError(thrown) || attempted(() => thrown instanceof Error) === true;

function attempted<Value>(look: () => Value): Value | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

const textOf = (look: () => unknown): string | undefined => attempted(() => String(look()));

const isObject = (thrown: unknown): thrown is object =>
  (typeof thrown === 'object' && thrown !== null) || typeof thrown === 'function';

/** Of an object without a message, the names alone: what stands in it may be a secret, such as the headers of a request. */
const fieldsOf = (thrown: object): string | undefined =>
  attempted(() => {
    const names = Object.keys(thrown).slice(0, FIELDS_MAX);
    return names.length === 0 ? 'an object without fields' : `an object with the fields ${names.join(', ')}`;
  });

const codeIn = (code: unknown): string =>
  typeof code === 'string' || typeof code === 'number' ? String(code).slice(0, CODE_CHARS_MAX) : '';

const entriesIn = (errors: unknown): readonly unknown[] =>
  attempted(() => (Array.isArray(errors) ? errors.slice(0, ERRORS_MAX) : [])) ?? [];

const framesIn = (stack: string, max: number): readonly string[] =>
  stack
    .slice(0, STACK_CHARS_READ_MAX)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, max)
    .map((line) => line.trim());

/** A message with its code and the reasons of its causes, as far as it does not say them itself. */
function reasonOf({ message, code, causes }: Read): string {
  const own = said(message, code);
  const inner = causes.map(reasonOf).filter((reason) => reason !== '' && !own.includes(reason));
  return [own, [...new Set(inner)].join('; ')].filter((part) => part !== '').join(': ');
}

const said = (message: string, code: string): string => {
  if (code === '' || message.includes(code)) return message;
  return message === '' ? code : `${message} (${code})`;
};

/** The causes of an error, and theirs, each further in than the one that it caused. */
function causesOf({ causes }: Read): readonly string[] {
  return causes.flatMap((cause) => {
    const message = said(cause.message, cause.code).slice(0, INNER_MESSAGE_CHARS_MAX);
    return [
      `cause: ${cause.name.slice(0, NAME_CHARS_MAX)}: ${message}`,
      ...[...cause.frames, ...causesOf(cause)].map((line) => `  ${line}`),
    ];
  });
}
