/** Reads requests: every part has a bound, and a field that is not known is refused. */
import type { HonoRequest } from 'hono';
import type * as z from 'zod';
import { show, ValidationError } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import { HTTP_BODY_BYTES_MAX } from '../core/json.ts';
import { readBody } from '../runtime/body.ts';
import { type Problem, plainProblem } from './problem.ts';

export const HTTP_LIMITS = {
  /** The most bytes of one body. */
  bodyBytes: HTTP_BODY_BYTES_MAX,
  /** The most characters of a path with its query. */
  urlChars: 8_192,
  /** The most jobs of one batch of submissions, and of one wait. */
  batch: 1_000,
  /** The most entries of one page of a list. */
  page: 1_000,
  /** The most entries of a list that its cursors reach. */
  listed: 10_000,
  /** The most entries of one `PutEvents`, as with EventBridge. */
  events: 10,
  /** Bytes of the entries of an answer. A function URL lets 6 MB through, in which each quotation mark takes two. */
  answerBytes: 4_000_000,
} as const;

/** A request that is refused before any verb is called. */
export class HttpRefusal {
  readonly problem: Problem;

  constructor(status: number, detail: string) {
    this.problem = plainProblem(status, detail);
  }
}

const pathOf = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (at, step) =>
      typeof step === 'number' ? `${at}[${step}]` : at === '' ? String(step) : `${at}.${String(step)}`,
    '',
  );

const valueAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (at, step) => (typeof at === 'object' && at !== null ? Reflect.get(at, step) : undefined),
    value,
  );

/** Returns the value, if it has the right shape. @throws ValidationError - it names the field */
export function parsedBy<Shape extends z.ZodType>(shape: Shape, value: unknown): z.output<Shape> {
  const parsed = shape.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path ?? [];
  if (issue?.code === 'unrecognized_keys')
    throw new ValidationError(pathOf([...path, issue.keys[0] ?? '']), 'is not known here; leave it out');
  throw new ValidationError(
    pathOf(path),
    `${issue?.message ?? 'is invalid'} (got ${show(valueAt(value, path))})`,
  );
}

/** Returns the bytes of a body, if they are few enough. */
async function bytesOf(body: ReadableStream<Uint8Array> | null): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const { bytes, isWhole, size } = await readBody(body, HTTP_LIMITS.bodyBytes);
  if (isWhole) return bytes;
  throw new HttpRefusal(
    413,
    `the body has ${size}, at most ${HTTP_LIMITS.bodyBytes} are accepted; send less with each request`,
  );
}

/**
 * Returns the JSON of a request's body; an empty body counts as `{}`. The media type is required of an empty body, too:
 * a page of another site cannot send it without asking first.
 */
export async function jsonOfBody(request: HonoRequest, mediaTypes: readonly string[]): Promise<unknown> {
  const mediaType = (request.header('content-type') ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  if (!mediaTypes.includes(mediaType))
    throw new HttpRefusal(
      415,
      `the body must have the media type ${mediaTypes.join(' or ')}, not ${show(mediaType)}; set the header content-type, also for an empty body`,
    );
  const bytes = await bytesOf(request.raw.body);
  if (bytes.byteLength === 0) return {};
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new ValidationError('', `the body is not JSON in UTF-8 (${String(error)}); correct it`, {
      cause: error,
    });
  }
}

const LEVELS_MAX = 8;

/**
 * Refuses a field `__proto__`, which a schema drops without a word. Fields that may hold any JSON are checked by the
 * verb that takes them.
 */
export function refuseProto(value: unknown, path: readonly PropertyKey[] = []): void {
  if (typeof value !== 'object' || value === null || path.length > LEVELS_MAX) return;
  if (Object.hasOwn(value, '__proto__'))
    throw new ValidationError(pathOf([...path, '__proto__']), 'is not known here; leave it out');
  for (const [name, each] of Object.entries(value))
    refuseProto(each, [...path, Array.isArray(value) ? Number(name) : name]);
}

/** Parameters that are true or left out. */
const FLAGS: readonly string[] = ['history', 'references'];
const WHOLE = /^-?\d{1,15}$/;

/**
 * Returns the parameters of a query, each given once, except `tag`: `tag=order=4711&tag=shop=7`. @throws
 * ValidationError
 */
export function queryOf(request: HonoRequest, shape: z.ZodObject): Readonly<Record<string, unknown>> {
  const given: [string, unknown][] = [];
  for (const [name, values] of Object.entries(request.queries())) {
    if (name === 'tag') {
      given.push(['tags', tagsOf(values)]);
      continue;
    }
    const [value = '', second] = values;
    if (second !== undefined) throw new ValidationError(name, 'is given twice; name it once');
    const isWhole = WHOLE.test(value) && isNumber(shape.shape[name]);
    given.push([name, isWhole ? Number(value) : value === 'true' && FLAGS.includes(name) ? true : value]);
  }
  return Object.fromEntries(given);
}

function isNumber(shape: unknown): boolean {
  const inner: unknown = typeof shape === 'object' && shape !== null ? Reflect.get(shape, 'def') : undefined;
  if (typeof inner !== 'object' || inner === null) return false;
  const type: unknown = Reflect.get(inner, 'type');
  return type === 'number' || isNumber(Reflect.get(inner, 'innerType'));
}

function tagsOf(values: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    values.map((text) => {
      const at = text.indexOf('=');
      if (at < 1)
        throw new ValidationError(
          'tag',
          `must be a name and a value, such as order=4711 (got ${show(text)})`,
        );
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}
