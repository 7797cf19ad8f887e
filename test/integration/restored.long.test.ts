/**
 * A stack is cut off while its jobs run, are claimed and wait. The items of its table, as they were at that moment, are
 * put into another table, as a restored backup has them, and a second stack goes on with it.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type AttributeValue,
  BatchWriteItemCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  paginateScan,
} from '@aws-sdk/client-dynamodb';
import {
  LambdaClient,
  ListEventSourceMappingsCommand,
  UpdateEventSourceMappingCommand,
} from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobState } from '../../lib/core/job.ts';
import { clientConfiguration, createTable, type TestTable } from '../contract/aws.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { LOOK_EVERY_MS, untilAll } from './redeploys.ts';
import { RESTORED_TYPES, RESTORED_VARIABLE } from './restored-stack.ts';

const POOL = resolveConfiguration({
  types: RESTORED_TYPES,
  fleets: { printers: { types: ['print'], slots: 4 } },
});
const STACK = 'test/integration/restored-stack.ts';
const [DEPLOY_MS, WAIT_MS] = [400_000, 180_000];
const RUN_MS = 300;

interface Run {
  readonly name: string;
  readonly fromMs: number;
  toMs: number;
}

/** The runs of handlers, which ask this server while they run. */
const runs: Run[] = [];
let holds: string | undefined = 'runs';
const held: (() => void)[] = [];
const server = createServer((request, response) => {
  const run: Run = { name: request.url?.slice(1) ?? '', fromMs: Date.now(), toMs: Infinity };
  runs.push(run);
  const end = (): void => {
    run.toMs = Date.now();
    response.end('go on');
  };
  if (run.name === holds) held.push(end);
  else setTimeout(end, RUN_MS);
});

const dynamodb = new DynamoDBClient(clientConfiguration);
const lambda = new LambdaClient(clientConfiguration);
const ids: Record<string, string> = {};
let client: SchedulerClient;
let left: DeclaredDeployment;
let table: TestTable;
let second: DeclaredDeployment | undefined;

const clientOf = ({ outputs }: DeclaredDeployment): SchedulerClient =>
  SchedulerClient.fromEnvironment(clientConfiguration, {
    FAIRLEAD_TABLE: outputs.TableName,
    FAIRLEAD_WAKE_QUEUE: outputs.WakeQueueUrl,
  });
const id = (name: string): string => ids[name] ?? '';

let address = '';
async function submit(name: string, more: { readonly resourceId?: string; readonly runAt?: string } = {}) {
  ids[name] = (await client.submit({ type: 'print', payload: `${address}/${name}`, ...more })).jobId;
}
const until = (name: string, state: JobState) =>
  untilAll(client, [id(name)], (job) => job.state === state, WAIT_MS);

/** Ends what starts the fleet's jobs: messages in its queue are delivered no more. */
async function disableFleet(queueUrl: string): Promise<void> {
  const { EventSourceMappings = [] } = await lambda.send(new ListEventSourceMappingsCommand({}));
  const name = queueUrl.split('/').at(-1) ?? '';
  const [source] = EventSourceMappings.filter(({ EventSourceArn = '' }) =>
    EventSourceArn.endsWith(`:${name}`),
  );
  if (source?.UUID === undefined) throw new Error(`the queue ${name} has no event source`);
  await lambda.send(new UpdateEventSourceMappingCommand({ UUID: source.UUID, Enabled: false }));
}

async function copyItems(from: string, to: string): Promise<void> {
  const items: Record<string, AttributeValue>[] = [];
  for await (const { Items = [] } of paginateScan(
    { client: dynamodb },
    { TableName: from, ConsistentRead: true },
  ))
    items.push(...Items);
  for (let at = 0; at < items.length; at += 25) {
    const some = items.slice(at, at + 25).map((Item) => ({ PutRequest: { Item } }));
    await dynamodb.send(new BatchWriteItemCommand({ RequestItems: { [to]: some } }));
  }
}

beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  table = await createTable();
  left = await deployDeclared(STACK, POOL);
  client = clientOf(left);
  await submit('ended');
  await until('ended', 'succeeded');
  await submit('runs', { resourceId: 'page' });
  await until('runs', 'running');
  await vi.waitUntil(() => held.length === 1, { timeout: WAIT_MS });
  await disableFleet(left.outputs.PrintersQueueUrl ?? '');
  await submit('claimed');
  await vi.waitUntil(
    async () => (await client.list({ state: 'claimed' }).next()).value?.id === id('claimed'),
    {
      timeout: WAIT_MS,
      interval: LOOK_EVERY_MS,
    },
  );
  for (let n = 1; n <= 5; n += 1) await submit(`waits-${n}`, n === 1 ? { resourceId: 'page' } : {});
  await submit('later', { runAt: '+75s' });
  await copyItems(left.outputs.TableName ?? '', table.table);
  // The old function ends its job in the table that is left behind.
  holds = undefined;
  for (const end of held) end();
  await until('runs', 'succeeded');
  client.destroy();
  await left.destroy();

  const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName: table.table }));
  vi.stubEnv(RESTORED_VARIABLE, `${Table?.TableArn} ${Table?.LatestStreamArn}`);
  second = await deployDeclared(STACK, POOL, 1);
  client = clientOf(second);
}, DEPLOY_MS);

afterAll(async () => {
  vi.unstubAllEnvs();
  client?.destroy();
  await second?.destroy();
  // The stacks have left their tables where they were.
  await table?.drop();
  await dynamodb.send(new DeleteTableCommand({ TableName: left?.outputs.TableName }));
  dynamodb.destroy();
  lambda.destroy();
  server.close();
  server.closeAllConnections();
}, DEPLOY_MS);

it('gives the running job back, does all that waited once, and keeps to caps and conflict keys', {
  timeout: WAIT_MS,
}, async () => {
  expect(second?.outputs.TableName).toBe(table.table);
  expect((await client.declaration()).version).toBe(2);
  const jobs = await untilAll(client, Object.values(ids), ({ state }) => state === 'succeeded', WAIT_MS);
  const job = (name: string) => jobs.find((each) => each.id === id(name));

  // Its end was written after the items were copied, so its attempt counts as one of a lost worker.
  expect(job('runs')).toMatchObject({ workersLost: 1 });
  expect((await client.history(id('runs'))).events).toMatchObject([
    { kind: 'submitted' },
    { kind: 'attempt', outcome: 'lost' },
    { kind: 'attempt', outcome: 'succeeded' },
  ]);
  for (const name of Object.keys(ids).filter((each) => each !== 'runs'))
    expect(job(name)).toMatchObject({ attempt: 1, workersLost: 0 });
  const timesRun = Object.keys(ids).map((name) => [name, runs.filter((run) => run.name === name).length]);
  expect(Object.fromEntries(timesRun)).toEqual(
    Object.fromEntries(Object.keys(ids).map((name) => [name, name === 'runs' ? 2 : 1])),
  );

  const atOnce = runs.map(({ fromMs }) => runs.filter((run) => run.fromMs <= fromMs && fromMs < run.toMs));
  expect(Math.max(...atOnce.map(({ length }) => length))).toBeLessThanOrEqual(2);
  const ofPage = runs.filter(({ name }) => name === 'runs' || name === 'waits-1');
  for (const [at, { fromMs }] of ofPage.entries())
    expect(fromMs).toBeGreaterThanOrEqual(ofPage[at - 1]?.toMs ?? 0);
  expect(job('later')?.startedAtMs).toBeGreaterThanOrEqual(job('later')?.runAtMs ?? Infinity);
});
