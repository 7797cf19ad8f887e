/**
 * Use cases of schedules: create, change, read, pause, resume, run now, list, delete. A change first completes the
 * firings that were decided before it.
 */

import { ThrottledError } from '../core/errors.ts';
import {
  pausedEntries,
  resume,
  rulesOf,
  type ScheduleRecord,
  type ScheduleSpec,
  type ScheduleState,
  stop,
  withDueTime,
  withEntries,
} from '../core/recurring.ts';
import { firesOf, jitterOf } from '../core/schedule.ts';
import { readCron } from '../cron/croner.ts';
import { wakeForSchedules } from '../dispatch/partition/timers.ts';
import {
  complete,
  type FiringContext,
  firesOfRecord,
  firingJobId,
  saveState,
  withJobStates,
} from '../dispatch/pass/firing.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import { MalformedItemError } from '../store/contract/errors.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { ScheduleStore } from '../store/contract/schedules.ts';
import { excessUnitsOf, type Misfit } from '../submit/misfit.ts';
import type { BacklogFull } from '../submit/waiting.ts';

export interface SchedulesContext extends FiringContext {
  readonly store: FiringContext['store'] & ScheduleStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Pick<Clock, 'nowMs' | 'sleep'>;
}

export type PutOutcome =
  | { readonly kind: 'created' | 'changed' | 'unchanged'; readonly record: ScheduleRecord }
  /** The schedule belongs to a deployment, or it was created at run time and a deployment wants to change it. */
  | { readonly kind: 'owned'; readonly record: ScheduleRecord };

/** How often a write of a schedule is tried while others write it. */
const TRIES_MAX = 10;

/**
 * Reads a schedule, completes its recorded firings, and writes what `change` returns. Repeats this if another process
 * wrote the schedule in between.
 *
 * @param change - returns the answer, and the write unless there is nothing to write
 */
async function changeSchedule<T>(
  context: FiringContext,
  id: string,
  change: (record: ScheduleRecord | undefined) => {
    readonly answer: T;
    readonly write?: ((record: ScheduleRecord | undefined) => Promise<boolean>) | undefined;
  },
): Promise<T> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const [read] = await context.store.getSchedules({ ids: [id] });
    // planted: uncompleted-change
    if (read?.state.making !== undefined) {
      await complete(context, read);
      continue;
    }
    const { answer, write } = change(read);
    if (write === undefined || (await write(read))) return answer;
  }
  throw new ThrottledError(
    `schedule ${id}: other processes changed it during each of ${TRIES_MAX} attempts, nothing was changed; try again`,
  );
}

/** Wakes the dispatcher in time for the next firing. If the wake gets lost, the next tick finds the firing. */
async function wake(context: SchedulesContext, { state }: ScheduleRecord): Promise<void> {
  if (state.dueMs !== undefined) await wakeForSchedules(context, state.partition, [state.dueMs]);
}

const sameTimes = (one: ScheduleSpec, other: ScheduleSpec): boolean => timesText(one) === timesText(other);
const timesText = (spec: ScheduleSpec): string => JSON.stringify([rulesOf(spec, 0), spec.jitterMs]);

/** Whether two specs are the same: as JSON with sorted field names, equal content gives equal text. */
const isSame = (one: ScheduleSpec, other: ScheduleSpec): boolean => canonical(one) === canonical(other);
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );

/**
 * Creates a schedule, or changes it to `spec`. Earlier firings stand. Past firings that were not decided yet are
 * skipped if the times change, and still carried out otherwise.
 */
export async function putSchedule(
  context: SchedulesContext,
  id: string,
  spec: ScheduleSpec,
  isDeclared: boolean,
): Promise<PutOutcome> {
  let put: ScheduleRecord | undefined;
  const outcome = await changeSchedule<PutOutcome>(context, id, (read) => {
    if (read !== undefined && read.state.isDeclared !== isDeclared)
      return { answer: { kind: 'owned', record: read } };
    if (read !== undefined && isSame(read.spec, spec)) return { answer: { kind: 'unchanged', record: read } };
    const record = { spec, state: nextState(context, id, spec, isDeclared, read) };
    put = record;
    return {
      answer: { kind: read === undefined ? 'created' : 'changed', record },
      write: async () =>
        (await context.store.putSchedule({ record, afterRevision: read?.state.revision ?? 0 })) === 'applied',
    };
  });
  if (put !== undefined) await wake(context, put);
  return outcome;
}

/**
 * Returns the first revision of a new schedule. It is not 1, because a process that read an earlier schedule of the
 * same id, and was paused while that one was deleted, must not mistake this one for it. It is derived from the time: no
 * schedule is written 1,000 times in a millisecond.
 */
const firstRevision = (nowMs: number): number => Math.floor(nowMs) * 1_000 + 1;

/**
 * Returns the history entries for firings that were skipped while the schedule was stopped. They are added when a
 * change restarts a schedule that stopped by itself, or changes the times of a paused one.
 */
function skippedEntries(
  read: ScheduleRecord | undefined,
  keepsTimes: boolean,
  nowMs: number,
): Partial<ScheduleState> {
  if (read?.state.stopped === undefined || (read.state.stopped === 'asked' && keepsTimes)) return {};
  const fires = firesOfRecord(read);
  return withEntries(read, pausedEntries(read, fires, nowMs), fires);
}

function nextState(
  context: FiringContext,
  id: string,
  spec: ScheduleSpec,
  isDeclared: boolean,
  read: ScheduleRecord | undefined,
): ScheduleState {
  const nowMs = context.nowMs();
  const keepsTimes = read !== undefined && sameTimes(read.spec, spec);
  const keepsAnchor =
    read?.spec.when.kind === 'every' &&
    spec.when.kind === 'every' &&
    read.spec.when.everyMs === spec.when.everyMs;
  const before: Partial<ScheduleState> = read?.state ?? {};
  const anchorMs = keepsAnchor && read !== undefined ? read.state.anchorMs : nowMs;
  const dealtMs = keepsTimes ? (before.dealtMs ?? nowMs) : Math.max(nowMs, before.dealtMs ?? nowMs);
  const { stopped } = before;
  const state: ScheduleState = {
    failures: 0,
    history: [],
    createdAtMs: nowMs,
    ...before,
    ...skippedEntries(read, keepsTimes, nowMs),
    id,
    revision: read === undefined ? firstRevision(nowMs) : read.state.revision + 1,
    partition: context.partitionOf(spec.job.fairnessKey),
    isDeclared,
    // Only resuming ends a pause that a user asked for. A schedule that ended or stopped by itself starts again.
    stopped: stopped === 'asked' ? stopped : undefined,
    anchorMs,
    dealtMs: stopped === undefined || stopped === 'asked' ? dealtMs : Math.max(nowMs, dealtMs),
    nextMs: undefined,
    changedAtMs: nowMs,
  };
  const nextMs = firesOf(rulesOf(spec, anchorMs), readCron).next(state.dealtMs);
  const failures = stopped === undefined ? state.failures : 0;
  return withDueTime({ ...state, failures, nextMs }, jitterOf(id, spec.jitterMs), nowMs);
}

/** Reads a schedule, with the current states of its open firings' jobs; undefined if it does not exist. */
export async function getSchedule(context: FiringContext, id: string): Promise<ScheduleRecord | undefined> {
  const [read] = await context.store.getSchedules({ ids: [id] });
  return read === undefined ? undefined : withJobStates(context, read);
}

/** Pauses a schedule: its firings are skipped until it is resumed. Returns it; undefined if it does not exist. */
export async function pauseSchedule(
  context: SchedulesContext,
  id: string,
): Promise<ScheduleRecord | undefined> {
  return changeState(context, id, (record, nowMs) =>
    record.state.stopped === 'asked' ? undefined : stop(record, 'asked', nowMs),
  );
}

/** Resumes a stopped schedule from its next firing. Returns it; undefined if it does not exist. */
export async function resumeSchedule(
  context: SchedulesContext,
  id: string,
): Promise<ScheduleRecord | undefined> {
  return changeState(context, id, (record, nowMs) =>
    record.state.stopped === undefined ? undefined : resume(record, firesOfRecord(record), nowMs),
  );
}

async function changeState(
  context: SchedulesContext,
  id: string,
  next: (record: ScheduleRecord, nowMs: number) => ScheduleState | undefined,
): Promise<ScheduleRecord | undefined> {
  let changed: ScheduleRecord | undefined;
  const record = await changeSchedule<ScheduleRecord | undefined>(context, id, (read) => {
    const state = read === undefined ? undefined : next(read, context.nowMs());
    if (read === undefined || state === undefined) return { answer: read };
    changed = { spec: read.spec, state: { ...state, revision: read.state.revision + 1 } };
    return {
      answer: changed,
      write: async () => (await saveState(context, read, state)) !== undefined,
    };
  });
  // planted: resumed-unheard
  if (changed !== undefined) await wake(context, changed);
  return record;
}

/** Deletes a schedule; its jobs stay. An unreadable schedule has no known owner, so anyone may delete it. */
export async function deleteSchedule(
  context: SchedulesContext,
  id: string,
  isDeclared: boolean,
): Promise<'deleted' | 'missing' | 'owned'> {
  try {
    return await deleteReadable(context, id, isDeclared);
  } catch (error) {
    if (!(error instanceof MalformedItemError)) throw error;
    if ((await context.store.discardSchedule(id)) === 'applied') return 'deleted';
    return deleteReadable(context, id, isDeclared);
  }
}

async function deleteReadable(
  context: SchedulesContext,
  id: string,
  isDeclared: boolean,
): Promise<'deleted' | 'missing' | 'owned'> {
  return changeSchedule(context, id, (read) => {
    if (read === undefined) return { answer: 'missing' };
    // planted: declared-takes-all
    if (read.state.isDeclared !== isDeclared) return { answer: 'owned' };
    return {
      answer: 'deleted',
      write: async () =>
        (await context.store.deleteSchedule({ id, afterRevision: read.state.revision })) === 'applied',
    };
  });
}

/** A request to run a schedule's job now. */
export interface RunRequest {
  /** When the request was made, in epoch milliseconds. It identifies the request: a repeated one makes one job. */
  readonly askedAtMs?: number | undefined;
  /** The trace that the request is part of. It is lost if another process completes the firing. */
  readonly traceparent?: string | undefined;
}

export type RunNowOutcome =
  | { readonly kind: 'made'; readonly jobId: string }
  /** No schedule has this id. */
  | { readonly kind: 'missing' }
  /** The type of its jobs is not declared any more, so no worker would run the job. */
  | { readonly kind: 'unknownType'; readonly type: string }
  /** Its jobs have more units than one may have now. */
  | { readonly kind: 'misfit'; readonly misfit: Misfit }
  | BacklogFull;

/** Makes a schedule's job now, in addition to its regular firings. */
export async function runNow(
  context: FiringContext,
  id: string,
  { askedAtMs, traceparent }: RunRequest = {},
): Promise<RunNowOutcome> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const [read] = await context.store.getSchedules({ ids: [id] });
    if (read === undefined) return { kind: 'missing' };
    if (read.state.making !== undefined) {
      await complete(context, read);
      continue;
    }
    const { state, spec } = read;
    if (!context.configuration.types.some(({ type }) => type === spec.job.type))
      return { kind: 'unknownType', type: spec.job.type };
    const misfit = excessUnitsOf(context.configuration, spec.job);
    if (misfit !== undefined) return { kind: 'misfit', misfit };
    const last = state.history.findLast(({ what }) => what === 'manual');
    const atMs = askedAtMs ?? Math.max(context.nowMs(), (last?.atMs ?? 0) + 1);
    const firing = { atMs, isManual: true };
    if (state.history.some((entry) => entry.what === 'manual' && entry.atMs === atMs))
      return { kind: 'made', jobId: firingJobId(id, firing) };
    const making = await saveState(context, read, {
      ...state,
      // planted: run-now-moves
      making: [firing],
      previousMs: state.lastMs,
      // This keeps the schedule in the line of due schedules, where a pass finds and completes the firing if this
      // process dies. Stopped schedules need it as well.
      // planted: asked-for-nowhere
      dueMs: state.dueMs ?? atMs,
      ...withEntries(read, [{ atMs, what: 'manual' }]),
    });
    if (making === undefined) continue;
    const [full] = (await complete(context, making, traceparent)).full ?? [];
    return full ?? { kind: 'made', jobId: firingJobId(id, firing) };
  }
  throw new ThrottledError(
    `schedule ${id}: other processes changed it during each of ${TRIES_MAX} attempts, nothing was changed; try again`,
  );
}

const PAGE = 100;

/**
 * Lists schedules, partition by partition: first the active ones, ordered by their next firing, then the stopped ones.
 * It reads the index, which may lag.
 */
export async function* listSchedules(
  { store }: { readonly store: ScheduleStore },
  partitions: readonly number[],
): AsyncGenerator<ScheduleRecord> {
  const listed = new Set<string>();
  for (const partition of partitions) {
    for (const read of [
      (after?: string) =>
        store.readDueSchedules({ partition, fromMs: -1, untilMs: LAST_DUE_MS, limit: PAGE, after }),
      (after?: string) => store.readStoppedSchedules({ partition, limit: PAGE, after }),
    ]) {
      for await (const { schedules } of pagesOf(read)) {
        const ids = schedules.flatMap(({ id }) => (listed.has(id) ? [] : [id]));
        for (const id of ids) listed.add(id);
        // The store logs schedules that it cannot read; the list leaves them out.
        const records = await store.getSchedules({ ids, unreadable: () => {} });
        for (const record of records) if (record !== undefined) yield record;
      }
    }
  }
}

const LAST_DUE_MS = 999_999_999_999_998;
