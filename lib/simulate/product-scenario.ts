/**
 * The format `fairlead/1`: a scenario for the product's own configuration, documented in docs/simulate.md. Unknown
 * fields are refused, because they are misspelt settings. `resolveConfiguration` checks the configuration itself, as it
 * does on deployment.
 */
import * as z from 'zod';
import { JOB_MODES, PRIORITY_MAX, PRIORITY_MIN } from '../core/job.ts';
import { WORKER_ID_BYTES_MAX, WORKER_SLOTS_MAX } from '../store/contract/bounds.ts';
import { caseId, count, durationMs, instantMs, intervalMs } from './scenario-file.ts';

const atMs = instantMs.min(0);
const name = z.string().min(1).max(200);

const jobShape = {
  type: name,
  priority: z.int().min(PRIORITY_MIN).max(PRIORITY_MAX).default(PRIORITY_MIN),
  mode: z.enum(JOB_MODES).default('queued'),
  fairnessKey: z.string().max(200).default(''),
  resourceId: name.optional(),
  /** Further keys, for limits that are declared with `keyedBy`. */
  keys: z.record(name, name).optional(),
  /** Units by the names of limits, for rates that count them. */
  units: z.record(name, z.int().min(1)).optional(),
  /** Duration of a successful attempt. */
  durationMs,
  /** The errors of the first attempts. The attempt after the last error succeeds. */
  failures: z
    .array(z.strictObject({ name, afterMs: durationMs.optional() }))
    .max(1_000)
    .default([]),
};

export const productJob = z.strictObject({
  ...jobShape,
  /** Default: `<type>-<number>`. With `repeat`, each job's number is appended. */
  id: name.optional(),
  atMs,
  /** The job does not start before this. Default: at once. */
  runAtMs: atMs.optional(),
  /** Submits `count` jobs, `everyMs` apart. */
  repeat: z.strictObject({ count: z.int().min(1).max(200_000), everyMs: durationMs.default(0) }).optional(),
});
export type ProductJob = z.output<typeof productJob>;

export const productSchedule = z.strictObject({
  id: name,
  /** `rate(5 minutes)`, `cron(0 9 * * *)`, a bare pattern, or `@daily`. */
  schedule: z.string().min(1).max(200),
  timeZone: z.string().min(1).default('UTC'),
  dst: z
    .strictObject({ gap: z.enum(['shift', 'skip']), overlap: z.enum(['first', 'second', 'both']) })
    .optional(),
  overlap: z.enum(['allow', 'skip', 'wait', 'replace']).default('allow'),
  job: z.strictObject(jobShape),
});
export type ProductSchedule = z.output<typeof productSchedule>;

export const productWorker = z.strictObject({
  worker: name.refine((text) => Buffer.byteLength(text, 'utf8') <= WORKER_ID_BYTES_MAX, {
    error: `must have at most ${WORKER_ID_BYTES_MAX} bytes`,
  }),
  fleet: name,
  slots: z.int().min(1).max(WORKER_SLOTS_MAX),
  fromMs: atMs.default(0),
  /** When the worker vanishes without notice. Its jobs are given up once its heartbeats are missed. */
  lostAtMs: atMs.optional(),
});
export type ProductWorker = z.output<typeof productWorker>;

export const productEvent = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('cancel'), atMs, id: name }),
  z.strictObject({ op: z.literal('retime'), atMs, id: name, runAtMs: atMs }),
  /** The process that runs this job vanishes. */
  z.strictObject({ op: z.literal('lose'), atMs, id: name }),
  z.strictObject({
    op: z.literal('override'),
    atMs,
    scope: name,
    paused: z.boolean().default(false),
    maxConcurrency: count.optional(),
    weight: z.number().positive().optional(),
  }),
]);
export type ProductEvent = z.output<typeof productEvent>;

export const productScenario = z.strictObject({
  id: caseId,
  title: z.string().optional(),
  /** The configuration as it is declared for a deployment; `resolveConfiguration` checks it. */
  configuration: z.record(z.string(), z.unknown()),
  /** The date and time of the scenario's instant 0, which schedules and clock changes need. */
  startsAt: z.iso.datetime({ offset: true }).default('2026-01-01T00:00:00Z'),
  untilMs: durationMs,
  /** Seed of the random numbers that spread retries. */
  seed: z.int().min(0).default(1),
  /** How long a silent worker process counts as living. Default: the product's own. */
  leaseMs: intervalMs.optional(),
  jobs: z.array(productJob).default([]),
  schedules: z.array(productSchedule).max(1_000).default([]),
  workers: z.array(productWorker).max(1_000).default([]),
  events: z.array(productEvent).default([]),
});
export type ProductScenario = z.output<typeof productScenario>;
