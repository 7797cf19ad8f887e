/**
 * Which fields a declaration has, and what to make of others. What a person writes is refused if it is not known. What another version has
 * declared is read without it: a version that adds a field which others may not pass over says so (`READS` of the declaration's codec).
 */

/** The fields that there are, by the object that has them. */
export const FIELDS = {
  pool: [
    'types',
    'tiers',
    'fleets',
    'maxConcurrency',
    'score',
    'fairness',
    'lending',
    'lostClaimsInARow',
    'partitions',
  ],
  tier: ['tier', 'maxConcurrency', 'guaranteed'],
  type: [
    'tier',
    'maxConcurrency',
    'conflictGroup',
    'maxConcurrencyPerResource',
    'requires',
    'defaultCostMs',
    'timeoutMs',
    'retry',
    'onWorkerLost',
  ],
  retry: ['maxAttempts', 'backoff', 'delayMs', 'maxDelayMs', 'jitter', 'errors', 'maxWorkersLost'],
  errorRule: ['name', 'retry', 'delayMs', 'maxAttempts'],
  fleet: ['types', 'slots', 'batchSize'],
  score: ['priority', 'ageSec', 'rarity', 'onDemand', 'onDemandAgeSec'],
  fairness: [
    'alpha',
    'admissionFloorMs',
    'weights',
    'defaultWeight',
    'maxConcurrencyPerKey',
    'idlePolicy',
    'creditMs',
    'trueUp',
    'keyTtlMs',
    'estimateFallback',
    'estimateTtlMs',
    'resetEveryMs',
  ],
  lending: ['backlogThreshold', 'lentShare', 'batch', 'maxBorrowed', 'loanMs'],
} as const;

const only = (value: unknown, names: readonly string[]): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)))
    : value;

const each = (values: unknown, change: (value: unknown) => unknown): unknown =>
  typeof values === 'object' && values !== null && !Array.isArray(values)
    ? Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]))
    : values;

/** The same with one of its fields changed, if it is there. */
function changed(value: unknown, field: string, change: (value: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) return value;
  return { ...value, [field]: change((value as Readonly<Record<string, unknown>>)[field]) };
}

const eachOf = (values: unknown, change: (value: unknown) => unknown): unknown =>
  Array.isArray(values) ? values.map(change) : values;

/**
 * A declaration without the fields that this version does not know. For one that another version has declared, which has said that others
 * may pass them over; what a person writes is refused instead.
 */
export function withoutUnknownFields(input: unknown): unknown {
  const retryOf = (retry: unknown): unknown =>
    changed(only(retry, FIELDS.retry), 'errors', (rules) =>
      eachOf(rules, (rule) => only(rule, FIELDS.errorRule)),
    );
  const parts: readonly (readonly [string, (value: unknown) => unknown])[] = [
    ['tiers', (tiers) => eachOf(tiers, (tier) => only(tier, FIELDS.tier))],
    ['types', (types) => each(types, (type) => changed(only(type, FIELDS.type), 'retry', retryOf))],
    ['fleets', (fleets) => each(fleets, (fleet) => only(fleet, FIELDS.fleet))],
    ['score', (score) => only(score, FIELDS.score)],
    ['fairness', (fairness) => only(fairness, FIELDS.fairness)],
    ['lending', (lending) => only(lending, FIELDS.lending)],
  ];
  return parts.reduce((pool, [field, change]) => changed(pool, field, change), only(input, FIELDS.pool));
}
