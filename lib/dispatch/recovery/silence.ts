/**
 * What the silence of workers asks of a partition's dispatchers: to look when a lease ends, and to take what ran under it.
 *
 * A job on a process has no deadline of its own that a pass would wait for: its worker's record says how long it counts as
 * running. So passes look at the records. Where a lease has ended since the last time, every place of that fleet that no
 * living worker names is looked up at once, whatever its reservation says. Between passes, looks see to it that there
 * is one then (`look.ts`).
 *
 * The outage guard: while the store cannot be reached, no worker can say that it lives, nor write down what it has done. So
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
 * What the outage has left behind is sent out again in batches that double (`rampOf`), so that what has just come
 * back is not flooded.
 */

import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { WAKE_STEP_MS } from '../../queue/contract.ts';
import type {
  Attendance,
  Lookout,
  PartitionState,
  Reservation,
  WorkerRecord,
} from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import {
  CONFIRM_MS,
  HELD_BACK_MAX_MS,
  LOOK_AHEAD_MS,
  RAMP_DOUBLES_MS,
  RAMP_FIRST,
  WAKE_TAKES_MS,
  WORKER_LEASE_MS,
} from '../tuning.ts';

/** How long a worker counted as living when it was last heard of; undefined: it was not noted when that was. */
export const leaseInForceMs = ({
  heardAtMs,
  expiresAtMs,
}: Pick<WorkerRecord, 'heardAtMs' | 'expiresAtMs'>): number | undefined =>
  heardAtMs === undefined ? undefined : expiresAtMs - heardAtMs - CLOCK_SKEW_MAX_MS;

/** Such a gap between two reads may hide an outage of a whole lease. */
export const GAP_MAX_MS = WORKER_LEASE_MS - CLOCK_SKEW_MAX_MS;
/** So long a partition must have been attended before a worker's silence counts against it. */
export const ATTENDED_MS = WORKER_LEASE_MS + CLOCK_SKEW_MAX_MS;

/** What the commits of passes and the looks between them tell together. */
export function attendedTogether(
  page: Attendance | undefined,
  lookout: Pick<Lookout, 'sinceMs' | 'atMs'> | undefined,
): Attendance | undefined {
  // planted: unwitnessed-looks
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
  // Two ticks, and one that was late: what was held back before has nothing to do with now.
  const heldBackSinceMs = gapMs > 2 * LOOK_AHEAD_MS ? undefined : before.heldBackSinceMs;
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

/** Time is cut into windows; a pass that leaves something to the next one sees to it that there is a pass in it. */
const WINDOW_MS = { heldBack: CLOCK_SKEW_MAX_MS, ramped: RAMP_DOUBLES_MS } as const;

/** When to look again at what this pass has held back, or not come to. The same for all passes of a window. */
export function nextLook(
  why: keyof typeof WINDOW_MS,
  nowMs: number,
): { readonly checkAtMs: number; readonly wakeAtMs: number } {
  const windowMs = WINDOW_MS[why];
  const checkAtMs = (Math.floor(nowMs / windowMs) + 1) * windowMs;
  // A dispatcher whose clock is behind is to be in that window too.
  return { checkAtMs, wakeAtMs: checkAtMs + WAKE_STEP_MS };
}

/** How many places one pass may send out again, give up or take away. */
export function rampOf({ sinceMs }: Attendance, nowMs: number): number {
  const doublings = Math.floor(Math.max(0, nowMs - sinceMs) / RAMP_DOUBLES_MS);
  return RAMP_FIRST * 2 ** doublings;
}

/**
 * While jobs run on processes, a look comes this often: less than the gap that may hide an outage, with what queues and
 * cold starts take.
 */
export const LOOK_EVERY_MS = GAP_MAX_MS - WAKE_TAKES_MS;

/** The end of a life's lease; of a life that is followed by another of its name, too. */
interface LeaseEnd {
  readonly fleet: string;
  readonly atMs: number;
}

function endsOf({ workers, gone }: Pick<PartitionState, 'workers' | 'gone'>): readonly LeaseEnd[] {
  return [
    ...workers.flatMap(({ fleet, expiresAtMs, formerUntilMs }) => [
      { fleet, atMs: expiresAtMs },
      // planted: former-lives
      ...(formerUntilMs === undefined ? [] : [{ fleet, atMs: formerUntilMs }]),
    ]),
    ...gone.map(({ fleet, expiresAtMs, formerUntilMs = 0 }) => ({
      fleet,
      atMs: Math.max(expiresAtMs, formerUntilMs),
    })),
  ];
}

/** Places that may have lost their worker. */
export interface Suspicion {
  readonly isSuspect: (reservation: Reservation, position: number, entry: ReservedJob) => boolean;
  /** The last end of a lease that it is about. */
  readonly untilMs: number;
}

/** What is to be looked up because leases have ended; undefined: none has, since what ran under it was taken. */
export function suspicionOf(
  state: Pick<PartitionState, 'workers' | 'gone' | 'lookout'>,
  nowMs: number,
): Suspicion | undefined {
  const judgedUntilMs = state.lookout?.judgedUntilMs ?? 0;
  const ended = endsOf(state).filter(({ atMs }) => atMs > judgedUntilMs && atMs <= nowMs);
  if (ended.length === 0) return undefined;
  const fleets = new Set(ended.map(({ fleet }) => fleet));
  // What it began after its last heartbeat, a worker that is gone has named nowhere. So what the living name is left out.
  const named = new Set(
    state.workers.flatMap(({ occupants }) => occupants.map(({ claimId, jobId }) => `${claimId} ${jobId}`)),
  );
  return {
    isSuspect: ({ batchId }, position, { id, fleet }) =>
      fleets.has(fleet) && !named.has(`${claimIdOf(batchId, position)} ${id}`),
    untilMs: Math.max(...ended.map(({ atMs }) => atMs)),
  };
}

/** Whether any of these places may be held by a process. */
export function runsOnWorkers(
  { workers, gone, lookout }: Pick<PartitionState, 'workers' | 'gone' | 'lookout'>,
  places: Iterable<ReservedJob>,
): boolean {
  const judgedUntilMs = lookout?.judgedUntilMs ?? 0;
  const unjudged = gone.filter(
    ({ expiresAtMs, formerUntilMs = 0 }) => Math.max(expiresAtMs, formerUntilMs) > judgedUntilMs,
  );
  const fleets = new Set([...workers, ...unjudged].map(({ fleet }) => fleet));
  if (fleets.size === 0) return false;
  for (const { fleet } of places) if (fleets.has(fleet)) return true;
  return false;
}

/** The soonest end of a lease that is to come; undefined: none is. */
export function nextLeaseEndMs(
  state: Pick<PartitionState, 'workers' | 'gone'>,
  nowMs: number,
): number | undefined {
  const coming = endsOf(state).flatMap(({ atMs }) => (atMs > nowMs ? [atMs] : []));
  return coming.length === 0 ? undefined : Math.min(...coming);
}

/**
 * When the next look is due: soon enough to leave no gap, and not after the next end of a lease, or the instant from which
 * one that has ended may count; soon again where one has. Whole seconds from now.
 */
export function nextLookAtMs(
  state: Pick<PartitionState, 'workers' | 'gone' | 'lookout'>,
  attendance: Attendance,
  /** When the state was loaded: what has ended since then, was not seen. */
  loadedAtMs: number,
  nowMs: number,
): number {
  const isSuspicious = suspicionOf(state, loadedAtMs) !== undefined;
  const isHeldBack = isSuspicious && !mayDeclareLost(attendance, loadedAtMs);
  const inMs = Math.min(
    LOOK_EVERY_MS,
    (nextLeaseEndMs(state, loadedAtMs) ?? Infinity) - nowMs,
    isSuspicious && !isHeldBack ? CONFIRM_MS : Infinity,
    isHeldBack
      ? Math.ceil((attendance.sinceMs + ATTENDED_MS - nowMs) / WAKE_STEP_MS) * WAKE_STEP_MS
      : Infinity,
  );
  return nowMs + Math.max(WAKE_STEP_MS, Math.floor(inMs / WAKE_STEP_MS) * WAKE_STEP_MS);
}

/** Whether a look is on its way that comes later. What a clock that is far ahead has written is not believed. */
export const isOnItsWay = (lookout: Lookout | undefined, nowMs: number): boolean =>
  lookout !== undefined &&
  lookout.nextAtMs > nowMs &&
  lookout.nextAtMs <= nowMs + LOOK_EVERY_MS + CLOCK_SKEW_MAX_MS;

/**
 * Sends the next look, and notes it. `superseded`: another one was noted meanwhile. Sent first: one that was not noted is over when
 * it comes, and whoever could not note it comes again; one that was noted and not sent would come never.
 */
export async function lookAgain(
  { store, queue, clock }: DispatchContext,
  partition: number,
  seen: Lookout | undefined,
  next: Lookout,
): Promise<'applied' | 'superseded'> {
  // planted: looks-noted-first
  await queue.sendLook(partition, Math.max(0, next.nextAtMs - clock.nowMs()), next.nextAtMs);
  return store.keepLookout({ partition, seen, next });
}

export interface AfterPass {
  /** As the pass has loaded it, not before `loadedAtMs`. */
  readonly state: PartitionState;
  readonly loadedAtMs: number;
  /** What holds capacity after it. */
  readonly held: readonly ReservedJob[];
  readonly attendance: Attendance;
  /** What ran under leases that had ended by then was taken; undefined: the pass did not look. */
  readonly judgedUntilMs: number | undefined;
}

/** What a pass leaves to those who look: that it has looked itself, and a first look where none is on its way. Never rejects. */
export async function stayOnLookout(
  context: DispatchContext,
  partition: number,
  { state, loadedAtMs, held, attendance, judgedUntilMs }: AfterPass,
): Promise<void> {
  const { store, clock, log } = context;
  const { lookout } = state;
  const nowMs = clock.nowMs();
  const { sinceMs, atMs } = attendance;
  // planted: no-looks
  const isMissing = runsOnWorkers(state, held) && !isOnItsWay(lookout, nowMs);
  const isNews = judgedUntilMs !== undefined && judgedUntilMs > (lookout?.judgedUntilMs ?? 0);
  const judged = Math.max(judgedUntilMs ?? 0, lookout?.judgedUntilMs ?? 0);
  try {
    if (isMissing) {
      const nextAtMs = nextLookAtMs(state, attendance, loadedAtMs, nowMs);
      await lookAgain(context, partition, lookout, { sinceMs, atMs, nextAtMs, judgedUntilMs: judged });
    } else if (isNews) {
      const nextAtMs = lookout?.nextAtMs ?? 0;
      await store.keepLookout({
        partition,
        seen: lookout,
        next: { sinceMs, atMs, nextAtMs, judgedUntilMs: judged },
      });
    }
  } catch (error) {
    log.warn('no look at the workers was asked for; the next pass does it', {
      partition,
      error: String(error),
    });
  }
}
