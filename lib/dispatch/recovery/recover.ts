/**
 * Recovery: places of reservations that nothing was heard of are looked up when their reservation's time to be checked has
 * come, or when a worker's lease has ended.
 */

import type { JobTypeConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import { isExclusive, typesByName } from '../../core/conflict.ts';
import { isTerminal, type MovingJob } from '../../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../core/lease.ts';
import { type AttemptStatus, attemptStatusOf, claimPlanned, giveBack } from '../../core/life-cycle.ts';
import { type FleetMessage, WAKE_STEP_MS } from '../../queue/contract.ts';
import type { Attendance, PartitionState, Reservation, WorkerRecord } from '../../store/contract/records.ts';
import type { RequestOf } from '../../store/contract/verbs.ts';
import { asSubmitter, putAnnounced } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { BetweenPartitions } from '../partitions/between-partitions.ts';
import { attemptOf, claimIdOfPlace, type Place, placesOf, plannedOf, type Settled } from '../view/settled.ts';
import { loseAttempt } from './lose.ts';
import {
  attend,
  attendedTogether,
  mayDeclareLost,
  nextLook,
  rampOf,
  type Suspicion,
  suspicionOf,
  withHeldBack,
} from './silence.ts';

export interface Settlement {
  readonly settled: readonly Settled[];
  readonly postponed: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  /** Jobs that no worker has started in time: their message may be lost. */
  readonly resend: readonly FleetMessage[];
  /** Jobs that changed during recovery: they may be candidates again. */
  readonly images: readonly MovingJob[];
  /** Written with the commit that postpones reservations. */
  readonly attendance: Attendance;
  /** When another pass must look: at losses that are held back, at places beyond the bound, or at an attempt whose own time ends. */
  readonly wakeAtMs?: number | undefined;
  /** The time of more has come, and of what was looked up some had been left behind: the others may be, too. */
  readonly isMore: boolean;
  /** When attempts end of which nothing else tells; once for each second. */
  readonly endsInMs: readonly number[];
  /** All that ran under workers' leases which had ended by this instant was taken from them; undefined: no lease had, or something was left. */
  readonly judgedUntilMs?: number | undefined;
}

/**
 * Whether the worker of this attempt can be running it still. A worker that cannot be reached counts as running until
 * its lease has passed: a process renews its by heartbeats, a function's stands on the job since its start. What is
 * configured by now says nothing of it: a redeployed pool takes nothing from what runs.
 */
function mayStillRun(
  workers: ReadonlyMap<string, WorkerRecord>,
  job: MovingJob,
  nowMs: number,
  loadedAtMs: number,
): boolean {
  // planted: end-by-own-clock
  if (job.runUntilMs !== undefined) return nowMs < job.runUntilMs + CLOCK_SKEW_MAX_MS;
  // A worker that started it so lately may have registered after the workers were read.
  // planted: just-registered
  if ((job.startedAtMs ?? nowMs) >= loadedAtMs - CLOCK_SKEW_MAX_MS) return true;
  const record = job.worker === undefined ? undefined : workers.get(job.worker.workerId);
  if (record === undefined) return false;
  // The record is of a later life of the worker: the former one, which runs the job, may run on until `formerUntilMs`.
  // planted: former-life
  return record.incarnation === job.worker?.incarnation || nowMs < (record.formerUntilMs ?? 0);
}

/** Whether the record of the very life that runs a job is there: then another life's lease, which has ended, does not concern the job. */
const isNamed = (workers: ReadonlyMap<string, WorkerRecord>, { worker }: MovingJob): boolean =>
  worker !== undefined && workers.get(worker.workerId)?.incarnation === worker.incarnation;
/** What the type of a running job was declared to be when it was claimed; where that is not known any more, what it is. */
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

/** Ends an attempt whose worker is gone, by its type's policy, and answers its job too. Undefined: it has moved on meanwhile. */
async function takeAway(
  context: DispatchContext,
  place: Place,
  job: MovingJob,
  startedAtMs: number,
  nowMs: number,
): Promise<{ readonly settled: Settled; readonly job: MovingJob } | undefined> {
  const type = await typeOf(context, job);
  const outcome = await loseAttempt(context, job, type, nowMs, (as) =>
    as === 'failed' ? 'attempt failed, and its worker ended with it' : 'worker lost',
  );
  if (outcome.kind !== 'finished') return undefined;
  // From the item as it was written, because another dispatcher may have ended the same attempt a little earlier.
  // planted: loss-by-own-clock
  const durationMs = Math.max(0, (outcome.job.finishedAtMs ?? nowMs) - startedAtMs);
  return {
    settled: { ...place, durationMs, succeeded: false, endedAtMs: outcome.job.finishedAtMs ?? nowMs },
    job: outcome.job,
  };
}

/** Gives a claim back whose fleet is not declared any more, so that no worker would start the job. Undefined: the job has started or moved on. */
async function returnClaim(
  context: DispatchContext,
  job: MovingJob,
  claimId: string,
): Promise<MovingJob | undefined> {
  const { store, clock, log } = context;
  const nowMs = clock.nowMs();
  // Its line may have been retired since it was claimed.
  const outcome = await putAnnounced(asSubmitter(context), [job], () =>
    store.giveBack({ job, claimId, nowMs }),
  );
  if (outcome === 'superseded') return undefined;
  log.info('a claim was given back: its fleet is gone', { jobId: job.id, fleet: job.claim?.fleet });
  const given = giveBack(job, claimId, nowMs);
  return given.kind === 'moved' ? given.job : undefined;
}

/**
 * Jobs that lost their worker wait again at once: this very pass, which frees what they held, must see them in their place.
 * Answers what they are then.
 */
async function waitAgain(
  context: DispatchContext,
  lost: readonly MovingJob[],
  nowMs: number,
): Promise<readonly MovingJob[]> {
  const again = lost.filter(({ state, runAtMs }) => state === 'scheduled' && runAtMs <= nowMs);
  if (again.length === 0) return [];
  // Their lines may have been retired while they ran.
  const moved = await putAnnounced(asSubmitter(context), again, () =>
    context.store.promote({ jobs: again, nowMs }),
  );
  return moved.filter((job) => job !== undefined);
}

/** What the history of a job says about a place that was reserved for it and never claimed. */
const givenUpOf = (
  place: Pick<Settled, 'reservation' | 'position'>,
  job: MovingJob | undefined,
  atMs: number,
): RequestOf<'raiseVersion'>['given'] =>
  job === undefined ? undefined : { job, atMs, claimId: claimIdOfPlace(place) };

interface LookedUp {
  readonly place: Place;
  readonly job: MovingJob | undefined;
  readonly status: AttemptStatus;
}

/** What can go on at once comes first, then places that are given up, then attempts that are taken from workers: a pass is bounded. */
const STATUS_ORDER: readonly AttemptStatus['kind'][] = ['ended', 'gone', 'claimed', 'mayCome', 'running'];

export interface RecoveryInput {
  readonly state: PartitionState;
  /** By this dispatcher's clock, not after the partition was read. */
  readonly loadedAtMs: number;
  readonly settledAlready: readonly Settled[];
  /** Look up everything, whether or not its time has come. */
  readonly checksAll: boolean;
  /** Something else is declared since the last pass: look up all that was claimed for fleets that are gone. */
  readonly isRedeployed: boolean;
  /** Undefined: the partition has no others beside it. */
  readonly between?: Pick<BetweenPartitions, 'lockOfPlace'> | undefined;
}

/**
 * Looks up the jobs of reservations whose time to be checked has come: ended → settle; not started → claim if no worker has,
 * and send again; never to be claimed → raise the version, then drop; running → look later, or take the attempt from a
 * worker that is gone, unless an outage may explain its silence. After a gap, in batches that grow with each pass.
 * Source: design, Recovery; workload-distribution, "Incremental Recovery".
 */
export async function recover(context: DispatchContext, input: RecoveryInput): Promise<Settlement> {
  const { state, loadedAtMs } = input;
  const known = attendedTogether(state.attendance, state.lookout);
  const attendance = attend(known, loadedAtMs, context.clock.nowMs());
  const suspicion = suspicionOf(state, loadedAtMs);
  const looked = reservationsDue(context, input, suspicion);
  if (looked.checked.length + looked.others.length > 0)
    return new Recovery(context, input, attendance, suspicion, looked).run();
  return {
    settled: [],
    postponed: [],
    isMore: false,
    endsInMs: [],
    resend: [],
    images: [],
    attendance: withHeldBack(attendance, false, loadedAtMs),
    // In an idle partition it can wait until something runs.
    judgedUntilMs: state.reservations.length > 0 ? suspicion?.untilMs : undefined,
  };
}

/** Reservations that are looked up. */
interface LookedAt {
  /** Those whose time has come, and what a redeploy asks for. */
  readonly checked: readonly Reservation[];
  /** Others of which a place may have lost its worker. */
  readonly others: readonly Reservation[];
  /** The time of more has come than one pass looks up. */
  readonly hasMoreDue: boolean;
}

function reservationsDue(
  { clock, configuration, budget }: DispatchContext,
  { state, checksAll, isRedeployed }: RecoveryInput,
  suspicion: Suspicion | undefined,
): LookedAt {
  const nowMs = clock.nowMs();
  const allDue = state.reservations
    .filter((reservation) => checksAll || reservation.checkAtMs <= nowMs)
    .sort((one, other) => one.checkAtMs - other.checkAtMs);
  // planted: looks-up-in-turn
  const due = allDue.slice(0, checksAll ? undefined : budget.checkMax);
  const hasMoreDue = due.length < allDue.length;
  // All of these, as it happens once for a declaration: nothing else tells of them, and none of them is told again.
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

/** Reservations with a place for a fleet that is not declared any more. */
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
  readonly #attendance: Attendance;
  readonly #suspicion: Suspicion | undefined;
  /** Reservations whose time to be checked has come. */
  readonly #checked: ReadonlySet<Reservation>;
  readonly #others: readonly Reservation[];
  readonly #hasMoreDue: boolean;
  readonly #workers: ReadonlyMap<string, WorkerRecord>;
  readonly #fleets: ReadonlySet<string>;
  readonly #settled: Settled[] = [];
  readonly #resend: FleetMessage[] = [];
  /** Jobs that wait again, or may. */
  readonly #images: MovingJob[] = [];
  /** Jobs that are not claimed, and that are to be told of again. */
  readonly #unclaimed: Place[] = [];
  /** Jobs that were taken from workers. */
  readonly #taken: MovingJob[] = [];
  /** On how many more places this pass may act. */
  #left: number;
  /** Reservations with a place beyond that bound, and those with a loss that the outage guard holds back. */
  readonly #notComeTo = new Set<string>();
  readonly #heldBack = new Set<string>();
  /** By reservation: when an attempt's own time ends, if that is before it would be checked again. */
  readonly #endsAtMs = new Map<string, number>();
  /** When attempts end of which nothing else tells, to the second. */
  readonly #unheardEndsMs = new Set<number>();
  #hasJudged = true;

  constructor(
    context: DispatchContext,
    input: RecoveryInput,
    attendance: Attendance,
    suspicion: Suspicion | undefined,
    { checked, others, hasMoreDue }: LookedAt,
  ) {
    this.#context = context;
    this.#input = input;
    this.#nowMs = context.clock.nowMs();
    this.#attendance = attendance;
    this.#suspicion = suspicion;
    this.#checked = new Set(checked);
    this.#others = others;
    this.#hasMoreDue = hasMoreDue;
    this.#workers = new Map(input.state.workers.map((worker) => [worker.workerId, worker]));
    this.#fleets = new Set(context.configuration.fleets.map(({ fleet }) => fleet));
    this.#left = rampOf(attendance, input.loadedAtMs);
  }

  async run(): Promise<Settlement> {
    const lookedUp = await this.#lookUp();
    const resumes = new Set(
      this.#context.configuration.types.flatMap(({ type, onWorkerLost }) =>
        onWorkerLost === 'resume' ? [type] : [],
      ),
    );
    // Jobs that go on from a checkpoint have run for long: they are looked after before others.
    const resumedFirst = lookedUp.toSorted(
      (one, other) => Number(resumes.has(other.place.entry.type)) - Number(resumes.has(one.place.entry.type)),
    );
    for (const kind of STATUS_ORDER) {
      for (const each of kind === 'running' ? resumedFirst : lookedUp)
        if (each.status.kind === kind) await this.#handle(each);
      if (kind === 'mayCome') await this.#claimUnstarted();
    }
    // planted: lost-not-shown
    this.#images.push(...(await waitAgain(this.#context, this.#taken, this.#nowMs)));
    return this.#settlement();
  }

  async #lookUp(): Promise<readonly LookedUp[]> {
    const done = new Set(this.#input.settledAlready.map(claimIdOfPlace));
    const places = placesOf([...this.#checked, ...this.#others]).filter(
      (place) => !done.has(claimIdOfPlace(place)),
    );
    const unreadable = new Set<string>();
    const jobs = await this.#context.store.lookUpJobs({
      ids: places.map(({ entry }) => entry.id),
      unreadable: (id) => unreadable.add(id),
    });
    return places.flatMap((place, at) => {
      // A job that cannot be read may be running, so its place counts until it can be read or is gone.
      if (unreadable.has(place.entry.id)) return [];
      const job = jobs[at];
      return { place, job, status: attemptStatusOf(attemptOf(place), job) };
    });
  }

  async #handle({ place, job, status }: LookedUp): Promise<void> {
    switch (status.kind) {
      case 'ended':
        this.#settleEnded(place, job, status);
        break;
      case 'gone':
        this.#settled.push({ ...place, succeeded: false });
        break;
      case 'mayCome':
        if (this.#isGivenUp(place)) await this.#giveUp(place, job);
        else if (!this.#mayTakeLock(place) && this.#isToldAgain(place)) this.#unclaimed.push(place);
        break;
      case 'claimed':
        // planted: claims-of-gone-fleets
        if (job !== undefined && !this.#fleets.has(place.entry.fleet)) await this.#returnClaim(place, job);
        else this.#sendAgain(place);
        break;
      case 'running':
        if (job !== undefined) await this.#lookAfter(place, job, status.startedAtMs);
        break;
    }
  }

  #settleEnded(
    place: Place,
    job: MovingJob | undefined,
    { durationMs, endedAtMs, succeeded }: Extract<AttemptStatus, { readonly kind: 'ended' }>,
  ): void {
    this.#settled.push({
      ...place,
      resourceId: job?.resourceId,
      durationMs,
      endedAtMs,
      succeeded,
    });
    if (job !== undefined && !isTerminal(job.state)) this.#images.push(job);
  }

  /**
   * Whether a job that is not claimed will not be started: its fleet is not declared any more; or, after so long, a pass was to claim it
   * together with a lock.
   */
  #isGivenUp(place: Place): boolean {
    return !this.#fleets.has(place.entry.fleet) || (this.#isDue(place) && this.#mayTakeLock(place));
  }

  /**
   * Whether a pass was to claim the place's job, together with a lock: then no worker may. What was planned under another declaration may
   * have needed one, though none is needed now: another partition's job may have it.
   */
  #mayTakeLock({ entry, reservation }: Place): boolean {
    const { between } = this.#input;
    const { deployed } = this.#context;
    if (between === undefined) return false;
    if (between.lockOfPlace(this.#context, entry) !== undefined) return true;
    const isExcluded = entry.conflictKey !== undefined && isExclusive(entry.conflictKey);
    // planted: locks-are-forgotten
    return isExcluded && reservation.declared !== deployed?.version;
  }

  /**
   * Gives up a place whose job was never claimed. The version is raised first: a claim, or a start, that is still under way fails from
   * then on, so no job runs that no reservation counts.
   */
  async #giveUp(place: Place, job: MovingJob | undefined): Promise<void> {
    if (!this.#comesTo(place)) return;
    const { id, version } = place.entry;
    const given = givenUpOf(place, job, this.#nowMs);
    // planted: raise-before-give-up
    if ((await this.#context.store.raiseVersion({ jobId: id, version, given })) === 'raised')
      this.#settled.push({ ...place, succeeded: false });
  }

  /** For a job that was claimed for a fleet which is not declared any more: it waits again. */
  async #returnClaim(place: Place, job: MovingJob): Promise<void> {
    if (!this.#comesTo(place)) return;
    const waiting = await returnClaim(this.#context, job, claimIdOfPlace(place));
    if (waiting === undefined) return;
    this.#settled.push({ ...place, succeeded: false });
    this.#images.push(waiting);
  }

  /**
   * Claims jobs that were not started in time, under the terms that they were planned under, and sends them again: a worker of a former
   * version starts what is claimed. A start that is under way, or comes later, is of the same claim.
   */
  async #claimUnstarted(): Promise<void> {
    if (this.#unclaimed.length === 0) return;
    const outcomes = await this.#context.store.claim(
      this.#unclaimed.map((place) => {
        const { version, ...planned } = plannedOf(place.reservation, place.entry);
        return { jobId: place.entry.id, version, ...claimPlanned(claimIdOfPlace(place), planned) };
      }),
    );
    // One that was lost has started, or moved on: what became of it is told, or seen next time.
    for (const [at, place] of this.#unclaimed.entries()) if (outcomes[at] === 'claimed') this.#send(place);
  }

  #sendAgain(place: Place): void {
    if (this.#isToldAgain(place)) this.#send(place);
  }

  /** Whether a worker is to be told again of a job that none has started: its message may be lost, or what received it. */
  #isToldAgain(place: Place): boolean {
    // A worker that is gone may have received the message. The queue would deliver it again, but only after its visibility timeout.
    const isLost = this.#isSuspected(place) && mayDeclareLost(this.#attendance, this.#input.loadedAtMs);
    return (this.#isDue(place) || isLost) && this.#comesTo(place);
  }

  #send(place: Place): void {
    const { id, fleet } = place.entry;
    this.#resend.push({ fleet, message: { jobId: id, claimId: claimIdOfPlace(place) }, isAlone: true });
  }

  async #lookAfter(place: Place, job: MovingJob, startedAtMs: number): Promise<void> {
    const isUnheard = this.#isUnheard(place, job);
    const isDue = this.#isDue(place) || isUnheard;
    const isSuspected = this.#isSuspected(place);
    if (!isDue && !isSuspected) return;
    const { loadedAtMs } = this.#input;
    if (mayStillRun(this.#workers, job, this.#nowMs, loadedAtMs)) {
      if (isDue) this.#noteEnd(place, job, isUnheard);
      if (isSuspected && job.runUntilMs === undefined && !isNamed(this.#workers, job))
        this.#hasJudged = false;
      return;
    }
    // Only processes are protected by the outage guard: a function's lease stands on its job, and is not renewed through the store.
    if (job.runUntilMs === undefined && !mayDeclareLost(this.#attendance, loadedAtMs)) {
      this.#heldBack.add(place.reservation.batchId);
      return;
    }
    if (!this.#comesTo(place)) return;
    const lost = await takeAway(this.#context, place, job, startedAtMs, this.#nowMs);
    if (lost === undefined) return;
    this.#settled.push(lost.settled);
    this.#taken.push(lost.job);
  }

  /** Whether the job runs on a function whose fleet is gone: the queue went too, and with it the message that tells when a function dies. */
  #isUnheard({ entry }: Place, { runUntilMs }: MovingJob): boolean {
    return this.#input.isRedeployed && runUntilMs !== undefined && !this.#fleets.has(entry.fleet);
  }

  /** Whether the place's time to be checked has come. Before that it is settled if its attempt is over, and else left alone. */
  #isDue({ reservation }: Place): boolean {
    return this.#checked.has(reservation) && reservation.checkAtMs <= this.#nowMs;
  }

  #isSuspected({ reservation, position, entry }: Place): boolean {
    // planted: patient-checks
    return this.#suspicion?.isSuspect(reservation, position, entry) ?? false;
  }

  /** Whether this pass may still act on a place. A place beyond the pass's bound is left to a later pass. */
  #comesTo({ reservation }: Place): boolean {
    this.#left -= 1;
    if (this.#left >= 0) return true;
    this.#notComeTo.add(reservation.batchId);
    return false;
  }

  #noteEnd(
    { reservation: { batchId, checkAtMs } }: Place,
    { runUntilMs }: MovingJob,
    isUnheard: boolean,
  ): void {
    if (runUntilMs === undefined) return;
    const endMs = runUntilMs + CLOCK_SKEW_MAX_MS;
    const againAtMs = checkAtMs <= this.#nowMs ? this.#nowMs + this.#context.budget.checkAfterMs : checkAtMs;
    // planted: unheard-end
    if (endMs < againAtMs)
      this.#endsAtMs.set(batchId, Math.min(endMs, this.#endsAtMs.get(batchId) ?? Infinity));
    // That its time to be checked has come before makes no pass.
    else if (isUnheard) this.#unheardEndsMs.add(Math.ceil(endMs / WAKE_STEP_MS) * WAKE_STEP_MS);
  }

  #settlement(): Settlement {
    const { log, budget } = this.#context;
    const { loadedAtMs } = this.#input;
    const nowMs = this.#nowMs;
    const isHeldBack = this.#heldBack.size > 0;
    const isCut = this.#notComeTo.size > 0;
    if (isHeldBack) {
      log.warn('losses are held back: the partition was not read for a while', {
        reservations: this.#heldBack.size,
        attendedSinceMs: this.#attendance.sinceMs,
      });
    }
    const soon = nextLook('ramped', loadedAtMs);
    const later = nextLook('heldBack', loadedAtMs);
    const checkAtMsOf = ({ batchId }: Reservation): number => {
      if (this.#notComeTo.has(batchId)) return soon.checkAtMs;
      if (this.#heldBack.has(batchId)) return later.checkAtMs;
      // planted: own-end-unchecked
      return this.#endsAtMs.get(batchId) ?? nowMs + budget.checkAfterMs;
    };
    return {
      settled: this.#settled,
      postponed: [...this.#checked]
        .filter(
          ({ checkAtMs, batchId }) =>
            checkAtMs <= nowMs || this.#endsAtMs.has(batchId) || this.#notComeTo.has(batchId),
        )
        .map((reservation) => ({ reservation, checkAtMs: checkAtMsOf(reservation) })),
      resend: this.#resend,
      images: this.#images,
      attendance: withHeldBack(this.#attendance, isHeldBack, loadedAtMs),
      wakeAtMs: soonest(
        isCut ? soon.wakeAtMs : undefined,
        isHeldBack ? later.wakeAtMs : undefined,
        // planted: own-end-unchecked-2
        ...this.#endsAtMs.values(),
      ),
      isMore: this.#hasMoreDue && !isCut && this.#settled.length + this.#resend.length > 0,
      endsInMs: [...this.#unheardEndsMs].map((endMs) => Math.max(0, endMs - nowMs)),
      judgedUntilMs: this.#hasJudged && !isHeldBack && !isCut ? this.#suspicion?.untilMs : undefined,
    };
  }
}

function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
