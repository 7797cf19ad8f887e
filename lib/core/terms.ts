/**
 * What holds between a job in flight, which keeps the terms that it was claimed under, and jobs that are planned under what
 * is declared by now.
 */
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import { conflictKeyOf, resourceOf } from './conflict.ts';
import type { ReservedJob } from './job.ts';

/**
 * The conflict keys that a job in flight holds: the one that it was claimed with, and where its type has another conflict
 * group by now, that of this group too. So jobs of one resource exclude each other across a change of their group.
 */
export function keysHeldBy(
  types: ReadonlyMap<string, Pick<JobTypeConfiguration, 'conflictGroup'>>,
  { type, conflictKey, resourceId }: Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>,
): readonly string[] {
  const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
  const present = conflictKeyOf(types.get(type)?.conflictGroup ?? null, resource);
  const keys = conflictKey === undefined ? [] : [conflictKey];
  return present === undefined || present === conflictKey ? keys : [...keys, present];
}

/** Types by their names. */
export const typesByName = ({
  types,
}: Pick<PoolConfiguration, 'types'>): ReadonlyMap<string, JobTypeConfiguration> =>
  new Map(types.map((type) => [type.type, type]));
