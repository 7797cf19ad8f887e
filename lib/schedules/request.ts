/** Validates schedules as users request them. The client, the CLI, events and deployments share these rules. */
import * as z from 'zod';
import type { JobTypeConfiguration, LimitConfiguration } from '../core/configuration.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError, show } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import {
  JOB_MODES,
  type JobKeys,
  type JobUnits,
  type Json,
  PRIORITY_MAX,
  PRIORITY_MIN,
  type Tags,
} from '../core/job.ts';
import { isReference, REFERENCE_REFUSED } from '../core/object-reference.ts';
import {
  fillTemplate,
  MISFIRE_POLICIES,
  RUNNING_POLICIES,
  rulesOf,
  type ScheduleSpec,
  TEMPLATE_NAMES,
  unknownNames,
} from '../core/recurring.ts';
import {
  type Blackout,
  type Fires,
  firesOf,
  GAP_POLICIES,
  LAST_FIRING_MS,
  OVERLAP_POLICIES,
} from '../core/schedule.ts';
import { didYouMean } from '../core/spelling.ts';
import { readCron } from '../cron/croner.ts';
import { misfitOf } from '../submit/misfit.ts';
import {
  fairnessKeyText,
  isDeeperThan,
  keysRecord,
  keyText,
  namedRecords,
  REQUEST_LIMITS,
  tagsRecord,
  unitsRecord,
  wholeNumber,
} from '../submit/request.ts';

export const SCHEDULE_LIMITS = {
  idBytes: 128,
  blackouts: 20,
  /** The most missed firings that misfire `all` makes up for. */
  misfireMax: 100,
  maxFailures: 1_000,
  /** The most schedules in one declaration. */
  declared: 500,
} as const;

const SECOND_MS = 1_000;
const YEAR_MS = 366 * 86_400_000;

function millisecondsIn(given: unknown): number | undefined {
  try {
    return durationMs('', given);
  } catch {
    // The refusal says which durations the field takes.
    return undefined;
  }
}

const duration = (leastMs: number, example: string) => {
  const error = `must be a duration from ${leastMs} ms to a year, such as ${example}`;
  return z.unknown().transform((given, context) => {
    const ms = millisecondsIn(given);
    if (ms !== undefined && Number.isSafeInteger(ms) && ms >= leastMs && ms <= YEAR_MS) return ms;
    context.addIssue({ code: 'custom', message: error });
    return z.NEVER;
  });
};

const INSTANT_RULE =
  'must be an ISO 8601 instant with a zone before the year 2200, such as 2027-01-31T08:00:00Z';
const instant = z.iso
  .datetime({ offset: true, error: INSTANT_RULE })
  .transform((text) => Date.parse(text))
  .refine((atMs) => atMs >= 0 && atMs <= LAST_FIRING_MS, INSTANT_RULE);

const TIME_OF_DAY_RULE = 'must be a time of day, such as 22:30';
const minuteOfDay = z
  .string({ error: TIME_OF_DAY_RULE })
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, TIME_OF_DAY_RULE)
  .transform((text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3)));

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const;

const blackout = z.union(
  [
    z
      .strictObject({ from: instant, until: instant })
      .refine(({ from, until }) => from < until)
      .transform(({ from, until }): Blackout => ({ kind: 'between', fromMs: from, untilMs: until })),
    z
      .strictObject({
        days: z.array(z.enum(DAYS)).max(DAYS.length).optional(),
        from: minuteOfDay,
        until: minuteOfDay,
      })
      .transform(({ days = [], from, until }): Blackout => {
        const numbers = [...new Set(days.map((day) => DAYS.indexOf(day)))].sort();
        return { kind: 'daily', days: numbers, fromMinute: from, untilMinute: until };
      }),
  ],
  {
    error:
      'must be two instants, the first before the second, {"from": "2027-12-24T00:00:00Z", "until": …}, or local times, {"from": "22:00", "until": "06:00", "days": ["fri", "sat"]}',
  },
);

/** The fields that say when a schedule fires. `parseTimes` accepts only these. */
const timeShape = {
  cron: z.string().max(256, 'must be at most 256 characters').optional(),
  every: duration(SECOND_MS, '30s, 5m, 1h or 1d').optional(),
  zone: z.string().max(64, 'must be an IANA name, such as Europe/Berlin').optional(),
  seconds: z.boolean().optional(),
  gap: z.enum(GAP_POLICIES).optional(),
  overlap: z.enum(OVERLAP_POLICIES).optional(),
  start: instant.optional(),
  end: instant.optional(),
  blackouts: z.array(blackout).max(SCHEDULE_LIMITS.blackouts).optional(),
  jitter: duration(0, '30s or 5m').optional(),
};

/** The schema of a requested schedule. */
export const scheduleShape = z.strictObject({
  ...timeShape,
  type: z.string(),
  payload: z.unknown().optional(),
  payloadTemplate: z.unknown().optional(),
  priority: wholeNumber(PRIORITY_MIN, PRIORITY_MAX).optional(),
  mode: z.enum(JOB_MODES).optional(),
  fairnessKey: fairnessKeyText.optional(),
  resourceId: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  keys: keysRecord.optional(),
  units: unitsRecord.optional(),
  tags: tagsRecord.optional(),
  misfire: z.enum(MISFIRE_POLICIES).optional(),
  misfireGrace: duration(0, '1m').optional(),
  misfireMax: wholeNumber(1, SCHEDULE_LIMITS.misfireMax).optional(),
  ifRunning: z.enum(RUNNING_POLICIES).optional(),
  maxFailures: wholeNumber(1, SCHEDULE_LIMITS.maxFailures).optional(),
});

/** A schedule as a user requests it. */
export interface ScheduleRequest {
  /**
   * A pattern of five fields beginning with minutes, or six beginning with seconds; or a nickname such as `@daily`.
   * Give either this or `every`.
   */
  readonly cron?: string | undefined;
  /** Elapsed time between two firings: `30s`, `5m`, `1h30m`, `1d`, or milliseconds. It counts from `start`, or from the creation of the schedule. */
  readonly every?: DurationInput | undefined;
  /** Time zone, as an IANA name. @default UTC */
  readonly zone?: string | undefined;
  /** If false, a pattern with a field for seconds is refused. @default true */
  readonly seconds?: boolean | undefined;
  /** How to treat a local time that the clock skips. @default next; for patterns of every hour, elapsed time */
  readonly gap?: ScheduleSpec['gap'];
  /** How to treat a local time that occurs twice. @default once; for patterns of every hour, elapsed time */
  readonly overlap?: ScheduleSpec['overlap'];
  /** ISO 8601 instant with a zone. No firing is before it. */
  readonly start?: string | undefined;
  /** ISO 8601 instant with a zone. No firing is at or after it. */
  readonly end?: string | undefined;
  /** Times without firings: between two instants, or between two local times on each day or on the given days. */
  readonly blackouts?:
    | readonly {
        readonly from: string;
        readonly until: string;
        readonly days?: readonly (typeof DAYS)[number][] | undefined;
      }[]
    | undefined;
  /** Each firing is delayed by a part of this, which is derived from the schedule's id. @default 0ms */
  readonly jitter?: DurationInput | undefined;
  readonly type: string;
  readonly payload?: unknown;
  /** Replaces `payload`. Strings in it may contain {{scheduleId}}, {{scheduledAt}}, {{scheduledLocal}} and {{previousAt}}. */
  readonly payloadTemplate?: unknown;
  readonly priority?: number | undefined;
  readonly mode?: ScheduleSpec['job']['mode'] | undefined;
  readonly fairnessKey?: string | undefined;
  readonly resourceId?: string | undefined;
  /** Further keys of its jobs by their names, such as `{ org: 'acme' }`, for limits that are declared with `keyedBy`. */
  readonly keys?: JobKeys | undefined;
  /** The units of each of its jobs by the names of limits, such as `{ openai: 1200 }`, for rates that count units. */
  readonly units?: JobUnits | undefined;
  /** The tags of its jobs, such as `{ report: 'monthly' }`. */
  readonly tags?: Tags | undefined;
  /** Which missed firings are made up for: none, one for all of them, or each. @default once */
  readonly misfire?: ScheduleSpec['misfire'] | undefined;
  /** A firing that is noticed later than this counts as missed. @default 1m */
  readonly misfireGrace?: DurationInput | undefined;
  /** The most missed firings that `all` makes up for, the oldest first. @default 10 */
  readonly misfireMax?: number | undefined;
  /** How a firing is handled while the schedule's last job has not ended. @default allow */
  readonly ifRunning?: ScheduleSpec['ifRunning'] | undefined;
  /** The schedule pauses after this many failed jobs in a row. @default - never */
  readonly maxFailures?: number | undefined;
}

/** The fields that say when something fires, without the job. */
export type TimeRequest = Pick<
  ScheduleRequest,
  'cron' | 'every' | 'zone' | 'seconds' | 'gap' | 'overlap' | 'start' | 'end' | 'blackouts' | 'jitter'
>;

/** Why a schedule was refused. */
export interface ScheduleRefusal {
  /** Path of the invalid field, such as `blackouts[0]`; empty for the schedule as a whole. */
  readonly field: string;
  /** The full message: the problem, the value, and what is allowed. */
  readonly reason: string;
  readonly problem: string;
  /** The invalid value; undefined if the field is missing. */
  readonly value: unknown;
  /** Says what is allowed; empty if `problem` says it already. */
  readonly wayOut: string;
}

/** The least grace with misfire `skip`. The delay of a wake is rounded up to whole seconds, and clocks may differ by some seconds. */
const SKIP_GRACE_LEAST_MS = 5_000;

export type ParsedSchedule = { readonly spec: ScheduleSpec } | Refused;

interface Refused {
  readonly refusal: ScheduleRefusal;
}

function refuse(field: string, problem: string, value: unknown, wayOut = ''): Refused {
  const got = value === undefined ? '' : ` (got ${inOneLine(value)})`;
  const reason = `${problem}${got}${wayOut === '' ? '' : `. ${wayOut}`}`;
  return { refusal: { field, reason: reason.slice(0, 1_000).toWellFormed(), problem, value, wayOut } };
}

/** Shows a value in one line, with the content of small objects. */
function inOneLine(value: unknown): string {
  if (typeof value !== 'object' || value === null) return show(value);
  const isJson = !isDeeperThan(value as Json, 10) && nonJsonValues(value).next().done === true;
  const text = isJson ? JSON.stringify(value) : '';
  return text === '' || text.length > 80 ? show(value) : text;
}

const isEmpty = (text: string): boolean => text.trim() === '';

/** The id of a schedule, which is part of its key, of URLs and of commands. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$/;
export const scheduleIdProblem = (id: unknown): string | undefined =>
  typeof id === 'string' && id.length <= SCHEDULE_LIMITS.idBytes && ID.test(id)
    ? undefined
    : `must be 1 to ${SCHEDULE_LIMITS.idBytes} letters, digits and ._:@/+-, beginning with a letter or digit (got ${show(id)})`;

/** The declared types and limits of the jobs that a schedule may make. */
interface DeclaredTypes {
  readonly types: readonly Pick<JobTypeConfiguration, 'type' | 'requires' | 'limits'>[];
  readonly limits?: readonly LimitConfiguration[] | undefined;
}

/**
 * Parses a requested schedule. It refuses schedules that can never fire.
 *
 * @param pool - the pool's job types and limits; undefined if the caller does not know them
 */
export function parseSchedule(given: unknown, nowMs: number, pool?: DeclaredTypes): ParsedSchedule {
  const parsed = scheduleShape.safeParse(given, { error: inWords });
  if (!parsed.success) return issueOf(parsed.error, given);
  const { data } = parsed;
  const times = timesOf(data);
  if ('refusal' in times) return times;
  const job = jobPartOf(data, pool);
  if ('refusal' in job) return job;
  const { misfireGrace } = data;
  if (data.misfire === 'skip' && misfireGrace !== undefined && misfireGrace < SKIP_GRACE_LEAST_MS) {
    return refuse(
      'misfireGrace',
      `must be at least ${SKIP_GRACE_LEAST_MS} ms with misfire skip: passes may run some seconds late, and would skip the firing that they are due for`,
      (given as { readonly misfireGrace?: unknown }).misfireGrace,
      'Leave it out for the default of one minute',
    );
  }
  const spec: ScheduleSpec = {
    ...times.spec,
    misfire: data.misfire ?? 'once',
    misfireGraceMs: data.misfireGrace ?? 60_000,
    misfireMax: data.misfireMax ?? 10,
    ifRunning: data.ifRunning ?? 'allow',
    ...(data.maxFailures === undefined ? {} : { maxFailures: data.maxFailures }),
    job: job.job,
  };
  const fires = firesOrRefusal(spec, nowMs);
  return 'refusal' in fires ? fires : { spec };
}

/** Parses the time fields alone, and returns their firings after `fromMs`. */
export function parseTimes(
  given: unknown,
  fromMs: number,
): { readonly fires: Fires; readonly spec: TimeSpec } | Refused {
  const parsed = z.strictObject(timeShape).safeParse(given, { error: inWords });
  if (!parsed.success) return issueOf(parsed.error, given);
  const times = timesOf(parsed.data);
  if ('refusal' in times) return times;
  const fires = firesOrRefusal(times.spec, fromMs);
  return 'refusal' in fires ? fires : { fires: fires.fires, spec: times.spec };
}

export type TimeSpec = Pick<
  ScheduleSpec,
  'when' | 'timeZone' | 'gap' | 'overlap' | 'startMs' | 'endMs' | 'blackouts' | 'jitterMs'
>;

function issueOf(error: z.ZodError, given: unknown): Refused {
  // A misspelt field also leaves the intended one missing. The misspelt name is the more helpful issue.
  const issue = error.issues.find(({ code }) => code === 'unrecognized_keys') ?? error.issues[0];
  const path = issue?.path ?? [];
  const at = path.reduce<unknown>(
    (value, step) => (typeof value === 'object' && value !== null ? Reflect.get(value, step) : undefined),
    given,
  );
  const field = path.reduce<string>(
    (text, step) =>
      typeof step === 'number' ? `${text}[${step}]` : text === '' ? String(step) : `${text}.${String(step)}`,
    '',
  );
  if (issue?.code === 'unrecognized_keys') {
    const name = issue.keys[0] ?? '';
    const meant = didYouMean(name, Object.keys(field === '' ? scheduleShape.shape : {}));
    return refuse(
      field === '' ? name : `${field}.${name}`,
      'is not a field of a schedule',
      undefined,
      `${meant}Leave it out.`,
    );
  }
  if (field === '')
    return refuse(field, 'must be an object with cron or every, and the type of its jobs', at ?? null);
  if (at === undefined)
    return refuse(field, field === 'type' ? 'is missing: name the job type that it makes' : 'is missing', at);
  return refuse(field, issue?.message ?? 'is invalid', at);
}

type TimeData = z.output<z.ZodObject<typeof timeShape>>;

function timesOf(data: TimeData): { readonly spec: TimeSpec } | Refused {
  const { cron, every, zone = 'UTC', gap, overlap, start, end } = data;
  const refusal = timesRefusal(data);
  if (refusal !== undefined) return refusal;
  return {
    spec: {
      when:
        cron === undefined
          ? { kind: 'every', everyMs: every ?? 0 }
          : { kind: 'cron', expression: cron.trim() },
      timeZone: zone,
      ...(gap === undefined ? {} : { gap }),
      ...(overlap === undefined ? {} : { overlap }),
      ...(start === undefined ? {} : { startMs: start }),
      ...(end === undefined ? {} : { endMs: end }),
      blackouts: data.blackouts ?? [],
      jitterMs: data.jitter ?? 0,
    },
  };
}

/** Checks fields that are valid by themselves but exclude each other. */
function timesRefusal(data: TimeData): Refused | undefined {
  const { cron, every, gap, overlap, start, end } = data;
  if ((cron === undefined) === (every === undefined))
    return cron === undefined
      ? refuse('cron', 'is missing, and so is every: give exactly one of the two', cron)
      : refuse(
          'every',
          `is given together with cron ${show(cron)}: give exactly one of the two`,
          `${data.every}ms`,
        );
  if (every !== undefined && (gap !== undefined || overlap !== undefined))
    return refuse(
      gap === undefined ? 'overlap' : 'gap',
      'is for cron: every counts elapsed time, which clock changes do not affect',
      gap ?? overlap,
      'Leave it out.',
    );
  if (cron !== undefined && isEmpty(cron))
    return refuse(
      'cron',
      'must be a pattern of five fields: minute, hour, day of month, month, day of week',
      cron,
    );
  if (cron !== undefined && data.seconds === false && cron.trim().split(/\s+/).length > 5)
    return refuse(
      'cron',
      'has a field for seconds, but seconds is false',
      cron,
      'Write five fields that begin with minutes.',
    );
  if (start !== undefined && end !== undefined && start >= end)
    return refuse('end', `must be after the start, ${isoOf(start)}`, isoOf(end));
  return undefined;
}

/** Returns the firings, or a refusal if there is none after `fromMs`. */
function firesOrRefusal(spec: TimeSpec, fromMs: number): { readonly fires: Fires } | Refused {
  try {
    const fires = firesOf(rulesOf(spec as ScheduleSpec, fromMs), readCron);
    if (fires.next(fromMs) !== undefined) return { fires };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const field = error.field === 'timeZone' ? 'zone' : 'cron';
    return refuse(field, error.problem, error.value, error.wayOut);
  }
  if (spec.endMs !== undefined && spec.endMs <= fromMs)
    return refuse('end', `is in the past: it must be after ${isoOf(fromMs)}`, isoOf(spec.endMs));
  const given = spec.when.kind === 'cron' ? spec.when.expression : `${spec.when.everyMs}ms`;
  const { when, timeZone } = spec;
  const unbounded: TimeSpec = { when, timeZone, blackouts: [], jitterMs: 0 };
  if (firesOf(rulesOf(unbounded as ScheduleSpec, 0), readCron).next(0) === undefined)
    return refuse(
      when.kind,
      'never fires: its date does not exist, such as 30 February',
      given,
      'Use a date that exists; L is the last day of a month.',
    );
  return refuse(
    when.kind,
    `never fires after ${isoOf(fromMs)}: start, end and blackouts leave none of its times`,
    given,
    `Choose a time before ${isoOf(Math.min(spec.endMs ?? Number.POSITIVE_INFINITY, LAST_FIRING_MS + 1))}.`,
  );
}

const isoOf = (atMs: number): string => new Date(atMs).toISOString();

/** Finds values that JSON would change or lose. */
function* nonJsonValues(value: unknown): Generator {
  if (typeof value === 'object' && value !== null)
    for (const each of Object.values(value)) yield* nonJsonValues(each);
  else if (
    typeof value === 'number'
      ? !Number.isFinite(value)
      : ['bigint', 'function', 'symbol'].includes(typeof value)
  )
    yield value;
}

/** The longest value of each name in a template, to compute the largest payload. */
const LONGEST_VALUES = {
  scheduleId: 'x'.repeat(SCHEDULE_LIMITS.idBytes),
  scheduledAt: new Date(LAST_FIRING_MS).toISOString(),
  // Some historical zone offsets have seconds.
  scheduledLocal: '2199-12-31T23:59:59.999+12:34:56',
  previousAt: new Date(LAST_FIRING_MS).toISOString(),
} as const satisfies Readonly<Record<(typeof TEMPLATE_NAMES)[number], string>>;

/** Refuses an unknown name in a template, and a template whose payload may become too large. */
function templateRefusal(template: Json): Refused | undefined {
  const field = 'payloadTemplate';
  const [unknown] = unknownNames(template);
  if (unknown !== undefined)
    return refuse(
      field,
      'contains an unknown name',
      `{{${unknown}}}`,
      `The names are ${TEMPLATE_NAMES.join(', ')}.`,
    );
  const size = Buffer.byteLength(JSON.stringify(fillTemplate(template, LONGEST_VALUES)), 'utf8');
  // planted: outgrown-template
  if (size <= REQUEST_LIMITS.payloadBytes) return undefined;
  return refuse(
    field,
    `has up to ${size} bytes once its names are filled in, at most ${REQUEST_LIMITS.payloadBytes} are accepted; use fewer names, or store it elsewhere and send a reference`,
    undefined,
  );
}

/** Refuses a payload that is too large, or looks like a reference. */
function contentRefusal(field: string, content: Json, text: string): Refused | undefined {
  const size = Buffer.byteLength(text, 'utf8');
  if (size > REQUEST_LIMITS.payloadBytes)
    return refuse(
      field,
      `has ${size} bytes, at most ${REQUEST_LIMITS.payloadBytes} are accepted; store it elsewhere and send a reference`,
      undefined,
    );
  return isReference(content) ? refuse(field, REFERENCE_REFUSED, undefined) : undefined;
}

function jobPartOf(
  data: z.output<typeof scheduleShape>,
  pool: DeclaredTypes | undefined,
): { readonly job: ScheduleSpec['job'] } | Refused {
  const { type, payload, payloadTemplate } = data;
  const declared = pool?.types.find((each) => each.type === type);
  if (pool !== undefined && declared === undefined) {
    const names = pool.types.map((each) => each.type);
    const wayOut = `${didYouMean(type, names)}The pool has: ${names.join(', ')}.`;
    return refuse('type', 'is not a job type of this pool', type, wayOut);
  }
  const misfit = pool === undefined || declared === undefined ? undefined : misfitOf(pool, declared, data);
  if (misfit !== undefined) return refuse(misfit.field.join('.'), misfit.reason, undefined);
  const isTemplate = payloadTemplate !== undefined;
  if (isTemplate && payload !== undefined)
    return refuse('payloadTemplate', 'is given together with payload: give one of the two', payloadTemplate);
  const field = isTemplate ? 'payloadTemplate' : 'payload';
  const content = (isTemplate ? payloadTemplate : (payload ?? null)) as Json;
  if (isDeeperThan(content, REQUEST_LIMITS.payloadLevels))
    return refuse(
      field,
      `is nested too deeply: at most ${REQUEST_LIMITS.payloadLevels} levels of arrays and objects are accepted`,
      content,
    );
  for (const value of nonJsonValues(content))
    return refuse(field, 'contains a value that JSON cannot represent', value, 'Send null or text instead.');
  const text = JSON.stringify(content);
  const refused = contentRefusal(field, content, text);
  if (refused !== undefined) return refused;
  if (isTemplate) {
    const refusal = templateRefusal(content);
    if (refusal !== undefined) return refusal;
  }
  return {
    job: {
      type,
      payload: JSON.parse(text) as Json,
      isTemplate,
      priority: data.priority ?? PRIORITY_MIN,
      mode: data.mode ?? 'queued',
      fairnessKey: data.fairnessKey ?? '',
      ...(data.resourceId === undefined ? {} : { resourceId: data.resourceId }),
      ...namedRecords(data),
    },
  };
}
