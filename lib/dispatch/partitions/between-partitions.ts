/**
 * The operations that a pass needs because its pool has several partitions, or once had: it counts what other partitions have in
 * flight, takes and releases locks of conflict keys, and moves jobs and capacity. A pool that has always had one partition needs
 * none of them: the steps of its passes call `between?.…` and name the default themselves.
 */
import type { DispatchContext } from '../partition/context.ts';
import { loansLessOthers, overridesLessOthers, readOtherPartitions, slotsLessOthers } from './handover.ts';
import { loansOf, moveCapacity } from './loans.ts';
import { lockOf, lockOfEntry, needsLocks, readLocksAndWait, releaseLocks, wakePartitions } from './locks.ts';
import { belongsTo, haveKeysMoved, moveMisplaced } from './rehome.ts';

const BETWEEN_PARTITIONS = {
  haveKeysMoved,
  belongsTo,
  lockOf,
  lockOfEntry,
  readLocksAndWait,
  readOtherPartitions,
  loansLessOthers,
  loansOf,
  moveCapacity,
  needsLocks,
  overridesLessOthers,
  releaseLocks,
  moveMisplaced,
  slotsLessOthers,
  wakePartitions,
} as const;

export type BetweenPartitions = typeof BETWEEN_PARTITIONS;

/** Returns the operations between partitions. Undefined: the pool has always had one partition. */
export const betweenPartitions = (
  { configuration, deployed }: Pick<DispatchContext, 'configuration' | 'deployed'>,
  partition: number,
): BetweenPartitions | undefined =>
  configuration.partitions === 1 && partition === 0 && (deployed?.partitionsEver ?? 1) === 1
    ? undefined
    : BETWEEN_PARTITIONS;
