/** The shape of an operation of the protocol, and the parts that several of them share. */
import { createHash } from 'node:crypto';
import * as z from 'zod';
import type { ClientVerbs } from '../client/client.ts';
import type { ApiRole } from '../core/api-roles.ts';
import { ValidationError } from '../core/errors.ts';
import { parsePlace, placeText } from '../operate/places.ts';
import { REQUEST_LIMITS } from '../submit/request.ts';
import { HTTP_LIMITS } from './read.ts';

export const PRODUCERS: readonly ApiRole[] = ['submit', 'operate'];

/** One call of an operation, with what its request holds. */
export interface Call<Query, Body> {
  readonly client: ClientVerbs;
  /** The parameter of the path. */
  readonly id: string;
  readonly query: Query;
  readonly body: Body;
  /** The name for the history of jobs. */
  readonly actor: string | undefined;
  /** Aborts when the caller has gone. */
  readonly signal: AbortSignal;
  /** The longest wait of one request. */
  readonly waitMs: number;
}

/** An answer; `status` is 200 unless it says otherwise. */
export interface Answer {
  readonly status?: 200 | 201 | 202;
  readonly body: object;
}

export interface Operation {
  /** The name in the OpenAPI document. */
  readonly id: string;
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** The path, with `{id}` for the parameter. */
  readonly path: string;
  readonly summary: string;
  /** Whether it changes anything. */
  readonly isChange: boolean;
  /** The roles that may call it. */
  readonly roles: readonly ApiRole[];
  readonly query: z.ZodObject;
  readonly body: z.ZodType;
  /** Whether the verb checks the body by itself, so that its own words say what is wrong. */
  readonly isCheckedByVerb: boolean;
  /** The argument of the verb whose fields are those of the request. */
  readonly argument?: 'filter' | 'change' | 'options';
  readonly answer: z.ZodType;
  readonly run: (call: Call<never, never>) => Promise<Answer>;
}

const NOTHING = z.strictObject({});

/** Completes an operation; the compiler knows its query and its body by their schemas. */
export const operation = <
  Query extends z.ZodObject = typeof NOTHING,
  Body extends z.ZodType = typeof NOTHING,
>(
  of: Pick<Operation, 'id' | 'method' | 'path' | 'summary' | 'answer'> &
    Partial<Pick<Operation, 'isChange' | 'roles' | 'isCheckedByVerb' | 'argument'>> & {
      readonly query?: Query;
      readonly body?: Body;
      readonly run: (call: Call<z.output<Query>, z.output<Body>>) => Promise<Answer>;
    },
): Operation => {
  const isChange = of.isChange ?? of.method !== 'get';
  return {
    isChange,
    roles: isChange ? ['operate'] : ['read', 'operate'],
    isCheckedByVerb: false,
    query: NOTHING,
    body: NOTHING,
    ...of,
  };
};

/** A page's place in the table, packed twice. */
const CURSOR_CHARS_MAX = 6_000;

export const whole = (least: number, most: number) => z.int().min(least).max(most);
const references = z.boolean().optional().describe('Shows values over 64 KB as references, as lists do');
/** The query of a job by its id. */
export const REFERENCES = z.strictObject({ references });
/** The query of a job by another name. */
export const NAMED = z.strictObject({
  idempotencyKey: z.string().max(512).optional(),
  eventId: z.string().max(512).optional(),
  position: whole(0, REQUEST_LIMITS.jobsPerEvent - 1).optional(),
  references,
});
/** Answers with a job. */
export const jobOf = async <Job>(job: Promise<Job>) => ({ body: { job: await job } });
export const paging = {
  limit: whole(1, HTTP_LIMITS.page).optional().describe('Entries of the page, 100 by default'),
  cursor: z.string().max(CURSOR_CHARS_MAX).optional().describe('`next` of the page before'),
};
export const timeout = whole(0, 86_400_000)
  .optional()
  .describe('How long to wait, in milliseconds; the server waits for some 20 seconds at most');

/** How many entries a page has, and a bulk verb changes, unless the request says otherwise. */
export const PAGE = 100;

/**
 * Takes entries until they would make the answer too large. The first one always fits: the largest job has less than 1 MB.
 */
export function roomOfAnswer(): (entry: unknown) => boolean {
  let bytes = 0;
  return (entry) => {
    const isFirst = bytes === 0;
    bytes += Buffer.byteLength(JSON.stringify(entry));
    return isFirst || bytes <= HTTP_LIMITS.answerBytes;
  };
}

/** A page of a list that is computed anew. The cursor counts the entries before it, so that no server has to remember anything. */
export async function pageOf<Name extends string, Entry>(
  name: Name,
  { limit = PAGE, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  entries: AsyncIterable<Entry>,
): Promise<Answer> {
  const from = cursor === undefined ? 0 : offsetOf(cursor);
  const page: Entry[] = [];
  const fits = roomOfAnswer();
  let at = 0;
  for await (const entry of entries) {
    if (page.length === limit || (at >= from && !fits(entry)))
      return { body: { [name]: page, next: `at-${at}` } };
    if (at >= HTTP_LIMITS.listed)
      throw new ValidationError(
        'cursor',
        `reaches ${HTTP_LIMITS.listed} entries of a list; name a narrower filter`,
      );
    if (at >= from) page.push(entry);
    at += 1;
  }
  return { body: { [name]: page } };
}

/**
 * A page of a list that the store reads page by page. The cursor is the place of the last entry, and a mark of the list with its filter: what
 * comes or goes in the meantime moves no entry to another page. Entries without a place have the cursor of `pageOf`.
 */
export async function placedPageOf<Name extends string, Entry extends object>(
  name: Name,
  {
    limit = PAGE,
    cursor,
    ...filter
  }: {
    readonly limit?: number | undefined;
    readonly cursor?: string | undefined;
    readonly [field: string]: unknown;
  },
  entriesBehind: (after: string | undefined) => AsyncIterable<Entry>,
): Promise<Answer> {
  const mark = markOf(name, filter);
  const after = cursor?.startsWith(PLACED) === true ? afterOf(cursor, mark) : undefined;
  if (cursor !== undefined && after === undefined)
    return pageOf(name, { limit, cursor }, entriesBehind(undefined));
  const page: Entry[] = [];
  const fits = roomOfAnswer();
  for await (const entry of entriesBehind(after)) {
    if (page.length === limit || !fits(entry)) {
      const place = placeText(page.at(-1) as Entry);
      return {
        body: {
          [name]: page,
          next: place === undefined ? `at-${page.length}` : `${PLACED}${mark}.${place}`,
        },
      };
    }
    page.push(entry);
  }
  return { body: { [name]: page } };
}

const PLACED = 'after-';

/** Differs for lists with other filters. */
const markOf = (name: string, filter: object): string =>
  createHash('sha256')
    .update(
      JSON.stringify([name, Object.entries(filter).toSorted(([one], [other]) => (one < other ? -1 : 1))]),
    )
    .digest('base64url')
    .slice(0, 8);

function afterOf(cursor: string, mark: string): string {
  const given = cursor.slice(PLACED.length);
  const at = given.indexOf('.');
  if (given.slice(0, at) !== mark)
    throw new ValidationError('cursor', 'is of another list or another filter; begin with the first page');
  const after = given.slice(at + 1);
  parsePlace('cursor', after);
  return after;
}

function offsetOf(cursor: string): number {
  const [, digits] = /^at-(\d{1,5})$/.exec(cursor) ?? [];
  if (digits === undefined) throw new ValidationError('cursor', 'must be `next` of the page before');
  return Number(digits);
}

/** Returns the entries of a bulk verb that was given this limit. */
export async function entriesOf<Entry>(limit: number, entries: AsyncIterable<Entry>): Promise<Answer> {
  const found: Entry[] = [];
  for await (const entry of entries) found.push(entry);
  return { body: { entries: found, more: found.length === limit } };
}
