/**
 * Recovery: part of the settle step. It looks up the jobs of reservations whose check is due, or whose worker's lease has ended,
 * and decides for each entry: settle it, send its message again, give it up, or end its attempt as lost. `silence.ts` decides
 * when a silent worker counts as lost.
 */

import type { JobTypeConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import { isExclusive, typesByName } from '../../core/conflict.ts';
import { isTerminal, type MovingJob } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { type AttemptStatus, attemptStatusOf, claimPlanned, giveBack } from '../../core/life-cycle.ts';
import { type FleetMessage, WAKE_STEP_MS } from '../../queue/contract.ts';
import type { Observation, PartitionState, Reservation, WorkerRecord } from '../../store/contract/records.ts';
import type { RequestOf } from '../../store/contract/verbs.ts';
import { storeAnnounced, submitContextOf } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { BetweenPartitions } from '../partitions/between-partitions.ts';
import {
  attemptOfEntry,
  claimIdOfEntry,
  entriesOf,
  plannedOf,
  type ReservationEntry,
  type Settled,
  startByOf,
} from '../view/settled.ts';
import { loseAttempt } from './lose.ts';
import {
  extendObservation,
  joinObservations,
  mayDeclareLost,
  nextRecoveryAt,
  rampOf,
  type SuspectEntries,
  suspicionOf,
  withDeferredLosses,
} from './silence.ts';

export interface RecoveryResult {
  readonly settled: readonly Settled[];
  readonly postponed: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  /** Messages to send again, for jobs that no worker has started in time. */
  readonly resend: readonly FleetMessage[];
  /** Jobs that recovery has changed. They may be candidates again. */
  readonly images: readonly MovingJob[];
  /** The time over which passes have read the partition regularly, for the next commit to write. */
  readonly observation: Observation;
  /**
   * Epoch ms at which another pass is needed, for deferred losses, for entries beyond this pass's bound, or for the end
   * of an attempt's own time. Undefined: none is.
   */
  readonly wakeAtMs?: number | undefined;
  /**
   * Whether another pass should follow at once: more checks are due than one pass makes, and this pass settled or sent something, so
   * the other checks probably have work, too. False if the ramp (`rampOf`) cut this pass short: `wakeAtMs` says when the next one comes.
   */
  readonly isMore: boolean;
  /**
   * In how many milliseconds attempts will end whose ends no event will report, so that a wake is sent; one number for each
   * second with such ends.
   */
  readonly endsInMs: readonly number[];
  /**
   * Epoch ms: every job that ran under a lease which had ended by then was ended as lost. Undefined: no lease had ended, or some
   * jobs are left.
   */
  readonly judgedUntilMs?: number | undefined;
}

/**
 * Whether the worker of this attempt may still be running it. An unreachable worker counts as running until its lease has ended:
 * a process renews its lease by heartbeats, a function's lease stands on the job from its start. The present configuration does
 * not matter, because a redeploy ends no running job.
 */
function mayStillRun(
  workers: ReadonlyMap<string, WorkerRecord>,
  job: MovingJob,
  nowMs: number,
  loadedAtMs: number,
): boolean {
  // planted: end-by-own-clock
  if (job.runUntilMs !== undefined) return nowMs < job.runUntilMs + CLOCK_SKEW_MAX_MS;
  // A worker that started the job this lately may have registered after the workers were read.
  // planted: just-registered
  if ((job.startedAtMs ?? nowMs) >= loadedAtMs - CLOCK_SKEW_MAX_MS) return true;
  const record = job.worker === undefined ? undefined : workers.get(job.worker.workerId);
  if (record === undefined) return false;
  // If the record is of a later incarnation of the worker, the former one, which runs the job, may go on until `formerUntilMs`.
  // planted: former-life
  return record.incarnation === job.worker?.incarnation || nowMs < (record.formerUntilMs ?? 0);
}

/**
 * Whether there is a record of the very incarnation that runs the job. If so, the ended lease of another incarnation
 * does not concern the job.
 */
const hasOwnRecord = (workers: ReadonlyMap<string, WorkerRecord>, { worker }: MovingJob): boolean =>
  worker !== undefined && workers.get(worker.workerId)?.incarnation === worker.incarnation;
/**
 * Returns the job's type as it was declared when the job was claimed. If that declaration is no longer known, the type
 * as it is declared now.
 */
async function typeOf(
  { configuration, deployed }: DispatchContext,
  job: MovingJob,
): Promise<JobTypeConfiguration | undefined> {
  const declared = job.claim?.declared;
  const present = typesByName(configuration).get(job.type);
  if (declared === undefined || deployed === undefined || declared === deployed.version) return present;
  // planted: terms-of-the-lost
  return (await deployed.typeUnder(declared, job.type)) ?? present;
}

/** Ends an attempt whose worker is gone, by the policy of its type. Undefined: the job has moved on meanwhile. */
async function endLostAttempt(
  context: DispatchContext,
  place: ReservationEntry,
  job: MovingJob,
  startedAtMs: number,
  nowMs: number,
): Promise<{ readonly settled: Settled; readonly job: MovingJob } | undefined> {
  const type = await typeOf(context, job);
  const outcome = await loseAttempt(context, job, type, nowMs, (as) =>
    as === 'failed' ? 'attempt failed, and its worker ended with it' : 'worker lost',
  );
  if (outcome.kind !== 'finished') return undefined;
  // Times come from the item as written, because another dispatcher may have ended the same attempt a little earlier.
  // planted: loss-by-own-clock
  const durationMs = Math.max(0, (outcome.job.finishedAtMs ?? nowMs) - startedAtMs);
  return {
    settled: {
      ...place,
      state: outcome.job.state,
      durationMs,
      succeeded: false,
      endedAtMs: outcome.job.finishedAtMs ?? nowMs,
    },
    job: outcome.job,
  };
}

/**
 * Takes back the claim of a job whose fleet is no longer declared: no worker would start the job. Returns the job as it
 * is then; undefined: it has started or moved on.
 */
async function returnClaim(
  context: DispatchContext,
  job: MovingJob,
  claimId: string,
): Promise<MovingJob | undefined> {
  const { store, clock, log } = context;
  const nowMs = clock.nowMs();
  // The job's line may have been retired since the claim, so it is announced again.
  const outcome = await storeAnnounced(submitContextOf(context), [job], () =>
    store.giveBack({ job, claimId, nowMs }),
  );
  if (outcome === 'superseded') return undefined;
  log.info('a claim was taken back: its fleet is no longer declared', {
    jobId: job.id,
    fleet: job.claim?.fleet,
  });
  const given = giveBack(job, claimId, nowMs);
  return given.kind === 'moved' ? given.job : undefined;
}

/**
 * Makes jobs that lost their worker ready at once. This pass frees what they held, so it must see them among the candidates.
 * Returns their new images.
 */
async function promoteLost(
  context: DispatchContext,
  lost: readonly MovingJob[],
  nowMs: number,
): Promise<readonly MovingJob[]> {
  const again = lost.filter(({ state, runAtMs }) => state === 'scheduled' && runAtMs <= nowMs);
  if (again.length === 0) return [];
  // The jobs' lines may have been retired while they ran, so they are announced again.
  const moved = await storeAnnounced(submitContextOf(context), again, () =>
    context.store.promote({ jobs: again, nowMs }),
  );
  return moved.filter((job) => job !== undefined);
}

/**
 * Returns the event for the history of a job whose reservation entry is given up without a claim. Undefined: the job is
 * not there.
 */
const historyOfGivenUp = (
  place: Pick<Settled, 'reservation' | 'position'>,
  job: MovingJob | undefined,
  atMs: number,
): RequestOf<'raiseVersion'>['given'] =>
  job === undefined ? undefined : { job, atMs, claimId: claimIdOfEntry(place) };

interface LookedUp {
  readonly place: ReservationEntry;
  readonly job: MovingJob | undefined;
  readonly status: AttemptStatus;
}

/**
 * The order in which a pass works, because its actions are bounded: entries that can be settled or sent at once, then
 * entries to give up, then attempts to end as lost.
 */
const STATUS_ORDER: readonly AttemptStatus['kind'][] = [
  'ended',
  'neverClaimed',
  'claimed',
  'mayCome',
  'running',
];

export interface RecoveryInput {
  readonly state: PartitionState;
  /** Epoch ms by this dispatcher's clock, not later than the read of the partition. */
  readonly loadedAtMs: number;
  readonly settledAlready: readonly Settled[];
  /** Whether to look up all entries, even if their check is not due. */
  readonly checksAll: boolean;
  /**
   * Whether the declaration has changed since the last pass. If so, everything that was claimed for fleets that are
   * gone is looked up, too.
   */
  readonly isRedeployed: boolean;
  /** Undefined: the pool has always had one partition. */
  readonly between?: Pick<BetweenPartitions, 'lockOfEntry'> | undefined;
}

/**
 * Looks up the jobs of reservations whose check is due. An ended attempt is settled. A job that has not started is claimed,
 * unless its worker has done so, and its message is sent again. An entry that can never be claimed is dropped, after its job's
 * version was raised. A running job is checked later, or ended as lost if its worker is gone and no outage may explain the
 * silence. After a gap, the number of entries doubles with time (`rampOf`).
 *
 * Source: design, Recovery; workload-distribution, "Incremental Recovery".
 */
export async function recover(context: DispatchContext, input: RecoveryInput): Promise<RecoveryResult> {
  const { state, loadedAtMs } = input;
  const known = joinObservations(state.observation, state.lookout);
  const observation = extendObservation(known, loadedAtMs, context.clock.nowMs());
  const suspicion = suspicionOf(state, loadedAtMs);
  const looked = reservationsDue(context, input, suspicion);
  if (looked.checked.length + looked.others.length > 0)
    return new Recovery(context, input, observation, suspicion, looked).run();
  return {
    settled: [],
    postponed: [],
    isMore: false,
    endsInMs: [],
    resend: [],
    images: [],
    observation: withDeferredLosses(observation, false, loadedAtMs),
    // Without reservations no job can be lost, so the ends of leases need not be noted.
    judgedUntilMs: state.reservations.length > 0 ? suspicion?.untilMs : undefined,
  };
}

/** The reservations that this pass looks up. */
interface DueReservations {
  /** Reservations whose check is due, and those that a redeploy concerns. */
  readonly checked: readonly Reservation[];
  /** Other reservations with an entry that may have lost its worker. */
  readonly others: readonly Reservation[];
  /** Whether more checks are due than one pass makes. */
  readonly hasMoreDue: boolean;
}

function reservationsDue(
  { clock, configuration, budget }: DispatchContext,
  { state, checksAll, isRedeployed }: RecoveryInput,
  suspicion: SuspectEntries | undefined,
): DueReservations {
  const nowMs = clock.nowMs();
  const allDue = state.reservations
    .filter((reservation) => checksAll || reservation.checkAtMs <= nowMs)
    .sort((one, other) => one.checkAtMs - other.checkAtMs);
  // planted: looks-up-in-turn
  const due = allDue.slice(0, checksAll ? undefined : budget.checkMax);
  const hasMoreDue = due.length < allDue.length;
  // Entries for fleets that the declaration has removed. All of them are looked up at once: only one pass for each declaration does so,
  // and no other event reports these entries.
  const orphaned = isRedeployed ? orphanedAmong(state.reservations, configuration) : [];
  const checked = [...new Set([...due, ...orphaned])];
  // planted: patient-checks-2
  if (suspicion === undefined) return { checked, others: [], hasMoreDue };
  const known = new Set(checked);
  const others = state.reservations.filter(
    (reservation) =>
      !known.has(reservation) &&
      [...reservation.jobs].some(([position, entry]) => suspicion.isSuspect(reservation, position, entry)),
  );
  return { checked, others, hasMoreDue };
}

/** Reservations with an entry for a fleet that is no longer declared. */
function orphanedAmong(
  reservations: readonly Reservation[],
  { fleets }: Pick<PoolConfiguration, 'fleets'>,
): readonly Reservation[] {
  const declared = new Set(fleets.map(({ fleet }) => fleet));
  return reservations.filter(({ jobs }) => [...jobs.values()].some(({ fleet }) => !declared.has(fleet)));
}

class Recovery {
  readonly #context: DispatchContext;
  readonly #input: RecoveryInput;
  readonly #nowMs: number;
  readonly #observation: Observation;
  readonly #suspicion: SuspectEntries | undefined;
  /** Reservations whose check is due, and those that a redeploy concerns. */
  readonly #checked: ReadonlySet<Reservation>;
  readonly #others: readonly Reservation[];
  readonly #hasMoreDue: boolean;
  readonly #workers: ReadonlyMap<string, WorkerRecord>;
  readonly #fleets: ReadonlySet<string>;
  readonly #settled: Settled[] = [];
  readonly #resend: FleetMessage[] = [];
  /** Jobs that wait again, or may wait. */
  readonly #images: MovingJob[] = [];
  /** Entries whose jobs are not claimed, and whose messages must be sent again. */
  readonly #unclaimed: ReservationEntry[] = [];
  /** Jobs whose attempts were ended as lost. */
  readonly #taken: MovingJob[] = [];
  /** How many more entries this pass may send again, give up or end as lost. */
  #actionsLeft: number;
  /** Ids of the reservations with an entry that `#actionsLeft` leaves to a later pass. */
  readonly #beyondBound = new Set<string>();
  /** Ids of the reservations with a loss that the outage guard defers (`mayDeclareLost`). */
  readonly #deferred = new Set<string>();
  /** By reservation id: when an attempt's own time ends, epoch ms, if that is before its next check. */
  readonly #endsAtMs = new Map<string, number>();
  /** Epoch ms, rounded up to seconds: ends of attempts that no event will report, so a wake is sent for each. */
  readonly #unreportedEndsMs = new Set<number>();
  #hasHandledAll = true;

  constructor(
    context: DispatchContext,
    input: RecoveryInput,
    observation: Observation,
    suspicion: SuspectEntries | undefined,
    { checked, others, hasMoreDue }: DueReservations,
  ) {
    this.#context = context;
    this.#input = input;
    this.#nowMs = context.clock.nowMs();
    this.#observation = observation;
    this.#suspicion = suspicion;
    this.#checked = new Set(checked);
    this.#others = others;
    this.#hasMoreDue = hasMoreDue;
    this.#workers = new Map(input.state.workers.map((worker) => [worker.workerId, worker]));
    this.#fleets = new Set(context.configuration.fleets.map(({ fleet }) => fleet));
    this.#actionsLeft = rampOf(observation, input.loadedAtMs);
  }

  async run(): Promise<RecoveryResult> {
    const lookedUp = await this.#lookUp();
    const resumes = new Set(
      this.#context.configuration.types.flatMap(({ type, onWorkerLost }) =>
        onWorkerLost === 'resume' ? [type] : [],
      ),
    );
    // Jobs that resume from a checkpoint have run for long, so they are handled first.
    const resumedFirst = lookedUp.toSorted(
      (one, other) => Number(resumes.has(other.place.entry.type)) - Number(resumes.has(one.place.entry.type)),
    );
    for (const kind of STATUS_ORDER) {
      for (const each of kind === 'running' ? resumedFirst : lookedUp)
        if (each.status.kind === kind) await this.#handle(each);
      if (kind === 'mayCome') await this.#claimUnstarted();
    }
    // planted: lost-not-shown
    this.#images.push(...(await promoteLost(this.#context, this.#taken, this.#nowMs)));
    return this.#result();
  }

  async #lookUp(): Promise<readonly LookedUp[]> {
    const done = new Set(this.#input.settledAlready.map(claimIdOfEntry));
    const places = entriesOf([...this.#checked, ...this.#others]).filter(
      (place) => !done.has(claimIdOfEntry(place)),
    );
    const unreadable = new Set<string>();
    const jobs = await this.#context.store.lookUpJobs({
      ids: places.map(({ entry }) => entry.id),
      unreadable: (id) => unreadable.add(id),
    });
    return places.flatMap((place, at) => {
      // An unreadable job may be running. Its entry counts until the job can be read or is gone.
      if (unreadable.has(place.entry.id)) return [];
      const job = jobs[at];
      return { place, job, status: attemptStatusOf(attemptOfEntry(place), job) };
    });
  }

  async #handle({ place, job, status }: LookedUp): Promise<void> {
    switch (status.kind) {
      case 'ended':
        this.#settleEnded(place, job, status);
        break;
      case 'neverClaimed':
        this.#settled.push({ ...place, succeeded: false });
        break;
      case 'mayCome':
        if (this.#isGivenUp(place)) await this.#giveUp(place, job);
        else if (!this.#needsLock(place) && this.#mustSendAgain(place)) this.#unclaimed.push(place);
        break;
      case 'claimed':
        // planted: claims-of-gone-fleets
        if (job !== undefined && !this.#fleets.has(place.entry.fleet)) await this.#returnClaim(place, job);
        else this.#resendIfDue(place);
        break;
      case 'running':
        if (job !== undefined) await this.#checkRunning(place, job, status.startedAtMs);
        break;
    }
  }

  #settleEnded(
    place: ReservationEntry,
    job: MovingJob | undefined,
    { durationMs, endedAtMs, succeeded }: Extract<AttemptStatus, { readonly kind: 'ended' }>,
  ): void {
    this.#settled.push({
      ...place,
      state: job?.state,
      resourceId: job?.resourceId,
      durationMs,
      endedAtMs,
      succeeded,
    });
    if (job !== undefined && !isTerminal(job.state)) this.#images.push(job);
  }

  /**
   * Whether an unclaimed job will not be started: its fleet is no longer declared, or a pass should have claimed it together with
   * a lock and has not done so until now.
   */
  #isGivenUp(place: ReservationEntry): boolean {
    return !this.#fleets.has(place.entry.fleet) || (this.#isDue(place) && this.#needsLock(place));
  }

  /**
   * Whether the entry's claim takes a lock, so only a pass may make it. An entry from another declaration may have needed a lock
   * although none is needed now, and a job of another partition may hold that lock.
   */
  #needsLock({ entry, reservation }: ReservationEntry): boolean {
    const { between } = this.#input;
    const { deployed } = this.#context;
    if (between === undefined) return false;
    if (between.lockOfEntry(this.#context, entry) !== undefined) return true;
    const isExcluded = entry.conflictKey !== undefined && isExclusive(entry.conflictKey);
    // planted: locks-are-forgotten
    return isExcluded && reservation.declared !== deployed?.version;
  }

  /**
   * Gives up an entry whose job was never claimed. The version is raised first, so a claim or start in progress fails from then
   * on, and no job runs that no reservation counts.
   */
  async #giveUp(place: ReservationEntry, job: MovingJob | undefined): Promise<void> {
    if (!this.#mayActOn(place)) return;
    const { id, version } = place.entry;
    const given = historyOfGivenUp(place, job, this.#nowMs);
    // planted: raise-before-give-up
    if ((await this.#context.store.raiseVersion({ jobId: id, version, given })) === 'raised')
      this.#settled.push({ ...place, succeeded: false });
  }

  /** Makes a job wait again that was claimed for a fleet which is no longer declared. */
  async #returnClaim(place: ReservationEntry, job: MovingJob): Promise<void> {
    if (!this.#mayActOn(place)) return;
    const waiting = await returnClaim(this.#context, job, claimIdOfEntry(place));
    if (waiting === undefined) return;
    this.#settled.push({ ...place, succeeded: false });
    this.#images.push(waiting);
  }

  /**
   * Claims jobs that were not started in time, under the declaration that they were planned with, and sends their messages again.
   * A start in progress makes the same claim. A worker of an earlier version can start only a job that is already claimed.
   */
  async #claimUnstarted(): Promise<void> {
    if (this.#unclaimed.length === 0) return;
    const outcomes = await this.#context.store.claim(
      this.#unclaimed.map((place) => {
        const { version, ...planned } = plannedOf(place.reservation, place.entry);
        return { jobId: place.entry.id, version, ...claimPlanned(claimIdOfEntry(place), planned) };
      }),
    );
    // A failed claim means that the job has started or changed. The stream or the next pass shows which.
    for (const [at, place] of this.#unclaimed.entries()) if (outcomes[at] === 'claimed') this.#send(place);
  }

  #resendIfDue(place: ReservationEntry): void {
    if (this.#mustSendAgain(place)) this.#send(place);
  }

  /**
   * Whether the message of an unstarted job must be sent again, because the message or the worker that received it may be lost.
   */
  #mustSendAgain(place: ReservationEntry): boolean {
    // A worker that is gone may have received the message. The queue would deliver it again, but only after the visibility
    // timeout.
    const isLost = this.#isSuspected(place) && mayDeclareLost(this.#observation, this.#input.loadedAtMs);
    return (this.#isDue(place) || isLost) && this.#mayActOn(place);
  }

  #send(place: ReservationEntry): void {
    const { id, fleet } = place.entry;
    const message = { jobId: id, claimId: claimIdOfEntry(place), ...startByOf(place.entry) };
    this.#resend.push({ fleet, message, isAlone: true });
  }

  async #checkRunning(place: ReservationEntry, job: MovingJob, startedAtMs: number): Promise<void> {
    const endsUnreported = this.#endsUnreported(place, job);
    const isDue = this.#isDue(place) || endsUnreported;
    const isSuspected = this.#isSuspected(place);
    if (!isDue && !isSuspected) return;
    const { loadedAtMs } = this.#input;
    if (mayStillRun(this.#workers, job, this.#nowMs, loadedAtMs)) {
      if (isDue) this.#noteEnd(place, job, endsUnreported);
      if (isSuspected && job.runUntilMs === undefined && !hasOwnRecord(this.#workers, job))
        this.#hasHandledAll = false;
      return;
    }
    // The outage guard protects processes only. A function's lease stands on its job and is not renewed through the store.
    if (job.runUntilMs === undefined && !mayDeclareLost(this.#observation, loadedAtMs)) {
      this.#deferred.add(place.reservation.batchId);
      return;
    }
    if (!this.#mayActOn(place)) return;
    const lost = await endLostAttempt(this.#context, place, job, startedAtMs, this.#nowMs);
    if (lost === undefined) return;
    this.#settled.push(lost.settled);
    this.#taken.push(lost.job);
  }

  /**
   * Whether no event will report the end of the job's attempt: it runs on a function of a removed fleet. The queue of
   * the fleet was removed, too, and with it the message that would report the function's death.
   */
  #endsUnreported({ entry }: ReservationEntry, { runUntilMs }: MovingJob): boolean {
    return this.#input.isRedeployed && runUntilMs !== undefined && !this.#fleets.has(entry.fleet);
  }

  /** Whether the entry's check is due. Before that, the entry is only settled if its attempt is over. */
  #isDue({ reservation }: ReservationEntry): boolean {
    return this.#checked.has(reservation) && reservation.checkAtMs <= this.#nowMs;
  }

  #isSuspected({ reservation, position, entry }: ReservationEntry): boolean {
    // planted: patient-checks
    return this.#suspicion?.isSuspect(reservation, position, entry) ?? false;
  }

  /** Whether this pass may still act on an entry. Entries beyond its bound are left to a later pass. */
  #mayActOn({ reservation }: ReservationEntry): boolean {
    this.#actionsLeft -= 1;
    if (this.#actionsLeft >= 0) return true;
    this.#beyondBound.add(reservation.batchId);
    return false;
  }

  #noteEnd(
    { reservation: { batchId, checkAtMs } }: ReservationEntry,
    { runUntilMs }: MovingJob,
    endsUnreported: boolean,
  ): void {
    if (runUntilMs === undefined) return;
    const endMs = runUntilMs + CLOCK_SKEW_MAX_MS;
    const againAtMs = checkAtMs <= this.#nowMs ? this.#nowMs + this.#context.budget.checkAfterMs : checkAtMs;
    // planted: unheard-end
    if (endMs < againAtMs)
      this.#endsAtMs.set(batchId, Math.min(endMs, this.#endsAtMs.get(batchId) ?? Infinity));
    // The reservation's next check is due before the end, but a check that becomes due causes no pass by itself. So a wake is sent for
    // the end.
    else if (endsUnreported) this.#unreportedEndsMs.add(Math.ceil(endMs / WAKE_STEP_MS) * WAKE_STEP_MS);
  }

  #result(): RecoveryResult {
    const { log, budget } = this.#context;
    const { loadedAtMs } = this.#input;
    const nowMs = this.#nowMs;
    const isDeferred = this.#deferred.size > 0;
    const isCut = this.#beyondBound.size > 0;
    if (isDeferred) {
      log.warn('losses are deferred: the partition was not read for a while', {
        reservations: this.#deferred.size,
        observedSinceMs: this.#observation.sinceMs,
      });
    }
    const soon = nextRecoveryAt('ramped', loadedAtMs);
    const later = nextRecoveryAt('heldBack', loadedAtMs);
    const checkAtMsOf = ({ batchId }: Reservation): number => {
      if (this.#beyondBound.has(batchId)) return soon.checkAtMs;
      if (this.#deferred.has(batchId)) return later.checkAtMs;
      // planted: own-end-unchecked
      return this.#endsAtMs.get(batchId) ?? nowMs + budget.checkAfterMs;
    };
    return {
      settled: this.#settled,
      postponed: [...this.#checked]
        .filter(
          ({ checkAtMs, batchId }) =>
            checkAtMs <= nowMs || this.#endsAtMs.has(batchId) || this.#beyondBound.has(batchId),
        )
        .map((reservation) => ({ reservation, checkAtMs: checkAtMsOf(reservation) })),
      resend: this.#resend,
      images: this.#images,
      observation: withDeferredLosses(this.#observation, isDeferred, loadedAtMs),
      wakeAtMs: soonest(
        isCut ? soon.wakeAtMs : undefined,
        isDeferred ? later.wakeAtMs : undefined,
        // planted: own-end-unchecked-2
        ...this.#endsAtMs.values(),
      ),
      isMore: this.#hasMoreDue && !isCut && this.#settled.length + this.#resend.length > 0,
      endsInMs: [...this.#unreportedEndsMs].map((endMs) => Math.max(0, endMs - nowMs)),
      judgedUntilMs: this.#hasHandledAll && !isDeferred && !isCut ? this.#suspicion?.untilMs : undefined,
    };
  }
}

function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
