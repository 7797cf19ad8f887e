/**
 * Encodes and decodes schedules. The state that a firing reads and writes is one text, beside the few attributes that conditions and lines
 * need.
 */

import * as z from 'zod';
import { inWords } from '../../../core/issues.ts';
import type {
  Firing,
  FiringEntry,
  ScheduleRecord,
  ScheduleSpec,
  ScheduleState,
} from '../../../core/recurring.ts';
import { MalformedItemError } from '../../contract/errors.ts';
import {
  declaredSchedulesKey,
  type ItemKey,
  instantRank,
  scheduleKey,
  scheduleSpecKey,
  schedulesLineName,
  stoppedSchedulesLineName,
  TABLE,
} from '../schema.ts';
import type { Item } from './attributes.ts';

/** The attributes of a schedule. Their names are also attributes of other items. */
const A = { version: 'version', text: 'text', state: TABLE.state } as const;

/**
 * The value of `state` for the stream's filter and the bus: the schedule has stopped because its jobs failed, or because their type is
 * gone.
 */
export const STOPPED_BY_ITSELF = 'stopped';

const instant = z.number();
/** Items hold indexes of this list: append new values at the end. */
const ENTRY_KINDS = [
  'made',
  'manual',
  'missed',
  'running',
  'paused',
  'blackout',
  'full',
  'units',
] as const satisfies FiringEntry['what'][];
const JOB_STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'gone',
] as const satisfies NonNullable<FiringEntry['jobState']>[];

/**
 * Time, index of `what`, index of the job's state or -1, lateness or null, and end. Rows are short, so that ten of them cost no further
 * unit.
 */
type EntryRow = readonly [number, number, number, number | null, number?];

function rowOf({ atMs, what, jobState, lateMs, untilMs }: FiringEntry): EntryRow {
  const state = jobState === undefined ? -1 : JOB_STATES.indexOf(jobState);
  const kindIndex = ENTRY_KINDS.indexOf(what);
  const late = lateMs ?? null;
  return untilMs === undefined ? [atMs, kindIndex, state, late] : [atMs, kindIndex, state, late, untilMs];
}

const entry = z
  .tuple([
    instant,
    z
      .int()
      .min(0)
      .max(ENTRY_KINDS.length - 1),
    z
      .int()
      .min(-1)
      .max(JOB_STATES.length - 1),
    z.number().nullable(),
    instant.optional(),
  ])
  .transform(([atMs, what, jobState, lateMs, untilMs]): FiringEntry => {
    const knownState = JOB_STATES[jobState];
    return {
      atMs,
      what: ENTRY_KINDS[what] ?? 'made',
      ...(untilMs === undefined ? {} : { untilMs }),
      ...(knownState === undefined ? {} : { jobState: knownState }),
      ...(lateMs === null ? {} : { lateMs }),
    };
  });
const firing = z.object({ atMs: instant, isManual: z.boolean() });
/** The instant of a firing. It is negative if an operator asked for the firing. */
const openRow = z.number().transform((at): Firing => ({ atMs: Math.abs(at), isManual: at < 0 }));
const openRowOf = ({ atMs, isManual }: Firing): number => (isManual ? -atMs : atMs);
const stateText = z.object({
  partition: z.int().min(0),
  isDeclared: z.boolean(),
  stopped: z.enum(['ended', 'asked', 'failures', 'type']).optional(),
  anchorMs: instant,
  dealtMs: instant,
  nextMs: instant.optional(),
  dueMs: instant.optional(),
  making: z.array(firing).optional(),
  isReplacing: z.boolean().optional(),
  previousMs: instant.optional(),
  queuedMs: instant.optional(),
  lastMs: instant.optional(),
  failures: z.int().min(0),
  history: z.array(entry),
  open: z.array(openRow).optional(),
  createdAtMs: instant,
  changedAtMs: instant,
});
const blackout = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('between'), fromMs: instant, untilMs: instant }),
  z.object({
    kind: z.literal('daily'),
    days: z.array(z.int()),
    fromMinute: z.int(),
    untilMinute: z.int(),
  }),
]);
const specText = z.object({
  when: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('cron'), expression: z.string() }),
    z.object({ kind: z.literal('every'), everyMs: z.number().positive() }),
  ]),
  timeZone: z.string(),
  gap: z.enum(['next', 'skip']).optional(),
  overlap: z.enum(['once', 'second', 'twice']).optional(),
  startMs: instant.optional(),
  endMs: instant.optional(),
  blackouts: z.array(blackout),
  jitterMs: z.number().min(0),
  misfire: z.enum(['skip', 'once', 'all']),
  misfireGraceMs: z.number().min(0),
  misfireMax: z.int().min(1),
  ifRunning: z.enum(['allow', 'skip', 'queue', 'replace']),
  maxFailures: z.int().min(1).optional(),
  job: z.object({
    type: z.string(),
    payload: z.json(),
    isTemplate: z.boolean(),
    priority: z.number(),
    mode: z.enum(['queued', 'onDemand']),
    fairnessKey: z.string(),
    resourceId: z.string().optional(),
    keys: z.record(z.string(), z.string()).optional(),
    units: z.record(z.string(), z.number()).optional(),
    tags: z.record(z.string(), z.string()).optional(),
  }),
});

/** Returns the position of a schedule. */
export const scheduleStanding = (state: ScheduleState): { readonly line: string; readonly rank: string } =>
  state.dueMs === undefined
    ? { line: stoppedSchedulesLineName(state.partition), rank: state.id }
    : { line: schedulesLineName(state.partition), rank: instantRank(state.dueMs, state.id) };

export function encodeScheduleState(state: ScheduleState): Item {
  const { id, revision, ...rest } = state;
  const hasStopped = state.stopped === 'failures' || state.stopped === 'type';
  const { line, rank } = scheduleStanding(state);
  return {
    ...scheduleKey(id),
    // This attribute is not called `version`, because the index contains that one, so every change would be billed
    // there too.
    revision,
    [A.text]: JSON.stringify({
      ...rest,
      history: state.history.map(rowOf),
      open: state.open?.map(openRowOf),
    }),
    [A.state]: hasStopped ? STOPPED_BY_ITSELF : undefined,
    [TABLE.line]: line,
    [TABLE.rank]: rank,
  };
}

export const encodeScheduleSpec = (id: string, revision: number, spec: ScheduleSpec): Item => ({
  ...scheduleSpecKey(id),
  revision,
  [A.text]: JSON.stringify(spec),
});

export const encodeDeclaredSchedules = (ids: readonly string[]): Item => ({
  ...declaredSchedulesKey,
  [A.text]: JSON.stringify(ids),
});

export const decodeScheduleState = (item: Item): ScheduleState => ({
  id: idIn(item),
  revision: revisionIn(item),
  ...textIn(item, stateText),
});

export const decodeScheduleSpec = (item: Item): ScheduleSpec => textIn(item, specText) as ScheduleSpec;

export const decodeDeclaredSchedules = (item: Item | undefined): readonly string[] =>
  item === undefined ? [] : textIn(item, z.array(z.string()));

/** Decodes the two items of a schedule; undefined if there is no state. A state without a request is malformed. */
export function decodeSchedule(state: Item | undefined, spec: Item | undefined): ScheduleRecord | undefined {
  if (state === undefined) return undefined;
  if (spec === undefined) throw malformed(state, 'spec', 'is missing: delete the schedule and put it again');
  return { state: decodeScheduleState(state), spec: decodeScheduleSpec(spec) };
}

export const isScheduleItem = (item: Item): boolean => String(item.pk).startsWith(prefix);

/** Returns the key of a schedule's request, given the key of its state; undefined for the key of any other item. */
export const specKeyBeside = ({ pk, sk }: ItemKey): ItemKey | undefined =>
  pk.startsWith(prefix) && sk === scheduleKey('').sk ? scheduleSpecKey(pk.slice(prefix.length)) : undefined;

export function isReadableSchedule(state: Item, spec: Item | undefined): boolean {
  try {
    decodeSchedule(state, spec);
    return true;
  } catch (error) {
    if (error instanceof MalformedItemError) return false;
    throw error;
  }
}

/** Returns the partition in the name of the schedule's line; undefined: the item is in no line of schedules. */
export function partitionOfLine(item: Item): number | undefined {
  const [, digits] = /^(?:schedules|stopped)\/(\d{1,9})$/.exec(String(item[TABLE.line])) ?? [];
  return digits === undefined ? undefined : Number(digits);
}

const prefix = scheduleKey('').pk;

export const idIn = (item: Item): string => String(item.pk).slice(prefix.length);

function revisionIn(item: Item): number {
  const { revision } = item;
  if (typeof revision === 'number' && Number.isSafeInteger(revision) && revision > 0) return revision;
  throw malformed(item, 'revision', `is ${String(revision)}, not a whole number from 1 up`);
}

function textIn<Shape extends z.ZodType>(item: Item, shape: Shape): z.output<Shape> {
  const { text } = item;
  if (typeof text !== 'string') throw malformed(item, 'text', 'is not text');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw malformed(item, 'text', 'is not JSON', { cause });
  }
  const parsed = shape.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw malformed(item, ['text', ...(issue?.path ?? [])].join('.'), issue?.message ?? 'is invalid');
}

const malformed = (
  item: Item,
  field: string,
  problem: string,
  options?: ErrorOptions,
): MalformedItemError => {
  const { pk, sk } = item as unknown as ItemKey;
  return new MalformedItemError(
    `${pk} ${sk}`,
    field,
    problem,
    'delete the schedule, and put it again',
    options,
  );
};
