/** Schemas of the four reference formats. Fields that the product would not need, such as `expected`, are skipped. */
import { z } from 'zod';
import { anyId, count, durationMs, instantMs, intervalMs } from './scenario-file.ts';

// Fairness: costs are seconds of run time.

const cost = z.number().min(0);

export const fairnessScenario = z.object({
  config: z.object({
    /** Null: no pool-wide cap. */
    globalMax: count.nullable().default(null),
    alpha: z.number().min(0).max(1).default(0.3),
    types: z.array(
      z.object({
        type: z.string(),
        /** The tier: order, the greater first, and cap. */
        priority: count,
        maxConcurrency: count.nullable(),
        conflictGroup: z.string().nullable().default(''),
        defaultCost: cost,
      }),
    ),
    initialEstimates: z.array(z.object({ type: z.string(), jobId: z.string(), cost })).default([]),
    keyTtlMs: intervalMs.nullable().default(null),
    estimateTtlMs: intervalMs.nullable().default(null),
    idlePolicy: z.enum(['none', 'advance']).default('none'),
    resetEveryMs: intervalMs.nullable().default(null),
  }),
  untilMs: durationMs,
  arrivals: z.array(
    z.object({
      atMs: durationMs,
      id: anyId,
      type: z.string(),
      jobId: z.string(),
      fairnessKey: z.string(),
      durationMs,
    }),
  ),
});
export type FairnessScenario = z.output<typeof fairnessScenario>;

// Scoring: types are numbers or texts, slots have numbers.

const priority = z.int().min(0).max(10);
const slotType = anyId;
const slotId = z.int().min(0);
const slot = z.object({ id: slotId, types: z.array(slotType) });

const scoredJob = z.object({
  id: anyId,
  type: slotType,
  priority,
  createdAt: instantMs,
});

const contender = z.object({
  priority,
  onDemand: z.boolean(),
  /** Free slots that can run it. */
  compatible: count,
  ageSec: z.number().min(0).optional(),
});

const streamJob = z
  .object({
    id: anyId,
    type: slotType,
    priority,
    /** When it arrives; `createdAt` is another name for it. */
    atMs: instantMs.optional(),
    createdAt: instantMs.optional(),
    durationMs,
    onDemand: z.boolean().optional(),
    mode: z.enum(['queued', 'onDemand']).optional(),
  })
  .refine((job) => job.atMs !== undefined || job.createdAt !== undefined, {
    path: ['atMs'],
    error: 'expected a whole number',
  });

export const scoringCase = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('score'),
    input: z.object({
      priority,
      ageMs: z.int(),
      onDemand: z.boolean(),
      compatibleFreeSlots: count,
    }),
  }),
  z.object({
    kind: z.literal('crossover'),
    input: z.object({ a: contender, b: contender, mode: z.enum(['b-fixed', 'together']) }),
  }),
  z.object({
    kind: z.literal('slot'),
    input: z.object({ slots: z.array(slot), busy: z.array(slotId).default([]), type: slotType }),
  }),
  z.object({
    kind: z.literal('pool'),
    input: z.object({
      ops: z.array(
        z.discriminatedUnion('op', [
          z.object({ op: z.literal('register'), worker: z.string(), slots: z.array(slot) }),
          z.object({ op: z.literal('unregister'), worker: z.string() }),
          z.object({ op: z.literal('acquire'), type: slotType }),
          z.object({ op: z.literal('release'), slot: slotId }),
        ]),
      ),
    }),
  }),
  z.object({
    kind: z.literal('pass'),
    input: z.object({
      now: instantMs,
      slots: z.array(slot),
      queued: z.array(scoredJob),
      onDemand: z.array(scoredJob).default([]),
      /** Jobs that another scheduler wins. */
      lostClaims: z.array(anyId).default([]),
    }),
  }),
  z.object({
    kind: z.literal('stream'),
    input: z.object({
      slots: z.array(slot),
      /** `arrivals` is another name for it. */
      jobs: z.array(streamJob).optional(),
      arrivals: z.array(streamJob).optional(),
      /** Jobs of another list are on demand, as in a pass. */
      onDemand: z.array(streamJob).optional(),
      queued: z.array(streamJob).optional(),
      /** Jobs that another scheduler wins. */
      lostClaims: z.array(anyId).optional(),
      untilMs: instantMs.optional(),
      horizonMs: instantMs.optional(),
    }),
  }),
]);
export type ScoringCase = z.output<typeof scoringCase>;
export type StreamJob = z.output<typeof streamJob>;
export type ScoredSlot = z.output<typeof slot>;

// Timers

const atMs = instantMs;
const timerId = z.string();

export const timersCase = z.object({
  input: z.object({
    horizonMs: instantMs,
    events: z.array(
      z.discriminatedUnion('op', [
        z.object({ op: z.literal('start'), atMs }),
        z.object({ op: z.literal('crash'), atMs }),
        z.object({ op: z.literal('create'), atMs, id: timerId, triggerMs: instantMs }),
        z.object({ op: z.literal('update'), atMs, id: timerId, triggerMs: instantMs }),
        z.object({ op: z.literal('cancel'), atMs, id: timerId }),
      ]),
    ),
  }),
});
export type TimersCase = z.output<typeof timersCase>;

// Partitions

const hash = z.int().min(0);
const space = z
  .int()
  .min(1)
  .default(2 ** 32);
const node = z.string();
const positions = z.record(node, z.array(hash));
/** Loads are compared pair by pair, and each claim with each node's history: more would take minutes. */
const LONGEST_SCRIPT = 10_000;
const load = z
  .record(node, count)
  .refine((record) => Object.keys(record).length <= 1_000, { error: 'expected at most 1000 nodes' });

const stealInput = z.object({
  load,
  low: z.number(),
  high: z.number(),
  batch: count,
  freeCapacity: load,
  movable: load,
});

const dueJob = z.object({ id: z.string(), hash, dueMs: instantMs, state: z.string().default('ready') });

export const partitionsCase = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('ring-lookup'),
    input: z.object({ space, positions, hashes: z.array(hash) }),
  }),
  z.object({
    kind: z.literal('ring-change'),
    input: z.object({
      space,
      positions,
      add: positions.default({}),
      remove: z.array(node).default([]),
      hashes: z.array(hash),
    }),
  }),
  z.object({
    kind: z.literal('membership-property'),
    input: z.object({
      nodes: z.array(node),
      add: z.array(node).default([]),
      remove: z.array(node).default([]),
      keyTemplate: z.string().includes('{i}'),
      keys: z.int().min(1).max(1_000_000),
      virtualNodes: z.int().min(1).max(4_096).optional(),
    }),
  }),
  z.object({
    kind: z.literal('lease'),
    input: z.object({
      leaseMs: intervalMs,
      heartbeatMs: intervalMs,
      scanMs: intervalMs,
      firstScanMs: instantMs.default(0),
      space,
      positions,
      claims: z
        .array(z.object({ job: z.string(), node, atMs: instantMs, runsMs: durationMs, hash }))
        .max(LONGEST_SCRIPT),
      events: z
        .array(z.object({ op: z.enum(['crash', 'pause', 'resume']), node, atMs: instantMs }))
        .max(LONGEST_SCRIPT),
    }),
  }),
  z.object({ kind: z.literal('steal-decision'), input: stealInput.extend({ thief: node }) }),
  z.object({ kind: z.literal('steal-run'), input: stealInput }),
  z.object({
    kind: z.literal('due-window'),
    input: z.object({
      nowMs: instantMs,
      horizonMs: durationMs,
      inclusiveRanges: z.array(z.tuple([hash, hash])),
      jobs: z.array(dueJob),
    }),
  }),
  z.object({
    kind: z.literal('leave'),
    input: z.object({
      way: z.enum(['handover', 'crash']),
      space,
      positions,
      leaver: node,
      atMs: instantMs,
      scanMs: intervalMs,
      memberLeaseMs: durationMs,
      nearFutureMs: durationMs.default(0),
      jobs: z.array(dueJob),
    }),
  }),
  z.object({
    kind: z.literal('fence'),
    input: z.object({
      steps: z.array(
        z.discriminatedUnion('op', [
          z.object({ op: z.literal('claim'), node }),
          z.object({ op: z.literal('beat'), node, token: z.int() }),
          z.object({ op: z.literal('complete'), node, token: z.int() }),
          z.object({ op: z.literal('expire') }),
        ]),
      ),
    }),
  }),
]);
export type PartitionsCase = z.output<typeof partitionsCase>;
