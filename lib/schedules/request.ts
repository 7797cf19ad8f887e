/** What a schedule may be asked to be. One rule for the client, the CLI, events and deployments. */

import { z } from 'zod';
import type { JobTypeConfiguration } from '../core/configuration.ts';
import { ConfigurationError, show } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import { JOB_MODES, type Json, PRIORITY_MAX, PRIORITY_MIN } from '../core/job.ts';
import {
  filled,
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
import { isDeeperThan, keyText, missingOf, REQUEST_LIMITS, wholeNumber } from '../submit/request.ts';

export const SCHEDULE_LIMITS = {
  idBytes: 128,
  blackouts: 20,
  /** Missed firings that `all` makes up for. */
  misfireMax: 100,
  maxFailures: 1_000,
  /** Beside each other in one declaration. */
  declared: 500,
} as const;

const UNITS_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const YEAR_MS = 366 * UNITS_MS.d;

const duration = (leastMs: number, example: string) => {
  const error = `must be a duration from ${leastMs} ms to a year, such as ${example}`;
  return z
    .string({ error })
    .regex(/^\d{1,12}(ms|s|m|h|d)$/, error)
    .transform((text) => {
      const [, amount = '', unit = 'ms'] = /^(\d+)([a-z]+)$/.exec(text) ?? [];
      return Number(amount) * UNITS_MS[unit as keyof typeof UNITS_MS];
    })
    .refine((ms) => ms >= leastMs && ms <= YEAR_MS, error);
};

const INSTANT = 'must be an ISO 8601 instant with a zone before the year 2200, such as 2027-01-31T08:00:00Z';
const instant = z.iso
  .datetime({ offset: true, error: INSTANT })
  .transform((text) => Date.parse(text))
  .refine((atMs) => atMs >= 0 && atMs <= LAST_FIRING_MS, INSTANT);

const CLOCK = 'must be a time of day, such as 22:30';
const minuteOfDay = z
  .string({ error: CLOCK })
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, CLOCK)
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

/** When a schedule fires; by itself what `next` of an expression takes. */
const timeShape = {
  cron: z.string().max(256, 'must be at most 256 characters').optional(),
  every: duration(UNITS_MS.s, '30s, 5m, 1h or 1d').optional(),
  zone: z.string().max(64, 'must be an IANA name, such as Europe/Berlin').optional(),
  seconds: z.boolean().optional(),
  gap: z.enum(GAP_POLICIES).optional(),
  overlap: z.enum(OVERLAP_POLICIES).optional(),
  start: instant.optional(),
  end: instant.optional(),
  blackouts: z.array(blackout).max(SCHEDULE_LIMITS.blackouts).optional(),
  jitter: duration(0, '30s or 5m').optional(),
};

const scheduleShape = z.strictObject({
  ...timeShape,
  type: z.string(),
  payload: z.unknown().optional(),
  payloadTemplate: z.unknown().optional(),
  priority: wholeNumber(PRIORITY_MIN, PRIORITY_MAX).optional(),
  mode: z.enum(JOB_MODES).optional(),
  fairnessKey: keyText.optional(),
  resourceId: keyText.min(1, 'must not be empty; leave it out instead').optional(),
  misfire: z.enum(MISFIRE_POLICIES).optional(),
  misfireGrace: duration(0, '1m').optional(),
  misfireMax: wholeNumber(1, SCHEDULE_LIMITS.misfireMax).optional(),
  ifRunning: z.enum(RUNNING_POLICIES).optional(),
  maxFailures: wholeNumber(1, SCHEDULE_LIMITS.maxFailures).optional(),
});

/** A schedule as it is asked for. */
export interface ScheduleRequest {
  /** Five fields from minutes, or six from seconds; or a nickname such as `@daily`. Either this or `every`. */
  readonly cron?: string | undefined;
  /** Elapsed time between two firings: `30s`, `5m`, `1h`, `1d`. Counts from `start`, or from when the schedule was made. */
  readonly every?: string | undefined;
  /** IANA name. @default UTC */
  readonly zone?: string | undefined;
  /** False: a pattern with a field for seconds is refused. @default true */
  readonly seconds?: boolean | undefined;
  /** A local time that is skipped. @default next; for patterns of every hour, elapsed time */
  readonly gap?: ScheduleSpec['gap'];
  /** A local time that comes twice. @default once; for patterns of every hour, elapsed time */
  readonly overlap?: ScheduleSpec['overlap'];
  /** ISO 8601 with a zone: not before. */
  readonly start?: string | undefined;
  /** ISO 8601 with a zone: not at or after. */
  readonly end?: string | undefined;
  /** Between two instants, or between two local times of each day, or of some. */
  readonly blackouts?:
    | readonly {
        readonly from: string;
        readonly until: string;
        readonly days?: readonly (typeof DAYS)[number][] | undefined;
      }[]
    | undefined;
  /** Each firing comes later by a part of this which follows from the schedule's id. @default 0ms */
  readonly jitter?: string | undefined;
  readonly type: string;
  readonly payload?: unknown;
  /** In its stead: texts in it may name {{scheduleId}}, {{scheduledAt}}, {{scheduledLocal}} and {{previousAt}}. */
  readonly payloadTemplate?: unknown;
  readonly priority?: number | undefined;
  readonly mode?: ScheduleSpec['job']['mode'] | undefined;
  readonly fairnessKey?: string | undefined;
  readonly resourceId?: string | undefined;
  /** Of firings that were noticed late: none, the latest for all, or each. @default once */
  readonly misfire?: ScheduleSpec['misfire'] | undefined;
  /** Noticed later than this, a firing was missed. @default 1m */
  readonly misfireGrace?: string | undefined;
  /** Missed firings that `all` makes up for, the oldest first. @default 10 */
  readonly misfireMax?: number | undefined;
  /** While its last job has not ended. @default allow */
  readonly ifRunning?: ScheduleSpec['ifRunning'] | undefined;
  /** It pauses itself after so many failed jobs in a row. @default - never */
  readonly maxFailures?: number | undefined;
}

/** When something fires, without what it makes. */
export type TimeRequest = Pick<
  ScheduleRequest,
  'cron' | 'every' | 'zone' | 'seconds' | 'gap' | 'overlap' | 'start' | 'end' | 'blackouts' | 'jitter'
>;

/** Why a schedule was refused. */
export interface ScheduleRefusal {
  /** Path of the wrong field, such as `blackouts[0]`; empty for the whole. */
  readonly field: string;
  /** All that is to be said: the problem, the value, and what is allowed. */
  readonly reason: string;
  readonly problem: string;
  /** What stood there; undefined: nothing. */
  readonly value: unknown;
  /** What is allowed, where the problem does not say it; empty: it does. */
  readonly wayOut: string;
}

/** A delayed wake comes by whole seconds, and clocks may differ by some. */
const SKIP_GRACE_LEAST_MS = 5_000;

export type ParsedSchedule = { readonly spec: ScheduleSpec } | Refused;

interface Refused {
  readonly refusal: ScheduleRefusal;
}

function refused(field: string, problem: string, value: unknown, wayOut = ''): Refused {
  const got = value === undefined ? '' : ` (got ${shown(value)})`;
  const reason = `${problem}${got}${wayOut === '' ? '' : `. ${wayOut}`}`;
  return { refusal: { field, reason: reason.slice(0, 1_000).toWellFormed(), problem, value, wayOut } };
}

/** A value in one line; what is in an object, too. */
function shown(value: unknown): string {
  if (typeof value !== 'object' || value === null) return show(value);
  const isJson = !isDeeperThan(value as Json, 10) && unlikeJson(value).next().done === true;
  const text = isJson ? JSON.stringify(value) : '';
  return text === '' || text.length > 80 ? show(value) : text;
}

const isEmpty = (text: string): boolean => text.trim() === '';

/** The name of a schedule: what stands in its key, in addresses and in commands. */
const ID = /^[A-Za-z0-9][A-Za-z0-9._:@/+-]*$/;
export const scheduleIdProblem = (id: unknown): string | undefined =>
  typeof id === 'string' && id.length <= SCHEDULE_LIMITS.idBytes && ID.test(id)
    ? undefined
    : `must be 1 to ${SCHEDULE_LIMITS.idBytes} letters, digits and ._:@/+-, beginning with a letter or digit (got ${show(id)})`;

/**
 * Reads what is asked for. What can never fire is refused, too.
 *
 * @param types - those that exist; undefined: they are not known here
 */
export function parseSchedule(
  given: unknown,
  nowMs: number,
  types?: readonly Pick<JobTypeConfiguration, 'type' | 'requires'>[],
): ParsedSchedule {
  const parsed = scheduleShape.safeParse(given, { error: inWords });
  if (!parsed.success) return issueOf(parsed.error, given);
  const { data } = parsed;
  const times = timesOf(data);
  if ('refusal' in times) return times;
  const job = jobPartOf(data, types);
  if ('refusal' in job) return job;
  const { misfireGrace } = data;
  if (data.misfire === 'skip' && misfireGrace !== undefined && misfireGrace < SKIP_GRACE_LEAST_MS) {
    return refused(
      'misfireGrace',
      `must be at least ${SKIP_GRACE_LEAST_MS} ms with misfire skip: passes come up to some seconds late, and would skip what they came for`,
      (given as { readonly misfireGrace?: unknown }).misfireGrace,
      'Leave it out for a minute',
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
  const fires = checkedFires(spec, nowMs);
  return 'refusal' in fires ? fires : { spec };
}

/** The firings of an expression, counted from an instant. */
export function parseTimes(
  given: unknown,
  fromMs: number,
): { readonly fires: Fires; readonly spec: TimeSpec } | Refused {
  const parsed = z.strictObject(timeShape).safeParse(given, { error: inWords });
  if (!parsed.success) return issueOf(parsed.error, given);
  const times = timesOf(parsed.data);
  if ('refusal' in times) return times;
  const fires = checkedFires(times.spec, fromMs);
  return 'refusal' in fires ? fires : { fires: fires.fires, spec: times.spec };
}

export type TimeSpec = Pick<
  ScheduleSpec,
  'when' | 'timeZone' | 'gap' | 'overlap' | 'startMs' | 'endMs' | 'blackouts' | 'jitterMs'
>;

function issueOf(error: z.ZodError, given: unknown): Refused {
  // A field that is misspelt is missing, too: what was written says more.
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
    return refused(
      field === '' ? name : `${field}.${name}`,
      'is no field of a schedule',
      undefined,
      `${meant}Leave it out.`,
    );
  }
  if (field === '')
    return refused(field, 'must be an object with cron or every, and the type of its jobs', at ?? null);
  if (at === undefined)
    return refused(
      field,
      field === 'type' ? 'is missing: name the job type that it makes' : 'is missing',
      at,
    );
  return refused(field, issue?.message ?? 'is invalid', at);
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

/** What fields that are well by themselves do not allow together. */
function timesRefusal(data: TimeData): Refused | undefined {
  const { cron, every, gap, overlap, start, end } = data;
  if ((cron === undefined) === (every === undefined))
    return cron === undefined
      ? refused('cron', 'is missing, and so is every: give exactly one of the two', cron)
      : refused('every', `stands beside cron ${show(cron)}: give exactly one of the two`, `${data.every}ms`);
  if (every !== undefined && (gap !== undefined || overlap !== undefined))
    return refused(
      gap === undefined ? 'overlap' : 'gap',
      'is for cron: every counts elapsed time, whatever clocks do',
      gap ?? overlap,
      'Leave it out.',
    );
  if (cron !== undefined && isEmpty(cron))
    return refused(
      'cron',
      'must be a pattern of five fields: minute, hour, day of month, month, day of week',
      cron,
    );
  if (cron !== undefined && data.seconds === false && cron.trim().split(/\s+/).length > 5)
    return refused(
      'cron',
      'has a field for seconds, which is not wanted here',
      cron,
      'Write five fields, from minutes.',
    );
  if (start !== undefined && end !== undefined && start >= end)
    return refused('end', `must be after the start, ${isoOf(start)}`, isoOf(end));
  return undefined;
}

/** Fails for what no clock ever shows. */
function checkedFires(spec: TimeSpec, fromMs: number): { readonly fires: Fires } | Refused {
  try {
    const fires = firesOf(rulesOf(spec as ScheduleSpec, fromMs), readCron);
    if (fires.next(fromMs) !== undefined) return { fires };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const field = error.field === 'timeZone' ? 'zone' : 'cron';
    return refused(field, error.problem, error.value, error.wayOut);
  }
  if (spec.endMs !== undefined && spec.endMs <= fromMs)
    return refused('end', `is in the past: it must be after ${isoOf(fromMs)}`, isoOf(spec.endMs));
  return refused(
    spec.when.kind,
    'never fires: none of its times is left between start, end and blackouts, or its date does not exist, such as 30 February',
    spec.when.kind === 'cron' ? spec.when.expression : `${spec.when.everyMs}ms`,
    `Name a time that comes before ${isoOf(Math.min(spec.endMs ?? Number.POSITIVE_INFINITY, LAST_FIRING_MS + 1))}.`,
  );
}

const isoOf = (atMs: number): string => new Date(atMs).toISOString();

/** The first thing in it that JSON would change or lose. */
function* unlikeJson(value: unknown): Generator {
  if (typeof value === 'object' && value !== null)
    for (const each of Object.values(value)) yield* unlikeJson(each);
  else if (
    typeof value === 'number'
      ? !Number.isFinite(value)
      : ['bigint', 'function', 'symbol'].includes(typeof value)
  )
    yield value;
}

/** The longest that each name stands for. */
const LONGEST_VALUES = {
  scheduleId: 'x'.repeat(SCHEDULE_LIMITS.idBytes),
  scheduledAt: new Date(LAST_FIRING_MS).toISOString(),
  // Offsets of former times have seconds.
  scheduledLocal: '2199-12-31T23:59:59.999+12:34:56',
  previousAt: new Date(LAST_FIRING_MS).toISOString(),
} as const satisfies Readonly<Record<(typeof TEMPLATE_NAMES)[number], string>>;

/** A name that nothing stands for, or more names than the payload has room for what stands for them. */
function templateRefusal(template: Json): Refused | undefined {
  const field = 'payloadTemplate';
  const [unknown] = unknownNames(template);
  if (unknown !== undefined)
    return refused(
      field,
      'names what nothing stands for',
      `{{${unknown}}}`,
      `There are ${TEMPLATE_NAMES.join(', ')}.`,
    );
  const size = Buffer.byteLength(JSON.stringify(filled(template, LONGEST_VALUES)), 'utf8');
  // planted: outgrown-template
  if (size <= REQUEST_LIMITS.payloadBytes) return undefined;
  return refused(
    field,
    `has up to ${size} bytes once its names are filled in, at most ${REQUEST_LIMITS.payloadBytes} are accepted; name fewer, or store it elsewhere and send a reference`,
    undefined,
  );
}

function jobPartOf(
  data: z.output<typeof scheduleShape>,
  types: readonly Pick<JobTypeConfiguration, 'type' | 'requires'>[] | undefined,
): { readonly job: ScheduleSpec['job'] } | Refused {
  const { type, payload, payloadTemplate } = data;
  const declared = types?.find((each) => each.type === type);
  if (types !== undefined && declared === undefined) {
    const names = types.map((each) => each.type);
    const wayOut = `${didYouMean(type, names)}It has: ${names.join(', ')}.`;
    return refused('type', 'is no job type of this pool', type, wayOut);
  }
  const missing = declared === undefined ? undefined : missingOf(declared, data);
  if (missing !== undefined) return refused(missing.field, missing.reason, undefined);
  const isTemplate = payloadTemplate !== undefined;
  if (isTemplate && payload !== undefined)
    return refused('payloadTemplate', 'stands beside payload: give one of the two', payloadTemplate);
  const field = isTemplate ? 'payloadTemplate' : 'payload';
  const content = (isTemplate ? payloadTemplate : (payload ?? null)) as Json;
  if (isDeeperThan(content, REQUEST_LIMITS.payloadLevels))
    return refused(
      field,
      `is too deep: at most ${REQUEST_LIMITS.payloadLevels} arrays and objects within each other are accepted`,
      content,
    );
  for (const odd of unlikeJson(content))
    return refused(field, 'holds what is no JSON', odd, 'Send null or text instead.');
  const text = JSON.stringify(content);
  const size = Buffer.byteLength(text, 'utf8');
  if (size > REQUEST_LIMITS.payloadBytes)
    return refused(
      field,
      `has ${size} bytes, at most ${REQUEST_LIMITS.payloadBytes} are accepted; store it elsewhere and send a reference`,
      undefined,
    );
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
    },
  };
}
