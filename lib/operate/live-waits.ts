/** Reasons to wait that only the live state shows, beside those of the policy. */
import type { WaitsFor } from '../core/explain.ts';
import type { MovingJob } from '../core/job.ts';
import type { HandoverWait } from '../dispatch/partitions/handover.ts';
import { lockOf } from '../dispatch/partitions/locks.ts';
import type { PartitionState } from '../store/contract/records.ts';
import type { OperateContext } from './controls.ts';

export type LiveWaitsFor =
  | Exclude<WaitsFor, { readonly why: 'cap' }>
  | (Extract<WaitsFor, { readonly why: 'cap' }> & {
      /** With several partitions, the pool's whole cap. `cap` and `running` are then those of the job's partition. */
      readonly split?:
        | { readonly cap: number; readonly partition: number; readonly partitions: number }
        | undefined;
    })
  /** The job is in a partition to which its key does not belong any more. The next pass there moves it. */
  | { readonly why: 'move'; readonly partition: number; readonly home: number }
  /** The job is parked for a conflict key that its type had before that declaration. Passes move such jobs back, some at a time. */
  | { readonly why: 'carry'; readonly declared: number }
  /** Another partition has jobs in flight from before the last deployment. */
  | HandoverWait
  /** The lock of its conflict key is reserved for another partition, which may start a job with it until then. */
  | {
      readonly why: 'otherTurn';
      readonly conflictKey: string;
      readonly partition: number;
      readonly untilMs: number;
    }
  /** More jobs became due before it than one pass moves to their lines. The earliest are moved first. */
  | { readonly why: 'promotion'; readonly dueSinceMs: number }
  /** No pass reads its line, because its submitter stopped before announcing it. The job's stream record, or the key's next job, announces the line. */
  | { readonly why: 'announcement'; readonly fairnessKey: string }
  /** The index does not show the job yet. A pass sees it once the index does, or a hint shows it earlier. */
  | { readonly why: 'index' }
  /** The job is reserved and its message is in the fleet's queue, but no worker has started it. */
  | { readonly why: 'worker'; readonly fleet: string; readonly sinceMs: number };

/** The fleet whose queue holds the job's message, if no worker has started the job. */
export function toldOf(
  context: OperateContext,
  job: MovingJob,
  { reservations }: Pick<PartitionState, 'reservations'>,
): Extract<LiveWaitsFor, { readonly why: 'worker' }> | undefined {
  const { id, version, state: now, claim } = job;
  if (now === 'claimed' && claim !== undefined)
    return { why: 'worker', fleet: claim.fleet, sinceMs: claim.claimedAtMs };
  // If its claim takes a lock, the message is sent only after the lock is won.
  if (now !== 'pending' || lockOf(context, job) !== undefined) return undefined;
  for (const { reservedAtMs: sinceMs, jobs } of reservations) {
    for (const entry of jobs.values()) {
      if (entry.id !== id || entry.version !== version) continue;
      return { why: 'worker', fleet: entry.fleet, sinceMs };
    }
  }
  return undefined;
}
