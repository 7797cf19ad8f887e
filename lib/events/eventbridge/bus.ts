/** The bus on EventBridge. */

import {
  type EventBridgeClient,
  PutEventsCommand,
  type PutEventsRequestEntry,
} from '@aws-sdk/client-eventbridge';
import { MisconfiguredError } from '../../core/errors.ts';
import {
  DETAIL_TYPE,
  EVENT_SOURCE,
  type EventBus,
  type JobOutcomeDetail,
  type OutcomeEvent,
  SCHEDULE_STOPPED,
  type Unpublished,
} from '../contract.ts';

export interface EventBridgeBusOptions {
  readonly client: EventBridgeClient;
  readonly busName: string;
}

/** EventBridge's bound on the entries of one request. */
const ENTRIES_MAX = 10;

/**
 * Bound on all entries of one request together. EventBridge takes less than 1 MB; the event that it delivers is some
 * hundred bytes larger than its entry, and must still fit into a queue's message of 1 MiB.
 */
const REQUEST_BYTES_MAX = 1_000_000;

/** What remains of an error's message when even the event without its result is too large. */
const MESSAGE_MAX = 10_000;

/** What a single entry may be told of itself that another try would not change. */
const REFUSALS: ReadonlySet<string> = new Set(['InvalidArgument', 'MalformedDetail', 'RedactionFailure']);

interface Sized {
  readonly event: OutcomeEvent;
  readonly entry: PutEventsRequestEntry;
  readonly bytes: number;
}

export class EventBridgeBus implements EventBus {
  readonly #client: EventBridgeClient;
  readonly #busName: string;

  constructor(options: EventBridgeBusOptions) {
    this.#client = options.client;
    this.#busName = options.busName;
  }

  async publish(events: readonly OutcomeEvent[]): Promise<readonly Unpublished[]> {
    const all = events.map((event) => entryOf(event, this.#busName));
    const sized = all.filter((each) => 'entry' in each);
    const tooLarge = all.filter((each) => 'reason' in each);
    const answers = await Promise.all(batchesOf(sized).map((batch) => this.#put(batch)));
    return [...tooLarge, ...answers.flat()];
  }

  /** A batch that is refused as a whole is split, down to the entry that is at fault. */
  async #put(batch: readonly Sized[]): Promise<readonly Unpublished[]> {
    try {
      const { Entries = [] } = await this.#client.send(
        new PutEventsCommand({ Entries: batch.map((each) => each.entry) }),
      );
      // Answers stand in the order of the entries; only an accepted one has an id.
      return batch.flatMap(({ event }, index) => {
        const { EventId, ErrorCode = '', ErrorMessage = '' } = Entries[index] ?? {};
        if (EventId !== undefined) return [];
        return [REFUSALS.has(ErrorCode) ? { event, reason: `${ErrorCode}: ${ErrorMessage}` } : { event }];
      });
    } catch (error) {
      if (error instanceof Error && MISCONFIGURATIONS.has(error.name)) {
        throw new MisconfiguredError(
          `publish: bus ${this.#busName} cannot be used (${error.name}: ${error.message}); check that the stack is deployed here and grants this role its actions`,
          { cause: error },
        );
      }
      // Throttled or unanswered: the caller may publish these again.
      if (!isRefusal(error)) return batch.map(({ event }) => ({ event }));
      const [first] = batch;
      if (batch.length === 1 && first !== undefined)
        return [{ event: first.event, reason: `${error.name}: ${error.message}` }];
      const half = Math.ceil(batch.length / 2);
      return [...(await this.#put(batch.slice(0, half))), ...(await this.#put(batch.slice(half)))];
    }
  }
}

/** The request itself is at fault, as far as EventBridge says so. */
function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error) || THROTTLES.has(error.name)) return false;
  const { $metadata } = error as { readonly $metadata?: { readonly httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  return status >= 400 && status < 500 && !TEMPORARY.has(status);
}

/** Who asks is not believed, as where its clock is wrong; no answer in time; too many requests. */
const TEMPORARY: ReadonlySet<number> = new Set([401, 403, 408, 429]);

const THROTTLES: ReadonlySet<string> = new Set(['ThrottlingException', 'LimitExceededException']);

const MISCONFIGURATIONS: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'UnrecognizedClientException',
  'ExpiredTokenException',
  'CredentialsProviderError',
]);

function batchesOf(sized: readonly Sized[]): readonly (readonly Sized[])[] {
  const batches: Sized[][] = [];
  let bytes = 0;
  for (const each of sized) {
    const batch = batches.at(-1);
    if (batch === undefined || batch.length === ENTRIES_MAX || bytes + each.bytes > REQUEST_BYTES_MAX) {
      batches.push([each]);
      bytes = each.bytes;
    } else {
      batch.push(each);
      bytes += each.bytes;
    }
  }
  return batches;
}

/** As an entry of a request; or why it cannot be one. */
function entryOf(event: OutcomeEvent, busName: string): Sized | Required<Unpublished> {
  for (const detail of detailsOf(event)) {
    const entry = {
      EventBusName: busName,
      Source: EVENT_SOURCE,
      DetailType: detailTypeOf(event),
      Detail: JSON.stringify(detail),
      Time: new Date(timeOf(event)),
    };
    const bytes = sizeOf(entry);
    if (bytes <= REQUEST_BYTES_MAX) return { event, entry, bytes };
  }
  const reason = `it does not fit into a request of ${REQUEST_BYTES_MAX} bytes even when it is cut`;
  return { event, reason };
}

/** The detail in ever shorter forms; `omitted` names what a reader has to fetch from the job instead. */
function* detailsOf(event: OutcomeEvent): Generator<object> {
  const { detail } = event;
  yield detail;
  if (event.kind === 'rejected') {
    yield { ...detail, detail: '', omitted: ['detail'] };
    return;
  }
  if (event.kind === 'stopped') return;
  const { result: _result, ...rest } = event.detail;
  yield { ...rest, omitted: ['result'] };
  const { error } = rest;
  if (error !== undefined) {
    yield {
      ...rest,
      error: { ...error, message: error.message.slice(0, MESSAGE_MAX) },
      omitted: ['result', 'error.message'],
    };
  }
}

function detailTypeOf(event: OutcomeEvent): string {
  if (event.kind === 'rejected') return DETAIL_TYPE.rejected;
  if (event.kind === 'stopped') return SCHEDULE_STOPPED;
  const { state } = event.detail;
  if (state === 'succeeded' || state === 'failed' || state === 'cancelled') return DETAIL_TYPE[state];
  throw new RangeError(`an outcome of ${describe(event)} is ${state}; publish terminal jobs only`);
}

function timeOf(event: OutcomeEvent): number {
  if (event.kind === 'rejected') return event.detail.rejectedAtMs;
  return event.kind === 'stopped' ? event.detail.stoppedAtMs : finishedAtMsOf(event.detail);
}

const finishedAtMsOf = (detail: JobOutcomeDetail): number => detail.finishedAtMs ?? detail.submittedAtMs;

function describe(event: OutcomeEvent): string {
  if (event.kind === 'rejected') return `request ${event.detail.sourceId}`;
  return `${event.kind === 'stopped' ? 'schedule' : 'job'} ${event.detail.id}`;
}

/** As EventBridge counts it: the time 14 bytes, the rest its UTF-8. */
const sizeOf = (entry: {
  readonly Source: string;
  readonly DetailType: string;
  readonly Detail: string;
}): number =>
  14 +
  Buffer.byteLength(entry.Source) +
  Buffer.byteLength(entry.DetailType) +
  Buffer.byteLength(entry.Detail);
