/**
 * Settlement: what ended gives its capacity back, and its key is charged what it really used.
 *
 * A place of a reservation is settled by an image of its job, from the stream or read. Places that nothing was heard
 * of are looked up when their reservation's time to be checked has come (recovery).
 */
import type { JobTypeConfiguration } from '../core/configuration.ts';
import { isTerminal, type Job, type ReservedJob, TERMINAL_TTL_MS } from '../core/job.ts';
import { giveBack } from '../core/life-cycle.ts';
import { afterWorkerLost } from '../core/retry.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import type { Attendance, JobHead, PartitionState, Reservation, WorkerRecord } from '../store/contract.ts';
import {
  attend,
  attendedTogether,
  CLOCK_SKEW_MAX_MS,
  mayDeclareLost,
  nextLook,
  rampOf,
  withHeldBack,
} from './attendance.ts';
import { asSubmitter, type DispatchContext } from './context.ts';
import { claimIdOf, type Judgement, judge } from './judge.ts';
import { suspicionOf } from './silence.ts';
import { putAnnounced } from './submit.ts';

/** An attempt that is over. */
export interface Settled {
  readonly reservation: Reservation;
  readonly position: number;
  readonly entry: ReservedJob;
  /** Of the job, for what is learned from the attempt. */
  readonly resourceId?: string | undefined;
  /** What it used, in milliseconds; undefined if it never ran. */
  readonly durationMs?: number | undefined;
  /** Only successes teach the estimate. */
  readonly succeeded: boolean;
  /** When the job is tried again; undefined: it is not. */
  readonly againAtMs?: number | undefined;
}

/** When a job whose attempt has ended is tried again. */
const againAtMsOf = (job: JobHead): number | undefined =>
  job.state === 'scheduled' ? job.runAtMs : undefined;

export interface Settlement {
  readonly settled: readonly Settled[];
  readonly postponed: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  /** Claimed jobs that no worker has started in time: their message may be lost. */
  readonly resend: readonly { readonly fleet: string; readonly message: DispatchMessage }[];
  /** Jobs that changed during recovery: they may be candidates again. */
  readonly images: readonly JobHead[];
  /** To be committed with the postponed. */
  readonly attendance: Attendance;
  /** Look again after so long: at what was held back or not come to, or when an attempt's own time ends. */
  readonly wakeInMs?: number | undefined;
  /** What ran under workers' leases that had ended by then was taken from them; undefined: none had, or not all was. */
  readonly judgedUntilMs?: number | undefined;
}

/** Images of jobs by id, the newest of each. */
export type Images = ReadonlyMap<string, JobHead>;

export function newest(images: Iterable<JobHead>): Map<string, JobHead> {
  const byId = new Map<string, JobHead>();
  for (const job of images) {
    const known = byId.get(job.id);
    if (known === undefined || known.version < job.version) byId.set(job.id, job);
  }
  return byId;
}

/** Settles what the images show, without a read. */
export function settleFrom(reservations: readonly Reservation[], images: Images): readonly Settled[] {
  if (images.size === 0) return [];
  const settled: Settled[] = [];
  for (const reservation of reservations) {
    reservation.jobs.forEach((entry, position) => {
      const image = images.get(entry.id);
      if (image === undefined) return;
      const judgement = judge(reservation, position, entry, image);
      if (judgement.kind === 'gone') settled.push({ reservation, position, entry, succeeded: false });
      if (judgement.kind !== 'ended') return;
      const { durationMs, succeeded } = judgement;
      const { resourceId } = image;
      const againAtMs = againAtMsOf(image);
      settled.push({ reservation, position, entry, resourceId, durationMs, succeeded, againAtMs });
    });
  }
  return settled;
}

/**
 * Whether whoever runs this attempt can be running it still. A worker that cannot be reached counts as running until
 * its lease has passed: a process renews its by heartbeats, a function's stands on the job since its start. What is
 * configured by now says nothing of it: a redeployed pool takes nothing from what runs.
 */
function mayStillRun(
  workers: ReadonlyMap<string, WorkerRecord>,
  job: Job,
  nowMs: number,
  loadedAtMs: number,
): boolean {
  if (job.runUntilMs !== undefined) return nowMs < job.runUntilMs + CLOCK_SKEW_MAX_MS;
  // Whoever started it so lately may have registered after the workers were read.
  if ((job.startedAtMs ?? nowMs) >= loadedAtMs - CLOCK_SKEW_MAX_MS) return true;
  const record = job.worker === undefined ? undefined : workers.get(job.worker.workerId);
  if (record === undefined) return false;
  // A new life of the worker says nothing about how far its former one is from its end.
  return record.incarnation === job.worker?.incarnation || nowMs < (record.formerUntilMs ?? 0);
}

/** Whether the life that runs a job is there, so that the end of another one says nothing of it. */
const isNamed = (workers: ReadonlyMap<string, WorkerRecord>, { worker }: Job): boolean =>
  worker !== undefined && workers.get(worker.workerId)?.incarnation === worker.incarnation;
/** What the type of a running job was declared to be when it was claimed; where nobody knows that any more, what it is. */
async function typeOf(
  { configuration, deployed }: DispatchContext,
  job: Job,
): Promise<JobTypeConfiguration | undefined> {
  const declared = job.claim?.declared;
  const present = configuration.types.find((each) => each.type === job.type);
  if (declared === undefined || deployed === undefined || declared === deployed.version) return present;
  return (await deployed.typeUnder(declared, job.type)) ?? present;
}

/** Ends an attempt whose worker is gone, by its type's policy, and answers its job too. Undefined: it has moved on meanwhile. */
async function takeAway(
  context: DispatchContext,
  place: Pick<Settled, 'reservation' | 'position' | 'entry'>,
  job: Job,
  startedAtMs: number,
  nowMs: number,
): Promise<{ readonly settled: Settled; readonly job: Job } | undefined> {
  const { store, log } = context;
  const type = await typeOf(context, job);
  const verdict = afterWorkerLost(job, type, nowMs);
  const outcome = await store.loseWorker(job, verdict, nowMs, nowMs + TERMINAL_TTL_MS);
  log.warn('worker lost', {
    jobId: job.id,
    worker: job.worker,
    verdict: verdict.kind,
    outcome: outcome.kind,
  });
  if (outcome.kind !== 'finished') return undefined;
  // By the item: another dispatcher may have noted the same loss a little earlier.
  const durationMs = Math.max(0, (outcome.job.finishedAtMs ?? nowMs) - startedAtMs);
  return {
    settled: { ...place, durationMs, succeeded: false, againAtMs: againAtMsOf(outcome.job) },
    job: outcome.job,
  };
}

/** Gives a claim back whose fleet is not declared any more: nobody will start it. Undefined: somebody has, or it has moved on. */
async function returnClaim(context: DispatchContext, job: Job, claimId: string): Promise<Job | undefined> {
  const { store, clock, log } = context;
  const nowMs = clock.nowMs();
  // Its line may have been retired since it was claimed.
  const outcome = await putAnnounced(asSubmitter(context), [job], () => store.giveBack(job, claimId, nowMs));
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
  lost: readonly Job[],
  nowMs: number,
): Promise<readonly Job[]> {
  const again = lost.filter(({ state, runAtMs }) => state === 'scheduled' && runAtMs <= nowMs);
  if (again.length === 0) return [];
  // Their lines may have been retired while they ran.
  const moved = await putAnnounced(asSubmitter(context), again, () => context.store.promote(again, nowMs));
  return moved.filter((job) => job !== undefined);
}

/** What the job's history tells of a place that nobody claimed. */
const givenUpOf = (
  { reservation, position }: Pick<Settled, 'reservation' | 'position'>,
  job: Job | undefined,
  atMs: number,
): Parameters<DispatchContext['store']['raiseVersion']>[2] =>
  job === undefined ? undefined : { job, atMs, claimId: claimIdOf(reservation.batchId, position) };

/** Near work first: what can go on at once comes before what must be given up, and that before what must be taken away. */
const TURNS: readonly Judgement['kind'][] = ['ended', 'gone', 'claimed', 'mayCome', 'running'];

/**
 * Looks up the jobs of reservations whose time to be checked has come: ended → settle; not started → send again; never
 * claimed → raise the version, then drop; running → look later, or take the attempt from a worker that is gone, unless
 * an outage may explain its silence. After a gap, in batches that grow with each pass.
 * Source: design, Recovery; workload-distribution, "Incremental Recovery".
 */
export async function recover(
  context: DispatchContext,
  state: PartitionState,
  settledAlready: readonly Settled[],
  looksUp: boolean,
  /** By this dispatcher's clock, not after the partition was read. */
  loadedAtMs: number,
  /** Something else is declared since the last pass: look up what was claimed for fleets that are gone. */
  isRedeployed = false,
): Promise<Settlement> {
  const { store, clock, configuration, budget, log } = context;
  const nowMs = clock.nowMs();
  // Counted from before the read, so that the attendance never seems longer than it is.
  const attendance = attend(attendedTogether(state.attendance, state.lookout), loadedAtMs);
  const done = new Set(
    settledAlready.map(({ reservation, position }) => claimIdOf(reservation.batchId, position)),
  );
  const suspicion = suspicionOf(state, loadedAtMs);
  const isSuspect = suspicion?.isSuspect ?? (() => false);
  const hasSuspects = (reservation: Reservation): boolean =>
    [...reservation.jobs].some(([position, entry]) => isSuspect(reservation, position, entry));
  const fleets = new Set(configuration.fleets.map(({ fleet }) => fleet));
  const isOrphaned = ({ jobs }: Reservation): boolean =>
    isRedeployed && [...jobs.values()].some(({ fleet }) => !fleets.has(fleet));
  const checked = new Set(
    state.reservations
      .filter((reservation) => looksUp || reservation.checkAtMs <= nowMs || isOrphaned(reservation))
      .sort((one, other) => one.checkAtMs - other.checkAtMs)
      .slice(0, looksUp ? undefined : budget.checkMax),
  );
  const due = [
    ...checked,
    ...(suspicion === undefined
      ? []
      : state.reservations.filter((each) => !checked.has(each) && hasSuspects(each))),
  ];
  if (due.length === 0) {
    return {
      settled: [],
      postponed: [],
      resend: [],
      images: [],
      attendance: withHeldBack(attendance, false, loadedAtMs),
      // In an idle partition it can wait until something runs.
      judgedUntilMs: state.reservations.length > 0 ? suspicion?.untilMs : undefined,
    };
  }

  const workers = new Map(state.workers.map((worker) => [worker.workerId, worker]));
  const places = due.flatMap((reservation) =>
    [...reservation.jobs]
      .filter(([position]) => !done.has(claimIdOf(reservation.batchId, position)))
      .map(([position, entry]) => ({ reservation, position, entry })),
  );
  const unreadable = new Set<string>();
  const jobs = await store.getJobs(
    places.map(({ entry }) => entry.id),
    (id) => unreadable.add(id),
  );
  const judged = places.flatMap((place, at) => {
    // It may be running: until it can be read, or is gone, its place counts.
    if (unreadable.has(place.entry.id)) return [];
    const job = jobs[at];
    return { place, job, judgement: judge(place.reservation, place.position, place.entry, job) };
  });
  const settled: Settled[] = [];
  const resend: { fleet: string; message: DispatchMessage }[] = [];
  const images: Job[] = [];
  const taken: Job[] = [];
  let left = rampOf(attendance, loadedAtMs);
  const notComeTo = new Set<string>();
  const heldBack = new Set<string>();
  /** By reservation: when an attempt's own time ends, if that is before it would be checked again. */
  const endsAtMs = new Map<string, number>();
  let hasJudged = true;
  /** Whether this pass may do something more about a place; a later one will. */
  const comesTo = ({ batchId }: Reservation): boolean => {
    left -= 1;
    if (left >= 0) return true;
    notComeTo.add(batchId);
    return false;
  };
  const noteEnd = ({ batchId }: Reservation, { runUntilMs }: Job): void => {
    if (runUntilMs === undefined) return;
    const endMs = runUntilMs + CLOCK_SKEW_MAX_MS;
    if (endMs < nowMs + budget.checkAfterMs)
      endsAtMs.set(batchId, Math.min(endMs, endsAtMs.get(batchId) ?? Infinity));
  };
  const resumes = new Set(
    configuration.types.filter((type) => type.onWorkerLost === 'resume').map((type) => type.type),
  );
  /** What was long under way goes on first. */
  const resumedFirst = judged.toSorted(
    (one, other) => Number(resumes.has(other.place.entry.type)) - Number(resumes.has(one.place.entry.type)),
  );
  for (const turn of TURNS) {
    for (const { place, job, judgement } of turn === 'running' ? resumedFirst : judged) {
      if (judgement.kind !== turn) continue;
      const { reservation, position, entry } = place;
      const isSuspected = isSuspect(reservation, position, entry);
      // Before its time, a place is settled if it can be, and else left alone.
      const isDue = checked.has(reservation) && reservation.checkAtMs <= nowMs;
      switch (judgement.kind) {
        case 'ended':
          settled.push({
            ...place,
            resourceId: job?.resourceId,
            durationMs: judgement.durationMs,
            succeeded: judgement.succeeded,
            againAtMs: job === undefined ? undefined : againAtMsOf(job),
          });
          if (job !== undefined && !isTerminal(job.state)) images.push(job);
          break;
        case 'gone':
          settled.push({ ...place, succeeded: false });
          break;
        case 'mayCome':
          if (!isDue || !comesTo(reservation)) break;
          // Raised first: from then on a claim that is still under way fails, and only then is nobody counted wrongly.
          if ((await store.raiseVersion(entry.id, entry.version, givenUpOf(place, job, nowMs))) === 'raised')
            settled.push({ ...place, succeeded: false });
          break;
        case 'claimed':
          if (job !== undefined && !fleets.has(entry.fleet)) {
            if (!comesTo(reservation)) break;
            const waiting = await returnClaim(context, job, claimIdOf(reservation.batchId, position));
            if (waiting === undefined) break;
            settled.push({ ...place, succeeded: false });
            images.push(waiting);
            break;
          }
          // A worker that is gone may have received its message: that would come again, but late.
          if (!isDue && !(isSuspected && mayDeclareLost(attendance, loadedAtMs))) break;
          if (!comesTo(reservation)) break;
          resend.push({
            fleet: entry.fleet,
            message: { jobId: entry.id, claimId: claimIdOf(reservation.batchId, position) },
          });
          break;
        case 'running': {
          if (!(isDue || isSuspected) || job === undefined) break;
          if (mayStillRun(workers, job, nowMs, loadedAtMs)) {
            if (isDue) noteEnd(reservation, job);
            if (isSuspected && job.runUntilMs === undefined && !isNamed(workers, job)) hasJudged = false;
            break;
          }
          // A function needs no store to keep its lease.
          if (job.runUntilMs === undefined && !mayDeclareLost(attendance, loadedAtMs)) {
            heldBack.add(reservation.batchId);
            break;
          }
          if (!comesTo(reservation)) break;
          const lost = await takeAway(context, place, job, judgement.startedAtMs, nowMs);
          if (lost === undefined) break;
          settled.push(lost.settled);
          taken.push(lost.job);
          break;
        }
      }
    }
  }
  images.push(...(await waitAgain(context, taken, nowMs)));
  if (heldBack.size > 0) {
    log.warn('losses are held back: the partition was not read for a while', {
      reservations: heldBack.size,
      attendedSinceMs: attendance.sinceMs,
    });
  }
  const soon = nextLook('ramped', state.attendance, loadedAtMs);
  const later = nextLook('heldBack', state.attendance, loadedAtMs);
  const checkAtMsOf = ({ batchId }: Reservation): number => {
    if (notComeTo.has(batchId)) return soon.checkAtMs;
    if (heldBack.has(batchId)) return later.checkAtMs;
    return endsAtMs.get(batchId) ?? nowMs + budget.checkAfterMs;
  };
  const postponed = [...checked]
    .filter(({ checkAtMs }) => checkAtMs <= nowMs)
    .map((reservation) => ({ reservation, checkAtMs: checkAtMsOf(reservation) }));
  return {
    settled,
    postponed,
    resend,
    images,
    attendance: withHeldBack(attendance, heldBack.size > 0, loadedAtMs),
    wakeInMs: soonest(
      notComeTo.size > 0 ? soon.wakeInMs : undefined,
      heldBack.size > 0 ? later.wakeInMs : undefined,
      ...[...endsAtMs.values()].map((endMs) => Math.max(0, endMs - nowMs)),
    ),
    judgedUntilMs: hasJudged && heldBack.size === 0 && notComeTo.size === 0 ? suspicion?.untilMs : undefined,
  };
}

function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
