/**
 * What the silence of workers asks of a partition's dispatchers: to look when a lease ends, and to take what ran under it.
 *
 * A job on a process has no deadline of its own that a pass would wait for: its worker's record says how long it counts as
 * running. So passes look at the records. Where a lease has ended since the last time, every place of that fleet that no
 * living worker names is looked up at once, whatever its reservation says. Between passes, looks see to it that there
 * is one then (`lookout.ts`, `look.ts`).
 */

import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import type { Attendance, Lookout, PartitionState, Reservation } from '../../store/records.ts';
import { ATTENDED_MS, CLOCK_SKEW_MAX_MS, GAP_MAX_MS, mayDeclareLost } from './outage-guard.ts';

/**
 * While jobs run on processes, somebody looks this often: less than the gap that may hide an outage, with what queues and
 * cold starts take.
 */
export const LOOK_EVERY_MS = GAP_MAX_MS - 3_000;
/**
 * So long after the end of a lease was seen, whether it was answered: the pass may have been another dispatcher's, by whose clock
 * it had not ended.
 */
const CONFIRM_MS = 2_000;
/** Queues delay messages by whole seconds. */
const SECOND_MS = 1_000;

/** The end of a life's lease; of a life that is followed by another of its name, too. */
interface LeaseEnd {
  readonly fleet: string;
  readonly atMs: number;
}

function endsOf({ workers, gone }: Pick<PartitionState, 'workers' | 'gone'>): readonly LeaseEnd[] {
  return [
    ...workers.flatMap(({ fleet, expiresAtMs, formerUntilMs }) => [
      { fleet, atMs: expiresAtMs },
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
  /** When the state was loaded: what has ended since then, nobody has seen. */
  loadedAtMs: number,
  nowMs: number,
): number {
  const isSuspicious = suspicionOf(state, loadedAtMs) !== undefined;
  const isHeldBack = isSuspicious && !mayDeclareLost(attendance, loadedAtMs);
  const inMs = Math.min(
    LOOK_EVERY_MS,
    (nextLeaseEndMs(state, loadedAtMs) ?? Infinity) - nowMs,
    isSuspicious && !isHeldBack ? CONFIRM_MS : Infinity,
    isHeldBack ? Math.ceil((attendance.sinceMs + ATTENDED_MS - nowMs) / SECOND_MS) * SECOND_MS : Infinity,
  );
  return nowMs + Math.max(SECOND_MS, Math.floor(inMs / SECOND_MS) * SECOND_MS);
}

/** Whether a look is on its way that comes later. What a clock that is far ahead has written is not believed. */
export const isOnItsWay = (lookout: Lookout | undefined, nowMs: number): boolean =>
  lookout !== undefined &&
  lookout.nextAtMs > nowMs &&
  lookout.nextAtMs <= nowMs + LOOK_EVERY_MS + CLOCK_SKEW_MAX_MS;
