/** From messages of the ingest queue to jobs and rejection records. */
import { RefusedError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { traceparentOfXRay } from '../core/trace.ts';
import type { EventBus, Unpublished } from '../events/contract.ts';
import type { Log } from '../runtime/contract.ts';
import type { Rejection } from '../store/contract/records.ts';
import { requestOfEvent } from './event-job.ts';
import {
  dependsOnDeclaration,
  jobFrom,
  jobIdOf,
  jobIdOfEvent,
  parseRequests,
  type RequestRefusal,
} from './request.ts';
import { type SubmitContext, type SubmitOutcome, submit } from './submit.ts';
import { type BacklogFull, fullText } from './waiting.ts';

/** How long a rejection record is kept: 30 days. */
export const REJECTION_TTL_MS = 30 * 24 * 3_600_000;
/** How many characters of the rejected event are stored in its rejection record. */
const REJECTION_DETAIL_CHARS = 8_192;
/**
 * The longest event id, in UTF-8 bytes, that is used as the record's key. The bus makes shorter ones, so a longer id is
 * replaced by the message's id.
 */
export const EVENT_ID_BYTES_MAX = 512;

export interface IngestContext extends SubmitContext {
  readonly events: EventBus;
  readonly log: Log;
  readonly partitionOf: (fairnessKey: string) => number;
  /**
   * Returns the context under the newest declaration, which may know a type that this one does not. Undefined if there
   * is no other.
   */
  readonly newest?: (() => Promise<IngestContext>) | undefined;
}

/** One message of the ingest queue: an event of the bus as JSON. */
export interface IngestMessage {
  readonly messageId: string;
  readonly body: string;
  /** The X-Ray header that the bus passes on. Jobs that name no trace of their own join this one. */
  readonly traceHeader?: string | undefined;
  /** When the queue delivered it for the first time, in epoch milliseconds. @default - not known */
  readonly receivedAtMs?: number | undefined;
}

/** The result of a batch. Failed messages must be delivered again. */
export interface IngestReport {
  readonly failedMessageIds: readonly string[];
  /** Newly stored jobs. `ingestAll` makes a pass for them at once, before the index shows them. */
  readonly created: readonly Job[];
  /** Requests for which a job stands that is stored: by their id, or by their dedupe key. */
  readonly repeated: number;
  readonly rejected: number;
}

interface Intake {
  readonly messageId: string;
  readonly sourceId: string;
  /** The event as it was sent, for the rejection record. */
  readonly raw: () => string;
  readonly jobs: readonly { readonly position: number; readonly job: Job }[];
  readonly refused: readonly RequestRefusal[];
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function eventOf(body: string): {
  readonly id?: string;
  readonly detail?: unknown;
  readonly refusal?: RequestRefusal;
} {
  let event: unknown;
  try {
    event = JSON.parse(body);
  } catch (error) {
    return { refusal: { position: 0, field: '', reason: `the message is not JSON: ${messageOf(error)}` } };
  }
  if (typeof event !== 'object' || event === null || !('detail' in event)) {
    return {
      refusal: { position: 0, field: 'detail', reason: 'is missing: the message is not an event of the bus' },
    };
  }
  const id = 'id' in event && isEventId(event.id) ? event.id : undefined;
  const idField = id === undefined ? {} : { id };
  // Only a rule of the deployment adds `job`. The content that a producer puts on the bus is always inside `detail`.
  if (!('job' in event)) return { detail: event.detail, ...idField };
  return { ...requestOfEvent(event.job, event.detail), ...idField };
}

const isEventId = (id: unknown): id is string =>
  typeof id === 'string' && id !== '' && id.isWellFormed() && Buffer.byteLength(id) <= EVENT_ID_BYTES_MAX;

function textOf(detail: unknown, body: string): string {
  try {
    return JSON.stringify(detail) ?? body;
  } catch {
    // The detail was parsed from JSON, so only JSON.stringify's limit on nesting can make this throw.
    return body;
  }
}

function intakeOf(context: IngestContext, message: IngestMessage, nowMs: number): Intake {
  const { messageId, body, traceHeader } = message;
  const event = eventOf(body);
  const sourceId = event.id ?? messageId;
  if (event.refusal !== undefined)
    return { messageId, sourceId, raw: () => body, jobs: [], refused: [event.refusal] };
  const { accepted, refused } = parseRequests(event.detail, context.configuration);
  const traceparent = traceHeader === undefined ? undefined : traceparentOfXRay(traceHeader);
  const jobs = accepted.map(({ position, request: asked }) => {
    const request = { ...asked, traceparent: asked.traceparent ?? traceparent };
    const key = request.idempotencyKey;
    const id = key === undefined ? jobIdOfEvent(sourceId, position) : jobIdOf(key);
    return { position, job: jobFrom(request, id, context.partitionOf(request.fairnessKey), nowMs) };
  });
  return { messageId, sourceId, raw: () => textOf(event.detail, body), jobs, refused };
}

/**
 * Parses the messages. If one has a type that this declaration does not know, parses all of them again under the newest
 * declaration.
 */
async function intakesOf(
  given: IngestContext,
  messages: readonly IngestMessage[],
  nowMs: number,
): Promise<{ readonly context: IngestContext; readonly intakes: readonly Intake[] }> {
  const intakes = messages.map((message) => intakeOf(given, message, nowMs));
  if (given.newest === undefined || !intakes.some(({ refused }) => refused.some(dependsOnDeclaration)))
    return { context: given, intakes };
  const context = await given.newest();
  if (context.configuration === given.configuration) return { context, intakes };
  return { context, intakes: messages.map((message) => intakeOf(context, message, nowMs)) };
}

const fieldOf = (intake: Intake, position: number, field: string): string =>
  intake.jobs.length + intake.refused.length > 1 ? `jobs[${position}].${field}` : field;

const keyTaken = (intake: Intake, position: number, { id }: Job): RequestRefusal => ({
  position,
  field: fieldOf(intake, position, 'idempotencyKey'),
  reason: `is taken by another job with other content: ${id}`,
});

const backlogFull = (intake: Intake, position: number, full: BacklogFull): RequestRefusal => ({
  position,
  field: fieldOf(intake, position, full.fairnessKey === undefined ? 'type' : 'fairnessKey'),
  reason: fullText(full),
});

/**
 * Stores the requested jobs. Every entry ends as a new job, as a repetition of an existing job, or as a rejection
 * record with its reason. Only a failing store fails a message, which is then delivered again.
 */
export async function ingest(
  given: IngestContext,
  messages: readonly IngestMessage[],
): Promise<IngestReport> {
  const nowMs = given.nowMs();
  const { context, intakes } = await intakesOf(given, messages, nowMs);
  const failed = new Set<string>();
  const created: Job[] = [];
  let repeated = 0;
  const rejections: { messageId: string; rejection: Rejection }[] = [];
  const reject = (intake: Intake, refusal: RequestRefusal): void => {
    rejections.push({
      messageId: intake.messageId,
      rejection: {
        sourceId: intake.sourceId,
        ...refusal,
        detail: intake.raw().slice(0, REJECTION_DETAIL_CHARS).toWellFormed(),
        rejectedAtMs: nowMs,
        expiresAtMs: nowMs + REJECTION_TTL_MS,
      },
    });
  };
  for (const intake of intakes) for (const refusal of intake.refused) reject(intake, refusal);

  for (const [intake, outcomes] of await submitIntakes(context, intakes)) {
    for (const [at, { position }] of intake.jobs.entries()) {
      const outcome = outcomes?.[at];
      if (outcome === undefined) failed.add(intake.messageId);
      else if (outcome.kind === 'created') created.push(outcome.job);
      else if (outcome.kind === 'full') reject(intake, backlogFull(intake, position, outcome));
      else if (outcome.kind !== 'conflict') repeated += 1;
      else reject(intake, keyTaken(intake, position, outcome.job));
    }
  }

  await recordRejections(context, rejections, failed);
  return { failedMessageIds: [...failed], created, repeated, rejected: rejections.length };
}

/**
 * Stores the jobs of all messages in one call. Returns the outcomes for each message's jobs, or undefined if the
 * message must be delivered again.
 */
async function submitIntakes(
  context: IngestContext,
  intakes: readonly Intake[],
): Promise<ReadonlyMap<Intake, readonly SubmitOutcome[] | undefined>> {
  const withJobs = intakes.filter((intake) => intake.jobs.length > 0);
  try {
    const outcomes = await submit(
      context,
      withJobs.flatMap((intake) => intake.jobs.map(({ job }) => job)),
    );
    let from = 0;
    return new Map(
      withJobs.map((intake) => {
        const own = outcomes.slice(from, from + intake.jobs.length);
        from += intake.jobs.length;
        return [intake, own];
      }),
    );
  } catch (error) {
    context.log.warn('jobs could not be stored; their messages will be delivered again', {
      error: messageOf(error),
    });
    if (!(error instanceof RefusedError) || withJobs.length <= 1)
      return new Map(withJobs.map((intake) => [intake, undefined]));
  }
  // The store refuses at least one of these jobs for good. Storing each message by itself lets the others succeed.
  const oneByOne: [Intake, readonly SubmitOutcome[] | undefined][] = [];
  for (const intake of withJobs) oneByOne.push(...(await submitIntakes(context, [intake])));
  return new Map(oneByOne);
}

/** Logs a rejection as one line. */
export function logRejection(log: Log, { sourceId, position, field, reason }: Rejection): void {
  log.warn('a request was rejected', { eventId: sourceId, position, field, reason });
}

/** Logs rejections whose event the bus refuses for good. Their records stay in the table. */
export function logRefusedEvents(log: Log, unsent: readonly Unpublished[]): void {
  for (const { event, reason } of unsent) {
    if (reason === undefined || event.kind !== 'rejected') continue;
    log.warn('the bus refuses the event of a rejection; its record stays', {
      sourceId: event.detail.sourceId,
      reason,
    });
  }
}

/** Stores the records before publishing their events, so that a consumer of the event finds the record. */
async function recordRejections(
  context: IngestContext,
  rejections: readonly { readonly messageId: string; readonly rejection: Rejection }[],
  failed: Set<string>,
): Promise<void> {
  if (rejections.length === 0) return;
  try {
    await context.store.recordRejections(rejections.map((each) => each.rejection));
    const unsent = await context.events.publish(
      rejections.map(({ rejection }) => ({ kind: 'rejected' as const, detail: rejection })),
    );
    for (const { rejection } of rejections) logRejection(context.log, rejection);
    const lost = new Set(unsent.flatMap(({ event, reason }) => (reason === undefined ? [event.detail] : [])));
    for (const { messageId, rejection } of rejections) if (lost.has(rejection)) failed.add(messageId);
    logRefusedEvents(context.log, unsent);
  } catch (error) {
    context.log.warn('rejections could not be recorded; their messages will be delivered again', {
      error: messageOf(error),
    });
    for (const { messageId } of rejections) failed.add(messageId);
  }
}
