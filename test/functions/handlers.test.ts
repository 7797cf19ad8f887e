/** The functions' own part: decode, one use case, encode. Their composition is a stage in memory. */

import { marshall } from '@aws-sdk/util-dynamodb';
import type { DynamoDBRecord, DynamoDBStreamEvent, SQSEvent } from 'aws-lambda';
import { beforeEach, describe, expect, it } from 'vitest';
import type { FunctionContext } from '../../functions/composition.ts';
import { dispatching } from '../../functions/dispatch.ts';
import { ingesting } from '../../functions/ingest.ts';
import { ThrottledError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import type { EventBus } from '../../lib/events/contract.ts';
import type { Metrics } from '../../lib/metrics/contract.ts';
import type { OutcomeOutbox, UnpublishedOutcomes } from '../../lib/queue/contract.ts';
import { encodeJob } from '../../lib/store/table/codec/job.ts';
import { encodeScheduleState } from '../../lib/store/table/codec/schedule.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

let on: Stage;
/** Of a partition: each commit raises it. */
const versionOf = (partition: number): number => on.store.inspect(partition).summary.version;
let composed: FunctionContext;
/** What the bus did not take, and what it never will. */
let kept: { readonly unpublished: UnpublishedOutcomes; readonly delayMs: number }[];
let aside: { readonly unpublished: UnpublishedOutcomes; readonly reason: string }[];
/** What the outbox shows to those who take from it, until it is deleted. */
let due: UnpublishedOutcomes[];

/** What the composition root would have built. */
function compose(changes: Readonly<Record<string, unknown>> = {}): void {
  const outbox: OutcomeOutbox = {
    keepOutcomes: async (unpublished, delayMs) => void kept.push({ unpublished, delayMs }),
    setOutcomesAside: async (unpublished, reason) => void aside.push({ unpublished, reason }),
    takeOutcomes: async () => due.map((unpublished, at) => ({ unpublished, receipt: String(at) })),
    deleteOutcomes: async () => void due.shift(),
  };
  composed = {
    ...on.main,
    store: on.store,
    events: on.bus,
    outbox,
    nowMs: on.clock.nowMs,
    partitionOf: () => 0,
    ...changes,
  };
}

const DISPATCH_ARN = 'arn:aws:lambda:eu-central-1:123456789012:function:dispatch';
const dispatchHandler = (
  event: Parameters<ReturnType<typeof dispatching>>[0],
  invokedFunctionArn = DISPATCH_ARN,
) => dispatching(async () => composed)(event, { invokedFunctionArn });
const ingestHandler = ingesting(async () => composed);

beforeEach(() => {
  [kept, aside, due] = [[], [], []];
  on = stage();
  compose();
});

const record = (image: Readonly<Record<string, unknown>> | undefined): DynamoDBRecord => ({
  eventSource: 'aws:dynamodb',
  eventName: image === undefined ? 'REMOVE' : 'MODIFY',
  dynamodb: {
    Keys: { pk: { S: 'any' } },
    ...(image === undefined ? {} : { NewImage: marshall(image, { removeUndefinedValues: true }) as never }),
  },
});
const itemOf = (job: Job) => encodeJob(job, undefined);
const streamOf = (...records: readonly DynamoDBRecord[]): DynamoDBStreamEvent => ({ Records: [...records] });
const queueOf = (...bodies: readonly string[]): SQSEvent =>
  ({
    Records: bodies.map((body, at) => ({
      messageId: `m${at}`,
      body,
      attributes: {},
      eventSource: 'aws:sqs',
    })),
  }) as unknown as SQSEvent;

const NOTHING_FAILED = { batchItemFailures: [] };

/** A job that has been started. */
async function running(): Promise<Job> {
  await on.put(on.job({ payload: { deep: [1, { a: null }] }, resourceId: 'r' }));
  await on.pass();
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started.job;
}

async function twoEnded(): Promise<readonly [Job, Job]> {
  on = stage({ pool: { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 2 } } } });
  compose();
  await on.put(on.job(), on.job());
  await on.pass();
  const [one, other] = await Promise.all((await on.startAll('images')).map((each) => on.end(each)));
  if (one === undefined || other === undefined) throw new Error('two were to start');
  return [one, other];
}

describe('the dispatch function', () => {
  it('makes a pass for pending jobs in the stream', async () => {
    const job = on.job();
    await on.put(job);
    expect(await on.finish(dispatchHandler(streamOf(record(itemOf(job)))))).toEqual(NOTHING_FAILED);
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('settles and tells what ended, by the image in the stream alone', async () => {
    const ended = await on.end({ job: await running() }, { kind: 'succeeded', result: { pages: 3 } });
    await on.finish(dispatchHandler(streamOf(record(itemOf(ended)))));
    expect(on.held()).toEqual([]);
    expect(on.published).toMatchObject([
      {
        kind: 'outcome',
        detail: { id: ended.id, version: 4, state: 'succeeded', result: { pages: 3 }, resourceId: 'r' },
      },
    ]);
  });

  it('tells nothing of jobs that go on', async () => {
    const job = await running();
    await on.finish(dispatchHandler(streamOf(record(itemOf(job)))));
    expect(on.published).toEqual([]);
  });

  it('passes over records that are no jobs, and says so', async () => {
    const job = on.job();
    await on.put(job);
    const strange = [
      record(undefined),
      record({ pk: 'p/0', sk: 'page', version: 1 }),
      record({ ...itemOf(job), version: 'one' }),
    ];
    await on.finish(dispatchHandler(streamOf(...strange, record(itemOf(job)))));
    expect(on.stateOf(job.id)).toBe('claimed');
    expect(
      on.logged.filter(({ message }) => message === 'a stream record is neither a job nor a schedule'),
    ).toHaveLength(2);
  });

  const REFUSING: EventBus = { publish: async (events) => events.map((event) => ({ event })) };
  /** The minute's tick takes what is due. */
  const tickWith = async (...unpublished: readonly (UnpublishedOutcomes | undefined)[]): Promise<void> => {
    due = unpublished.filter((each) => each !== undefined);
    await on.finish(dispatchHandler({ 'detail-type': 'Scheduled Event' }));
  };

  it('keeps an outcome that the bus does not take, and publishes it once it does; the pass is made all the same', async () => {
    compose({ events: REFUSING });
    const ended = await on.end({ job: await running() }, { kind: 'succeeded', result: { pages: 3 } });
    expect(await on.finish(dispatchHandler(streamOf(record(itemOf(ended)))))).toEqual(NOTHING_FAILED);
    expect(on.held()).toEqual([]);
    expect(kept).toEqual([{ unpublished: { jobIds: [ended.id], tries: 1 }, delayMs: 15_000 }]);
    // Still not, and again not: always later, and never for ever.
    for (const delayMs of [30_000, 60_000]) {
      await tickWith(kept.at(-1)?.unpublished);
      expect(kept.at(-1)?.delayMs).toBe(delayMs);
    }
    await tickWith({ jobIds: [ended.id], tries: 1_000_000 });
    expect(kept.at(-1)?.delayMs).toBe(900_000);
    expect(on.published).toEqual([]);
    compose();
    await tickWith({ jobIds: [ended.id, 'gone'], tries: 3 });
    expect(due).toEqual([]);
    expect(on.published).toMatchObject([
      { detail: { id: ended.id, version: ended.version, state: 'succeeded', result: { pages: 3 } } },
    ]);
    expect(kept).toHaveLength(4);
  });

  it('takes one after the other of what is kept, until the bus refuses one: the others are seen again', async () => {
    const [one, other] = await twoEnded();
    const each = (job: Job) => ({ jobIds: [job.id], tries: 1 });
    await tickWith(each(one), each(other));
    expect(on.published).toMatchObject([{ detail: { id: one.id } }, { detail: { id: other.id } }]);
    compose({ events: REFUSING });
    await tickWith(each(one), each(other));
    expect(due).toEqual([each(other)]);
    expect(kept.map(({ unpublished }) => unpublished.jobIds)).toEqual([[one.id]]);
  });

  it('sets an outcome aside that the bus will never take, with the reason, and keeps no other back', async () => {
    const [bad, good] = await twoEnded();
    const events: EventBus = {
      publish: async (all) =>
        all.map((event) =>
          JSON.stringify(event).includes(bad.id) ? { event, reason: 'too odd' } : { event },
        ),
    };
    compose({ events });
    await on.finish(dispatchHandler(streamOf(record(itemOf(bad)), record(itemOf(good)))));
    expect(aside).toEqual([{ unpublished: { jobIds: [bad.id], tries: 1 }, reason: 'too odd' }]);
    expect(kept.map(({ unpublished }) => unpublished.jobIds)).toEqual([[good.id]]);
    await tickWith({ jobIds: [bad.id], tries: 1 });
    expect([aside.length, due.length, kept.length]).toEqual([2, 0, 1]);
  });

  it('tells of a schedule that has paused itself, once the bus takes it, and of none that goes on or that somebody has paused', async () => {
    const records = [
      aSchedule({ id: 'failed', stopped: 'failures', failures: 3, dueMs: undefined }),
      aSchedule({ id: 'resumed', stopped: 'type', dueMs: undefined }),
      aSchedule({ id: 'asked', stopped: 'asked', dueMs: undefined }),
      aSchedule({ id: 'active' }),
    ];
    for (const each of records) await on.finish(on.store.putSchedule({ record: each, afterRevision: 0 }));
    const event = streamOf(...records.map(({ state }) => record(encodeScheduleState(state))));
    const stopped = {
      kind: 'stopped',
      detail: { id: 'failed', revision: 1, reason: 'failures', failures: 3, stoppedAtMs: NOW_MS },
    };
    compose({ events: REFUSING });
    expect(await on.finish(dispatchHandler(event))).toEqual(NOTHING_FAILED);
    const unpublished = { jobIds: [], scheduleIds: ['failed', 'resumed'], tries: 1 };
    expect(kept).toEqual([{ unpublished, delayMs: 15_000 }]);
    compose();
    const { state } = aSchedule({ id: 'resumed', revision: 2 });
    await on.finish(on.store.saveSchedule({ state, afterRevision: 1 }));
    await tickWith({ ...unpublished, scheduleIds: ['failed', 'resumed', 'gone'] });
    expect(on.published).toEqual([stopped]);
    await on.finish(dispatchHandler(event));
    expect(on.published.slice(1)).toMatchObject([stopped, { detail: { id: 'resumed', reason: 'type' } }]);
  });

  it('keeps it also where the bus cannot be used at all', async () => {
    compose({ events: { publish: () => Promise.reject(new Error('there is no such bus')) } });
    const ended = await on.end({ job: await running() });
    await on.finish(dispatchHandler(streamOf(record(itemOf(ended)))));
    expect(kept).toMatchObject([{ unpublished: { jobIds: [ended.id] } }]);
  });

  it("is given the stream's batch again when neither the bus nor the outbox takes an outcome", async () => {
    compose({
      events: REFUSING,
      outbox: storeWith(composed.outbox, { keepOutcomes: () => Promise.reject(new Error('no queue')) }),
    });
    const ended = await on.end({ job: await running() });
    const invoked = on.finish(dispatchHandler(streamOf(record(itemOf(ended)))));
    await expect(invoked).rejects.toMatchObject({ name: 'UnavailableError' });
    expect(on.held()).toEqual([]);
  });

  it('asks for another pass when one fails: what was told is not told again, and what was shown is looked up', async () => {
    const store = storeWith(on.store, { loadPartition: () => Promise.reject(new ThrottledError('busy')) });
    const ended = await on.end({ job: await running() });
    compose({ store });
    expect(await on.finish(dispatchHandler(streamOf(record(itemOf(ended)))))).toEqual(NOTHING_FAILED);
    expect(on.published).toHaveLength(1);
    compose();
    await on.finish(dispatchHandler(queueOf('{"partition":0}')));
    expect(on.held()).toEqual([]);
    expect(on.published).toHaveLength(1);
  });

  it('leaves to the other pass what the batch says, of however many jobs', async () => {
    on = stage({ pool: { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 40 } } } });
    await on.put(...Array.from({ length: 40 }, () => on.job()));
    await on.pass();
    const started = await on.startEverywhere();
    const ended = await Promise.all(started.map((each) => on.end(each)));
    compose({
      store: storeWith(on.store, { loadPartition: () => Promise.reject(new ThrottledError('busy')) }),
    });
    const batch = streamOf(...ended.map((job) => record(itemOf(job))));
    expect(await on.finish(dispatchHandler(batch))).toEqual(NOTHING_FAILED);
    const { letters } = await on.store.readLetters(0);
    expect(letters.flatMap(({ hints }) => hints)).toHaveLength(40);
    let looks = 0;
    const lookUpJobs: typeof on.store.lookUpJobs = (asked) => {
      looks += 1;
      return on.store.lookUpJobs(asked);
    };
    compose({ store: storeWith(on.store, { lookUpJobs }) });
    await on.finish(dispatchHandler(queueOf('{"partition":0}')));
    expect([on.held(), looks]).toEqual([[], 0]);
  });

  it("is given the stream's batch again when a pass fails and nobody can be asked for another one", async () => {
    const busy = (): Promise<never> => Promise.reject(new ThrottledError('busy'));
    const ended = await on.end({ job: await running() });
    compose({ store: storeWith(on.store, { loadPartition: busy, putLetter: busy }) });
    await expect(on.finish(dispatchHandler(streamOf(record(itemOf(ended)))))).rejects.toThrow('busy');
  });

  it.each<readonly [string, Parameters<typeof dispatchHandler>[0]]>([
    ['a wake', queueOf('{"partition":0}')],
    ['several wakes', queueOf('{"partition":0}', '{"partition":0}')],
    ['a wake among what names no partition', queueOf('{"partition":7}', 'not JSON', '{"partition":-1}')],
    ['the tick', { 'detail-type': 'Scheduled Event' }],
  ])('makes a pass for %s, and promotes what is due', async (_, event) => {
    const [job, due] = await on.put(on.job(), on.job({ state: 'scheduled' }));
    expect(await on.finish(dispatchHandler(event))).toEqual(NOTHING_FAILED);
    expect(on.states([job, due] as Job[])).toEqual(['claimed', 'claimed']);
  });

  it('makes a pass of the partitions that wakes name, and of no other', async () => {
    await on.finish(dispatchHandler(queueOf('{"partition":2}', '{"partition":1}')));
    expect([0, 1, 2].map(versionOf)).toEqual([0, 1, 1]);
  });

  it('takes each look that comes for itself: one that is not the noted one any more keeps no other from going on', async () => {
    const looks: number[] = [];
    const workers = { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: null } } };
    on = stage({ pool: workers });
    compose({
      queue: storeWith(on.queue, { sendLook: async (_partition, _delayMs, atMs) => void looks.push(atMs) }),
    });
    const life = { workerId: 'worker', incarnation: 'worker-1', fleet: 'images', slots: 1, occupants: [] };
    const record = { ...life, expiresAtMs: on.time.nowMs + 60_000 };
    await on.store.registerWorker({ partition: 0, record });
    await on.put(on.job());
    await on.finish(dispatchHandler(queueOf('{"partition":0}')));
    expect(looks).toHaveLength(1);
    await on.advance((looks[0] ?? 0) - on.time.nowMs);
    const look = (atMs = 0): string => JSON.stringify({ partition: 0, asks: 'look', atMs });
    await on.finish(dispatchHandler(queueOf(look(looks[0]), look(1), look(2))));
    expect(looks).toHaveLength(2);
  });

  it('looks up the jobs that a wake names, in one pass of each partition', async () => {
    const jobs = [on.job(), on.job()];
    await on.put(...jobs);
    // The index shows nothing yet, and the stream has told of nothing.
    compose({ store: storeWith(on.store, { readKeys: async () => ({ keys: [] }) }) });
    const [one, other] = jobs.map(({ id }) => id);
    const wake = (jobIds: unknown): string => JSON.stringify({ partition: 0, jobIds });
    await on.finish(dispatchHandler(queueOf(wake([one, 'gone', 7]), wake([other]))));
    expect(on.states(jobs)).toEqual(['claimed', 'claimed']);
    expect(versionOf(0)).toBe(1);
  });

  it('wakes each partition again at what its own wakes are for, where its clock says that it is too early', async () => {
    const nowMs = on.time.nowMs;
    const wake = (partition: number, inMs: number): string =>
      JSON.stringify({ partition, dueAtMs: nowMs + inMs });
    const woken: (readonly [number, number])[] = [];
    on.queue.onWake((partition) => woken.push([partition, on.time.nowMs - nowMs]));
    const early = queueOf(wake(1, 2_000), wake(2, 4_000), wake(2, 9_000), '{"partition":3}', 'not JSON');
    await on.finish(dispatchHandler(early));
    await on.advance(20_000);
    expect(woken).toEqual([
      [1, 2_000],
      [2, 9_000],
    ]);
  });

  describe('invoked by its alias', () => {
    const ALIAS_ARN = `${DISPATCH_ARN}:wake`;
    const byAlias = (event: object, arn = ALIAS_ARN) => on.finish(dispatchHandler(event, arn));

    it('looks up the jobs that a wake names', async () => {
      const job = on.job();
      await on.put(job);
      await byAlias({ partition: 0, jobIds: [job.id] });
      expect(on.stateOf(job.id)).toBe('claimed');
    });

    it('fails where its pass does, so that somebody sees it', async () => {
      const store = storeWith(on.store, { loadPartition: () => Promise.reject(new ThrottledError('hot')) });
      compose({ store });
      await expect(byAlias({ partition: 0, jobIds: ['a'] })).rejects.toThrow('hot');
    });

    it('says what it was shown in a few characters, however large or deep that is', async () => {
      const warned: string[] = [];
      compose({
        log: { info: () => {}, warn: (_: string, { event }: { event: string }) => warned.push(event) },
      });
      let deep: object = {};
      for (let level = 0; level < 20_000; level += 1) deep = { deep };
      for (const event of [deep, { Records: ['x'.repeat(1_000_000)] }]) await byAlias(event);
      expect(warned.map((text) => text.length <= 200 && text.length > 10)).toEqual([true, true]);
    });

    it.each([
      ALIAS_ARN,
      `${DISPATCH_ARN}:$LATEST`,
      `${DISPATCH_ARN}:7`,
      `${DISPATCH_ARN}:`,
      'dispatch',
      'dispatch:wake',
      '',
    ])('believes nothing else: no record of the stream, no message, no tick (%s)', async (arn) => {
      const warned: string[] = [];
      compose({ log: { info: () => {}, warn: (message: string) => warned.push(message) } });
      const job = await running();
      const version = versionOf(0);
      const forged: Job = { ...job, version: 4, state: 'succeeded', result: 'forged' };
      const events = [
        streamOf(record(itemOf(forged))),
        queueOf('{"partition":0}'),
        { partition: 0, asks: 'look', atMs: on.clock.nowMs() },
        { asks: 'publish', jobIds: [job.id] },
        {},
      ];
      for (const event of events) await byAlias(event, arn);
      expect(on.published).toEqual([]);
      expect(on.held()).toHaveLength(1);
      expect(versionOf(0)).toBe(version);
      expect(warned).toEqual(events.map(() => 'an event that came by the alias is not a wake'));
    });
  });

  it('leads a partition if it asks itself to, by its own name only', async () => {
    const asked = { asks: 'lead', partition: 0 } as const;
    const leading = dispatchHandler(asked);
    await on.advance(500);
    expect((await on.store.readLeader(0))?.holder).toMatch(`${composed.holder}#`);
    await on.finish(leading);
    expect(await on.store.readLeader(0)).toBeUndefined();
    // By the alias it is a wake, as of any producer.
    const byAlias = dispatchHandler(asked, `${DISPATCH_ARN}:wake`);
    await on.advance(500);
    expect(await on.store.readLeader(0)).toBeUndefined();
    await on.finish(byAlias);
  });

  it('looks ahead with the tick', async () => {
    await on.put(on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 20_000 }));
    await on.finish(dispatchHandler({ 'detail-type': 'Scheduled Event' }));
    await on.advance(20_000);
    expect(on.wakes).toHaveLength(1);
  });
});

describe('the ingest function', () => {
  const requested = (detail: unknown): string =>
    JSON.stringify({ id: 'event', 'detail-type': 'Job Requested', detail });

  it('stores what it is asked for, and makes the first pass itself', async () => {
    const response = await on.finish(ingestHandler(queueOf(requested({ type: 'resize' }), 'not JSON')));
    expect(response).toEqual(NOTHING_FAILED);
    expect(on.states([...on.store.everyJob()])).toEqual(['claimed']);
    expect(on.published).toMatchObject([{ kind: 'rejected', detail: { sourceId: 'm1' } }]);
  });

  it('moves and cancels jobs that are requested in the same batch, whatever stands first', async () => {
    const about = (verb: string, detail: object): string =>
      JSON.stringify({ id: verb, 'detail-type': verb, detail });
    const runAt = new Date(NOW_MS + 3_600_000).toISOString();
    const requests = queueOf(
      about('Job Cancel Requested', { idempotencyKey: 'one' }),
      about('Job Move Requested', { idempotencyKey: 'two', runAt }),
      requested({ jobs: ['one', 'two'].map((idempotencyKey) => ({ type: 'resize', idempotencyKey })) }),
    );
    expect(await on.finish(ingestHandler(requests))).toEqual(NOTHING_FAILED);
    expect(on.states([...on.store.everyJob()]).toSorted()).toEqual(['cancelled', 'scheduled']);
    expect(on.logged).toContainEqual({
      level: 'info',
      message: 'ingested',
      fields: expect.objectContaining({ jobs: 2, rejected: 0 }),
    });
  });

  it('gives back a cancellation that comes for the first time before its job, however old both are', async () => {
    const time = new Date(NOW_MS - 3_600_000).toISOString();
    const body = { id: 'e', time, 'detail-type': 'Job Cancel Requested', detail: { id: 'nobody' } };
    const [record] = queueOf(JSON.stringify(body)).Records;
    const attributes = { ApproximateFirstReceiveTimestamp: String(NOW_MS) };
    const cancellation = { Records: [{ ...record, attributes }] } as unknown as SQSEvent;
    expect(await on.finish(ingestHandler(cancellation))).toEqual({
      batchItemFailures: [{ itemIdentifier: 'm0' }],
    });
  });

  it('gives back the messages that could not be stored', async () => {
    compose({ store: storeWith(on.store, { createJobs: () => Promise.reject(new ThrottledError('busy')) }) });
    const response = await on.finish(ingestHandler(queueOf('not JSON', requested({ type: 'resize' }))));
    expect(response).toEqual({ batchItemFailures: [{ itemIdentifier: 'm1' }] });
  });

  it('has done its work when only the pass fails: the stream brings the jobs to another', async () => {
    compose({
      store: storeWith(on.store, { loadPartition: () => Promise.reject(new ThrottledError('busy')) }),
    });
    expect(await on.finish(ingestHandler(queueOf(requested({ type: 'resize' }))))).toEqual(NOTHING_FAILED);
    expect([...on.store.everyJob()].map(({ state }) => state)).toEqual(['pending']);
    expect(on.logged.map(({ message }) => message)).toContain('the pass after ingest failed');
  });

  it('makes no pass when nothing is new', async () => {
    const event = queueOf(requested({ type: 'resize', idempotencyKey: 'once' }));
    await on.finish(ingestHandler(event));
    const version = versionOf(0);
    await on.finish(ingestHandler(event));
    expect(versionOf(0)).toBe(version);
  });
});

describe('the metrics of the functions', () => {
  /** What was added, by metric and the type that it is of. */
  function counting(): Map<string, number> {
    const counts = new Map<string, number>();
    const add: Metrics['add'] = (metric, value, { type = '' } = {}) => {
      const name = `${metric} ${type}`.trim();
      counts.set(name, (counts.get(name) ?? 0) + value);
    };
    compose({ metrics: { add, asksFor: () => false } });
    return counts;
  }

  const change = (after: Job, before?: Job): DynamoDBRecord => ({
    ...record(itemOf(after)),
    eventName: before === undefined ? 'INSERT' : 'MODIFY',
    dynamodb: {
      ...record(itemOf(after)).dynamodb,
      ...(before === undefined
        ? {}
        : { OldImage: marshall(itemOf(before), { removeUndefinedValues: true }) as never }),
    },
  });

  it('count jobs that come, end well or badly, and are to be tried again, each once', async () => {
    const counts = counting();
    const job = await running();
    const ended: Job = { ...job, state: 'succeeded', version: job.version + 1 };
    const again: Job = { ...job, id: 'again', state: 'scheduled', version: job.version + 1, attempt: 2 };
    const failed: Job = { ...job, id: 'failed', state: 'failed', version: job.version + 1 };
    const noted: Job = { ...failed, redrivenAs: 'other' };
    const came: Job = { ...job, id: 'came', state: 'pending', version: 1, claim: undefined };
    const records = [
      change(came),
      change(ended, job),
      change(again, { ...job, id: 'again' }),
      change(failed, { ...job, id: 'failed' }),
      change(noted, failed),
    ];
    await on.finish(dispatchHandler(streamOf(...records)));
    expect(Object.fromEntries(counts)).toMatchObject({
      'submitted resize': 1,
      'succeeded resize': 1,
      'failed resize': 1,
      'retried resize': 1,
    });
    expect(counts.get('passDuration')).toBeGreaterThanOrEqual(0);
  });

  it('count what ingest refuses, and what passes claim', async () => {
    const counts = counting();
    const event = JSON.stringify({ id: 'e', detail: { jobs: [{ type: 'resize' }, { type: 'unknown' }] } });
    await on.finish(ingestHandler(queueOf(event)));
    expect(Object.fromEntries(counts)).toMatchObject({ rejected: 1, claimed: 1 });
  });
});
