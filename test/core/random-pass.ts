/** Random pools, and random states of them, small enough that everything collides: caps, costs, scores, conflicts. */
import fc from 'fast-check';
import type { Control } from '../../lib/core/capacity.ts';
import type {
  JobTypeConfiguration,
  LimitConfiguration,
  PoolConfiguration,
} from '../../lib/core/configuration.ts';
import { RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import type { Use, Uses } from '../../lib/core/limits.ts';
import { isFew, timesOf } from '../fixtures/times.ts';
import type { PassState } from './reference-planner.ts';

export const NOW_MS = 1_800_000_000_000;

const WINDOW_MS = 60_000;
/** The most units that a job of these pools names. */
const UNITS_MOST = 3;

/** How often a property is tried. */
export const RUNS = timesOf(10_000);
export const FEWER_RUNS = timesOf(500);

// The same histories for each mutant, so that a score can be had again; and nobody reads the smallest one that fails.
if (isFew) fc.configureGlobal({ seed: 1, endOnFailure: true });

const cap = (most: number): fc.Arbitrary<number | null> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(null) },
    { weight: 8, arbitrary: fc.integer({ min: 1, max: most }) },
    { weight: 1, arbitrary: fc.constant(0) },
  );

const typeNames = ['a', 'b', 'c', 'd'];
const tierNames = ['top', 'middle', 'low'];
export const keyNames = ['', 'k1', 'k2', 'k3', 'k4'];

const limitNames = ['x', 'y'] as const;
const orgNames = ['', 'o1', 'o2'];

/** Some jobs lack a key by which a limit counts. */
const jobKeys = fc.constantFrom(
  undefined,
  { org: 'o1' },
  { org: 'o2' },
  { org: 'o1', user: 'o1' },
  { org: 'o2', user: 'o1' },
  { user: 'o2' },
);

/** Some jobs name more units than others, and some name none; limits of starts count none of them. */
const jobUnits = fc.constantFrom(undefined, undefined, { x: 1 }, { x: 2 }, { x: 3, y: 1 }, { y: 2 });

const rateOfStarts = fc.record({
  starts: fc.constantFrom(null, 2, 4, 8),
  perKey: fc.constantFrom(null, 1, 3),
  perMs: fc.constant(WINDOW_MS),
});

const rateOfUnits = fc.record({
  starts: fc.constant(null),
  units: fc.constantFrom(null, 3, 7, 20),
  perKey: fc.constantFrom(null, 3, 5),
  perJob: fc.constant(UNITS_MOST),
  perMs: fc.constant(WINDOW_MS),
});

/** A limit of two is unlimited in most pools. */
const limit = (name: string): fc.Arbitrary<LimitConfiguration> =>
  fc
    .record({
      limit: fc.constant(name),
      keyedBy: fc.constantFrom(undefined, undefined, 'org', 'user'),
      total: cap(5),
      perKey: fc.constantFrom(null, null, 1, 2, 3),
      rate: fc.option(fc.oneof(rateOfStarts, rateOfUnits), { nil: undefined }),
      budget: fc.option(fc.record({ slotMs: fc.constantFrom(100, 500), perMs: fc.constant(WINDOW_MS) }), {
        nil: undefined,
      }),
    })
    .map(({ keyedBy, rate, budget, ...caps }) => ({
      ...caps,
      ...(keyedBy === undefined ? {} : { keyedBy }),
      ...(rate === undefined ? {} : { rate }),
      ...(budget === undefined ? {} : { budget }),
    }));

const jobType = (type: string): fc.Arbitrary<JobTypeConfiguration> =>
  fc
    .record({
      type: fc.constant(type),
      tier: fc.constantFrom(...tierNames),
      maxConcurrency: cap(6),
      conflictGroup: fc.constantFrom(null, 'g', 'h', ''),
      defaultCostMs: fc.constantFrom(0, 100, 200, 300),
      timeoutMs: fc.constant(TYPE_DEFAULTS.timeoutMs),
      retry: fc.constant(RETRY_DEFAULTS),
      onWorkerLost: fc.constant('retry' as const),
      ofOneResource: fc.constantFrom(undefined, undefined, 1, 2, 3),
    })
    // Jobs of a group exclude each other: none has a limit for its resources beside it.
    .map(({ ofOneResource, ...drawn }) => {
      const isLimited = ofOneResource !== undefined && (drawn.conflictGroup ?? '') === '';
      return isLimited ? { ...drawn, maxConcurrencyPerResource: ofOneResource } : drawn;
    });

export const pools: fc.Arbitrary<PoolConfiguration> = fc.record({
  types: fc.tuple(...typeNames.map(jobType)),
  tiers: fc.tuple(
    ...tierNames.map((tier) =>
      fc.record({
        tier: fc.constant(tier),
        maxConcurrency: cap(10),
        guaranteed: fc.constantFrom(0, 0, 0, 1, 2),
      }),
    ),
  ),
  fleets: fc
    .array(fc.uniqueArray(fc.constantFrom(...typeNames), { minLength: 1, maxLength: 4 }), {
      minLength: 2,
      maxLength: 4,
    })
    .map((fleets) => fleets.map((types, index) => ({ fleet: `fleet${index}`, types, slots: null }))),
  maxConcurrency: cap(20),
  score: fc.constantFrom(
    SCORE_DEFAULTS,
    { priority: 10, ageSec: 1, rarity: 40, onDemand: 16, onDemandAgeSec: 2 },
    { priority: 0, ageSec: 1, rarity: 0, onDemand: 0, onDemandAgeSec: 0 },
  ),
  fairness: fc.record({
    alpha: fc.constant(0.3),
    admissionFloorMs: fc.constantFrom(0, 50, 150),
    weights: fc.constantFrom({}, { k1: 2, k2: 0.5 }, { '': 4 }),
    defaultWeight: fc.constantFrom(1, 2),
    maxConcurrencyPerKey: cap(6),
    idlePolicy: fc.constant('none' as const),
    creditMs: fc.constant(null),
    trueUp: fc.boolean(),
    keyTtlMs: fc.constant(null),
    estimateTtlMs: fc.constant(null),
    resetEveryMs: fc.constant(null),
  }),
  partitions: fc.constant(1),
});

/** Pools whose types share limits. */
const limitedPools: fc.Arbitrary<PoolConfiguration> = fc
  .record({
    pool: pools,
    limits: fc.tuple(...limitNames.map(limit)),
    ofTypes: fc.tuple(...typeNames.map(() => fc.subarray([...limitNames]))),
  })
  .map(({ pool, limits, ofTypes }) => ({
    ...pool,
    limits,
    types: pool.types.map((type, at) => ({ ...type, limits: ofTypes[at] })),
  }));

/** The same without windows: what has ended counts no longer. */
export const cappedPools: fc.Arbitrary<PoolConfiguration> = limitedPools.map(({ limits = [], ...pool }) => ({
  ...pool,
  limits: limits.map(({ rate: _rate, budget: _budget, ...caps }) => caps),
}));

/** Ages are multiples of seconds that crossovers fall on: ties are common. */
export const jobs = (most: number): fc.Arbitrary<readonly WaitingJob[]> =>
  fc
    .array(
      fc.record({
        type: fc.constantFrom(...typeNames, ...typeNames, 'unknown'),
        priority: fc.constantFrom(0, 0, 1, 2, 10),
        mode: fc.constantFrom('queued' as const, 'queued' as const, 'onDemand' as const),
        fairnessKey: fc.constantFrom(...keyNames),
        resourceId: fc.constantFrom(undefined, 'r1', 'r2', 'r3'),
        keys: jobKeys,
        units: jobUnits,
        readyAtMs: fc.integer({ min: 0, max: 20 }).map((steps) => NOW_MS - steps * 64_000),
        version: fc.constant(1),
        attempt: fc.constant(1),
      }),
      { maxLength: most, size: 'max' },
    )
    .chain((drawn) =>
      // Ids in another order than the jobs arrive in.
      fc
        .shuffledSubarray(
          drawn.map((_, index) => `job${String(index).padStart(4, '0')}`),
          { minLength: drawn.length },
        )
        .map((ids) => drawn.map((job, index) => ({ ...job, id: ids[index] ?? '' }))),
    );

const overrides = (fleets: number): fc.Arbitrary<readonly Control[]> =>
  fc.array(
    fc.record({
      scope: fc.oneof(
        { weight: 1, arbitrary: fc.constant('pool') },
        { weight: 2, arbitrary: fc.constantFrom(...tierNames).map((tier) => `tier/${tier}`) },
        { weight: 2, arbitrary: fc.constantFrom(...typeNames).map((type) => `type/${type}`) },
        { weight: 3, arbitrary: fc.constantFrom(...keyNames).map((key) => `key/${key}`) },
        { weight: 2, arbitrary: fc.nat(fleets - 1).map((fleet) => `fleet/fleet${fleet}`) },
        {
          weight: 2,
          arbitrary: fc.constantFrom('limit/x', 'limit/y', 'limit/x/k1', 'limit/x/o1', 'limit/y/'),
        },
        { weight: 1, arbitrary: fc.constantFrom('type/nobody', 'limit/none', 'nonsense') },
      ),
      paused: fc.constantFrom(false, false, false, false, true),
      maxConcurrency: fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined }),
      weight: fc.option(fc.constantFrom(0.5, 1, 4), { nil: undefined }),
    }),
    { maxLength: 3 },
  );

function inFlight(configuration: PoolConfiguration): fc.Arbitrary<readonly ReservedJob[]> {
  return fc
    .array(
      fc.record({
        type: fc.constantFrom(...configuration.types),
        fairnessKey: fc.constantFrom(...keyNames),
        resourceId: fc.constantFrom(undefined, 'r1', 'r2', 'r3'),
        keys: jobKeys,
        units: jobUnits,
        fleet: fc.constantFrom(...configuration.fleets.map((fleet) => fleet.fleet)),
        estimatedCostMs: fc.constantFrom(100, 200),
      }),
      { maxLength: 5 },
    )
    .map((drawn) => {
      const held = new Set<string>();
      return drawn.flatMap(({ type, resourceId, ...reserved }, index) => {
        const group = type.conflictGroup ?? '';
        const isFree = group === '' && type.maxConcurrencyPerResource === undefined;
        const conflictKey =
          isFree || resourceId === undefined ? undefined : `${group || `=${type.type}`}/${resourceId}`;
        if (group !== '' && conflictKey !== undefined && held.has(conflictKey)) return [];
        if (conflictKey !== undefined) held.add(conflictKey);
        const id = `running${index}`;
        return [{ ...reserved, id, version: 1, attempt: 1, type: type.type, tier: type.tier, conflictKey }];
      });
    });
}

/** The names of the ledgers that keep the uses of each key. */
const ledgerNames = [
  ...keyNames,
  ...['org', 'user'].flatMap((name) => orgNames.map((key) => `\u0000${name}\u0000${key}`)),
];

/** A pool, what runs in it and what waits. */
export const passStates = (mostJobs = 36): fc.Arbitrary<PassState> =>
  fc.oneof(pools, limitedPools).chain((configuration) =>
    fc
      .record({
        overrides: overrides(configuration.fleets.length),
        inFlight: inFlight(configuration),
        free: fc.array(fc.integer({ min: 0, max: 8 }), { minLength: 4, maxLength: 4 }),
        settled: fc.array(fc.integer({ min: 0, max: 4 }), {
          minLength: keyNames.length,
          maxLength: keyNames.length,
        }),
        waiting: jobs(mostJobs),
        uses: fc.array(fc.nat(2), { minLength: 2, maxLength: 2 }),
        usesOfKeys: fc.array(fc.nat(1), { minLength: ledgerNames.length, maxLength: ledgerNames.length }),
      })
      .map((drawn) => ({
        configuration,
        overrides: drawn.overrides,
        nowMs: NOW_MS,
        inFlight: drawn.inFlight,
        freeSlotsByFleet: new Map(
          configuration.fleets.map(({ fleet }, index) => [fleet, drawn.free[index] ?? 0]),
        ),
        settledCostMs: new Map(keyNames.map((key, index) => [key, (drawn.settled[index] ?? 0) * 100])),
        waiting: drawn.waiting,
        uses: usesOf(drawn.uses, (each) => each),
        usesOfKeys: new Map(
          ledgerNames.map((key, index) => [
            key,
            usesOf([drawn.usesOfKeys[index] ?? 0, 0], (each) => each * 60),
          ]),
        ),
        costMs: costIn(configuration),
      })),
  );

/** Starts and cost of ended attempts, some of which count no longer. */
const usesOf = (starts: readonly number[], costOf: (starts: number) => number): Uses =>
  new Map(
    limitNames.flatMap((name, at) => {
      const count = starts[at] ?? 0;
      const until = (amount: number): readonly Use[] => [
        [NOW_MS + 1_000, amount],
        [NOW_MS, 9],
      ];
      return [
        [`rate/${name}`, until(count)],
        [`budget/${name}`, until(costOf(count))],
      ] as const;
    }),
  );

/** A cost for each resource, so that charges differ. */
export function costIn(
  configuration: PoolConfiguration,
): (type: string, resourceId: string | undefined) => number {
  const defaults = new Map(configuration.types.map((type) => [type.type, type.defaultCostMs]));
  return (type, resourceId) => (resourceId === 'r1' ? 100 : (defaults.get(type) ?? 0));
}
