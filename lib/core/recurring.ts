/**
 * A schedule: its spec, its state, and what a look (one check by a pass) decides: which firings become jobs, which do
 * not and why, and when to look again. All functions are pure.
 *
 * A firing is decided once, by one write of the state that lists the jobs to be made (`making`). The jobs are made
 * next, and a second write moves the schedule to its next firing. A dispatcher that finds `making` completes it before
 * anything else, so a crash between the two writes loses nothing. A job's id follows from its firing, so a repeated
 * firing makes no second job.
 *
 * Instants are epoch milliseconds. A firing is identified by the instant that the time rules give. Its job is due later
 * by the schedule's jitter.
 */
import {
  type History,
  isTerminal,
  type JobKeys,
  type JobMode,
  type JobState,
  type JobUnits,
  type Json,
  type Tags,
} from './job.ts';
import { type Fires, inBlackout, jitterOf, latestFiring, type TimeRules } from './schedule.ts';

/** Policies for firings that were noticed later than `misfireGraceMs`. */
export const MISFIRE_POLICIES = ['skip', 'once', 'all'] as const;
/** Policies for a firing that comes while the schedule's last job has not ended. */
export const RUNNING_POLICIES = ['allow', 'skip', 'queue', 'replace'] as const;

/** The job that each firing makes. */
export interface ScheduledJob {
  readonly type: string;
  readonly payload: Json;
  /** Whether texts in the payload may contain names such as `{{scheduledAt}}`: see `TEMPLATE_NAMES`. */
  readonly isTemplate: boolean;
  readonly priority: number;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly keys?: JobKeys | undefined;
  readonly units?: JobUnits | undefined;
  readonly tags?: Tags | undefined;
}

/** The schedule as requested, with every default filled in. */
export interface ScheduleSpec {
  readonly when:
    | { readonly kind: 'cron'; readonly expression: string }
    | { readonly kind: 'every'; readonly everyMs: number };
  readonly timeZone: string;
  readonly gap?: TimeRules['gap'];
  readonly overlap?: TimeRules['overlap'];
  readonly startMs?: number | undefined;
  readonly endMs?: number | undefined;
  readonly blackouts: NonNullable<TimeRules['blackouts']>;
  readonly jitterMs: number;
  /**
   * `skip`: none of them runs. `once`: the latest one runs for all. `all`: each runs, the oldest first, up to
   * `misfireMax`.
   */
  readonly misfire: (typeof MISFIRE_POLICIES)[number];
  readonly misfireGraceMs: number;
  readonly misfireMax: number;
  /** `queue`: one firing waits for the end of the last job. `replace`: unfinished jobs are cancelled. */
  readonly ifRunning: (typeof RUNNING_POLICIES)[number];
  /** The number of failed jobs in a row after which the schedule pauses itself. */
  readonly maxFailures?: number | undefined;
  readonly job: ScheduledJob;
}

/** An instant for which one job is made: from the time rules, or requested by hand. */
export interface Firing {
  readonly atMs: number;
  readonly isManual: boolean;
}

/** Why a firing that was decided made no job. */
export type RefusedFiring = 'full' | 'units';

/** The outcome of a firing, or of several in a row. */
export interface FiringEntry {
  readonly atMs: number;
  /**
   * `made`: a job was made. `manual`: a job was made on request. `missed`: the firing was noticed too late. `running`:
   * the previous job had not ended. `paused`: the schedule was stopped. `blackout`: the firing was in a blackout.
   * `full`: too many jobs waited. `units`: the job would have more units than one may have.
   */
  readonly what: 'made' | 'manual' | 'missed' | 'running' | 'paused' | 'blackout' | RefusedFiring;
  /** The last firing, if the entry stands for several. */
  readonly untilMs?: number | undefined;
  /** The state of its job when it was last read. */
  readonly jobState?: JobState | 'gone' | undefined;
  /** How long after its due time, the instant plus jitter, the first attempt of its job started. */
  readonly lateMs?: number | undefined;
}

export type PauseReason = 'asked' | 'failures' | 'type';

/** The progress of a schedule. It is small, because it is written with each firing. */
export interface ScheduleState {
  readonly id: string;
  /** The number of the state. Every write raises it, and is conditional on the revision that was read. */
  readonly revision: number;
  /** The partition of its firings' jobs. The schedule stands in a line of that partition. */
  readonly partition: number;
  /** Whether a deployment made the schedule. Then only a deployment may change or remove it. */
  readonly isDeclared: boolean;
  /** Absent: the schedule is active. `ended`: it has no firing left. */
  readonly stopped?: 'ended' | PauseReason | undefined;
  /** The instant from which `every` counts, unless the spec has a start. */
  readonly anchorMs: number;
  /** All firings up to this instant are decided. */
  readonly dealtMs: number;
  /** The first firing after `dealtMs`. */
  readonly nextMs?: number | undefined;
  /** When a pass must look at the schedule: its position in the line. Absent: it stands in no line. */
  readonly dueMs?: number | undefined;
  /** Decided firings whose jobs may not have been made yet. */
  readonly making?: readonly Firing[] | undefined;
  /** With `making`: whether its jobs replace all jobs of earlier firings that have not ended. */
  readonly isReplacing?: boolean | undefined;
  /** With `making`: the last firing before them that made a job. */
  readonly previousMs?: number | undefined;
  /** The firing that waits until the jobs of earlier firings have ended. */
  readonly queuedMs?: number | undefined;
  /** The last firing that made a job. */
  readonly lastMs?: number | undefined;
  /** The number of failed jobs in a row. */
  readonly failures: number;
  /** The last ten entries, the oldest first. */
  readonly history: readonly FiringEntry[];
  /**
   * Firings with unfinished jobs that are too old for the history. Kept only if the schedule looks at its jobs
   * (`ifRunning`, `maxFailures`).
   */
  readonly open?: readonly Firing[] | undefined;
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface ScheduleRecord {
  readonly spec: ScheduleSpec;
  readonly state: ScheduleState;
}

const HISTORY_MAX = 10;
/** The most open firings kept in addition to the history; the oldest are forgotten. */
export const OPEN_MAX = 100;
/** The most firings that one look decides. */
export const FIRINGS_MAX = 100;
/**
 * How often a look checks whether the last job has ended while a firing waits for it, in case the hint of that end is
 * lost.
 */
export const QUEUED_LOOK_MS = 60_000;

export const rulesOf = (spec: ScheduleSpec, anchorMs: number): TimeRules => ({
  when:
    // planted: counts-from-its-making
    spec.when.kind === 'cron'
      ? spec.when
      : { kind: 'every', everyMs: spec.when.everyMs, anchorMs: spec.startMs ?? anchorMs },
  timeZone: spec.timeZone,
  gap: spec.gap,
  overlap: spec.overlap,
  startMs: spec.startMs,
  endMs: spec.endMs,
  blackouts: spec.blackouts,
});

/** The fields of a firing's job that a look reads. */
export interface SeenJob {
  readonly state: JobState;
  readonly startedAtMs?: number | undefined;
  readonly history?: History | undefined;
}

/**
 * Returns the start of the earliest attempt that the job's history still has, or else the start in the job's own field,
 * which is that of its last attempt.
 */
const firstStartMs = ({ startedAtMs, history }: SeenJob): number | undefined =>
  // planted: late-as-the-last
  history?.entries.find((entry) => entry.kind === 'attempt')?.startedAtMs ?? startedAtMs;

const hasJob = ({ what }: FiringEntry): boolean => what === 'made' || what === 'manual';
const isOpen = (entry: FiringEntry): boolean =>
  hasJob(entry) &&
  // planted: expired-runs-on
  (entry.jobState === undefined || (entry.jobState !== 'gone' && !isTerminal(entry.jobState)));

const firingOf = ({ atMs, what }: FiringEntry): Firing => ({ atMs, isManual: what === 'manual' });

/** Firings whose jobs have not been seen to end, the oldest first. */
export const openFirings = ({ open = [], history }: ScheduleState): readonly Firing[] => [
  ...open,
  ...history.filter(isOpen).map(firingOf),
];

/**
 * Returns the state, updated with the jobs of its open firings. A job that does not exist has expired long after its
 * end.
 *
 * @param jobs - by `firingKey`
 */
export function withSeen(
  state: ScheduleState,
  jitterMs: number,
  jobs: ReadonlyMap<string, SeenJob | undefined>,
): ScheduleState {
  let { failures } = state;
  const isMaking = new Set((state.making ?? []).map(firingKey));
  const count = (job: SeenJob): void => {
    if (job.state === 'failed') failures += 1;
    if (job.state === 'succeeded') failures = 0;
  };
  const open = state.open?.filter((firing) => {
    const key = firingKey(firing);
    if (!jobs.has(key)) return true;
    const job = jobs.get(key);
    if (job !== undefined) count(job);
    return job === undefined ? isMaking.has(key) : !isTerminal(job.state);
  });
  const history = state.history.map((entry): FiringEntry => {
    const key = firingKey({ atMs: entry.atMs, isManual: entry.what === 'manual' });
    if (!isOpen(entry) || !jobs.has(key)) return entry;
    const job = jobs.get(key);
    if (job === undefined) return isMaking.has(key) ? entry : { ...entry, jobState: 'gone' };
    count(job);
    const dueMs = entry.atMs + (entry.what === 'manual' ? 0 : jitterMs);
    const startedMs = firstStartMs(job);
    const lateMs = entry.lateMs ?? (startedMs === undefined ? undefined : startedMs - dueMs);
    return { ...entry, jobState: job.state, ...(lateMs === undefined ? {} : { lateMs }) };
  });
  return { ...state, failures, history, ...openOf(open) };
}

/** `open` is absent if it is empty, to keep the item small. */
const openOf = (open: readonly Firing[] = []): Pick<ScheduleState, 'open'> =>
  open.length === 0 ? { open: undefined } : { open };

export const firingKey = ({ atMs, isManual }: Firing): string => `${isManual ? 'now/' : ''}${atMs}`;

export type LookDecision =
  /** Write nothing. */
  | { readonly kind: 'rest' }
  /** Write this state; no job is made. */
  | { readonly kind: 'save'; readonly state: ScheduleState }
  /**
   * Write this state, cancel the jobs of `replacedBy`, make the jobs of `making`, and then write the state that `made`
   * returns.
   */
  | { readonly kind: 'make'; readonly state: ScheduleState };

/**
 * Decides a look at an active schedule, whose open firings have just been updated (`withSeen`).
 *
 * @param fires - the firings by `rulesOf` of its spec
 */
export function decide(record: ScheduleRecord, fires: Fires, nowMs: number): LookDecision {
  const { spec, state } = record;
  // planted: paused-fires-2
  if (state.stopped !== undefined || state.making !== undefined) return { kind: 'rest' };
  if (spec.maxFailures !== undefined && state.failures >= spec.maxFailures)
    return { kind: 'save', state: stop(record, 'failures', nowMs) };
  const jitterMs = jitterOf(state.id, spec.jitterMs);
  // planted: jitter-forgotten-by-ends
  const due = dueFirings(spec, state, fires, nowMs - jitterMs);
  const open = openFirings(state);
  // A firing that was queued under an earlier policy is decided by the present one.
  const isQueueOver = open.length === 0 || spec.ifRunning !== 'queue';
  const queued = state.queuedMs !== undefined && isQueueOver ? [state.queuedMs] : [];
  if (due.dealtMs === state.dealtMs && queued.length === 0) return { kind: 'rest' };
  const chosen = choose(spec.ifRunning, [...queued, ...due.firings], {
    isRunning: open.length > 0,
    queuedMs: queued.length > 0 ? undefined : state.queuedMs,
  });
  const making = chosen.made.map((atMs) => ({ atMs, isManual: false }));
  const entries: FiringEntry[] = [
    ...blackoutSpans(fires, state.dealtMs, due.dealtMs).map((span) => entryOf('blackout', span)),
    ...(due.missed === undefined ? [] : [entryOf('missed', due.missed)]),
    ...(chosen.skipped === undefined ? [] : [entryOf('running', chosen.skipped)]),
    ...making.map(({ atMs }): FiringEntry => ({ atMs, what: 'made' })),
  ];
  const decided: ScheduleState = {
    ...state,
    // planted: next-from-now
    dealtMs: due.dealtMs,
    // planted: next-from-now-2
    nextMs: fires.next(due.dealtMs),
    queuedMs: chosen.queuedMs,
    lastMs: chosen.made.at(-1) ?? state.lastMs,
    ...withEntries(record, entries, fires),
    changedAtMs: nowMs,
  };
  if (making.length === 0) return { kind: 'save', state: withDueTime(decided, jitterMs, nowMs) };
  return {
    kind: 'make',
    state: {
      ...decided,
      making,
      previousMs: state.lastMs,
      isReplacing: spec.ifRunning === 'replace' && open.length > 0 ? true : undefined,
    },
  };
}

/** Returns the firings whose jobs are replaced by those that are being made. */
export function replacedBy(state: ScheduleState): readonly Firing[] {
  if (state.isReplacing !== true) return [];
  const isMaking = new Set((state.making ?? []).map(firingKey));
  return openFirings(state).filter((firing) => !isMaking.has(firingKey(firing)));
}

/** Returns the last firing before this one that made a job, or makes one; undefined: there is none. */
export function previousOf(
  { making = [], previousMs, history }: ScheduleState,
  atMs: number,
): number | undefined {
  const before = [
    ...making,
    ...history.filter(hasJob),
    ...(previousMs === undefined ? [] : [{ atMs: previousMs }]),
  ]
    .map((each) => each.atMs)
    .filter((each) => each < atMs);
  return before.length === 0 ? undefined : Math.max(...before);
}

/**
 * Returns the state after the jobs of `making` were made, but for those that were refused. Their firings then have no
 * job.
 */
export function afterMaking(
  record: ScheduleRecord,
  fires: Fires,
  nowMs: number,
  refused: readonly Firing[] = [],
  why: RefusedFiring = 'full',
): ScheduleState {
  const { spec, state } = refused.length === 0 ? record : withoutJobs(record, fires, refused, why);
  const { making: _making, isReplacing: _isReplacing, previousMs: _previousMs, ...rest } = state;
  return withDueTime(rest, jitterOf(state.id, spec.jitterMs), nowMs);
}

function withoutJobs(
  record: ScheduleRecord,
  fires: Fires,
  refused: readonly Firing[],
  why: RefusedFiring,
): ScheduleRecord {
  const { spec, state } = record;
  const making = state.making ?? [];
  const [decided, without] = [making, refused].map((firings) => new Set(firings.map(firingKey)));
  const isDecided = (firing: Firing): boolean => decided?.has(firingKey(firing)) === true;
  const entries = making.map((firing): FiringEntry => {
    const { atMs, isManual } = firing;
    return { atMs, what: without?.has(firingKey(firing)) ? why : isManual ? 'manual' : 'made' };
  });
  const before: ScheduleState = {
    ...state,
    history: state.history.filter((entry) => !hasJob(entry) || !isDecided(firingOf(entry))),
    ...openOf(state.open?.filter((firing) => !isDecided(firing))),
  };
  const made = entries.findLast(({ what }) => what === 'made');
  return {
    spec,
    state: {
      ...before,
      lastMs: made?.atMs ?? state.previousMs,
      ...withEntries({ spec, state: before }, entries, fires),
    },
  };
}

/** Returns the state with `dueMs` set to the time of its next look, which is its position in the line. */
export function withDueTime(state: ScheduleState, jitterMs: number, nowMs: number): ScheduleState {
  const { dueMs: _, stopped, ...rest } = state;
  const { nextMs, queuedMs, making } = rest;
  if (making !== undefined) return { ...state, dueMs: state.dueMs ?? nowMs };
  if (stopped !== undefined && stopped !== 'ended') return { ...rest, stopped };
  const looks = [
    ...(nextMs === undefined ? [] : [nextMs + jitterMs]),
    // planted: waits-for-the-hint
    ...(queuedMs === undefined ? [] : [nowMs + QUEUED_LOOK_MS]),
  ];
  // planted: unmoved-entry
  return looks.length === 0 ? { ...rest, stopped: 'ended' } : { ...rest, dueMs: Math.min(...looks) };
}

/**
 * Returns the state of a schedule that is stopped until it is resumed. A firing that waited for the end of a job is
 * dropped.
 */
export function stop(record: ScheduleRecord, reason: PauseReason, nowMs: number): ScheduleState {
  // planted: paused-fires
  const { dueMs: _, queuedMs, ...rest } = record.state;
  const droppedEntries =
    queuedMs === undefined ? [] : [entryOf('paused', { fromMs: queuedMs, untilMs: queuedMs })];
  // planted: pause-keeps-waiting
  return { ...rest, ...withEntries(record, droppedEntries), stopped: reason, changedAtMs: nowMs };
}

/** Returns the history entry for the firings that a stopped schedule has left out, added when it is resumed. */
export function pausedEntries(
  { state }: ScheduleRecord,
  fires: Fires,
  nowMs: number,
): readonly FiringEntry[] {
  if (state.stopped === undefined || state.stopped === 'ended') return [];
  const fromMs = fires.next(state.dealtMs);
  if (fromMs === undefined || fromMs > nowMs) return [];
  return [entryOf('paused', { fromMs, untilMs: latestFiring(fires, state.dealtMs, nowMs) ?? fromMs })];
}

/**
 * Returns the history with these entries added, cut to its bound. Firings left out in a row for the same reason share
 * one entry. A schedule that looks at its jobs, because of other firings or of failures, keeps the open firings that
 * are cut off.
 *
 * @param fires - tells which firings follow each other; without it, no entries are joined
 */
export function withEntries(
  { spec, state }: ScheduleRecord,
  entries: readonly FiringEntry[],
  fires?: Fires,
): Pick<ScheduleState, 'history' | 'open'> {
  const isInRow = (last: FiringEntry, entry: FiringEntry): boolean =>
    last.what === entry.what &&
    !hasJob(entry) &&
    fires !== undefined &&
    (fires.next(last.untilMs ?? last.atMs) ?? Infinity) >= entry.atMs;
  const all: FiringEntry[] = [...state.history];
  for (const entry of entries) {
    const last = all.at(-1);
    if (last === undefined || !isInRow(last, entry)) all.push(entry);
    else all[all.length - 1] = { ...last, untilMs: entry.untilMs ?? entry.atMs };
  }
  const cut = Math.max(0, all.length - HISTORY_MAX);
  const looksAtJobs = spec.ifRunning !== 'allow' || spec.maxFailures !== undefined;
  // planted: forgotten-open
  const open = looksAtJobs ? [...(state.open ?? []), ...all.slice(0, cut).filter(isOpen).map(firingOf)] : [];
  return { history: all.slice(cut), ...openOf(open.slice(-OPEN_MAX)) };
}

/** Returns the state of a schedule that is resumed. Firings that were due meanwhile are left out. */
export function resume(record: ScheduleRecord, fires: Fires, nowMs: number): ScheduleState {
  const { spec, state } = record;
  const { stopped: _, ...rest } = state;
  const jitterMs = jitterOf(state.id, spec.jitterMs);
  const dealtMs = Math.max(state.dealtMs, nowMs - jitterMs);
  const historyWithPauses = withEntries(record, pausedEntries(record, fires, dealtMs), fires);
  const resumedState = {
    ...rest,
    ...historyWithPauses,
    failures: 0,
    dealtMs,
    nextMs: fires.next(dealtMs),
    changedAtMs: nowMs,
  };
  return withDueTime(resumedState, jitterMs, nowMs);
}

const entryOf = (what: FiringEntry['what'], { fromMs, untilMs }: Span): FiringEntry => ({
  atMs: fromMs,
  what,
  ...(untilMs === fromMs ? {} : { untilMs }),
});

/** Returns the firings between two instants that blackouts leave out, at most as many as the history holds. */
function blackoutSpans(fires: Fires, afterMs: number, untilMs: number): readonly Span[] {
  const spans: Span[] = [];
  let atMs: number | undefined = fires.regardless === undefined ? undefined : afterMs;
  for (let firings = 0; atMs !== undefined && atMs < untilMs && firings < FIRINGS_MAX; firings += 1) {
    const span = inBlackout(fires, atMs);
    if (span !== undefined) spans.push(span);
    atMs = fires.next(atMs);
  }
  return spans.slice(-HISTORY_MAX);
}

interface Span {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Returns the firings up to an instant, divided into those that make jobs and those that were missed. */
function dueFirings(
  spec: ScheduleSpec,
  state: ScheduleState,
  fires: Fires,
  untilMs: number,
): { readonly firings: readonly number[]; readonly missed: Span | undefined; readonly dealtMs: number } {
  const lastMissedMs = latestFiring(fires, state.dealtMs, untilMs - spec.misfireGraceMs - 1);
  const lateOnes =
    lastMissedMs === undefined
      ? { firings: [], missed: undefined }
      : lateFirings(spec, state.dealtMs, fires, lastMissedMs);
  const onTime = firingsIn(fires, lastMissedMs ?? state.dealtMs, untilMs, FIRINGS_MAX);
  return {
    firings: [...lateOnes.firings, ...onTime],
    missed: lateOnes.missed,
    dealtMs: onTime.at(-1) ?? lastMissedMs ?? state.dealtMs,
  };
}

/**
 * Splits the firings that are later than their grace, up to the last one, into those that the policy carries out and
 * those that are missed.
 */
function lateFirings(
  { misfire, misfireMax }: ScheduleSpec,
  afterMs: number,
  fires: Fires,
  lastMs: number,
): { readonly firings: readonly number[]; readonly missed: Span | undefined } {
  if (misfire === 'all') {
    // planted: misfires-one-more
    const firings = firingsIn(fires, afterMs, lastMs, misfireMax);
    const fromMs = fires.next(firings.at(-1) ?? afterMs);
    const isOver = fromMs === undefined || fromMs > lastMs;
    return { firings, missed: isOver ? undefined : { fromMs, untilMs: lastMs } };
  }
  const fromMs = fires.next(afterMs) ?? lastMs;
  if (misfire === 'skip') return { firings: [], missed: { fromMs, untilMs: lastMs } };
  const untilMs = latestFiring(fires, afterMs, lastMs - 1);
  return { firings: [lastMs], missed: untilMs === undefined ? undefined : { fromMs, untilMs } };
}

/** Returns the firings after one instant, up to another, in order; at most `max`. */
function firingsIn(fires: Fires, afterMs: number, untilMs: number, max: number): readonly number[] {
  const firings: number[] = [];
  let next = fires.next(afterMs);
  while (next !== undefined && next <= untilMs && firings.length < max) {
    firings.push(next);
    next = fires.next(next);
  }
  return firings;
}

/** Returns the firings that make a job now, in order. */
function choose(
  policy: ScheduleSpec['ifRunning'],
  firings: readonly number[],
  { isRunning, queuedMs }: { readonly isRunning: boolean; readonly queuedMs: number | undefined },
): {
  readonly made: readonly number[];
  readonly skipped: Span | undefined;
  readonly queuedMs: number | undefined;
} {
  if (policy === 'allow' || firings.length === 0) return { made: firings, skipped: undefined, queuedMs };
  if (policy === 'replace')
    return { made: firings.slice(-1), skipped: spanOf(firings.slice(0, -1)), queuedMs: undefined };
  const made = isRunning ? [] : firings.slice(0, 1);
  const waiting = firings.slice(made.length);
  if (policy === 'skip') return { made, skipped: spanOf(waiting), queuedMs: undefined };
  const nextQueuedMs = queuedMs ?? waiting[0];
  return { made, skipped: spanOf(waiting.filter((atMs) => atMs !== nextQueuedMs)), queuedMs: nextQueuedMs };
}

function spanOf(firings: readonly number[]): Span | undefined {
  const [fromMs] = firings;
  const untilMs = firings.at(-1);
  return fromMs === undefined || untilMs === undefined ? undefined : { fromMs, untilMs };
}

/** The names that a template may contain. */
export const TEMPLATE_NAMES = ['scheduleId', 'scheduledAt', 'scheduledLocal', 'previousAt'] as const;
export type TemplateName = (typeof TEMPLATE_NAMES)[number];

const TEMPLATE = /\{\{\s*([^{}]*?)\s*\}\}/g;

/** Returns the unknown names in the texts of a template. */
export function unknownNames(template: Json): readonly string[] {
  const known: readonly string[] = TEMPLATE_NAMES;
  return [...JSON.stringify(template).matchAll(TEMPLATE)].flatMap(([, name = '']) =>
    known.includes(name) ? [] : [name],
  );
}

/** Returns the payload with each name in its texts replaced by its value. Names of object fields stay as they are. */
export function fillTemplate(template: Json, values: Readonly<Record<TemplateName, string>>): Json {
  if (typeof template === 'string')
    return template.replaceAll(TEMPLATE, (whole, name: string) =>
      Object.hasOwn(values, name) ? values[name as TemplateName] : whole,
    );
  if (Array.isArray(template)) return template.map((each: Json) => fillTemplate(each, values));
  if (typeof template !== 'object' || template === null) return template;
  return Object.fromEntries(
    Object.entries(template).map(([name, each]) => [name, fillTemplate(each as Json, values)]),
  );
}
