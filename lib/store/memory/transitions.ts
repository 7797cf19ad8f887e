/** What the store's verbs make of a job, once their condition holds. Every transition raises the version. */
import type { Job } from '../../core/job.ts';
import type { ClaimRequest, FinishVerdict, StartRequest } from '../contract.ts';

export function promoted(job: Job): Job {
  return { ...job, state: 'pending', version: job.version + 1, readyAtMs: job.runAtMs };
}

export function claimed(job: Job, request: ClaimRequest): Job {
  const { claimId, epoch, batchId, fleet, claimedAtMs } = request;
  return {
    ...neverRun(job),
    state: 'claimed',
    version: job.version + 1,
    claim: { claimId, epoch, batchId, fleet, claimedAtMs },
  };
}

// Most jobs are claimed once: for them there is nothing to leave out, which is dear.
function neverRun(job: Job): Job {
  const hasRun = job.worker !== undefined || job.startedAtMs !== undefined || job.finishedAtMs !== undefined;
  if (!hasRun) return job;
  const { worker: _worker, startedAtMs: _startedAtMs, finishedAtMs: _finishedAtMs, ...waiting } = job;
  return waiting;
}

export function started(job: Job, request: StartRequest): Job {
  const { workerId, incarnation, nowMs } = request;
  return {
    ...job,
    state: 'running',
    version: job.version + 1,
    worker: { workerId, incarnation },
    startedAtMs: nowMs,
  };
}

/** Ends an attempt. A lost worker is counted apart from the attempts. */
export function ended(job: Job, verdict: FinishVerdict, nowMs: number, isWorkerLost: boolean): Job {
  const version = job.version + 1;
  const workersLost = job.workersLost + (isWorkerLost ? 1 : 0);
  switch (verdict.kind) {
    case 'succeeded':
      return {
        ...job,
        state: 'succeeded',
        version,
        workersLost,
        finishedAtMs: nowMs,
        result: verdict.result,
        error: undefined,
      };
    case 'failed':
      return { ...job, state: 'failed', version, workersLost, finishedAtMs: nowMs, error: verdict.error };
    case 'cancelled':
      return { ...job, state: 'cancelled', version, workersLost, finishedAtMs: nowMs };
    // The claim stays until the next one: it says whose attempt ended when, for the settlement.
    case 'retry':
      if (job.cancelRequestedAtMs !== undefined) {
        return {
          ...job,
          state: 'cancelled',
          version,
          workersLost,
          finishedAtMs: nowMs,
          error: verdict.error,
        };
      }
      return {
        ...job,
        state: 'scheduled',
        version,
        workersLost,
        attempt: job.attempt + (isWorkerLost ? 0 : 1),
        runAtMs: verdict.runAtMs,
        readyAtMs: verdict.runAtMs,
        finishedAtMs: nowMs,
        error: verdict.error,
      };
  }
}

/** Ends a job that nobody runs. */
export function cancelled(job: Job, nowMs: number): Job {
  // Of an earlier attempt, it says what that used.
  const finishedAtMs = job.finishedAtMs ?? nowMs;
  return { ...job, state: 'cancelled', version: job.version + 1, finishedAtMs };
}
