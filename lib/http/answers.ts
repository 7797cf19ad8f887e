/** The schemas of answers, for the OpenAPI document. Later versions may add fields: readers ignore those they do not know. */
import * as z from 'zod';
import { END_STATES, JOB_MODES } from '../core/job.ts';

const instantMs = z.int().describe('Epoch milliseconds');
const error = z.looseObject({ name: z.string(), message: z.string(), stack: z.string().optional() });

const job = z.looseObject({
  id: z.string(),
  type: z.string(),
  state: z.enum([
    'scheduled',
    'pending',
    'claimed',
    'running',
    'succeeded',
    'failed',
    'cancelled',
    'expired',
  ]),
  version: z.int(),
  attempt: z.int(),
  priority: z.int(),
  mode: z.enum(JOB_MODES),
  fairnessKey: z.string(),
  resourceId: z.string().optional(),
  keys: z.record(z.string(), z.string()).optional(),
  units: z.record(z.string(), z.int()).optional(),
  label: z.string().optional(),
  tags: z.record(z.string(), z.string()).optional(),
  runAtMs: instantMs,
  readyAtMs: instantMs,
  submittedAtMs: instantMs,
  startedAtMs: instantMs.optional(),
  finishedAtMs: instantMs.optional(),
  payload: z.unknown().optional(),
  result: z.unknown().optional(),
  error: error.optional(),
});

const deduplicated = z
  .enum(['kept', 'replaced', 'dropped'])
  .describe(
    'Absent: the request made the job or repeats one that did. kept, replaced: a waiting job of its dedupe key stands for it, as it was or with its payload. dropped: a job of the key runs, and nothing was stored',
  );

const submitted = z.looseObject({
  jobId: z.string(),
  job,
  repeated: z.boolean().describe('Whether an earlier, equal request made the job'),
  deduplicated: deduplicated.optional(),
});

const outcome = z.looseObject({
  status: z.enum(END_STATES),
  result: z.unknown().optional(),
  error: error.optional(),
  job,
});

const control = z.looseObject({
  scope: z.string(),
  paused: z.boolean(),
  maxConcurrency: z.int().optional(),
  weight: z.number().optional(),
});

const next = z.string().optional().describe('The cursor of the next page; absent after the last one');
const list = <Name extends string>(name: Name, entry: z.ZodType) =>
  z.looseObject({ [name]: z.array(entry), next });

const entry = (...kinds: readonly [string, ...string[]]) =>
  z.looseObject({
    kind: z.enum(['matches', 'skipped', ...kinds]),
    type: z.string(),
    reason: z.string().optional(),
  });
const bulk = (of: z.ZodObject) =>
  z.looseObject({
    entries: z.array(of),
    more: z.boolean().describe('Whether there may be more jobs than the limit allowed'),
  });

const schedule = z.looseObject({
  id: z.string(),
  state: z.enum(['active', 'paused', 'stopped', 'ended']),
  isDeclared: z.boolean(),
  spec: z.looseObject({}),
  firings: z.array(z.looseObject({ atMs: instantMs, what: z.string() })),
  why: z.array(z.string()),
});

const histogram = z
  .array(z.int())
  .describe('Bucket 0 counts 0 ms, bucket b the times from 2^((b-1)/2) ms to less than 2^(b/2) ms');
const minute = z.looseObject({
  minuteMs: instantMs,
  admitted: z.int().describe('Jobs that were given a slot'),
  succeeded: z.int(),
  failed: z.int(),
  cancelled: z.int(),
  again: z.int().describe('Attempts whose job will run again'),
  waits: histogram,
  runs: histogram,
});

const any = z.looseObject({});

export const ANSWERS = {
  submitted,
  batch: z.looseObject({
    requests: z.array(
      z.looseObject({
        kind: z.enum(['accepted', 'refused', 'failed']),
        jobId: z.string().optional(),
        job: job.optional(),
        repeated: z.boolean().optional(),
        deduplicated: deduplicated.optional(),
        problem: z.looseObject({}).optional(),
      }),
    ),
  }),
  job: z.looseObject({ job }),
  wait: z.looseObject({
    ended: z.array(z.looseObject({ id: z.string(), outcome })).describe('Jobs that have ended'),
  }),
  jobs: list('jobs', job),
  explanation: z.looseObject({ explanation: any }),
  history: z.looseObject({ history: any }),
  cancelled: z.looseObject({ outcome: z.enum(['cancelled', 'requested', 'ended']), job }),
  retried: z.looseObject({ jobId: z.string(), repeated: z.boolean() }),
  cancelEntries: bulk(entry('cancelled', 'requested').extend({ jobId: z.string() })),
  retimeEntries: bulk(entry('moved').extend({ jobId: z.string(), runAtMs: instantMs.optional() })),
  redriveEntries: bulk(entry('redriven').extend({ deadLetterId: z.string(), jobId: z.string().optional() })),
  rejections: list('rejections', any),
  unreadable: z.looseObject({ unreadable: z.array(any) }),
  keys: list('keys', any),
  count: z.looseObject({
    count: z.int().describe('How many jobs match, up to 1,000'),
    more: z.boolean().describe('Whether there are more'),
  }),
  capacity: z.looseObject({ capacity: any }),
  statistics: z.looseObject({
    statistics: z.looseObject({
      isKept: z.boolean().describe('Whether the declaration asks for statistics'),
      fromMs: instantMs,
      toMs: instantMs,
      minutes: z.array(minute),
    }),
  }),
  locks: z.looseObject({ locks: z.array(any) }),
  fleets: z.looseObject({ fleets: z.array(any) }),
  types: z.looseObject({ types: z.array(any) }),
  declaration: z.looseObject({ declaration: any }),
  dispatchers: z.looseObject({ residents: z.array(any), partitions: z.array(any) }),
  controls: z.looseObject({ controls: z.array(control) }),
  control: z.looseObject({ control }),
  drained: z.looseObject({ drained: z.literal(true) }),
  schedule: z.looseObject({ schedule }),
  put: z.looseObject({ outcome: z.enum(['created', 'changed', 'unchanged']), schedule }),
  schedules: list('schedules', schedule),
  firings: z.looseObject({ firings: z.array(z.looseObject({ utc: z.string(), local: z.string() })) }),
  made: z.looseObject({ jobId: z.string() }),
  deleted: z.looseObject({ deleted: z.string() }),
} as const;
