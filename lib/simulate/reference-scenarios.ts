/**
 * Schemas of the four reference formats. Unknown fields are refused, so that no setting is ignored silently. Expected
 * results and remarks for readers are accepted and not read.
 */
import * as z from 'zod';
import { JOB_MODES } from '../core/job.ts';
import { anyId, caseId, count, durationMs, instantMs, intervalMs } from './scenario-file.ts';

/** A remark for readers, or an expected result for tests. */
const remark = z.unknown().optional();

/** Fields that each case may have in addition to its input. */
const about = { id: caseId, title: remark, tags: remark, note: remark, notes: remark, expected: remark };

/** Fields that each file may have in addition to its cases. */
export const REFERENCE_REMARKS = {
  title: remark,
  note: remark,
  notes: remark,
  timeUnit: remark,
  costUnit: remark,
  arrivalOrder: remark,
  tieBreak: remark,
  sameInstantOrder: remark,
  bounds: remark,
  boundsNote: remark,
};

// Fairness: costs are seconds of run time.

const cost = z.number().min(0);

export const fairnessScenario = z.strictObject({
  ...about,
  config: z.strictObject({
    /** Null for no pool-wide cap. */
    globalMax: count.nullable().default(null),
    alpha: z.number().min(0).max(1).default(0.3),
    types: z.array(
      z.strictObject({
        type: z.string(),
        /** The tier's cap, and its order: the greater comes first. */
        priority: count,
        maxConcurrency: count.nullable(),
        conflictGroup: z.string().nullable().default(''),
        defaultCost: cost,
      }),
    ),
    initialEstimates: z.array(z.strictObject({ type: z.string(), jobId: z.string(), cost })).default([]),
    keyTtlMs: intervalMs.nullable().default(null),
    estimateTtlMs: intervalMs.nullable().default(null),
    idlePolicy: z.enum(['none', 'advance']).default('none'),
    resetEveryMs: intervalMs.nullable().default(null),
  }),
  untilMs: durationMs,
  arrivals: z.array(
    z.strictObject({
      atMs: durationMs,
      id: anyId,
      type: z.string(),
      jobId: z.string(),
      fairnessKey: z.string(),
      durationMs,
      /** The priority of the job's type, repeated for readers. */
      priority: count.optional(),
      conflictGroup: z.string().nullable().optional(),
    }),
  ),
});
export type FairnessScenario = z.output<typeof fairnessScenario>;

// Scoring: types are numbers or texts, slots have numbers.

const priority = z.int().min(0).max(10);
const slotType = anyId;
const slotId = z.int().min(0);
const slot = z.strictObject({ id: slotId, types: z.array(slotType) });

const scoredJob = z.strictObject({
  id: anyId,
  type: slotType,
  priority,
  createdAt: instantMs,
});

const contender = z.strictObject({
  priority,
  onDemand: z.boolean(),
  /** Number of free slots that can run it. */
  compatible: count,
  ageSec: z.number().min(0).optional(),
});

const streamJob = z
  .strictObject({
    id: anyId,
    type: slotType,
    priority,
    /** When it arrives; `createdAt` is an alias. */
    atMs: instantMs.optional(),
    createdAt: instantMs.optional(),
    durationMs,
    onDemand: z.boolean().optional(),
    mode: z.enum(JOB_MODES).optional(),
  })
  .refine((job) => job.atMs !== undefined || job.createdAt !== undefined, {
    path: ['atMs'],
    error: 'expected a whole number',
  });

export const scoringCase = z.discriminatedUnion('kind', [
  z.strictObject({
    ...about,
    kind: z.literal('score'),
    input: z.strictObject({
      priority,
      ageMs: z.int(),
      onDemand: z.boolean(),
      compatibleFreeSlots: count,
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('crossover'),
    input: z.strictObject({ a: contender, b: contender, mode: z.enum(['b-fixed', 'together']) }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('slot'),
    input: z.strictObject({ slots: z.array(slot), busy: z.array(slotId).default([]), type: slotType }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('pool'),
    input: z.strictObject({
      ops: z.array(
        z.discriminatedUnion('op', [
          z.strictObject({ op: z.literal('register'), worker: z.string(), slots: z.array(slot) }),
          z.strictObject({ op: z.literal('unregister'), worker: z.string() }),
          z.strictObject({ op: z.literal('acquire'), type: slotType }),
          z.strictObject({ op: z.literal('release'), slot: slotId }),
        ]),
      ),
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('pass'),
    input: z.strictObject({
      now: instantMs,
      slots: z.array(slot),
      /** Slots that are running something. */
      busy: z.array(slotId).default([]),
      queued: z.array(scoredJob),
      onDemand: z.array(scoredJob).default([]),
      /** Jobs that another scheduler claims first. */
      lostClaims: z.array(anyId).default([]),
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('stream'),
    input: z.strictObject({
      slots: z.array(slot),
      /** The jobs; `arrivals` is an alias. */
      jobs: z.array(streamJob).optional(),
      arrivals: z.array(streamJob).optional(),
      /** On-demand jobs, as in a pass. */
      onDemand: z.array(streamJob).optional(),
      queued: z.array(streamJob).optional(),
      /** Jobs that another scheduler claims first. */
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

export const timersCase = z.strictObject({
  ...about,
  input: z.strictObject({
    horizonMs: instantMs,
    events: z.array(
      z.discriminatedUnion('op', [
        z.strictObject({ op: z.literal('start'), atMs }),
        z.strictObject({ op: z.literal('crash'), atMs }),
        z.strictObject({ op: z.literal('create'), atMs, id: timerId, triggerMs: instantMs }),
        z.strictObject({ op: z.literal('update'), atMs, id: timerId, triggerMs: instantMs }),
        z.strictObject({ op: z.literal('cancel'), atMs, id: timerId }),
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
/** Loads are compared in pairs, and each claim with each node's history, so a longer script would take minutes. */
const LONGEST_SCRIPT = 10_000;
const load = z
  .record(node, count)
  .refine((record) => Object.keys(record).length <= 1_000, { error: 'expected at most 1000 nodes' });

const stealInput = z.strictObject({
  load,
  low: z.number(),
  high: z.number(),
  batch: count,
  freeCapacity: load,
  movable: load,
});

const dueJob = z.strictObject({ id: z.string(), hash, dueMs: instantMs, state: z.string().default('ready') });

export const partitionsCase = z.discriminatedUnion('kind', [
  z.strictObject({
    ...about,
    kind: z.literal('ring-lookup'),
    input: z.strictObject({ space, positions, hashes: z.array(hash) }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('ring-change'),
    input: z.strictObject({
      space,
      positions,
      add: positions.default({}),
      remove: z.array(node).default([]),
      hashes: z.array(hash),
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('membership-property'),
    input: z.strictObject({
      nodes: z.array(node),
      add: z.array(node).default([]),
      remove: z.array(node).default([]),
      keyTemplate: z.string().includes('{i}'),
      keys: z.int().min(1).max(1_000_000),
      virtualNodes: z.int().min(1).max(4_096).optional(),
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('lease'),
    input: z.strictObject({
      leaseMs: intervalMs,
      heartbeatMs: intervalMs,
      scanMs: intervalMs,
      firstScanMs: instantMs.default(0),
      space,
      positions,
      claims: z
        .array(z.strictObject({ job: z.string(), node, atMs: instantMs, runsMs: durationMs, hash }))
        .max(LONGEST_SCRIPT),
      events: z
        .array(z.strictObject({ op: z.enum(['crash', 'pause', 'resume']), node, atMs: instantMs }))
        .max(LONGEST_SCRIPT),
    }),
  }),
  z.strictObject({ ...about, kind: z.literal('steal-decision'), input: stealInput.extend({ thief: node }) }),
  z.strictObject({ ...about, kind: z.literal('steal-run'), input: stealInput }),
  z.strictObject({
    ...about,
    kind: z.literal('due-window'),
    input: z.strictObject({
      nowMs: instantMs,
      horizonMs: durationMs,
      inclusiveRanges: z.array(z.tuple([hash, hash])),
      jobs: z.array(dueJob),
    }),
  }),
  z.strictObject({
    ...about,
    kind: z.literal('leave'),
    input: z.strictObject({
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
  z.strictObject({
    ...about,
    kind: z.literal('fence'),
    input: z.strictObject({
      steps: z.array(
        z.discriminatedUnion('op', [
          z.strictObject({ op: z.literal('claim'), node }),
          z.strictObject({ op: z.literal('beat'), node, token: z.int() }),
          z.strictObject({ op: z.literal('complete'), node, token: z.int() }),
          z.strictObject({ op: z.literal('expire') }),
        ]),
      ),
    }),
  }),
]);
export type PartitionsCase = z.output<typeof partitionsCase>;
