/**
 * Ends an attempt whose worker is gone. The policy of the job's type decides whether it fails, is retried or is resumed, and the
 * log says which. Recovery uses it, and so do functions that learn of a worker's death directly.
 */
import { type MovingJob, TERMINAL_TTL_MS } from '../../core/job.ts';
import { afterWorkerGone } from '../../core/retry.ts';
import type { PassStore, RequestOf } from '../../store/contract/verbs.ts';
import type { DispatchContext } from '../partition/context.ts';

type Lost = Awaited<ReturnType<PassStore['loseWorker']>>;

/**
 * Ends the attempt, fenced by its claim. `say` gives the log message, depending on whether the attempt counts as lost or as
 * failed.
 */
export async function loseAttempt(
  {
    store,
    random,
    log,
  }: Pick<DispatchContext, 'random' | 'log'> & { readonly store: Pick<PassStore, 'loseWorker'> },
  job: MovingJob,
  type: Parameters<typeof afterWorkerGone>[1],
  nowMs: number,
  say: (as: RequestOf<'loseWorker'>['as']) => string,
): Promise<Lost> {
  const { as, verdict } = afterWorkerGone(job, type, random(), nowMs);
  const outcome = await store.loseWorker({ job, verdict, as, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS });
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
