/** What a job waits for, as far as only the live state can tell. */
import type { WaitsFor } from '../core/explain.ts';
import type { MovingJob } from '../core/job.ts';
import type { HandoverWait } from '../dispatch/partitions/handover.ts';
import { lockOf } from '../dispatch/partitions/locks.ts';
import type { PartitionState } from '../store/contract/records.ts';
import type { OperateContext } from './controls.ts';

export type LiveWaitsFor =
  | Exclude<WaitsFor, { readonly why: 'cap' }>
  | (Extract<WaitsFor, { readonly why: 'cap' }> & {
      /** Of several partitions: the pool's whole cap; `cap` and `running` are those of the job's partition. */
      readonly split?:
        | { readonly cap: number; readonly partition: number; readonly partitions: number }
        | undefined;
    })
  /** It stands in a partition where its key does not live any more: the next pass there moves it. */
  | { readonly why: 'move'; readonly partition: number; readonly home: number }
  /** It is parked for a conflict key that its type had before that declaration: passes move such jobs back, some at a time. */
  | { readonly why: 'carry'; readonly declared: number }
  /** Another partition has jobs in flight from before the last deployment. */
  | HandoverWait
  /** Another partition has its conflict key in turn, and may start a job with it until then. */
  | {
      readonly why: 'otherTurn';
      readonly conflictKey: string;
      readonly partition: number;
      readonly untilMs: number;
    }
  /** More jobs are due before it than a pass moves to their lines; the soonest go first. */
  | { readonly why: 'promotion'; readonly dueSinceMs: number }
  /** No pass reads its line: whoever put it was stopped on the way. Its stream record, or its key's next job, ends that. */
  | { readonly why: 'announcement'; readonly fairnessKey: string }
  /** The lines do not show it yet, so that no pass sees it; a hint may have told of it. */
  | { readonly why: 'index' }
  /** A place is reserved for it, its message is with the fleet, and no worker has started it. */
  | { readonly why: 'worker'; readonly fleet: string; readonly sinceMs: number };

/** The fleet that was told of a job which nobody has started. */
export function toldOf(
  context: OperateContext,
  job: MovingJob,
  { reservations }: Pick<PartitionState, 'reservations'>,
): Extract<LiveWaitsFor, { readonly why: 'worker' }> | undefined {
  const { id, version, state: now, claim } = job;
  if (now === 'claimed' && claim !== undefined)
    return { why: 'worker', fleet: claim.fleet, sinceMs: claim.claimedAtMs };
  // Where its claim takes a lock, nobody is told before that is won.
  if (now !== 'pending' || lockOf(context, job) !== undefined) return undefined;
  for (const { reservedAtMs: sinceMs, jobs } of reservations) {
    for (const entry of jobs.values()) {
      if (entry.id !== id || entry.version !== version) continue;
      return { why: 'worker', fleet: entry.fleet, sinceMs };
    }
  }
  return undefined;
}
