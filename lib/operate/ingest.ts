/**
 * Turns messages of the ingest queue into moves and cancellations of jobs. The bus keeps no order: of two moves of one
 * job that are sent close together, either may be carried out last. A producer that needs their order uses the client,
 * or waits between them.
 */

import * as z from 'zod';
import { UnavailableError } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';
import { isTerminal, type MovingJob, TERMINAL_TTL_MS } from '../core/job.ts';
import { type EventBus, JOB_REQUESTS, type JobVerb } from '../events/contract.ts';
import type { Log } from '../runtime/contract.ts';
import {
  carryOutInOrder,
  type FieldRefusal,
  type IngestOutcome,
  type RequestEvent,
  requestEventOf,
} from '../schedules/ingest.ts';
import type { ProducerStore } from '../store/contract/core.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import type { IngestMessage } from '../submit/ingest.ts';
import { jobIdOf, keyText } from '../submit/request.ts';
import { type RetimeContext, retimeJob } from './retime.ts';

export interface JobIngestContext extends RetimeContext {
  readonly store: SubmitStore & Pick<ProducerStore, 'retimeJob' | 'cancelJob'>;
  readonly events: EventBus;
  readonly log: Log;
}

/** One message about an existing job. */
export type JobMessage = RequestEvent<JobVerb> & Pick<IngestMessage, 'receivedAtMs'>;

/** Parses a message; undefined if it is not an event that moves or cancels a job. */
export function jobMessageOf({ messageId, body, receivedAtMs }: IngestMessage): JobMessage | undefined {
  const event = requestEventOf(JOB_REQUESTS, messageId, body);
  return event === undefined ? undefined : { ...event, receivedAtMs };
}

/**
 * Milliseconds after the first delivery of the event during which a missing job may still arrive, because the message that
 * submits it may be behind this one. In a long queue both are old by then.
 */
const ARRIVES_WITHIN_MS = 60_000;

const idFields = {
  id: keyText.min(1, 'must not be empty').optional(),
  idempotencyKey: keyText.min(1, 'must not be empty').optional(),
};
const DETAILS = {
  move: z.strictObject({
    ...idFields,
    runAt: z.iso.datetime({
      offset: true,
      error: 'must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z',
    }),
  }),
  cancel: z.strictObject(idFields),
} as const;

type ParsedRequest = { readonly jobId: string; readonly runAtMs: number | undefined } | FieldRefusal;

/** Carries out the messages in their order. Returns those that must be delivered again. */
export const ingestJobRequests = (
  context: JobIngestContext,
  messages: readonly JobMessage[],
): Promise<IngestOutcome> =>
  carryOutInOrder(context, messages, 'a request about a job', (message) => carryOut(context, message));

async function carryOut(context: JobIngestContext, message: JobMessage): Promise<FieldRefusal | undefined> {
  const asked = parseRequest(message);
  if ('reason' in asked) return asked;
  const { jobId, runAtMs } = asked;
  const [job] = await context.store.lookUpJobs({ ids: [jobId] });
  if (job === undefined) {
    if (context.nowMs() - (message.receivedAtMs ?? message.sentAtMs ?? 0) < ARRIVES_WITHIN_MS)
      throw new UnavailableError(
        `job ${jobId} does not exist yet; the message that submits it may still arrive`,
      );
    return { field: 'id', reason: `no job has the id ${JSON.stringify(jobId)}` };
  }
  const by = `event ${message.eventId}`.slice(0, 100);
  // A second delivery must not undo what was requested after the first.
  if (wasCarriedOut(job, by)) return undefined;
  return runAtMs === undefined ? cancel(context, jobId, by) : move(context, jobId, runAtMs, by);
}

const wasCarriedOut = ({ history, cancelRequestedBy }: MovingJob, by: string): boolean =>
  cancelRequestedBy === by ||
  history?.entries.some((entry) => entry.kind === 'moved' && entry.by === by) === true;

async function move(
  context: JobIngestContext,
  jobId: string,
  runAtMs: number,
  by: string,
): Promise<FieldRefusal | undefined> {
  const outcome = await retimeJob(context, jobId, runAtMs, by);
  if (outcome.kind === 'moved') return undefined;
  if (outcome.kind === 'missing')
    return { field: 'id', reason: `no job has the id ${JSON.stringify(jobId)}` };
  return { field: 'id', reason: `job ${jobId} is ${outcome.job.state}: only waiting jobs can be moved` };
}

async function cancel(
  { store, nowMs }: JobIngestContext,
  jobId: string,
  by: string,
): Promise<FieldRefusal | undefined> {
  const atMs = nowMs();
  const outcome = await store.cancelJob({ jobId, nowMs: atMs, expiresAtMs: atMs + TERMINAL_TTL_MS, by });
  if (outcome.kind !== 'ended' || outcome.job.state === 'cancelled' || !isTerminal(outcome.job.state))
    return undefined;
  return { field: 'id', reason: `job ${jobId} has already ${outcome.job.state}` };
}

function parseRequest({ verb, detail }: JobMessage): ParsedRequest {
  const parsed = DETAILS[verb].safeParse(detail, { error: inWords });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const unknown = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
    const field = [...(issue?.path ?? []), ...unknown].join('.').slice(0, 200).toWellFormed();
    return {
      field,
      reason: unknown.length > 0 ? 'is not known here; leave it out' : (issue?.message ?? 'is invalid'),
    };
  }
  const { id, idempotencyKey } = parsed.data;
  if ((id === undefined) === (idempotencyKey === undefined))
    return { field: 'id', reason: 'name the job either by id or by idempotencyKey' };
  return {
    jobId: id ?? jobIdOf(idempotencyKey ?? ''),
    runAtMs: 'runAt' in parsed.data ? Date.parse(String(parsed.data.runAt)) : undefined,
  };
}
