/**
 * Publishes one event on the bus for each job that has ended and each schedule that has paused itself. `serve.ts` calls it; events that
 * the bus refuses wait in an outbox, which each tick empties.
 */
import { UnavailableError } from '../core/errors.ts';
import { isTerminal, type MovingJob, withoutStack } from '../core/job.ts';
import type { ScheduleState } from '../core/recurring.ts';
import type { EventBus, OutcomeEvent, Unpublished } from '../events/contract.ts';
import type { Metrics } from '../metrics/contract.ts';
import { type OutcomeOutbox, type UnpublishedOutcomes, WAKE_DELAY_MAX_MS } from '../queue/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { publicFieldsOf } from '../store/contract/job-fields.ts';
import type { PassStore } from '../store/contract/verbs.ts';
import { CATCH_UP_FOR_MS, OUTCOMES_AGAIN_MS } from './tuning.ts';

/**
 * Returns the jobs whose outcome is to be published. A redrive changes a job whose outcome was published long ago, so
 * redriven jobs are left out.
 */
const endedOf = (jobs: readonly MovingJob[]): readonly MovingJob[] =>
  jobs.filter((job) => isTerminal(job.state) && job.redrivenAs === undefined);

function eventOf(job: MovingJob): OutcomeEvent {
  const { error, ...detail } = publicFieldsOf(job);
  return {
    kind: 'outcome',
    detail: error === undefined ? detail : { ...detail, error: withoutStack(error) },
  };
}

/** Returns one event for each schedule that has paused itself. */
const stoppedEvents = (states: readonly ScheduleState[]): readonly OutcomeEvent[] =>
  states.flatMap(({ id, revision, stopped, failures, changedAtMs }) =>
    stopped === 'failures' || stopped === 'type'
      ? [{ kind: 'stopped', detail: { id, revision, reason: stopped, failures, stoppedAtMs: changedAtMs } }]
      : [],
  );

export interface PublishContext {
  readonly events: EventBus;
  readonly outbox: OutcomeOutbox;
  readonly log: Log;
  readonly metrics?: Metrics | undefined;
}

/**
 * Returns for how many milliseconds the outbox keeps an event that the bus has refused `tries` times: 15 seconds at
 * first, then longer, and at most a quarter of an hour.
 */
const keptMs = (tries: number): number =>
  Math.min(WAKE_DELAY_MAX_MS, OUTCOMES_AGAIN_MS * 2 ** Math.min(tries - 1, 10));

/** Jobs and schedules whose events may have to be published. */
interface Publishable {
  readonly jobs: readonly MovingJob[];
  /** The schedules' states, as the stream showed them or as they are now. */
  readonly schedules?: readonly ScheduleState[] | undefined;
}

/**
 * Publishes events for ended jobs and stopped schedules. Events that the bus does not take wait in the outbox and delay nothing
 * else. Events that it will never take are put among the dead letters with the reason.
 *
 * @param tries - how often the bus has refused them before
 * @returns false if events wait in the outbox
 * @throws UnavailableError if the outbox does not take them either, so that they must be delivered again
 */
export async function publishOrKeep(
  { events, outbox, log, metrics }: PublishContext,
  { jobs, schedules = [] }: Publishable,
  tries = 0,
): Promise<boolean> {
  const told = [...endedOf(jobs).map(eventOf), ...stoppedEvents(schedules)];
  if (told.length === 0) return true;
  const unsent = await unpublishedOf(events, told, log);
  if (unsent.length === 0) return true;
  metrics?.add('outcomesUnpublished', unsent.length);
  const kept = unsent.filter(({ reason }) => reason === undefined);
  try {
    for (const { event, reason } of unsent) {
      if (reason === undefined) continue;
      log.warn('the bus refuses an outcome event; it was moved to the dead letters', {
        id: 'id' in event.detail ? event.detail.id : event.detail.sourceId,
        reason,
      });
      await outbox.setOutcomesAside(idsOf([event], tries + 1), reason);
    }
    if (kept.length === 0) return true;
    log.warn('the bus did not take outcome events; they wait in the outbox', {
      outcomes: kept.length,
      tries,
    });
    await outbox.keepOutcomes(
      idsOf(
        kept.map(({ event }) => event),
        tries + 1,
      ),
      keptMs(tries + 1),
    );
    return false;
  } catch (cause) {
    throw new UnavailableError(
      `neither the bus nor the outbox took ${unsent.length} of ${told.length} outcome events; they will be delivered again`,
      { cause },
    );
  }
}

function idsOf(events: readonly OutcomeEvent[], tries: number): UnpublishedOutcomes {
  const idsOfKind = (kind: OutcomeEvent['kind']): readonly string[] =>
    events.flatMap((event) => (event.kind === kind && 'id' in event.detail ? [event.detail.id] : []));
  const scheduleIds = idsOfKind('stopped');
  return { jobIds: idsOfKind('outcome'), ...(scheduleIds.length === 0 ? {} : { scheduleIds }), tries };
}

async function unpublishedOf(
  events: EventBus,
  told: readonly OutcomeEvent[],
  log: Log,
): Promise<readonly Unpublished[]> {
  try {
    return await events.publish(told);
  } catch (error) {
    // For example, the bus was deleted, or this role may not use it. The owner can repair that, so the events are kept.
    log.warn('the bus cannot be used', { error: String(error) });
    return told.map((event) => ({ event }));
  }
}

interface KeptContext extends PublishContext {
  readonly store: Pick<PassStore, 'lookUpJobs' | 'getSchedules'>;
  readonly clock: Pick<Clock, 'monotonicMs'>;
}

/** Publishes events from the outbox that are due, until the bus refuses one or the tick's time is over. */
export async function publishWaiting(context: KeptContext): Promise<void> {
  const { outbox, clock } = context;
  const sinceMonotonicMs = clock.monotonicMs();
  while (clock.monotonicMs() - sinceMonotonicMs < CATCH_UP_FOR_MS) {
    const taken = await outbox.takeOutcomes();
    if (taken.length === 0) return;
    for (const { unpublished, receipt } of taken) {
      const isDone = await publishKept(context, unpublished);
      await outbox.deleteOutcomes([receipt]);
      // The other events become visible again in two minutes.
      if (!isDone) return;
    }
  }
}

/**
 * Publishes events that waited in the outbox, from the jobs and schedules as they are now. A job that was deleted or has gone on
 * has no event.
 */
async function publishKept(
  context: KeptContext,
  { jobIds, scheduleIds = [], tries }: UnpublishedOutcomes,
): Promise<boolean> {
  const found = await context.store.lookUpJobs({ ids: jobIds });
  const jobs = found.filter((job) => job !== undefined);
  if (jobs.length < jobIds.length)
    context.log.warn('records of jobs were deleted before their outcomes were published', {
      jobs: jobIds.length - jobs.length,
    });
  const records =
    scheduleIds.length === 0
      ? []
      : await context.store.getSchedules({ ids: scheduleIds, unreadable: () => {} });
  const schedules = records.flatMap((record) => (record === undefined ? [] : [record.state]));
  return publishOrKeep(context, { jobs, schedules }, tries);
}

/**
 * Publishes the outcome of every terminal job among these images, at least once; for callers without an outbox. If a batch is delivered again, its events are
 * published again; `id` and `version` identify the copies.
 *
 * @throws UnavailableError
 */
export async function publishOutcomes(events: EventBus, jobs: readonly MovingJob[]): Promise<number> {
  const outcomes = endedOf(jobs).map(eventOf);
  if (outcomes.length === 0) return 0;
  const unsent = await events.publish(outcomes);
  if (unsent.length > 0) {
    const { reason } = unsent.find((each) => each.reason !== undefined) ?? {};
    throw new UnavailableError(
      `the bus did not take ${unsent.length} of ${outcomes.length} outcome events${reason === undefined ? '' : ` (${reason})`}; publish them again`,
    );
  }
  return outcomes.length;
}
