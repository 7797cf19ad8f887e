/** From messages to jobs and rejection records: bad ones never stop good ones, and nothing happens twice. */

import { describe, expect, it } from 'vitest';
import { RefusedError, ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import type { Rejection } from '../../lib/store/contract/records.ts';
import {
  type IngestContext,
  type IngestMessage,
  type IngestReport,
  ingest,
} from '../../lib/submit/ingest.ts';
import { jobIdOf, jobIdOfEvent } from '../../lib/submit/request.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

let made = 0;

/** A message as the bus puts it on the queue. */
function message(detail: unknown, id?: string): IngestMessage {
  made += 1;
  const event = { version: '0', id: id ?? `event-${made}`, 'detail-type': 'Job Requested', detail };
  return { messageId: `message-${made}`, body: JSON.stringify(event) };
}
const raw = (body: string): IngestMessage => ({ ...message({}), body });
const eventIdOf = ({ body }: IngestMessage): string => String((JSON.parse(body) as { id: unknown }).id);

function ingester(on: Stage, own: Partial<IngestContext> = {}): IngestContext {
  return { ...on.submitter(), events: on.bus, log: on.log, partitionOf: () => 0, ...own };
}

async function intake(
  messages: readonly IngestMessage[],
  own: Partial<IngestContext> = {},
  on: Stage = stage(),
) {
  const report = await on.finish(ingest(ingester(on, own), messages));
  return { on, report, jobs: [...on.store.everyJob()] };
}

const rejectedOn = (on: Stage): readonly Rejection[] =>
  on.published.flatMap((event) => (event.kind === 'rejected' ? [event.detail] : []));

const good = (n = 0): unknown => ({ type: 'resize', payload: n });

const BAD: readonly (readonly [what: string, body: string, field: string])[] = [
  ['text that is not JSON', 'resize please', ''],
  ['an empty body', '', ''],
  ['half an event', '{"detail":{"type":"resize"', ''],
  ['a JSON number', '7', 'detail'],
  ['null', 'null', 'detail'],
  ['an array', '[]', 'detail'],
  ['no detail', '{"id":"e"}', 'detail'],
  ['detail null', '{"id":"e","detail":null}', ''],
  ['detail as text', '{"id":"e","detail":"{\\"type\\":\\"resize\\"}"}', ''],
  ['an unknown type', '{"id":"e","detail":{"type":"nope"}}', 'type'],
  ['no type', '{"id":"e","detail":{}}', 'type'],
  ['priority 11', '{"id":"e","detail":{"type":"resize","priority":11}}', 'priority'],
  ['__proto__', '{"id":"e","detail":{"type":"resize","__proto__":{"priority":1}}}', '__proto__'],
  ['an unknown field', '{"id":"e","detail":{"type":"resize","colour":1}}', 'colour'],
  [
    '300 KB of payload',
    `{"id":"e","detail":{"type":"resize","payload":"${'x'.repeat(300_000)}"}}`,
    'payload',
  ],
  [
    'a payload of 50,000 levels',
    `{"id":"e","detail":{"type":"resize","payload":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`,
    'payload',
  ],
  ['a detail of 50,000 levels', `{"id":"e","detail":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, ''],
  [
    'a field name of 300 KB',
    `{"id":"e","detail":{"type":"resize","${'x'.repeat(300_000)}":1}}`,
    'x'.repeat(200),
  ],
  ['an ill-formed key', '{"id":"e","detail":{"type":"resize","fairnessKey":"\\ud800"}}', 'fairnessKey'],
  ['an ill-formed field name', '{"id":"e","detail":{"type":"resize","\\ud800":1}}', '\ufffd'],
  ['runAt without a zone', '{"id":"e","detail":{"type":"resize","runAt":"2027-01-31T08:00:00"}}', 'runAt'],
];

describe('a message that is not acceptable', () => {
  it.each(BAD)(
    'leaves one record that names its field and one event, and spoils nothing: %s',
    async (_, body, field) => {
      const bad = raw(body);
      const { on, report, jobs } = await intake([message(good(1)), bad, message(good(2))]);
      expect(report).toMatchObject({ failedMessageIds: [], repeated: 0, rejected: 1 });
      expect(jobs.map((job) => job.payload).sort()).toEqual([1, 2]);
      expect(report.created.map(({ id }) => id).sort()).toEqual(jobs.map(({ id }) => id).sort());
      const events = rejectedOn(on);
      expect(events).toHaveLength(1);
      const records = await on.store.listRejections(events[0]?.sourceId ?? '');
      expect(records).toEqual(events);
      expect(records[0]).toMatchObject({ position: 0, field, rejectedAtMs: NOW_MS });
      expect(records[0]?.reason).not.toBe('');
      // What is kept can be found without knowing the event, and the log has a line of it.
      expect((await on.store.readRejections({ limit: 10 })).rejections).toEqual(events);
      const { sourceId: eventId, position, reason } = events[0] as Rejection;
      const line = {
        level: 'warn',
        message: 'a request was rejected',
        fields: { eventId, position, field, reason },
      };
      expect(on.logged.filter(({ message }) => message === line.message)).toEqual([line]);
    },
  );

  it('keeps what was sent, as far as it fits', async () => {
    const { on } = await intake([message({ type: 'resize', priority: 11 })]);
    expect(rejectedOn(on)[0]?.detail).toBe('{"type":"resize","priority":11}');
  });

  it('leaves one record however often it is delivered', async () => {
    const on = stage();
    const bad = message({ jobs: [good(), { type: 'nope' }, { type: 'resize', priority: 11 }] });
    await intake([bad], {}, on);
    await on.advance(1_000);
    const { report } = await intake([{ ...bad, messageId: 'another' }], {}, on);
    expect(report).toMatchObject({ created: [], repeated: 1, rejected: 2 });
    const records = await on.store.listRejections(eventIdOf(bad));
    expect(records.map(({ position, field, rejectedAtMs }) => [position, field, rejectedAtMs])).toEqual([
      [1, 'jobs[1].type', NOW_MS],
      [2, 'jobs[2].priority', NOW_MS],
    ]);
  });
});

describe('an event', () => {
  it('makes the jobs it asks for, each once, whatever number of times it comes', async () => {
    const on = stage();
    const event = message({ jobs: [good(0), good(1), good(2)] });
    const first = await intake([event, { ...event, messageId: 'again' }], {}, on);
    expect(first.report.created).toHaveLength(3);
    expect(first.report.repeated).toBe(3);
    const second = await intake([event], {}, on);
    expect(second.report).toMatchObject({ created: [], repeated: 3, rejected: 0 });
    expect(second.jobs.map(({ id }) => id)).toEqual(
      [0, 1, 2].map((at) => jobIdOfEvent(eventIdOf(event), at)),
    );
  });

  it('makes one job of one idempotency key, in any number of events', async () => {
    const keyed = { type: 'resize', payload: { a: 1, b: 2 }, idempotencyKey: 'once' };
    const other = { idempotencyKey: 'once', payload: { b: 2, a: 1 }, type: 'resize' };
    const { report, jobs } = await intake([
      message(keyed),
      message(other),
      message({ jobs: [keyed, other] }),
    ]);
    expect(jobs.map(({ id }) => id)).toEqual([jobIdOf('once')]);
    expect(report).toMatchObject({ repeated: 3, rejected: 0 });
  });

  it('is rejected when its idempotency key is taken by other content', async () => {
    const on = stage();
    await intake([message({ type: 'resize', payload: 1, idempotencyKey: 'once' })], {}, on);
    const single = message({ type: 'resize', payload: 2, idempotencyKey: 'once' });
    const many = message({ jobs: [good(), { type: 'resize', payload: 3, idempotencyKey: 'once' }] });
    const { report, jobs } = await intake([single, many], {}, on);
    expect(report).toMatchObject({ rejected: 2, failedMessageIds: [] });
    expect(jobs.find(({ id }) => id === jobIdOf('once'))?.payload).toBe(1);
    const [one] = await on.store.listRejections(eventIdOf(single));
    expect(one).toMatchObject({ field: 'idempotencyKey', reason: expect.stringContaining(jobIdOf('once')) });
    const [other] = await on.store.listRejections(eventIdOf(many));
    expect(other).toMatchObject({ position: 1, field: 'jobs[1].idempotencyKey' });
  });

  it('may take up to a thousand jobs', async () => {
    const { report } = await intake([message({ jobs: Array.from({ length: 1_000 }, (_, n) => good(n)) })]);
    expect(report.created).toHaveLength(1_000);
  });
});

describe('trouble with the store', () => {
  const troubles = [new ThrottledError('busy'), new UnavailableError('no answer')];

  const redelivered = (messages: readonly IngestMessage[], report: IngestReport): readonly IngestMessage[] =>
    messages.filter(({ messageId }) => report.failedMessageIds.includes(messageId));

  it.each(troubles)('fails the messages with jobs, and a redelivery completes them: %o', async (trouble) => {
    const on = stage();
    const withJob = message(good());
    const mixed = message({ jobs: [good(), { type: 'nope' }] });
    const bad = message({ type: 'nope' });
    const messages = [withJob, mixed, bad];
    const store = storeWith(on.store, { createJobs: () => Promise.reject(trouble) });
    const { report } = await intake(messages, { store }, on);
    expect([...report.failedMessageIds].sort()).toEqual([withJob.messageId, mixed.messageId].sort());
    expect(await on.store.listRejections(eventIdOf(bad))).toHaveLength(1);
    const again = await intake(redelivered(messages, report), {}, on);
    expect(again.report.failedMessageIds).toEqual([]);
    expect(again.jobs).toHaveLength(2);
    expect(await on.store.listRejections(eventIdOf(mixed))).toHaveLength(1);
  });

  it('in an announcement puts no job: nobody would look into its line', async () => {
    const on = stage();
    const store = storeWith(on.store, { announceLines: () => Promise.reject(new ThrottledError('busy')) });
    const messages = [message(good())];
    const { report, jobs } = await intake(messages, { store }, on);
    expect(jobs).toEqual([]);
    expect(report.failedMessageIds).toEqual([messages[0]?.messageId]);
  });

  it.each(troubles)('in a rejection record fails only the messages that have one: %o', async (trouble) => {
    const on = stage();
    const bad = message({ type: 'nope' });
    const messages = [message(good()), bad];
    const store = storeWith(on.store, { recordRejections: () => Promise.reject(trouble) });
    const { report, jobs } = await intake(messages, { store }, on);
    expect(report.failedMessageIds).toEqual([bad.messageId]);
    expect(jobs).toHaveLength(1);
    expect(rejectedOn(on)).toEqual([]);
    const again = await intake(redelivered(messages, report), {}, on);
    expect(again.report.failedMessageIds).toEqual([]);
    expect(rejectedOn(on)).toHaveLength(1);
  });

  it('with one job that it refuses does not stop the others', async () => {
    const on = stage();
    const poison = message(good(13));
    const messages = [message(good(1)), poison, message({ jobs: [good(2), good(3)] })];
    const createJobs = (jobs: readonly Job[]) =>
      jobs.some((job) => job.payload === 13)
        ? Promise.reject(new RefusedError('an item too large'))
        : on.store.createJobs(jobs);
    const { report, jobs } = await intake(messages, { store: storeWith(on.store, { createJobs }) }, on);
    expect(report.failedMessageIds).toEqual([poison.messageId]);
    expect(jobs.map((job) => job.payload).sort()).toEqual([1, 2, 3]);
    expect(report.created).toHaveLength(3);
  });
});

describe('trouble with the bus', () => {
  it('fails the messages whose event was not taken, and a redelivery tells of them', async () => {
    const on = stage();
    const [one, other] = [message({ type: 'nope' }), message({ type: 'neither' })];
    const events = {
      publish: (batch: readonly OutcomeEvent[]) =>
        on.bus.publish(batch.slice(1)).then(() => batch.slice(0, 1).map((event) => ({ event }))),
    };
    const { report } = await intake([one, other, message(good())], { events }, on);
    expect(report.failedMessageIds).toEqual([one.messageId]);
    await intake([one], {}, on);
    expect(
      rejectedOn(on)
        .map(({ sourceId }) => sourceId)
        .sort(),
    ).toEqual([one, other].map(eventIdOf).sort());
  });

  it('that will never take an event fails no message: the record says why the request was refused', async () => {
    const bad = message({ type: 'nope' });
    const events = {
      publish: async (batch: readonly OutcomeEvent[]) =>
        batch.map((event) => ({ event, reason: 'MalformedDetail: no' })),
    };
    const { on, report } = await intake([bad], { events });
    expect(report.failedMessageIds).toEqual([]);
    expect(await on.store.listRejections(eventIdOf(bad))).toHaveLength(1);
    expect(on.logged).toContainEqual(
      expect.objectContaining({ message: expect.stringContaining('refuses the event of a rejection') }),
    );
  });

  it('that throws fails the messages whose rejection it should have told', async () => {
    const bad = message({ type: 'nope' });
    const events = { publish: () => Promise.reject(new Error('no bus')) };
    const { on, report, jobs } = await intake([bad, message(good())], { events });
    expect(report.failedMessageIds).toEqual([bad.messageId]);
    expect(jobs).toHaveLength(1);
    expect(await on.store.listRejections(eventIdOf(bad))).toHaveLength(1);
  });
});
