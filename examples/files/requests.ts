/** Puts requests on the bus: many jobs in an event, many events in a call. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import type { PlannedFile } from './input.ts';

const SOURCE = 'fairlead.example';
/** An event is billed by units of 64 KB. */
const EVENT_BYTES_MAX = 64 * 1024;
const EVENT_JOBS_MAX = 1_000;
/** What PutEvents takes in one call. It takes 1 MB since January 2026; emulators may not know that yet. */
const CALL_EVENTS_MAX = 10;
const CALL_BYTES_MAX = 256 * 1024;
const TRIES_MAX = 5;
const RETRY_MS = 200;

/** One event to be put. */
export interface RequestEvent {
  readonly detail: string;
  /** In the order of the detail's `jobs`. */
  readonly files: readonly PlannedFile[];
}

/** The bus did not take the requests. */
export class SubmitError extends Error {
  override readonly name = 'SubmitError';
}

const bytesOf = (text: string): number => Buffer.byteLength(text, 'utf8');

const ENTRY_BYTES = bytesOf(SOURCE) + bytesOf(DETAIL_TYPE.requested);
const FRAME_BYTES = bytesOf(JSON.stringify({ jobs: [] }));

/** Consecutive items together, as long as the sum of their sizes and their count stay within the bounds. */
function group<Item>(
  items: readonly Item[],
  sizeOf: (item: Item) => number,
  sizeMax: number,
  countMax: number,
): readonly (readonly Item[])[] {
  const groups: Item[][] = [];
  let size = Infinity;
  for (const item of items) {
    const own = sizeOf(item);
    const last = groups.at(-1);
    if (last === undefined || size + own > sizeMax || last.length === countMax) {
      groups.push([item]);
      size = own;
    } else {
      last.push(item);
      size += own;
    }
  }
  return groups;
}

/** The files' jobs in as few events as they fit into. */
export function packRequests(files: readonly PlannedFile[]): readonly RequestEvent[] {
  const entries = files.map((file) => ({ file, json: JSON.stringify(file.request) }));
  // Each entry but the first has a comma before it.
  const groups = group(
    entries,
    ({ json }) => bytesOf(json) + 1,
    EVENT_BYTES_MAX - ENTRY_BYTES - FRAME_BYTES,
    EVENT_JOBS_MAX,
  );
  return groups.map((entriesOfEvent) => ({
    detail: `{"jobs":[${entriesOfEvent.map(({ json }) => json).join(',')}]}`,
    files: entriesOfEvent.map(({ file }) => file),
  }));
}

/**
 * Puts the events, again those that were not taken.
 *
 * @returns the events by the ids that the bus gave them
 * @throws SubmitError
 */
export async function putRequests(
  client: EventBridgeClient,
  bus: string,
  events: readonly RequestEvent[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, RequestEvent>> {
  const byId = new Map<string, RequestEvent>();
  let left = events;
  for (let tries = 1; left.length > 0; tries += 1) {
    let reason = '';
    const again: RequestEvent[] = [];
    for (const call of group(
      left,
      ({ detail }) => bytesOf(detail) + ENTRY_BYTES,
      CALL_BYTES_MAX,
      CALL_EVENTS_MAX,
    )) {
      const { Entries = [] } = await client.send(
        new PutEventsCommand({
          Entries: call.map(({ detail }) => ({
            EventBusName: bus,
            Source: SOURCE,
            DetailType: DETAIL_TYPE.requested,
            Detail: detail,
          })),
        }),
        { abortSignal: signal },
      );
      for (const [at, event] of call.entries()) {
        const id = Entries[at]?.EventId;
        if (id !== undefined) byId.set(id, event);
        else {
          again.push(event);
          reason = Entries[at]?.ErrorMessage ?? Entries[at]?.ErrorCode ?? 'no reason given';
        }
      }
    }
    if (again.length > 0 && tries === TRIES_MAX) {
      throw new SubmitError(
        `the bus ${bus} did not take ${again.length} of ${events.length} events: ${reason}`,
      );
    }
    if (again.length > 0) await sleep(RETRY_MS * 2 ** tries, undefined, { signal });
    left = again;
  }
  return byId;
}
