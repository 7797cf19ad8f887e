/**
 * What a pass does because its pool has, or once had, several partitions: it looks at what others have in flight, takes and gives
 * back locks of conflict keys, moves jobs and capacity. A pass of a pool that has always had one partition does none of it: its
 * steps ask `between?.…`, and say themselves what holds without it.
 */
import type { DispatchContext } from '../partition/context.ts';
import { lookElsewhere, movedLess, overridesLess, slotsLess } from './handover.ts';
import { moveCapacity, movedTo } from './loans.ts';
import { lockOf, lockOfPlace, lookAtLocks, needsLocks, releaseLocks, wakePartitions } from './locks.ts';
import { haveKeysMoved, livesIn, sendStrangersHome } from './rehome.ts';

const BETWEEN_PARTITIONS = {
  haveKeysMoved,
  livesIn,
  lockOf,
  lockOfPlace,
  lookAtLocks,
  lookElsewhere,
  movedLess,
  movedTo,
  moveCapacity,
  needsLocks,
  overridesLess,
  releaseLocks,
  sendStrangersHome,
  slotsLess,
  wakePartitions,
} as const;

export type BetweenPartitions = typeof BETWEEN_PARTITIONS;

/** Undefined: the pool has one partition, and always had. */
export const betweenPartitions = (
  { configuration, deployed }: Pick<DispatchContext, 'configuration' | 'deployed'>,
  partition: number,
): BetweenPartitions | undefined =>
  configuration.partitions === 1 && partition === 0 && (deployed?.partitionsEver ?? 1) === 1
    ? undefined
    : BETWEEN_PARTITIONS;
