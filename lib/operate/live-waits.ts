/** Reasons to wait that only the live state shows, beside those of the policy. */
import { type Control, type ControlEntry, lastChange } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import type { WaitsFor } from '../core/explain.ts';
import type { MovingJob } from '../core/job.ts';
import { dividedCaps } from '../core/partition.ts';
import { declaredCapOf, declaredScopeOf, parseScope, ruleOf } from '../core/scope.ts';
import type { HandoverWait } from '../dispatch/partitions/handover.ts';
import { lockOf } from '../dispatch/partitions/locks.ts';
import type { PartitionState } from '../store/contract/records.ts';
import type { OperateContext } from './controls.ts';

/**
 * The person or tool that has paused a scope or overridden its cap, the reason, and until when; all absent for a
 * declared cap.
 */
type ByOperator = Pick<ControlEntry, 'by' | 'reason' | 'untilMs'>;

export type LiveWaitsFor =
  | Exclude<WaitsFor, { readonly why: 'cap' | 'paused' }>
  | (Extract<WaitsFor, { readonly why: 'paused' }> & ByOperator)
  /** The job's handler has parked it until `untilMs`. Meanwhile the job holds no slot and no conflict key. */
  | { readonly why: 'parked'; readonly untilMs: number; readonly hasState: boolean }
  /** A handler has asked for a cool-down of the scope, which rests until `untilMs`. */
  | { readonly why: 'rests'; readonly scope: string; readonly untilMs: number }
  | (Extract<WaitsFor, { readonly why: 'cap' }> &
      ByOperator & {
        /** With several partitions, the pool's whole cap. `cap` and `running` are then those of the job's partition. */
        readonly split?:
          | { readonly cap: number; readonly partition: number; readonly partitions: number }
          | undefined;
      })
  /** The job is in a partition to which its key does not belong any more. The next pass there moves it. */
  | { readonly why: 'move'; readonly partition: number; readonly home: number }
  /**
   * The job is parked for a conflict key that its type had before version `declared` of the declaration. Passes move such jobs back,
   * some at a time.
   */
  | { readonly why: 'carry'; readonly declared: number }
  /** Another partition has jobs in flight from before the last deployment. */
  | HandoverWait
  /** The lock of the job's conflict key is reserved for another partition, which may start a job with it until `untilMs`. */
  | {
      readonly why: 'otherTurn';
      readonly conflictKey: string;
      readonly partition: number;
      readonly untilMs: number;
    }
  /** More jobs became due before this one than one pass moves to their ready lines. The earliest are moved first. */
  | { readonly why: 'promotion'; readonly dueSinceMs: number }
  /**
   * No pass reads the job's line, because the submitter stopped before it announced the line. The job's stream record, or the key's next
   * job, announces it.
   */
  | { readonly why: 'announcement'; readonly fairnessKey: string }
  /** The index does not show the job yet. A pass sees it once the index does, or a hint shows it earlier. */
  | { readonly why: 'index' }
  /** The job is reserved and its message is in the fleet's queue, but no worker has started it. */
  | { readonly why: 'worker'; readonly fleet: string; readonly sinceMs: number };

/** The wait for a job's time, as what it is if its handler has parked the job. */
export function withParked(job: MovingJob, waits: LiveWaitsFor): LiveWaitsFor {
  if (waits.why !== 'time') return waits;
  const last = job.history?.entries.findLast((entry) => entry.kind === 'attempt');
  const isParked = last?.outcome === 'parked' && last.attempt === job.attempt;
  if (!isParked) return waits;
  const { untilMs } = waits;
  return { why: 'parked', untilMs, hasState: job.parkedState !== undefined && job.parkedState !== null };
}

/** Returns the fleet whose queue holds the job's message, if no worker has started the job. */
export function toldOf(
  context: OperateContext,
  job: MovingJob,
  { reservations }: Pick<PartitionState, 'reservations'>,
): Extract<LiveWaitsFor, { readonly why: 'worker' }> | undefined {
  const { id, version, state: now, claim } = job;
  if (now === 'claimed' && claim !== undefined)
    return { why: 'worker', fleet: claim.fleet, sinceMs: claim.claimedAtMs };
  // If the job's claim takes a lock, its message is sent only once the pass has claimed it.
  if (now !== 'pending' || lockOf(context, job) !== undefined) return undefined;
  for (const { reservedAtMs: sinceMs, jobs } of reservations) {
    for (const entry of jobs.values()) {
      if (entry.id !== id || entry.version !== version) continue;
      return { why: 'worker', fleet: entry.fleet, sinceMs };
    }
  }
  return undefined;
}

/** Adds what is known of the control that the job waits for: who has changed it, why, and until when it holds. */
export function withControl(controls: readonly Control[], waitsFor: WaitsFor): LiveWaitsFor {
  if (waitsFor.why !== 'paused' && waitsFor.why !== 'cap') return waitsFor;
  const { scope } = waitsFor;
  const control = controls.find((each) => each.scope === scope);
  if (control === undefined) return waitsFor;
  const { paused, restsUntilMs } = control;
  if (waitsFor.why === 'paused' && !paused && restsUntilMs !== undefined)
    return { why: 'rests', scope, untilMs: restsUntilMs };
  const field = waitsFor.why === 'paused' ? 'paused' : 'maxConcurrency';
  const { by, reason, untilMs } =
    (control[field] === undefined ? undefined : lastChange(control, field)) ?? {};
  return {
    ...waitsFor,
    ...(by === undefined ? {} : { by }),
    ...(reason === undefined ? {} : { reason }),
    ...(untilMs === undefined ? {} : { untilMs }),
  };
}

/** Adds the pool's whole cap if the cap is divided among partitions. */
export function withWholeCap(
  configuration: PoolConfiguration,
  controls: readonly Control[],
  job: MovingJob,
  waitsFor: LiveWaitsFor,
): LiveWaitsFor {
  const { partitions } = configuration;
  if (waitsFor.why !== 'cap' || partitions === 1) return waitsFor;
  const whole =
    dividedCaps(configuration, controls).find(({ scope }) => scope === declaredScopeOf(waitsFor.scope))
      ?.cap ?? dividedCapOfKey(configuration, controls, waitsFor.scope);
  if (whole === undefined) return waitsFor;
  return { ...waitsFor, split: { cap: whole, partition: job.partition, partitions } };
}

/** The whole cap of one key of a limit, if the partitions divide it. */
function dividedCapOfKey(
  configuration: PoolConfiguration,
  controls: readonly Control[],
  text: string,
): number | undefined {
  const scope = parseScope(text);
  const isOfKey = typeof scope === 'object' && 'limit' in scope && scope.key !== undefined;
  if (!(isOfKey && ruleOf(text, configuration).isDivided)) return undefined;
  const control = controls.find((each) => each.scope === text);
  return control?.maxConcurrency ?? declaredCapOf(configuration, text) ?? undefined;
}
