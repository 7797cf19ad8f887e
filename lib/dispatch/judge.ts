/**
 * What a job item says about a place in a reservation.
 *
 * `ended` and `gone` hold for ever once any true image of the item showed them, because versions only rise, a terminal
 * state is never left, and nobody plans a job while an older reservation still counts it. So a stream record is as good
 * as a read for settling, however late it comes.
 */
import { isTerminal, type ReservedJob } from '../core/job.ts';
import type { JobHead, Reservation } from '../store/contract.ts';

export type Judgement =
  /** Not claimed so far; the claim may still arrive. */
  | { readonly kind: 'mayCome' }
  | { readonly kind: 'claimed' }
  | { readonly kind: 'running'; readonly startedAtMs: number }
  /** The attempt is over. `durationMs` is absent if it never started. */
  | { readonly kind: 'ended'; readonly durationMs?: number | undefined; readonly succeeded: boolean }
  /** Never claimed for this place, and it cannot be any more. */
  | { readonly kind: 'gone' };

/**
 * Unique among all claims: the batch is numbered under its lease's epoch, and partitions of the same epoch say which they
 * are. A worker that serves several tells claims apart by their ids alone, and a job may move from one to another.
 */
export const batchIdOf = (partition: number, epoch: number, sequence: number): string =>
  partition === 0 ? `${epoch}-${sequence}` : `${epoch}-${sequence}p${partition}`;

/** The partition under whose lease a claim was made. */
export const partitionOfClaim = (claimId: string): number => Number(/p(\d+)\./.exec(claimId)?.[1] ?? 0);

export const claimIdOf = (batchId: string, position: number): string => `${batchId}.${position}`;

/** Judges one place of a reservation by an image of its job; undefined: the item is not there. */
export function judge(
  reservation: Pick<Reservation, 'batchId'>,
  position: number,
  entry: ReservedJob,
  job: JobHead | undefined,
): Judgement {
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
