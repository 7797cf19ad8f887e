/** Validates what producers request, and turns it into jobs. Events, the client and the CLI share these rules. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import {
  type JobTypeConfiguration,
  listFinishedOf,
  type PoolConfiguration,
  REQUIRABLE,
  type RequiredField,
} from '../core/configuration.ts';
import { show } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import { JOB_MODES, type Job, type Json, PRIORITY_MAX, PRIORITY_MIN, type Tags } from '../core/job.ts';
import { JSON_LIMITS } from '../core/json.ts';
import { FIRST_VERSION } from '../core/life-cycle.ts';
import { didYouMean } from '../core/spelling.ts';
import { isTraceparent, TRACEPARENT_RULE } from '../core/trace.ts';
import { ASKED_FIELDS, type AskedField, asked } from '../store/contract/job-fields.ts';

/** Bounds on what is accepted. They keep a job's item well under DynamoDB's limit of 400 KB. */
export const REQUEST_LIMITS = {
  /** UTF-8 bytes as JSON. */
  payloadBytes: JSON_LIMITS.bytes,
  payloadLevels: JSON_LIMITS.levels,
  /** UTF-8 bytes of `idempotencyKey`, `fairnessKey` and `resourceId`, which become parts of index keys. */
  keyBytes: 512,
  /** UTF-8 bytes. */
  labelBytes: 256,
  /** Tags of one job. */
  tags: 8,
  tagNameChars: 64,
  /** UTF-8 bytes of all names and values of a job's tags. */
  tagsBytes: 512,
  jobsPerEvent: 1_000,
} as const;

/** One requested job, with defaults filled in. */
export interface JobRequest extends Pick<Job, AskedField> {
  /** Epoch milliseconds; undefined means at once. */
  readonly runAtMs?: number | undefined;
  /** The delay by which the producer named `runAtMs`. A repeated request has the same delay, and another instant. */
  readonly delayMs?: number | undefined;
  /** See `Job`. */
  readonly listFinished?: boolean | undefined;
  /** The producer's own name for this request. Two requests with the same key make one job. */
  readonly idempotencyKey?: string | undefined;
  /** W3C Trace Context. */
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
  ['type', ...REQUIRABLE].includes(field.slice(field.lastIndexOf('.') + 1));

/**
 * Finds the first field that the type requires and the job or schedule lacks; undefined if none is missing. An empty
 * key counts as missing.
 */
export function missingOf(
  { type, requires = [] }: Pick<JobTypeConfiguration, 'type' | 'requires'>,
  named: { readonly [field in RequiredField]?: string | undefined },
): { readonly field: RequiredField; readonly reason: string } | undefined {
  const field = requires.find((each) => named[each] === undefined || named[each] === '');
  if (field === undefined) return undefined;
  return { field, reason: `is missing: jobs of type ${show(type)} must name ${FIELD_MEANINGS[field]}` };
}

const FIELD_MEANINGS: Readonly<Record<RequiredField, string>> = {
  resourceId: 'the resource that they work on',
  fairnessKey: 'the key whose share they count against',
};

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

/** The field `tags` of a job or a schedule; absent without any tag. */
export const tagsField = (tags: Tags | undefined): { readonly tags?: Tags } =>
  tags === undefined || Object.keys(tags).length === 0 ? {} : { tags };

/** A whole number from `least` to `most`. Every failure has the same message. */
export const wholeNumber = (least: number, most: number) => {
  const error = `must be a whole number from ${least} to ${most}`;
  return z.int(error).min(least, error).max(most, error);
};

const requestShape = {
  type: z.string(),
  payload: z.unknown().optional(),
  priority: wholeNumber(PRIORITY_MIN, PRIORITY_MAX).optional(),
  mode: z.enum(JOB_MODES).optional(),
  fairnessKey: keyText.optional(),
  resourceId: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  label: textUpTo(REQUEST_LIMITS.labelBytes).min(1, 'must not be empty; leave it out instead').optional(),
  tags: tagsRecord.optional(),
  runAt: z.iso
    .datetime({
      offset: true,
      error: 'must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z',
    })
    .optional(),
  idempotencyKey: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  traceparent: z.string().refine(isTraceparent, TRACEPARENT_RULE).optional(),
} satisfies Readonly<Record<AskedField | 'runAt' | 'idempotencyKey' | 'traceparent', z.ZodType>>;

/**
 * The schema of one requested job. Checks that need the pool's configuration, such as the type's existence, are made in
 * `parseEntry`.
 */
export const jobRequest = z.strictObject(requestShape);

const FIELDS = Object.keys(requestShape);

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

function parseEntry(
  entry: unknown,
  prefix: string,
  configuration: PoolConfiguration,
): { readonly request: JobRequest } | { readonly field: string; readonly reason: string } {
  if (!isRecord(entry)) return { field: prefix, reason: `a job must be an object, not ${show(entry)}` };
  // JSON.parse makes `__proto__` an own property, and a schema that copies the object would drop it silently.
  const path = [entry, entry.tags].findIndex((each) => isRecord(each) && Object.hasOwn(each, '__proto__'));
  if (path !== -1) {
    const steps = path === 0 ? ['__proto__'] : ['tags', '__proto__'];
    return { field: joinPath(prefix, steps), reason: 'unknown field "__proto__"' };
  }
  const parsed = jobRequest.safeParse(entry, { error: inWords });
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    if (issue === undefined) return { field: prefix, reason: 'invalid' };
    if (issue.code === 'unrecognized_keys') {
      const name = issue.keys[0] ?? '';
      return {
        field: joinPath(prefix, [...issue.path, name]),
        reason: `unknown field ${show(name)}. ${didYouMean(name, FIELDS)}Known here: ${FIELDS.join(', ')}`,
      };
    }
    const value = valueAt(entry, issue.path);
    const reason = value === undefined ? 'is missing' : `${issue.message} (got ${show(value)})`;
    return { field: joinPath(prefix, issue.path), reason };
  }
  const { type, payload = null, runAt, tags, ...rest } = parsed.data;
  const declared = configuration.types.find((known) => known.type === type);
  if (declared === undefined) {
    const known = configuration.types.map((each) => each.type).join(', ');
    return {
      field: joinPath(prefix, ['type']),
      reason: `unknown job type ${show(type)}; this pool has: ${known}`,
    };
  }
  const missing = missingOf(declared, rest);
  if (missing !== undefined) return { ...missing, field: joinPath(prefix, [missing.field]) };
  if (isDeeperThan(payload, REQUEST_LIMITS.payloadLevels)) {
    return {
      field: joinPath(prefix, ['payload']),
      reason: `payload is nested too deeply: at most ${REQUEST_LIMITS.payloadLevels} levels of arrays and objects are accepted; send it as text`,
    };
  }
  const size = utf8Bytes(JSON.stringify(payload));
  if (size > REQUEST_LIMITS.payloadBytes) {
    return {
      field: joinPath(prefix, ['payload']),
      reason: `payload has ${size} bytes, at most ${REQUEST_LIMITS.payloadBytes} are accepted; store it elsewhere and send a reference`,
    };
  }
  const runAtMs = runAt === undefined ? undefined : Date.parse(runAt);
  return {
    request: {
      ...rest,
      ...tagsField(tags),
      ...listFinishedOf(declared),
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

/** The job id for a producer's idempotency key: 32 hexadecimal digits. */
export const jobIdOf = (idempotencyKey: string): string => digest(`key/${idempotencyKey}`).slice(0, 32);

/**
 * The id of a job without a key, from its event's id and its position in that event, so that a second delivery makes
 * the same job.
 */
export const jobIdOfEvent = (eventId: string, position: number): string =>
  digest(`event/${eventId}/${position}`).slice(0, 32);

/** JSON with sorted field names, so that equal content gives equal text. */
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

/** A field name as it appears in JSON before its value. */
const quotedField = (name: string): string => `${JSON.stringify(name)}:`;

/** Sorted, as `canonicalRecord` requires. */
const CONTENT_FIELDS = [...ASKED_FIELDS, 'runAtMs' as const].sort();
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
  const runAtMs = request.runAtMs ?? nowMs;
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
    readyAtMs: Math.max(runAtMs, nowMs),
    submittedAtMs: nowMs,
  };
}
