/**
 * What holds between a job in flight, which keeps the terms that it was claimed under, and jobs that are planned under what
 * is declared by now.
 */
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import { type ConflictTerms, conflictKeyUnder, resourceOf, roomUnder } from './conflict.ts';
import type { ReservedJob } from './job.ts';

type Types = ReadonlyMap<string, ConflictTerms>;

/**
 * The conflict keys that a job in flight holds: the one that it was claimed with, and where its type has another conflict
 * group by now, that of this group too. So jobs of one resource exclude each other across a change of their group.
 */
export function keysHeldBy(
  types: Types,
  { type, conflictKey, resourceId }: Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>,
): readonly string[] {
  const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
  const present = conflictKeyUnder(types.get(type), resource);
  const keys = conflictKey === undefined ? [] : [conflictKey];
  return present === undefined || present === conflictKey ? keys : [...keys, present];
}

/** Conflict keys with which as many jobs are in flight as may run at once. */
export function fullConflicts(
  types: Types,
  inFlight: Iterable<Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>>,
): ReadonlySet<string> {
  const running = new Map<string, number>();
  const full = new Set<string>();
  for (const entry of inFlight) {
    for (const conflictKey of keysHeldBy(types, entry)) {
      const count = (running.get(conflictKey) ?? 0) + 1;
      running.set(conflictKey, count);
      if (count >= roomUnder(types.get(entry.type), conflictKey)) full.add(conflictKey);
    }
  }
  return full;
}

/** Types by their names. */
export const typesByName = ({
  types,
}: Pick<PoolConfiguration, 'types'>): ReadonlyMap<string, JobTypeConfiguration> =>
  new Map(types.map((type) => [type.type, type]));
