/**
 * Checks of the arguments of the client's verbs. A job to submit is checked by the same rule as an event, in
 * lib/submit/request.ts.
 */

import { isDate } from 'node:util/types';
import * as z from 'zod';
import { REASON_BYTES_MAX } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError, isArray, show, unreadable, ValidationError } from '../core/errors.ts';
import { ACTOR_BYTES_MAX } from '../core/history.ts';
import { inWords } from '../core/issues.ts';
import { JOB_ID_BYTES_MAX, JOB_MODES, type Json, PRIORITY_MAX, PRIORITY_MIN } from '../core/job.ts';
import { jsonOf } from '../core/json.ts';
import { type Scope, undeclaredIn } from '../core/scope.ts';
import { withArticle } from '../core/spelling.ts';
import { isTraceparent, TRACEPARENT_RULE } from '../core/trace.ts';
import { isFinishedState, type JobFilter, LISTED_STATES, type ListedState } from '../operate/list-jobs.ts';
import type { Supposition } from '../operate/supposition.ts';
import { ANY_STATE, searchedTag } from '../operate/tagged.ts';
import { EVENT_ID_BYTES_MAX } from '../submit/ingest.ts';
import {
  type JobRequest,
  jobIdOf,
  jobIdOfEvent,
  jobRequest,
  parseRequests,
  REQUEST_LIMITS,
  tagsRecord,
  unknownField,
  wholeNumber,
} from '../submit/request.ts';
import { BULK_STATES } from './bulk.ts';
import type { ClientJob } from './job.ts';

/** Bounds of the arguments. */
export const CLIENT_LIMITS = {
  /** The most requests in one `submitMany`. */
  requests: 10_000,
  /** The most jobs in one `waitMany`. */
  awaited: 10_000,
  jobIdBytes: JOB_ID_BYTES_MAX,
  timeoutMs: 24 * 3_600_000,
  /** How many jobs of one fairness key and line are counted at most. */
  countUpTo: 10_000,
  maxConcurrency: 1_000_000,
  weight: 1_000_000,
  /** The most jobs that one bulk verb changes. */
  bulk: 10_000,
  errorNameChars: 128,
  /** The most bytes of the name of the person or program that makes a change. */
  actorBytes: ACTOR_BYTES_MAX,
  /** The most bytes of the reason of a pause or an override. */
  reasonBytes: REASON_BYTES_MAX,
  /** The longest time after which a pause or an override ends by itself. */
  overrideMs: 366 * 24 * 3_600_000,
} as const;

const bytes = (text: string): number => Buffer.byteLength(text, 'utf8');

const text = (maxBytes: number) =>
  z
    .string()
    .refine((value) => value.isWellFormed(), 'must be well-formed Unicode')
    .refine((value) => bytes(value) <= maxBytes, `must be at most ${maxBytes} bytes`);

const jobId = text(CLIENT_LIMITS.jobIdBytes).min(1, 'must not be empty');
const fairnessKey = text(REQUEST_LIMITS.keyBytes);
const name = text(REQUEST_LIMITS.keyBytes).min(1, 'must not be empty');
const signal = z
  .custom<AbortSignal>((value) => value instanceof AbortSignal, 'must be an AbortSignal')
  .optional();
const TIMEOUT_RULE =
  "must be a duration above 0 and at most 24 hours: milliseconds, a text such as '30s' or '10m', or a Duration";
const timeoutOf = (maxMs: number, rule: string) =>
  z
    .custom<DurationInput>()
    .transform((value, context) => {
      const ms = msOf(value);
      if (ms !== undefined && ms > 0 && ms <= maxMs) return ms;
      context.addIssue({ code: 'custom', message: rule });
      return z.NEVER;
    })
    .optional();
const timeout = timeoutOf(CLIENT_LIMITS.timeoutMs, TIMEOUT_RULE);
const instant = z.iso.datetime({
  offset: true,
  error: 'must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z',
});

/** Returns the milliseconds of a duration; undefined if the value is none. */
function msOf(value: unknown): number | undefined {
  try {
    return durationMs('', value);
  } catch (error) {
    if (error instanceof ConfigurationError) return undefined;
    throw error;
  }
}

const isFunction = (value: unknown): boolean => typeof value === 'function';

const signalOnly = { signal };
const actorFields = {
  signal,
  actor: text(CLIENT_LIMITS.actorBytes).min(1, 'must not be empty; leave it out').optional(),
};
/** When a pause or an override ends by itself, and why it was made. */
const endFields = {
  for: timeoutOf(
    CLIENT_LIMITS.overrideMs,
    "must be a duration above 0 and at most 366 days: milliseconds, a text such as '10m', or a Duration",
  ),
  reason: text(CLIENT_LIMITS.reasonBytes).min(1, 'must not be empty; leave it out').optional(),
};
const filter = { type: name.optional(), fairnessKey: fairnessKey.optional(), tags: tagsRecord.optional() };
const capOrNone = wholeNumber(1, CLIENT_LIMITS.maxConcurrency, '; a pause lets nothing start')
  .nullable()
  .optional();
const weightOrNone = z.number().positive().max(CLIENT_LIMITS.weight).nullable().optional();
const scopes = [
  z.literal('pool'),
  z.strictObject({ tier: name }),
  z.strictObject({ type: name }),
  z.strictObject({ fleet: name }),
  z.strictObject({ limit: name, key: fairnessKey.optional() }),
  z.strictObject({ fairnessKey }),
] as const;
const listFilter = { ...filter, mode: z.enum(JOB_MODES).optional() };
const deadLetterFilter = z.strictObject({
  ...filter,
  errorName: text(CLIENT_LIMITS.errorNameChars).min(1, 'must not be empty').optional(),
  failedAfter: instant.optional(),
  failedBefore: instant.optional(),
});

/** A store's cursor, a job's id, and their packing. */
const PLACE_BYTES_MAX = 8_192;

/** The shapes of arguments, each under the name that an error gives its field. */
export const SHAPES = {
  jobId,
  traceparent: z.string().refine(isTraceparent, TRACEPARENT_RULE).optional(),
  options: z.strictObject(signalOnly).optional(),
  listOptions: z.strictObject({ ...signalOnly, after: text(PLACE_BYTES_MAX).optional() }).optional(),
  actorOptions: z.strictObject(actorFields).optional(),
  runOptions: z
    .strictObject({
      ...signalOnly,
      timeout,
      dieWithWaiter: z.boolean().optional(),
      onProgress: z.custom<(job: ClientJob) => void>(isFunction, 'must be a function').optional(),
    })
    .optional(),
  waitOptions: z.strictObject({ ...signalOnly, timeout }).optional(),
  jobAlias: z
    .strictObject({
      idempotencyKey: name.optional(),
      eventId: text(EVENT_ID_BYTES_MAX).min(1, 'must not be empty').optional(),
      position: wholeNumber(0, REQUEST_LIMITS.jobsPerEvent - 1).optional(),
    })
    .refine(
      ({ idempotencyKey, eventId, position }) =>
        (idempotencyKey === undefined) !== (eventId === undefined) &&
        (position === undefined || eventId !== undefined),
      'must be the id of a job, { idempotencyKey }, or { eventId, position }',
    ),
  retime: z.strictObject({ runAt: z.unknown().optional() }),
  priority: wholeNumber(PRIORITY_MIN, PRIORITY_MAX),
  listFilter: z.strictObject({
    ...listFilter,
    state: z.enum([...LISTED_STATES, ANY_STATE]),
    since: instant.optional(),
    until: instant.optional(),
  }),
  getOptions: z.strictObject({ ...signalOnly, references: z.boolean().optional() }).optional(),
  keysOptions: z
    .strictObject({ ...signalOnly, countUpTo: wholeNumber(0, CLIENT_LIMITS.countUpTo).optional() })
    .optional(),
  deadLetterFilter,
  rejectionFilter: z.strictObject({
    eventId: text(EVENT_ID_BYTES_MAX).min(1, 'must not be empty').optional(),
  }),
  bulkOptions: z
    .strictObject({
      ...actorFields,
      limit: wholeNumber(1, CLIENT_LIMITS.bulk).optional(),
      dryRun: z.boolean().optional(),
    })
    .optional(),
  cancelFilter: z.strictObject({ ...listFilter, state: z.enum(BULK_STATES.cancel) }),
  retimeFilter: z.strictObject({ ...listFilter, state: z.enum(BULK_STATES.retime) }),
  scope: z.union(scopes, {
    error:
      "must be 'pool', or an object with exactly one of tier, type, fleet, limit and fairnessKey; a limit may have a key beside it",
  }),
  explainOptions: z
    .strictObject({
      ...signalOnly,
      if: z
        .strictObject({
          scope: z.union([...scopes, z.strictObject({ limit: name, key: z.literal(true) })], {
            error:
              "must be 'pool', or an object with exactly one of tier, type, fleet, limit and fairnessKey; a limit may have a key beside it, or true for the job's own",
          }),
          maxConcurrency: capOrNone,
          weight: weightOrNone,
          paused: z.boolean().optional(),
        })
        .refine(
          ({ maxConcurrency, weight, paused }) =>
            [maxConcurrency, weight, paused].some((each) => each !== undefined),
          'must name maxConcurrency, weight or paused',
        )
        .optional(),
    })
    .optional(),
  drainOptions: z
    .strictObject({
      ...signalOnly,
      timeout,
      onProgress: z.custom<(running: number) => void>(isFunction, 'must be a function').optional(),
    })
    .optional(),
  nextOptions: z
    .strictObject({ ...signalOnly, from: instant.optional(), count: wholeNumber(1, 1_000).optional() })
    .optional(),
  statisticsOptions: z
    .strictObject({ ...signalOnly, from: instant.optional(), to: instant.optional() })
    .optional(),
  controlsOptions: z.strictObject({ ...signalOnly, history: z.boolean().optional() }).optional(),
  pauseOptions: z.strictObject({ ...actorFields, ...endFields }).optional(),
  override: z
    .strictObject({
      ...endFields,
      maxConcurrency: capOrNone,
      weight: weightOrNone,
    })
    .refine(
      (change) => change.maxConcurrency !== undefined || change.weight !== undefined,
      'must name maxConcurrency or weight; null removes an override',
    ),
} as const;

const pathOf = (field: string, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (at, step) => (typeof step === 'number' ? `${at}[${step}]` : `${at}.${String(step)}`),
    field,
  );

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, step) => (typeof at === 'object' && at !== null ? Reflect.get(at, step) : undefined),
    value,
  );
}

/**
 * Returns the argument, if it has the right shape.
 * @throws ValidationError - it names the field
 */
export function checked<Shape extends z.ZodType>(
  shape: Shape,
  value: unknown,
  field: string,
): z.output<Shape> {
  try {
    const parsed = shape.safeParse(value, { error: inWords });
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    if (issue?.code === 'unrecognized_keys') {
      const unknown = issue.keys[0] ?? '';
      throw new ValidationError(pathOf(field, [...issue.path, unknown]), 'is not known here; leave it out');
    }
    const path = issue?.path ?? [];
    throw new ValidationError(
      pathOf(field, path),
      `${issue?.message ?? 'is invalid'} (got ${show(valueAt(value, path))})`,
    );
  } catch (error) {
    throw unreadable(field, error);
  }
}

const notFound = (kind: string, name: string, known: readonly string[], field: string): ValidationError =>
  new ValidationError(field, `no ${kind} has the name ${show(name)}; this pool has: ${known.join(', ')}`);

/** Refuses a type that the pool neither has nor had; jobs of a former type may still wait. */
export function checkType(
  type: string | undefined,
  configuration: PoolConfiguration,
  field: string,
  formerTypes: readonly string[] = [],
): void {
  const types = configuration.types.map((each) => each.type);
  if (type === undefined || types.includes(type) || formerTypes.includes(type)) return;
  throw notFound('job type', type, types, field);
}

/**
 * Refuses three kinds of lists: of succeeded, cancelled or expired jobs that no type keeps, of other jobs with times, and
 * of jobs of any state without a searchable tag.
 */
export function checkFinished(
  state: ListedState | typeof ANY_STATE,
  { type, sinceMs, untilMs, tags }: JobFilter,
  { types, searchableTags = [] }: PoolConfiguration,
): void {
  if (state === ANY_STATE && searchedTag({ searchableTags }, tags) === undefined)
    throw new ValidationError(
      'filter.tags',
      `must have a searchable tag, by which jobs of any state are found; declared in searchableTags: ${searchableTags.map(show).join(', ') || 'none'}`,
    );
  if (state === ANY_STATE || !isFinishedState(state)) {
    const [time] = [sinceMs === undefined ? [] : 'since', untilMs === undefined ? [] : 'until'].flat();
    if (time === undefined) return;
    throw new ValidationError(
      `filter.${time}`,
      `is for succeeded, cancelled and expired jobs; leave it out for ${state} ones`,
    );
  }
  if (type === undefined)
    throw new ValidationError('filter.type', `is missing: ${state} jobs are listed by their type`);
  const declared = types.find((each) => each.type === type);
  if (declared === undefined || declared.listFinished === true) return;
  throw new ValidationError(
    'filter.type',
    `${state} jobs of type ${show(type)} are not listed: declare the type with listFinished: true, which counts for jobs that are submitted from then on`,
  );
}

/** Returns the argument, if it is a scope that exists in the pool. @throws ValidationError */
export function checkedScope(value: unknown, configuration: PoolConfiguration, field = 'scope'): Scope {
  const scope: Scope = checked(SHAPES.scope, value, field);
  const unknown = undeclaredIn(scope, configuration);
  if (unknown === undefined) return scope;
  const { kind, name, known } = unknown;
  throw notFound(kind === 'type' ? 'job type' : kind, name, known, `${field}.${kind}`);
}

/** Refuses a supposition about a scope that does not exist in the pool. @throws ValidationError */
export function checkSupposed({ scope, weight }: Supposition, configuration: PoolConfiguration): void {
  const isOwnKey = typeof scope === 'object' && 'limit' in scope && scope.key === true;
  const named = checkedScope(isOwnKey ? { limit: scope.limit } : scope, configuration, 'options.if.scope');
  if (weight !== undefined && (named === 'pool' || !('fairnessKey' in named)))
    throw new ValidationError('options.if.weight', 'only a fairness key has a weight; name one as the scope');
}

/** A job by its id, by the idempotency key of its request, or by the event that requested it. */
export type JobName =
  | string
  | { readonly idempotencyKey: string }
  | {
      /** The id that the bus gave the event. */
      readonly eventId: string;
      /** The job's place among the jobs of the event. @default 0 */
      readonly position?: number | undefined;
    };

/**
 * Checks how the caller names a job, and returns the job's id. `isArriving`: the caller named an event that may not be
 * ingested yet, so the job may not exist yet. @throws ValidationError
 */
export function checkedJob(
  job: unknown,
  field: string,
): { readonly id: string; readonly isArriving: boolean } {
  if (typeof job !== 'object' || job === null)
    return { id: checked(SHAPES.jobId, job, field), isArriving: false };
  const { idempotencyKey, eventId = '', position = 0 } = checked(SHAPES.jobAlias, job, field);
  return idempotencyKey === undefined
    ? { id: jobIdOfEvent(eventId, position), isArriving: true }
    : { id: jobIdOf(idempotencyKey), isArriving: false };
}

/** Returns a copy of a list of `least` to `most` things. @throws ValidationError */
export function checkedList(
  list: unknown,
  field: string,
  [least, most]: readonly [number, number],
  things: string,
): readonly unknown[] {
  try {
    if (Array.isArray(list) && list.length >= least && list.length <= most) return Array.from(list);
    const found = Array.isArray(list) ? `${list.length} entries` : withArticle(typeof list);
    const wayOut = Array.isArray(list) && list.length > most ? '; split it' : '';
    throw new ValidationError(
      field,
      `must be an array of ${least} to ${most} ${things}, not ${found}${wayOut}`,
    );
  } catch (error) {
    throw unreadable(field, error);
  }
}

/** An instant, and the delay by which it was named, if it was. */
interface NamedTime {
  readonly runAt: string;
  readonly delayMs?: number;
}

const TIME_RULE =
  "must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z, a Date, or a delay from now, such as '+10m'";

/**
 * Returns the instant that a text, a `Date`, or a delay such as `+10m` names.
 * @throws ValidationError
 */
export function checkedTime(value: unknown, field: string, nowMs: number): NamedTime {
  const delayMs = typeof value === 'string' && value.startsWith('+') ? msOf(value.slice(1)) : undefined;
  const atMs = delayMs === undefined ? (isDate(value) ? value.getTime() : undefined) : nowMs + delayMs;
  const runAt = atMs === undefined ? value : isoOf(atMs);
  if (!instant.safeParse(runAt).success) {
    if (value === undefined) throw new ValidationError(field, `is missing: it ${TIME_RULE}`);
    throw new ValidationError(field, `${TIME_RULE} (got ${isDate(value) ? String(value) : show(value)})`);
  }
  return { runAt: runAt as string, ...(delayMs === undefined ? {} : { delayMs }) };
}

/** The last instant whose year has four digits. */
const LAST_MS = Date.UTC(10_000, 0) - 1;
const isoOf = (atMs: number): string | undefined =>
  Math.abs(atMs) <= LAST_MS ? new Date(atMs).toISOString() : undefined;

/** A request as JSON, with its time as an instant. */
export interface PreparedRequest extends Pick<JobRequest, 'delayMs'> {
  readonly json: Json;
}

/**
 * Returns a copy of the request as JSON.
 *
 * @param bytesMax - the most bytes of its payload
 * @throws ValidationError - it names the field
 */
export function requestAsJson(request: unknown, nowMs: number, bytesMax: number): PreparedRequest {
  const timeless = withDurations(withDedupe(request), ['expireAfter']);
  const { request: asked, delayMs } = withTime(timeless, nowMs) ?? { request: timeless, delayMs: undefined };
  const json = jsonOf(asked, 'send', bytesMax);
  return delayMs === undefined ? { json } : { json, delayMs };
}

/**
 * Returns the request with milliseconds for those of the fields that are objects with a duration, such as a `Duration` of the CDK:
 * they are not JSON.
 */
export function withDurations(request: unknown, fields: readonly string[]): unknown {
  if (typeof request !== 'object' || request === null || isArray(request)) return request;
  try {
    const read = fields.flatMap((field) => {
      const value: unknown = Reflect.get(request, field);
      const ms = typeof value === 'object' ? msOf(value) : undefined;
      return ms === undefined ? [] : [[field, ms] as const];
    });
    return read.length === 0 ? request : { ...request, ...Object.fromEntries(read) };
  } catch {
    // A getter or a proxy threw: the copy that is made next says so.
    return request;
  }
}

function withDedupe(request: unknown): unknown {
  if (typeof request !== 'object' || request === null || isArray(request)) return request;
  try {
    const { dedupe }: { readonly dedupe?: unknown } = request;
    const read = dedupeAsJson(dedupe);
    return read === dedupe ? request : { ...request, dedupe: read };
  } catch {
    // A getter or a proxy threw: the copy that is made next says so.
    return request;
  }
}

/** Returns the `dedupe` of a request with its durations in milliseconds. */
export const dedupeAsJson = (dedupe: unknown): unknown => withDurations(dedupe, ['quiet', 'atMost']);

/**
 * Returns the request with its time as an instant; undefined if its time is a text of an instant, or wrong, or it has
 * none.
 */
function withTime(
  request: unknown,
  nowMs: number,
): { readonly request: object; readonly delayMs: number | undefined } | undefined {
  if (typeof request !== 'object' || request === null || isArray(request)) return undefined;
  try {
    const { runAt }: { readonly runAt?: unknown } = request;
    if (!isDate(runAt) && !(typeof runAt === 'string' && runAt.startsWith('+'))) return undefined;
    const time = checkedTime(runAt, 'runAt', nowMs);
    return { request: { ...request, runAt: time.runAt }, delayMs: time.delayMs };
  } catch (error) {
    throw unreadable('', error);
  }
}

/**
 * Checks one job to submit by the same rule as events, and returns it.
 * @throws ValidationError - it names the field, such as `payload` or `runAt`
 */
export function checkedRequest(
  { json, delayMs }: PreparedRequest,
  configuration: PoolConfiguration,
): JobRequest {
  const { accepted, refused } = parseRequests({ jobs: [json] }, configuration);
  const [refusal] = refused;
  if (refusal !== undefined) {
    throw new ValidationError(refusal.field.replace(/^jobs\[0\]\.?/, ''), refusal.reason);
  }
  const [first] = accepted;
  if (first === undefined) throw new ValidationError('', 'is not a job');
  return { ...first.request, delayMs };
}

/** The options of a call by a type's name, divided into those of the call and those of the job. */
export interface NamedCall {
  readonly request: unknown;
  readonly options: unknown;
}

/** The options of `submit(type, payload, options)` that belong to the job. */
const JOB_OPTIONS = Object.keys(jobRequest.shape).filter((name) => name !== 'type' && name !== 'payload');

/**
 * Returns the request and the options of a call by name: `submit(type, payload, options)`.
 * @param own - the options of the call itself
 * @throws ValidationError
 */
export function namedCall(
  type: string,
  payload: unknown,
  options: unknown,
  own: Readonly<Record<string, unknown>>,
): NamedCall {
  if (options === undefined) return { request: { type, payload }, options };
  if (typeof options !== 'object' || options === null || isArray(options))
    throw new ValidationError('options', `must be an object, not ${show(options)}; leave it out`);
  let entries: readonly [string, unknown][];
  try {
    entries = Object.entries(options);
  } catch (error) {
    throw unreadable('options', error);
  }
  const taken = entries.find(([name]) => name === 'type' || name === 'payload');
  if (taken !== undefined)
    throw new ValidationError(
      `options.${taken[0]}`,
      'is an argument of its own, before the options; leave it out',
    );
  const known = [...JOB_OPTIONS, ...Object.keys(own)];
  const unknown = entries.find(([name]) => !known.includes(name));
  if (unknown !== undefined) throw new ValidationError(unknown[0], unknownField(unknown[0], known));
  return {
    request: { ...Object.fromEntries(entries.filter(([name]) => !Object.hasOwn(own, name))), type, payload },
    options: Object.fromEntries(entries.filter(([name]) => Object.hasOwn(own, name))),
  };
}
