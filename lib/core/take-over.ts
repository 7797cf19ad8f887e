/**
 * A slot that is about to be free is taken over: the fleet is told of the next job before the attempt that has the slot ends, and the worker
 * starts the job once that has ended. Till then the two hold one slot together.
 */
import { isTerminal, type MovingJob } from './job.ts';

/** How long a worker waits for that end at most. Where it comes later, the job is planned anew. */
export const SLOT_WAIT_MS = 300;

/**
 * Whether an attempt is over, or can never begin, by any true image of its job; undefined: the item is gone. It stays so: versions only rise,
 * a terminal state is never left, and a claim is made once.
 *
 * @param planned - the claim, and the job's version that it was planned at
 */
export function isAttemptOver(
  job: Pick<MovingJob, 'state' | 'version' | 'claim'> | undefined,
  planned: { readonly claimId: string; readonly version: number },
): boolean {
  if (job === undefined || isTerminal(job.state)) return true;
  if (job.claim?.claimId === planned.claimId) return job.state !== 'claimed' && job.state !== 'running';
  return job.version > planned.version;
}
