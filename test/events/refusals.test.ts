/** What EventBridge refuses, and what it only does not take now: a server answers as it does. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { afterAll, beforeEach, expect, it } from 'vitest';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import { anOutcome } from '../fixtures/factories/outcome-event.ts';

interface Answer {
  readonly status: number;
  readonly body: object;
}
/** The details of a request's entries, and what it is answered. */
let answerTo: (details: readonly string[]) => Answer;
let requests: number[];

const eventBridge = createServer(async (request, response) => {
  const { Entries } = JSON.parse(await text(request)) as { Entries: { Detail: string }[] };
  requests.push(Entries.length);
  const { status, body } = answerTo(Entries.map(({ Detail }) => Detail));
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.1' }).end(JSON.stringify(body));
});
await new Promise<void>((listening) => eventBridge.listen(0, '127.0.0.1', listening));
const client = new EventBridgeClient({
  endpoint: `http://127.0.0.1:${(eventBridge.address() as AddressInfo).port}`,
  region: 'eu-central-1',
  credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
  maxAttempts: 1,
});
afterAll(() => {
  client.destroy();
  eventBridge.closeAllConnections();
  eventBridge.close();
});

const bus = new EventBridgeBus({ client, busName: 'bus' });
const accepted = (details: readonly string[]): Answer => ({
  status: 200,
  body: { FailedEntryCount: 0, Entries: details.map(() => ({ EventId: 'an id' })) },
});
const refusal = (name: string, status = 400): Answer => ({
  status,
  body: { __type: name, message: 'as it is' },
});
const many = (count: number): readonly OutcomeEvent[] => Array.from({ length: count }, () => anOutcome({}));
const isOf = (detail: string, event: OutcomeEvent | undefined): boolean =>
  event?.kind === 'outcome' && detail.includes(event.detail.id);

beforeEach(() => {
  requests = [];
});

it.each([
  ['ValidationException', 400],
  ['RequestEntityTooLargeException', 413],
])(
  'a batch that is refused (%s) is split down to the entry at fault; the others are published',
  async (name, status) => {
    const events = many(10);
    const [bad] = events.slice(6);
    answerTo = (details) =>
      details.some((detail) => isOf(detail, bad)) ? refusal(name, status) : accepted(details);
    expect(await bus.publish(events)).toEqual([{ event: bad, reason: `${name}: as it is` }]);
    expect(requests).toEqual([10, 5, 5, 3, 2, 1, 1, 1, 2]);
  },
);

it.each(['MalformedDetail', 'InvalidArgument'])(
  'an entry that is refused by itself (%s) says why',
  async (ErrorCode) => {
    const [bad, good] = many(2);
    answerTo = (details) => ({
      status: 200,
      body: {
        FailedEntryCount: 1,
        Entries: details.map((detail) =>
          isOf(detail, bad) ? { ErrorCode, ErrorMessage: 'as it is' } : { EventId: 'an id' },
        ),
      },
    });
    expect(await bus.publish([bad as OutcomeEvent, good as OutcomeEvent])).toEqual([
      { event: bad, reason: `${ErrorCode}: as it is` },
    ]);
  },
);

it.each([
  'InternalFailure',
  'ThrottlingException',
  'AccessDeniedException',
  'NotAuthorizedForSourceException',
])(
  'an entry that is not taken now (%s) may be taken later: time or its owner changes that',
  async (ErrorCode) => {
    const [event] = many(1);
    answerTo = () => ({
      status: 200,
      body: { FailedEntryCount: 1, Entries: [{ ErrorCode, ErrorMessage: 'later' }] },
    });
    expect(await bus.publish([event as OutcomeEvent])).toEqual([{ event }]);
  },
);

it.each([
  ['ThrottlingException', 400],
  ['InternalException', 500],
  ['RequestExpired', 403],
  ['TooManyRequests', 429],
])('a request that is not taken now (%s) is not split', async (name, status) => {
  const events = many(4);
  answerTo = () => refusal(name, status);
  expect(await bus.publish(events)).toEqual(events.map((event) => ({ event })));
  expect(requests).toEqual([4]);
});

it('an event that does not fit even when it is cut keeps no other back', async () => {
  const huge: OutcomeEvent = anOutcome({ fairnessKey: 'k'.repeat(1_000_001) });
  const [good] = many(1);
  answerTo = accepted;
  expect(await bus.publish([huge, good as OutcomeEvent])).toEqual([
    { event: huge, reason: expect.stringContaining('does not fit into a request of 1000000 bytes') },
  ]);
  expect(requests).toEqual([1]);
});
