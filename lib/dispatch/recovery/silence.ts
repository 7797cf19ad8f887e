/**
 * Decides what follows when workers fall silent: when to check the workers, and when a worker whose lease has ended counts as
 * lost. Recovery (`recover.ts`), the close step and worker checks (`look-at-workers.ts`) use it.
 *
 * A job on a worker process has no deadline of its own that a pass would wait for. The worker's record says how long the job
 * counts as running, so passes read these records. If a lease has ended since the last time, every reservation entry of that
 * fleet that no living worker names is looked up at once, even if its check is not due. Worker checks between passes make sure
 * that such a pass comes.
 *
 * The outage guard: while the store is unreachable, no worker can renew its lease or write down what it has done. A worker's
 * silence therefore proves something only once the store has been reachable again for a whole lease.
 *
 * A partition is *observed* while it is read without a long gap. Commits do not show outages. So a gap between two reads that
 * could hide a whole lease of silence starts the observation anew, and a worker is declared lost only if its partition was
 * observed for a whole lease. Quiet partitions have gaps without an outage. There, the first pass that would declare a loss has
 * itself woken again until the lease has passed.
 *
 * With a worker's lease L and clocks that differ by at most S: a gap measured as less than L - S is shorter than L, and a time
 * measured as at least L + S is not shorter than L.
 *
 * After an outage, messages are sent again in batches that double (`rampOf`), so that services which have just come back are not
 * flooded.
 */

import { claimIdOf, type ReservedJob } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { WAKE_STEP_MS } from '../../queue/contract.ts';
import type {
  Lookout,
  Observation,
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

/** The lease that a worker had at its last heartbeat, in ms. Undefined: the time of that heartbeat is unknown. */
export const leaseInForceMs = ({
  heardAtMs,
  expiresAtMs,
}: Pick<WorkerRecord, 'heardAtMs' | 'expiresAtMs'>): number | undefined =>
  heardAtMs === undefined ? undefined : expiresAtMs - heardAtMs - CLOCK_SKEW_MAX_MS;

/** The least gap between two reads of a partition that may hide an outage of a whole lease. */
export const GAP_MAX_MS = WORKER_LEASE_MS - CLOCK_SKEW_MAX_MS;
/** A partition must have been observed for so long before a worker whose lease has ended may be declared lost. */
export const OBSERVED_MS = WORKER_LEASE_MS + CLOCK_SKEW_MAX_MS;

/** Combines the observation in the partition summary with that of the worker checks between passes. */
export function joinObservations(
  summary: Observation | undefined,
  lookout: Pick<Lookout, 'sinceMs' | 'atMs'> | undefined,
): Observation | undefined {
  // planted: unwitnessed-looks
  if (lookout === undefined) return summary;
  const { sinceMs, atMs } = lookout;
  if (summary === undefined) return { sinceMs, atMs };
  const [earlier, later] = summary.atMs <= atMs ? [summary, lookout] : [lookout, summary];
  const isOne = later.sinceMs - earlier.atMs < GAP_MAX_MS;
  return {
    ...summary,
    sinceMs: isOne ? Math.min(earlier.sinceMs, later.sinceMs) : later.sinceMs,
    atMs: later.atMs,
  };
}

/**
 * Returns the observation after another read. The read happened between `nowMs` and `readMs`, and the process may have
 * been suspended between them. So a new observation begins at the later instant, and an observation that goes on
 * extends to the earlier one.
 */
export function extendObservation(
  before: Observation | undefined,
  nowMs: number,
  readMs = nowMs,
): Observation {
  if (before === undefined) return { sinceMs: readMs, atMs: nowMs };
  const gapMs = readMs - before.atMs;
  // The observation was written by a clock that was far ahead, so it is ignored.
  if (gapMs < -CLOCK_SKEW_MAX_MS) return { sinceMs: readMs, atMs: nowMs };
  // If the gap is longer than two ticks, one of them late, the deferral of losses ends: losses that were deferred before the gap have
  // nothing to do with the present ones.
  const heldBackSinceMs = gapMs > 2 * LOOK_AHEAD_MS ? undefined : before.heldBackSinceMs;
  return {
    sinceMs: gapMs >= GAP_MAX_MS ? readMs : before.sinceMs,
    atMs: Math.max(nowMs, before.atMs),
    ...(heldBackSinceMs === undefined ? {} : { heldBackSinceMs }),
  };
}

/** Whether a worker whose lease has ended may be declared lost. */
export function mayDeclareLost({ sinceMs, heldBackSinceMs }: Observation, nowMs: number): boolean {
  if (nowMs - sinceMs >= OBSERVED_MS) return true;
  return heldBackSinceMs !== undefined && nowMs - heldBackSinceMs >= HELD_BACK_MAX_MS;
}

/** Returns the observation as a pass leaves it, with the instant since which losses are deferred. */
export function withDeferredLosses(
  observation: Observation,
  isDeferred: boolean,
  nowMs: number,
): Observation {
  const { heldBackSinceMs, ...rest } = observation;
  if (nowMs - observation.sinceMs >= OBSERVED_MS) return rest;
  const sinceMs = heldBackSinceMs ?? (isDeferred ? nowMs : undefined);
  return sinceMs === undefined ? rest : { ...rest, heldBackSinceMs: sinceMs };
}

/**
 * Lengths of the windows into which time is divided. A pass that leaves something to a later pass makes sure that a
 * pass comes in the next window.
 */
const WINDOW_MS = { heldBack: CLOCK_SKEW_MAX_MS, ramped: RAMP_DOUBLES_MS } as const;

/**
 * Returns when a pass must look again at the entries that this pass has deferred or not reached. All passes in one
 * window return the same, so that one wake serves them all.
 */
export function nextRecoveryAt(
  why: keyof typeof WINDOW_MS,
  nowMs: number,
): { readonly checkAtMs: number; readonly wakeAtMs: number } {
  const windowMs = WINDOW_MS[why];
  const checkAtMs = (Math.floor(nowMs / windowMs) + 1) * windowMs;
  // The wake comes a little later than the check is due, so that it is due by the clock of a dispatcher that is behind,
  // too.
  return { checkAtMs, wakeAtMs: checkAtMs + WAKE_STEP_MS };
}

/** Returns how many entries one pass may send again, give up or end as lost. */
export function rampOf({ sinceMs }: Observation, nowMs: number): number {
  const doublings = Math.floor(Math.max(0, nowMs - sinceMs) / RAMP_DOUBLES_MS);
  return RAMP_FIRST * 2 ** doublings;
}

/**
 * Milliseconds between two checks of the workers while jobs run on processes: less than the gap that may hide an
 * outage, minus the time that queues and cold starts take.
 */
export const LOOK_EVERY_MS = GAP_MAX_MS - WAKE_TAKES_MS;

/** The end of a lease, including that of a former incarnation of the same worker. */
interface LeaseEnd {
  readonly fleet: string;
  readonly atMs: number;
}

function leaseEndsOf({
  workers,
  expiredWorkers,
}: Pick<PartitionState, 'workers' | 'expiredWorkers'>): readonly LeaseEnd[] {
  return [
    ...workers.flatMap(({ fleet, expiresAtMs, formerUntilMs }) => [
      { fleet, atMs: expiresAtMs },
      // planted: former-lives
      ...(formerUntilMs === undefined ? [] : [{ fleet, atMs: formerUntilMs }]),
    ]),
    ...expiredWorkers.map(({ fleet, expiresAtMs, formerUntilMs = 0 }) => ({
      fleet,
      atMs: Math.max(expiresAtMs, formerUntilMs),
    })),
  ];
}

/** Reservation entries that may have lost their worker. */
export interface SuspectEntries {
  readonly isSuspect: (reservation: Reservation, position: number, entry: ReservedJob) => boolean;
  /** Epoch ms: the latest end of a lease for which these entries are suspect. */
  readonly untilMs: number;
}

/** Returns the entries to look up because leases have ended. Undefined: all ended leases were handled. */
export function suspicionOf(
  state: Pick<PartitionState, 'workers' | 'expiredWorkers' | 'lookout'>,
  nowMs: number,
): SuspectEntries | undefined {
  const judgedUntilMs = state.lookout?.judgedUntilMs ?? 0;
  const ended = leaseEndsOf(state).filter(({ atMs }) => atMs > judgedUntilMs && atMs <= nowMs);
  if (ended.length === 0) return undefined;
  const fleets = new Set(ended.map(({ fleet }) => fleet));
  // A lost worker may not have reported jobs that it began after its last heartbeat. So all entries of the fleet are suspect,
  // except those that living workers name.
  const named = new Set(
    state.workers.flatMap(({ occupants }) => occupants.map(({ claimId, jobId }) => `${claimId} ${jobId}`)),
  );
  return {
    isSuspect: ({ batchId }, position, { id, fleet }) =>
      fleets.has(fleet) && !named.has(`${claimIdOf(batchId, position)} ${id}`),
    untilMs: Math.max(...ended.map(({ atMs }) => atMs)),
  };
}

/** Whether any of these entries may run on a worker process. */
export function runsOnWorkers(
  { workers, expiredWorkers, lookout }: Pick<PartitionState, 'workers' | 'expiredWorkers' | 'lookout'>,
  places: Iterable<ReservedJob>,
): boolean {
  const judgedUntilMs = lookout?.judgedUntilMs ?? 0;
  const unhandled = expiredWorkers.filter(
    ({ expiresAtMs, formerUntilMs = 0 }) => Math.max(expiresAtMs, formerUntilMs) > judgedUntilMs,
  );
  const fleets = new Set([...workers, ...unhandled].map(({ fleet }) => fleet));
  if (fleets.size === 0) return false;
  for (const { fleet } of places) if (fleets.has(fleet)) return true;
  return false;
}

/** Returns the next end of a lease, epoch ms. Undefined: no lease is running. */
export function nextLeaseEndMs(
  state: Pick<PartitionState, 'workers' | 'expiredWorkers'>,
  nowMs: number,
): number | undefined {
  const coming = leaseEndsOf(state).flatMap(({ atMs }) => (atMs > nowMs ? [atMs] : []));
  return coming.length === 0 ? undefined : Math.min(...coming);
}

/**
 * Returns when the next worker check is due, epoch ms, a whole number of seconds from now. It comes soon enough to
 * leave no gap, and not after the next end of a lease, nor after the instant from which an ended lease may count. If a
 * lease has ended, it comes again soon.
 */
export function nextWorkerCheckAtMs(
  state: Pick<PartitionState, 'workers' | 'expiredWorkers' | 'lookout'>,
  observation: Observation,
  /** Epoch ms at which the state was loaded. Leases that ended since then were not seen. */
  loadedAtMs: number,
  nowMs: number,
): number {
  const isSuspicious = suspicionOf(state, loadedAtMs) !== undefined;
  const isDeferred = isSuspicious && !mayDeclareLost(observation, loadedAtMs);
  const inMs = Math.min(
    LOOK_EVERY_MS,
    (nextLeaseEndMs(state, loadedAtMs) ?? Infinity) - nowMs,
    isSuspicious && !isDeferred ? CONFIRM_MS : Infinity,
    isDeferred
      ? Math.ceil((observation.sinceMs + OBSERVED_MS - nowMs) / WAKE_STEP_MS) * WAKE_STEP_MS
      : Infinity,
  );
  return nowMs + Math.max(WAKE_STEP_MS, Math.floor(inMs / WAKE_STEP_MS) * WAKE_STEP_MS);
}

/** Whether a later worker check is on its way. A time far in the future comes from a wrong clock and is ignored. */
export const isOnItsWay = (lookout: Lookout | undefined, nowMs: number): boolean =>
  lookout !== undefined &&
  lookout.nextAtMs > nowMs &&
  lookout.nextAtMs <= nowMs + LOOK_EVERY_MS + CLOCK_SKEW_MAX_MS;

/**
 * Sends the next worker check, then notes it. `superseded`: another one was noted meanwhile. A check that was sent and not noted
 * ends when it arrives, and its sender tries again. The other order could leave a check that is noted and never comes.
 */
export async function sendNextCheck(
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
  /** The partition as the pass has loaded it, at `loadedAtMs` or later. */
  readonly state: PartitionState;
  readonly loadedAtMs: number;
  /** Jobs that hold capacity after the pass. */
  readonly held: readonly ReservedJob[];
  readonly observation: Observation;
  /**
   * Epoch ms: every job that ran under a lease which had ended by then was ended as lost. Undefined: the pass did not look, or some
   * of these jobs are left.
   */
  readonly judgedUntilMs: number | undefined;
}

/**
 * At the end of a pass: notes which ended leases it has handled, and sends a first worker check if none is on its way. Never
 * rejects.
 */
export async function scheduleWorkerCheck(
  context: DispatchContext,
  partition: number,
  { state, loadedAtMs, held, observation, judgedUntilMs }: AfterPass,
): Promise<void> {
  const { store, clock, log } = context;
  const { lookout } = state;
  const nowMs = clock.nowMs();
  const { sinceMs, atMs } = observation;
  // planted: no-looks
  const isMissing = runsOnWorkers(state, held) && !isOnItsWay(lookout, nowMs);
  const isNews = judgedUntilMs !== undefined && judgedUntilMs > (lookout?.judgedUntilMs ?? 0);
  const handled = Math.max(judgedUntilMs ?? 0, lookout?.judgedUntilMs ?? 0);
  try {
    if (isMissing) {
      const nextAtMs = nextWorkerCheckAtMs(state, observation, loadedAtMs, nowMs);
      await sendNextCheck(context, partition, lookout, { sinceMs, atMs, nextAtMs, judgedUntilMs: handled });
    } else if (isNews) {
      const nextAtMs = lookout?.nextAtMs ?? 0;
      await store.keepLookout({
        partition,
        seen: lookout,
        next: { sinceMs, atMs, nextAtMs, judgedUntilMs: handled },
      });
    }
  } catch (error) {
    log.warn('a worker check could not be scheduled; the next pass schedules it', {
      partition,
      error: String(error),
    });
  }
}
