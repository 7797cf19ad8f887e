/**
 * Future work without timers: each minute's tick looks ahead and sends one delayed wake for each second that has due
 * work, and a submitter that schedules inside that window sends its wake too. A wake that turns out to be outdated finds nothing,
 * so there is nothing to cancel; one that is lost is made up for by the next tick.
 *
 * The tick does not read all that its wakes will find: it reads a few jobs, notes their seconds, and goes on behind the last of
 * these. So what it asks for grows with the seconds of its window that have due work, 75 at most, not with the jobs.
 */
import type { Job } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { type JobQueue, WAKE_STEP_MS } from '../../queue/contract.ts';
import type { Clock } from '../../runtime/contract.ts';
import { HEADS_OF_A_UNIT, LOOK_AHEAD_MS } from '../tuning.ts';
import type { DispatchContext } from './context.ts';

/** Rounded up to whole seconds: a wake before its time would find nothing. */
const secondsUntil = (atMs: number, nowMs: number): number => Math.ceil((atMs - nowMs) / WAKE_STEP_MS);

/** When to wake a waiting job's partition, from now; undefined: a later tick looks ahead at it. */
export function wakeInMs(job: Pick<Job, 'state' | 'runAtMs'>, nowMs: number): number | undefined {
  if (job.state === 'pending') return 0;
  const isSoon = job.state === 'scheduled' && job.runAtMs <= nowMs + LOOK_AHEAD_MS;
  return isSoon ? Math.max(0, secondsUntil(job.runAtMs, nowMs)) * WAKE_STEP_MS : undefined;
}

/** Wakes the partition after a while. One that is lost is made up for by the next tick. */
export async function wakeLater(context: DispatchContext, partition: number, delayMs: number): Promise<void> {
  try {
    await context.queue.sendWake({ partition, delayMs });
  } catch (error) {
    context.log.warn('the partition will not be woken; the next tick does it', {
      partition,
      error: String(error),
    });
  }
}

/** The same at an instant, epoch ms by this clock; at once if that is past. */
export const wakeLaterAt = (context: DispatchContext, partition: number, atMs: number): Promise<void> =>
  wakeLater(context, partition, Math.max(0, atMs - context.clock.nowMs()));

/** One wake for each second in which something is due. */
async function sendWakes(
  { queue, clock }: { readonly queue: Pick<JobQueue, 'sendWake'>; readonly clock: Pick<Clock, 'nowMs'> },
  partition: number,
  instants: Iterable<number>,
): Promise<void> {
  const nowMs = clock.nowMs();
  // What has become due meanwhile may have been missed by the passes that are under way.
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
 * For a leader that a letter has asked for a pass: its clock may be behind that of the letter's writer, and what becomes due by its own clock
 * within what clocks may differ has no other wake.
 */
export async function wakeForNearWork(context: DispatchContext, partition: number): Promise<void> {
  try {
    const dueMs = (await nextDueMs(context, partition)) ?? Infinity;
    const nowMs = context.clock.nowMs();
    if (dueMs > nowMs && dueMs <= nowMs + CLOCK_SKEW_MAX_MS) await wakeAt(context, partition, [dueMs]);
  } catch (error) {
    context.log.warn('what becomes due next is not known; the next tick looks again', {
      partition,
      error: String(error),
    });
  }
}

/** For a dispatcher that was woken for what is not due by its clock: the clock of the one that looked ahead is before it. */
export async function wakeAgain(context: DispatchContext, partition: number, dueAtMs: number): Promise<void> {
  if (dueAtMs > context.clock.nowMs()) await wakeAt(context, partition, [dueAtMs]);
}

/** For jobs that were just scheduled, such as retries. */
export const wakeFor = (
  context: DispatchContext,
  partition: number,
  jobs: readonly Pick<Job, 'state' | 'runAtMs'>[],
): Promise<void> => wakeWithin(context, partition, jobs, LOOK_AHEAD_MS);

/** For jobs that a letter showed to a leader: they may be due by the clock of its writer, which left the wake to the leader. */
export const wakeForShown = (
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
 * When the next scheduled job becomes due, if that is before the next tick. From the index, so it may lag; and what was
 * promoted a moment ago may still be shown.
 */
export async function nextDueMs(context: DispatchContext, partition: number): Promise<number | undefined> {
  const { store, clock } = context;
  const untilMs = clock.nowMs() + LOOK_AHEAD_MS;
  const { jobs } = await store.readDue({ partition, nowMs: untilMs, limit: 1 });
  const { schedules } = await store.readDueSchedules({ partition, fromMs: -1, untilMs, limit: 1 });
  const instants = [...jobs.map((job) => job.runAtMs), ...schedules.flatMap(({ dueMs }) => dueMs ?? [])];
  return instants.length === 0 ? undefined : Math.min(...instants);
}

/** For everything that becomes due before the next tick. What is due by now is left to the tick's own passes. */
export async function wakeForDueWork(context: DispatchContext, partition: number): Promise<void> {
  const { clock } = context;
  const startMs = clock.nowMs();
  const looks = await Promise.all([
    lookAhead(startMs, jobsDue(context, partition)),
    lookAhead(startMs, schedulesDue(context, partition)),
  ]);
  if (looks.some(({ pages }) => pages > 1)) {
    // What was skipped is due by the end of a second counted from the start. Wakes that are sent whole seconds after it come then.
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

interface Look {
  /** When jobs become due: one at least for each second, counted from the start, in which any does. */
  readonly instants: readonly number[];
  readonly pages: number;
}

/** When something in a line becomes due, from an instant to another, soonest first; `isCut`: more follows. */
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

/** Looks at each second of the window in which something in a line becomes due: at most one page for each, and one more. */
async function lookAhead(startMs: number, readDue: ReadDue): Promise<Look> {
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

/** For schedules that were just made, moved, or looked at. */
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
