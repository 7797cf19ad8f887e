/**
 * Schedules fire: those that are due are read, each is looked at by itself, and what its look decides is written before
 * anything is made of it. Whoever finds decided firings that were not completed completes them.
 */

import { hash } from 'node:crypto';
import { isTerminal, type Job, type MovingJob, TERMINAL_TTL_MS } from '../../core/job.ts';
import { partitionOf } from '../../core/partition.ts';
import {
  type Firing,
  type FiringEntry,
  filled,
  firingKey,
  look,
  made,
  openFirings,
  placed,
  previousOf,
  replacedBy,
  rulesOf,
  type ScheduleRecord,
  type ScheduleState,
  stoppedBy,
  withSeen,
} from '../../core/recurring.ts';
import { type Fires, firesOf, jitterOf, localIso } from '../../core/schedule.ts';
import { readCron } from '../../cron/croner.ts';
import type { ProducerStore } from '../../store/contract/core.ts';
import type { ScheduleHeads, ScheduleStore } from '../../store/contract/schedules.ts';
import type { SubmitStore } from '../../store/contract/verbs.ts';
import { jobFrom } from '../../submit/request.ts';
import { asSubmitter, type SubmitContext, submit } from '../../submit/submit.ts';
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
  ...asSubmitter(context),
  store: context.store,
  partitionOf: (fairnessKey) => partitionOf(fairnessKey, context.configuration.partitions),
});

export const firesOfRecord = ({ spec, state }: ScheduleRecord): Fires =>
  firesOf(rulesOf(spec, state.anchorMs), readCron);

/** The id of a firing's job: 32 hexadecimal digits. */
export const firingJobId = (scheduleId: string, firing: Firing): string =>
  hash('sha256', `schedule/${scheduleId}/${firingKey(firing)}`).slice(0, 32);

export const jobIdOfEntry = (scheduleId: string, { atMs, what }: FiringEntry): string =>
  firingJobId(scheduleId, { atMs, isManual: what === 'manual' });

/** The job that a decided firing makes: the same whenever, and by whomever, it is made, its trace aside. */
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
  const values = {
    scheduleId: state.id,
    scheduledAt: new Date(atMs).toISOString(),
    scheduledLocal: localIso(spec.timeZone, atMs),
    previousAt: previousMs === undefined ? '' : new Date(previousMs).toISOString(),
  };
  const request = { ...job, payload: isTemplate ? filled(payload, values) : payload, runAtMs, traceparent };
  const partition = context.partitionOf(job.fairnessKey);
  return {
    // planted: new-id-each-try
    ...jobFrom(request, firingJobId(state.id, firing), partition, context.nowMs()),
    scheduleId: state.id,
  };
}

/** What came of a look at a schedule. */
export interface Fired {
  /** Jobs that wait now. */
  readonly jobs: readonly Job[];
  /** The schedule as this look left it; undefined: somebody else has written it. */
  readonly record: ScheduleRecord | undefined;
}

/**
 * Asks for the end of the jobs that the decided ones replace, makes these, and moves the schedule to its next firing.
 *
 * @param traceparent - of somebody who asked for them: by its times a schedule fires in no trace
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
  const outcomes = await submit(
    context,
    (state.making ?? []).map((firing) => jobOf(context, record, firing, traceparent)),
  );
  const jobs = outcomes.flatMap(({ kind, job }) =>
    kind !== 'conflict' && job.state === 'pending' ? [job] : [],
  );
  const after = { ...made(record, context.nowMs()), partition: context.partitionOf(spec.job.fairnessKey) };
  return { jobs, record: await written(context, record, after) };
}

/** Writes a state in place of the one that was read. */
export async function written(
  { store }: FiringContext,
  { spec, state: seen }: ScheduleRecord,
  next: ScheduleState,
): Promise<ScheduleRecord | undefined> {
  const state = { ...next, revision: seen.revision + 1 };
  const outcome = await store.saveSchedule({ state, seen: seen.revision });
  return outcome === 'applied' ? { spec, state } : undefined;
}

/** The record with what its open firings' jobs are by now. */
export async function seen(context: FiringContext, { spec, state }: ScheduleRecord): Promise<ScheduleRecord> {
  const open = openFirings(state);
  if (open.length === 0) return { spec, state };
  // One that cannot be read has not ended, as far as anybody knows.
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
 * Looks at a schedule that is due, or whose last job has ended, and carries out what that decides.
 *
 * @param isNewest - this process knows the newest declaration: a type that it does not know is gone. Else it is perhaps new, and
 * left to somebody who does
 */
export async function fire(context: FiringContext, read: ScheduleRecord, isNewest: boolean): Promise<Fired> {
  // planted: replaced-once-only
  if (read.state.making !== undefined) return complete(context, read);
  // planted: paused-fires-3
  if (read.state.stopped !== undefined) return { jobs: [], record: read };
  const nowMs = context.nowMs();
  const isDue = read.state.dueMs !== undefined && read.state.dueMs <= nowMs;
  if (isDue && !context.configuration.types.some(({ type }) => type === read.spec.job.type)) {
    // planted: stopped-by-the-old
    if (!isNewest) return { jobs: [], record: read };
    return { jobs: [], record: await written(context, read, stoppedBy(read, 'type', nowMs)) };
  }
  const { spec, state } = await seen(context, read);
  const decided = look({ spec, state }, firesOfRecord(read), nowMs);
  switch (decided.kind) {
    case 'rest':
      // What waits for the end of a job is looked at again later.
      return {
        jobs: [],
        // planted: waits-in-every-pass
        record: isDue
          ? await written(context, read, placed(state, jitterOf(state.id, spec.jitterMs), nowMs))
          : read,
      };
    case 'save':
      return { jobs: [], record: await written(context, read, decided.state) };
    case 'make': {
      const making = await written(context, read, decided.state);
      return making === undefined ? { jobs: [], record: undefined } : complete(context, making);
    }
  }
}

export interface FiredDue {
  readonly jobs: readonly Job[];
  readonly more: boolean;
}

export const NOTHING_FIRED: FiredDue = { jobs: [], more: false };

/** The first schedules of a partition that are due: read beside the partition itself, fired once that is known. */
export const readDueFirst = (
  { store }: DispatchContext,
  partition: number,
  nowMs: number,
): Promise<ScheduleHeads> =>
  store.readDueSchedules({ partition, fromMs: -1, untilMs: nowMs, limit: FIRE_AT_ONCE });

/** Looks at the schedules of a partition that are due, soonest first, in bounded rounds. Answers the jobs that wait now. */
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
          // The pass has compared its declaration with the partition's.
          const fired = await fire(firing, record, true);
          jobs.push(...fired.jobs);
          if (fired.record !== undefined) moved.push(fired.record.state);
        } catch (error) {
          log.warn('a schedule could not fire; a later pass goes on with it', {
            scheduleId: record.state.id,
            error: String(error),
          });
        }
      }),
    );
    if (next === undefined || round === FIRE_ROUNDS_MAX - 1) break;
    const waitMs = nextRoundMs - clock.monotonicMs();
    if (waitMs > 0) await clock.sleep(waitMs);
    // Behind what was read, not from the front: the index may go on showing what was moved.
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

/** Of schedules that fire again before the next tick looks ahead. A wake that is lost is made up for by that. */
async function wakeForNext(context: DispatchContext, states: readonly ScheduleState[]): Promise<void> {
  for (const [partition, some] of Map.groupBy(states, (state) => state.partition)) {
    try {
      await wakeForSchedules(
        context,
        partition,
        some.flatMap(({ dueMs }) => dueMs ?? []),
      );
    } catch (error) {
      context.log.warn('wakes for schedules were not sent; the next tick does it', {
        partition,
        error: String(error),
      });
    }
  }
}

/** Schedules by their ids. One that cannot be read holds up no other: the store takes it out of its line, and tells of it. */
async function readEach(
  { store, log }: DispatchContext,
  ids: readonly string[],
): Promise<readonly ScheduleRecord[]> {
  if (ids.length === 0) return [];
  try {
    return (await store.getSchedules({ ids, unreadable: () => {} })).filter((record) => record !== undefined);
  } catch (error) {
    log.warn('schedules could not be read; a later pass goes on with them', {
      schedules: ids.length,
      error: String(error),
    });
    return [];
  }
}

/**
 * Jobs of schedules that have ended: what waits for that fires, and who fails too often stops. A hint like others: what it
 * does not bring about, the next look at the schedule does.
 */
export async function noteEnds(context: DispatchContext, jobs: readonly MovingJob[]): Promise<void> {
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
        await fire(firing, record, false);
      } catch (error) {
        context.log.warn('a schedule was not told of the end of its job; its next look shows it', {
          scheduleId: state.id,
          error: String(error),
        });
      }
    }),
  );
}
