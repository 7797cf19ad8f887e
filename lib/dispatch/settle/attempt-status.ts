/**
 * What a job item says about a place in a reservation.
 *
 * `ended` and `gone` hold for ever once any true image of the item showed them, because versions only rise, a terminal
 * state is never left, and nobody plans a job while an older reservation still counts it. So a stream record is as good
 * as a read for settling, however late it comes.
 */
import { claimIdOf, isTerminal, type ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/job-fields.ts';
import type { Reservation } from '../../store/records.ts';

export type AttemptStatus =
  /** Not claimed so far; the claim may still arrive. */
  | { readonly kind: 'mayCome' }
  | { readonly kind: 'claimed' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  /** The attempt is over. `durationMs` is absent if it never started. */
  | { readonly kind: 'ended'; readonly durationMs?: number | undefined; readonly succeeded: boolean }
  /** Never claimed for this place, and it cannot be any more. */
  | { readonly kind: 'gone' };

/** What an image of the job says of one place of a reservation; undefined: the item is not there. */
export function attemptStatusOf(
  reservation: Pick<Reservation, 'batchId'>,
  position: number,
  entry: ReservedJob,
  job: JobHead | undefined,
): AttemptStatus {
  if (job === undefined) return { kind: 'gone' };
  if (job.claim?.claimId === claimIdOf(reservation.batchId, position)) {
    if (job.state === 'claimed') return { kind: 'claimed' };
    if (job.state === 'running')
      return { kind: 'running', startedAtMs: job.startedAtMs ?? job.claim.claimedAtMs };
    const { startedAtMs, finishedAtMs } = job;
    // A claim clears both: what is there belongs to this attempt.
    const ran = startedAtMs !== undefined && finishedAtMs !== undefined;
    return {
      kind: 'ended',
      ...(ran ? { durationMs: Math.max(0, finishedAtMs - startedAtMs) } : {}),
      succeeded: job.state === 'succeeded',
    };
  }
  if (job.version > entry.version || isTerminal(job.state)) return { kind: 'gone' };
  return { kind: 'mayCome' };
}
