/**
 * Ends an attempt whose worker is gone. The policy of the job's type decides whether it fails, is retried or is resumed, and the
 * log says which. Recovery uses it, and so do functions that learn of a worker's death directly.
 */
import { type MovingJob, TERMINAL_TTL_MS } from '../../core/job.ts';
import { afterWorkerGone } from '../../core/retry.ts';
import type { PassStore, RequestOf } from '../../store/contract/verbs.ts';
import type { DispatchContext } from '../partition/context.ts';

type Lost = Awaited<ReturnType<PassStore['endUnfinished']>>;

/**
 * Ends the running attempt of a job, fenced by its claim. `say` returns the message for the log, which depends on whether the attempt
 * counts as lost or as failed.
 */
export async function loseAttempt(
  {
    store,
    random,
    log,
  }: Pick<DispatchContext, 'random' | 'log'> & { readonly store: Pick<PassStore, 'endUnfinished'> },
  job: MovingJob,
  type: Parameters<typeof afterWorkerGone>[1],
  nowMs: number,
  say: (as: RequestOf<'endUnfinished'>['as']) => string,
): Promise<Lost> {
  const { as, verdict } = afterWorkerGone(job, type, random(), nowMs);
  const outcome = await store.endUnfinished({
    job,
    verdict,
    as,
    nowMs,
    expiresAtMs: nowMs + TERMINAL_TTL_MS,
  });
  const isFinal = verdict.kind === 'failed' && outcome.kind === 'finished';
  log[isFinal ? 'error' : 'warn'](say(as), {
    jobId: job.id,
    type: job.type,
    attempt: job.attempt,
    worker: job.worker,
    verdict: verdict.kind,
    outcome: outcome.kind,
    error: verdict.error,
  });
  return outcome;
}
