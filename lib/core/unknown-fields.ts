/**
 * The known fields of a declaration, and the treatment of others. Unknown fields that a person writes are refused.
 * Unknown fields in a declaration of another version are ignored; a version that adds a field which earlier ones must
 * not ignore raises `READABLE_FORMAT` of the declaration's codec.
 */

/** The known fields, by the object that has them. */
export const FIELDS = {
  pool: [
    'types',
    'tiers',
    'fleets',
    'limits',
    'maxConcurrency',
    'score',
    'fairness',
    'lending',
    'lostClaimsInARow',
    'partitions',
    'searchableTags',
    'largePayloads',
    'statistics',
  ],
  tier: ['tier', 'maxConcurrency', 'guaranteed'],
  type: [
    'tier',
    'maxConcurrency',
    'conflictGroup',
    'maxConcurrencyPerResource',
    'requires',
    'expireAfter',
    'maxWaiting',
    'maxWaitingPerKey',
    'listFinished',
    'limits',
    'defaultCostMs',
    'timeoutMs',
    'retry',
    'onWorkerLost',
  ],
  retry: ['maxAttempts', 'backoff', 'delayMs', 'maxDelayMs', 'jitter', 'errors', 'maxWorkersLost'],
  errorRule: ['name', 'retry', 'delayMs', 'maxAttempts'],
  fleet: ['types', 'slots', 'batchSize'],
  limit: ['keyedBy', 'total', 'perKey', 'rate', 'budget'],
  rate: ['starts', 'units', 'per', 'perKey', 'perJob'],
  budget: ['slotSeconds', 'per'],
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
  largePayloads: ['maxBytes'],
  lending: ['backlogThreshold', 'lentShare', 'batch', 'maxBorrowed', 'loanMs'],
} as const;

const pickFields = (value: unknown, names: readonly string[]): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)))
    : value;

const mapValues = (values: unknown, change: (value: unknown) => unknown): unknown =>
  typeof values === 'object' && values !== null && !Array.isArray(values)
    ? Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]))
    : values;

/** Returns the object with one of its fields changed, if it has the field. */
function withChangedField(value: unknown, field: string, change: (value: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, field)) return value;
  return { ...value, [field]: change((value as Readonly<Record<string, unknown>>)[field]) };
}

const mapItems = (values: unknown, change: (value: unknown) => unknown): unknown =>
  Array.isArray(values) ? values.map(change) : values;

/**
 * Returns a declaration without the fields that this version does not know. It is for declarations of another version;
 * fields that a person writes are refused instead.
 */
export function withoutUnknownFields(input: unknown): unknown {
  const retryOf = (retry: unknown): unknown =>
    withChangedField(pickFields(retry, FIELDS.retry), 'errors', (rules) =>
      mapItems(rules, (rule) => pickFields(rule, FIELDS.errorRule)),
    );
  const limitOf = (limit: unknown): unknown =>
    (['rate', 'budget'] as const).reduce<unknown>(
      (value, field) => withChangedField(value, field, (each) => pickFields(each, FIELDS[field])),
      pickFields(limit, FIELDS.limit),
    );
  const parts: readonly (readonly [string, (value: unknown) => unknown])[] = [
    ['tiers', (tiers) => mapItems(tiers, (tier) => pickFields(tier, FIELDS.tier))],
    [
      'types',
      (types) =>
        mapValues(types, (type) => withChangedField(pickFields(type, FIELDS.type), 'retry', retryOf)),
    ],
    ['fleets', (fleets) => mapValues(fleets, (fleet) => pickFields(fleet, FIELDS.fleet))],
    ['limits', (limits) => mapValues(limits, limitOf)],
    ['score', (score) => pickFields(score, FIELDS.score)],
    ['fairness', (fairness) => pickFields(fairness, FIELDS.fairness)],
    ['lending', (lending) => pickFields(lending, FIELDS.lending)],
    ['largePayloads', (large) => pickFields(large, FIELDS.largePayloads)],
  ];
  return parts.reduce(
    (pool, [field, change]) => withChangedField(pool, field, change),
    pickFields(input, FIELDS.pool),
  );
}
