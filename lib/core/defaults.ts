/**
 * Turns a sparse declaration into a `PoolConfiguration` with every default filled in.
 *
 * The input may come from a file or an environment variable, so its shape is not trusted. Each field is read as an own
 * property and checked. A wrong field is refused by a `ConfigurationError` with its path, the offending value and the
 * way out. Unknown fields are refused too, so that a misspelt cap does not become "no cap".
 */

import { BATCH_SIZE_MAX } from './capacity.ts';
import {
  type ErrorRule,
  EXPIRE_AFTER_MS,
  type FairnessConfiguration,
  type FleetConfiguration,
  type JobTypeConfiguration,
  type LendingConfiguration,
  type LimitConfiguration,
  listFinishedOf,
  MAX_WAITING,
  type PoolConfiguration,
  REQUIRABLE,
  type RetryPolicy,
  type ScoreCoefficients,
  type TierConfiguration,
} from './configuration.ts';
import { ConfigurationError } from './errors.ts';
import { readLargePayloads } from './large-payloads.ts';
import { requireSplittable } from './partition.ts';
import type { PoolInput } from './pool-input.ts';
import {
  NAME_LENGTH_MAX,
  readArray,
  readBoolean,
  readCap,
  readChoice,
  readDuration,
  readInteger,
  readName,
  readNumber,
  readObject,
  readRecord,
  readWholeDuration,
  refuseRepeated,
} from './read-fields.ts';
import { readLimits, readLimitsOf, refuseUnusedLimits } from './read-limits.ts';
import { didYouMean } from './spelling.ts';
import { FIELDS } from './unknown-fields.ts';

/** The coefficients of the score, if the declaration has none. Source: affinity-scoring, "The formula". */
export const SCORE_DEFAULTS: ScoreCoefficients = {
  priority: 1024,
  ageSec: 16,
  rarity: 500,
  onDemand: 4096,
  onDemandAgeSec: 32,
};

export const RETRY_DEFAULTS: RetryPolicy = {
  maxAttempts: 3,
  backoff: 'exponential',
  delayMs: 1_000,
  maxDelayMs: 300_000,
  jitter: 'full',
  errors: [],
  maxWorkersLost: 3,
};

/** The timeout is half a minute less than the 15 minutes of a Lambda, which needs the rest to report the timeout. */
export const TYPE_DEFAULTS: Omit<JobTypeConfiguration, 'type' | 'tier' | 'retry'> = {
  maxConcurrency: null,
  conflictGroup: null,
  defaultCostMs: 1_000,
  timeoutMs: 870_000,
  onWorkerLost: 'retry',
};

/** The longest time that the ledger of a key or the estimate of a resource is kept after its last use. */
export const LEARNED_KEPT_MS = 90 * 86_400_000;

export const FAIRNESS_DEFAULTS: FairnessConfiguration = {
  alpha: 0.3,
  admissionFloorMs: 10,
  weights: {},
  defaultWeight: 1,
  maxConcurrencyPerKey: null,
  idlePolicy: 'advance',
  creditMs: 300_000,
  trueUp: true,
  keyTtlMs: 3_600_000,
  estimateFallback: 'type',
  estimateTtlMs: 30 * 86_400_000,
  resetEveryMs: null,
};

export const LENDING_DEFAULTS: LendingConfiguration = {
  backlogThreshold: 2,
  lentShare: 0.5,
  batch: 10,
  maxBorrowed: 100,
  loanMs: 30_000,
};

/**
 * Claims that a pass may lose one after the other before it reads its candidates again. Source: affinity-scoring,
 * "Retry algorithm".
 */
export const LOST_CLAIMS_IN_A_ROW = 5;

export const DEFAULT_TIER = 'default';

/** Bounds of a declaration. Larger values are mistakes, and would not fit into the items that store the declaration. */
export const CONFIGURATION_LIMITS = {
  types: 1_000,
  tiers: 100,
  fleets: 1_000,
  errorRules: 100,
  weights: 10_000,
  partitions: 4_096,
  /** A declaration names as many tags as one job may have. */
  searchableTags: 8,
  tagNameLength: 64,
  nameLength: NAME_LENGTH_MAX,
  backlogThreshold: 100,
  batch: 1_000,
  maxBorrowed: 100_000,
  loanMs: 86_400_000,
  lostClaimsInARow: 1_000,
} as const;

/**
 * Resolves a declaration into a configuration.
 * @throws ConfigurationError for the first field that is wrong.
 */
export function resolveConfiguration(input: PoolInput): PoolConfiguration {
  const pool = readObject('', input, FIELDS.pool);
  const maxConcurrency = readCap('maxConcurrency', pool.get('maxConcurrency'), null);
  const tiers = readTiers(pool.get('tiers'), maxConcurrency);
  const limits = readLimits(pool.get('limits'));
  const declared = readTypes(pool.get('types'), tiers, limits);
  const fleets = readFleets(pool.get('fleets'), declared);
  const types = new Map(declared.map((type) => [type.type, type]));
  for (const fleet of fleets) {
    for (const type of fleet.types) {
      if (!types.has(type)) types.set(type, readType(`types.${type}`, type, {}, tiers, limits));
    }
  }
  if (types.size > CONFIGURATION_LIMITS.types) {
    throw new ConfigurationError(
      'fleets',
      types.size,
      `the fleets name too many types (at most ${CONFIGURATION_LIMITS.types})`,
      'Split the work into several pools.',
    );
  }
  const lending = pool.get('lending');
  const lostClaims = pool.get('lostClaimsInARow');
  const resolved: PoolConfiguration = {
    types: [...types.values()],
    tiers,
    fleets,
    ...(limits.length === 0 ? {} : { limits }),
    maxConcurrency,
    score: readScore(pool.get('score')),
    fairness: readFairness(pool.get('fairness')),
    partitions: readInteger('partitions', pool.get('partitions'), 1, 1, CONFIGURATION_LIMITS.partitions),
    ...readSearchable(pool.get('searchableTags')),
    ...readLargePayloads(pool.get('largePayloads')),
    ...(readBoolean('statistics', pool.get('statistics'), false) ? { statistics: true } : {}),
    ...(lending === undefined ? {} : { lending: readLending(lending) }),
    ...(lostClaims === undefined ? {} : { lostClaimsInARow: readLostClaims(lostClaims) }),
  };
  refuseUnusedLimits(resolved);
  requireSplittable(resolved);
  return resolved;
}

const readLostClaims = (value: unknown): number =>
  readInteger('lostClaimsInARow', value, LOST_CLAIMS_IN_A_ROW, 0, CONFIGURATION_LIMITS.lostClaimsInARow);

function readSearchable(value: unknown): Pick<PoolConfiguration, 'searchableTags'> {
  if (value === undefined) return {};
  const seen = new Set<string>();
  const searchableTags = readArray('searchableTags', value, CONFIGURATION_LIMITS.searchableTags).map(
    (each, at) => {
      const path = `searchableTags[${at}]`;
      const name = readName(path, each);
      if (name.length > CONFIGURATION_LIMITS.tagNameLength)
        throw new ConfigurationError(path, name, 'is longer than 64 characters', 'No job has such a tag.');
      refuseRepeated(path, name, seen);
      return name;
    },
  );
  return searchableTags.length === 0 ? {} : { searchableTags };
}

function readTiers(value: unknown, poolCap: number | null): readonly TierConfiguration[] {
  if (value === undefined) return [{ tier: DEFAULT_TIER, maxConcurrency: null, guaranteed: 0 }];
  const entries = readArray('tiers', value, CONFIGURATION_LIMITS.tiers);
  if (entries.length === 0) {
    throw new ConfigurationError(
      'tiers',
      value,
      'names no tier',
      'Leave it out to have one tier, `default`.',
    );
  }
  const seen = new Set<string>();
  let guaranteedInAll = 0;
  return entries.map((entry, index) => {
    const path = `tiers[${index}]`;
    const fields = readObject(path, entry, FIELDS.tier);
    const tier = readName(`${path}.tier`, fields.get('tier'));
    refuseRepeated(`${path}.tier`, tier, seen);
    const maxConcurrency = readCap(`${path}.maxConcurrency`, fields.get('maxConcurrency'), null);
    const guaranteed = readInteger(`${path}.guaranteed`, fields.get('guaranteed'), 0, 0);
    if (maxConcurrency !== null && guaranteed > maxConcurrency) {
      throw new ConfigurationError(
        `${path}.guaranteed`,
        guaranteed,
        `must not be above the tier's own maxConcurrency (${maxConcurrency})`,
        'Lower the guarantee or raise the cap.',
      );
    }
    guaranteedInAll += guaranteed;
    if (poolCap !== null && guaranteedInAll > poolCap) {
      throw new ConfigurationError(
        `${path}.guaranteed`,
        guaranteed,
        `the tiers' guarantees add up to ${guaranteedInAll}, more than the pool's maxConcurrency (${poolCap})`,
        'Lower a guarantee or raise the cap.',
      );
    }
    return { tier, maxConcurrency, guaranteed };
  });
}

function readTypes(
  value: unknown,
  tiers: readonly TierConfiguration[],
  limits: readonly LimitConfiguration[],
): readonly JobTypeConfiguration[] {
  return readRecord('types', value, CONFIGURATION_LIMITS.types).map(([type, fields]) =>
    readType(`types.${type}`, readName(`types.${type}`, type), fields, tiers, limits),
  );
}

function readType(
  path: string,
  type: string,
  value: unknown,
  tiers: readonly TierConfiguration[],
  limits: readonly LimitConfiguration[],
): JobTypeConfiguration {
  const fields = readObject(path, value, FIELDS.type);
  return {
    type,
    tier: readTierOf(`${path}.tier`, fields.get('tier'), tiers),
    maxConcurrency: readCap(
      `${path}.maxConcurrency`,
      fields.get('maxConcurrency'),
      TYPE_DEFAULTS.maxConcurrency,
    ),
    conflictGroup: readConflictGroup(`${path}.conflictGroup`, fields.get('conflictGroup')),
    ...readPerResource(path, fields),
    ...readRequires(`${path}.requires`, fields.get('requires')),
    ...readExpiry(`${path}.expireAfter`, fields.get('expireAfter')),
    ...readMaxWaiting(path, fields),
    ...listFinishedOf({
      listFinished: readBoolean(`${path}.listFinished`, fields.get('listFinished'), false),
    }),
    ...readLimitsOf(`${path}.limits`, fields.get('limits'), limits),
    defaultCostMs: readDuration(
      `${path}.defaultCostMs`,
      fields.get('defaultCostMs'),
      TYPE_DEFAULTS.defaultCostMs,
    ),
    timeoutMs: readWholeDuration(`${path}.timeoutMs`, fields.get('timeoutMs'), TYPE_DEFAULTS.timeoutMs, 1),
    retry: readRetry(`${path}.retry`, fields.get('retry')),
    onWorkerLost: readChoice(
      `${path}.onWorkerLost`,
      fields.get('onWorkerLost'),
      ['fail', 'retry', 'resume'],
      TYPE_DEFAULTS.onWorkerLost,
    ),
  };
}

function readExpiry(path: string, value: unknown): Pick<JobTypeConfiguration, 'expireAfterMs'> {
  if (value === undefined) return {};
  return { expireAfterMs: readWholeDuration(path, value, 0, EXPIRE_AFTER_MS.least, EXPIRE_AFTER_MS.most) };
}

function readMaxWaiting(
  path: string,
  fields: ReadonlyMap<string, unknown>,
): Pick<JobTypeConfiguration, 'maxWaiting' | 'maxWaitingPerKey'> {
  const [maxWaiting, maxWaitingPerKey] = (['maxWaiting', 'maxWaitingPerKey'] as const).map((field) => {
    const value = fields.get(field);
    if (value === undefined) return undefined;
    const most = readCap(`${path}.${field}`, value, null);
    if (most !== null && most >= MAX_WAITING.least && most <= MAX_WAITING.most) return most;
    throw new ConfigurationError(
      `${path}.${field}`,
      value,
      `must be a whole number from ${MAX_WAITING.least} to ${MAX_WAITING.most}`,
      'Leave it out, and any number may wait.',
    );
  });
  return {
    ...(maxWaiting === undefined ? {} : { maxWaiting }),
    ...(maxWaitingPerKey === undefined ? {} : { maxWaitingPerKey }),
  };
}

function readTierOf(path: string, value: unknown, tiers: readonly TierConfiguration[]): string {
  if (value === undefined) return tierByDefault(tiers);
  const tier = readName(path, value);
  if (tiers.some((candidate) => candidate.tier === tier)) return tier;
  throw new ConfigurationError(
    path,
    tier,
    `names no declared tier (${tiers.map((candidate) => candidate.tier).join(', ')})`,
    `${didYouMean(
      tier,
      tiers.map((candidate) => candidate.tier),
    )}Declare it in tiers, or name one of those.`,
  );
}

function tierByDefault(tiers: readonly TierConfiguration[]): string {
  return tiers.reduce((found, { tier }) => (found === DEFAULT_TIER ? found : tier), '');
}

function readConflictGroup(path: string, value: unknown): string | null {
  if (value === undefined || value === null || value === '') return null;
  return readName(path, value);
}

function readPerResource(
  path: string,
  fields: ReadonlyMap<string, unknown>,
): Pick<JobTypeConfiguration, 'maxConcurrencyPerResource'> {
  const field = `${path}.maxConcurrencyPerResource`;
  const maxConcurrencyPerResource = readCap(field, fields.get('maxConcurrencyPerResource'), null);
  if (maxConcurrencyPerResource === null) return {};
  if (maxConcurrencyPerResource === 0) {
    throw new ConfigurationError(
      field,
      maxConcurrencyPerResource,
      'would let no job of a resource run, ever',
      'Name at least 1, or leave it out for no limit.',
    );
  }
  const group = readConflictGroup(`${path}.conflictGroup`, fields.get('conflictGroup'));
  if (group === null) return { maxConcurrencyPerResource };
  throw new ConfigurationError(
    field,
    maxConcurrencyPerResource,
    `cannot stand beside the conflict group ${JSON.stringify(group)}, which lets one job of a resource run at a time`,
    'Leave out one of them.',
  );
}

function readRequires(path: string, value: unknown): Pick<JobTypeConfiguration, 'requires'> {
  if (value === undefined) return {};
  const seen = new Set<string>();
  const requires = readArray(path, value, REQUIRABLE.length).map((each, at) => {
    const field = readChoice(`${path}[${at}]`, each, REQUIRABLE, undefined);
    refuseRepeated(`${path}[${at}]`, field, seen);
    return field;
  });
  return requires.length === 0 ? {} : { requires };
}

function readRetry(path: string, value: unknown): RetryPolicy {
  const fields = readObject(path, value ?? {}, FIELDS.retry);
  const delayMs = readDuration(`${path}.delayMs`, fields.get('delayMs'), RETRY_DEFAULTS.delayMs);
  const maxDelayMs = readDuration(
    `${path}.maxDelayMs`,
    fields.get('maxDelayMs'),
    Math.max(RETRY_DEFAULTS.maxDelayMs, delayMs),
  );
  if (maxDelayMs < delayMs) {
    throw new ConfigurationError(
      `${path}.maxDelayMs`,
      maxDelayMs,
      `must not be below delayMs (${delayMs})`,
      'Raise maxDelayMs or lower delayMs.',
    );
  }
  return {
    maxAttempts: readInteger(`${path}.maxAttempts`, fields.get('maxAttempts'), RETRY_DEFAULTS.maxAttempts, 1),
    backoff: readChoice(
      `${path}.backoff`,
      fields.get('backoff'),
      ['exponential', 'linear', 'fixed'],
      RETRY_DEFAULTS.backoff,
    ),
    delayMs,
    maxDelayMs,
    jitter: readChoice(`${path}.jitter`, fields.get('jitter'), ['full', 'none'], RETRY_DEFAULTS.jitter),
    errors: readArray(`${path}.errors`, fields.get('errors') ?? [], CONFIGURATION_LIMITS.errorRules).map(
      (rule, index) => readErrorRule(`${path}.errors[${index}]`, rule),
    ),
    maxWorkersLost: readInteger(
      `${path}.maxWorkersLost`,
      fields.get('maxWorkersLost'),
      RETRY_DEFAULTS.maxWorkersLost,
      0,
    ),
  };
}

function readErrorRule(path: string, value: unknown): ErrorRule {
  const fields = readObject(path, value, FIELDS.errorRule);
  const delayMs = fields.get('delayMs');
  const maxAttempts = fields.get('maxAttempts');
  return {
    name: readName(`${path}.name`, fields.get('name')),
    retry: readBoolean(`${path}.retry`, fields.get('retry'), undefined),
    ...(delayMs === undefined ? {} : { delayMs: readDuration(`${path}.delayMs`, delayMs, 0) }),
    ...(maxAttempts === undefined
      ? {}
      : { maxAttempts: readInteger(`${path}.maxAttempts`, maxAttempts, 1, 1) }),
  };
}

function readFleets(
  value: unknown,
  declared: readonly JobTypeConfiguration[],
): readonly FleetConfiguration[] {
  const fleets: FleetConfiguration[] = readRecord('fleets', value, CONFIGURATION_LIMITS.fleets).map(
    ([fleet, entry]) => {
      const path = `fleets.${fleet}`;
      const fields = readObject(path, entry, FIELDS.fleet);
      const slots = readCap(`${path}.slots`, fields.get('slots'), null);
      return {
        fleet: readName(path, fleet),
        types: readFleetTypes(`${path}.types`, fields.get('types')),
        slots,
        ...readBatchSize(`${path}.batchSize`, fields.get('batchSize'), slots),
      };
    },
  );
  const served = new Set(fleets.flatMap((fleet) => fleet.types));
  const names = new Set(fleets.map((fleet) => fleet.fleet));
  for (const { type } of declared) {
    if (served.has(type)) continue;
    if (names.has(type)) {
      throw new ConfigurationError(
        `fleets.${type}.types`,
        fleets.find((fleet) => fleet.fleet === type)?.types,
        `no fleet takes the type ${type}, and its own fleet cannot be named after it because that name is taken`,
        `Add ${type} to a fleet's types.`,
      );
    }
    fleets.push({ fleet: type, types: [type], slots: null });
  }
  if (fleets.length === 0) {
    throw new ConfigurationError(
      'fleets',
      value,
      'the pool has no type and no fleet',
      'Declare at least one: `fleets: { pdf: { types: ["pdf"] } }`.',
    );
  }
  return fleets;
}

function readBatchSize(
  path: string,
  value: unknown,
  slots: number | null,
): Pick<FleetConfiguration, 'batchSize'> {
  if (value !== undefined && slots === null) {
    throw new ConfigurationError(
      path,
      value,
      'says how many jobs one invocation takes, and this fleet has no function: its workers register slots',
      'Leave it out, or say how many slots its function has.',
    );
  }
  const batchSize = readInteger(path, value, BATCH_SIZE_MAX, 1, BATCH_SIZE_MAX);
  return batchSize === BATCH_SIZE_MAX ? {} : { batchSize };
}

function readFleetTypes(path: string, value: unknown): readonly string[] {
  const entries = readArray(path, value, CONFIGURATION_LIMITS.types);
  if (entries.length === 0) {
    throw new ConfigurationError(path, value, 'names no type', 'A fleet takes at least one type.');
  }
  const seen = new Set<string>();
  return entries.map((entry, index) => {
    const type = readName(`${path}[${index}]`, entry);
    refuseRepeated(`${path}[${index}]`, type, seen);
    return type;
  });
}

function readScore(value: unknown): ScoreCoefficients {
  const fields = readObject('score', value ?? {}, FIELDS.score);
  const coefficient = (name: keyof ScoreCoefficients): number =>
    readNumber(`score.${name}`, fields.get(name), SCORE_DEFAULTS[name], { min: 0 });
  return {
    priority: coefficient('priority'),
    // With 0 no job would age, and `starvationBoundMs` would divide by 0.
    ageSec: readNumber('score.ageSec', fields.get('ageSec'), SCORE_DEFAULTS.ageSec, { above: 0 }),
    rarity: coefficient('rarity'),
    onDemand: coefficient('onDemand'),
    onDemandAgeSec: coefficient('onDemandAgeSec'),
  };
}

function readFairness(value: unknown): FairnessConfiguration {
  const fields = readObject('fairness', value ?? {}, FIELDS.fairness);
  const duration = (
    name: 'creditMs' | 'keyTtlMs' | 'estimateTtlMs' | 'resetEveryMs',
    mostMs?: number,
  ): number | null => {
    const given = fields.get(name);
    if (given === null) return null;
    return given === undefined
      ? FAIRNESS_DEFAULTS[name]
      : readWholeDuration(`fairness.${name}`, given, 1, 1, mostMs);
  };
  return {
    alpha: readNumber('fairness.alpha', fields.get('alpha'), FAIRNESS_DEFAULTS.alpha, { min: 0, max: 1 }),
    admissionFloorMs: readDuration(
      'fairness.admissionFloorMs',
      fields.get('admissionFloorMs'),
      FAIRNESS_DEFAULTS.admissionFloorMs,
    ),
    weights: readWeights('fairness.weights', fields.get('weights')),
    defaultWeight: readNumber(
      'fairness.defaultWeight',
      fields.get('defaultWeight'),
      FAIRNESS_DEFAULTS.defaultWeight,
      { above: 0 },
    ),
    maxConcurrencyPerKey: readCap(
      'fairness.maxConcurrencyPerKey',
      fields.get('maxConcurrencyPerKey'),
      FAIRNESS_DEFAULTS.maxConcurrencyPerKey,
    ),
    idlePolicy: readChoice(
      'fairness.idlePolicy',
      fields.get('idlePolicy'),
      ['advance', 'none'],
      FAIRNESS_DEFAULTS.idlePolicy,
    ),
    creditMs: duration('creditMs'),
    trueUp: readBoolean('fairness.trueUp', fields.get('trueUp'), FAIRNESS_DEFAULTS.trueUp),
    keyTtlMs: duration('keyTtlMs', LEARNED_KEPT_MS),
    estimateFallback: readChoice<'type' | 'default'>(
      'fairness.estimateFallback',
      fields.get('estimateFallback'),
      ['type', 'default'],
      'type',
    ),
    estimateTtlMs: duration('estimateTtlMs', LEARNED_KEPT_MS),
    resetEveryMs: duration('resetEveryMs'),
  };
}

function readLending(value: unknown): LendingConfiguration {
  const fields = readObject('lending', value, FIELDS.lending);
  const count = (name: 'backlogThreshold' | 'batch' | 'maxBorrowed', min: number): number =>
    readInteger(`lending.${name}`, fields.get(name), LENDING_DEFAULTS[name], min, CONFIGURATION_LIMITS[name]);
  return {
    backlogThreshold: count('backlogThreshold', 1),
    lentShare: readNumber('lending.lentShare', fields.get('lentShare'), LENDING_DEFAULTS.lentShare, {
      above: 0,
      max: 1,
    }),
    batch: count('batch', 1),
    maxBorrowed: count('maxBorrowed', 0),
    // A shorter loan would end before the message to the borrower and its next pass.
    loanMs: readWholeDuration(
      'lending.loanMs',
      fields.get('loanMs'),
      LENDING_DEFAULTS.loanMs,
      5_000,
      CONFIGURATION_LIMITS.loanMs,
    ),
  };
}

// Reads the weights by fairness key. The caller chooses fairness keys, so any text is allowed, even the empty one.
function readWeights(path: string, value: unknown): Readonly<Record<string, number>> {
  return Object.fromEntries(
    readRecord(path, value, CONFIGURATION_LIMITS.weights).map(([key, weight]) => [
      key,
      readNumber(`${path}.${key}`, weight, 1, { above: 0 }),
    ]),
  );
}
