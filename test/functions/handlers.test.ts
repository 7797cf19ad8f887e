/** The functions' own part: decode, one use case, encode. Their composition is a stage in memory. */
import { marshall } from '@aws-sdk/util-dynamodb';
import type { DynamoDBRecord, DynamoDBStreamEvent, SQSEvent } from 'aws-lambda';
import { beforeEach, describe, expect, it } from 'vitest';
import type { FunctionContext } from '../../functions/composition.ts';
import { dispatching } from '../../functions/dispatch.ts';
import { ingesting } from '../../functions/ingest.ts';
import type { Job } from '../../lib/core/job.ts';
import { encodeJob } from '../../lib/store/dynamodb/codec.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import { type Stage, stage, storeWith } from '../dispatch/stage.ts';

let on: Stage;
let composed: FunctionContext;

/** What the composition root would have built. */
function compose(changes: Readonly<Record<string, unknown>> = {}): void {
  composed = { ...on.main, events: on.bus, nowMs: on.clock.nowMs, partitionOf: () => 0, ...changes };
}

const dispatchHandler = dispatching(async () => composed);
const ingestHandler = ingesting(async () => composed);

beforeEach(() => {
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
    Records: bodies.map((body, at) => ({ messageId: `m${at}`, body, eventSource: 'aws:sqs' })),
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
      record({ pk: 'lease', sk: 'x', epoch: 1 }),
      record({ ...itemOf(job), version: 'one' }),
    ];
    await on.finish(dispatchHandler(streamOf(...strange, record(itemOf(job)))));
    expect(on.stateOf(job.id)).toBe('claimed');
    expect(on.logged.filter(({ message }) => message === 'a stream record is not a job')).toHaveLength(2);
  });

  it("is given the stream's batch again when the bus does not take an outcome; the pass is made all the same", async () => {
    compose({ events: { publish: async (events: readonly unknown[]) => events } });
    const ended = await on.end({ job: await running() });
    const invoked = on.finish(dispatchHandler(streamOf(record(itemOf(ended)))));
    await expect(invoked).rejects.toMatchObject({ name: 'OutcomesUnpublishedError' });
    expect(on.held()).toEqual([]);
  });

  it("is given the stream's batch again when the pass fails; the outcome is told all the same", async () => {
    const store = storeWith(on.store, { loadPartition: () => Promise.reject(new StoreThrottled('busy')) });
    const ended = await on.end({ job: await running() });
    compose({ store });
    await expect(on.finish(dispatchHandler(streamOf(record(itemOf(ended)))))).rejects.toThrow('busy');
    expect(on.published).toHaveLength(1);
    compose();
    await on.finish(dispatchHandler(streamOf(record(itemOf(ended)))));
    expect(on.held()).toEqual([]);
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
    expect([0, 1, 2].map((partition) => on.store.inspect(partition).lease.epoch)).toEqual([0, 1, 1]);
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
    expect([...on.store.everyJob()].map(({ state }) => state)).toEqual(['claimed']);
    expect(on.published).toMatchObject([{ kind: 'rejected', detail: { sourceId: 'm1' } }]);
  });

  it('gives back the messages that could not be stored', async () => {
    compose({ store: storeWith(on.store, { createJobs: () => Promise.reject(new StoreThrottled('busy')) }) });
    const response = await on.finish(ingestHandler(queueOf('not JSON', requested({ type: 'resize' }))));
    expect(response).toEqual({ batchItemFailures: [{ itemIdentifier: 'm1' }] });
  });

  it('has done its work when only the pass fails: the stream brings the jobs to another', async () => {
    compose({
      store: storeWith(on.store, { acquireLease: () => Promise.reject(new StoreThrottled('busy')) }),
    });
    expect(await on.finish(ingestHandler(queueOf(requested({ type: 'resize' }))))).toEqual(NOTHING_FAILED);
    expect([...on.store.everyJob()].map(({ state }) => state)).toEqual(['pending']);
    expect(on.logged.map(({ message }) => message)).toContain('the pass after ingest failed');
  });

  it('makes no pass when nothing is new', async () => {
    const event = queueOf(requested({ type: 'resize', idempotencyKey: 'once' }));
    await on.finish(ingestHandler(event));
    const { epoch } = on.store.inspect(0).lease;
    await on.finish(ingestHandler(event));
    expect(on.store.inspect(0).lease.epoch).toBe(epoch);
  });
});
