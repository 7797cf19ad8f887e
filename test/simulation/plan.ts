/** What a seed decides before anything runs: the pool, the load, and which faults happen how often. */

import type { OverrideChange } from '../../lib/client/client.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { DedupeInput } from '../../lib/core/dedupe.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Tags } from '../../lib/core/job.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import type { Scope } from '../../lib/core/scope.ts';
import type { DispatchBudget } from '../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import type { BusImitation } from '../../lib/events/memory/bus.ts';
import type { QueueImitation } from '../../lib/queue/memory/queue.ts';
import type { StoreImitation } from '../../lib/store/memory/imitation/imitation.ts';
import { type Dice, diceOf, seeded } from './random.ts';
import { drawRedeploys, type PlannedProcess, type PlannedRedeploys, withOtherTypes } from './redeploys.ts';

/** Faults of single calls to the store, a queue or the bus. */
export const CALL_FAULTS = [
  'crashBeforeCall',
  'crashAfterCall',
  'crashMidCall',
  'answerLostThoughApplied',
  'notAppliedAndNoAnswer',
  'appliedLate',
  'requestRepeated',
  'throttled',
  'transactionConflict',
  'partialBatchFailure',
  'frozenBeforeCall',
  'frozenAfterCall',
] as const;

/** What operators do. */
export const OPERATOR_FAULTS = [
  'operatorCancels',
  'operatorPauses',
  'operatorDrains',
  'operatorOverrides',
  'operatorRedrives',
  'operatorLooks',
  'operatorRetimes',
] as const;

/** Faults of what surrounds the calls. */
export const WORLD_FAULTS = [
  'staleIndex',
  'streamLate',
  'streamLost',
  'streamDuplicated',
  'messageDuplicated',
  'messageLate',
  'messageLost',
  'eventDuplicated',
  'tickMissing',
  'tickDoubled',
  'workerKilled',
  'workerRestarted',
  'workerDoubled',
  'workerFrozen',
  'clockSkew',
  'clockJump',
  'storeOutage',
  'handlerThrows',
  'handlerHangs',
  'ttlLate',
  ...OPERATOR_FAULTS,
  'waiterGivesUp',
  'requestDoubled',
  'requestMalformed',
  'recordExpires',
  'functionEnds',
  'handlerBusy',
  'machineSuspended',
  'functionLeads',
] as const;

/** What happens when other things are declared while the world runs. */
export const REDEPLOY_FAULTS = [
  'redeployed',
  'redeployRepeated',
  'rolledBack',
  'partitionsChanged',
  'jobRehomed',
  'workerOutdated',
  'typeUnknown',
] as const;

/** Faults of dispatchers that run on. */
export const RESIDENT_FAULTS = [
  'dispatcherKilled',
  'dispatcherRestarted',
  'dispatcherDoubled',
  'dispatcherFrozen',
] as const;

export type FaultClass =
  | (typeof CALL_FAULTS)[number]
  | (typeof WORLD_FAULTS)[number]
  | (typeof RESIDENT_FAULTS)[number]
  | (typeof REDEPLOY_FAULTS)[number];
/** Drawn in this order. */
const DRAWN_FAULTS = [...CALL_FAULTS, ...WORLD_FAULTS] as const;
export const FAULT_CLASSES: readonly FaultClass[] = [...DRAWN_FAULTS, ...RESIDENT_FAULTS, ...REDEPLOY_FAULTS];

export interface PlannedJob {
  readonly type: string;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly keys?: Readonly<Record<string, string>> | undefined;
  readonly units?: Readonly<Record<string, number>> | undefined;
  readonly priority: number;
  readonly mode: 'queued' | 'onDemand';
  /** When it is asked for, from the start. */
  readonly askedAtMs: number;
  /** How long after that it may start. */
  readonly delayMs: number;
  /** How long it may wait for its start; undefined: for any time. */
  readonly expireAfterMs?: number | undefined;
  /** Undefined: each request makes a job. */
  readonly dedupe?: DedupeInput | undefined;
  /** How long its handler takes. */
  readonly durationMs: number;
  /** An event on the bus, a client's `submit`, or a client's `run`. */
  readonly via: 'bus' | 'client' | 'run';
  /** Who runs it waits so long. */
  readonly waitsMs: number;
  readonly diesWithWaiter: boolean;
  /** Its handler keeps a checkpoint half-way. */
  readonly checkpoints: boolean;
  /** Its handler takes steps: one, then two side by side. */
  readonly steps?: boolean | undefined;
  /** Its handler parks it once, or once asks for a rest of its type or of its key, before it does anything else. */
  readonly waits?: 'parked' | 'type' | 'key' | undefined;
  /** Given with the request. @default - none */
  readonly tags?: Tags | undefined;
  /** Its handler throws, however often it is tried. */
  readonly fails: boolean;
  /** Its handler looks at its signal; else it goes on as if it knew of none. */
  readonly heeds: boolean;
}

/** What an operator does. */
export type OperatorAct =
  | { readonly kind: 'cancel' | 'retry' | 'look'; readonly jobId: string }
  | { readonly kind: 'resume' | 'drain'; readonly scope: Scope }
  | { readonly kind: 'pause'; readonly scope: Scope; readonly for?: string | undefined }
  | { readonly kind: 'override'; readonly scope: Scope; readonly change: OverrideChange }
  | { readonly kind: 'redrive'; readonly limit: number }
  | { readonly kind: 'setPriority'; readonly jobId: string; readonly priority: number }
  | { readonly kind: 'retime'; readonly jobId: string; readonly moves: readonly PlannedMove[] };

/** One of several moves that a user makes of a job, one after the other. */
export interface PlannedMove {
  /** How long after the move before it was answered. */
  readonly afterMs: number;
  /** To when, from the instant at which it is asked for; less than 0 is past. */
  readonly inMs: number;
}

/** What is to happen when, whatever the dice say. */
export type PlannedEvent = { readonly atMs: number } & (
  | { readonly act: OperatorAct }
  /** Nodes whose names begin so die. */
  | { readonly kills: string }
  /** Processes whose names begin so are asked to end. */
  | { readonly stops: string }
);

/** A dispatcher that runs on. */
export interface PlannedResident {
  readonly dispatcherId: string;
  readonly pollMs: number;
}

export interface SimulationPlan {
  readonly seed: number;
  readonly configuration: PoolConfiguration;
  readonly budget: DispatchBudget;
  readonly jobs: readonly PlannedJob[];
  /** Jobs in a row that come over the bus do so in events of so many; undefined: each in one of its own. */
  readonly eventJobs?: number | undefined;
  readonly processes: readonly PlannedProcess[];
  readonly residents: readonly PlannedResident[];
  /** Chance of each fault of calls; 0 for those that this seed leaves out. */
  readonly rates: Readonly<Record<FaultClass, number>>;
  readonly store: StoreImitation;
  readonly queue: QueueImitation;
  readonly bus: BusImitation;
  readonly skewMaxMs: number;
  /** Faults happen until then. */
  readonly faultsUntilMs: number;
  /** True: faults never stop, only safety is checked. */
  readonly endless: boolean;
  readonly latencyMaxMs: number;
  /** Events that nobody can accept. */
  readonly malformed: number;
  /** The pool is given more than it can do: each job's wait is held against the bound that is documented. See `starvation.ts`. */
  readonly isOverloaded?: boolean | undefined;
  /** Records of terminal jobs expire after so long; undefined: not while this runs. */
  readonly terminalTtlMs?: number | undefined;
  readonly events: readonly PlannedEvent[];
  /** What is declared while this runs; undefined: nothing is, and the configuration is all that there is. */
  readonly redeploys?: PlannedRedeploys | undefined;
}

/** Faults that few calls can meet are drawn more often. */
const FACTORS: Partial<Record<FaultClass, number>> = {
  crashMidCall: 6,
  partialBatchFailure: 6,
  transactionConflict: 6,
};

/** Of some seeds: workers come and go while dispatchers stall and messages are late. */
const CHURN = 0.1;
const CHURN_RATES: Partial<Record<FaultClass, number>> = {
  workerKilled: 0.03,
  workerRestarted: 0.02,
  workerDoubled: 0.06,
  frozenBeforeCall: 0.03,
  frozenAfterCall: 0.02,
  storeOutage: 0.02,
  workerFrozen: 0.02,
};

/** Classes that came later are drawn from dice of their own: no seed changes but by what they do. */
const LATER: Partial<Record<FaultClass, number>> = {
  operatorRetimes: 0x3c6ef372,
  functionEnds: 0x510e527f,
  handlerBusy: 0x1f83d9ab,
  machineSuspended: 0x5be0cd19,
  functionLeads: 0x428a2f98,
};

/** A job is moved this far into the future at most. */
export const MOVED_MAX_MS = 150_000;
/** One user's moves of a job are all asked for within this. */
export const MOVES_MAX_MS = 30_000;

/** Without any fault at all, a few seeds show that the load alone breaks nothing. */
const CALM = 0.12;

export function planOf(seed: number): SimulationPlan {
  const dice = diceOf(seeded(seed));
  const calm = dice.chance(CALM);
  const churn = !calm && dice.chance(CHURN);
  const drawn = Object.fromEntries(
    DRAWN_FAULTS.map((fault) => {
      const salt = LATER[fault];
      const own = salt === undefined ? dice : diceOf(seeded(seed ^ salt));
      const rate = own.chance(0.45) ? 10 ** own.between(-3.2, -1.4) : 0;
      return [fault, calm ? 0 : ((churn ? CHURN_RATES[fault] : undefined) ?? rate * (FACTORS[fault] ?? 1))];
    }),
  ) as Record<(typeof DRAWN_FAULTS)[number], number>;
  const imitated = (fault: (typeof DRAWN_FAULTS)[number]): boolean => drawn[fault] > 0;
  const configuration = counted(
    keyed(
      limited(
        batched(
          resourceCapped(drawConfiguration(dice, churn), diceOf(seeded(seed ^ RESOURCE_DICE))),
          diceOf(seeded(seed ^ BATCH_DICE)),
        ),
        diceOf(seeded(seed ^ LIMIT_DICE)),
      ),
      diceOf(seeded(seed ^ KEYED_DICE)),
    ),
    diceOf(seeded(seed ^ UNITS_DICE)),
  );
  // Of its own, so that it changes no other draw.
  const small = diceOf(seeded(seed ^ 0x10a5));
  const leaseMs = dice.pick([5_000, 10_000, 20_000]);
  const endless = dice.chance(0.3);
  const resident = drawResidents(diceOf(seeded(seed ^ RESIDENT_DICE)), calm, leaseMs);
  const leads = diceOf(seeded(seed ^ LEAD_DICE));
  const rates: Record<FaultClass, number> = { ...drawn, ...resident.rates, ...NOT_DRAWN };
  const plan: SimulationPlan = {
    seed,
    configuration,
    budget: {
      ...DISPATCH_BUDGET,
      leadMs: leaseMs,
      passesMax: dice.pick([2, 5, 20]),
      batchJobs: dice.pick([1, 3, 10, 50]),
      promoteMax: dice.pick([2, 20, 200]),
      checkMax: dice.pick([1, 3, 10]),
      parkKept: dice.pick([1, 4]),
      checkAfterMs: churn ? 5_000 : dice.pick([15_000, 30_000, 60_000]),
      // Where little goes on it is asked for, too, and leads for as long as it may.
      leadFrom: leads.pick([1, DISPATCH_BUDGET.leadFrom]),
      leadWhile: leads.pick([0, DISPATCH_BUDGET.leadWhile]),
    },
    jobs: deduped(
      withKeys(
        expiring(
          withWaits(
            withSteps(drawJobs(dice, configuration, churn), diceOf(seeded(seed ^ STEPS_DICE))),
            diceOf(seeded(seed ^ WAITS_DICE)),
          ),
          diceOf(seeded(seed ^ EXPIRY_DICE)),
        ),
        configuration,
        diceOf(seeded(seed ^ KEYS_DICE)),
      ),
      diceOf(seeded(seed ^ DEDUPE_DICE)),
    ),
    processes: configuration.fleets.flatMap(({ fleet, slots }) =>
      slots === null
        ? Array.from({ length: dice.whole(1, 3) }, (_, at) => ({
            fleet,
            workerId: `${fleet}/${at}`,
            slots: slotsOf(configuration, dice, small),
          }))
        : [],
    ),
    residents: resident.residents,
    rates,
    store: {
      indexLagMs: imitated('staleIndex') ? dice.pick([50, 1_000, 10_000]) : undefined,
      streamLateMs: imitated('streamLate') ? dice.pick([500, 5_000, 60_000]) : undefined,
      streamLost: imitated('streamLost') ? dice.between(0.02, 0.5) : undefined,
      streamDuplicated: imitated('streamDuplicated') ? dice.between(0.02, 0.5) : undefined,
      ttlLateMs: imitated('ttlLate') ? 2 * 86_400_000 : undefined,
    },
    queue: {
      duplicated: imitated('messageDuplicated') ? dice.between(0.05, 0.5) : undefined,
      lateMs: churn || imitated('messageLate') ? dice.pick([1_000, 20_000, 90_000]) : undefined,
      lost: imitated('messageLost') ? dice.between(0.02, 0.3) : undefined,
    },
    bus: { duplicated: imitated('eventDuplicated') ? dice.between(0.05, 0.3) : undefined },
    skewMaxMs: imitated('clockSkew') ? dice.pick([200, 1_000, 2_000]) : 0,
    faultsUntilMs: dice.pick(churn ? [180_000, 420_000] : [60_000, 180_000, 420_000]),
    endless,
    latencyMaxMs: dice.pick([5, 30, 200]),
    malformed: imitated('requestMalformed') ? dice.whole(1, 3) : 0,
    terminalTtlMs: !endless && imitated('recordExpires') ? 600_000 : undefined,
    events: [],
  };
  // Clocks that differ do so by less than a fortieth of the usual window.
  const clocksDiffer = imitated('clockSkew') || rates.clockJump > 0;
  const redeploys = drawRedeploys(seed, {
    ...plan,
    leastWindowMs: clocksDiffer ? LIMIT_WINDOW_MS : LIMIT_WINDOW_MS / 4,
  });
  const named = diceOf(seeded(seed ^ UNITS_DICE ^ 1));
  // Where types come and go, a request may be refused for another reason, and a conflict group may change.
  if (redeploys === undefined)
    return {
      ...plan,
      jobs: withUnits(
        whileRunning(plan.jobs, configuration, diceOf(seeded(seed ^ RUNNING_DICE))),
        configuration,
        named,
      ),
      configuration: bounded(configuration, diceOf(seeded(seed ^ BOUND_DICE))),
    };
  return {
    ...plan,
    redeploys,
    jobs: withUnits(withOtherTypes(seed, plan.jobs, redeploys), redeploys.finale.configuration, named),
    budget: { ...plan.budget, carryMarks: small.pick([1, 2, 50]), carryJobs: small.pick([1, 5, 200]) },
  };
}

/** They follow from what is declared. */
const NOT_DRAWN = Object.fromEntries(REDEPLOY_FAULTS.map((fault) => [fault, 0])) as Record<
  (typeof REDEPLOY_FAULTS)[number],
  number
>;

/** For every partition a share, or so few that one has to lend to the others. */
function slotsOf({ partitions }: PoolConfiguration, dice: Dice, small: Dice): number {
  const enough = dice.whole(partitions, partitions + 2);
  return partitions > 1 && small.chance(0.3) ? 1 : enough;
}

/** A dice of their own: what they draw moves nothing else of a seed. */
const RESIDENT_DICE = 0x1b873593;
/** Of all seeds; in the others, functions make every pass. */
const RESIDENTS = 0.25;

function drawResidents(
  dice: Dice,
  calm: boolean,
  leaseMs: number,
): {
  readonly residents: readonly PlannedResident[];
  readonly rates: Readonly<Record<(typeof RESIDENT_FAULTS)[number], number>>;
} {
  const count = dice.chance(RESIDENTS) ? dice.whole(1, 3) : 0;
  const pollMs = Math.min(dice.pick([250, 1_000, 3_000]), leaseMs / 4);
  const rates = Object.fromEntries(
    RESIDENT_FAULTS.map((fault) => {
      const rate = dice.chance(0.5) ? 10 ** dice.between(-2.7, -1.4) : 0;
      return [fault, calm || count === 0 ? 0 : rate];
    }),
  ) as Record<(typeof RESIDENT_FAULTS)[number], number>;
  return {
    residents: Array.from({ length: count }, (_, at) => ({ dispatcherId: `dispatcher/${at}`, pollMs })),
    rates,
  };
}

/** Of its own, so that it changes no other draw. */
const RESOURCE_DICE = 0x5e50;
const BATCH_DICE = 0xba7c;
const LIMIT_DICE = 0x11317;
const LEAD_DICE = 0x1ead;
const STEPS_DICE = 0x57e9;
const WAITS_DICE = 0x3a17;
const KEYS_DICE = 0x6b65;

/** In some worlds, every other job takes steps. */
function withSteps(jobs: readonly PlannedJob[], dice: Dice): readonly PlannedJob[] {
  return dice.chance(0.3) ? jobs.map((job) => ({ ...job, steps: dice.chance(0.5) })) : jobs;
}

const EXPIRY_DICE = 0xe1a9;

/** In some worlds, some jobs end unless they start in time. */
function expiring(jobs: readonly PlannedJob[], dice: Dice): readonly PlannedJob[] {
  if (!dice.chance(0.4)) return jobs;
  const share = dice.pick([0.2, 0.9]);
  const waits = dice.pick([
    [1_000, 4_000],
    [5_000, 90_000],
  ] as const);
  return jobs.map((job) =>
    dice.chance(share) ? { ...job, expireAfterMs: dice.whole(waits[0], waits[1]) } : job,
  );
}

const DEDUPE_DICE = 0xdedf;
/** Fewer than a job remembers of the requests for which it stands, so that a late repetition changes nothing. */
const REQUESTS_OF_KEY = 8;

/** In some worlds, some requests are deduplicated. */
function deduped(jobs: readonly PlannedJob[], dice: Dice): readonly PlannedJob[] {
  if (!dice.chance(0.35)) return jobs;
  const share = dice.pick([0.3, 1]);
  const counts = new Map<string, number>();
  const firsts = new Map<string, PlannedJob>();
  return jobs.map((job) => {
    if (!dice.chance(share) || job.via === 'run') return job;
    const count = counts.get(job.type) ?? 0;
    counts.set(job.type, count + 1);
    const isQuiet = job.delayMs === 0 && dice.chance(0.6);
    const key = `${Math.floor(count / REQUESTS_OF_KEY)}`;
    const name = JSON.stringify([job.type, key]);
    const first = firsts.get(name) ?? job;
    firsts.set(name, first);
    // The others are other work, whatever their key says.
    const { fairnessKey, resourceId, keys } = dice.chance(0.7) ? first : job;
    return {
      ...job,
      fairnessKey,
      resourceId,
      keys,
      dedupe: {
        key,
        keep: dice.pick(['first', 'last', 'last']),
        ...(isQuiet ? { quiet: dice.whole(1_000, 8_000), atMost: dice.whole(8_000, 30_000) } : {}),
      },
    };
  });
}

const RUNNING_DICE = 0x3dd1;

/** What the requests of some keys do while a job of the key runs. Whether a request was dropped, only a client is told. */
function whileRunning(
  jobs: readonly PlannedJob[],
  { types }: PoolConfiguration,
  dice: Dice,
): readonly PlannedJob[] {
  const drawn = new Map<string, NonNullable<DedupeInput['whileRunning']>>();
  const group = new Map(types.map(({ type, conflictGroup }) => [type, conflictGroup]));
  return jobs.map((job) => {
    const { dedupe, type } = job;
    if (dedupe === undefined) return job;
    const name = JSON.stringify([type, dedupe.key]);
    const what =
      drawn.get(name) ?? dice.pick(['another', 'drop', group.get(type) == null ? 'drop' : 'oneWaits']);
    drawn.set(name, what);
    const own = { ...job, dedupe: { ...dedupe, whileRunning: what } };
    if (what === 'drop') return { ...own, via: 'client' };
    return what === 'oneWaits' ? { ...own, resourceId: undefined } : own;
  });
}

const BOUND_DICE = 0xb0d5;

/** In some worlds, a few jobs of some types may wait, or of each key's. */
function bounded(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  if (!dice.chance(0.25)) return configuration;
  const types = configuration.types.map((type) => ({
    ...type,
    ...(dice.chance(0.6) ? { maxWaiting: dice.whole(1, 8) } : {}),
    ...(dice.chance(0.4) ? { maxWaitingPerKey: dice.whole(1, 3) } : {}),
  }));
  return { ...configuration, types };
}

/** In some worlds, some jobs are parked, or ask for a rest. */
function withWaits(jobs: readonly PlannedJob[], dice: Dice): readonly PlannedJob[] {
  if (!dice.chance(0.2)) return jobs;
  return jobs.map((job) => ({
    ...job,
    waits: dice.pick([undefined, undefined, 'parked', 'type', 'key'] as const),
  }));
}

/** Some types' running jobs of one resource are limited, where no conflict group says more. */
function resourceCapped(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  if (!dice.chance(0.5)) return configuration;
  const types = configuration.types.map((type) => {
    const maxConcurrencyPerResource = configuration.partitions - 1 + dice.whole(1, 2);
    return dice.chance(0.7) && type.conflictGroup === null ? { ...type, maxConcurrencyPerResource } : type;
  });
  return { ...configuration, types };
}

/**
 * In some worlds types share limits. Clocks may differ by as much as the product allows, so windows are long enough for that.
 */
function limited(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  if (!dice.chance(0.4)) return configuration;
  const { partitions, types } = configuration;
  const limits = ['x', 'y'].slice(0, dice.whole(1, 2)).map((limit) => ({
    limit,
    ...(dice.chance(0.5)
      ? { total: dice.whole(partitions, partitions + 3), perKey: dice.chance(0.3) ? dice.whole(1, 3) : null }
      : { total: null, perKey: dice.whole(1, 3) }),
    ...(dice.chance(0.6)
      ? {
          rate: {
            ...(dice.chance(0.5)
              ? { starts: dice.whole(8, 24), perKey: dice.chance(0.3) ? dice.whole(4, 12) : null }
              : { starts: null, perKey: dice.whole(4, 12) }),
            perMs: LIMIT_WINDOW_MS,
          },
        }
      : {}),
    ...(dice.chance(0.2) ? { budget: { slotMs: dice.pick([20_000, 60_000]), perMs: LIMIT_WINDOW_MS } } : {}),
  }));
  const names = limits.map(({ limit }) => limit);
  return {
    ...configuration,
    limits,
    types: types.map((type, at) =>
      at === 0 || dice.chance(0.6)
        ? { ...type, limits: at === 0 ? names : names.slice(0, dice.whole(1, 2)) }
        : type,
    ),
  };
}

const LIMIT_WINDOW_MS = 240_000;
const KEYED_DICE = 0x0f6;
const UNITS_DICE = 0x756e;

/** Some limits count by a key of their own, of which each partition has a share. */
function keyed(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  const { limits, partitions } = configuration;
  if (limits === undefined) return configuration;
  const atLeast = (most: number | null): number | null => (most === null ? null : Math.max(partitions, most));
  return {
    ...configuration,
    limits: limits.map((limit) => {
      const { perKey, rate, budget } = limit;
      const bounds = perKey !== null || typeof rate?.perKey === 'number' || budget !== undefined;
      if (!(bounds && dice.chance(0.5))) return limit;
      return {
        ...limit,
        keyedBy: 'org',
        perKey: atLeast(perKey),
        ...(rate === undefined ? {} : { rate: { ...rate, perKey: atLeast(rate.perKey) } }),
      };
    }),
  };
}

/** Some rates count units, which some jobs name. */
function counted(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  const { limits, partitions } = configuration;
  if (limits === undefined) return configuration;
  return {
    ...configuration,
    limits: limits.map((limit) => {
      const { rate, keyedBy } = limit;
      if (rate === undefined || !dice.chance(0.5)) return limit;
      const perJob = dice.whole(2, 5);
      const times = (most: number | null, least: number): number | null =>
        most === null ? null : Math.max(least * perJob, 2 * most);
      const units = times(rate.starts, partitions);
      const perKey = times(rate.perKey, keyedBy === undefined ? 1 : partitions);
      return { ...limit, rate: { ...rate, starts: null, units, perKey, perJob } };
    }),
  };
}

/** Most jobs name units for the limits of their types that count them. */
function withUnits(
  jobs: readonly PlannedJob[],
  { limits = [], types }: PoolConfiguration,
  dice: Dice,
): readonly PlannedJob[] {
  if (limits.every(({ rate }) => rate?.perJob === undefined)) return jobs;
  return jobs.map((job) => {
    const names = types.find(({ type }) => type === job.type)?.limits ?? [];
    const units = limits.flatMap(({ limit, rate }) =>
      rate?.perJob !== undefined && names.includes(limit) && dice.chance(0.8)
        ? [[limit, dice.whole(1, rate.perJob)] as const]
        : [],
    );
    return units.length === 0 ? job : { ...job, units: Object.fromEntries(units) };
  });
}

/** Where a limit counts by a key of its own, each job has one, and few have the same. */
function withKeys(
  jobs: readonly PlannedJob[],
  { limits = [] }: PoolConfiguration,
  dice: Dice,
): readonly PlannedJob[] {
  if (limits.every(({ keyedBy }) => keyedBy === undefined)) return jobs;
  const orgs = dice.whole(2, 6);
  return jobs.map((job) => ({ ...job, keys: { org: `org-${dice.whole(1, orgs)}` } }));
}

/** Some fleets' functions take fewer jobs at once than they may. */
function batched(configuration: PoolConfiguration, dice: Dice): PoolConfiguration {
  const fleets = configuration.fleets.map((fleet) => {
    const batchSize = dice.pick([undefined, undefined, 1, 2]);
    return fleet.slots === null || batchSize === undefined ? fleet : { ...fleet, batchSize };
  });
  return { ...configuration, fleets };
}

function drawConfiguration(dice: Dice, churn: boolean): PoolConfiguration {
  const partitions = dice.pick([1, 1, 1, 2, 3]);
  // Every partition must have a share of each cap.
  const cap = (most: number): number => dice.whole(partitions, Math.max(partitions, most));
  const typeCount = dice.whole(1, 4);
  const tierCount = dice.whole(1, 3);
  const tiers = Array.from({ length: tierCount }, (_, at) => `tier-${at}`);
  const types: Record<string, JobTypeInput> = {};
  for (let at = 0; at < typeCount; at += 1) {
    types[`type-${at}`] = {
      tier: tiers[dice.whole(0, tierCount - 1)],
      maxConcurrency: dice.chance(0.3) ? cap(3) : null,
      listFinished: at % 2 === 0,
      conflictGroup: dice.chance(0.5) ? dice.pick(['catalogue', 'index']) : null,
      defaultCostMs: dice.pick([10, 1_000, 5_000]),
      timeoutMs: churn ? 20_000 : dice.pick([5_000, 20_000]),
      onWorkerLost: dice.pick(['retry', 'resume', 'fail']),
      retry: {
        maxAttempts: dice.whole(1, 3),
        delayMs: dice.pick([0, 0, 500, 5_000]),
        maxWorkersLost: dice.whole(0, 3),
        jitter: dice.pick(['full', 'none']),
      },
    };
  }
  const names = Object.keys(types);
  const slots = (most: number): number | null => (dice.chance(churn ? 0.9 : 0.4) ? null : cap(most));
  const fleets: Record<string, { types: string[]; slots: number | null }> = {};
  for (const type of names) {
    if (dice.chance(0.6)) fleets[`fleet-${type}`] = { types: [type], slots: slots(3) };
  }
  fleets.general = { types: names, slots: slots(4) };
  return resolveConfiguration({
    types,
    tiers: tiers.map((tier) => ({ tier, maxConcurrency: dice.chance(0.3) ? cap(4) : null })),
    fleets,
    maxConcurrency: dice.chance(0.2) ? cap(5) : null,
    partitions,
    statistics: partitions < 3,
    fairness: {
      maxConcurrencyPerKey: dice.chance(0.2) ? dice.whole(1, 3) : null,
      weights: dice.chance(0.5) ? { 'key-0': 3 } : {},
      trueUp: dice.chance(0.9),
    },
  });
}

function drawJobs(dice: Dice, configuration: PoolConfiguration, churn: boolean): readonly PlannedJob[] {
  const count = dice.pick(churn ? [40, 80] : [1, 5, 15, 40, 80]);
  const keys = dice.whole(1, 6);
  const resources = dice.whole(1, 4);
  const spreadMs = churn ? 180_000 : dice.pick([1, 5_000, 60_000]);
  const futures = dice.pick([0, 0.1, 0.5]);
  const types = configuration.types.map((each) => each.type);
  const clients = dice.pick([0, 0.3, 1]);
  const runs = dice.pick([0, 0, 0.3]);
  const checkpoints = dice.pick([0, 0.5]);
  const failing = dice.pick([0, 0.1, 0.3]);
  const heedless = churn ? 0.5 : dice.pick([0, 0, 0.5]);
  const via = (): PlannedJob['via'] =>
    dice.chance(clients) ? (dice.chance(runs) ? 'run' : 'client') : 'bus';
  return Array.from({ length: count }, () => ({
    type: types[dice.whole(0, types.length - 1)] ?? '',
    fairnessKey: `key-${dice.whole(0, keys - 1)}`,
    ...(dice.chance(0.6) ? { resourceId: `resource-${dice.whole(0, resources - 1)}` } : {}),
    priority: dice.chance(0.5) ? 0 : dice.whole(0, 10),
    mode: dice.chance(0.1) ? ('onDemand' as const) : ('queued' as const),
    askedAtMs: dice.whole(0, spreadMs),
    delayMs: dice.chance(futures) ? dice.whole(1_000, 150_000) : 0,
    // Where workers come and go, long enough to be looked at while they run.
    durationMs: churn ? dice.pick([500, 10_000, 18_000]) : dice.pick([1, 50, 500, 3_000, 10_000]),
    via: via(),
    waitsMs: dice.pick([2_000, 20_000, 120_000]),
    diesWithWaiter: dice.chance(0.5),
    checkpoints: dice.chance(checkpoints),
    fails: dice.chance(failing),
    heeds: !dice.chance(heedless),
  }));
}
