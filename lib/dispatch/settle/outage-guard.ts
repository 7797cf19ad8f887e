/**
 * The outage guard. While nobody reaches the store, no worker can say that it lives, nor write down what it has done. So
 * what a worker's silence means is only known once the store has been there again for a whole lease.
 *
 * A partition is *attended* while passes read it without a long gap. Of an outage the commits tell nothing, so a gap
 * between two of them that could hide a lease of silence begins the attendance anew, and a worker is declared lost
 * only in a partition attended for a whole lease. In a partition where little happens the gap has harmless causes; there,
 * the first pass that would declare a loss has itself woken again and again until the lease has passed.
 *
 * With a worker's lease L and clocks that differ by at most S: a gap measured as less than L - S is shorter than L, and a
 * time measured as at least L + S is not shorter than L.
 *
 * The second half: what the outage has left behind is sent out again in batches that double, so that what has just come
 * back is not flooded.
 */
import type { Attendance, Lookout, WorkerRecord } from '../../store/records.ts';

/** How long a worker process counts as living without a heartbeat, unless it was told otherwise. */
export const WORKER_LEASE_MS = 15_000;
/** The most that two machines' clocks may differ. */
export const CLOCK_SKEW_MAX_MS = 5_000;
/** How long a worker counted as living when it was last heard of; undefined: nobody has noted when that was. */
export const leaseInForceMs = ({
  heardAtMs,
  expiresAtMs,
}: Pick<WorkerRecord, 'heardAtMs' | 'expiresAtMs'>): number | undefined =>
  heardAtMs === undefined ? undefined : expiresAtMs - heardAtMs - CLOCK_SKEW_MAX_MS;

/** Such a gap between two reads may hide an outage of a whole lease. */
export const GAP_MAX_MS = WORKER_LEASE_MS - CLOCK_SKEW_MAX_MS;
/** So long a partition must have been attended before a worker's silence counts against it. */
export const ATTENDED_MS = WORKER_LEASE_MS + CLOCK_SKEW_MAX_MS;
/**
 * A loss is not held back for longer, though the gaps are long: the wakes that should close them do not come. No worker
 * that lost its lease lives on for so long.
 */
export const HELD_BACK_MAX_MS = 5 * 60_000;
/** What was held back so long ago has nothing to do with now: two ticks, and one that was late. */
const HELD_BACK_FORGOTTEN_MS = 150_000;

/** What the commits of passes and the looks between them tell together. */
export function attendedTogether(
  page: Attendance | undefined,
  lookout: Pick<Lookout, 'sinceMs' | 'atMs'> | undefined,
): Attendance | undefined {
  if (lookout === undefined) return page;
  const { sinceMs, atMs } = lookout;
  if (page === undefined) return { sinceMs, atMs };
  const [earlier, later] = page.atMs <= atMs ? [page, lookout] : [lookout, page];
  const isOne = later.sinceMs - earlier.atMs < GAP_MAX_MS;
  return {
    ...page,
    sinceMs: isOne ? Math.min(earlier.sinceMs, later.sinceMs) : later.sinceMs,
    atMs: later.atMs,
  };
}

/**
 * How steadily the partition is read by now. It was read between `nowMs` and `readMs`, between which the process may have stood
 * still: nothing is taken for attended before the later one, or after the earlier one.
 */
export function attend(before: Attendance | undefined, nowMs: number, readMs = nowMs): Attendance {
  if (before === undefined) return { sinceMs: readMs, atMs: nowMs };
  const gapMs = readMs - before.atMs;
  // Of a clock that was far ahead, nothing is believed.
  if (gapMs < -CLOCK_SKEW_MAX_MS) return { sinceMs: readMs, atMs: nowMs };
  const heldBackSinceMs = gapMs > HELD_BACK_FORGOTTEN_MS ? undefined : before.heldBackSinceMs;
  return {
    sinceMs: gapMs >= GAP_MAX_MS ? readMs : before.sinceMs,
    atMs: Math.max(nowMs, before.atMs),
    ...(heldBackSinceMs === undefined ? {} : { heldBackSinceMs }),
  };
}

/** Whether a worker whose lease is over may be declared lost. */
export function mayDeclareLost({ sinceMs, heldBackSinceMs }: Attendance, nowMs: number): boolean {
  if (nowMs - sinceMs >= ATTENDED_MS) return true;
  return heldBackSinceMs !== undefined && nowMs - heldBackSinceMs >= HELD_BACK_MAX_MS;
}

/** As this pass leaves it. */
export function withHeldBack(attendance: Attendance, isHeldBack: boolean, nowMs: number): Attendance {
  const { heldBackSinceMs, ...rest } = attendance;
  if (nowMs - attendance.sinceMs >= ATTENDED_MS) return rest;
  const sinceMs = heldBackSinceMs ?? (isHeldBack ? nowMs : undefined);
  return sinceMs === undefined ? rest : { ...rest, heldBackSinceMs: sinceMs };
}

/** Time is cut into windows; the first pass of each sees to it that there is one in the next. */
const WINDOW_MS = { heldBack: 5_000, ramped: 1_000 } as const;
/** So much into the next window, that a dispatcher whose clock is behind is in it too. */
const INTO_WINDOW_MS = 1_000;

/** When to look again at what this pass has held back, or not come to. */
export function nextLook(
  why: keyof typeof WINDOW_MS,
  before: Attendance | undefined,
  nowMs: number,
): { readonly checkAtMs: number; readonly wakeInMs: number | undefined } {
  const windowMs = WINDOW_MS[why];
  const windowOf = (atMs: number): number => Math.floor(atMs / windowMs);
  const checkAtMs = (windowOf(nowMs) + 1) * windowMs;
  const isFirst = before === undefined || windowOf(before.atMs) !== windowOf(nowMs);
  return { checkAtMs, wakeInMs: isFirst ? checkAtMs + INTO_WINDOW_MS - nowMs : undefined };
}

/** Places sent out again, given up or taken away by the first pass after a gap. */
export const RAMP_FIRST = 20;
const RAMP_DOUBLES_MS = 1_000;
const RAMP_DOUBLINGS_MAX = 12;

/** How many places one pass may send out again, give up or take away. */
export function rampOf({ sinceMs }: Attendance, nowMs: number): number {
  const doublings = Math.floor(Math.max(0, nowMs - sinceMs) / RAMP_DOUBLES_MS);
  return doublings > RAMP_DOUBLINGS_MAX ? Number.POSITIVE_INFINITY : RAMP_FIRST * 2 ** doublings;
}
