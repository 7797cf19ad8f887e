/** What is asked of schedules: made, changed, looked at, stopped, removed. Whoever changes one completes what was decided before. */

import { ThrottledError } from '../core/errors.ts';
import {
  pausedEntries,
  placed,
  resumed,
  rulesOf,
  type ScheduleRecord,
  type ScheduleSpec,
  type ScheduleState,
  stoppedBy,
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
  seen,
  written,
} from '../dispatch/pass/firing.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import { MalformedItemError } from '../store/contract/errors.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { ScheduleStore } from '../store/contract/schedules.ts';

export interface SchedulesContext extends FiringContext {
  readonly store: FiringContext['store'] & ScheduleStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Pick<Clock, 'nowMs'>;
}

export type PutOutcome =
  | { readonly kind: 'created' | 'changed' | 'unchanged'; readonly record: ScheduleRecord }
  /** It is another one's to change: the deployment's, or whoever made it while the scheduler ran. */
  | { readonly kind: 'owned'; readonly record: ScheduleRecord };

/** Others may write the same schedule meanwhile: as often as this. */
const TRIES_MAX = 10;

/**
 * Reads a schedule, completes what was decided of it, and writes what `change` makes of it, again if somebody else was
 * faster.
 *
 * @param change - undefined: there is nothing to write
 */
async function changing<T>(
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
    `schedule ${id}: others changed it at each of ${TRIES_MAX} tries, nothing was changed; try again`,
  );
}

/** Tells who fires that it may be due soon. One that gets lost is made up for by the next tick. */
async function wake(context: SchedulesContext, { state }: ScheduleRecord): Promise<void> {
  if (state.dueMs !== undefined) await wakeForSchedules(context, state.partition, [state.dueMs]);
}

const sameTimes = (one: ScheduleSpec, other: ScheduleSpec): boolean => timesText(one) === timesText(other);
const timesText = (spec: ScheduleSpec): string => JSON.stringify([rulesOf(spec, 0), spec.jitterMs]);

/** Texts of equal contents are equal: a spec is always made in the same way. */
const isSame = (one: ScheduleSpec, other: ScheduleSpec): boolean => canonical(one) === canonical(other);
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );

/**
 * Makes a schedule what is asked for. What it has fired stays fired; where its times change, firings that are past and were
 * not decided are left out, else they are still carried out.
 */
export async function putSchedule(
  context: SchedulesContext,
  id: string,
  spec: ScheduleSpec,
  isDeclared: boolean,
): Promise<PutOutcome> {
  let put: ScheduleRecord | undefined;
  const outcome = await changing<PutOutcome>(context, id, (read) => {
    if (read !== undefined && read.state.isDeclared !== isDeclared)
      return { answer: { kind: 'owned', record: read } };
    if (read !== undefined && isSame(read.spec, spec)) return { answer: { kind: 'unchanged', record: read } };
    const record = { spec, state: stateOf(context, id, spec, isDeclared, read) };
    put = record;
    return {
      answer: { kind: read === undefined ? 'created' : 'changed', record },
      write: async () =>
        (await context.store.putSchedule({ record, seen: read?.state.revision ?? 0 })) === 'applied',
    };
  });
  if (put !== undefined) await wake(context, put);
  return outcome;
}

/**
 * Of a schedule that is new. Not 1: whoever read a former one of its name, and stood still while that was removed, must not
 * take this one for it. Fewer writes than this take place in a millisecond.
 */
const firstRevision = (nowMs: number): number => Math.floor(nowMs) * 1_000 + 1;

/**
 * What had stopped by itself goes on with a change, and what somebody has paused has other times from now on: the history tells
 * what was left out until then.
 */
function leftOut(
  read: ScheduleRecord | undefined,
  keepsTimes: boolean,
  nowMs: number,
): Partial<ScheduleState> {
  if (read?.state.stopped === undefined || (read.state.stopped === 'asked' && keepsTimes)) return {};
  const fires = firesOfRecord(read);
  return withEntries(read, pausedEntries(read, fires, nowMs), fires);
}

function stateOf(
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
    ...leftOut(read, keepsTimes, nowMs),
    id,
    revision: read === undefined ? firstRevision(nowMs) : read.state.revision + 1,
    partition: context.partitionOf(spec.job.fairnessKey),
    isDeclared,
    // Who asked for a pause ends it; what had ended, or stopped by itself, begins again.
    stopped: stopped === 'asked' ? stopped : undefined,
    anchorMs,
    dealtMs: stopped === undefined || stopped === 'asked' ? dealtMs : Math.max(nowMs, dealtMs),
    nextMs: undefined,
    changedAtMs: nowMs,
  };
  const nextMs = firesOf(rulesOf(spec, anchorMs), readCron).next(state.dealtMs);
  const failures = stopped === undefined ? state.failures : 0;
  return placed({ ...state, failures, nextMs }, jitterOf(id, spec.jitterMs), nowMs);
}

/** The schedule as it is, with what its open firings' jobs are by now; undefined: there is none. */
export async function getSchedule(context: FiringContext, id: string): Promise<ScheduleRecord | undefined> {
  const [read] = await context.store.getSchedules({ ids: [id] });
  return read === undefined ? undefined : seen(context, read);
}

/** Stops a schedule: what it would fire meanwhile is left out. Answers it; undefined: there is none. */
export async function pauseSchedule(
  context: SchedulesContext,
  id: string,
): Promise<ScheduleRecord | undefined> {
  return steered(context, id, (record, nowMs) =>
    record.state.stopped === 'asked' ? undefined : stoppedBy(record, 'asked', nowMs),
  );
}

/** Lets a stopped schedule go on with its next firing. Answers it; undefined: there is none. */
export async function resumeSchedule(
  context: SchedulesContext,
  id: string,
): Promise<ScheduleRecord | undefined> {
  return steered(context, id, (record, nowMs) =>
    record.state.stopped === undefined ? undefined : resumed(record, firesOfRecord(record), nowMs),
  );
}

async function steered(
  context: SchedulesContext,
  id: string,
  next: (record: ScheduleRecord, nowMs: number) => ScheduleState | undefined,
): Promise<ScheduleRecord | undefined> {
  let steeredTo: ScheduleRecord | undefined;
  const record = await changing<ScheduleRecord | undefined>(context, id, (read) => {
    const state = read === undefined ? undefined : next(read, context.nowMs());
    if (read === undefined || state === undefined) return { answer: read };
    steeredTo = { spec: read.spec, state: { ...state, revision: read.state.revision + 1 } };
    return {
      answer: steeredTo,
      write: async () => (await written(context, read, state)) !== undefined,
    };
  });
  // planted: resumed-unheard
  if (steeredTo !== undefined) await wake(context, steeredTo);
  return record;
}

/** Removes a schedule. Jobs that it has made go on. One that cannot be read says no owner, and goes whoever asks. */
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
  return changing(context, id, (read) => {
    if (read === undefined) return { answer: 'missing' };
    // planted: declared-takes-all
    if (read.state.isDeclared !== isDeclared) return { answer: 'owned' };
    return {
      answer: 'deleted',
      write: async () =>
        (await context.store.deleteSchedule({ id, seen: read.state.revision })) === 'applied',
    };
  });
}

/** Whoever asks for a job of a schedule. */
export interface RunRequest {
  /** Names the request: one that comes twice makes one job. */
  readonly askedAtMs?: number | undefined;
  /** The trace that it is part of. Whoever completes what this process leaves undone knows of none. */
  readonly traceparent?: string | undefined;
}

export type RunNowOutcome =
  | { readonly kind: 'made'; readonly jobId: string }
  /** There is no such schedule. */
  | { readonly kind: 'missing' }
  /** Nobody would run its job: its type is not declared any more. */
  | { readonly kind: 'unknownType'; readonly type: string };

/** Makes a schedule's job now, beside its firings. */
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
    const last = state.history.findLast(({ what }) => what === 'manual');
    const atMs = askedAtMs ?? Math.max(context.nowMs(), (last?.atMs ?? 0) + 1);
    const firing = { atMs, isManual: true };
    if (state.history.some((entry) => entry.what === 'manual' && entry.atMs === atMs))
      return { kind: 'made', jobId: firingJobId(id, firing) };
    const making = await written(context, read, {
      ...state,
      // planted: run-now-moves
      making: [firing],
      previousMs: state.lastMs,
      // Somewhere to be found again, should this process die; a stopped one is looked at, too.
      // planted: asked-for-nowhere
      dueMs: state.dueMs ?? atMs,
      ...withEntries(read, [{ atMs, what: 'manual' }]),
    });
    if (making === undefined) continue;
    await complete(context, making, traceparent);
    return { kind: 'made', jobId: firingJobId(id, firing) };
  }
  throw new ThrottledError(
    `schedule ${id}: others changed it at each of ${TRIES_MAX} tries, nothing was changed; try again`,
  );
}

const PAGE = 100;

/** Schedules, those that fire soonest first in each partition, then those that are stopped; from the index, so it may lag. */
export async function* listSchedules(
  { store }: { readonly store: ScheduleStore },
  partitions: readonly number[],
): AsyncGenerator<ScheduleRecord> {
  const told = new Set<string>();
  for (const partition of partitions) {
    for (const read of [
      (after?: string) =>
        store.readDueSchedules({ partition, fromMs: -1, untilMs: LAST_MS, limit: PAGE, after }),
      (after?: string) => store.readStoppedSchedules({ partition, limit: PAGE, after }),
    ]) {
      for await (const { schedules } of pagesOf(read)) {
        const ids = schedules.flatMap(({ id }) => (told.has(id) ? [] : [id]));
        for (const id of ids) told.add(id);
        // One that cannot be read is told of by the store, and left out.
        const records = await store.getSchedules({ ids, unreadable: () => {} });
        for (const record of records) if (record !== undefined) yield record;
      }
    }
  }
}

const LAST_MS = 999_999_999_999_998;
