/**
 * A function deletes its message when it has ended. So a message that is delivered again while its job runs means
 * that the function died, or that the message is a duplicate. The attempt's lease decides which: no attempt outlives
 * its function's deadline, which the start stored on the job.
 */

import { CLOCK_SKEW_MAX_MS } from '../core/lease.ts';
import { loseAttempt } from '../dispatch/recovery/lose.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { PassStore } from '../store/contract/verbs.ts';
import { declaredTerms, type RunContext } from './run-job.ts';

export interface DeadFunctionContext
  extends Pick<RunContext, 'configuration' | 'typeUnder' | 'random' | 'log'> {
  readonly store: Pick<PassStore, 'lookUpJobs' | 'endUnfinished'>;
  readonly clock: Clock;
}

/** The state of a job's attempt, as a message that could not start the job finds it. */
export type Found =
  /** The attempt has ended, or another claim holds the job. */
  | 'over'
  /** The attempt may still run. */
  | 'running'
  /** The function of the attempt died. The attempt was ended, and the type's policy decides what follows. */
  | 'ended';

/** Ends the attempt of a function that died, long before a pass would check it. Fenced by the attempt's claim. */
export async function endAttemptOfDeadFunction(
  context: DeadFunctionContext,
  { jobId, claimId }: DispatchMessage,
): Promise<Found> {
  const { store, clock } = context;
  const [job] = await store.lookUpJobs({ ids: [jobId] });
  if (job?.state !== 'running' || job.claim?.claimId !== claimId) return 'over';
  // A job without `runUntilMs` runs in a process, whose worker record says whether it may still run.
  if (job.runUntilMs === undefined || clock.nowMs() < job.runUntilMs + CLOCK_SKEW_MAX_MS) return 'running';
  // planted: terms-of-the-dead
  const { type } = await declaredTerms(context, job);
  const outcome = await loseAttempt(context, job, type, clock.nowMs(), () => 'a function died with its job');
  return outcome.kind === 'finished' ? 'ended' : 'over';
}
