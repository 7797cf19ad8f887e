/**
 * Everything that keeps one job from starting, apart from jobs that come first: caps and pauses, slots, and conflicts.
 */
import type { Fleets, Gate, Gates, PoolIndex } from './capacity.ts';
import type { TierConfiguration } from './configuration.ts';
import { type Conflicts, isExclusive } from './conflict.ts';
import type { Ledgers } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import type { JobTable, RunningJobs } from './job-table.ts';
import { type CapScope, printScope, resourceScope } from './scope.ts';

export type Obstacle =
  | { readonly why: 'paused'; readonly scope: string }
  | { readonly why: 'cap'; readonly scope: string; readonly cap: number; readonly running: number }
  /** No fleet that runs the type has a free slot; `fleets` is empty if no fleet runs it. */
  | { readonly why: 'noSlot'; readonly type: string; readonly fleets: readonly string[] }
  | { readonly why: 'conflict'; readonly conflictKey: string; readonly holder: string }
  | { readonly why: 'unknownType'; readonly type: string }
  /** A limit's starts or units, or a key's cost in ms, leave no room for another job within a window. */
  | {
      readonly why: 'rate' | 'budget';
      readonly scope: string;
      readonly most: number;
      readonly perMs: number;
      readonly used: number;
      /** The most units of one job, if a rate counts units; absent: it counts starts. */
      readonly perJob?: number | undefined;
      /**
       * Epoch ms at which so much of it ceases to count that a job may start; absent: only the end of a running
       * attempt makes room.
       */
      readonly untilMs?: number | undefined;
    };

/** The state that is checked for obstacles. */
export interface Capacity {
  readonly index: PoolIndex;
  readonly gates: Gates;
  readonly fleets: Fleets;
  /** Returns the bounds of limits that keep a job of this type and these keys from starting. */
  readonly limits: {
    readonly obstaclesTo: (
      type: number,
      job: Pick<WaitingJob, 'fairnessKey' | 'keys'>,
    ) => readonly Obstacle[];
  };
  readonly ledgers: Ledgers;
  readonly conflicts: Conflicts;
  readonly jobs: JobTable;
  readonly running: RunningJobs;
  readonly isKeyPaused: (fairnessKey: string) => boolean;
}

/**
 * Returns all obstacles to a job, from the pool down to the job; none for a job that only waits for others that come
 * first.
 */
export function obstaclesTo(
  job: Pick<WaitingJob, 'type' | 'fairnessKey' | 'resourceId' | 'keys'>,
  capacity: Capacity,
): readonly Obstacle[] {
  const { index, gates, fleets, limits, conflicts } = capacity;
  const type = index.typeNumbers.get(job.type);
  if (type === undefined) return [{ why: 'unknownType', type: job.type }];
  const tier = index.tierOfType[type] as number;
  const obstacles: Obstacle[] = [
    ...obstaclesAt('pool', gates.pool),
    ...obstaclesAt({ tier: (index.tiers[tier] as TierConfiguration).tier }, gates.tiers[tier] as Gate),
    ...obstaclesAt({ type: job.type }, gates.types[type] as Gate),
    ...obstaclesOfKey(job.fairnessKey, capacity),
    ...limits.obstaclesTo(type, job),
  ];
  if (fleets.roomOfType(type) <= 0) {
    obstacles.push({ why: 'noSlot', type: job.type, fleets: fleets.namesFor(type) });
  }
  const rule = index.conflictRules[type];
  if (rule === undefined || job.resourceId === undefined) return obstacles;
  const conflictKey = rule.prefix + job.resourceId;
  if (isExclusive(conflictKey))
    return conflicts.isKeyHeld(conflictKey) ? [...obstacles, ...holdersOf(conflictKey, capacity)] : obstacles;
  const gate = { paused: false, cap: rule.room, running: conflicts.holdersOf(conflictKey) };
  return [...obstacles, ...obstaclesAt(resourceScope(job.type, job.resourceId), gate)];
}

/** Returns the obstacles to a job at one gate: its pause, its cap, or none. */
export function obstaclesAt(of: CapScope, { paused, cap, running }: Gate): readonly Obstacle[] {
  const scope = printScope(of);
  if (paused) return [{ why: 'paused', scope }];
  return running < cap ? [] : [{ why: 'cap', scope, cap, running }];
}

function obstaclesOfKey(fairnessKey: string, { ledgers, isKeyPaused }: Capacity): readonly Obstacle[] {
  const key = ledgers.find(fairnessKey);
  if (key === undefined) return [];
  const paused = isKeyPaused(fairnessKey);
  return obstaclesAt({ fairnessKey }, { paused, cap: ledgers.capOf(key), running: ledgers.runningOf(key) });
}

function holdersOf(conflictKey: string, { running, jobs, conflicts }: Capacity): readonly Obstacle[] {
  const obstacles: Obstacle[] = [];
  for (const ticket of running.tickets()) {
    const conflict = running.conflictOf(ticket);
    if (conflict < 0 || conflicts.nameOf(conflict) !== conflictKey) continue;
    obstacles.push({ why: 'conflict', conflictKey, holder: jobs.idOf(running.jobOf(ticket)) });
  }
  return obstacles;
}
