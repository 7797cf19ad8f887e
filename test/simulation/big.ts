/**
 * Big worlds: thousands of jobs, hundreds of keys and conflict keys, names as long as they may be, the product's own bounds.
 * The pool is saturated, idle, and saturated again; caps of keys, pauses and several dispatchers with warm memories. Functions do
 * the work, or worker processes, some of which are killed.
 */
import { CONFIGURATION_LIMITS, resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { REQUEST_LIMITS } from '../../lib/submit/request.ts';
import {
  FAULT_CLASSES,
  type FaultClass,
  type PlannedEvent,
  type PlannedJob,
  type SimulationPlan,
} from './plan.ts';
import { type Dice, diceOf, seeded } from './random.ts';
import type { PlannedProcess } from './redeploys.ts';
import { plannedIdOf } from './users.ts';

const JOBS_LEAST = 2_000;
const JOBS_MOST = 2_100;
const KEYS_LEAST = 300;
const KEYS_MOST = 330;
const RESOURCES_LEAST = 200;
const RESOURCES_MOST = 300;
/** Jobs come in events of so many. */
const EVENT_JOBS = 100;

/** A name as long as it may be, in characters of one byte or of three. */
const longName = (prefix: string, at: number, length: number, filling: string): string =>
  `${prefix}${at}-`.padEnd(length, filling);

const nameOf = (prefix: string, at: number): string =>
  longName(prefix, at, CONFIGURATION_LIMITS.nameLength, 'x');

/** As many bytes as a key may have. */
function keyOf(prefix: string, at: number): string {
  const start = `${prefix}${at}-`;
  const left = REQUEST_LIMITS.keyBytes - Buffer.byteLength(start);
  return at % 2 === 0 ? start + 'y'.repeat(left) : start + '\u65e5'.repeat(Math.floor(left / 3));
}

/** Faults that some big worlds have; each call there meets one as seldom as in a service that mostly works. */
const FAULTS: readonly FaultClass[] = [
  'crashBeforeCall',
  'crashAfterCall',
  'answerLostThoughApplied',
  'throttled',
  'transactionConflict',
  'partialBatchFailure',
  'tickMissing',
];
const FAULT_RATE = 0.0005;

export function bigPlanOf(seed: number): SimulationPlan {
  // Jobs of each key are of any type, so that there are several times as many lines; else each key has a type.
  const isWide = seed % 2 === 0;
  const dice = diceOf(seeded(seed ^ 0x7f4a7c15));
  const isFaulty = dice.chance(0.3);
  const tiers = Array.from({ length: dice.whole(1, 3) }, (_, at) => nameOf('tier', at));
  const slots = dice.whole(20, 60);
  const configuration = configurationOf(dice, tiers, slots);
  const [meanMs, phases] = [dice.pick([500, 2_000]), dice.whole(2, 3)];
  const count = dice.whole(JOBS_LEAST, JOBS_MOST);
  const busyMs = Math.ceil((count * meanMs) / slots / phases);
  const idleMs = dice.pick([20_000, 70_000]);
  const jobs = jobsOf(dice, {
    count,
    meanMs,
    isWide,
    types: configuration.types.map(({ type }) => type),
    // Of each phase most come at its begin, and some while it lasts.
    askedAtMs: (at) => {
      const startMs = Math.floor((at * phases) / count) * (2 * busyMs + idleMs);
      const event = Math.floor(at / EVENT_JOBS);
      return startMs + (event % 4 === 3 ? Math.round(dice.between(0, busyMs)) : event * 10);
    },
  });
  const untilMs = Math.max(...jobs.map(({ askedAtMs }) => askedAtMs));
  return {
    seed,
    configuration,
    budget: DISPATCH_BUDGET,
    jobs,
    eventJobs: EVENT_JOBS,
    processes: [],
    residents: Array.from({ length: dice.pick([0, 0, 1, 2]) }, (_, at) => ({
      dispatcherId: `dispatcher/${at}`,
      pollMs: 1_000,
    })),
    rates: Object.fromEntries(
      FAULT_CLASSES.map((fault) => [fault, isFaulty && FAULTS.includes(fault) ? FAULT_RATE : 0]),
    ) as Record<FaultClass, number>,
    store: {
      indexLagMs: dice.chance(0.5) ? dice.pick([100, 1_000]) : undefined,
      streamLost: isFaulty && dice.chance(0.5) ? 0.05 : undefined,
    },
    queue: {},
    bus: {},
    skewMaxMs: 0,
    faultsUntilMs: untilMs + 60_000,
    endless: false,
    latencyMaxMs: dice.pick([40, 80]),
    malformed: 0,
    events: pausesOf(
      dice,
      configuration.types.map(({ type }) => type),
      untilMs,
    ),
  };
}

/** How long more comes than can be done, and how long each of it takes. */
const OVERLOAD_MS = 240_000;
const OVERLOAD_JOB_MS = 2_000;
const LOOKS = 8;

/**
 * One key that is sent on-demand jobs at more than 1.5 times the pace at which its type ends them, with a few queued ones of the same type
 * from the beginning. In even seeds the pool lets both age alike, so that queued jobs have their turn.
 */
export function overloadedPlanOf(seed: number): SimulationPlan {
  const dice = diceOf(seeded(seed ^ 0x2c1b3c6d));
  const slots = dice.whole(3, 5);
  const agesAlike = seed % 2 === 0;
  const configuration = resolveConfiguration({
    types: { work: { timeoutMs: 2 * OVERLOAD_JOB_MS, defaultCostMs: OVERLOAD_JOB_MS } },
    fleets: { all: { types: ['work'], slots } },
    // On-demand jobs begin 10 s ahead, and a priority counts 2 s: so that a bound is a matter of minutes.
    score: { priority: 32, rarity: 0, onDemand: 160, ...(agesAlike ? { onDemandAgeSec: 0 } : {}) },
  });
  const everyMs = OVERLOAD_JOB_MS / slots / dice.between(1.6, 2.2);
  const jobOf = (mode: 'queued' | 'onDemand', askedAtMs: number, priority: number): PlannedJob => ({
    type: 'work',
    fairnessKey: 'busy',
    priority,
    mode,
    askedAtMs: Math.round(askedAtMs),
    delayMs: 0,
    durationMs: Math.round(dice.between(0.9, 1.1) * OVERLOAD_JOB_MS),
    via: 'bus',
    waitsMs: 0,
    diesWithWaiter: false,
    checkpoints: false,
    fails: false,
    heeds: true,
  });
  const onDemand = Array.from({ length: Math.floor(OVERLOAD_MS / everyMs) }, (_, at) =>
    jobOf('onDemand', at * everyMs, dice.whole(0, 10)),
  );
  // Behind those that fill the slots.
  const queued = Array.from({ length: 6 }, () =>
    jobOf('queued', dice.between(5_000, 10_000), dice.whole(0, 3)),
  );
  const jobs = [...onDemand, ...queued];
  const none = Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>;
  return {
    seed,
    configuration,
    budget: DISPATCH_BUDGET,
    jobs,
    processes: [],
    residents: Array.from({ length: dice.pick([0, 1]) }, (_, at) => ({
      dispatcherId: `dispatcher/${at}`,
      pollMs: 1_000,
    })),
    rates: none,
    store: {},
    queue: {},
    bus: {},
    skewMaxMs: 0,
    faultsUntilMs: OVERLOAD_MS,
    endless: false,
    latencyMaxMs: 40,
    malformed: 0,
    isOverloaded: true,
    events: Array.from({ length: LOOKS }, (_, at) => ({
      atMs: ((at + 1) * OVERLOAD_MS) / (LOOKS + 1),
      act: { kind: 'look' as const, jobId: plannedIdOf(onDemand.length + (at % queued.length)) },
    })),
  };
}

/** The same world, with worker processes in the place of its functions: as many slots, divided among some workers of each fleet. */
export function bigPlanOfProcesses(seed: number): SimulationPlan {
  const plan = bigPlanOf(seed);
  const dice = diceOf(seeded(seed ^ 0x51ed270b));
  const { fleets } = plan.configuration;
  const processes = fleets.flatMap(({ slots }, nth) => {
    const workers = Math.min(slots ?? 1, dice.whole(1, 3));
    return Array.from({ length: workers }, (_, at) => ({
      fleet: fleets[nth]?.fleet ?? '',
      workerId: nameOf(`worker${nth}`, at),
      slots: Math.ceil((slots ?? 1) / workers),
    }));
  });
  const untilMs = Math.max(...plan.jobs.map(({ askedAtMs }) => askedAtMs));
  const kills = Array.from(
    { length: dice.pick([0, 1, 3]) },
    (): PlannedEvent => ({
      atMs: Math.round(dice.between(1_000, untilMs + 10_000)),
      kills: `process-${dice.pick(processes as [PlannedProcess, ...PlannedProcess[]]).workerId}`,
    }),
  );
  return {
    ...plan,
    configuration: {
      ...plan.configuration,
      fleets: fleets.map((each) => ({ ...each, slots: null })),
    },
    processes,
    events: [...plan.events, ...kills],
  };
}

function configurationOf(
  dice: Dice,
  tiers: readonly string[],
  slots: number,
): ReturnType<typeof resolveConfiguration> {
  const types: Record<string, JobTypeInput> = {};
  const typeCount = dice.whole(3, 6);
  for (let at = 0; at < typeCount; at += 1) {
    types[nameOf('type', at)] = {
      tier: tiers[at % tiers.length],
      maxConcurrency: dice.chance(0.3) ? dice.whole(2, slots) : null,
      conflictGroup: dice.chance(0.5) ? nameOf('group', dice.whole(0, 1)) : null,
      defaultCostMs: dice.pick([500, 2_000]),
      timeoutMs: 30_000,
      retry: { maxAttempts: 2, delayMs: 1_000, maxWorkersLost: 3, jitter: 'none' },
    };
  }
  const names = Object.keys(types);
  return resolveConfiguration({
    types,
    tiers: tiers.map((tier, at) => ({
      tier,
      maxConcurrency: dice.chance(0.2) ? dice.whole(5, slots) : null,
      guaranteed: at > 0 && dice.chance(0.5) ? dice.whole(1, 5) : 0,
    })),
    fleets: {
      [nameOf('all', 0)]: { types: names, slots: Math.ceil(slots / 2) },
      [nameOf('special', 0)]: { types: names.slice(0, 1), slots: Math.ceil(slots / 4) },
      [nameOf('some', 0)]: { types: names.slice(1), slots: Math.floor(slots / 4) },
    },
    fairness: {
      idlePolicy: dice.pick(['advance', 'advance', 'none']),
      maxConcurrencyPerKey: dice.pick([null, null, 1, 3]),
      weights: Object.fromEntries(
        Array.from({ length: 10 }, (_, at) => [keyOf('key', at), dice.pick([0.25, 4])]),
      ),
    },
  });
}

function jobsOf(
  dice: Dice,
  {
    count,
    meanMs,
    isWide,
    types,
    askedAtMs,
  }: {
    readonly count: number;
    readonly meanMs: number;
    readonly isWide: boolean;
    readonly types: readonly string[];
    readonly askedAtMs: (at: number) => number;
  },
): readonly PlannedJob[] {
  const keys = Array.from({ length: dice.whole(KEYS_LEAST, KEYS_MOST) }, (_, at) => keyOf('key', at));
  const resources = Array.from({ length: dice.whole(RESOURCES_LEAST, RESOURCES_MOST) }, (_, at) =>
    keyOf('resource', at),
  );
  const isSkewed = dice.chance(0.5);
  const futures = dice.pick([0, 0.1]);
  let asked = 0;
  const drawn = Array.from({ length: count }, (_, at) => {
    // Those of one event come together.
    if (at % EVENT_JOBS === 0) asked = askedAtMs(at);
    const nth =
      isSkewed && dice.chance(0.5) ? Math.floor(keys.length * dice.between(0, 1) ** 3) : at % keys.length;
    return {
      type: types[isWide ? dice.whole(0, types.length - 1) : nth % types.length] ?? '',
      fairnessKey: keys[nth] ?? '',
      ...(dice.chance(0.7)
        ? { resourceId: resources[dice.chance(0.3) ? dice.whole(0, 9) : dice.whole(0, resources.length - 1)] }
        : {}),
      priority: dice.chance(0.5) ? 0 : dice.whole(0, 10),
      mode: dice.chance(0.1) ? ('onDemand' as const) : ('queued' as const),
      askedAtMs: asked,
      delayMs: dice.chance(futures) ? dice.whole(1_000, 60_000) : 0,
      durationMs: Math.round(dice.between(0.2, 1.8) * meanMs),
      via: 'bus' as const,
      waitsMs: 0,
      diesWithWaiter: false,
      checkpoints: false,
      fails: dice.chance(0.02),
      heeds: true,
    };
  });
  // Keys that no job drew take the last jobs' places, as far as there are too few.
  const used = new Set(drawn.map(({ fairnessKey }) => fairnessKey));
  const missing = keys.filter((key) => !used.has(key)).slice(0, Math.max(0, KEYS_LEAST - used.size));
  return drawn.map((job, at) => ({ ...job, fairnessKey: missing[count - 1 - at] ?? job.fairnessKey }));
}

/** A type is paused while the pool is busy, and goes on. */
function pausesOf(dice: Dice, types: readonly string[], untilMs: number): readonly PlannedEvent[] {
  if (dice.chance(0.5)) return [];
  const type = types[dice.whole(0, types.length - 1)] ?? '';
  const atMs = Math.round(dice.between(0, untilMs / 2));
  return [
    { atMs, act: { kind: 'pause', scope: { type } } },
    { atMs: atMs + 30_000, act: { kind: 'resume', scope: { type } } },
  ];
}
