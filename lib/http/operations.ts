/** The operations of the protocol: each has its schemas, from which requests are checked and the OpenAPI document is made. */
import * as z from 'zod';
import { CLIENT_LIMITS, type JobName, SHAPES } from '../client/arguments.ts';
import type { ClientVerbs, ExplainOptions } from '../client/client.ts';
import type { SubmitEntry } from '../client/submissions.ts';
import { API_ROLES } from '../core/api-roles.ts';
import type { Scope } from '../core/scope.ts';
import { scheduleShape } from '../schedules/request.ts';
import { jobRequest, REQUEST_LIMITS } from '../submit/request.ts';
import { ANSWERS } from './answers.ts';
import {
  type Answer,
  type Call,
  entriesOf,
  jobOf,
  NAMED,
  type Operation,
  operation,
  PAGE,
  PRODUCERS,
  pageOf,
  paging,
  placedPageOf,
  REFERENCES,
  timeout,
  whole,
} from './operation.ts';
import { problemOf } from './problem.ts';
import { HTTP_LIMITS, parsedBy } from './read.ts';
import { endsOf } from './wait.ts';

const runAt = z.string().max(64).describe("ISO 8601 with a zone, or a delay from now, such as '+10m'");
const requestShape = jobRequest.extend({ runAt: runAt.optional() });
const anyBatch = z.strictObject({ jobs: z.array(z.unknown()).min(1).max(HTTP_LIMITS.batch) });
const jobName = z.union(
  [
    z.string().min(1).max(512),
    z.strictObject({ idempotencyKey: z.string().min(1).max(512) }),
    z.strictObject({
      eventId: z.string().min(1).max(512),
      position: whole(0, REQUEST_LIMITS.jobsPerEvent - 1).optional(),
    }),
  ],
  { error: 'must be the id of a job, { idempotencyKey }, or { eventId, position }' },
);
const bulkFields = {
  limit: whole(1, CLIENT_LIMITS.bulk).optional().describe('At most so many jobs, 100 by default'),
  dryRun: z.boolean().optional().describe('Only finds the jobs, and changes nothing'),
};

const supposition = z
  .string()
  .max(2_000)
  .refine(isJson, 'must be JSON, such as {"scope":{"limit":"openai","key":"acme"},"maxConcurrency":6}')
  .optional()
  .describe(
    'What to suppose, as JSON: a scope with maxConcurrency, weight or paused. The key of a limit may be true, for that of the job.',
  );

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const entryBody = (entry: SubmitEntry): object =>
  entry.kind === 'accepted'
    ? entry
    : {
        kind: entry.kind,
        ...(entry.kind === 'failed' ? { jobId: entry.jobId } : {}),
        problem: problemOf(entry.error),
      };

const JOBS: readonly Operation[] = [
  operation({
    id: 'submit',
    roles: PRODUCERS,
    method: 'post',
    path: '/jobs',
    summary:
      'Submit a job. 201: it is new. 200: an earlier, equal request made it, or another job of its dedupe key stands for it.',
    body: requestShape,
    isCheckedByVerb: true,
    answer: ANSWERS.submitted,
    run: async ({ client, body, signal }) => {
      const { jobId, job, repeated, deduplicated } = await client.submit(body, { signal });
      const isNew = !repeated && deduplicated === undefined;
      return { status: isNew ? 201 : 200, body: { jobId, job, repeated, deduplicated } };
    },
  }),
  operation({
    id: 'submitMany',
    roles: PRODUCERS,
    method: 'post',
    path: '/jobs/batch',
    summary: 'Submit up to 1,000 jobs. Each is accepted or refused by itself.',
    body: z.strictObject({ jobs: z.array(requestShape).min(1).max(HTTP_LIMITS.batch) }),
    isCheckedByVerb: true,
    answer: ANSWERS.batch,
    run: async ({ client, body, signal }) => {
      // The client checks each entry.
      const { jobs } = parsedBy(anyBatch, body);
      const entries = await client.submitMany(jobs as Parameters<ClientVerbs['submitMany']>[0], {
        signal,
      });
      return { body: { requests: entries.map(entryBody) } };
    },
  }),
  operation({
    id: 'waitMany',
    roles: API_ROLES,
    method: 'post',
    path: '/jobs/wait',
    summary: 'Wait until one of up to 1,000 jobs ends. 202: none has ended yet; ask again.',
    isChange: false,
    body: z.strictObject({ jobs: z.array(jobName).min(1).max(HTTP_LIMITS.batch), timeout }),
    answer: ANSWERS.wait,
    run: ({ body: { jobs, timeout: askedMs = Number.POSITIVE_INFINITY }, ...call }) =>
      endsOf(call, jobs, askedMs),
  }),
  operation({
    id: 'cancelMany',
    method: 'post',
    path: '/jobs/cancel',
    summary: 'Cancel all jobs that match.',
    body: z.strictObject({ filter: SHAPES.cancelFilter, ...bulkFields }),
    answer: ANSWERS.cancelEntries,
    run: ({ client, body: { filter, limit = PAGE, dryRun }, actor, signal }) =>
      entriesOf(limit, client.cancelMany(filter, { limit, dryRun, actor, signal })),
  }),
  operation({
    id: 'retimeMany',
    argument: 'change',
    method: 'post',
    path: '/jobs/retime',
    summary: 'Move all waiting jobs that match to another time.',
    body: z.strictObject({ filter: SHAPES.retimeFilter, runAt, ...bulkFields }),
    answer: ANSWERS.retimeEntries,
    run: ({ client, body: { filter, runAt: to, limit = PAGE, dryRun }, actor, signal }) =>
      entriesOf(limit, client.retimeMany(filter, { runAt: to }, { limit, dryRun, actor, signal })),
  }),
  operation({
    id: 'list',
    argument: 'filter',
    method: 'get',
    path: '/jobs',
    summary:
      'List jobs of one state, or of any with a searchable tag. `tag` may be repeated: tag=order=4711.',
    query: SHAPES.listFilter.extend(paging),
    answer: ANSWERS.jobs,
    run: ({ client, query, signal }) => {
      const { limit, cursor, ...filter } = query;
      return placedPageOf('jobs', query, (after) => client.list(filter, { after, signal }));
    },
  }),
  operation({
    id: 'count',
    argument: 'filter',
    method: 'get',
    path: '/jobs/count',
    summary: 'Count the jobs of one state, up to 1,000.',
    query: SHAPES.listFilter,
    answer: ANSWERS.count,
    run: async ({ client, query, signal }) => {
      let count = 0;
      for await (const _ of client.list(query, { signal })) {
        if (count === HTTP_LIMITS.page) return { body: { count, more: true } };
        count += 1;
      }
      return { body: { count, more: false } };
    },
  }),
  operation({
    id: 'find',
    roles: API_ROLES,
    method: 'get',
    path: '/jobs/named',
    summary: 'Get a job by its idempotency key, or by its event and its place among the event’s jobs.',
    query: NAMED,
    answer: ANSWERS.job,
    // The client checks that exactly one of them is given.
    run: ({ client, query: { references, ...name }, signal }) =>
      jobOf(client.get(name as JobName, { references, signal })),
  }),
  operation({
    id: 'get',
    roles: API_ROLES,
    method: 'get',
    path: '/jobs/{id}',
    summary: 'Get a job.',
    query: REFERENCES,
    answer: ANSWERS.job,
    run: ({ client, id, query, signal }) => jobOf(client.get(id, { ...query, signal })),
  }),
  operation({
    id: 'wait',
    roles: API_ROLES,
    method: 'get',
    path: '/jobs/{id}/wait',
    summary: 'Wait for the end of a job. 202: it has not ended yet; ask again.',
    query: z.strictObject({ timeout }),
    answer: ANSWERS.wait,
    run: ({ id, query: { timeout: askedMs = Number.POSITIVE_INFINITY }, ...call }) =>
      endsOf(call, [id], askedMs),
  }),
  operation({
    id: 'explain',
    argument: 'options',
    method: 'get',
    path: '/jobs/{id}/explanation',
    summary: 'Explain why a job is not running, or what would hold it under another cap, weight or pause.',
    query: z.strictObject({ if: supposition }),
    answer: ANSWERS.explanation,
    run: async ({ client, id, query: { if: supposed }, signal }) => ({
      body: {
        explanation: await client.explain(id, {
          signal,
          // Any JSON: `client.explain` checks that it is a supposition.
          if: supposed === undefined ? undefined : (JSON.parse(supposed) as ExplainOptions['if']),
        }),
      },
    }),
  }),
  operation({
    id: 'history',
    roles: API_ROLES,
    method: 'get',
    path: '/jobs/{id}/history',
    summary: 'Get the history of a job: attempts, moves, actions of operators.',
    answer: ANSWERS.history,
    run: async ({ client, id, signal }) => ({ body: { history: await client.history(id, { signal }) } }),
  }),
  operation({
    id: 'cancel',
    roles: PRODUCERS,
    method: 'post',
    path: '/jobs/{id}/cancel',
    summary: 'Cancel a job: at once if it is not running, else its worker is asked to stop.',
    answer: ANSWERS.cancelled,
    run: async ({ client, id, actor, signal }) => ({ body: await client.cancel(id, { actor, signal }) }),
  }),
  operation({
    id: 'retime',
    roles: PRODUCERS,
    argument: 'change',
    method: 'post',
    path: '/jobs/{id}/retime',
    summary: 'Move a waiting job to another time.',
    body: z.strictObject({ runAt }),
    answer: ANSWERS.job,
    run: async ({ client, id, body, actor, signal }) => ({
      body: { job: await client.retime(id, body, { actor, signal }) },
    }),
  }),
  operation({
    id: 'setPriority',
    roles: PRODUCERS,
    method: 'post',
    path: '/jobs/{id}/priority',
    summary: 'Give a waiting job another priority.',
    body: z.strictObject({ priority: SHAPES.priority }),
    answer: ANSWERS.job,
    run: async ({ client, id, body, actor, signal }) => ({
      body: { job: await client.setPriority(id, body.priority, { actor, signal }) },
    }),
  }),
  operation({
    id: 'retry',
    method: 'post',
    path: '/jobs/{id}/retry',
    summary: 'Try a failed job again, as a new job. Repeated, it answers the same new job.',
    answer: ANSWERS.retried,
    run: async ({ client, id, actor, signal }) => ({ body: await client.retry(id, { actor, signal }) }),
  }),
];

const LOOKS: readonly Operation[] = [
  operation({
    id: 'deadLetters',
    argument: 'filter',
    method: 'get',
    path: '/dead-letters',
    summary: 'List failed jobs that were not dealt with, latest first.',
    query: SHAPES.deadLetterFilter.extend(paging),
    answer: ANSWERS.jobs,
    run: ({ client, query, signal }) => {
      const { limit, cursor, ...filter } = query;
      return placedPageOf('jobs', query, (after) => client.deadLetters(filter, { after, signal }));
    },
  }),
  operation({
    id: 'redrive',
    method: 'post',
    path: '/dead-letters/redrive',
    summary: 'Try dead letters again, latest first, each as a new job. The filter {} selects all.',
    body: z.strictObject({ filter: SHAPES.deadLetterFilter, ...bulkFields }),
    answer: ANSWERS.redriveEntries,
    run: ({ client, body: { filter, limit = PAGE, dryRun }, actor, signal }) =>
      entriesOf(limit, client.redriveDeadLetters(filter, { limit, dryRun, actor, signal })),
  }),
  operation({
    id: 'rejections',
    argument: 'filter',
    method: 'get',
    path: '/rejections',
    summary: 'List refused entries of events, latest first.',
    query: SHAPES.rejectionFilter.extend(paging),
    answer: ANSWERS.rejections,
    run: ({ client, query, signal }) => {
      const { limit, cursor, ...filter } = query;
      return placedPageOf('rejections', query, (after) => client.rejections(filter, { after, signal }));
    },
  }),
  operation({
    id: 'unreadable',
    method: 'get',
    path: '/unreadable',
    summary: 'List items of the table that cannot be read.',
    answer: ANSWERS.unreadable,
    run: async ({ client, signal }) => ({ body: { unreadable: await client.unreadable({ signal }) } }),
  }),
  operation({
    id: 'keys',
    method: 'get',
    path: '/keys',
    summary: 'List fairness keys with jobs and costs, the one that is served next first.',
    query: z.strictObject({ ...paging, countUpTo: whole(0, 10_000).optional() }),
    answer: ANSWERS.keys,
    run: ({ client, query: { limit, cursor, countUpTo }, signal }) =>
      pageOf('keys', { limit, cursor }, client.keys({ countUpTo, signal })),
  }),
  operation({
    id: 'capacity',
    method: 'get',
    path: '/capacity',
    summary: 'Show how many jobs run under each cap, and how much of each rate is used.',
    answer: ANSWERS.capacity,
    run: async ({ client, signal }) => ({ body: { capacity: await client.capacity({ signal }) } }),
  }),
  operation({
    id: 'statistics',
    argument: 'options',
    method: 'get',
    path: '/statistics',
    summary: 'Show what started and ended in each minute, and how long jobs waited and ran.',
    query: z.strictObject({
      from: z.iso
        .datetime({ offset: true })
        .optional()
        .describe('An hour before `to` by default, at most a day'),
      to: z.iso.datetime({ offset: true }).optional().describe('Now by default'),
    }),
    answer: ANSWERS.statistics,
    run: async ({ client, query, signal }) => ({
      body: { statistics: await client.statistics({ ...query, signal }) },
    }),
  }),
  operation({
    id: 'locks',
    method: 'get',
    path: '/locks',
    summary: 'Show the conflict keys that jobs hold or wait for, with those jobs.',
    answer: ANSWERS.locks,
    run: async ({ client, signal }) => ({ body: { locks: await client.locks({ signal }) } }),
  }),
  operation({
    id: 'fleets',
    method: 'get',
    path: '/fleets',
    summary: 'Show fleets, their slots and their workers.',
    answer: ANSWERS.fleets,
    run: async ({ client, signal }) => ({ body: { fleets: await client.fleets({ signal }) } }),
  }),
  operation({
    id: 'types',
    roles: API_ROLES,
    method: 'get',
    path: '/types',
    summary: 'Show job types, their terms, and how long their attempts take.',
    answer: ANSWERS.types,
    run: async ({ client, signal }) => ({ body: { types: await client.types({ signal }) } }),
  }),
  operation({
    id: 'declaration',
    method: 'get',
    path: '/declaration',
    summary: 'Show the declaration, and how far each partition has applied it.',
    answer: ANSWERS.declaration,
    run: async ({ client, signal }) => ({ body: { declaration: await client.declaration({ signal }) } }),
  }),
  operation({
    id: 'dispatchers',
    method: 'get',
    path: '/dispatchers',
    summary: 'Show dispatchers, and for each partition its leader and its waiting jobs.',
    answer: ANSWERS.dispatchers,
    run: async ({ client, signal }) => ({ body: await client.dispatchers({ signal }) }),
  }),
];

const scoped = z.strictObject({ scope: SHAPES.scope });
/** When a pause or an override ends by itself, and why it was made. The client checks both. */
const terms = {
  for: z
    .union([z.string().max(40), z.number()], {
      error: "must be a duration: milliseconds, or a text such as '10m'",
    })
    .optional()
    .describe(
      "How long it is in force: milliseconds, or a text such as '10m'; without it, until it is ended",
    ),
  reason: z.string().optional().describe('Why it was made, for others who look'),
};

/** Pauses a scope and waits for its jobs, as long as one request may. */
async function drained(
  { client, signal, waitMs }: Call<never, never>,
  scope: Scope,
  askedMs: number,
): Promise<Answer> {
  await client.drain(scope, { signal, timeout: Math.max(1, Math.min(waitMs, askedMs)) });
  return { body: { drained: true } };
}

const CONTROLS: readonly Operation[] = [
  operation({
    id: 'controls',
    method: 'get',
    path: '/controls',
    summary: 'Show pauses and overrides in force, each with its last changes.',
    query: z.strictObject({
      history: z.boolean().optional().describe('Also those that have ended in the last seven days'),
    }),
    answer: ANSWERS.controls,
    run: async ({ client, query, signal }) => ({
      body: { controls: await client.controls({ ...query, signal }) },
    }),
  }),
  operation({
    id: 'pause',
    method: 'post',
    path: '/controls/pause',
    summary: 'Start no more jobs of a scope; running ones continue.',
    argument: 'options',
    body: scoped.extend(terms),
    answer: ANSWERS.control,
    run: async ({ client, body: { scope, ...of }, actor, signal }) => ({
      body: { control: await client.pause(scope, { ...of, actor, signal }) },
    }),
  }),
  operation({
    id: 'resume',
    method: 'post',
    path: '/controls/resume',
    summary: 'End a pause.',
    body: scoped,
    answer: ANSWERS.control,
    run: async ({ client, body, actor, signal }) => ({
      body: { control: await client.resume(body.scope, { actor, signal }) },
    }),
  }),
  operation({
    id: 'override',
    method: 'post',
    path: '/controls/override',
    summary: 'Override a cap, or the weight of a key. Null removes the override.',
    body: scoped.extend({ change: z.strictObject({ ...SHAPES.override.shape, ...terms }) }),
    answer: ANSWERS.control,
    run: async ({ client, body, actor, signal }) => ({
      body: { control: await client.override(body.scope, body.change, { actor, signal }) },
    }),
  }),
  operation({
    id: 'drain',
    method: 'post',
    path: '/controls/drain',
    summary: 'Pause a scope, and wait until none of its jobs runs. 504: some still run; ask again.',
    body: scoped.extend({ timeout }),
    answer: ANSWERS.drained,
    run: ({ body: { scope, timeout: askedMs = Number.POSITIVE_INFINITY }, ...call }) =>
      drained(call as unknown as Call<never, never>, scope, askedMs),
  }),
];

const SCHEDULES: readonly Operation[] = [
  operation({
    id: 'listSchedules',
    method: 'get',
    path: '/schedules',
    summary: 'List schedules with their next firing.',
    query: z.strictObject(paging),
    answer: ANSWERS.schedules,
    run: ({ client, query, signal }) => pageOf('schedules', query, client.schedules.list({ signal })),
  }),
  operation({
    id: 'getSchedule',
    method: 'get',
    path: '/schedules/{id}',
    summary: 'Show a schedule, its last firings, and why it does not fire.',
    answer: ANSWERS.schedule,
    run: async ({ client, id, signal }) => ({
      body: { schedule: await client.schedules.get(id, { signal }) },
    }),
  }),
  operation({
    id: 'putSchedule',
    method: 'put',
    path: '/schedules/{id}',
    summary: 'Create a schedule, or change it from its next firing on.',
    body: scheduleShape,
    isCheckedByVerb: true,
    answer: ANSWERS.put,
    run: async ({ client, id, body, signal }) => ({
      // The client checks the request.
      body: await client.schedules.put(
        id,
        body as unknown as Parameters<ClientVerbs['schedules']['put']>[1],
        {
          signal,
        },
      ),
    }),
  }),
  operation({
    id: 'deleteSchedule',
    method: 'delete',
    path: '/schedules/{id}',
    summary: 'Remove a schedule; its jobs continue.',
    answer: ANSWERS.deleted,
    run: async ({ client, id, signal }) => {
      await client.schedules.delete(id, { signal });
      return { body: { deleted: id } };
    },
  }),
  ...(['pause', 'resume'] as const).map((verb) =>
    operation({
      id: `${verb}Schedule`,
      method: 'post',
      path: `/schedules/{id}/${verb}`,
      summary: verb === 'pause' ? 'Pause a schedule.' : 'Resume a schedule with its next firing.',
      answer: ANSWERS.schedule,
      run: async ({ client, id, signal }) => ({
        body: { schedule: await client.schedules[verb](id, { signal }) },
      }),
    }),
  ),
  operation({
    id: 'runSchedule',
    method: 'post',
    path: '/schedules/{id}/run',
    summary: "Make a schedule's job now, in addition to its firings.",
    answer: ANSWERS.made,
    run: async ({ client, id, signal }) => ({ body: await client.schedules.runNow(id, { signal }) }),
  }),
  operation({
    id: 'nextFirings',
    method: 'get',
    path: '/schedules/{id}/next',
    summary: 'Show when a schedule fires.',
    query: z.strictObject({
      from: z.iso.datetime({ offset: true }).optional(),
      count: whole(1, 1_000).optional(),
    }),
    answer: ANSWERS.firings,
    run: async ({ client, id, query, signal }) => ({
      body: await client.schedules.next(id, { ...query, signal }),
    }),
  }),
];

/** All operations. Paths without a parameter come before those that would match them. */
export const OPERATIONS: readonly Operation[] = [...JOBS, ...LOOKS, ...CONTROLS, ...SCHEDULES];
