/**
 * Future work without timers: each minute's tick looks ahead and sends one delayed wake for each second that has due
 * work, and whoever schedules inside that window sends its wake too. A wake that turns out to be outdated finds nothing,
 * so there is nothing to cancel; one that is lost is made up for by the next tick.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job } from '../core/job.ts';
import type { DispatchContext } from './context.ts';

/** The tick's period and a little more, so that neighbouring windows overlap. */
const LOOK_AHEAD_MS = 75_000;
/** Scheduled jobs read by one tick; those behind them are found by the passes that these cause. */
const LOOK_AHEAD_JOBS = 1_000;

/** Shards of the due line: as many as the configuration splits lines, or, as far as is known, once did. */
export function dueShardsOf({ types }: PoolConfiguration, known = 1): readonly number[] {
  const count = Math.max(known, ...types.map(({ subLines }) => subLines ?? 1));
  return Array.from({ length: count }, (_, shard) => shard);
}

/** The same, as far as this process knows. */
export const dueShardsKnown = (context: DispatchContext, partition: number): readonly number[] =>
  dueShardsOf(context.configuration, context.books.get(partition)?.dueShards);

/** Rounded up to whole seconds: a wake before its time would find nothing. */
const secondsUntil = (atMs: number, nowMs: number): number => Math.ceil((atMs - nowMs) / 1_000);

/** When to wake a waiting job's partition, from now; undefined: a later tick looks ahead at it. */
export function wakeInMs(job: Pick<Job, 'state' | 'runAtMs'>, nowMs: number): number | undefined {
  if (job.state === 'pending') return 0;
  const isSoon = job.state === 'scheduled' && job.runAtMs <= nowMs + LOOK_AHEAD_MS;
  return isSoon ? Math.max(0, secondsUntil(job.runAtMs, nowMs)) * 1_000 : undefined;
}

/** Wakes the partition after a while. One that is lost is made up for by the next tick. */
export async function wakeLater(context: DispatchContext, partition: number, delayMs: number): Promise<void> {
  try {
    await context.queue.sendWake(partition, delayMs);
  } catch (error) {
    context.log.warn('the partition will not be woken; the next tick does it', {
      partition,
      error: String(error),
    });
  }
}

async function wakeAt(
  context: DispatchContext,
  partition: number,
  instants: Iterable<number>,
): Promise<void> {
  const nowMs = context.clock.nowMs();
  const seconds = new Set([...instants].map((atMs) => secondsUntil(atMs, nowMs)));
  const ahead = [...seconds].filter((second) => second > 0);
  try {
    await Promise.all(ahead.map((second) => context.queue.sendWake(partition, second * 1_000)));
  } catch (error) {
    context.log.warn('delayed wakes were not sent; the next tick finds their work', {
      partition,
      wakes: ahead.length,
      error: String(error),
    });
  }
}

/** For jobs that were just scheduled, such as retries. */
export async function wakeFor(
  context: DispatchContext,
  partition: number,
  jobs: readonly Job[],
): Promise<void> {
  const untilMs = context.clock.nowMs() + LOOK_AHEAD_MS;
  const soon = jobs.filter((job) => job.state === 'scheduled' && job.runAtMs <= untilMs);
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
  const first = await Promise.all(
    dueShardsKnown(context, partition).map((shard) => store.readDue(partition, untilMs, 1, undefined, shard)),
  );
  const instants = first.flatMap(({ jobs }) => jobs.map((job) => job.runAtMs));
  return instants.length === 0 ? undefined : Math.min(...instants);
}

/** For everything that becomes due before the next tick. */
export async function wakeForDueWork(context: DispatchContext, partition: number): Promise<void> {
  const { store, clock } = context;
  const untilMs = clock.nowMs() + LOOK_AHEAD_MS;
  const due = await Promise.all(
    dueShardsKnown(context, partition).map((shard) =>
      store.readDue(partition, untilMs, LOOK_AHEAD_JOBS, undefined, shard),
    ),
  );
  await wakeAt(
    context,
    partition,
    due.flatMap(({ jobs }) => jobs.map((job) => job.runAtMs)),
  );
}
