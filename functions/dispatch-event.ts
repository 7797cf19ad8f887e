/** Decodes the events that invoke the dispatch function. */
import { inspect } from 'node:util';
import type { DynamoDBStreamEvent, SQSEvent } from 'aws-lambda';
import type { DispatchRequest } from '../lib/dispatch/serve.ts';
import { leadRequestIn } from '../lib/queue/lambda/leads.ts';
import { decodeWake, wakeIn } from '../lib/queue/message.ts';
import type { Log } from '../lib/runtime/contract.ts';
import { changesIn } from '../lib/store/dynamodb/stream.ts';

export type DispatchEvent =
  | DynamoDBStreamEvent
  | SQSEvent
  | { readonly 'detail-type'?: string }
  | { readonly asks: 'lead'; readonly partition: number };

/**
 * The function's own ARN, by which the event sources invoke it; only their records are trusted. Producers may invoke it
 * only by an alias, and then it accepts one wake and nothing else.
 */
const OWN_ARN = /^arn:[\w-]+:lambda:[\w-]+:\d+:function:[\w-]+$/;

/** How many characters of an event from a producer are logged. */
const LOGGED_CHARS = 200;

const NOTHING: DispatchRequest = { kind: 'wakes', passes: [], workerChecks: [] };

/**
 * Decodes an event that invokes the dispatch function.
 * @returns what to do. An unreadable record, or an unreadable event by an alias, is logged and ignored.
 */
export function decodeDispatchEvent(
  event: DispatchEvent,
  invokedFunctionArn: string,
  log: Pick<Log, 'warn'>,
): DispatchRequest {
  if (!OWN_ARN.test(invokedFunctionArn)) return wakeByAlias(event, log);
  if (isStream(event)) {
    const changes = changesIn(event.Records, (keys, error) =>
      log.warn('a stream record is neither a job nor a schedule', { keys, error: String(error) }),
    );
    return { kind: 'changes', ...changes };
  }
  const partition = leadRequestIn(event);
  if (partition !== undefined) return { kind: 'lead', partition };
  return 'Records' in event ? wakesIn(event as SQSEvent) : { kind: 'tick' };
}

const isStream = (event: DispatchEvent): event is DynamoDBStreamEvent =>
  'Records' in event && event.Records.some((record) => record.eventSource === 'aws:dynamodb');

/** Decodes messages of the wake queue. An unreadable wake may be meant for any partition, so it wakes all. */
function wakesIn({ Records }: SQSEvent): DispatchRequest {
  const wakes = Records.map(({ body }) => decodeWake(body));
  return {
    kind: 'wakes',
    passes: wakes.filter((wake) => wake?.asks === 'pass'),
    workerChecks: wakes.filter((wake) => wake?.asks === 'look'),
    wakesAll: wakes.includes(undefined),
  };
}

function wakeByAlias(event: unknown, log: Pick<Log, 'warn'>): DispatchRequest {
  const wake = wakeIn(event);
  if (wake?.asks === 'pass') return { kind: 'wakes', passes: [wake], workerChecks: [] };
  const shown = inspect(event, { depth: 2, breakLength: Infinity, maxStringLength: LOGGED_CHARS });
  log.warn('an event that came by the alias is not a wake', { event: shown.slice(0, LOGGED_CHARS) });
  return NOTHING;
}
