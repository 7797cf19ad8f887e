/** A bus that cannot be reached for a while loses no outcome: what it does not take waits in the queue, and is published then. */
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { publishOrKeep, publishWaiting } from '../../lib/dispatch/outcomes.ts';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import type { OutcomeOutbox } from '../../lib/queue/contract.ts';
import { SqsOutcomeOutbox } from '../../lib/queue/sqs/outbox.ts';
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
const NO_LOG = { info: () => {}, warn: () => {} };

let on: TableStage;
let waiting: TestQueue;
let dead: TestQueue;
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
  [waiting, dead, told] = await Promise.all(
    ['waiting', 'dead', 'told'].map((kind) => createQueue(sqs, kind)) as [
      Promise<TestQueue>,
      Promise<TestQueue>,
      Promise<TestQueue>,
    ],
  );
  bus = await createBus(told);
  await on.put([on.job(), on.job(), on.job()]);
  await on.pass(on.dispatcher());
  jobs = await Promise.all((await on.startAll('images')).map((job) => on.end(job)));
}, WAIT_MS);
afterAll(async () => {
  await bus.drop();
  await Promise.all([waiting.drop(), dead.drop(), told.drop(), on.drop()]);
  for (const client of [sqs, reachable, unreachable]) client.destroy();
});

it('outcomes that the bus did not take come back from the queue, and are told with the ids that they had', {
  timeout: WAIT_MS,
}, async () => {
  expect(jobs).toHaveLength(3);
  const queue = { queueUrl: waiting.url, deadLetterQueueUrl: dead.url };
  const real = new SqsOutcomeOutbox({ client: sqs, queue });
  // They are due at once.
  const outbox: OutcomeOutbox = {
    keepOutcomes: (unpublished) => real.keepOutcomes(unpublished, 0),
    setOutcomesAside: (...given) => real.setOutcomesAside(...given),
    takeOutcomes: () => real.takeOutcomes(),
    deleteOutcomes: (receipts) => real.deleteOutcomes(receipts),
  };
  const publisher = (client: EventBridgeClient) => ({
    events: new EventBridgeBus({ client, busName: bus.busName }),
    outbox,
    log: NO_LOG,
    store: on.store,
    clock: on.clock,
  });
  await publishOrKeep(publisher(unreachable), { jobs });
  // Still not: they are kept anew.
  await publishWaiting(publisher(unreachable));
  await publishWaiting(publisher(reachable));
  const events: string[] = [];
  while (events.length < jobs.length) events.push(...(await told.take()));
  const details = events.map(
    (body) => (JSON.parse(body) as { detail: { id: string; version: number } }).detail,
  );
  expect(details.map(({ id, version }) => `${id} ${version}`).toSorted()).toEqual(
    jobs.map(({ id, version }) => `${id} ${version}`).toSorted(),
  );
  expect(await real.takeOutcomes()).toEqual([]);
  await outbox.setOutcomesAside({ jobIds: ['odd'], tries: 1 }, 'MalformedDetail: no');
  expect((await dead.take()).map((body) => JSON.parse(body))).toEqual([
    { jobIds: ['odd'], tries: 1, reason: 'MalformedDetail: no' },
  ]);
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
