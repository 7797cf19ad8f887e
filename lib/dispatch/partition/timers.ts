/**
 * Wakes for work that becomes due, without timers that would have to be cancelled. Each minute's tick looks ahead and sends one
 * delayed wake for each second with due work, and a submitter that schedules a job within that time sends a wake itself. A wake
 * that is outdated finds nothing to do; the next tick makes up for a lost one.
 *
 * The tick does not read everything that will be due. It reads a few jobs, notes their seconds, and continues behind the last of
 * these. So its cost grows with the seconds that have due work, 75 at most, and not with the jobs.
 */
import type { Job } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { type JobQueue, WAKE_STEP_MS } from '../../queue/contract.ts';
import type { Clock } from '../../runtime/contract.ts';
import { HEADS_OF_A_UNIT, LOOK_AHEAD_MS } from '../tuning.ts';
import type { DispatchContext } from './context.ts';

/**
 * Returns the whole seconds until an instant. They are rounded up, because a wake before its time would find nothing.
 */
const secondsUntil = (atMs: number, nowMs: number): number => Math.ceil((atMs - nowMs) / WAKE_STEP_MS);

/**
 * Returns in how many milliseconds to wake the partition of a waiting job. Undefined: a later tick will see the job.
 */
export function wakeInMs(job: Pick<Job, 'state' | 'runAtMs'>, nowMs: number): number | undefined {
  if (job.state === 'pending') return 0;
  const isSoon = job.state === 'scheduled' && job.runAtMs <= nowMs + LOOK_AHEAD_MS;
  return isSoon ? Math.max(0, secondsUntil(job.runAtMs, nowMs)) * WAKE_STEP_MS : undefined;
}

/** Wakes the partition after a delay. The next tick makes up for a lost wake. */
export async function wakeLater(context: DispatchContext, partition: number, delayMs: number): Promise<void> {
  try {
    await context.queue.sendWake({ partition, delayMs });
  } catch (error) {
    context.log.warn('a wake was not sent; the next tick wakes the partition', {
      partition,
      error: String(error),
    });
  }
}

/** Wakes the partition at an instant, epoch ms, or at once if that is past. */
export const wakeLaterAt = (context: DispatchContext, partition: number, atMs: number): Promise<void> =>
  wakeLater(context, partition, Math.max(0, atMs - context.clock.nowMs()));

/** Sends one wake for each second in which work is due. */
async function sendWakes(
  { queue, clock }: { readonly queue: Pick<JobQueue, 'sendWake'>; readonly clock: Pick<Clock, 'nowMs'> },
  partition: number,
  instants: Iterable<number>,
): Promise<void> {
  const nowMs = clock.nowMs();
  // Work that became due meanwhile may have been missed by passes in progress.
  const dueAtMs = new Map<number, number | undefined>();
  for (const atMs of instants) {
    const second = Math.max(0, secondsUntil(atMs, nowMs));
    dueAtMs.set(second, second === 0 ? undefined : Math.max(atMs, dueAtMs.get(second) ?? atMs));
  }
  await Promise.all(
    Array.from(dueAtMs, ([second, atMs]) =>
      queue.sendWake({ partition, delayMs: second * WAKE_STEP_MS, dueAtMs: atMs }),
    ),
  );
}

async function wakeAt(
  context: DispatchContext,
  partition: number,
  instants: Iterable<number>,
): Promise<void> {
  try {
    await sendWakes(context, partition, instants);
  } catch (error) {
    context.log.warn('delayed wakes were not sent; the next tick finds their work', {
      partition,
      error: String(error),
    });
  }
}

/**
 * Sends a wake for work that is nearly due, after a letter has asked a leader for a pass. The letter's writer may have a clock
 * that is ahead, and work that is due by it alone has no other wake.
 */
export async function wakeForNearWork(context: DispatchContext, partition: number): Promise<void> {
  try {
    const dueMs = (await nextDueMs(context, partition)) ?? Infinity;
    const nowMs = context.clock.nowMs();
    if (dueMs > nowMs && dueMs <= nowMs + CLOCK_SKEW_MAX_MS) await wakeAt(context, partition, [dueMs]);
  } catch (error) {
    context.log.warn('the next due time could not be read; the next tick reads it', {
      partition,
      error: String(error),
    });
  }
}

/** Sends a wake again if it arrived before its work is due by this dispatcher's clock, which the sender's clock is ahead of. */
export async function wakeWhenDue(
  context: DispatchContext,
  partition: number,
  dueAtMs: number,
): Promise<void> {
  if (dueAtMs > context.clock.nowMs()) await wakeAt(context, partition, [dueAtMs]);
}

/** Sends wakes for jobs that were just scheduled, such as retries. */
export const wakeFor = (
  context: DispatchContext,
  partition: number,
  jobs: readonly Pick<Job, 'state' | 'runAtMs'>[],
): Promise<void> => wakeWithin(context, partition, jobs, LOOK_AHEAD_MS);

/** Sends wakes for jobs in letters. They may be due by the clock of a letter's writer, which left their wakes to the leader. */
export const wakeForLetters = (
  context: DispatchContext,
  partition: number,
  jobs: readonly Pick<Job, 'state' | 'runAtMs'>[],
): Promise<void> => wakeWithin(context, partition, jobs, CLOCK_SKEW_MAX_MS);

async function wakeWithin(
  context: DispatchContext,
  partition: number,
  jobs: readonly Pick<Job, 'state' | 'runAtMs'>[],
  withinMs: number,
): Promise<void> {
  const nowMs = context.clock.nowMs();
  const soon = jobs.filter(
    (job) => job.state === 'scheduled' && job.runAtMs > nowMs && job.runAtMs <= nowMs + withinMs,
  );
  await wakeAt(
    context,
    partition,
    soon.map((job) => job.runAtMs),
  );
}

/**
 * Returns when the next scheduled job or schedule becomes due, epoch ms, if that is before the next tick. It reads the
 * index, which may lag and may still show promoted jobs.
 */
export async function nextDueMs(context: DispatchContext, partition: number): Promise<number | undefined> {
  const { store, clock } = context;
  const untilMs = clock.nowMs() + LOOK_AHEAD_MS;
  const { jobs } = await store.readDue({ partition, nowMs: untilMs, limit: 1 });
  const { schedules } = await store.readDueSchedules({ partition, fromMs: -1, untilMs, limit: 1 });
  const instants = [...jobs.map((job) => job.runAtMs), ...schedules.flatMap(({ dueMs }) => dueMs ?? [])];
  return instants.length === 0 ? undefined : Math.min(...instants);
}

/** Sends wakes for everything that becomes due before the next tick. Work that is due now is left to the tick's own passes. */
export async function wakeForDueWork(context: DispatchContext, partition: number): Promise<void> {
  const { clock } = context;
  const startMs = clock.nowMs();
  const looks = await Promise.all([
    lookAhead(startMs, jobsDue(context, partition)),
    lookAhead(startMs, schedulesDue(context, partition)),
  ]);
  if (looks.some(({ pages }) => pages > 1)) {
    // Skipped work is due by the end of a second that is counted from `startMs`. Wakes sent whole seconds after `startMs` arrive
    // then.
    const pastMs = (clock.nowMs() - startMs) % WAKE_STEP_MS;
    if (pastMs > 0) await clock.sleep(WAKE_STEP_MS - pastMs);
    const ends = looks.flatMap(({ instants }) =>
      instants.map((atMs) => startMs + secondsUntil(atMs, startMs) * WAKE_STEP_MS),
    );
    await wakeAt(context, partition, ends);
    return;
  }
  await wakeAt(
    context,
    partition,
    looks.flatMap(({ instants }) => instants),
  );
}

interface DueTimes {
  /**
   * Epoch ms of due work. For each second, counted from the start of the window, in which work becomes due, there is at
   * least one of them.
   */
  readonly instants: readonly number[];
  readonly pages: number;
}

/** Due times in a line between two instants, soonest first. `isCut`: more follow. */
type ReadDue = (
  fromMs: number,
  untilMs: number,
) => Promise<{ readonly instants: readonly number[]; readonly isCut: boolean }>;

const jobsDue =
  ({ store }: DispatchContext, partition: number): ReadDue =>
  async (fromMs, untilMs) => {
    const { jobs, next } = await store.readDue({ partition, nowMs: untilMs, limit: HEADS_OF_A_UNIT, fromMs });
    return { instants: jobs.map((job) => job.runAtMs), isCut: next !== undefined };
  };

const schedulesDue =
  ({ store }: DispatchContext, partition: number): ReadDue =>
  async (fromMs, untilMs) => {
    const { schedules, next } = await store.readDueSchedules({
      partition,
      fromMs: fromMs - 1,
      untilMs,
      limit: HEADS_OF_A_UNIT,
    });
    return { instants: schedules.flatMap(({ dueMs }) => dueMs ?? []), isCut: next !== undefined };
  };

/**
 * Finds the seconds of the window in which work in a line becomes due. Reads at most one part of the line for each such second,
 * and one more.
 */
async function lookAhead(startMs: number, readDue: ReadDue): Promise<DueTimes> {
  const untilMs = startMs + LOOK_AHEAD_MS;
  const instants: number[] = [];
  let page = await readDue(startMs + 1, untilMs);
  for (let pages = 1; ; pages += 1) {
    instants.push(...page.instants);
    const lastMs = page.instants.at(-1);
    if (!page.isCut || lastMs === undefined) return { instants, pages };
    const fromMs = startMs + secondsUntil(lastMs, startMs) * WAKE_STEP_MS + 1;
    if (fromMs > untilMs) return { instants, pages };
    page = await readDue(fromMs, untilMs);
  }
}

/** Sends wakes for schedules that were just made, moved or decided. */
export async function wakeForSchedules(
  context: { readonly queue: Pick<JobQueue, 'sendWake'>; readonly clock: Pick<Clock, 'nowMs'> },
  partition: number,
  dueMs: readonly number[],
): Promise<void> {
  const nowMs = context.clock.nowMs();
  await sendWakes(
    context,
    partition,
    dueMs.filter((atMs) => atMs <= nowMs + LOOK_AHEAD_MS),
  );
}
