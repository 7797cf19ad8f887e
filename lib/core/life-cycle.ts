/**
 * A job's life: the states, the legal edges between them, and the transitions that walk along them.
 *
 * `EDGES` is the only place that says what may follow what. Each transition is a function from a job to the next
 * job, or to a refusal: a caller that lost a race gets a value, because losing is ordinary. Every transition raises
 * `version` by exactly one, so whoever planned with the older version can tell, and a conditional write can refuse.
 *
 *     scheduled ──promote──▶ pending ──claim──▶ claimed ──start──▶ running ──finish──▶ succeeded | failed | cancelled
 *      ▲  ▲                    │ ▲                │                 │
 *      │  └───────retime───────┘ └───give back────┘                 │
 *      └─────────────────────retry, worker lost─────────────────────┘
 *     (retime: also from `scheduled` to another time, or to `pending`; cancel: from every state that is not terminal)
 *
 * Instants are epoch milliseconds.
 */
import type { Claim, Job, JobError, JobState, Json } from './job.ts';

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
export type Transition =
  | { readonly kind: 'moved'; readonly job: Job }
  | { readonly kind: 'refused'; readonly refusal: Refusal };

/** How an attempt ended, as its worker or the retry policy says. */
export type Verdict =
  | { readonly kind: 'succeeded'; readonly result: Json }
  | { readonly kind: 'failed'; readonly error: JobError }
  /** Failed, and to be tried again at `runAtMs`. */
  | { readonly kind: 'retry'; readonly error: JobError; readonly runAtMs: number }
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
 * A scheduled job whose time has come is ready. Its age counts from the time it was asked for, not from the moment
 * somebody noticed, so a late pass costs it no place in its line.
 */
export function promote(job: Job, nowMs: number): Transition {
  if (job.state === 'scheduled' && job.runAtMs > nowMs) {
    return refused({ kind: 'early', runAtMs: job.runAtMs, nowMs });
  }
  // From `pending` there is nothing to promote, although the edge to itself exists for `raiseVersion`.
  if (job.state !== 'scheduled') return refused({ kind: 'illegal', from: job.state, to: 'pending' });
  return move(job, 'pending', { readyAtMs: job.runAtMs });
}

/** Wins a pending job for one place of a reservation, if it is still what the plan saw. */
export function claim(job: Job, won: Claim, plannedVersion: number): Transition {
  if (job.version !== plannedVersion) return outdated(job, plannedVersion);
  return move(job, 'claimed', {
    claim: won,
    worker: undefined,
    startedAtMs: undefined,
    finishedAtMs: undefined,
  });
}

/** Makes every claim that was planned at `version` fail from now on. The job keeps its place in its line. */
export function raiseVersion(job: Job, version: number): Transition {
  if (job.version !== version) return outdated(job, version);
  if (job.state !== 'pending') return refused({ kind: 'illegal', from: job.state, to: 'pending' });
  return move(job, 'pending', {});
}

/** Puts a claimed job that no worker has started back to where it stood. */
export function giveBack(job: Job, claimId: string): Transition {
  if (job.state !== 'claimed') return refused({ kind: 'illegal', from: job.state, to: 'pending' });
  if (job.claim?.claimId !== claimId) return superseded(job.claim?.claimId, claimId);
  return move(job, 'pending', { claim: undefined });
}

/** A worker begins: only under the claim that its message names. */
export function start(job: Job, claimId: string, worker: WorkerLife, nowMs: number): Transition {
  if (job.claim?.claimId !== claimId && job.state === 'claimed') {
    return superseded(job.claim?.claimId, claimId);
  }
  return move(job, 'running', {
    worker: { workerId: worker.workerId, incarnation: worker.incarnation },
    startedAtMs: nowMs,
  });
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
  const lost = notHolding(job, claimId, worker);
  return lost ?? end(job, verdict, nowMs, { attempt: job.attempt + 1 });
}

/**
 * Ends an attempt whose worker is gone, in that worker's stead: only under the claim that was seen to be orphaned.
 * A retry counts a lost worker; the attempt's number stays, because the handler did not fail.
 */
export function loseWorker(job: Job, claimId: string, verdict: Verdict, nowMs: number): Transition {
  if (job.state === 'running' && job.claim?.claimId !== claimId) {
    return superseded(job.claim?.claimId, claimId);
  }
  const workersLost = job.workersLost + 1;
  return end(job, verdict, nowMs, { workersLost }, { workersLost });
}

/**
 * Gives a waiting job another time: scheduled for it if it is to come, else pending, because a time that is past means
 * "now". A job that a worker was told of, or that runs, is not moved: it counts as begun.
 *
 * Its age follows its new time, so nobody gains a place in a line by moving a job away and back, or to the year 1970:
 * it counts from the new time, and where that is past, from now. Only a job that is ready already, and stays so, keeps
 * the age that it has: asking for "now" twice must not cost it its place.
 */
export function retime(job: Job, runAtMs: number, nowMs: number): Transition {
  const to = initialState(runAtMs, nowMs);
  if (!isWaiting(job.state)) return refused({ kind: 'illegal', from: job.state, to });
  if (to === 'scheduled') return move(job, to, { runAtMs, readyAtMs: runAtMs });
  // A scheduled job becomes ready at its old time, also if nobody has noticed yet that it has passed.
  const readyAtMs = job.state === 'pending' ? job.readyAtMs : Math.min(job.runAtMs, nowMs);
  return move(job, to, { runAtMs, readyAtMs });
}

/** Ends a job that should not happen. A worker that runs it loses its claim's meaning: its outcome is refused. */
export function cancel(job: Job, nowMs: number): Transition {
  return move(job, 'cancelled', { finishedAtMs: nowMs });
}

/** True for a state in which the job stands in a line and no one holds it. */
export function isWaiting(state: JobState): boolean {
  return state === 'scheduled' || state === 'pending';
}

type Changes = { readonly [Field in keyof Job]?: Job[Field] | undefined };

function move(job: Job, to: JobState, changes: Changes): Transition {
  if (!isLegal(job.state, to)) return refused({ kind: 'illegal', from: job.state, to });
  const next: Record<string, unknown> = { ...job, ...changes, state: to, version: job.version + 1 };
  for (const field of VANISHING) {
    if (next[field] === undefined) delete next[field];
  }
  return { kind: 'moved', job: next as unknown as Job };
}

// Absent, not undefined: two stores must be able to compare jobs field by field.
const VANISHING = ['claim', 'worker', 'startedAtMs', 'finishedAtMs'] as const;

function end(job: Job, verdict: Verdict, nowMs: number, retried: Changes, always: Changes = {}): Transition {
  switch (verdict.kind) {
    case 'succeeded':
      return move(job, 'succeeded', { ...always, result: verdict.result, finishedAtMs: nowMs });
    case 'failed':
      return move(job, 'failed', { ...always, error: verdict.error, finishedAtMs: nowMs });
    // These two edges also leave from states in which nobody runs the job.
    case 'cancelled':
      if (job.state !== 'running') return refused({ kind: 'illegal', from: job.state, to: 'cancelled' });
      return move(job, 'cancelled', { ...always, finishedAtMs: nowMs });
    case 'retry':
      if (job.state !== 'running') return refused({ kind: 'illegal', from: job.state, to: 'scheduled' });
      // Nobody wants another attempt.
      if (job.cancelRequestedAtMs !== undefined) {
        return move(job, 'cancelled', { ...always, error: verdict.error, finishedAtMs: nowMs });
      }
      return move(job, 'scheduled', {
        ...retried,
        runAtMs: verdict.runAtMs,
        readyAtMs: verdict.runAtMs,
        error: verdict.error,
        // The claim stays until the next one: it says whose attempt ended when, for the settlement.
        finishedAtMs: nowMs,
      });
  }
}

function notHolding(job: Job, claimId: string, worker: WorkerLife): Transition | undefined {
  if (job.state !== 'running') return undefined;
  if (job.claim?.claimId !== claimId) return superseded(job.claim?.claimId, claimId);
  if (job.worker?.workerId !== worker.workerId || job.worker.incarnation !== worker.incarnation) {
    return superseded(job.worker && lifeName(job.worker), lifeName(worker));
  }
  return undefined;
}

function lifeName(worker: WorkerLife): string {
  return `${worker.workerId}/${worker.incarnation}`;
}

function refused(refusal: Refusal): Transition {
  return { kind: 'refused', refusal };
}

function outdated(job: Job, expected: number): Transition {
  return refused({ kind: 'outdated', version: job.version, expected });
}

function superseded(holder: string | undefined, asked: string): Transition {
  return refused({ kind: 'superseded', holder, asked });
}
