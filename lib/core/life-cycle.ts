/**
 * A job's life: the states, the legal edges between them, and the transitions that walk along them.
 *
 * `EDGES` is the only place that says what may follow what. Each transition is a function from a job to the next
 * job, or to a refusal: a caller that lost a race gets a value, because losing is ordinary. Every transition raises
 * `version` by exactly one, so whoever planned with the older version can tell, and a conditional write can refuse.
 * What is only noted on a job, without a transition, leaves the version alone.
 *
 * The memory store runs these functions. A table cannot: its expressions are held against them, transition by transition.
 *
 *     scheduled ──promote──▶ pending ──claim──▶ claimed ──start──▶ running ──finish──▶ succeeded | failed | cancelled
 *      ▲  ▲                    │                                    │
 *      │  └───────retime───────┘                                    │
 *      └─────────────────────retry, worker lost─────────────────────┘
 *     (a worker may take the steps of claim and start at once; retime: also from `scheduled` to another time, or to
 *     `pending`; cancel: from every state before `running`, whose end is asked for, and comes with `finish`; give back: from
 *     `claimed` to `pending`; rehome: as promote, and from `pending` to itself, in another partition)
 *
 * Instants are epoch milliseconds.
 */
import { attemptEntry, givenBackEntry, movedEntry, notClaimedEntry, withEntry } from './history.ts';
import {
  type AttemptEntry,
  batchOfClaim,
  type Claim,
  type History,
  isTerminal,
  type Job,
  type JobError,
  type JobState,
  type Json,
  type MovingJob,
  withoutStack,
} from './job.ts';

/** What may follow each state. A state that follows itself changes its version only, or its time. */
export const EDGES: Readonly<Record<JobState, readonly JobState[]>> = {
  scheduled: ['scheduled', 'pending', 'cancelled'],
  pending: ['pending', 'scheduled', 'claimed', 'cancelled'],
  claimed: ['pending', 'running', 'cancelled'],
  running: ['succeeded', 'failed', 'scheduled', 'cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
};

/** Why a transition did not happen. None of these is an error: somebody else was faster, or time is not ripe. */
export type Refusal =
  /** No edge leads there. */
  | { readonly kind: 'illegal'; readonly from: JobState; readonly to: JobState }
  /** The job has moved on since it was read. */
  | { readonly kind: 'outdated'; readonly version: number; readonly expected: number }
  /** Another claim, worker or incarnation holds the job. */
  | { readonly kind: 'superseded'; readonly holder: string | undefined; readonly asked: string }
  /** Its time has not come. */
  | { readonly kind: 'early'; readonly runAtMs: number; readonly nowMs: number };

/** What a transition answers. */
export type Transition<Moving extends MovingJob = Job> =
  | { readonly kind: 'moved'; readonly job: Moving }
  | Refused;

interface Refused {
  readonly kind: 'refused';
  readonly refusal: Refusal;
}

/** How an attempt ended, as its worker or the retry policy says. */
export type Verdict =
  | { readonly kind: 'succeeded'; readonly result: Json }
  | { readonly kind: 'failed'; readonly error: JobError }
  /** Failed, and to be tried again at `runAtMs`. */
  | {
      readonly kind: 'retry';
      readonly error: JobError;
      readonly runAtMs: number;
      /** What the attempt has kept is forgotten: the next one begins anew. */
      readonly isFromStart?: boolean | undefined;
    }
  /** Stopped because somebody asked for it. */
  | { readonly kind: 'cancelled' };

/** One life of a worker. */
export interface WorkerLife {
  readonly workerId: string;
  readonly incarnation: string;
}

/** True if an edge leads from one state to the other. */
export function isLegal(from: JobState, to: JobState): boolean {
  return EDGES[from].includes(to);
}

/** Where an accepted job begins: a future one waits for its time. */
export function initialState(runAtMs: number, nowMs: number): JobState {
  return runAtMs > nowMs ? 'scheduled' : 'pending';
}

/**
 * A scheduled job whose time has come is ready. Its age counts from the time it was given, not from the moment somebody
 * noticed, so a late pass costs it no place in its line; the age of one that lost its worker counts on.
 */
export function promote(job: Job, nowMs: number): Transition {
  // From `pending` there is nothing to promote, although the edge to itself exists for `raiseVersion`.
  if (job.state !== 'scheduled') return illegal(job, 'pending');
  if (job.runAtMs > nowMs) return refused({ kind: 'early', runAtMs: job.runAtMs, nowMs });
  return moved({ ...job, state: 'pending', version: job.version + 1 });
}

/**
 * Takes a job to the partition that its key belongs to by now: a pending one, or a scheduled one whose time has come, which is
 * ready from then on. Its age counts as before. The version rises, so what its former partition has planned fails.
 */
export function rehome(job: Job, partition: number, nowMs: number): Transition {
  if (job.state === 'pending') return moved({ ...job, partition, version: job.version + 1 });
  const transition = promote(job, nowMs);
  return transition.kind === 'moved' ? moved({ ...transition.job, partition }) : transition;
}

/** Wins a pending job for one place of a reservation, if it is still what the plan saw. */
export function claim(job: Job, won: Claim, plannedVersion: number): Transition {
  if (job.version !== plannedVersion) return outdated(job, plannedVersion);
  if (!isLegal(job.state, 'claimed')) return illegal(job, 'claimed');
  return moved({ ...neverRun(job), state: 'claimed', version: job.version + 1, claim: won });
}

/** A job's version when it is stored. */
export const FIRST_VERSION = 1;
/** It is claimed, begun, and over: each raises the version by one. */
const ATTEMPT_STEPS = 3;
/** The least version of a job that waits and was begun before: since it was stored it was claimed, begun, and waits again. */
export const BEGUN_VERSION = FIRST_VERSION + ATTEMPT_STEPS;

/**
 * Whether a waiting job may have been begun before. True for each that was: its version tells. Also for some that were not, but
 * moved as often.
 */
export const mayHaveBegun = ({ version }: Pick<Job, 'version'>): boolean => version >= BEGUN_VERSION;

/**
 * Makes every claim that was planned at `version` fail from now on. The job keeps its place in its line.
 *
 * @param given - the claim that never came, and when it was given up: its history tells of it
 */
export function raiseVersion<Moving extends MovingJob>(
  job: Moving,
  version: number,
  given?: GivenUp,
): Transition<Moving> {
  if (job.version !== version) return outdated(job, version);
  if (job.state !== 'pending') return illegal(job, 'pending');
  return moved({ ...job, ...givenUp(job, given), version: job.version + 1 });
}

/** A claim that a dispatcher had planned and never made. */
export interface GivenUp {
  readonly claimId: string;
  readonly atMs: number;
}

/** What a job's history tells of a place that was given up. */
export function givenUp(job: MovingJob, given: GivenUp | undefined): { readonly history?: History } {
  if (given === undefined) return {};
  return { history: withEntry(job.history, notClaimedEntry(given.atMs, given.claimId)) };
}

/**
 * Gives a claim back that nobody has started, because nobody can: its fleet is not declared any more. The job waits again where
 * it stood before; a worker that was told of it starts nothing.
 */
export function giveBack<Moving extends MovingJob>(
  job: Moving,
  claimId: string,
  nowMs: number,
): Transition<Moving> {
  if (job.state !== 'claimed') return illegal(job, 'pending');
  const { claim } = job;
  if (claim?.claimId !== claimId) return superseded(claim?.claimId, claimId);
  const history = withEntry(job.history, givenBackEntry(nowMs, claimId, claim.fleet));
  return moved({ ...without(job, 'claim'), history, state: 'pending', version: job.version + 1 });
}

/**
 * A worker begins: only under the claim that its message names.
 *
 * @param runUntilMs - after that it runs no more, whatever happens; undefined: its worker's record says how long it may run
 */
export function start(
  job: Job,
  claimId: string,
  worker: WorkerLife,
  nowMs: number,
  runUntilMs?: number | undefined,
): Transition {
  if (!isLegal(job.state, 'running')) return illegal(job, 'running');
  if (job.claim?.claimId !== claimId) return superseded(job.claim?.claimId, claimId);
  return moved({
    ...job,
    state: 'running',
    version: job.version + 1,
    worker: { workerId: worker.workerId, incarnation: worker.incarnation },
    startedAtMs: nowMs,
    ...(runUntilMs === undefined ? {} : { runUntilMs }),
  });
}

/** What a pass has planned for a job that it has reserved a place for, and not claimed: whoever starts the job claims it by that. */
export interface PlannedClaim extends Pick<Claim, 'fleet' | 'claimedAtMs' | 'declared'> {
  /** Won only if the job is pending at exactly this version. */
  readonly version: number;
}

/**
 * How long a start may claim what was planned. A message may come for longer, from a dead-letter queue as an example, and after
 * `TERMINAL_TTL_MS` its id may be another job's, at the same version: which no place counts.
 */
export const PLANNED_FOR_MS = 24 * 3_600_000;

/** Whether a start may claim by that still. */
export const isPlanned = ({ claimedAtMs }: Pick<PlannedClaim, 'claimedAtMs'>, nowMs: number): boolean =>
  nowMs - claimedAtMs < PLANNED_FOR_MS;

/** The claim that was planned; its id says the rest. */
export const claimPlanned = (
  claimId: string,
  { fleet, claimedAtMs, declared }: Omit<PlannedClaim, 'version'>,
): Claim => ({
  claimId,
  batchId: batchOfClaim(claimId),
  fleet,
  claimedAtMs,
  ...(declared === undefined ? {} : { declared }),
});

/** A worker claims a job as it was planned, and begins: both transitions, or none. */
export function claimAndStart(
  job: Job,
  claimId: string,
  planned: PlannedClaim,
  worker: WorkerLife,
  nowMs: number,
  runUntilMs?: number | undefined,
): Transition {
  const claimed = claim(job, claimPlanned(claimId, planned), planned.version);
  return claimed.kind === 'moved' ? start(claimed.job, claimId, worker, nowMs, runUntilMs) : claimed;
}

/**
 * Ends an attempt: only by the worker, in the life, under the claim that started it. A job whose end somebody asked for
 * is not tried again: its retry is its cancellation.
 */
export function finish(
  job: Job,
  claimId: string,
  worker: WorkerLife,
  verdict: Verdict,
  nowMs: number,
): Transition {
  return (
    notRunningUnder(job, claimId, verdict) ?? notRunBy(job, worker) ?? end(job, verdict, nowMs, 'failed')
  );
}

/** What an attempt counts as that its worker does not finish. */
export type Unfinished = AttemptEntry['outcome'];

/**
 * Ends an attempt that its worker does not finish: only under the claim that was seen to be orphaned, or that the worker gives back.
 * `lost` counts a lost worker, and `released` nothing: the attempt's number stays, because the handler did not fail, and so does the age: the
 * job waits again where it would stand if it had never been given to that worker. `failed` counts an attempt, as `finish` does: its handler
 * had not stopped when its time was over.
 */
export function loseWorker(
  job: Job,
  claimId: string,
  verdict: Verdict,
  nowMs: number,
  as: Unfinished = 'lost',
): Transition {
  return notRunningUnder(job, claimId, verdict) ?? end(job, verdict, nowMs, as);
}

/**
 * Gives a waiting job another time: scheduled for it if it is to come, else pending, because a time that is past means
 * "now". A job that is claimed, or runs, is not moved: it counts as begun.
 *
 * Its age follows its new time, so nobody gains a place in a line by moving a job away and back, or to the year 1970:
 * it counts from the new time, and where that is past, from now. Only a job that is ready already, and stays so, keeps
 * the age that it has: asking for "now" twice must not cost it its place. One whose time has passed is ready, also if
 * nobody has noticed yet.
 *
 * @param by - who moves it: its history tells of a move to another time
 */
export function retime<Moving extends MovingJob>(
  job: Moving,
  runAtMs: number,
  nowMs: number,
  by?: string | undefined,
): Transition<Moving> {
  const to = initialState(runAtMs, nowMs);
  if (!isWaiting(job.state)) return illegal(job, to);
  const wasReady = job.state === 'pending' || job.readyAtMs <= nowMs;
  const history =
    runAtMs === job.runAtMs
      ? job.history
      : withEntry(job.history, movedEntry(nowMs, job.runAtMs, runAtMs, by));
  const next = {
    state: to,
    version: job.version + 1,
    runAtMs,
    ...(history === undefined ? {} : { history }),
  } as const;
  if (to === 'pending') return moved({ ...job, ...next, readyAtMs: wasReady ? job.readyAtMs : nowMs });
  return moved({ ...(wasReady ? readyAgain(job, runAtMs) : { ...job, readyAtMs: runAtMs }), ...next });
}

/** Ends a job that should not happen, and that nobody runs. Of an attempt before, `finishedAtMs` says what it used. */
export function cancel(job: Job, nowMs: number, by?: string | undefined): Transition {
  if (job.state === 'running' || !isLegal(job.state, 'cancelled')) return illegal(job, 'cancelled');
  const finishedAtMs = job.finishedAtMs ?? nowMs;
  return moved({ ...askForEnd(job, nowMs, by), state: 'cancelled', version: job.version + 1, finishedAtMs });
}

/** Notes that somebody asked for the end of a job, the first time: the worker of a running one decides by finishing. */
export function askForEnd(job: Job, nowMs: number, by?: string | undefined): Job {
  if (job.cancelRequestedAtMs !== undefined) return job;
  return {
    ...job,
    cancelRequestedAtMs: nowMs,
    cancelRequestedIn: job.state,
    ...(by === undefined ? {} : { cancelRequestedBy: by }),
  };
}

/** Another time for a job that has been ready: when it was so first is remembered. */
export function readyAgain<Moving extends MovingJob>(job: Moving, readyAtMs: number): Moving {
  const { firstReadyAtMs = job.readyAtMs } = job;
  if (firstReadyAtMs === readyAtMs) return { ...without(job, 'firstReadyAtMs'), readyAtMs };
  return { ...job, readyAtMs, firstReadyAtMs };
}

/** True for a state in which the job stands in a line and no one holds it. */
export function isWaiting(state: JobState): boolean {
  return state === 'scheduled' || state === 'pending';
}

const stateAfter = ({ kind }: Verdict): JobState => (kind === 'retry' ? 'scheduled' : kind);

/**
 * A job's history after the end of an attempt, where the job's own fields do not tell of it in full: it is tried again, its
 * worker was lost, or it would be tried again if nobody had asked for its end.
 */
export function historyAfterEnd(
  job: MovingJob,
  verdict: Verdict,
  nowMs: number,
  as: AttemptEntry['outcome'],
  isUnwanted: boolean,
): History | undefined {
  // planted: untold-losses
  if (verdict.kind !== 'retry' && as === 'failed') return undefined;
  const isAgain = verdict.kind === 'retry' && !isUnwanted;
  const entry = attemptEntry(job, {
    outcome: as,
    endedAtMs: nowMs,
    ...('error' in verdict ? { error: verdict.error } : {}),
    ...(isAgain ? { next: { runAtMs: verdict.runAtMs, isFromStart: verdict.isFromStart === true } } : {}),
  });
  return withEntry(job.history, entry);
}

function end(running: Job, verdict: Verdict, nowMs: number, as: AttemptEntry['outcome']): Transition {
  const job = running.hung === undefined ? running : without(running, 'hung');
  const isUnwanted = job.cancelRequestedAtMs !== undefined;
  const history = historyAfterEnd(job, verdict, nowMs, as, isUnwanted);
  const next = {
    ...(history === undefined ? {} : { history }),
    version: job.version + 1,
    workersLost: job.workersLost + (as === 'lost' ? 1 : 0),
    // After a retry, the claim stays until the next one: it says whose attempt ended when, for the settlement.
    finishedAtMs: nowMs,
  };
  switch (verdict.kind) {
    case 'succeeded':
      return moved({ ...neverFailed(job), ...next, state: 'succeeded', result: verdict.result });
    case 'failed':
      return moved({ ...job, ...next, state: 'failed', error: verdict.error });
    case 'cancelled':
      return moved({ ...job, ...next, state: 'cancelled' });
    case 'retry': {
      const { runAtMs } = verdict;
      // The attempt is in the history, and its stack with it.
      const error = withoutStack(verdict.error);
      // Nobody wants another attempt.
      if (isUnwanted) return moved({ ...job, ...next, state: 'cancelled', error });
      const kept = verdict.isFromStart === true ? withoutCheckpoint(job) : job;
      // planted: age-of-lost
      const again = as === 'failed' ? { ...readyAgain(kept, runAtMs), attempt: job.attempt + 1 } : kept;
      return moved({ ...again, ...next, state: 'scheduled', runAtMs, error });
    }
  }
}

// Absent, not undefined: stores must be able to compare jobs field by field. Most jobs are claimed once and do not fail:
// for them there is nothing to leave out, which is dear.
function neverRun(job: Job): Job {
  const hasRun = job.worker !== undefined || job.startedAtMs !== undefined || job.finishedAtMs !== undefined;
  if (!hasRun) return job;
  const {
    worker: _worker,
    startedAtMs: _startedAtMs,
    runUntilMs: _runUntilMs,
    progress: _progress,
    finishedAtMs: _finishedAtMs,
    ...waiting
  } = job;
  return waiting;
}

function without<Moving extends MovingJob>(
  job: Moving,
  optional: 'claim' | 'firstReadyAtMs' | 'hung',
): Moving {
  const { [optional]: _gone, ...rest } = job;
  return rest as MovingJob as Moving;
}

function withoutCheckpoint({ checkpoint: _checkpoint, ...job }: Job): Job {
  return job;
}

function neverFailed(job: Job): Job {
  if (job.error === undefined) return job;
  const { error: _error, ...rest } = job;
  return rest;
}

function notRunningUnder(job: Job, claimId: string, verdict: Verdict): Transition | undefined {
  if (job.state !== 'running') return illegal(job, stateAfter(verdict));
  return job.claim?.claimId === claimId ? undefined : superseded(job.claim?.claimId, claimId);
}

function notRunBy(job: Job, worker: WorkerLife): Transition | undefined {
  const isIts = job.worker?.workerId === worker.workerId && job.worker.incarnation === worker.incarnation;
  return isIts ? undefined : superseded(job.worker && lifeName(job.worker), lifeName(worker));
}

/** What an image of a job says of one attempt: whether it may begin, runs, or is over. */
export type AttemptStatus =
  /** Not claimed so far; the claim may still arrive. */
  | { readonly kind: 'mayCome' }
  | { readonly kind: 'claimed' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  /** The attempt is over. `durationMs`, what it used, and `endedAtMs` are absent if it never started. */
  | {
      readonly kind: 'ended';
      readonly durationMs?: number | undefined;
      readonly endedAtMs?: number | undefined;
      readonly succeeded: boolean;
    }
  /** Never claimed for this attempt, and it cannot be any more. */
  | { readonly kind: 'gone' };

/** An attempt as it was planned: its claim, and the job's version. */
export interface PlannedAttempt {
  readonly claimId: string;
  readonly version: number;
}

type AttemptImage = Pick<Job, 'state' | 'version' | 'claim' | 'startedAtMs' | 'finishedAtMs'>;

/** What an image of the job says of an attempt; undefined: the item is not there. */
export function attemptStatusOf(planned: PlannedAttempt, job: AttemptImage | undefined): AttemptStatus {
  if (job === undefined) return { kind: 'gone' };
  if (job.claim?.claimId === planned.claimId) {
    if (job.state === 'claimed') return { kind: 'claimed' };
    if (job.state === 'running')
      return { kind: 'running', startedAtMs: job.startedAtMs ?? job.claim.claimedAtMs };
    const { startedAtMs, finishedAtMs } = job;
    // A claim clears both: what is there belongs to this attempt.
    const ran = startedAtMs !== undefined && finishedAtMs !== undefined;
    return {
      kind: 'ended',
      ...(ran ? { durationMs: Math.max(0, finishedAtMs - startedAtMs), endedAtMs: finishedAtMs } : {}),
      succeeded: job.state === 'succeeded',
    };
  }
  if (job.version > planned.version || isTerminal(job.state)) return { kind: 'gone' };
  // planted: told-places-are-free
  return { kind: 'mayCome' };
}

/**
 * Whether an attempt is over, or can never begin, by any true image of its job. It stays so: versions only rise, a terminal state is never left,
 * and a claim is made once.
 */
export function isAttemptOver(planned: PlannedAttempt, job: AttemptImage | undefined): boolean {
  const { kind } = attemptStatusOf(planned, job);
  return kind === 'ended' || kind === 'gone';
}

function lifeName(worker: WorkerLife): string {
  return `${worker.workerId}/${worker.incarnation}`;
}

function moved<Moving extends MovingJob>(job: Moving): Transition<Moving> {
  return { kind: 'moved', job };
}

function refused(refusal: Refusal): Refused {
  return { kind: 'refused', refusal };
}

function illegal(job: Pick<Job, 'state'>, to: JobState): Refused {
  return refused({ kind: 'illegal', from: job.state, to });
}

function outdated(job: Pick<Job, 'version'>, expected: number): Refused {
  return refused({ kind: 'outdated', version: job.version, expected });
}

function superseded(holder: string | undefined, asked: string): Refused {
  return refused({ kind: 'superseded', holder, asked });
}
