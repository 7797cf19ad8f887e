/** From messages of the ingest queue to jobs and rejection records. */
import type { Job } from '../core/job.ts';
import type { EventBus } from '../events/contract.ts';
import type { Log } from '../runtime/contract.ts';
import type { Rejection } from '../store/contract.ts';
import { jobFrom, jobIdOf, jobIdOfEvent, parseRequests, type Refusal } from './request.ts';
import { type SubmitContext, submit } from './submit.ts';

/** How long a rejection is kept. */
const REJECTION_TTL_MS = 30 * 24 * 3_600_000;
/** How much of a rejected event is kept with it. */
const REJECTION_DETAIL_CHARS = 8_192;

export interface IngestContext extends SubmitContext {
  readonly events: EventBus;
  readonly log: Log;
  readonly partitionOf: (fairnessKey: string) => number;
}

/** One message of the ingest queue: an event of the bus as JSON. */
export interface IngestMessage {
  readonly messageId: string;
  readonly body: string;
}

/** What became of the messages. A failed one is to be delivered again. */
export interface IngestReport {
  readonly failedMessageIds: readonly string[];
  /** Newly stored jobs: the pass that follows need not wait for an index to show them. */
  readonly created: readonly Job[];
  readonly repeated: number;
  readonly rejected: number;
}

interface Intake {
  readonly messageId: string;
  readonly sourceId: string;
  readonly raw: string;
  readonly jobs: readonly { readonly position: number; readonly job: Job }[];
  readonly refused: readonly Refusal[];
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function eventOf(body: string): {
  readonly id?: string;
  readonly detail?: unknown;
  readonly refusal?: Refusal;
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
  const id = 'id' in event && typeof event.id === 'string' && event.id !== '' ? event.id : undefined;
  return { detail: event.detail, ...(id === undefined ? {} : { id }) };
}

function intakeOf(context: IngestContext, message: IngestMessage, nowMs: number): Intake {
  const { messageId, body } = message;
  const event = eventOf(body);
  const sourceId = event.id ?? messageId;
  if (event.refusal !== undefined)
    return { messageId, sourceId, raw: body, jobs: [], refused: [event.refusal] };
  const { accepted, refused } = parseRequests(event.detail, context.configuration);
  const jobs = accepted.map(({ position, request }) => {
    const key = request.idempotencyKey;
    const id = key === undefined ? jobIdOfEvent(sourceId, position) : jobIdOf(key);
    return { position, job: jobFrom(request, id, context.partitionOf(request.fairnessKey), nowMs) };
  });
  return { messageId, sourceId, raw: JSON.stringify(event.detail) ?? '', jobs, refused };
}

/**
 * Stores what the messages ask for. Every entry ends as a job, as one that was there before, or as a rejection record
 * with its reason; only trouble with the store fails a message, and then it comes again.
 */
export async function ingest(
  context: IngestContext,
  messages: readonly IngestMessage[],
): Promise<IngestReport> {
  const nowMs = context.nowMs();
  const intakes = messages.map((message) => intakeOf(context, message, nowMs));
  const failed = new Set<string>();
  const created: Job[] = [];
  let repeated = 0;
  const rejections: { messageId: string; rejection: Rejection }[] = [];
  const reject = (intake: Intake, refusal: Refusal): void => {
    rejections.push({
      messageId: intake.messageId,
      rejection: {
        sourceId: intake.sourceId,
        ...refusal,
        detail: intake.raw.slice(0, REJECTION_DETAIL_CHARS).toWellFormed(),
        rejectedAtMs: nowMs,
        expiresAtMs: nowMs + REJECTION_TTL_MS,
      },
    });
  };
  for (const intake of intakes) for (const refusal of intake.refused) reject(intake, refusal);

  const entries = intakes.flatMap((intake) =>
    intake.jobs.map(({ position, job }) => ({ intake, position, job })),
  );
  try {
    const outcomes = await submit(
      context,
      entries.map(({ job }) => job),
    );
    for (const [at, { intake, position }] of entries.entries()) {
      const outcome = outcomes[at];
      if (outcome === undefined) failed.add(intake.messageId);
      else if (outcome.kind === 'created') created.push(outcome.job);
      else if (outcome.kind === 'repeated') repeated += 1;
      else {
        const field =
          intake.jobs.length + intake.refused.length > 1
            ? `jobs[${position}].idempotencyKey`
            : 'idempotencyKey';
        reject(intake, {
          position,
          field,
          reason: `is taken by another job with other content: ${outcome.job.id}`,
        });
      }
    }
  } catch (error) {
    context.log.warn('jobs could not be stored; their messages will come again', { error: messageOf(error) });
    for (const { intake } of entries) failed.add(intake.messageId);
  }

  await recordRejections(context, rejections, failed);
  return { failedMessageIds: [...failed], created, repeated, rejected: rejections.length };
}

/** The record first, then its event: whoever hears of a rejection can look it up. */
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
    const lost = new Set(unsent.map((event) => event.detail));
    for (const { messageId, rejection } of rejections) if (lost.has(rejection)) failed.add(messageId);
  } catch (error) {
    context.log.warn('rejections could not be recorded; their messages will come again', {
      error: messageOf(error),
    });
    for (const { messageId } of rejections) failed.add(messageId);
  }
}
