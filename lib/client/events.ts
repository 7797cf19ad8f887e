/**
 * `fairlead/events`: the events on the bus, as types, as names for rules, and as JSON Schemas for other languages.
 */
import * as z from 'zod';
import { END_STATES } from '../core/job.ts';
import { DETAIL_TYPE, type JobOutcomeDetail } from '../events/contract.ts';
import type { Jobs, ReturnedOf, TypeOf } from '../jobs/jobs.ts';
import type { Rejection } from '../store/contract/records.ts';
import { jobRequest, REQUEST_LIMITS } from '../submit/request.ts';

export type { JobError, JobState, Json } from '../core/job.ts';
export { DETAIL_TYPE, EVENT_SOURCE, type JobOutcomeDetail } from '../events/contract.ts';
export type { Rejection } from '../store/contract/records.ts';

/**
 * The detail of an outcome of declared jobs, told apart by `type` and `state`. Its result is as the handler returned it:
 * no schema has read it. A result that `omitted` names is undefined.
 *
 * @example
 * export async function handler({ detail }: EventBridgeEvent<string, OutcomeOf<typeof jobs>>): Promise<void> {
 *   if (detail.type === 'report' && detail.state === 'succeeded') await show(detail.result?.url);
 * }
 */
export type OutcomeOf<Declared extends Jobs> = {
  readonly [Type in TypeOf<Declared>]: Omit<JobOutcomeDetail, 'type' | 'state' | 'result' | 'error'> & {
    readonly type: Type;
  } & (
      | { readonly state: 'succeeded'; readonly result?: ReturnedOf<Declared[Type]> | undefined }
      | { readonly state: 'failed'; readonly error: NonNullable<JobOutcomeDetail['error']> }
      | { readonly state: 'cancelled' | 'expired' }
    );
}[TypeOf<Declared>];

const instantMs = z.int().describe('Epoch milliseconds');

const requested = z.union([
  jobRequest,
  z.strictObject({ jobs: z.array(jobRequest).min(1).max(REQUEST_LIMITS.jobsPerEvent) }),
]);

const error = z.object({
  name: z.string().describe('The name of the error, stable, so that rules can match it'),
  message: z.string(),
}) satisfies z.ZodType<JobOutcomeDetail['error']>;

const outcomeShape = {
  id: z.string(),
  version: z
    .int()
    .describe('With the id it identifies an outcome, so that repeated deliveries can be recognised'),
  type: z.string(),
  state: z.enum(END_STATES),
  fairnessKey: z.string(),
  resourceId: z.string().optional(),
  keys: z.record(z.string(), z.string()).optional(),
  units: z.record(z.string(), z.int()).optional(),
  label: z.string().optional(),
  tags: z.record(z.string(), z.string()).optional(),
  attempt: z.int(),
  traceparent: z.string().optional().describe('W3C Trace Context, as the producer gave it'),
  submittedAtMs: instantMs,
  startedAtMs: instantMs.optional(),
  finishedAtMs: instantMs.optional(),
  result: z.json().optional(),
  error: error.optional(),
  omitted: z
    .array(z.string())
    .optional()
    .describe('Fields that are left out because the event would be too large: read them from the job'),
} satisfies Readonly<Record<keyof JobOutcomeDetail, z.ZodType>>;

/** Later versions may add fields: readers ignore fields that they do not know. */
const outcome = z.looseObject(outcomeShape) satisfies z.ZodType<JobOutcomeDetail>;

const rejected = z.looseObject({
  sourceId: z.string(),
  position: z.int().describe('The index of the entry in an event with several entries'),
  field: z.string(),
  reason: z.string(),
  detail: z.string().describe('The entry as it was sent, cut to a bounded size'),
  rejectedAtMs: instantMs,
  expiresAtMs: instantMs,
}) satisfies z.ZodType<Rejection>;

/** Zod schemas for the `detail` of each kind of event. */
export const EVENT_DETAILS = { requested, outcome, rejected } as const;

export type EventKind = keyof typeof EVENT_DETAILS;

const DETAIL_TYPES: Readonly<Record<EventKind, readonly string[]>> = {
  requested: [DETAIL_TYPE.requested],
  outcome: [DETAIL_TYPE.succeeded, DETAIL_TYPE.failed, DETAIL_TYPE.cancelled, DETAIL_TYPE.expired],
  rejected: [DETAIL_TYPE.rejected],
};

/**
 * Returns the JSON Schema (draft 2020-12) of an event's `detail`. The package also has them as files in
 * `fairlead/schemas/`.
 */
export function eventSchema(kind: EventKind): Readonly<Record<string, unknown>> {
  const schema = z.toJSONSchema(EVENT_DETAILS[kind], {
    io: kind === 'requested' ? 'input' : 'output',
  });
  return { title: `The detail of ${DETAIL_TYPES[kind].join(', ')}`, ...schema };
}
