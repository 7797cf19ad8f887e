/**
 * Turns messages of the ingest queue into changes of schedules. The bus keeps no order: of two events about one
 * schedule that are sent close together, either may be handled last. A producer that needs their order uses the client,
 * or waits between them.
 */
import { hashText } from '../core/partition.ts';
import { traceparentOfXRay } from '../core/trace.ts';
import { type EventBus, SCHEDULE_REQUESTS, type ScheduleVerb } from '../events/contract.ts';
import type { Log } from '../runtime/contract.ts';
import type { Rejection } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { logRefusedEvents, logRejection, REJECTION_TTL_MS } from '../submit/ingest.ts';
import { dependsOnDeclaration, type RequestRefusal } from '../submit/request.ts';
import { fullText } from '../submit/waiting.ts';
import { parseSchedule, scheduleIdProblem } from './request.ts';
import {
  deleteSchedule,
  pauseSchedule,
  putSchedule,
  type RunRequest,
  resumeSchedule,
  runNow,
  type SchedulesContext,
} from './schedules.ts';

export interface ScheduleIngestContext extends SchedulesContext {
  readonly events: EventBus;
  readonly log: Log;
  /** Returns the parts of the context under the newest declaration. It is called when a type is unknown. */
  readonly newest?: (() => Promise<Pick<ScheduleIngestContext, 'configuration' | 'partitionOf'>>) | undefined;
}

/** One message about a schedule. */
export type ScheduleMessage = RequestEvent<ScheduleVerb>;

/** One message that asks for a change of something that exists, such as a schedule or a job. */
export interface RequestEvent<Verb> {
  readonly messageId: string;
  readonly verb: Verb;
  readonly eventId: string;
  /** When the event was sent, in epoch milliseconds: the same at each delivery. Undefined if the event has no valid time. */
  readonly sentAtMs: number | undefined;
  readonly detail: unknown;
  /** The trace in which the event was sent. */
  readonly traceparent?: string | undefined;
}

/**
 * Parses a message; undefined if it is not an event about a schedule.
 *
 * @param traceHeader - the X-Ray header that came with the message
 */
export const scheduleMessageOf = (
  messageId: string,
  body: string,
  traceHeader?: string,
): ScheduleMessage | undefined => requestEventOf(SCHEDULE_REQUESTS, messageId, body, traceHeader);

/** Parses a message; undefined if its detail type is not one of `verbs`. */
export function requestEventOf<Verb>(
  verbs: ReadonlyMap<string, Verb>,
  messageId: string,
  body: string,
  traceHeader?: string,
): RequestEvent<Verb> | undefined {
  let event: unknown;
  try {
    event = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (typeof event !== 'object' || event === null || !('detail-type' in event)) return undefined;
  const { 'detail-type': detailType, detail, id, time } = event as Readonly<Record<string, unknown>>;
  const verb = typeof detailType === 'string' ? verbs.get(detailType) : undefined;
  if (verb === undefined) return undefined;
  const isId = typeof id === 'string' && id !== '' && id.isWellFormed() && Buffer.byteLength(id) <= 512;
  const eventId = isId ? id : messageId;
  // The bus gives whole seconds. A hash of the id adds milliseconds, so that two requests of one second differ.
  const sentMs = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  const sentAtMs = Number.isNaN(sentMs) ? undefined : sentMs + (hashText(eventId) % 1_000);
  const traceparent = traceHeader === undefined ? undefined : traceparentOfXRay(traceHeader);
  return { messageId, verb, eventId, sentAtMs, detail, traceparent };
}

export type FieldRefusal = Omit<RequestRefusal, 'position'>;

/** Carries out the messages in their order. Returns those that must be delivered again. */
export const ingestSchedules = (
  context: ScheduleIngestContext,
  messages: readonly ScheduleMessage[],
): Promise<IngestOutcome> =>
  carryOutInOrder(context, messages, 'a request about a schedule', (message) => carryOut(context, message));

export interface IngestOutcome {
  readonly failedMessageIds: readonly string[];
  readonly rejected: number;
}

/**
 * Carries out one message after the other. A refused one gets a rejection record and an event; a failed one must be
 * delivered again.
 *
 * @param what - names the kind of request in the log
 */
export async function carryOutInOrder<Message extends RequestEvent<string>>(
  context: RejectContext,
  messages: readonly Message[],
  what: string,
  carry: (message: Message) => Promise<FieldRefusal | undefined>,
): Promise<IngestOutcome> {
  const failedMessageIds: string[] = [];
  let rejected = 0;
  for (const message of messages) {
    try {
      const refusal = await carry(message);
      if (refusal === undefined) continue;
      await reject(context, message, refusal);
      rejected += 1;
    } catch (error) {
      context.log.warn(`${what} was not carried out; its message will be delivered again`, {
        verb: message.verb,
        error: String(error),
      });
      failedMessageIds.push(message.messageId);
    }
  }
  return { failedMessageIds, rejected };
}

async function carryOut(
  given: ScheduleIngestContext,
  { verb, detail, sentAtMs: askedAtMs, traceparent }: ScheduleMessage,
): Promise<FieldRefusal | undefined> {
  const refusal = detailRefusal(verb, detail);
  if (refusal !== undefined) return refusal;
  const { id: scheduleId, schedule } = detail as { readonly id: string; readonly schedule?: unknown };
  const owned = {
    field: 'id',
    reason: `schedule ${scheduleId} is declared by a deployment: change it there`,
  };
  switch (verb) {
    case 'put': {
      const { context, parsed } = await parseByNewest(given, schedule);
      if ('refusal' in parsed) return refusalOf(scheduleId, parsed.refusal);
      const outcome = await putSchedule(context, scheduleId, parsed.spec, false);
      return outcome.kind === 'owned' ? owned : undefined;
    }
    case 'delete': {
      // A missing schedule counts as deleted: an earlier delivery of this event may have deleted it.
      const outcome = await deleteSchedule(given, scheduleId, false);
      return outcome === 'owned' ? owned : undefined;
    }
    case 'pause':
      return (await pauseSchedule(given, scheduleId)) === undefined ? noSchedule(scheduleId) : undefined;
    case 'resume':
      return (await resumeSchedule(given, scheduleId)) === undefined ? noSchedule(scheduleId) : undefined;
    case 'run':
      return runAsked(given, scheduleId, { askedAtMs, traceparent });
  }
}

async function runAsked(
  given: ScheduleIngestContext,
  scheduleId: string,
  asked: RunRequest,
): Promise<FieldRefusal | undefined> {
  let outcome = await runNow(given, scheduleId, asked);
  if (outcome.kind === 'unknownType' && given.newest !== undefined)
    outcome = await runNow({ ...given, ...(await given.newest()) }, scheduleId, asked);
  switch (outcome.kind) {
    case 'made':
      return undefined;
    case 'missing':
      return noSchedule(scheduleId);
    case 'full':
      return { field: 'id', reason: `${fullText(outcome)} (schedule ${scheduleId})` };
    case 'unknownType':
      return { field: 'id', reason: unknownType(scheduleId, outcome.type) };
    case 'misfit':
      return {
        field: outcome.misfit.field.join('.'),
        reason: `${outcome.misfit.reason} (schedule ${scheduleId})`,
      };
  }
}

const noSchedule = (scheduleId: string): FieldRefusal => ({
  field: 'id',
  reason: `no schedule has the id ${JSON.stringify(scheduleId)}`,
});

const unknownType = (scheduleId: string, type: string): string =>
  `schedule ${scheduleId} makes jobs of the type ${JSON.stringify(type)}, which is not declared: declare it, or put the schedule with another one`;

/** Checks what all requests have in common: the id of a schedule, and no unknown fields. */
function detailRefusal(verb: ScheduleMessage['verb'], detail: unknown): FieldRefusal | undefined {
  if (typeof detail !== 'object' || detail === null)
    return { field: '', reason: 'detail must be an object with the id of a schedule' };
  const { id, schedule, ...others } = detail as Readonly<Record<string, unknown>>;
  const problem = scheduleIdProblem(id);
  if (problem !== undefined) return { field: 'id', reason: problem };
  const other = Object.keys(others)[0] ?? (verb !== 'put' && schedule !== undefined ? 'schedule' : undefined);
  return other === undefined
    ? undefined
    : { field: other.slice(0, 200), reason: 'is not known here; leave it out' };
}

const refusalOf = (scheduleId: string, { field, reason }: FieldRefusal): FieldRefusal => ({
  field: field === '' ? 'schedule' : `schedule.${field}`,
  reason: `${reason} (schedule ${scheduleId})`,
});

type Parsed = ReturnType<typeof parseSchedule>;

/** Parses the schedule. If its type is unknown here, parses it again under the newest declaration. */
async function parseByNewest(
  given: ScheduleIngestContext,
  schedule: unknown,
): Promise<{ readonly context: ScheduleIngestContext; readonly parsed: Parsed }> {
  const parsed = parseBy(given, schedule);
  if (!('refusal' in parsed) || !dependsOnDeclaration(parsed.refusal) || given.newest === undefined)
    return { context: given, parsed };
  const context = { ...given, ...(await given.newest()) };
  return { context, parsed: parseBy(context, schedule) };
}

const parseBy = (context: ScheduleIngestContext, schedule: unknown): Parsed =>
  parseSchedule(schedule, context.nowMs(), context.configuration);

type RejectContext = Pick<ScheduleIngestContext, 'events' | 'log' | 'nowMs'> & {
  readonly store: Pick<SubmitStore, 'recordRejections'>;
};

/** Stores the record before publishing its event, so that a consumer of the event finds the record. */
async function reject(
  { store, events, log, nowMs }: RejectContext,
  { eventId, detail }: Pick<RequestEvent<unknown>, 'eventId' | 'detail'>,
  { field, reason }: FieldRefusal,
): Promise<void> {
  const rejection: Rejection = {
    sourceId: eventId,
    position: 0,
    field,
    reason: reason.slice(0, 1_000).toWellFormed(),
    detail: (JSON.stringify(detail) ?? '').slice(0, 8_192).toWellFormed(),
    rejectedAtMs: nowMs(),
    expiresAtMs: nowMs() + REJECTION_TTL_MS,
  };
  await store.recordRejections([rejection]);
  logRejection(log, rejection);
  const unsent = await events.publish([{ kind: 'rejected', detail: rejection }]);
  if (unsent.some(({ reason: refused }) => refused === undefined))
    throw new Error('the bus did not accept the event of a rejection');
  logRefusedEvents(log, unsent);
}
