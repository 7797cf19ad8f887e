/** Reads the limits of a declaration, as `defaults.ts` reads its other parts. */
import type {
  BudgetConfiguration,
  JobTypeConfiguration,
  LimitConfiguration,
  PoolConfiguration,
  RateConfiguration,
} from './configuration.ts';
import { ConfigurationError } from './errors.ts';
import {
  readArray,
  readCap,
  readInteger,
  readName,
  readNumber,
  readObject,
  readRecord,
  readWholeDuration,
  refuseRepeated,
} from './read-fields.ts';
import { didYouMean } from './spelling.ts';
import { FIELDS } from './unknown-fields.ts';

/** The most limits of a declaration: each commit writes the uses of all of them. */
const LIMITS_MAX = 20;
const LIMITS_OF_TYPE_MAX = 4;
const WINDOW_MAX_MS = 30 * 86_400_000;
const SLOT_SECONDS_MAX = 1_000_000_000;

export function readLimits(value: unknown): readonly LimitConfiguration[] {
  return readRecord('limits', value, LIMITS_MAX).map(([name, fields]) => {
    const path = `limits.${name}`;
    if (name.includes('/'))
      throw new ConfigurationError(path, name, 'must not contain a slash', 'Choose another name.');
    return readLimit(path, readName(path, name), fields);
  });
}

function readLimit(path: string, limit: string, value: unknown): LimitConfiguration {
  const fields = readObject(path, value, FIELDS.limit);
  const rate = fields.get('rate');
  const budget = fields.get('budget');
  const keyedBy = fields.get('keyedBy');
  const read = {
    limit,
    ...(keyedBy === undefined ? {} : { keyedBy: readName(`${path}.keyedBy`, keyedBy) }),
    total: readCap(`${path}.total`, fields.get('total'), null),
    perKey: readAtLeastOne(`${path}.perKey`, fields.get('perKey')),
    ...(rate === undefined ? {} : { rate: readRate(`${path}.rate`, rate) }),
    ...(budget === undefined ? {} : { budget: readBudget(`${path}.budget`, budget) }),
  };
  if (read.total === null && read.perKey === null && rate === undefined && budget === undefined)
    throw new ConfigurationError(path, value, 'limits nothing', 'Name one of total, perKey, rate, budget.');
  if (
    keyedBy !== undefined &&
    read.perKey === null &&
    typeof read.rate?.perKey !== 'number' &&
    budget === undefined
  )
    throw new ConfigurationError(
      `${path}.keyedBy`,
      keyedBy,
      'has no effect: the limit bounds no single key',
      'Name perKey, rate.perKey or budget beside it, or leave it out.',
    );
  return read;
}

/** Reads a cap of 1 or more; null: no cap. @throws ConfigurationError for 0, which would let no job start */
function readAtLeastOne(path: string, value: unknown): number | null {
  if (value === 0)
    throw new ConfigurationError(
      path,
      value,
      'would let no job start, ever',
      'Name at least 1, or leave it out for no limit.',
    );
  if (value === undefined || value === null) return null;
  return required('Leave it out for no limit.', () => readInteger(path, value, 1, 1));
}

function readRate(path: string, value: unknown): RateConfiguration {
  const fields = readObject(path, value, FIELDS.rate);
  const perJob = readAtLeastOne(`${path}.perJob`, fields.get('perJob'));
  const units = readAtLeastOne(`${path}.units`, fields.get('units'));
  const rate = {
    starts: readAtLeastOne(`${path}.starts`, fields.get('starts')),
    perKey: readAtLeastOne(`${path}.perKey`, fields.get('perKey')),
    perMs: readWindow(`${path}.per`, fields.get('per')),
  };
  if (units === null && perJob === null) {
    if (rate.starts !== null || rate.perKey !== null) return rate;
    throw new ConfigurationError(
      path,
      value,
      'limits no starts',
      'Name `starts`, `perKey` or both, such as { starts: 500, per: "1m" }.',
    );
  }
  if (rate.starts !== null)
    throw new ConfigurationError(
      `${path}.starts`,
      rate.starts,
      'cannot stand beside `units` or `perJob`: a rate counts starts or units',
      'Declare two limits, one for starts and one for units, and list both in the type.',
    );
  if (perJob === null)
    throw new ConfigurationError(
      `${path}.perJob`,
      undefined,
      'is missing beside `units`: the most units of one job',
      'Write it as perJob: 4000.',
    );
  return readUnits(path, { ...rate, units, perJob });
}

/** Refuses a rate of units in which a job with as many units as it may have could never start. */
function readUnits(path: string, rate: Required<RateConfiguration>): RateConfiguration {
  const { units, perKey, perJob } = rate;
  if (units === null && perKey === null)
    throw new ConfigurationError(
      path,
      rate,
      'limits no units',
      'Name `units`, `perKey` or both beside `perJob`, such as { units: 90000, perJob: 4000, per: "1m" }.',
    );
  for (const [field, most] of [
    ['units', units],
    ['perKey', perKey],
  ] as const)
    if (most !== null && most < perJob)
      throw new ConfigurationError(
        `${path}.${field}`,
        most,
        `is below perJob (${perJob}): a job with so many units could never start`,
        `Raise it to at least ${perJob}, or lower perJob.`,
      );
  return rate;
}

function readBudget(path: string, value: unknown): BudgetConfiguration {
  const fields = readObject(path, value, FIELDS.budget);
  const slotSeconds = fields.get('slotSeconds');
  requireGiven(`${path}.slotSeconds`, slotSeconds, 'slotSeconds: 3600');
  return {
    slotMs: Math.max(1, Math.round(readSlotSeconds(`${path}.slotSeconds`, slotSeconds) * 1_000)),
    perMs: readWindow(`${path}.per`, fields.get('per')),
  };
}

const readSlotSeconds = (path: string, value: unknown): number =>
  required('Write it as slotSeconds: 3600.', () =>
    readNumber(path, value, 0, { above: 0, max: SLOT_SECONDS_MAX }),
  );

function readWindow(path: string, value: unknown): number {
  requireGiven(path, value, 'per: "1m"');
  return required('Write it as per: "1m".', () => readWholeDuration(path, value, 0, 1_000, WINDOW_MAX_MS));
}

/** Reads a field without a default: the way out of its errors is this one. */
function required<Value>(wayOut: string, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    throw new ConfigurationError(error.field, error.value, error.problem, wayOut);
  }
}

function requireGiven(path: string, value: unknown, example: string): void {
  if (value === undefined) throw new ConfigurationError(path, value, 'is missing', `Write it as ${example}.`);
}

/** Refuses a limit that no type is under: it would bound nothing, which its author did not mean. */
export function refuseUnusedLimits({ limits = [], types }: PoolConfiguration): void {
  for (const { limit } of limits) {
    if (types.some((type) => type.limits?.includes(limit))) continue;
    throw new ConfigurationError(
      `limits.${limit}`,
      limit,
      'is listed by no type, so it would limit nothing',
      `List it in the \`limits\` of a type, or leave it out.`,
    );
  }
}

export function readLimitsOf(
  path: string,
  value: unknown,
  declared: readonly LimitConfiguration[],
): Pick<JobTypeConfiguration, 'limits'> {
  if (value === undefined) return {};
  const known = declared.map(({ limit }) => limit);
  const seen = new Set<string>();
  const limits = readArray(path, value, LIMITS_OF_TYPE_MAX).map((each, at) => {
    const name = readName(`${path}[${at}]`, each);
    refuseRepeated(`${path}[${at}]`, name, seen);
    if (known.includes(name)) return name;
    throw new ConfigurationError(
      `${path}[${at}]`,
      name,
      `names no declared limit (${known.join(', ') || 'there is none'})`,
      `${didYouMean(name, known)}Declare it in limits, or name one of those.`,
    );
  });
  return limits.length === 0 ? {} : { limits };
}
