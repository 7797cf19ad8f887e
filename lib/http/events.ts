/** Events: the outcomes of jobs as a stream, and requests as `PutEvents` of EventBridge takes them. */
import { randomUUID } from 'node:crypto';
import type { Context } from 'hono';
import { streamSSE } from 'hono/streaming';
import * as z from 'zod';
import type { EndState } from '../core/job.ts';
import { DETAIL_TYPE, type OutcomeEvent, REQUEST_TYPES } from '../events/contract.ts';
import { HTTP_LIMITS, HttpRefusal, parsedBy } from './read.ts';

/** A source of the scheduler's events, such as the bus in memory. */
export interface EventSource {
  /** Calls the listener for each event, until the function that it returns is called. */
  readonly subscribe: (listener: (event: OutcomeEvent) => void) => () => void;
}

/** Takes the messages that the bus would send to the ingest queue; answers the ids of those to deliver again. */
export type IngestEvents = (
  messages: readonly { readonly messageId: string; readonly body: string }[],
) => Promise<readonly string[]>;

/** The most events that a stream has to send. With more it ends: its reader is too slow, and reads the jobs instead. */
const BACKLOG_MAX = 1_000;
const STREAMS_MAX = 100;
/** Milliseconds between two comments in a stream, because proxies close connections on which nothing is sent. */
const COMMENT_EVERY_MS = 15_000;

export const outcomeQuery = z.strictObject({
  type: z.string().max(512).optional().describe('Only outcomes of this job type'),
  fairnessKey: z.string().max(512).optional().describe('Only outcomes of jobs of this fairness key'),
});

/** Streams outcomes as server-sent events, each with the detail type as its name. */
export class OutcomeStreams {
  readonly #source: EventSource;
  #open = 0;

  constructor(source: EventSource) {
    this.#source = source;
  }

  open(context: Context, filter: z.output<typeof outcomeQuery>): Response {
    if (this.#open >= STREAMS_MAX)
      throw new HttpRefusal(503, `${STREAMS_MAX} streams are open; close one, or wait for jobs`);
    this.#open += 1;
    return streamSSE(context, async (stream) => {
      const events: (OutcomeEvent & { readonly kind: 'outcome' })[] = [];
      let wake = Promise.withResolvers<void>();
      const unsubscribe = this.#source.subscribe((event) => {
        if (event.kind !== 'outcome' || !matches(filter, event.detail)) return;
        // A write to a reader that stalls does not end otherwise.
        if (events.push(event) >= BACKLOG_MAX) stream.abort();
        wake.resolve();
      });
      stream.onAbort(() => wake.resolve());
      const comments = setInterval(() => void stream.write(':\n\n'), COMMENT_EVERY_MS);
      try {
        await stream.write(':\n\n');
        while (!stream.aborted) {
          const event = events.shift();
          if (event !== undefined) {
            const { id, version, state } = event.detail;
            await stream.writeSSE({
              event: DETAIL_TYPE[state as EndState],
              id: `${id}/${version}`,
              data: JSON.stringify(event.detail),
            });
            continue;
          }
          await wake.promise;
          wake = Promise.withResolvers();
        }
      } finally {
        clearInterval(comments);
        unsubscribe();
        this.#open -= 1;
      }
    });
  }
}

const matches = (
  filter: z.output<typeof outcomeQuery>,
  { type, fairnessKey }: Extract<OutcomeEvent, { kind: 'outcome' }>['detail'],
): boolean =>
  (filter.type === undefined || filter.type === type) &&
  (filter.fairnessKey === undefined || filter.fairnessKey === fairnessKey);

/** The body of `PutEvents`, with EventBridge's own names. */
export const putEventsBody = z.object({
  Entries: z
    .array(
      z.looseObject({
        Source: z.string().max(256).optional(),
        DetailType: z.string().max(128),
        Detail: z.string().max(262_144).describe('JSON as text'),
        Time: z.union([z.string(), z.number()]).optional(),
        EventBusName: z.string().optional(),
        TraceHeader: z.string().max(500).optional(),
      }),
    )
    .min(1)
    .max(HTTP_LIMITS.events),
});

export const putEventsAnswer = z.looseObject({
  FailedEntryCount: z.int(),
  Entries: z.array(
    z.looseObject({
      EventId: z.string().optional(),
      ErrorCode: z.string().optional(),
      ErrorMessage: z.string().optional(),
    }),
  ),
});

type Taken = {
  readonly EventId?: string;
  readonly ErrorCode?: string;
  readonly ErrorMessage?: string;
};

/** Takes events as the bus does: those that request nothing are accepted and have no effect. */
export async function putEvents(
  ingest: IngestEvents,
  body: unknown,
  nowMs: number,
): Promise<z.output<typeof putEventsAnswer>> {
  const { Entries: entries } = parsedBy(putEventsBody, body);
  const events = entries.map(({ Source, DetailType, Detail, TraceHeader }) => {
    const id = randomUUID();
    try {
      const detail: unknown = JSON.parse(Detail);
      const time = new Date(nowMs).toISOString().replace(/\.\d+Z$/, 'Z');
      const event = { version: '0', id, 'detail-type': DetailType, source: Source, time, detail };
      return { id, isRequest: REQUEST_TYPES.includes(DetailType), body: JSON.stringify(event), TraceHeader };
    } catch {
      return { id, body: undefined };
    }
  });
  const messages = events.flatMap((event) =>
    event.body !== undefined && event.isRequest
      ? [
          {
            messageId: event.id,
            body: event.body,
            ...(event.TraceHeader === undefined ? {} : { traceHeader: event.TraceHeader }),
          },
        ]
      : [],
  );
  const failed = new Set(messages.length === 0 ? [] : await ingest(messages));
  const taken = events.map(({ id, body: text }): Taken => {
    if (text === undefined) return { ErrorCode: 'MalformedDetail', ErrorMessage: 'Detail is malformed.' };
    return failed.has(id)
      ? { ErrorCode: 'InternalFailure', ErrorMessage: 'the event was not taken; put it again' }
      : { EventId: id };
  });
  return {
    FailedEntryCount: taken.filter(({ EventId }) => EventId === undefined).length,
    Entries: taken,
  };
}
