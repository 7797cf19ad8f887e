/** Validates what producers request, and turns it into jobs. Events, the client and the CLI share these rules. */
import { hash } from 'node:crypto';
import * as z from 'zod';
import {
  EXPIRE_AFTER_MS,
  expiryOf,
  type JobTypeConfiguration,
  listFinishedOf,
  type PoolConfiguration,
  REQUIRABLE,
  valueBytesMax,
} from '../core/configuration.ts';
import { AT_MOST_MS, DEDUPE_MS, type DedupeInput } from '../core/dedupe.ts';
import { CONFIGURATION_LIMITS } from '../core/defaults.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError, show } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import {
  DEDUPE_KEEPS,
  JOB_MODES,
  type Job,
  type Json,
  PRIORITY_MAX,
  PRIORITY_MIN,
  WHILE_RUNNING,
} from '../core/job.ts';
import { JSON_LIMITS } from '../core/json.ts';
import { FIRST_VERSION } from '../core/life-cycle.ts';
import { NOT_A_FAIRNESS_KEY } from '../core/limits.ts';
import { isReference, REFERENCE_REFUSED } from '../core/object-reference.ts';
import { NAME_LENGTH_MAX } from '../core/read-fields.ts';
import { didYouMean } from '../core/spelling.ts';
import { isTraceparent, TRACEPARENT_RULE } from '../core/trace.ts';
import { ASKED_FIELDS, type AskedField, asked } from '../store/contract/job-fields.ts';
import { misfitOf } from './misfit.ts';

/** Bounds on what is accepted. They keep a job's item well under DynamoDB's limit of 400 KB. */
export const REQUEST_LIMITS = {
  /** The most bytes of a payload, as JSON in UTF-8. */
  payloadBytes: JSON_LIMITS.bytes,
  payloadLevels: JSON_LIMITS.levels,
  /** The most UTF-8 bytes of `idempotencyKey`, `fairnessKey` and `resourceId`, which become parts of index keys. */
  keyBytes: 512,
  /** The most keys of one job, besides the fairness key. */
  keys: 4,
  /** The most UTF-8 bytes of all names and values of a job's keys. Reservations hold them. */
  keysBytes: 256,
  /** The most limits for which one job names units: as many as a type may be under. */
  units: 4,
  /** The most UTF-8 bytes of a label. */
  labelBytes: 256,
  /** The most tags of one job. */
  tags: CONFIGURATION_LIMITS.searchableTags,
  tagNameChars: CONFIGURATION_LIMITS.tagNameLength,
  /** The most UTF-8 bytes of all names and values of a job's tags. */
  tagsBytes: 512,
  jobsPerEvent: 1_000,
} as const;

/** One requested job, with defaults filled in. */
export interface JobRequest extends Pick<Job, AskedField> {
  /** Epoch milliseconds; undefined means at once. */
  readonly runAtMs?: number | undefined;
  /** The delay by which the producer named `runAtMs`. A repeated request has the same delay, and another instant. */
  readonly delayMs?: number | undefined;
  /** How long after its submission, or its later time, the job may wait for its start, as the producer says. */
  readonly expireAfterMs?: number | undefined;
  /** How long the job may wait for its start if the producer does not say it: what its type declares. */
  readonly expireByDefaultMs?: number | undefined;
  /** The field `listFinished` of the job: see `Job`. */
  readonly listFinished?: boolean | undefined;
  /** The producer's own name for this request. Two requests with the same key make one job. */
  readonly idempotencyKey?: string | undefined;
  /** The trace of the job, as W3C Trace Context writes it. */
  readonly traceparent?: string | undefined;
}

/** Why a request was refused. */
export interface RequestRefusal {
  /** The entry's index in an event with several jobs; 0 for a single job or for the event as a whole. */
  readonly position: number;
  /** Path of the invalid field from the event's detail, such as `jobs[3].priority`; empty for the detail as a whole. */
  readonly field: string;
  readonly reason: string;
}

/**
 * Whether a newer declaration might accept the refused request, because the declaration decides which types exist and
 * which fields each requires.
 */
export const dependsOnDeclaration = ({ field }: Pick<RequestRefusal, 'field'>): boolean =>
  /^(jobs\[\d+\]\.)?(keys|units)\./.test(field) ||
  ['type', ...REQUIRABLE].includes(field.slice(field.lastIndexOf('.') + 1));

/** The entries of one event. Each is accepted or refused by itself. */
export interface ParsedRequests {
  readonly accepted: readonly { readonly position: number; readonly request: JobRequest }[];
  readonly refused: readonly RequestRefusal[];
}

const utf8Bytes = (text: string): number => Buffer.byteLength(text, 'utf8');

const textUpTo = (bytesMax: number) =>
  z
    .string()
    .refine((text) => text.isWellFormed(), 'must be well-formed Unicode')
    .refine((text) => utf8Bytes(text) <= bytesMax, `must be at most ${bytesMax} bytes`);

export const keyText = textUpTo(REQUEST_LIMITS.keyBytes);

export const fairnessKeyText = keyText.refine(
  (text) => !text.startsWith(NOT_A_FAIRNESS_KEY),
  'must not begin with the character U+0000',
);

/** The keys of a job or a schedule, besides the fairness key. */
export const keysRecord = z
  .record(z.string(), keyText.min(1, 'must not be empty; leave it out instead'))
  .refine(
    (keys) => Object.keys(keys).length <= REQUEST_LIMITS.keys,
    `must have at most ${REQUEST_LIMITS.keys} names`,
  )
  .refine(
    (keys) => Object.keys(keys).every((name) => name !== '' && name.length <= NAME_LENGTH_MAX),
    `must have names of 1 to ${NAME_LENGTH_MAX} characters`,
  )
  .refine((keys) => Object.keys(keys).join('').isWellFormed(), 'must be well-formed Unicode')
  .refine(
    (keys) => utf8Bytes(Object.entries(keys).flat().join('')) <= REQUEST_LIMITS.keysBytes,
    `must have at most ${REQUEST_LIMITS.keysBytes} bytes in all`,
  );

const UNITS_RULE = 'must be a whole number of 1 or more';

/** The units of a job or a schedule, by the names of limits. */
export const unitsRecord = z
  .record(z.string(), z.int(UNITS_RULE).min(1, UNITS_RULE))
  .refine(
    (units) => Object.keys(units).length <= REQUEST_LIMITS.units,
    `must have at most ${REQUEST_LIMITS.units} names`,
  )
  .refine(
    (units) => Object.keys(units).every((name) => name.length <= NAME_LENGTH_MAX),
    `must have names of at most ${NAME_LENGTH_MAX} characters`,
  )
  .refine((units) => Object.keys(units).join('').isWellFormed(), 'must be well-formed Unicode');

/** Tags, as jobs, schedules and filters name them. */
export const tagsRecord = z
  .record(z.string(), z.string())
  .refine(
    (tags) => Object.keys(tags).length <= REQUEST_LIMITS.tags,
    `must have at most ${REQUEST_LIMITS.tags} names`,
  )
  .refine(
    (tags) => Object.keys(tags).every((name) => name !== '' && name.length <= REQUEST_LIMITS.tagNameChars),
    `must have names of 1 to ${REQUEST_LIMITS.tagNameChars} characters`,
  )
  .refine((tags) => Object.entries(tags).flat().join('').isWellFormed(), 'must be well-formed Unicode')
  .refine(
    (tags) => utf8Bytes(Object.entries(tags).flat().join('')) <= REQUEST_LIMITS.tagsBytes,
    `must have at most ${REQUEST_LIMITS.tagsBytes} bytes in all`,
  );

const hasNames = (record: object | undefined): boolean =>
  record !== undefined && Object.keys(record).length > 0;

/** Returns the keys, units and tags of a job or a schedule; one without any names is absent. */
export const namedRecords = ({
  keys,
  units,
  tags,
}: Pick<JobRequest, 'keys' | 'units' | 'tags'>): Pick<JobRequest, 'keys' | 'units' | 'tags'> => ({
  ...(hasNames(keys) ? { keys } : {}),
  ...(hasNames(units) ? { units } : {}),
  ...(hasNames(tags) ? { tags } : {}),
});

/** A whole number from `least` to `most`. Every failure has the same message. */
export const wholeNumber = (least: number, most: number, wayOut = '') => {
  const error = `must be a whole number from ${least} to ${most}${wayOut}`;
  return z.int(error).min(least, error).max(most, error);
};

const EXPIRE_AFTER_RULE =
  "must be a duration of 1s to 365d: whole milliseconds, or a text such as '30s' or '10m'";

/** Returns the milliseconds of a duration; undefined if it is wrong. */
function durationIn(value: DurationInput, least: number, most: number): number | undefined {
  try {
    const ms = durationMs('', value);
    return Number.isSafeInteger(ms) && ms >= least && ms <= most ? ms : undefined;
  } catch (error) {
    if (error instanceof ConfigurationError) return undefined;
    throw error;
  }
}

/** Returns the request's own `expireAfter`, in milliseconds. */
function ownExpiry(asked: number | string | undefined): Pick<JobRequest, 'expireAfterMs'> {
  return asked === undefined
    ? {}
    : { expireAfterMs: durationIn(asked, EXPIRE_AFTER_MS.least, EXPIRE_AFTER_MS.most) };
}

const durationWithin = (least: number, most: number, rule: string) =>
  z.union([z.number(), z.string()]).refine((value) => durationIn(value, least, most) !== undefined, rule);

const DEDUPE_RULE = "must be a duration of 1ms to 30d: whole milliseconds, or a text such as '5s' or '1m'";

const dedupeShape = z.strictObject({
  key: keyText.min(1, 'must not be empty; leave dedupe out instead'),
  keep: z.enum(DEDUPE_KEEPS).optional(),
  quiet: durationWithin(DEDUPE_MS.least, DEDUPE_MS.most, DEDUPE_RULE).optional(),
  atMost: durationWithin(DEDUPE_MS.least, DEDUPE_MS.most, DEDUPE_RULE).optional(),
  whileRunning: z.enum(WHILE_RUNNING).optional(),
}) satisfies z.ZodType<DedupeInput>;

/** The request's own `dedupe`, with defaults filled in. */
function dedupeOf(asked: DedupeInput | undefined): Pick<JobRequest, 'dedupe'> {
  if (asked === undefined) return {};
  const { key, keep = 'first', quiet, atMost, whileRunning = 'another' } = asked;
  const [quietMs, namedMs] = [quiet, atMost].map((value) =>
    value === undefined ? undefined : durationIn(value, DEDUPE_MS.least, DEDUPE_MS.most),
  );
  const atMostMs = namedMs ?? (quietMs === undefined ? undefined : Math.max(quietMs, AT_MOST_MS));
  return {
    dedupe: {
      key,
      keep,
      whileRunning,
      ...(quietMs === undefined ? {} : { quietMs }),
      ...(atMostMs === undefined ? {} : { atMostMs }),
    },
  };
}

/** The first field of `dedupe` that does not fit the rest of the request. */
function dedupeProblem(
  { dedupe }: Pick<JobRequest, 'dedupe'>,
  { type, conflictGroup }: JobTypeConfiguration,
  runAt: string | undefined,
): { readonly field: readonly string[]; readonly reason: string } | undefined {
  if (dedupe === undefined) return undefined;
  const { quietMs, atMostMs, whileRunning } = dedupe;
  if (quietMs !== undefined && runAt !== undefined)
    return {
      field: ['runAt'],
      reason: 'cannot stand beside dedupe.quiet, which says when the job starts; leave out one of them',
    };
  if (quietMs === undefined && atMostMs !== undefined)
    return {
      field: ['dedupe', 'atMost'],
      reason: 'bounds dedupe.quiet, which is missing; name it, or leave atMost out',
    };
  if (quietMs !== undefined && atMostMs !== undefined && atMostMs < quietMs)
    return { field: ['dedupe', 'atMost'], reason: `must be at least dedupe.quiet (${quietMs} ms)` };
  if (whileRunning === 'oneWaits' && (conflictGroup === null || conflictGroup === ''))
    return {
      field: ['dedupe', 'whileRunning'],
      reason: `'oneWaits' needs a conflictGroup of the type ${show(type)}, by which one job waits for the end of the other; declare one, or use 'another' or 'drop'`,
    };
  return undefined;
}

const requestShape = {
  type: z.string(),
  payload: z.unknown().optional(),
  priority: wholeNumber(PRIORITY_MIN, PRIORITY_MAX).optional(),
  mode: z.enum(JOB_MODES).optional(),
  fairnessKey: fairnessKeyText.optional(),
  resourceId: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  keys: keysRecord.optional(),
  units: unitsRecord.optional(),
  label: textUpTo(REQUEST_LIMITS.labelBytes).min(1, 'must not be empty; leave it out instead').optional(),
  tags: tagsRecord.optional(),
  runAt: z.iso
    .datetime({
      offset: true,
      error: 'must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z',
    })
    .optional(),
  expireAfter: durationWithin(EXPIRE_AFTER_MS.least, EXPIRE_AFTER_MS.most, EXPIRE_AFTER_RULE).optional(),
  dedupe: dedupeShape.optional(),
  idempotencyKey: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  traceparent: z.string().refine(isTraceparent, TRACEPARENT_RULE).optional(),
} satisfies Readonly<
  Record<AskedField | 'runAt' | 'expireAfter' | 'idempotencyKey' | 'traceparent', z.ZodType>
>;

/**
 * The schema of one requested job. Checks that need the pool's configuration, such as the type's existence, are made in
 * `parseEntry`.
 */
export const jobRequest = z.strictObject(requestShape);

const FIELDS = Object.keys(requestShape);

/** Why a field that is not among the known ones is refused. */
export const unknownField = (name: string, known: readonly string[] = FIELDS): string =>
  `unknown field ${show(name)}. ${didYouMean(name, known)}Known here: ${known.join(', ')}`;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const joinPath = (prefix: string, path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    prefix,
  );

/** The sender chooses field names, so a rejection keeps only the first characters, enough to identify the field. */
const FIELD_CHARS_MAX = 200;
/** A reason may list all types of the pool; a longer one is cut here. */
const REASON_CHARS_MAX = 1_000;

/** Whether arrays and objects are nested more than `levels` deep. It walks level by level, so no depth overflows the stack. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= levels; depth += 1) {
    level = level.flatMap((each) => (typeof each === 'object' && each !== null ? [each] : []));
    if (level.length === 0) return false;
    level = level.flatMap((each) => Object.values(each as object));
  }
  return true;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (at, step) => (isRecord(at) && Object.hasOwn(at, step) ? at[String(step)] : undefined),
    value,
  );
}

/** Why a payload is refused; undefined if it is not. */
function payloadRefusal(payload: unknown, configuration: PoolConfiguration): string | undefined {
  if (isDeeperThan(payload, REQUEST_LIMITS.payloadLevels))
    return `payload is nested too deeply: at most ${REQUEST_LIMITS.payloadLevels} levels of arrays and objects are accepted; send it as text`;
  if (isReference(payload)) return REFERENCE_REFUSED;
  const size = utf8Bytes(JSON.stringify(payload));
  const bytesMax = valueBytesMax(configuration);
  if (size <= bytesMax) return undefined;
  const wayOut = configuration.largePayloads === undefined ? ', or declare largePayloads' : '';
  return `payload has ${size} bytes, at most ${bytesMax} are accepted; store it elsewhere and send a reference${wayOut}`;
}

function refusalBySchema(
  entry: Readonly<Record<string, unknown>>,
  { issues }: z.ZodError,
  prefix: string,
): Omit<RequestRefusal, 'position'> {
  const [issue] = issues;
  if (issue === undefined) return { field: prefix, reason: 'invalid' };
  if (issue.code === 'unrecognized_keys') {
    const name = issue.keys[0] ?? '';
    return {
      field: joinPath(prefix, [...issue.path, name]),
      // Records such as keys take any name but the reserved ones, so only dedupe has fields below those of the request.
      reason: unknownField(name, issue.path[0] === 'dedupe' ? Object.keys(dedupeShape.shape) : undefined),
    };
  }
  const value = valueAt(entry, issue.path);
  const reason = value === undefined ? 'is missing' : `${issue.message} (got ${show(value)})`;
  return { field: joinPath(prefix, issue.path), reason };
}

function parseEntry(
  entry: unknown,
  prefix: string,
  configuration: PoolConfiguration,
): { readonly request: JobRequest } | { readonly field: string; readonly reason: string } {
  if (!isRecord(entry)) return { field: prefix, reason: `a job must be an object, not ${show(entry)}` };
  // JSON.parse makes `__proto__` an own property, and a schema that copies the object would drop it silently.
  const path = [[], ['tags'], ['keys'], ['units']].find((steps) => {
    const at = valueAt(entry, steps);
    return isRecord(at) && Object.hasOwn(at, '__proto__');
  });
  if (path !== undefined)
    return { field: joinPath(prefix, [...path, '__proto__']), reason: 'unknown field "__proto__"' };
  const parsed = jobRequest.safeParse(entry, { error: inWords });
  if (!parsed.success) {
    return refusalBySchema(entry, parsed.error, prefix);
  }
  const { type, payload = null, runAt, expireAfter, dedupe, tags, keys, units, ...rest } = parsed.data;
  const declared = configuration.types.find((known) => known.type === type);
  if (declared === undefined) {
    const known = configuration.types.map((each) => each.type).join(', ');
    return {
      field: joinPath(prefix, ['type']),
      reason: `unknown job type ${show(type)}; this pool has: ${known}`,
    };
  }
  const misfit = misfitOf(configuration, declared, { ...rest, keys, units });
  if (misfit !== undefined) return { ...misfit, field: joinPath(prefix, misfit.field) };
  const refused = payloadRefusal(payload, configuration);
  if (refused !== undefined) return { field: joinPath(prefix, ['payload']), reason: refused };
  const deduped = dedupeOf(dedupe);
  const problem = dedupeProblem(deduped, declared, runAt);
  if (problem !== undefined) return { field: joinPath(prefix, problem.field), reason: problem.reason };
  const runAtMs = runAt === undefined ? undefined : Date.parse(runAt);
  // Jobs of one resource and conflict group exclude each other.
  // planted: one-waits-beside
  const resourceId =
    rest.resourceId ?? (deduped.dedupe?.whileRunning === 'oneWaits' ? deduped.dedupe.key : undefined);
  return {
    request: {
      ...rest,
      ...namedRecords({ keys, units, tags }),
      ...listFinishedOf(declared),
      ...expiryOf(declared),
      ...ownExpiry(expireAfter),
      ...deduped,
      ...(resourceId === undefined ? {} : { resourceId }),
      type,
      payload: payload as Json,
      priority: rest.priority ?? PRIORITY_MIN,
      mode: rest.mode ?? 'queued',
      fairnessKey: rest.fairnessKey ?? '',
      runAtMs,
    },
  };
}

/**
 * Parses an event's detail: one job, or `{ jobs: [...] }`. An invalid entry does not affect the others.
 *
 * @param detail - the JSON value that was sent; nothing about it is trusted
 * @param configuration - the pool whose job types may be requested
 */
export function parseRequests(detail: unknown, configuration: PoolConfiguration): ParsedRequests {
  if (!isRecord(detail)) {
    return {
      accepted: [],
      refused: [{ position: 0, field: '', reason: `detail must be an object, not ${show(detail)}` }],
    };
  }
  if (!Object.hasOwn(detail, 'jobs')) return parseEntries([detail], () => '', configuration);
  const other = Object.keys(detail).find((name) => name !== 'jobs');
  const jobs = detail.jobs;
  const whole =
    other !== undefined
      ? { field: other, reason: `unknown field ${show(other)} beside "jobs"` }
      : !Array.isArray(jobs)
        ? { field: 'jobs', reason: `must be an array, not ${show(jobs)}` }
        : jobs.length === 0
          ? { field: 'jobs', reason: 'must not be empty' }
          : jobs.length > REQUEST_LIMITS.jobsPerEvent
            ? {
                field: 'jobs',
                reason: `has ${jobs.length} entries, at most ${REQUEST_LIMITS.jobsPerEvent} are accepted`,
              }
            : undefined;
  if (whole !== undefined) return { accepted: [], refused: [refusalOf(0, whole)] };
  return parseEntries(jobs as readonly unknown[], (position) => `jobs[${position}]`, configuration);
}

function parseEntries(
  entries: readonly unknown[],
  prefix: (position: number) => string,
  configuration: PoolConfiguration,
): ParsedRequests {
  const accepted: { position: number; request: JobRequest }[] = [];
  const refused: RequestRefusal[] = [];
  for (const [position, entry] of entries.entries()) {
    const outcome = parseEntry(entry, prefix(position), configuration);
    if ('request' in outcome) accepted.push({ position, request: outcome.request });
    else refused.push(refusalOf(position, outcome));
  }
  return { accepted, refused };
}

function refusalOf(position: number, { field, reason }: Omit<RequestRefusal, 'position'>): RequestRefusal {
  return {
    position,
    field: field.slice(0, FIELD_CHARS_MAX).toWellFormed(),
    reason: reason.slice(0, REASON_CHARS_MAX).toWellFormed(),
  };
}

const digest = (text: string): string => hash('sha256', text);

/** Returns the job id for a producer's idempotency key: 32 hexadecimal digits. */
export const jobIdOf = (idempotencyKey: string): string => digest(`key/${idempotencyKey}`).slice(0, 32);

/**
 * Returns the id of a job without a key, from its event's id and its position in that event, so that a second delivery
 * makes the same job.
 */
export const jobIdOfEvent = (eventId: string, position: number): string =>
  digest(`event/${eventId}/${position}`).slice(0, 32);

/** Returns JSON with sorted field names, so that equal content gives equal text. */
function canonical(value: Json | undefined): string {
  if (typeof value === 'number' && Number.isFinite(value)) return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  return isRecord(value) ? canonicalRecord(value, sortedNames(value)) : JSON.stringify(value ?? null);
}

/** Encodes these fields, whose names must be sorted, and leaves undefined ones out. */
function canonicalRecord<Name extends string>(
  record: { readonly [name in Name]?: unknown },
  names: readonly Name[],
): string {
  let text = '';
  for (const name of names) {
    const value = record[name];
    if (value !== undefined)
      text += `${text === '' ? '' : ','}${QUOTED_FIELDS.get(name) ?? quotedField(name)}${canonical(value as Json)}`;
  }
  return `{${text}}`;
}

// Field names are usually sorted already, as all of ours are. Sorting them always would be the most expensive part of the
// hash.
function sortedNames(value: object): readonly string[] {
  const names = Object.keys(value);
  for (let at = 1; at < names.length; at += 1) {
    if ((names[at - 1] ?? '') > (names[at] ?? '')) return names.sort();
  }
  return names;
}

/** Returns a field name as it appears in JSON before its value. */
const quotedField = (name: string): string => `${JSON.stringify(name)}:`;

/** The fields of a request's content, sorted as `canonicalRecord` requires. */
const CONTENT_FIELDS = [...ASKED_FIELDS, 'runAtMs' as const, 'expireAfterMs' as const].sort();
const QUOTED_FIELDS: ReadonlyMap<string, string> = new Map(
  CONTENT_FIELDS.map((name) => [name, quotedField(name)]),
);

/**
 * Hashes everything that the producer decided, which reveals a key that is used again with other content. The trace is
 * left out, because a repeated request has a span of its own.
 */
function contentHash(request: JobRequest): string {
  const { delayMs } = request;
  const content = delayMs === undefined ? request : { ...request, runAtMs: `+${delayMs}` };
  return digest(canonicalRecord(content, CONTENT_FIELDS)).slice(0, 32);
}

/** Makes a new job: `pending` if its time has come, otherwise `scheduled`. */
export function jobFrom(request: JobRequest, id: string, partition: number, nowMs: number): Job {
  const { quietMs = 0, atMostMs = quietMs } = request.dedupe ?? {};
  const runAtMs = request.runAtMs ?? nowMs + Math.min(quietMs, atMostMs);
  const readyAtMs = Math.max(runAtMs, nowMs);
  const waitMaxMs = request.expireAfterMs ?? request.expireByDefaultMs;
  return {
    ...asked(request),
    id,
    partition,
    state: runAtMs > nowMs ? 'scheduled' : 'pending',
    version: FIRST_VERSION,
    attempt: 1,
    workersLost: 0,
    contentHash: contentHash(request),
    ...listFinishedOf(request),
    ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
    runAtMs,
    readyAtMs,
    ...(waitMaxMs === undefined ? {} : { expireAtMs: readyAtMs + waitMaxMs }),
    submittedAtMs: nowMs,
  };
}
