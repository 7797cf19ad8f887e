/** Skips virtual time in which nothing can happen, so that a month with a few jobs takes no longer than these. */
import { type LocalScheduler, TICK_MS } from './scheduler.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Milliseconds of which skipped idle time is a multiple: a whole number of heartbeats for any lease. */
const HEARTBEAT_MULTIPLE_MS = 10_000;
/** Milliseconds before the next event at which skipped time ends, because a tick looks one minute ahead. */
const SKIP_MARGIN_MS = 2 * TICK_MS;

/**
 * Skips time up to shortly before an instant. Each minute of it equals the one before, with its tick and its heartbeats, so
 * whole minutes can be skipped. A worker process would take the jump for a suspended machine and end, so each process is
 * started anew. No job may be pending, claimed or running, or due by then.
 */
export function skipIdle(scheduler: LocalScheduler, time: VirtualTime, untilMs: number): void {
  const idleMs = untilMs - time.nowMs - SKIP_MARGIN_MS;
  if (idleMs < TICK_MS || holdsCapacity(scheduler)) return;
  time.skip(Math.floor(idleMs / TICK_MS) * TICK_MS);
  for (const { plan, joinedAtMs } of scheduler.processes) {
    scheduler.vanish(plan.workerId);
    // The heartbeats of the process keep their times, because the last one decides when its loss is noticed.
    const sinceBeatMs = (time.nowMs - joinedAtMs) % HEARTBEAT_MULTIPLE_MS;
    time.after(sinceBeatMs === 0 ? 0 : HEARTBEAT_MULTIPLE_MS - sinceBeatMs, () => scheduler.join(plan));
  }
}

/**
 * Skips time up to an instant. The ticks and heartbeats in it are left out, and those after it come at other times. The caller
 * tells the dispatcher of what is due then. Returns false if something holds capacity.
 */
export function skipTo(scheduler: LocalScheduler, time: VirtualTime, atMs: number): boolean {
  if (holdsCapacity(scheduler)) return false;
  time.skip(atMs - time.nowMs);
  for (const { plan } of scheduler.processes) {
    scheduler.vanish(plan.workerId);
    scheduler.join(plan);
  }
  return true;
}

const holdsCapacity = ({ partitions, store }: LocalScheduler): boolean =>
  partitions.some((partition) => {
    const { reservations, loans } = store.inspect(partition);
    return reservations.size + loans.size > 0;
  });
