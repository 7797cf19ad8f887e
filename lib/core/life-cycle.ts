/**
 * A job's life cycle: its states, the legal edges between them, and the transitions along these edges.
 *
 * `EDGES` is the only place that defines which state may follow which. Each transition is a function from a job to the
 * next job or to a refusal: a caller that lost a race gets a value, because losing is ordinary. Every transition raises
 * `version` by exactly one. So a caller that planned with an older version can tell, and a conditional write is
 * refused. A note on a job without a transition leaves the version unchanged.
 *
 * The memory store runs these functions. DynamoDB cannot, so tests compare its expressions with them, transition by
 * transition.
 *
 *     scheduled ──promote──▶ pending ──claim──▶ claimed ──start──▶ running ──finish──▶ succeeded | failed | cancelled
 *      ▲  ▲                    │                                    │
 *      │  └───────retime───────┘                                    │
 *      └─────────────────────retry, worker lost─────────────────────┘
 *
 * A worker may claim and start in one write. Not shown:
 * - retime: also from `scheduled` to another time or priority, or to `pending`.
 * - cancel: from every state before `running`. A running job is only asked to stop; it ends with `finish`.
 * - expire: from every state before `running`, once the job's time to start is over.
 * - give back: from `claimed` to `pending`.
 * - rehome: into another partition, as promote does or from `pending` to itself.
 *
 * Instants are epoch milliseconds.
 */
import {
  attemptEntry,
  givenBackEntry,
  movedEntry,
  notClaimedEntry,
  priorityEntry,
  withEntry,
} from './history.ts';
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
  type WaitingJob,
  withoutStack,
} from './job.ts';

/**
 * The states that may follow each state. A state that follows itself changes only the version, the time or the
 * partition.
 */
export const EDGES: Readonly<Record<JobState, readonly JobState[]>> = {
  scheduled: ['scheduled', 'pending', 'cancelled', 'expired'],
  pending: ['pending', 'scheduled', 'claimed', 'cancelled', 'expired'],
  claimed: ['pending', 'running', 'cancelled', 'expired'],
  running: ['succeeded', 'failed', 'scheduled', 'cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
  expired: [],
};

/** Why a transition was refused. None of these is an error: another caller was faster, or the time has not come. */
export type Refusal =
  /** No edge leads to that state. */
  | { readonly kind: 'illegal'; readonly from: JobState; readonly to: JobState }
  /** The job has changed since it was read. */
  | { readonly kind: 'outdated'; readonly version: number; readonly expected: number }
  /** Another claim, worker or incarnation holds the job. */
  | { readonly kind: 'superseded'; readonly holder: string | undefined; readonly asked: string }
  /** The job's time has not come. */
  | { readonly kind: 'early'; readonly runAtMs: number; readonly nowMs: number }
  /** The time is over by which the job had to start. */
  | { readonly kind: 'late'; readonly expireAtMs: number; readonly nowMs: number };

/** The result of a transition. */
export type Transition<Moving extends MovingJob = Job> =
  | { readonly kind: 'moved'; readonly job: Moving }
  | Refused;

interface Refused {
  readonly kind: 'refused';
  readonly refusal: Refusal;
}

/** How an attempt ended, as its worker or the retry policy decides. */
export type Verdict =
  | { readonly kind: 'succeeded'; readonly result: Json }
  | { readonly kind: 'failed'; readonly error: JobError }
  /** The job runs again at `runAtMs`. */
  | {
      readonly kind: 'retry';
      /** Absent: the handler has parked the job. */
      readonly error?: JobError | undefined;
      readonly runAtMs: number;
      /** True: the checkpoint is deleted, and the next attempt starts anew. */
      readonly isFromStart?: boolean | undefined;
      /** The job's new `parkedState`; undefined: the job keeps the one that it has. */
      readonly parkedState?: Json | undefined;
    }
  /** The attempt stopped because a cancellation of its job was requested. */
  | { readonly kind: 'cancelled' };

/** One incarnation of a worker. */
export interface WorkerLife {
  readonly workerId: string;
  readonly incarnation: string;
}

/** Whether an edge leads from one state to the other. */
export function isLegal(from: JobState, to: JobState): boolean {
  return EDGES[from].includes(to);
}

/** Returns the first state of an accepted job: `scheduled` if its time is in the future. */
export function initialState(runAtMs: number, nowMs: number): JobState {
  return runAtMs > nowMs ? 'scheduled' : 'pending';
}

/**
 * Makes a scheduled job ready once its time has come. Its age counts from that time and not from this promotion, so a
 * late pass costs it no position in its line. A job that lost its worker keeps its earlier age.
 */
export function promote(job: Job, nowMs: number): Transition {
  // A pending job cannot be promoted, although `pending` has an edge to itself for `raiseVersion`.
  if (job.state !== 'scheduled') return illegal(job, 'pending');
  if (job.runAtMs > nowMs) return refused({ kind: 'early', runAtMs: job.runAtMs, nowMs });
  return moved({ ...job, state: 'pending', version: job.version + 1 });
}

/**
 * Moves a job to the partition that its key now belongs to. The job is pending, or scheduled with its time come; then
 * it also becomes ready. Its age counts as before. The version rises, so claims that the former partition has planned
 * fail.
 */
export function rehome(job: Job, partition: number, nowMs: number): Transition {
  if (job.state === 'pending') return moved({ ...job, partition, version: job.version + 1 });
  const transition = promote(job, nowMs);
  return transition.kind === 'moved' ? moved({ ...transition.job, partition }) : transition;
}

/** Claims a pending job for one entry of a reservation, if the job still has the planned version. */
export function claim(job: Job, newClaim: Claim, plannedVersion: number): Transition {
  if (job.version !== plannedVersion) return outdated(job, plannedVersion);
  if (!isLegal(job.state, 'claimed')) return illegal(job, 'claimed');
  return moved({ ...neverRun(job), state: 'claimed', version: job.version + 1, claim: newClaim });
}

/** A job's version when it is stored. */
export const FIRST_VERSION = 1;
/** The transitions of one attempt: claim, start and end. Each raises the version by one. */
const ATTEMPT_STEPS = 3;
/** The least version of a waiting job that has had an attempt: stored, claimed, started, and waiting again. */
export const BEGUN_VERSION = FIRST_VERSION + ATTEMPT_STEPS;

/**
 * Whether a waiting job may have had an attempt, judged by its version. True for each that had one, and for some that
 * had other transitions instead.
 */
export const mayHaveRun = ({ version }: Pick<Job, 'version'>): boolean => version >= BEGUN_VERSION;

/**
 * Makes every claim that was planned for `version` fail from now on. The job keeps its position in its line.
 *
 * @param given - the claim that was given up, and when; it is added to the job's history
 */
export function raiseVersion<Moving extends MovingJob>(
  job: Moving,
  version: number,
  given?: AbandonedClaim,
): Transition<Moving> {
  if (job.version !== version) return outdated(job, version);
  if (job.state !== 'pending') return illegal(job, 'pending');
  return moved({ ...job, ...withAbandonedClaim(job, given), version: job.version + 1 });
}

/** A claim that a dispatcher planned and gave up before it was made. */
export interface AbandonedClaim {
  readonly claimId: string;
  readonly atMs: number;
}

/** Returns the job's history with the claim that was given up. */
export function withAbandonedClaim(
  job: MovingJob,
  given: AbandonedClaim | undefined,
): { readonly history?: History } {
  if (given === undefined) return {};
  return { history: withEntry(job.history, notClaimedEntry(given.atMs, given.claimId)) };
}

/**
 * Gives back a claim that was not started and cannot be, because its fleet is not declared any more. The job waits at
 * its former position again. A worker that still gets a message for the claim starts nothing.
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
 * Starts an attempt, only under the claim that the worker's message names, and before the job expires. A job that has
 * started does not expire any more, even if the attempt is given back.
 *
 * @param runUntilMs - the instant after which the attempt has certainly ended; undefined: the worker's record limits
 * its run time
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
  const { expireAtMs } = job;
  // planted: starts-after-expiry
  if (isExpired(job, nowMs)) return refused({ kind: 'late', expireAtMs: expireAtMs ?? nowMs, nowMs });
  return moved({
    ...(expireAtMs === undefined ? job : without(job, 'expireAtMs')),
    state: 'running',
    version: job.version + 1,
    worker: { workerId: worker.workerId, incarnation: worker.incarnation },
    startedAtMs: nowMs,
    ...(runUntilMs === undefined ? {} : { runUntilMs }),
  });
}

/** Whether the time is over by which the job had to start. */
export const isExpired = ({ expireAtMs }: Pick<WaitingJob, 'expireAtMs'>, nowMs: number): boolean =>
  expireAtMs !== undefined && nowMs >= expireAtMs;

/** Ends a job that has not started in time. */
export function expire(job: Job, nowMs: number): Transition {
  if (!isLegal(job.state, 'expired') || !isExpired(job, nowMs)) return illegal(job, 'expired');
  return moved({ ...job, state: 'expired', version: job.version + 1, finishedAtMs: nowMs });
}

/** The claim that a pass plans for a job that it has reserved. The worker that starts the job makes the claim. */
export interface PlannedClaim extends Pick<Claim, 'fleet' | 'claimedAtMs' | 'declared'> {
  /** The claim is made only if the job is pending at exactly this version. */
  readonly version: number;
}

/**
 * How long a start may make a planned claim. A message may arrive later, for example from a dead-letter queue. After
 * `TERMINAL_TTL_MS` another job may have the same id and version, and no reservation would count its capacity.
 */
export const PLANNED_FOR_MS = 24 * 3_600_000;

/** Whether a start may still make a claim that was planned at `claimedAtMs`. */
export const isPlanned = ({ claimedAtMs }: Pick<PlannedClaim, 'claimedAtMs'>, nowMs: number): boolean =>
  nowMs - claimedAtMs < PLANNED_FOR_MS;

/** Returns the claim that a worker's start makes from a plan. The batch id is part of the claim id. */
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

/** Makes the planned claim and starts the attempt: both transitions, or none. */
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
 * Ends an attempt, only for the worker and incarnation that started it, under the same claim. A job that was asked to
 * stop is cancelled instead of retried.
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

/** The outcome that the history records for an attempt which its worker did not finish. */
export type Unfinished = AttemptEntry['outcome'];

/**
 * Ends an attempt that its worker does not finish, only under the claim that lost its worker, or that the worker gives
 * back, or whose handler ended it without failing. `lost` counts a lost worker; `released`, `rested` and `parked` count
 * nothing. All four keep the attempt's number, because the handler did not fail, and the job's age: the job waits where
 * it would stand if that worker had never got it. `failed` counts an attempt, as `finish` does: the handler had not
 * stopped at its timeout.
 */
export function endUnfinished(
  job: Job,
  claimId: string,
  verdict: Verdict,
  nowMs: number,
  outcome: Unfinished = 'lost',
): Transition {
  return notRunningUnder(job, claimId, verdict) ?? end(job, verdict, nowMs, outcome);
}

/**
 * Gives a waiting job another time, another priority, or both. It is scheduled if the time is in the future, and
 * otherwise pending, because a time in the past means "now". A job that is claimed or runs has started and is not
 * changed.
 *
 * The job's age counts from the new time, or from now if that time is past. So a job gains no position in its line by
 * being moved away and back, or to the year 1970. Only a job that is ready and stays ready keeps its age: asking for
 * "now" twice must not cost it its position. A scheduled job whose time has come counts as ready, even before a pass
 * has promoted it.
 *
 * A pending job with another priority is scheduled at the time that it had, although that has come, and keeps its age:
 * a pass promotes it to its new position. For dispatchers it has left its line, wherever that was.
 *
 * A job that expires does so as long after its new time as it would have after the old one.
 *
 * @param by - the person or tool that changes it, for the entry in its history
 */
export function retime<Moving extends MovingJob>(
  job: Moving,
  runAtMs: number,
  nowMs: number,
  by?: string | undefined,
  priority: number = job.priority,
): Transition<Moving> {
  const isMoved = runAtMs !== job.runAtMs;
  const isReranked = priority !== job.priority;
  const to = job.state === 'pending' && isReranked ? 'scheduled' : initialState(runAtMs, nowMs);
  if (!isWaiting(job.state)) return illegal(job, to);
  const wasReady = job.state === 'pending' || job.readyAtMs <= nowMs;
  const entries = [
    ...(isMoved ? [movedEntry(nowMs, job.runAtMs, runAtMs, by)] : []),
    ...(isReranked ? [priorityEntry(nowMs, job.priority, priority, by)] : []),
  ];
  const history = entries.reduce<History | undefined>(withEntry, job.history);
  const next = {
    state: to,
    version: job.version + 1,
    runAtMs,
    priority,
    ...(history === undefined ? {} : { history }),
  } as const;
  const keepsAge = (wasReady && runAtMs <= nowMs) || (isReranked && !isMoved);
  if (keepsAge) return moved({ ...job, ...next });
  const readyAtMs = to === 'pending' ? nowMs : runAtMs;
  const aged = wasReady && to !== 'pending' ? withReadyAt(job, runAtMs) : { ...job, readyAtMs };
  const { expireAtMs } = job;
  if (expireAtMs === undefined) return moved({ ...aged, ...next });
  return moved({ ...aged, ...next, expireAtMs: expireAtMs + readyAtMs - job.readyAtMs });
}

/**
 * Cancels a job that does not run. If it had an attempt, `finishedAtMs` stays, because settlement computes the
 * attempt's time from it.
 */
export function cancel(job: Job, nowMs: number, by?: string | undefined): Transition {
  if (job.state === 'running' || !isLegal(job.state, 'cancelled')) return illegal(job, 'cancelled');
  const finishedAtMs = job.finishedAtMs ?? nowMs;
  return moved({
    ...requestCancel(job, nowMs, by),
    state: 'cancelled',
    version: job.version + 1,
    finishedAtMs,
  });
}

/** Records the first request to stop a job. The worker of a running job decides by finishing it. */
export function requestCancel(job: Job, nowMs: number, by?: string | undefined): Job {
  if (job.cancelRequestedAtMs !== undefined) return job;
  return {
    ...job,
    cancelRequestedAtMs: nowMs,
    cancelRequestedIn: job.state,
    ...(by === undefined ? {} : { cancelRequestedBy: by }),
  };
}

/** Gives another `readyAtMs` to a job that was ready before. `firstReadyAtMs` remembers when it first was. */
export function withReadyAt<Moving extends MovingJob>(job: Moving, readyAtMs: number): Moving {
  const { firstReadyAtMs = job.readyAtMs } = job;
  if (firstReadyAtMs === readyAtMs) return { ...without(job, 'firstReadyAtMs'), readyAtMs };
  return { ...job, readyAtMs, firstReadyAtMs };
}

/** Whether a job in this state stands in a line and has no claim. */
export function isWaiting(state: JobState): boolean {
  return state === 'scheduled' || state === 'pending';
}

const stateAfter = ({ kind }: Verdict): JobState => (kind === 'retry' ? 'scheduled' : kind);

/**
 * Returns the job's history after the end of an attempt, with an entry for that attempt if the job's own fields will
 * not describe it in full: the job is retried, its worker was lost, or it would be retried if it had not been asked to
 * stop. Undefined: no entry is needed.
 */
export function historyAfterEnd(
  job: MovingJob,
  verdict: Verdict,
  nowMs: number,
  outcome: AttemptEntry['outcome'],
  isCancelRequested: boolean,
): History | undefined {
  // planted: untold-losses
  if (verdict.kind !== 'retry' && outcome === 'failed') return undefined;
  const isRetried = verdict.kind === 'retry' && !isCancelRequested;
  const entry = attemptEntry(job, {
    outcome,
    endedAtMs: nowMs,
    ...('error' in verdict && verdict.error !== undefined ? { error: verdict.error } : {}),
    ...(isRetried ? { next: { runAtMs: verdict.runAtMs, isFromStart: verdict.isFromStart === true } } : {}),
  });
  return withEntry(job.history, entry);
}

function end(running: Job, verdict: Verdict, nowMs: number, outcome: AttemptEntry['outcome']): Transition {
  const job = running.hung === undefined ? running : without(running, 'hung');
  const isCancelRequested = job.cancelRequestedAtMs !== undefined;
  const history = historyAfterEnd(job, verdict, nowMs, outcome, isCancelRequested);
  const next = {
    ...(history === undefined ? {} : { history }),
    version: job.version + 1,
    workersLost: job.workersLost + (outcome === 'lost' ? 1 : 0),
    // After a retry the claim stays until the next one, so that settlement can tell which attempt ended when.
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
      const { runAtMs, parkedState } = verdict;
      // The attempt's entry in the history has the stack.
      const error = verdict.error === undefined ? {} : { error: withoutStack(verdict.error) };
      // A job that was asked to stop is not retried.
      if (isCancelRequested) return moved({ ...job, ...next, state: 'cancelled', ...error });
      const kept = verdict.isFromStart === true ? withoutCheckpoint(job) : job;
      // planted: age-of-lost
      const again = outcome === 'failed' ? { ...withReadyAt(kept, runAtMs), attempt: job.attempt + 1 } : kept;
      const parked = parkedState === undefined ? {} : { parkedState };
      return moved({
        ...(verdict.error === undefined ? neverFailed(again) : again),
        ...next,
        ...parked,
        ...error,
        state: 'scheduled',
        runAtMs,
      });
    }
  }
}

// Fields are left out and not set to undefined, so that stores can compare jobs field by field. Most jobs are claimed
// once and never fail. They have nothing to leave out and are not copied, because the copy is slow.
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
  optional: 'claim' | 'firstReadyAtMs' | 'hung' | 'expireAtMs',
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
  const isSame = job.worker?.workerId === worker.workerId && job.worker.incarnation === worker.incarnation;
  return isSame ? undefined : superseded(job.worker && lifeName(job.worker), lifeName(worker));
}

/** The status of one attempt, as an image of its job shows it. */
export type AttemptStatus =
  /** The claim has not been made; it may still be. */
  | { readonly kind: 'mayCome' }
  | { readonly kind: 'claimed' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  /** The attempt is over. `durationMs`, the time it used, and `endedAtMs` are absent if it never started. */
  | {
      readonly kind: 'ended';
      readonly durationMs?: number | undefined;
      readonly endedAtMs?: number | undefined;
      readonly succeeded: boolean;
    }
  /** The claim was never made and cannot be made any more. */
  | { readonly kind: 'neverClaimed' };

/** A planned attempt: its claim id, and the version of the job that it was planned for. */
export interface PlannedAttempt {
  readonly claimId: string;
  readonly version: number;
}

type AttemptImage = Pick<Job, 'state' | 'version' | 'claim' | 'startedAtMs' | 'finishedAtMs'>;

/** Returns the status of an attempt in an image of its job; undefined image: the item does not exist. */
export function attemptStatusOf(planned: PlannedAttempt, job: AttemptImage | undefined): AttemptStatus {
  if (job === undefined) return { kind: 'neverClaimed' };
  if (job.claim?.claimId === planned.claimId) {
    if (job.state === 'claimed') return { kind: 'claimed' };
    if (job.state === 'running')
      return { kind: 'running', startedAtMs: job.startedAtMs ?? job.claim.claimedAtMs };
    const { startedAtMs, finishedAtMs } = job;
    // A claim clears both fields, so their values belong to this attempt.
    const ran = startedAtMs !== undefined && finishedAtMs !== undefined;
    return {
      kind: 'ended',
      ...(ran ? { durationMs: Math.max(0, finishedAtMs - startedAtMs), endedAtMs: finishedAtMs } : {}),
      succeeded: job.state === 'succeeded',
    };
  }
  if (job.version > planned.version || isTerminal(job.state)) return { kind: 'neverClaimed' };
  // planted: told-places-are-free
  return { kind: 'mayCome' };
}

/**
 * Whether an image of the job shows that an attempt is over or can never start. The answer holds for good: versions
 * only rise, terminal states are never left, and a claim is made once.
 */
export function isAttemptOver(planned: PlannedAttempt, job: AttemptImage | undefined): boolean {
  const { kind } = attemptStatusOf(planned, job);
  return kind === 'ended' || kind === 'neverClaimed';
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
