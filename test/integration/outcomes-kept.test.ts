/** A bus that cannot be reached for a while loses no outcome: what it does not take waits in the queue, and is published then. */
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { publishKept, publishOrKeep } from '../../lib/dispatch/outcomes.ts';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import { decodeOutcomes } from '../../lib/queue/message.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import { DynamoEndedJobs } from '../../lib/store/dynamodb/ended.ts';
import {
  clientConfiguration,
  createBus,
  createQueue,
  type TestBus,
  type TestQueue,
} from '../contract/aws.ts';
import { type TableStage, tableStage } from './table-stage.ts';

const POOL = resolveConfiguration({ fleets: { images: { types: ['resize'], slots: 4 } } });
const WAIT_MS = 120_000;
const NO_LOG = { info: () => {}, warn: () => {}, error: () => {} };

let on: TableStage;
let wakes: TestQueue;
let told: TestQueue;
let bus: TestBus;
let jobs: readonly Job[];
const sqs = new SQSClient(clientConfiguration);
const reachable = new EventBridgeClient(clientConfiguration);
/** Nothing listens there. */
const unreachable = new EventBridgeClient({
  ...clientConfiguration,
  endpoint: 'http://127.0.0.1:1',
  maxAttempts: 1,
});

beforeAll(async () => {
  on = await tableStage(POOL);
  [wakes, told] = await Promise.all([createQueue(sqs, 'wakes'), createQueue(sqs, 'told')]);
  bus = await createBus(told);
  await on.put([on.job(), on.job(), on.job()]);
  await on.pass(on.dispatcher());
  jobs = await Promise.all((await on.startAll('images')).map((job) => on.end(job)));
}, WAIT_MS);
afterAll(async () => {
  await bus.drop();
  await Promise.all([wakes.drop(), told.drop(), on.drop()]);
  for (const client of [sqs, reachable, unreachable]) client.destroy();
});

it('outcomes that the bus did not take come back from the queue, and are told with the ids that they had', {
  timeout: WAIT_MS,
}, async () => {
  expect(jobs).toHaveLength(3);
  const outbox = new SqsJobQueue({ client: sqs, queueUrls: {}, wakeQueueUrl: wakes.url });
  const publisher = (client: EventBridgeClient) => ({
    events: new EventBridgeBus({ client, busName: bus.busName }),
    outbox,
    log: NO_LOG,
    store: on.store,
  });
  await publishOrKeep(publisher(unreachable), { jobs });
  const bodies: string[] = [];
  while (bodies.length === 0) bodies.push(...(await wakes.take()));
  const kept = decodeOutcomes(bodies[0] ?? '');
  expect(kept?.jobIds.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
  if (kept === undefined) return;
  await publishKept(publisher(reachable), kept);
  const events: string[] = [];
  while (events.length < jobs.length) events.push(...(await told.take()));
  const details = events.map(
    (body) => (JSON.parse(body) as { detail: { id: string; version: number } }).detail,
  );
  expect(details.map(({ id, version }) => `${id} ${version}`).toSorted()).toEqual(
    jobs.map(({ id, version }) => `${id} ${version}`).toSorted(),
  );
});

it('what ended is found by time, type and state, and nothing else is', { timeout: WAIT_MS }, async () => {
  await on.put([on.job()]);
  const table = new DynamoEndedJobs({ ...on.table, unreadable: () => {} });
  const found = async (
    changes: Partial<Parameters<DynamoEndedJobs['endedJobs']>[0]> = {},
  ): Promise<number> => {
    let count = 0;
    const filter = { sinceMs: 0, untilMs: on.clock.nowMs() + 1_000, ...changes };
    for await (const page of table.endedJobs(filter)) count += page.length;
    return count;
  };
  expect(await found()).toBe(3);
  expect(await found({ type: 'resize', state: 'succeeded' })).toBe(3);
  expect(await found({ type: 'other' })).toBe(0);
  expect(await found({ state: 'failed' })).toBe(0);
  expect(await found({ sinceMs: on.clock.nowMs() + 500 })).toBe(0);
});
