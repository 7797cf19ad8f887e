/** How a job or a schedule does not fit its type: fields that are missing, and units that no limit counts. */
import type { JobTypeConfiguration, PoolConfiguration, RequiredField } from '../core/configuration.ts';
import { show } from '../core/errors.ts';
import type { WaitingJob } from '../core/job.ts';
import { unitLimitsOf, unitsIn } from '../core/limits.ts';
import { didYouMean } from '../core/spelling.ts';

export interface Misfit {
  /** The path of the field. */
  readonly field: readonly string[];
  readonly reason: string;
}

/** The fields of a job or a schedule that its type may refuse. */
type Named = { readonly [field in RequiredField]?: string | undefined } & Pick<WaitingJob, 'keys' | 'units'>;

type Type = Pick<JobTypeConfiguration, 'type' | 'requires' | 'limits'>;

/** Returns the first misfit of a job or a schedule; undefined: it fits. */
export const misfitOf = (
  configuration: Pick<PoolConfiguration, 'limits'>,
  type: Type,
  named: Named,
): Misfit | undefined =>
  missingOf(type, named) ??
  missingKeyOf(configuration, type, named) ??
  wrongUnitsOf(configuration, type, named);

/** An empty key counts as missing. */
function missingOf({ type, requires = [] }: Type, named: Named): Misfit | undefined {
  const field = requires.find((each) => named[each] === undefined || named[each] === '');
  if (field === undefined) return undefined;
  return {
    field: [field],
    reason: `is missing: jobs of type ${show(type)} must name ${FIELD_MEANINGS[field]}`,
  };
}

const FIELD_MEANINGS: Readonly<Record<RequiredField, string>> = {
  resourceId: 'the resource that they work on',
  fairnessKey: 'the key whose share they count against',
};

/** The limits of a type count by keys that a job must have. */
function missingKeyOf(
  { limits: declared = [] }: Pick<PoolConfiguration, 'limits'>,
  { type, limits = [] }: Type,
  { keys = {} }: Named,
): Misfit | undefined {
  const missing = declared.find(
    ({ limit, keyedBy }) => limits.includes(limit) && keyedBy !== undefined && !Object.hasOwn(keys, keyedBy),
  );
  if (missing?.keyedBy === undefined) return undefined;
  const { limit, keyedBy } = missing;
  const reason = `is missing: jobs of type ${show(type)} are under limit ${show(limit)}, which counts by it; name it as keys: { ${show(keyedBy)}: "..." }`;
  return { field: ['keys', keyedBy], reason };
}

/**
 * Returns the first units of a job that are more than one job may have now. A job that was stored before a deployment
 * that lowered `perJob` is not made again with them.
 */
export function excessUnitsOf(
  configuration: Pick<PoolConfiguration, 'limits' | 'types'>,
  { type, units }: Pick<WaitingJob, 'type' | 'units'>,
): Misfit | undefined {
  const declared = configuration.types.find((each) => each.type === type);
  for (const { limit, perJob } of unitLimitsOf(configuration, declared ?? {})) {
    const count = unitsIn(units, limit);
    if (count !== undefined && count > perJob) return tooMany(limit, perJob, count);
  }
  return undefined;
}

const tooMany = (limit: string, perJob: number, count: number): Misfit => ({
  field: ['units', limit],
  reason: `must be at most ${perJob}, the most that limit ${show(limit)} lets one job have (got ${count}); split the job, or raise perJob`,
});

function wrongUnitsOf(
  configuration: Pick<PoolConfiguration, 'limits'>,
  type: Type,
  { units = {} }: Named,
): Misfit | undefined {
  const counting = unitLimitsOf(configuration, type);
  for (const [name, count] of Object.entries(units)) {
    const field = ['units', name];
    const perJob = counting.find(({ limit }) => limit === name)?.perJob;
    if (perJob === undefined) {
      const known = counting.map(({ limit }) => limit);
      return {
        field,
        reason: `names no limit of type ${show(type.type)} that counts units. ${didYouMean(name, known)}Those are: ${known.join(', ') || 'none'}; name one of them, or leave it out`,
      };
    }
    if (count > perJob) return tooMany(name, perJob, count);
  }
  return undefined;
}
