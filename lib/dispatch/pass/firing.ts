/**
 * Part of the load step: fires the schedules that are due. Each schedule is decided by itself, and its decision is written before
 * any job is made. A dispatcher that finds a decided firing without its jobs completes it.
 */

import { hash } from 'node:crypto';
import { expiryOf, listFinishedOf } from '../../core/configuration.ts';
import { isTerminal, type Job, type MovingJob, TERMINAL_TTL_MS } from '../../core/job.ts';
import { partitionOf } from '../../core/partition.ts';
import {
  afterMaking,
  decide,
  type Firing,
  type FiringEntry,
  fillTemplate,
  firingKey,
  openFirings,
  previousOf,
  replacedBy,
  rulesOf,
  type ScheduleRecord,
  type ScheduleState,
  stop,
  withDueTime,
  withSeen,
} from '../../core/recurring.ts';
import { type Fires, firesOf, jitterOf, localIso } from '../../core/schedule.ts';
import { readCron } from '../../cron/croner.ts';
import type { ProducerStore } from '../../store/contract/core.ts';
import type { ScheduleHeads, ScheduleStore } from '../../store/contract/schedules.ts';
import type { SubmitStore } from '../../store/contract/verbs.ts';
import { excessUnitsOf } from '../../submit/misfit.ts';
import { jobFrom } from '../../submit/request.ts';
import { type SubmitContext, submit, submitContextOf } from '../../submit/submit.ts';
import type { BacklogFull } from '../../submit/waiting.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeForSchedules } from '../partition/timers.ts';
import { FIRE_AT_ONCE, FIRE_ROUND_MS, FIRE_ROUNDS_MAX } from '../tuning.ts';

export interface FiringContext extends SubmitContext {
  readonly store: SubmitStore &
    Pick<ScheduleStore, 'getSchedules' | 'saveSchedule'> &
    Pick<ProducerStore, 'cancelJob'>;
  readonly partitionOf: (fairnessKey: string) => number;
}

const firingContextOf = (context: DispatchContext): FiringContext => ({
  ...submitContextOf(context),
  store: context.store,
  partitionOf: (fairnessKey) => partitionOf(fairnessKey, context.configuration.partitions),
});

export const firesOfRecord = ({ spec, state }: ScheduleRecord): Fires =>
  firesOf(rulesOf(spec, state.anchorMs), readCron);

/** Returns the id of a firing's job: 32 hexadecimal digits. */
export const firingJobId = (scheduleId: string, firing: Firing): string =>
  hash('sha256', `schedule/${scheduleId}/${firingKey(firing)}`).slice(0, 32);

export const jobIdOfEntry = (scheduleId: string, { atMs, what }: FiringEntry): string =>
  firingJobId(scheduleId, { atMs, isManual: what === 'manual' });

/** Returns the job of a decided firing. Each attempt to make it gives the same job, except for its trace. */
function jobOf(
  context: FiringContext,
  { spec, state }: ScheduleRecord,
  firing: Firing,
  traceparent: string | undefined,
): Job {
  const { isTemplate, payload, ...job } = spec.job;
  const { atMs, isManual } = firing;
  const runAtMs = atMs + (isManual ? 0 : jitterOf(state.id, spec.jitterMs));
  const previousMs = previousOf(state, atMs);
  const type = context.configuration.types.find((each) => each.type === job.type);
  const values = {
    scheduleId: state.id,
    scheduledAt: new Date(atMs).toISOString(),
    scheduledLocal: localIso(spec.timeZone, atMs),
    previousAt: previousMs === undefined ? '' : new Date(previousMs).toISOString(),
  };
  const request = {
    ...job,
    ...listFinishedOf(type),
    ...expiryOf(type),
    payload: isTemplate ? fillTemplate(payload, values) : payload,
    runAtMs,
    traceparent,
  };
  const partition = context.partitionOf(job.fairnessKey);
  return {
    // planted: new-id-each-try
    ...jobFrom(request, firingJobId(state.id, firing), partition, context.nowMs()),
    scheduleId: state.id,
  };
}

/** Result of firing one schedule. */
export interface Fired {
  /** The jobs that were made and are ready now. */
  readonly jobs: readonly Job[];
  /** The firings that made no job, because too many wait. */
  readonly full?: readonly BacklogFull[];
  /** The schedule as written here. Undefined: another writer came first. */
  readonly record: ScheduleRecord | undefined;
}

/**
 * Completes a decided firing: cancels the jobs that it replaces, makes its jobs, and moves the schedule to its next firing.
 *
 * @param traceparent - trace of the request that fired the schedule by hand; undefined for firings by its times
 */
export async function complete(
  context: FiringContext,
  record: ScheduleRecord,
  traceparent?: string,
): Promise<Fired> {
  const { state, spec } = record;
  // planted: replaced-goes-on
  for (const firing of replacedBy(state)) {
    const nowMs = context.nowMs();
    await context.store.cancelJob({
      jobId: firingJobId(state.id, firing),
      nowMs,
      expiresAtMs: nowMs + TERMINAL_TTL_MS,
      by: `schedule ${state.id}`,
    });
  }
  const making = state.making ?? [];
  // planted: fired-too-large
  const isTooLarge = excessUnitsOf(context.configuration, spec.job) !== undefined;
  const outcomes = await submit(
    // A job takes the place of one that it replaces, which may still be counted.
    state.isReplacing === true ? { ...context, counted: undefined } : context,
    isTooLarge ? [] : making.map((firing) => jobOf(context, record, firing, traceparent)),
  );
  const jobs = outcomes.flatMap(({ kind, job }) =>
    kind !== 'conflict' && kind !== 'full' && job.state === 'pending' ? [job] : [],
  );
  const full = outcomes.filter((outcome) => outcome.kind === 'full');
  // planted: full-as-made
  const refused = making.filter((_, at) => isTooLarge || outcomes[at]?.kind === 'full');
  const after = {
    ...afterMaking(record, firesOfRecord(record), context.nowMs(), refused, isTooLarge ? 'units' : 'full'),
    partition: context.partitionOf(spec.job.fairnessKey),
  };
  return { jobs, full, record: await saveState(context, record, after) };
}

/**
 * Writes the next state of a schedule, if its revision is still the one that was read. Returns the record as written;
 * undefined: another writer came first.
 */
export async function saveState(
  { store }: FiringContext,
  { spec, state: seen }: ScheduleRecord,
  next: ScheduleState,
): Promise<ScheduleRecord | undefined> {
  const state = { ...next, revision: seen.revision + 1 };
  const outcome = await store.saveSchedule({ state, afterRevision: seen.revision });
  return outcome === 'applied' ? { spec, state } : undefined;
}

/** Returns the record, updated with the present states of the jobs of its open firings. */
export async function withJobStates(
  context: FiringContext,
  { spec, state }: ScheduleRecord,
): Promise<ScheduleRecord> {
  const open = openFirings(state);
  if (open.length === 0) return { spec, state };
  // An unreadable job counts as not ended.
  const unreadable = new Set<string>();
  const ids = open.map((firing) => firingJobId(state.id, firing));
  const jobs = await context.store.lookUpJobs({ ids, unreadable: (id) => unreadable.add(id) });
  const byKey = new Map(
    open.flatMap((firing, at) =>
      // planted: wrong-job-runs
      unreadable.has(ids[at] ?? '') ? [] : [[firingKey(firing), jobs[at]] as const],
    ),
  );
  return { spec, state: withSeen(state, jitterOf(state.id, spec.jitterMs), byKey) };
}

/**
 * Decides about a schedule that is due, or whose last job has ended, and carries the decision out.
 *
 * @param isNewest - whether this process has the newest declaration. If it has, an unknown type was removed and the schedule
 * stops; otherwise the type may be new, and a process that knows it fires the schedule
 */
export async function fire(
  context: FiringContext,
  read: ScheduleRecord,
  { isNewest }: { readonly isNewest: boolean },
): Promise<Fired> {
  // planted: replaced-once-only
  if (read.state.making !== undefined) return complete(context, read);
  // planted: paused-fires-3
  if (read.state.stopped !== undefined) return { jobs: [], record: read };
  const nowMs = context.nowMs();
  const isDue = read.state.dueMs !== undefined && read.state.dueMs <= nowMs;
  if (isDue && !context.configuration.types.some(({ type }) => type === read.spec.job.type)) {
    // planted: stopped-by-the-old
    if (!isNewest) return { jobs: [], record: read };
    return { jobs: [], record: await saveState(context, read, stop(read, 'type', nowMs)) };
  }
  const { spec, state } = await withJobStates(context, read);
  const decided = decide({ spec, state }, firesOfRecord(read), nowMs);
  switch (decided.kind) {
    case 'rest':
      // A firing that waits for the end of a job is decided again at a later look.
      return {
        jobs: [],
        // planted: waits-in-every-pass
        record: isDue
          ? await saveState(context, read, withDueTime(state, jitterOf(state.id, spec.jitterMs), nowMs))
          : read,
      };
    case 'save':
      return { jobs: [], record: await saveState(context, read, decided.state) };
    case 'make': {
      const making = await saveState(context, read, decided.state);
      return making === undefined ? { jobs: [], record: undefined } : complete(context, making);
    }
  }
}

export interface FiredDue {
  readonly jobs: readonly Job[];
  readonly more: boolean;
}

export const NOTHING_FIRED: FiredDue = { jobs: [], more: false };

/** Reads the first due schedules, beside the load of the partition. They fire once it is loaded. */
export const readDueFirst = (
  { store }: DispatchContext,
  partition: number,
  nowMs: number,
): Promise<ScheduleHeads> =>
  store.readDueSchedules({ partition, fromMs: -1, untilMs: nowMs, limit: FIRE_AT_ONCE });

/** Fires the due schedules of a partition, soonest first, in a bounded number of reads. Returns the jobs that are ready now. */
export async function fireDue(
  context: DispatchContext,
  partition: number,
  nowMs: number,
  first: ScheduleHeads,
): Promise<FiredDue> {
  const { store, log, clock } = context;
  const firing = firingContextOf(context);
  const jobs: Job[] = [];
  const moved: ScheduleState[] = [];
  let page = first;
  for (let round = 0; round < FIRE_ROUNDS_MAX; round += 1) {
    const { schedules, next } = page;
    const nextRoundMs = clock.monotonicMs() + FIRE_ROUND_MS;
    await Promise.all(
      (
        await readEach(
          context,
          schedules.map(({ id }) => id),
        )
      ).map(async (record) => {
        try {
          // The pass has checked that its declaration is the newest.
          const fired = await fire(firing, record, { isNewest: true });
          jobs.push(...fired.jobs);
          if (fired.record !== undefined) moved.push(fired.record.state);
        } catch (error) {
          log.warn('a schedule could not fire; a later pass tries again', {
            scheduleId: record.state.id,
            error: String(error),
          });
        }
      }),
    );
    if (next === undefined || round === FIRE_ROUNDS_MAX - 1) break;
    const waitMs = nextRoundMs - clock.monotonicMs();
    if (waitMs > 0) await clock.sleep(waitMs);
    // Each read begins behind the last one, because the index may still show schedules that have moved on.
    page = await store.readDueSchedules({
      partition,
      fromMs: -1,
      untilMs: nowMs,
      limit: FIRE_AT_ONCE,
      // planted: rounds-from-the-front
      after: next,
    });
  }
  await wakeForNext(context, moved);
  const elsewhere = new Set(jobs.map((job) => job.partition).filter((home) => home !== partition));
  // planted: home-unwoken
  await Promise.all([...elsewhere].map((home) => context.queue.sendWake({ partition: home })));
  return { jobs: jobs.filter((job) => job.partition === partition), more: page.next !== undefined };
}

/** Sends wakes for schedules that fire again before the next tick looks ahead. That tick makes up for a lost wake. */
async function wakeForNext(context: DispatchContext, states: readonly ScheduleState[]): Promise<void> {
  for (const [partition, some] of Map.groupBy(states, (state) => state.partition)) {
    try {
      await wakeForSchedules(
        context,
        partition,
        some.flatMap(({ dueMs }) => dueMs ?? []),
      );
    } catch (error) {
      context.log.warn('wakes for schedules were not sent; the next tick sends them', {
        partition,
        error: String(error),
      });
    }
  }
}

/** Reads schedules by id. An unreadable schedule delays no other: the store takes it out of its line and reports it. */
async function readEach(
  { store, log }: DispatchContext,
  ids: readonly string[],
): Promise<readonly ScheduleRecord[]> {
  if (ids.length === 0) return [];
  try {
    return (await store.getSchedules({ ids, unreadable: () => {} })).filter((record) => record !== undefined);
  } catch (error) {
    log.warn('schedules could not be read; a later pass tries again', {
      schedules: ids.length,
      error: String(error),
    });
    return [];
  }
}

/**
 * Handles the ends of jobs that schedules made. A schedule that waits for the end fires, and one with too many failures stops.
 * This is only a hint: if it fails, the next check of the schedule does the same.
 */
export async function fireAfterEnds(context: DispatchContext, jobs: readonly MovingJob[]): Promise<void> {
  const ended = jobs.filter(({ state, scheduleId }) => scheduleId !== undefined && isTerminal(state));
  if (ended.length === 0) return;
  const failed = new Set(ended.flatMap(({ state, scheduleId }) => (state === 'failed' ? [scheduleId] : [])));
  const ids = [...new Set(ended.flatMap(({ scheduleId }) => scheduleId ?? []))];
  const firing = firingContextOf(context);
  await Promise.all(
    (await readEach(context, ids)).map(async (record) => {
      const { state, spec } = record;
      // planted: unheard-by-the-schedule
      const waits = state.queuedMs !== undefined;
      if (!waits && !(spec.maxFailures !== undefined && failed.has(state.id))) return;
      try {
        await fire(firing, record, { isNewest: false });
      } catch (error) {
        context.log.warn('a schedule could not handle the end of its job; its next check does', {
          scheduleId: state.id,
          error: String(error),
        });
      }
    }),
  );
}
