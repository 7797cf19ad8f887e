/** The bus on EventBridge. */

import {
  type EventBridgeClient,
  PutEventsCommand,
  type PutEventsRequestEntry,
} from '@aws-sdk/client-eventbridge';
import { MisconfiguredError } from '../../core/errors.ts';
import { isTerminal } from '../../core/job.ts';
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

/** The most entries of one request that EventBridge accepts. */
const ENTRIES_MAX = 10;

/**
 * The most bytes of all entries of one request. EventBridge takes less than 1 MB. The delivered event is some hundred
 * bytes larger than its entry, and must still fit into a queue message of 1 MiB.
 */
const REQUEST_BYTES_MAX = 1_000_000;

/** How many characters of an error's message are kept if the event is too large even without its result. */
const MESSAGE_MAX = 10_000;

/** Error codes of a single entry that a retry would not change. */
const REFUSALS: ReadonlySet<string> = new Set(['InvalidArgument', 'MalformedDetail', 'RedactionFailure']);

interface SizedEntry {
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

  /** Sends a batch. If the whole batch is refused, splits it until the invalid entry is alone. */
  async #put(batch: readonly SizedEntry[]): Promise<readonly Unpublished[]> {
    try {
      const { Entries = [] } = await this.#client.send(
        new PutEventsCommand({ Entries: batch.map((each) => each.entry) }),
      );
      // Results have the order of the entries, and only accepted ones have an id.
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
      // The request was throttled or not answered, so the caller may publish these events again.
      if (!isRefusal(error)) return batch.map(({ event }) => ({ event }));
      const [first] = batch;
      if (batch.length === 1 && first !== undefined)
        return [{ event: first.event, reason: `${error.name}: ${error.message}` }];
      const half = Math.ceil(batch.length / 2);
      return [...(await this.#put(batch.slice(0, half))), ...(await this.#put(batch.slice(half)))];
    }
  }
}

/** Whether EventBridge says that the request itself is invalid. */
function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error) || THROTTLES.has(error.name)) return false;
  const { $metadata } = error as { readonly $metadata?: { readonly httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  return status >= 400 && status < 500 && !TEMPORARY_STATUSES.has(status);
}

/** Statuses of requests that may succeed later: 401 and 403 also come from a wrong clock, 408 is a timeout, 429 throttling. */
const TEMPORARY_STATUSES: ReadonlySet<number> = new Set([401, 403, 408, 429]);

const THROTTLES: ReadonlySet<string> = new Set(['ThrottlingException', 'LimitExceededException']);

const MISCONFIGURATIONS: ReadonlySet<string> = new Set([
  'ResourceNotFoundException',
  'AccessDeniedException',
  'UnrecognizedClientException',
  'ExpiredTokenException',
  'CredentialsProviderError',
]);

function batchesOf(sized: readonly SizedEntry[]): readonly (readonly SizedEntry[])[] {
  const batches: SizedEntry[][] = [];
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

/** Returns an entry of a request, or the reason why the bus will never accept the event. */
function entryOf(event: OutcomeEvent, busName: string): SizedEntry | Required<Unpublished> {
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
  const reason = `even shortened, it does not fit into a request of ${REQUEST_BYTES_MAX} bytes`;
  return { event, reason };
}

/**
 * Yields the detail in shorter and shorter forms. `omitted` lists the fields that a consumer must read from the job.
 */
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
  if (isTerminal(state)) return DETAIL_TYPE[state];
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

/** Returns the size as EventBridge counts it: 14 bytes for the time, and the UTF-8 bytes of the other fields. */
const sizeOf = (entry: {
  readonly Source: string;
  readonly DetailType: string;
  readonly Detail: string;
}): number =>
  14 +
  Buffer.byteLength(entry.Source) +
  Buffer.byteLength(entry.DetailType) +
  Buffer.byteLength(entry.Detail);
