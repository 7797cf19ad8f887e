/** Runs so small that every call of theirs can meet every fault. Together they reach every verb. */

import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { DispatchBudget } from '../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import type { CallFault } from './faults.ts';
import {
  FAULT_CLASSES,
  type FaultClass,
  type PlannedEvent,
  type PlannedJob,
  type SimulationPlan,
} from './plan.ts';
import type { PlannedDeployment, PlannedRedeploys } from './redeploys.ts';
import { plannedIdOf } from './users.ts';

export interface SmallRun {
  readonly plan: SimulationPlan;
  /** What goes wrong in every such run, before any other fault. */
  readonly forced: ReadonlyMap<string, CallFault>;
}

interface Parts {
  readonly pool: PoolInput;
  readonly jobs: readonly Partial<PlannedJob>[];
  readonly budget?: Partial<DispatchBudget>;
  readonly processes?: SimulationPlan['processes'];
  readonly residents?: SimulationPlan['residents'];
  readonly events?: readonly PlannedEvent[];
  readonly malformed?: number;
  readonly latencyMaxMs?: number;
  readonly faultsUntilMs?: number;
  readonly forced?: Readonly<Record<string, CallFault>>;
  /** Declared one after the other, each so long after the start. */
  readonly later?: readonly {
    readonly atMs: number;
    readonly pool: PoolInput;
    readonly rolloutMs?: number;
  }[];
}

/** The first declaration, what follows, and at the end the last once more. */
function redeploysOf(
  first: PoolConfiguration,
  processes: SimulationPlan['processes'],
  declared: NonNullable<Parts['later']>,
): PlannedRedeploys {
  const deployed = (configuration: PoolConfiguration, atMs: number, rolloutMs = 0): PlannedDeployment => ({
    atMs,
    configuration,
    processes,
    rolloutMs,
    isRollback: false,
  });
  const later = declared.map(({ pool, atMs, rolloutMs }) =>
    deployed(resolveConfiguration(pool), atMs, rolloutMs),
  );
  return {
    deployments: [deployed(first, 0), ...later],
    finale: deployed((later.at(-1) ?? deployed(first, 0)).configuration, 0),
  };
}

function smallRun(seed: number, parts: Parts): SmallRun {
  const configuration = resolveConfiguration(parts.pool);
  const first = configuration.types[0]?.type ?? '';
  const plan: SimulationPlan = {
    seed,
    configuration,
    budget: {
      ...DISPATCH_BUDGET,
      leadMs: 5_000,
      checkAfterMs: 15_000,
      ...parts.budget,
    },
    jobs: parts.jobs.map((job) => ({
      type: first,
      fairnessKey: 'key-0',
      priority: 0,
      mode: 'queued',
      askedAtMs: 0,
      delayMs: 0,
      durationMs: 300,
      via: 'bus',
      waitsMs: 5_000,
      diesWithWaiter: false,
      checkpoints: false,
      fails: false,
      heeds: true,
      ...job,
    })),
    processes: parts.processes ?? [],
    residents: parts.residents ?? [],
    rates: Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>,
    store: {},
    queue: {},
    bus: {},
    skewMaxMs: 0,
    faultsUntilMs: parts.faultsUntilMs ?? 1_000,
    endless: false,
    latencyMaxMs: parts.latencyMaxMs ?? 5,
    malformed: parts.malformed ?? 0,
    events: parts.events ?? [],
    ...(parts.later === undefined
      ? {}
      : { redeploys: redeploysOf(configuration, parts.processes ?? [], parts.later) }),
  };
  return { plan, forced: new Map(Object.entries(parts.forced ?? {})) };
}

/** Somebody moves the job of a request, once or more often in a row. */
const moving = (atMs: number, request: number, inMs: readonly number[]): PlannedEvent => ({
  atMs,
  act: {
    kind: 'retime',
    jobId: plannedIdOf(request),
    moves: inMs.map((each) => ({ afterMs: 0, inMs: each })),
  },
});

const RETRY = { maxAttempts: 2, delayMs: 500, jitter: 'none', maxWorkersLost: 2 } as const;

/** Of one partition, then of two: it lives in the second. */
const MOVES = 'key-0';

export const SMALL_RUNS: Readonly<Record<string, SmallRun>> = {
  'events, functions, a retry, a future job and one that nobody can accept': smallRun(1, {
    pool: {
      types: { resize: { timeoutMs: 5_000, conflictGroup: 'catalogue', retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    jobs: [
      { resourceId: 'a', checkpoints: true },
      { resourceId: 'a', fairnessKey: 'key-1' },
      { fails: true },
      { delayMs: 2_000, askedAtMs: 700 },
    ],
    malformed: 1,
  }),
  'steps of a function that fails, and of a process that is killed': smallRun(2, {
    pool: {
      types: {
        resize: { timeoutMs: 5_000, retry: { ...RETRY, delayMs: 500 } },
        render: { timeoutMs: 60_000, retry: RETRY },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 }, farm: { types: ['render'], slots: null } },
    },
    budget: { checkAfterMs: 5_000 },
    processes: [{ fleet: 'farm', workerId: 'one', slots: 1 }],
    jobs: [
      { steps: true, fails: true },
      { type: 'render', durationMs: 3_000, steps: true, checkpoints: true },
    ],
    events: [{ atMs: 2_000, kills: 'process-one' }],
  }),
  'clients and a process that is killed, and stopped in its next life': smallRun(2, {
    pool: {
      types: { render: { timeoutMs: 60_000, onWorkerLost: 'resume', retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { farm: { types: ['render'], slots: null } },
    },
    budget: { checkAfterMs: 5_000 },
    processes: [{ fleet: 'farm', workerId: 'one', slots: 2 }],
    jobs: [
      { via: 'client', durationMs: 3_000, checkpoints: true },
      { via: 'run', durationMs: 3_000, waitsMs: 500, diesWithWaiter: true },
    ],
    events: [
      { atMs: 2_000, kills: 'process-one' },
      { atMs: 23_000, stops: 'process-one' },
    ],
  }),
  'operators at work': smallRun(3, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: { ...RETRY, maxAttempts: 1 }, listFinished: true } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    },
    jobs: [{ via: 'client', fails: true }, { via: 'client', durationMs: 2_000 }, { via: 'client' }],
    events: [
      { atMs: 600, act: { kind: 'override', scope: 'pool', change: { maxConcurrency: 1 } } },
      { atMs: 700, act: { kind: 'cancel', jobId: plannedIdOf(2) } },
      { atMs: 900, act: { kind: 'drain', scope: { type: 'resize' } } },
      { atMs: 1_000, act: { kind: 'redrive', limit: 5 } },
      { atMs: 1_200, act: { kind: 'look', jobId: plannedIdOf(1) } },
    ],
  }),
  'jobs that are moved: nearer, away and back, and as they become due': smallRun(8, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    },
    jobs: [
      { via: 'client', durationMs: 2_000 },
      { via: 'client', delayMs: 3_000 },
      { via: 'client', askedAtMs: 100 },
    ],
    events: [
      moving(300, 1, [1_000]),
      moving(600, 2, [4_000, -1, 500]),
      moving(1_298, 1, [2_000]),
      moving(1_301, 1, [1_500]),
    ],
  }),
  'many jobs of one conflict key, slowly': smallRun(4, {
    pool: {
      types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['index'], slots: 4 } },
    },
    budget: { parkKept: 1, batchJobs: 1, promoteMax: 1, leadMs: 1_000 },
    latencyMaxMs: 100,
    jobs: [
      ...Array.from({ length: 4 }, () => ({ resourceId: 'a', durationMs: 50 })),
      ...Array.from({ length: 3 }, () => ({ delayMs: 1_500, durationMs: 50 })),
    ],
  }),
  'parked jobs whose conflict key becomes free while they are paused': smallRun(11, {
    pool: {
      types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['index'], slots: 4 } },
    },
    budget: { parkKept: 1 },
    jobs: [
      ...Array.from({ length: 5 }, () => ({ resourceId: 'a', durationMs: 500 })),
      // Once the mark that is left is of no use any more, and once more when that may be seen.
      { delayMs: 75_000 },
      { delayMs: 140_000 },
    ],
    events: [
      { atMs: 300, act: { kind: 'pause', scope: 'pool' } },
      { atMs: 2_000, act: { kind: 'resume', scope: 'pool' } },
    ],
  }),
  'a dispatcher that dies between its reservation and what it tells the fleet': smallRun(5, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    jobs: [{}, {}],
    forced: { 'ingest-1/send#1': 'crashBeforeCall' },
  }),
  'one conflict key in two partitions': smallRun(7, {
    pool: {
      types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['index'], slots: 2 } },
      partitions: 2,
    },
    jobs: [
      { resourceId: 'a', fairnessKey: 'key-0', durationMs: 1_000 },
      { resourceId: 'a', fairnessKey: 'key-3', durationMs: 50, via: 'client' },
    ],
  }),
  'slots that one partition lends to another': smallRun(9, {
    pool: {
      types: { resize: { timeoutMs: 5_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
      partitions: 2,
    },
    jobs: Array.from({ length: 5 }, () => ({ fairnessKey: 'key-0', durationMs: 500 })),
  }),
  'a dispatcher that runs on, and is stopped': smallRun(10, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    residents: [{ dispatcherId: 'one', pollMs: 500 }],
    jobs: [{ via: 'client' }, { askedAtMs: 900, delayMs: 1_500 }, { askedAtMs: 2_600 }],
    events: [{ atMs: 6_000, stops: 'resident-one' }],
    faultsUntilMs: 6_500,
  }),
  'many jobs at once, of which a shard tells a dispatcher that runs on': smallRun(14, {
    pool: {
      types: { resize: { timeoutMs: 5_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 10 } },
    },
    residents: [{ dispatcherId: 'one', pollMs: 500 }],
    jobs: Array.from({ length: 8 }, () => ({ askedAtMs: 1_000 })),
    events: [{ atMs: 6_000, stops: 'resident-one' }],
    faultsUntilMs: 6_500,
  }),
  'another conflict group, another fleet and another timeout, while jobs run, wait and are parked': smallRun(
    12,
    {
      pool: {
        types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['index'], slots: 4 } },
      },
      budget: { parkKept: 1, carryMarks: 1, carryJobs: 1 },
      jobs: [
        ...Array.from({ length: 5 }, () => ({ resourceId: 'a', durationMs: 800 })),
        ...Array.from({ length: 4 }, () => ({ resourceId: 'b', durationMs: 800 })),
        { via: 'client', askedAtMs: 400 },
      ],
      later: [
        {
          atMs: 600,
          pool: {
            types: { index: { timeoutMs: 20_000, conflictGroup: 'album', tier: 'first' } },
            tiers: [{ tier: 'first' }],
            fleets: { pictures: { types: ['index'], slots: 4 } },
          },
          rolloutMs: 500,
        },
      ],
      // What it claimed nobody starts.
      forced: { 'dispatch-1/send#1': 'notAppliedAndNoAnswer' },
      faultsUntilMs: 4_000,
    },
  ),
  'another fleet, while jobs are claimed with a lock': smallRun(15, {
    pool: {
      types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['index'], slots: 4 } },
      partitions: 2,
    },
    jobs: [{ resourceId: 'a' }, { resourceId: 'b', fairnessKey: 'tenant-b' }, { resourceId: 'a' }],
    later: [
      {
        atMs: 600,
        pool: {
          types: { index: { timeoutMs: 5_000, conflictGroup: 'catalogue' } },
          tiers: [{ tier: 'standard' }],
          fleets: { pictures: { types: ['index'], slots: 4 } },
          partitions: 2,
        },
        rolloutMs: 500,
      },
    ],
    // What it claimed nobody starts.
    forced: { 'dispatch-1/send#1': 'notAppliedAndNoAnswer' },
    faultsUntilMs: 4_000,
  }),
  'another number of partitions, while jobs of a key that moves run and wait, and an operator has weighted it':
    smallRun(13, {
      pool: {
        types: { resize: { timeoutMs: 5_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
      jobs: [
        { fairnessKey: MOVES, durationMs: 800 },
        { fairnessKey: MOVES, askedAtMs: 100 },
      ],
      events: [
        { atMs: 200, act: { kind: 'override', scope: { fairnessKey: MOVES }, change: { weight: 2 } } },
      ],
      later: [
        {
          atMs: 600,
          pool: {
            types: { resize: { timeoutMs: 5_000 } },
            tiers: [{ tier: 'standard' }],
            fleets: { images: { types: ['resize'], slots: 2 } },
            partitions: 2,
          },
        },
      ],
      faultsUntilMs: 4_000,
    }),
  'a handler that goes on when its time is over': smallRun(16, {
    pool: {
      types: { resize: { timeoutMs: 2_000, retry: { ...RETRY, maxAttempts: 1 } } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    jobs: [{ durationMs: 60_000, heeds: false }, {}],
  }),
  'a process that is told to end while it waits for messages': smallRun(17, {
    pool: {
      types: { render: { timeoutMs: 60_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { farm: { types: ['render'], slots: null } },
    },
    processes: [
      { fleet: 'farm', workerId: 'one', slots: 1 },
      { fleet: 'farm', workerId: 'two', slots: 2 },
    ],
    jobs: [3_000, 3_200, 3_400, 3_600].map((askedAtMs) => ({ via: 'client' as const, askedAtMs })),
    events: [{ atMs: 2_950, stops: 'process-one' }],
    faultsUntilMs: 5_000,
  }),
  'handlers that let a type and a key rest, and one that parks its job': smallRun(18, {
    pool: {
      types: { resize: { timeoutMs: 5_000, conflictGroup: 'catalogue', retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 2 } },
    },
    jobs: [
      { waits: 'type' },
      { waits: 'key', fairnessKey: 'key-1' },
      { waits: 'parked', resourceId: 'a' },
      { resourceId: 'a', fairnessKey: 'key-1', askedAtMs: 500 },
    ],
    faultsUntilMs: 12_000,
  }),
  'jobs with a searchable tag, which are moved, and found by it': smallRun(19, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
      searchableTags: ['order'],
    },
    jobs: [
      { tags: { order: 'A-1', of: 'a shop' } },
      { tags: { order: 'A-1' }, via: 'client', durationMs: 2_000 },
      { tags: { order: 'A-1' }, via: 'client', delayMs: 4_000 },
    ],
    events: [
      moving(600, 2, [2_000]),
      ...[0, 1, 2].map(
        (at): PlannedEvent => ({ atMs: 1_500, act: { kind: 'look', jobId: plannedIdOf(at) } }),
      ),
    ],
    faultsUntilMs: 3_000,
  }),
  'jobs that expire while they wait, for their time and for a slot': smallRun(20, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    },
    jobs: [
      { durationMs: 4_000 },
      { expireAfterMs: 1_000, via: 'client' },
      { expireAfterMs: 1_500, delayMs: 1_000 },
      { expireAfterMs: 60_000 },
    ],
    faultsUntilMs: 6_000,
  }),
  'requests with one dedupe key, of which the first, the last and a quiet one count': smallRun(21, {
    pool: {
      types: { resize: { timeoutMs: 5_000, retry: RETRY } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    },
    jobs: [
      { durationMs: 2_000 },
      { dedupe: { key: 'a', keep: 'first' }, via: 'client', askedAtMs: 400 },
      { dedupe: { key: 'a', keep: 'last' }, via: 'client', askedAtMs: 700 },
      { dedupe: { key: 'b', keep: 'last', quiet: 1_000, atMost: 4_000 }, askedAtMs: 400 },
      { dedupe: { key: 'b', keep: 'last', quiet: 1_000, atMost: 4_000 }, askedAtMs: 900 },
    ],
    faultsUntilMs: 4_000,
  }),
  'a line that is empty for long': smallRun(6, {
    pool: {
      statistics: true,
      types: { resize: { timeoutMs: 5_000 }, render: { timeoutMs: 5_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'render'], slots: 1 } },
    },
    jobs: [{}, { type: 'render', askedAtMs: 660_500 }],
    faultsUntilMs: 670_000,
  }),
};
