/** The bus on EventBridge. */
import {
  type EventBridgeClient,
  PutEventsCommand,
  type PutEventsRequestEntry,
} from '@aws-sdk/client-eventbridge';
import {
  DETAIL_TYPE,
  EVENT_SOURCE,
  type EventBus,
  type JobOutcomeDetail,
  type OutcomeEvent,
  SCHEDULE_STOPPED,
} from '../contract.ts';
import { BusMisconfigured } from '../errors.ts';

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

  async publish(events: readonly OutcomeEvent[]): Promise<readonly OutcomeEvent[]> {
    const sized = events.map((event) => entryOf(event, this.#busName));
    const answers = await Promise.all(batchesOf(sized).map((batch) => this.#put(batch)));
    return answers.flat();
  }

  async #put(batch: readonly Sized[]): Promise<readonly OutcomeEvent[]> {
    try {
      const { Entries = [] } = await this.#client.send(
        new PutEventsCommand({ Entries: batch.map((each) => each.entry) }),
      );
      // Answers stand in the order of the entries; only an accepted one has an id.
      return batch.flatMap(({ event }, index) => (Entries[index]?.EventId === undefined ? [event] : []));
    } catch (error) {
      if (error instanceof Error && MISCONFIGURATIONS.has(error.name)) {
        throw new BusMisconfigured(
          `publish: bus ${this.#busName} cannot be used (${error.name}: ${error.message}); check that the stack is deployed here and grants this role its actions`,
          { cause: error },
        );
      }
      // Throttled, refused or unanswered: the caller may publish these again.
      return batch.map(({ event }) => event);
    }
  }
}

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

function entryOf(event: OutcomeEvent, busName: string): Sized {
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
  throw new RangeError(
    `an event of ${describe(event)} does not fit into a request even when it is cut; shorten its keys`,
  );
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
