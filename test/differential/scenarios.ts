/** Random scenarios: a seed and a kind draw a pool, its load, and what happens to it. */

import { partitionOf } from '../../lib/core/partition.ts';
import type { FleetInput, JobTypeInput, PoolInput, RateInput, TierInput } from '../../lib/core/pool-input.ts';
import type { DispatchBudget } from '../../lib/dispatch/partition/context.ts';
import { type Dice, diceOf, hashText, seeded } from '../simulation/random.ts';
import { withCaps } from './partitions.ts';
import type { AttemptPlan, Hearing, Scenario, ScenarioEvent, ScenarioJob } from './play.ts';

/** What a kind of scenario is about; `mixed` and `large` are about all of it. */
export const KINDS = [
  /** Tiers, guarantees, caps, fleets, modes and priorities; keys start at 0, or where they were. */
  'order',
  /** The same, and new and returning keys are lifted. */
  'lifts',
  /** Many jobs for few resources. */
  'conflicts',
  /** Many keys, at their caps, with weights. */
  'keys',
  /** Work for later, retries, moves, cancellations, lost workers. */
  'time',
  /** As `time`, and workers vanish without a word. */
  'losses',
  /** Pauses, caps and weights that operators change. */
  'controls',
  /** Costs: resets, times to live, floors, learning. */
  'books',
  'mixed',
  /** Hundreds of jobs, keys and resources. */
  'large',
  /** Hundreds of keys that leave and return, on one or two slots, while ledgers expire and are reset. */
  'crowd',
  /** Hundreds of jobs that may not start stand before those that may. */
  'walls',
  /** As `mixed`, in two to four partitions that do not lend. */
  'partitions',
  /** As `mixed`, and hints are lost: there only bounds hold. */
  'unheard',
  /** Types share rates of starts and of units. */
  'rates',
] as const;

export type Kind = (typeof KINDS)[number];

/** Kinds by seed. */
const TURNS: readonly Kind[] = [
  ...(['order', 'lifts', 'conflicts', 'keys', 'time', 'controls', 'books'] as const),
  ...(['mixed', 'mixed', 'mixed', 'mixed', 'mixed', 'losses', 'unheard', 'walls'] as const),
];
/** Large ones are as dear as fifteen others, and crowds as fifty: one in so many seeds. */
const LARGE_EVERY = 60;
const CROWD_EVERY = 180;
const CROWD_AT = 30;
/** Those in several partitions are as dear as three others. */
const PARTITIONS_EVERY = 60;
const PARTITIONS_AT = 52;
const RATES_EVERY = 15;
const RATES_AT = 9;

/** The kind that a seed is of, unless somebody asks for one. */
export function kindOf(seed: number): Kind {
  if (seed % LARGE_EVERY === 0) return 'large';
  if (seed % CROWD_EVERY === CROWD_AT) return 'crowd';
  if (seed % PARTITIONS_EVERY === PARTITIONS_AT) return 'partitions';
  if (seed % RATES_EVERY === RATES_AT) return 'rates';
  return TURNS[seed % TURNS.length] ?? 'mixed';
}

/** Where hints are lost, what they would have told comes out by ticks. */
const UNHEARD_FOR_MS = 600_000;

/** The chance of each theme in scenarios that are about all. */
const MIXED = 0.5;
const MIXED_KINDS: readonly Kind[] = ['mixed', 'large', 'unheard', 'partitions'];

interface Themes {
  readonly lifts: boolean;
  readonly conflicts: boolean;
  readonly keys: boolean;
  readonly time: boolean;
  readonly losses: boolean;
  readonly controls: boolean;
  readonly books: boolean;
  readonly large: boolean;
  readonly crowd: boolean;
}

/** What a crowd is about, and how likely. */
const OF_CROWDS: Partial<Record<Kind, number>> = {
  lifts: 0.8,
  books: 1,
  keys: 0.3,
  time: 0.3,
  conflicts: 0.2,
  controls: 0.2,
};

function themesOf(kind: Kind, dice: Dice): Themes {
  const isAbout = (theme: Kind): boolean => {
    if (kind === 'crowd') return dice.chance(OF_CROWDS[theme] ?? 0);
    return MIXED_KINDS.includes(kind) ? dice.chance(MIXED) : kind === theme;
  };
  return {
    lifts: isAbout('lifts') || (kind === 'books' && dice.chance(0.5)),
    conflicts: isAbout('conflicts'),
    keys: isAbout('keys'),
    time: isAbout('time') || kind === 'losses' || (kind === 'rates' && dice.chance(0.5)),
    losses: kind === 'losses',
    controls: isAbout('controls'),
    books: isAbout('books'),
    large: kind === 'large',
    crowd: kind === 'crowd',
  };
}

/** How a scenario's dispatchers miss nothing. */
export const ATTENTIVE: Hearing = {
  dispatchers: 1,
  changes: 0,
  noise: 0,
  repeats: 0,
  leftWord: 0,
  forgets: 0,
  lost: 0,
};

function hearingOf(dice: Dice, crowd = false): Hearing {
  const dispatchers = dice.pick(crowd ? [1, 2, 2, 3] : [1, 1, 2, 3]);
  return {
    dispatchers,
    changes: dispatchers === 1 ? 0 : dice.pick([0.05, 0.3, 1]),
    noise: dice.pick([0, 0.3, 1]),
    repeats: dice.pick([0, 0.2]),
    leftWord: dispatchers === 1 ? 0 : dice.pick([0, 0.1, 0.5]),
    forgets: dice.pick([0, 0, 0, 0.1, 1]),
    lost: 0,
  };
}

/**
 * Only leaders remember what was learned, and a learned cost that moved by less than a tenth is not written: the reference cannot know which
 * one counts. So every move is written.
 */
const NEWS = { newsShare: 0 } as const;

/** Rounds in which a pass promotes what is due. What they leave is seen by the next pass, so where there may be more, order is a bound's. */
const PROMOTE_ROUNDS = 10;

function budgetOf(dice: Dice, { conflicts, large, crowd }: Themes, jobs: number): Partial<DispatchBudget> {
  const chosen: { -readonly [Field in keyof DispatchBudget]?: DispatchBudget[Field] } = {};
  if (conflicts) chosen.parkKept = dice.pick([1, 4]);
  if (dice.chance(0.5)) chosen.batchJobs = dice.pick([1, 2, 5, 20]);
  if (large && dice.chance(0.3)) chosen.passesMax = dice.pick([1, 3]);
  if (dice.chance(0.1)) {
    const atLeast = large || crowd ? Math.ceil(jobs / PROMOTE_ROUNDS) : 1;
    chosen.promoteMax = Math.max(dice.pick([1, 3, 10]), atLeast);
  }
  return chosen;
}

const named = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, number) => `${prefix}${number}`);

const LONGER_THAN_ANY_WAIT_MS = 86_400_000;

function poolOf(dice: Dice, themes: Themes, keys: readonly string[]): PoolInput {
  const { conflicts, large, books, time, crowd } = themes;
  const tierNames = named('tier', dice.whole(1, 3));
  const typeNames = named('type', dice.whole(1, large ? 6 : 4));
  const tiers: TierInput[] = tierNames.map((tier) => ({
    tier,
    ...(dice.chance(0.3) ? { maxConcurrency: dice.whole(2, large ? 20 : 5) } : {}),
    ...(dice.chance(0.3) ? { guaranteed: dice.whole(0, 2) } : {}),
  }));
  const types: Record<string, JobTypeInput> = {};
  for (const type of typeNames) {
    types[type] = {
      tier: dice.pick(tierNames as [string]),
      defaultCostMs: dice.pick([100, 1_000, 1_000, 3_000, 7_000]),
      ...(dice.chance(0.25) ? { maxConcurrency: dice.whole(1, large ? 8 : 3) } : {}),
      ...(conflicts && dice.chance(0.8) ? { conflictGroup: dice.pick(['group0', 'group0', 'group1']) } : {}),
      retry: time
        ? {
            maxAttempts: dice.whole(1, 4),
            backoff: dice.pick(['fixed', 'linear', 'exponential']),
            delayMs: dice.pick([0, 500, 1_000, 4_000]),
            jitter: 'none',
            maxWorkersLost: dice.whole(0, 3),
          }
        : { maxAttempts: 1, jitter: 'none' },
      ...(themes.losses ? { timeoutMs: 20_000 } : {}),
      onWorkerLost: dice.pick(['retry', 'retry', 'resume', 'fail']),
    };
  }
  const most = large ? dice.pick([5, 15, 40]) : dice.pick([1, 3, 6]);
  const fleets: Record<string, FleetInput> = {};
  // A worker process that vanishes takes all its slots along.
  const slotsOf = (): number | null => (dice.chance(0.15) && !themes.losses ? null : dice.whole(1, most));
  for (const type of typeNames)
    if (dice.chance(0.6)) fleets[`own-${type}`] = { types: [type], slots: slotsOf() };
  const homeless = typeNames.filter((type) => fleets[`own-${type}`] === undefined);
  const versatile = typeNames.filter(() => dice.chance(0.5));
  const shared = [...new Set([...homeless, ...versatile])];
  if (shared.length > 0) fleets.shared = { types: shared, slots: slotsOf() };
  if (dice.chance(0.3)) fleets.all = { types: typeNames, slots: slotsOf() };
  // One millisecond more than any time in a scenario: whether the boundary counts is nobody's question. In large pools a
  // line of keys is not read to its end, and its order trails a ledger that expires while the key waits.
  const keyTtlMs = (): number => dice.pick([5_001, 20_001]) + (large ? LONGER_THAN_ANY_WAIT_MS : 0);
  const weights: Record<string, number> = {};
  if (themes.keys) for (const key of keys) if (dice.chance(0.3)) weights[key] = dice.pick([0.25, 0.5, 2, 4]);
  return {
    types,
    tiers,
    fleets: crowd ? { all: { types: typeNames, slots: dice.whole(1, 2) } } : fleets,
    ...(dice.chance(0.2) ? { maxConcurrency: dice.whole(6, large ? 60 : 12) } : {}),
    fairness: {
      idlePolicy: themes.lifts ? 'advance' : 'none',
      creditMs: dice.pick([null, 1_000, 10_000, 300_000]),
      alpha: dice.pick([0, 0.3, 0.5, 1]),
      admissionFloorMs: books ? dice.pick([0, 10, 1_500]) : 10,
      trueUp: dice.chance(0.7),
      weights,
      ...(themes.keys && dice.chance(0.7) ? { maxConcurrencyPerKey: dice.whole(1, 3) } : {}),
      ...(books && dice.chance(crowd ? 0.8 : 0.5) ? { keyTtlMs: keyTtlMs() } : {}),
      ...(books && dice.chance(crowd ? 0.8 : 0.4) ? { resetEveryMs: dice.pick([20_000, 60_000]) } : {}),
      ...(books && dice.chance(0.4) ? { estimateFallback: 'default' } : {}),
    },
  };
}

const withLedgersKept = (pool: PoolInput): PoolInput =>
  typeof pool.fairness?.keyTtlMs === 'number'
    ? { ...pool, fairness: { ...pool.fairness, keyTtlMs: LONGER_THAN_ANY_WAIT_MS } }
    : pool;

const slotsIn = ({ fleets = {} }: PoolInput): number =>
  Object.values(fleets).reduce((sum, { slots }) => sum + (slots ?? 3), 0);

function attemptsOf(
  dice: Dice,
  { time, losses }: Themes,
  durationMs: () => number,
): readonly [AttemptPlan, ...AttemptPlan[]] {
  const attempt = (): AttemptPlan => ({
    durationMs: durationMs(),
    outcome:
      time && dice.chance(0.3)
        ? dice.pick(losses ? ['vanished', 'failed', 'lost'] : ['failed', 'failed', 'lost'])
        : 'succeeded',
  });
  return time && dice.chance(0.5) ? [attempt(), attempt(), attempt()] : [attempt()];
}

function keysIn(dice: Dice, { keys, large, crowd }: Themes): number {
  if (crowd) return dice.whole(200, 600);
  if (large) return dice.whole(5, 150);
  return keys ? dice.whole(5, 25) : dice.whole(1, 6);
}

/**
 * Limits some types' running jobs of one resource. By numbers of its own, so that scenarios draw the rest as they did before there
 * was such a limit.
 */
function resourceCapped(seed: number, scenario: Scenario): Scenario {
  const dice = diceOf(seeded(hashText(`resource caps/${scenario.kind}/${seed}`)));
  if (!dice.chance(scenario.kind === 'conflicts' || scenario.kind === 'walls' ? 0.7 : 0.3)) return scenario;
  const types = Object.entries(scenario.pool.types ?? {}).map(([name, type]) => {
    const isLimited = dice.chance(0.7);
    const maxConcurrencyPerResource = dice.pick([1, 1, 2, 2, 3, 5]);
    const isFree = (type.conflictGroup ?? null) === null;
    return [name, isLimited && isFree ? { ...type, maxConcurrencyPerResource } : type] as const;
  });
  return { ...scenario, pool: { ...scenario.pool, types: Object.fromEntries(types) } };
}

const RATE_MS = 20_000;

/** Lets types share rates, of starts or of the units that most jobs name. */
function rated(seed: number, scenario: Scenario): Scenario {
  const dice = diceOf(seeded(hashText(`rates/${seed}`)));
  const most = dice.whole(1, 6);
  const rates: Readonly<Record<string, () => RateInput>> = {
    starts: () => ({ starts: dice.whole(1, 6), perKey: dice.pick([null, 1, 2]), per: RATE_MS }),
    units: () => ({
      units: dice.pick([null, most, most + dice.whole(0, 20)]),
      perKey: most + dice.whole(0, 8),
      perJob: most,
      per: RATE_MS,
    }),
  };
  const names = dice.pick([['units'], ['units'], ['starts'], ['starts', 'units']] as const);
  const limits = Object.fromEntries(names.map((name) => [name, { rate: rates[name]?.() }]));
  const types = Object.entries(scenario.pool.types ?? {}).map(([type, input], at) => {
    const own = at === 0 ? names : names.filter(() => dice.chance(0.6));
    return [type, own.length === 0 ? input : { ...input, limits: own }] as const;
  });
  return {
    ...scenario,
    pool: { ...scenario.pool, limits, types: Object.fromEntries(types) },
    jobs: scenario.jobs.map((job) =>
      dice.chance(0.2) ? job : { ...job, units: { units: dice.whole(1, most) } },
    ),
  };
}

/** Lets some types share limits, by numbers of its own. Their rates have a kind of their own. */
function limited(seed: number, scenario: Scenario): Scenario {
  const dice = diceOf(seeded(hashText(`limits/${scenario.kind}/${seed}`)));
  if (!dice.chance(0.35)) return scenario;
  const limits = Object.fromEntries(
    ['x', 'y']
      .slice(0, dice.whole(1, 2))
      .map((name) => [
        name,
        dice.chance(0.5)
          ? { total: dice.whole(1, 6), perKey: dice.chance(0.4) ? dice.whole(1, 2) : null }
          : { perKey: dice.whole(1, 3) },
      ]),
  );
  const names = Object.keys(limits);
  const types = Object.entries(scenario.pool.types ?? {}).map(([type, input], at) => {
    const own = at === 0 ? names : names.filter(() => dice.chance(0.5));
    return [type, own.length === 0 ? input : { ...input, limits: own }] as const;
  });
  return keyed(seed, {
    ...scenario,
    pool: { ...scenario.pool, limits, types: Object.fromEntries(types) },
  });
}

/** Lets some limits count by another key than the fairness key, by numbers of its own. */
function keyed(seed: number, scenario: Scenario): Scenario {
  const dice = diceOf(seeded(hashText(`keyed limits/${scenario.kind}/${seed}`)));
  const limits = Object.entries(scenario.pool.limits ?? {}).map(([name, limit]) => {
    const isKeyed = typeof limit.perKey === 'number' && dice.chance(0.6);
    return [name, isKeyed ? { ...limit, keyedBy: dice.pick(['org', 'user']) } : limit] as const;
  });
  const most = dice.pick([1, 3, 20]);
  return {
    ...scenario,
    pool: { ...scenario.pool, limits: Object.fromEntries(limits) },
    jobs: scenario.jobs.map((job) => ({
      ...job,
      keys: { org: `org${dice.whole(0, most)}`, user: `user${dice.whole(0, most)}` },
    })),
  };
}

/** The scenario that a seed draws of a kind. */
export function scenarioOf(seed: number, kind: Kind = kindOf(seed)): Scenario {
  const dice = diceOf(seeded(hashText(`${kind}/${seed}`)));
  const any = (): Scenario => limited(seed, resourceCapped(seed, anyOf(dice, seed, kind)));
  const wall = (): Scenario => resourceCapped(seed, wallOf(dice, seed));
  if (kind === 'rates') return rated(seed, anyOf(dice, seed, kind));
  if (kind === 'partitions') return dividedOf(dice, any());
  if (kind !== 'unheard') return kind === 'walls' ? wall() : any();
  const scenario = dice.chance(0.2) ? wall() : any();
  return {
    ...scenario,
    kind,
    // A holder that hears of nothing may start what was unheard of before the word is left.
    hearing: { ...scenario.hearing, leftWord: 0, lost: dice.pick([0.1, 0.5, 1]) },
    untilMs: scenario.untilMs + UNHEARD_FOR_MS,
  };
}

function anyOf(dice: Dice, seed: number, kind: Kind): Scenario {
  const themes = themesOf(kind, dice);
  const { large, crowd, conflicts, time, controls } = themes;
  const keys = named('key', keysIn(dice, themes));
  const resources = named('resource', large || crowd ? dice.pick([3, 20, 100]) : dice.whole(1, 5));
  const pool = poolOf(dice, themes, keys);
  const typeNames = Object.keys(pool.types ?? {}) as [string, ...string[]];
  const slots = slotsIn(pool);
  const jobCount = crowd ? dice.whole(300, 500) : large ? dice.whole(100, 400) : dice.whole(5, 40);
  const gridMs = dice.pick([100, 250, 1_000, 1_000]);
  const meanMs = crowd ? dice.pick([500, 1_000, 2_000]) : dice.pick([1_000, 3_000, 8_000]);
  const durationMs = (): number => Math.max(1, Math.round(dice.between(0.2, 2) * (meanMs / gridMs))) * gridMs;
  // From twice what the slots can do to half of it; idle gaps come from the bursts.
  const spanMs = Math.ceil((jobCount * meanMs) / slots / dice.pick([0.5, 1, 2, 4]) / gridMs) * gridMs;
  const instant = (): number => Math.floor(dice.between(0, spanMs) / gridMs) * gridMs;
  const bursts = Array.from({ length: dice.whole(1, 4) }, instant);
  const isBursty = dice.chance(0.5);
  const jobs: ScenarioJob[] = Array.from({ length: jobCount }, (_, number) => {
    const atMs = isBursty && dice.chance(0.8) ? dice.pick(bursts as [number]) : instant();
    const skewed = Math.floor(keys.length * dice.between(0, 1) ** 2);
    return {
      // Ids say nothing of the order in which jobs come.
      id: `job-${String((number * 7_919) % 10_007).padStart(5, '0')}`,
      atMs,
      type: dice.pick(typeNames),
      priority: dice.chance(0.5) ? 0 : dice.whole(0, 10),
      mode: dice.chance(0.2) ? 'onDemand' : 'queued',
      fairnessKey: (dice.chance(0.5) ? keys[skewed] : dice.pick(keys as [string])) ?? '',
      ...(conflicts || dice.chance(0.5)
        ? { resourceId: dice.chance(conflicts ? 0.5 : 0) ? 'resource0' : dice.pick(resources as [string]) }
        : {}),
      ...(time && dice.chance(0.3)
        ? { runAtMs: atMs + dice.whole(0, Math.ceil(spanMs / gridMs / 2)) * gridMs }
        : {}),
      attempts: attemptsOf(dice, themes, durationMs),
    };
  });
  const untilMs = Math.min(spanMs * 2 + 20 * meanMs, 1_800_000) + (themes.losses ? UNHEARD_FOR_MS : 0);
  const events: ScenarioEvent[] = [];
  for (const [fleet, declared] of Object.entries(pool.fleets ?? {})) {
    if (declared.slots !== null) continue;
    events.push({ op: 'slots', atMs: 0, fleet, slots: dice.whole(1, 3) });
    if (dice.chance(0.5)) events.push({ op: 'slots', atMs: instant(), fleet, slots: dice.whole(0, 5) });
  }
  if (time) {
    for (const { id, atMs } of jobs) {
      const laterMs = (): number => atMs + dice.whole(1, Math.ceil(spanMs / gridMs / 2)) * gridMs;
      if (dice.chance(0.08)) events.push({ op: 'cancel', atMs: laterMs(), id });
      for (let moves = 0; dice.chance(0.2) && moves < 3; moves += 1) {
        const movedMs = laterMs();
        const inMs = dice.pick([-5_000, 0, 0, 2_000, 10_000]);
        events.push({ op: 'retime', atMs: movedMs, id, runAtMs: Math.max(0, movedMs + inMs) });
      }
    }
  }
  if (controls) events.push(...controlsOf(dice, pool, keys, instant));
  const budget = budgetOf(dice, themes, jobCount);
  const hearing = hearingOf(dice, crowd);
  // Hundreds of keys that come at once fill more of a line than is read, as in large pools.
  const isAtOnce = crowd && isBursty && bursts.length === 1;
  return {
    seed,
    kind,
    pool: isAtOnce ? withLedgersKept(pool) : pool,
    budget: { ...budget, ...NEWS },
    hearing,
    untilMs,
    jobs,
    events,
  };
}

/**
 * The same in several partitions, each with so much of every cap. Conflict keys are each of one partition: who of several gets a
 * free one first is decided by their locks, and not by an order.
 */
function dividedOf(dice: Dice, scenario: Scenario): Scenario {
  const partitions = dice.whole(2, 4);
  // What the first partitions have more of than the others.
  const rest = dice.whole(0, partitions - 1);
  const { pool, hearing } = scenario;
  return {
    ...scenario,
    pool: { ...withCaps(pool, (cap) => cap * partitions + rest), partitions },
    // Word is left in one partition at a time.
    hearing: { ...hearing, leftWord: 0 },
    jobs: scenario.jobs.map((job) => ({
      ...job,
      ...(job.resourceId === undefined
        ? {}
        : { resourceId: `${job.resourceId} of ${partitionOf(job.fairnessKey, partitions)}` }),
      ...(job.keys === undefined
        ? {}
        : {
            keys: Object.fromEntries(
              Object.entries(job.keys).map(([name, key]) => [
                name,
                `${key} of ${partitionOf(job.fairnessKey, partitions)}`,
              ]),
            ),
          }),
    })),
  };
}

/** A wall of jobs that a held conflict key, a full or paused type, or their keys' caps stop, and then some that may start. */
function wallOf(dice: Dice, seed: number): Scenario {
  const what = dice.pick(['conflict', 'typeCap', 'pause', 'keyCap']);
  const slots = dice.whole(5, 60);
  const groups = dice.whole(20, 150);
  const each = dice.whole(2, 6);
  const gridMs = 1_000;
  const longMs = dice.pick([60_000, 300_000]);
  const behindMs = dice.whole(1, 30) * gridMs;
  const type: JobTypeInput = {
    ...(what === 'conflict' ? { conflictGroup: 'album' } : {}),
    ...(what === 'typeCap' ? { maxConcurrency: dice.whole(1, 3) } : {}),
    retry: { maxAttempts: 1, jitter: 'none' },
  };
  const pool: PoolInput = {
    types: { wall: type, other: { retry: { maxAttempts: 1, jitter: 'none' } } },
    tiers: [{ tier: 'default' }],
    fleets: { all: { types: ['wall', 'other'], slots } },
    fairness: {
      idlePolicy: dice.pick(['none', 'advance']),
      ...(what === 'keyCap' ? { maxConcurrencyPerKey: dice.whole(1, 2) } : {}),
    },
  };
  const inAll = groups * each;
  const job = (number: number, atMs: number, group: string, of: string, priority = 0): ScenarioJob => ({
    id: `job-${String((number * 7_919) % 10_007).padStart(5, '0')}`,
    atMs,
    type: of,
    priority,
    mode: 'queued',
    fairnessKey: what === 'conflict' ? `key${number % 3}` : group,
    resourceId: group,
    attempts: [{ durationMs: of === 'other' ? dice.whole(1, 5) * gridMs : longMs, outcome: 'succeeded' }],
  });
  // Of some groups as many as there are slots: what stands behind the wall may start.
  const standing =
    what === 'keyCap' || what === 'conflict' ? Math.max(1, Math.min(groups, slots - 2)) : groups;
  const wall = Array.from({ length: inAll }, (_, number) =>
    job(number, dice.whole(0, 3) * gridMs, `wall${number % standing}`, 'wall', dice.whole(0, 3)),
  );
  const behind = Array.from({ length: dice.whole(1, 10) }, (_, number) =>
    job(
      inAll + number,
      behindMs + dice.whole(0, 5) * gridMs,
      `behind${number}`,
      what === 'conflict' || what === 'keyCap' ? 'wall' : 'other',
    ),
  );
  const budget = dice.chance(0.3) ? { parkKept: 1 } : {};
  const hearing = hearingOf(dice);
  return {
    seed,
    kind: 'walls',
    pool,
    budget: { ...budget, ...NEWS },
    hearing,
    untilMs: behindMs + 2 * longMs,
    jobs: [...wall, ...behind],
    events: what === 'pause' ? [{ op: 'control', atMs: 0, scope: 'type/wall', paused: true }] : [],
  };
}

function controlsOf(
  dice: Dice,
  { types = {}, tiers = [], fleets = {} }: PoolInput,
  keys: readonly string[],
  instant: () => number,
): readonly ScenarioEvent[] {
  const scopes = [
    'pool',
    ...tiers.map(({ tier }) => `tier/${tier}`),
    ...Object.keys(types).map((type) => `type/${type}`),
    ...Object.keys(fleets).map((fleet) => `fleet/${fleet}`),
    ...keys.slice(0, 5).map((key) => `key/${key}`),
  ] as [string, ...string[]];
  return Array.from({ length: dice.whole(1, 6) }, () => {
    const scope = dice.pick(scopes);
    const [fromMs, otherMs] = [instant(), instant()];
    const atMs = Math.min(fromMs, otherMs);
    const untilMs = Math.max(fromMs, otherMs);
    const kinds: readonly ['pause', 'cap', ...'weight'[]] = scope.startsWith('key/')
      ? ['pause', 'cap', 'weight']
      : ['pause', 'cap'];
    const { on, off } = {
      pause: { on: { paused: true }, off: { paused: false } },
      cap: { on: { maxConcurrency: dice.whole(0, 4) }, off: { maxConcurrency: null } },
      weight: { on: { weight: dice.pick([0.25, 2, 8]) }, off: { weight: null } },
    }[dice.pick<'pause' | 'cap' | 'weight'>(kinds)];
    const event: ScenarioEvent = { op: 'control', atMs, scope, ...on };
    return dice.chance(0.8) ? [event, { op: 'control' as const, atMs: untilMs, scope, ...off }] : [event];
  }).flat();
}
