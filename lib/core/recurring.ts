/**
 * A schedule: what was asked for, how far it is, and what a look at it decides. Pure: which firings become jobs, which do
 * not and why, and when to look again.
 *
 * A firing is decided once, by one write of the state that names the jobs to be made (`making`). They are made next, and
 * a second write moves the schedule to its next firing. Whoever finds `making` completes it before anything else, so a crash
 * between the two loses nothing; and since a job's id follows from its firing, repeating it doubles nothing.
 *
 * Instants are epoch milliseconds. A firing is named by the instant that the time rules give; its job is due later by the
 * schedule's jitter.
 */
import { type History, isTerminal, type JobMode, type JobState, type Json } from './job.ts';
import { type Fires, inBlackout, jitterOf, latestFiring, type TimeRules } from './schedule.ts';

/** What becomes of firings that were noticed later than `misfireGraceMs`. */
export const MISFIRE_POLICIES = ['skip', 'once', 'all'] as const;
/** What a firing does while the schedule's last job has not ended. */
export const RUNNING_POLICIES = ['allow', 'skip', 'queue', 'replace'] as const;

/** The job that each firing makes. */
export interface ScheduledJob {
  readonly type: string;
  readonly payload: Json;
  /** Texts of the payload may name what a firing knows: see `payloadOf`. */
  readonly isTemplate: boolean;
  readonly priority: number;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
}

/** What was asked for, with every default filled in. */
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
  /** `skip`: none of them. `once`: the latest one for all. `all`: each, the oldest first, up to `misfireMax`. */
  readonly misfire: (typeof MISFIRE_POLICIES)[number];
  readonly misfireGraceMs: number;
  readonly misfireMax: number;
  /** `queue`: one firing waits for the end. `replace`: the unfinished ones are cancelled. */
  readonly ifRunning: (typeof RUNNING_POLICIES)[number];
  /** Failed jobs in a row after which the schedule pauses itself. */
  readonly maxFailures?: number | undefined;
  readonly job: ScheduledJob;
}

/** What makes one job: an instant of the time rules, or one at which somebody asked. */
export interface Firing {
  readonly atMs: number;
  readonly isManual: boolean;
}

/** What became of a firing, or of several in a row. */
export interface FiringEntry {
  readonly atMs: number;
  /**
   * `made`: there is a job. `manual`: there is one, because somebody asked for it. `missed`: noticed too late. `running`: the job
   * before had not ended. `paused`: the schedule was stopped. `blackout`: it was in one.
   */
  readonly what: 'made' | 'manual' | 'missed' | 'running' | 'paused' | 'blackout';
  /** Of several: the last one. */
  readonly untilMs?: number | undefined;
  /** Of its job, as it was last seen. */
  readonly jobState?: JobState | 'gone' | undefined;
  /** How long after its instant, jitter included, the first attempt of its job started. */
  readonly lateMs?: number | undefined;
}

export type PauseReason = 'asked' | 'failures' | 'type';

/** How far a schedule is. Small: it is written with each firing. */
export interface ScheduleState {
  readonly id: string;
  /** Raised by every write: whoever writes names the one that was read. */
  readonly revision: number;
  /** Where its firings' jobs go, and in whose line it stands. */
  readonly partition: number;
  /** Made by a deployment, which alone may change or remove it. */
  readonly isDeclared: boolean;
  /** Absent: it is active. `ended`: no firing is left. */
  readonly stopped?: 'ended' | PauseReason | undefined;
  /** Where `every` counts from, unless the schedule has a start. */
  readonly anchorMs: number;
  /** Everything up to this firing, or instant, was dealt with. */
  readonly dealtMs: number;
  /** The firing after that. */
  readonly nextMs?: number | undefined;
  /** When a pass must look: its place in the line; absent: in none. */
  readonly dueMs?: number | undefined;
  /** Decided firings whose jobs may not have been made yet. */
  readonly making?: readonly Firing[] | undefined;
  /** Beside `making`: those jobs take the place of whatever was open before. */
  readonly isReplacing?: boolean | undefined;
  /** Beside `making`: the last firing that made a job before these. */
  readonly previousMs?: number | undefined;
  /** A firing that waits for the end of the last job. */
  readonly queuedMs?: number | undefined;
  /** The last firing that made a job. */
  readonly lastMs?: number | undefined;
  /** Failed jobs in a row. */
  readonly failures: number;
  /** The last ten, the oldest first. */
  readonly history: readonly FiringEntry[];
  /** Firings that the history has no room for, whose jobs have not been seen to end; of a schedule that looks at its jobs. */
  readonly open?: readonly Firing[] | undefined;
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface ScheduleRecord {
  readonly spec: ScheduleSpec;
  readonly state: ScheduleState;
}

const HISTORY_MAX = 10;
/** Open firings beside the history: of more than these, the oldest are forgotten. */
export const OPEN_MAX = 100;
/** Firings that one look decides. */
export const FIRINGS_MAX = 100;
/** A firing that waits for the end of a job is looked at so often, should the hint of that end be lost. */
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

/** What was seen of a firing's job. */
export interface SeenJob {
  readonly state: JobState;
  readonly startedAtMs?: number | undefined;
  readonly history?: History | undefined;
}

/** When a job's first attempt began, of those that are remembered: the job itself says it of the last one. */
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
 * The state with what was seen of its open firings' jobs; a job that is not there has expired long after its end.
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

/** Absent where it is empty: what is written is small. */
const openOf = (open: readonly Firing[] = []): Pick<ScheduleState, 'open'> =>
  open.length === 0 ? { open: undefined } : { open };

export const firingKey = ({ atMs, isManual }: Firing): string => `${isManual ? 'now/' : ''}${atMs}`;

export type Look =
  /** There is nothing to write. */
  | { readonly kind: 'rest' }
  /** Write this; nothing is to be made. */
  | { readonly kind: 'save'; readonly state: ScheduleState }
  /** Write this, cancel what `replacedBy` names, make the jobs of `making`, and then write what `made` answers. */
  | { readonly kind: 'make'; readonly state: ScheduleState };

/**
 * What a look at an active schedule decides, whose open firings were just seen (`withSeen`).
 *
 * @param fires - by `rulesOf` of its spec
 */
export function look(record: ScheduleRecord, fires: Fires, nowMs: number): Look {
  const { spec, state } = record;
  // planted: paused-fires-2
  if (state.stopped !== undefined || state.making !== undefined) return { kind: 'rest' };
  if (spec.maxFailures !== undefined && state.failures >= spec.maxFailures)
    return { kind: 'save', state: stoppedBy(record, 'failures', nowMs) };
  const jitterMs = jitterOf(state.id, spec.jitterMs);
  // planted: jitter-forgotten-by-ends
  const due = dueFirings(spec, state, fires, nowMs - jitterMs);
  const open = openFirings(state);
  // One that waited under another policy is dealt with as this one says.
  const isQueueOver = open.length === 0 || spec.ifRunning !== 'queue';
  const queued = state.queuedMs !== undefined && isQueueOver ? [state.queuedMs] : [];
  if (due.dealtMs === state.dealtMs && queued.length === 0) return { kind: 'rest' };
  const chosen = choose(spec.ifRunning, [...queued, ...due.firings], {
    isRunning: open.length > 0,
    queuedMs: queued.length > 0 ? undefined : state.queuedMs,
  });
  const making = chosen.made.map((atMs) => ({ atMs, isManual: false }));
  const entries: FiringEntry[] = [
    ...leftOutBetween(fires, state.dealtMs, due.dealtMs).map((span) => entryOf('blackout', span)),
    ...(due.missed === undefined ? [] : [entryOf('missed', due.missed)]),
    ...(chosen.passedOver === undefined ? [] : [entryOf('running', chosen.passedOver)]),
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
  if (making.length === 0) return { kind: 'save', state: placed(decided, jitterMs, nowMs) };
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

/** The firings whose jobs those that are being made take the place of. */
export function replacedBy(state: ScheduleState): readonly Firing[] {
  if (state.isReplacing !== true) return [];
  const isMaking = new Set((state.making ?? []).map(firingKey));
  return openFirings(state).filter((firing) => !isMaking.has(firingKey(firing)));
}

/** The firing before this one that made a job, or makes one; undefined: it is the first. */
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

/** The state once the jobs of `making` are there. */
export function made({ spec, state }: ScheduleRecord, nowMs: number): ScheduleState {
  const { making: _making, isReplacing: _isReplacing, previousMs: _previousMs, ...rest } = state;
  return placed(rest, jitterOf(state.id, spec.jitterMs), nowMs);
}

/** A state in the place where its next look finds it. */
export function placed(state: ScheduleState, jitterMs: number, nowMs: number): ScheduleState {
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

/** A schedule that fires no more until somebody resumes it. A firing that waited for the end of a job is left out. */
export function stoppedBy(record: ScheduleRecord, reason: PauseReason, nowMs: number): ScheduleState {
  // planted: paused-fires
  const { dueMs: _, queuedMs, ...rest } = record.state;
  const waited = queuedMs === undefined ? [] : [entryOf('paused', { fromMs: queuedMs, untilMs: queuedMs })];
  // planted: pause-keeps-waiting
  return { ...rest, ...withEntries(record, waited), stopped: reason, changedAtMs: nowMs };
}

/** What a schedule would have fired since it was stopped, as its history tells once it goes on. */
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
 * The history with what is added to it, cut to what is kept. Of firings that were left out in a row for one reason, it has one
 * entry. Who looks at its jobs, because of other firings or of failures, does not forget one that is open.
 *
 * @param fires - tells what is in a row; without it nothing is
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

/** A schedule that goes on: what was due meanwhile is left out. */
export function resumed(record: ScheduleRecord, fires: Fires, nowMs: number): ScheduleState {
  const { spec, state } = record;
  const { stopped: _, ...rest } = state;
  const jitterMs = jitterOf(state.id, spec.jitterMs);
  const dealtMs = Math.max(state.dealtMs, nowMs - jitterMs);
  const left = withEntries(record, pausedEntries(record, fires, dealtMs), fires);
  const going = { ...rest, ...left, failures: 0, dealtMs, nextMs: fires.next(dealtMs), changedAtMs: nowMs };
  return placed(going, jitterMs, nowMs);
}

const entryOf = (what: FiringEntry['what'], { fromMs, untilMs }: Span): FiringEntry => ({
  atMs: fromMs,
  what,
  ...(untilMs === fromMs ? {} : { untilMs }),
});

/** The firings that blackouts leave out on the way from one instant to another, as many as the history holds. */
function leftOutBetween(fires: Fires, afterMs: number, untilMs: number): readonly Span[] {
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

/** The firings up to an instant that are to be carried out, and those that were missed. */
function dueFirings(
  spec: ScheduleSpec,
  state: ScheduleState,
  fires: Fires,
  untilMs: number,
): { readonly firings: readonly number[]; readonly missed: Span | undefined; readonly dealtMs: number } {
  const lastMissedMs = latestFiring(fires, state.dealtMs, untilMs - spec.misfireGraceMs - 1);
  const late =
    lastMissedMs === undefined
      ? { firings: [], missed: undefined }
      : lateFirings(spec, state.dealtMs, fires, lastMissedMs);
  const onTime = firingsIn(fires, lastMissedMs ?? state.dealtMs, untilMs, FIRINGS_MAX);
  return {
    firings: [...late.firings, ...onTime],
    missed: late.missed,
    dealtMs: onTime.at(-1) ?? lastMissedMs ?? state.dealtMs,
  };
}

/** Of the firings that are later than their grace allows, up to the last one: those that the policy carries out, and the others. */
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

/** Firings after an instant up to another one, in their order, and no more than `max`. */
function firingsIn(fires: Fires, afterMs: number, untilMs: number, max: number): readonly number[] {
  const firings: number[] = [];
  let next = fires.next(afterMs);
  while (next !== undefined && next <= untilMs && firings.length < max) {
    firings.push(next);
    next = fires.next(next);
  }
  return firings;
}

/** Which of these firings make a job now, in their order. */
function choose(
  policy: ScheduleSpec['ifRunning'],
  firings: readonly number[],
  { isRunning, queuedMs }: { readonly isRunning: boolean; readonly queuedMs: number | undefined },
): {
  readonly made: readonly number[];
  readonly passedOver: Span | undefined;
  readonly queuedMs: number | undefined;
} {
  if (policy === 'allow' || firings.length === 0) return { made: firings, passedOver: undefined, queuedMs };
  if (policy === 'replace')
    return { made: firings.slice(-1), passedOver: spanOf(firings.slice(0, -1)), queuedMs: undefined };
  const made = isRunning ? [] : firings.slice(0, 1);
  const waiting = firings.slice(made.length);
  if (policy === 'skip') return { made, passedOver: spanOf(waiting), queuedMs: undefined };
  const waits = queuedMs ?? waiting[0];
  return { made, passedOver: spanOf(waiting.filter((atMs) => atMs !== waits)), queuedMs: waits };
}

function spanOf(firings: readonly number[]): Span | undefined {
  const [fromMs] = firings;
  const untilMs = firings.at(-1);
  return fromMs === undefined || untilMs === undefined ? undefined : { fromMs, untilMs };
}

/** What a template may name. */
export const TEMPLATE_NAMES = ['scheduleId', 'scheduledAt', 'scheduledLocal', 'previousAt'] as const;
export type TemplateName = (typeof TEMPLATE_NAMES)[number];

const TEMPLATE = /\{\{\s*([^{}]*?)\s*\}\}/g;

/** Names in the texts of a template that mean nothing. */
export function unknownNames(template: Json): readonly string[] {
  const known: readonly string[] = TEMPLATE_NAMES;
  return [...JSON.stringify(template).matchAll(TEMPLATE)].flatMap(([, name = '']) =>
    known.includes(name) ? [] : [name],
  );
}

/** The payload with what stands for each name. Names of objects stay as they are. */
export function filled(template: Json, values: Readonly<Record<TemplateName, string>>): Json {
  if (typeof template === 'string')
    return template.replaceAll(TEMPLATE, (whole, name: string) =>
      Object.hasOwn(values, name) ? values[name as TemplateName] : whole,
    );
  if (Array.isArray(template)) return template.map((each: Json) => filled(each, values));
  if (typeof template !== 'object' || template === null) return template;
  return Object.fromEntries(
    Object.entries(template).map(([name, each]) => [name, filled(each as Json, values)]),
  );
}
