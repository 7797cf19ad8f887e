/** The main job on a deployed stack: events on the bus become finished work. */

import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import {
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { unpackDeclaration } from '../../lib/declaration/codec.ts';
import { DETAIL_TYPE, type JobOutcomeDetail } from '../../lib/events/contract.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import type { Rejection } from '../../lib/store/contract/records.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { jobIdOf } from '../../lib/submit/request.ts';
import { rankOf, submit } from '../../lib/submit/submit.ts';
import { clientConfiguration, endpoint } from '../contract/aws.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { MAIN_PATH_FLEETS, MAIN_PATH_JOBS, MAIN_PATH_TYPES, SLOW_AT_ONCE } from './pool.ts';

const DEPLOY_MS = 240_000;
const TEST_MS = 90_000;
/** Bounds on waiting: without a signal for so long something is wrong. */
const SIGNAL_MS = 60_000;
const POLL_SEC = 5;

/** Finished after one claim and one start: created 1, claimed 2, started 3, finished 4. */
const VERSION_OF_ONE_RUN = 4;

const configuration = resolveConfiguration({ types: MAIN_PATH_TYPES, fleets: MAIN_PATH_FLEETS });
const run = randomUUID();
const sqs = new SQSClient(clientConfiguration);
const bus = new EventBridgeClient(clientConfiguration);
const dynamodb = new DynamoDBClient(clientConfiguration);

interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

let deployment: DeclaredDeployment;
let store: DynamoJobStore;

const output = (name: string): string => {
  const value = deployment.outputs[name];
  if (value === undefined) throw new Error(`the stack has no output ${name}`);
  return value;
};

/** A name for a request that no other run has used. */
const key = (name: string): string => `${run}/${name}`;
const idOf = (name: string): string => jobIdOf(key(name));
const request = (
  name: string,
  fields: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> => ({
  type: 'echo',
  idempotencyKey: key(name),
  ...fields,
});

async function putEvents(...details: readonly unknown[]): Promise<void> {
  const { FailedEntryCount } = await bus.send(
    new PutEventsCommand({
      Entries: details.map((detail) => ({
        EventBusName: output('BusName'),
        Source: 'test',
        DetailType: DETAIL_TYPE.requested,
        Detail: JSON.stringify(detail),
      })),
    }),
  );
  expect(FailedEntryCount ?? 0).toBe(0);
}

/** An event as the bus would deliver it. */
const eventText = (id: string, detail: string): string =>
  `{"version":"0","id":"${id}","detail-type":"${DETAIL_TYPE.requested}","source":"test","detail":${detail}}`;

/** Puts texts straight on the ingest queue. Answers the ids of their messages. */
async function putRaw(...bodies: readonly string[]): Promise<readonly string[]> {
  const { Successful = [] } = await sqs.send(
    new SendMessageBatchCommand({
      QueueUrl: output('IngestQueueUrl'),
      Entries: bodies.map((MessageBody, at) => ({ Id: String(at), MessageBody })),
    }),
  );
  expect(Successful).toHaveLength(bodies.length);
  return bodies.map((_, at) => Successful.find(({ Id }) => Id === String(at))?.MessageId ?? '');
}

/** What the bus has told so far: of each job the last, of each rejected request all. */
const ended = new Map<string, JobOutcomeDetail & { readonly detailType: string }>();
const rejected: Rejection[] = [];

/** Waits until the bus has told what is waited for. */
async function told(isThere: () => boolean): Promise<void> {
  const QueueUrl = output('OutcomesQueueUrl');
  const untilMs = Date.now() + SIGNAL_MS;
  while (!isThere()) {
    if (Date.now() > untilMs) throw new Error(`nothing was told; so far: ${[...ended.keys()].join(', ')}`);
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: POLL_SEC }),
    );
    for (const { Body = '' } of Messages) {
      const event = JSON.parse(Body) as { 'detail-type': string; detail: JobOutcomeDetail & Rejection };
      if (event['detail-type'] === DETAIL_TYPE.rejected) rejected.push(event.detail);
      else ended.set(event.detail.id, { ...event.detail, detailType: event['detail-type'] });
    }
    if (Messages.length > 0) {
      const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
  }
}

/** What was told of these jobs, once all have ended. */
async function outcomes(names: readonly string[]) {
  await told(() => names.every((name) => ended.has(idOf(name))));
  return names.map((name) => {
    const outcome = ended.get(idOf(name));
    if (outcome === undefined) throw new Error(`job ${name} has no outcome`);
    return outcome;
  });
}

async function jobsOf(ids: readonly string[]): Promise<readonly Job[]> {
  const jobs = await store.getJobs({ ids });
  return jobs.map((job, at) => {
    if (job === undefined) throw new Error(`no job ${ids[at]}`);
    return job;
  });
}

/** What the handlers recorded, soonest first. */
const intervalsOf = (results: readonly JobOutcomeDetail[]): readonly Interval[] =>
  results.map(({ result }) => result as unknown as Interval).toSorted((a, b) => a.fromMs - b.fromMs);

function mostAtOnce(intervals: readonly Interval[]): number {
  return Math.max(
    ...intervals.map(
      ({ fromMs }) => intervals.filter((each) => each.fromMs <= fromMs && fromMs < each.toMs).length,
    ),
  );
}

/** Reads until it is there, a bounded number of times. */
async function eventually<T>(read: () => Promise<T>, isThere: (value: T) => boolean): Promise<T> {
  const untilMs = Date.now() + SIGNAL_MS;
  for (;;) {
    const value = await read();
    if (isThere(value) || Date.now() > untilMs) return value;
  }
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

describe('the main path', () => {
  beforeAll(async () => {
    deployment = await deployDeclared('test/integration/stack.ts', configuration);
    store = new DynamoJobStore({
      client: dynamodb,
      table: output('TableName'),
      place: rankOf(configuration),
    });
  }, DEPLOY_MS);

  afterAll(async () => {
    await deployment?.destroy();
    for (const client of [sqs, bus, dynamodb]) client.destroy();
  }, DEPLOY_MS);

  it('declares each job with its settings, and keeps the JSON Schemas of payloads', async () => {
    const { text = '' } = (await store.readDeclaration()) ?? {};
    const { configuration: declared, payloadSchemas } = unpackDeclaration(text);
    expect(declared.types.map(({ type }) => type)).toEqual(Object.keys(MAIN_PATH_JOBS));
    expect(declared.types.find(({ type }) => type === 'flaky')?.retry.delayMs).toBe(500);
    // Where custom resources do not run, the test has declared the configuration itself, without schemas.
    if (deployment.isDeclaredByHand) return;
    expect(payloadSchemas).toMatchObject({ echo: { properties: { text: { type: 'string' } } } });
    expect(Object.keys(payloadSchemas ?? {})).toEqual(['echo']);
  });

  it('turns an event into finished work, and tells', { timeout: TEST_MS }, async () => {
    const payload = { text: 'héllo ☃ 🎞', list: [1, null, { deep: true }] };
    await putEvents(request('one', { payload, fairnessKey: 'tenant', resourceId: 'r/1', priority: 7 }));
    const [outcome] = await outcomes(['one']);
    expect(outcome).toMatchObject({
      detailType: DETAIL_TYPE.succeeded,
      state: 'succeeded',
      type: 'echo',
      attempt: 1,
      fairnessKey: 'tenant',
      resourceId: 'r/1',
      result: payload,
      version: VERSION_OF_ONE_RUN,
    });
    const [job] = await jobsOf([idOf('one')]);
    expect(job).toMatchObject({ state: 'succeeded', result: payload, claim: { fleet: 'echoes' } });
  });

  it('takes many jobs in one event', { timeout: TEST_MS }, async () => {
    const names = range(25).map((n) => `many-${n}`);
    await putEvents({ jobs: names.map((name, payload) => request(name, { payload })) });
    expect((await outcomes(names)).map(({ result }) => result)).toEqual(range(25));
  });

  it('tells why a job failed', { timeout: TEST_MS }, async () => {
    await putEvents(request('fails', { type: 'fail' }));
    const [outcome] = await outcomes(['fails']);
    expect(outcome).toMatchObject({
      detailType: DETAIL_TYPE.failed,
      state: 'failed',
      attempt: 1,
      error: { name: 'RangeError', message: 'this job always fails' },
    });
  });

  it('fails a job without a handler at once, and names the handlers that there are', {
    timeout: TEST_MS,
  }, async () => {
    await putEvents(request('unheld', { type: 'unheld' }));
    const [outcome] = await outcomes(['unheld']);
    expect(outcome).toMatchObject({ state: 'failed', attempt: 1, error: { name: 'MissingHandler' } });
    expect(outcome?.error?.message).toMatch(/"unheld"; it has: echo, fail, flaky, telling, slow$/);
  });

  it('shows how far a function says that its job is, while it runs', { timeout: TEST_MS }, async () => {
    await putEvents(request('tells', { type: 'telling' }));
    const [job] = await eventually(
      () => store.getJobs({ ids: [idOf('tells')] }),
      ([seen]) => seen?.progress !== undefined || seen?.state === 'succeeded',
    );
    expect(job).toMatchObject({ state: 'running', progress: { page: 3 } });
    expect((await outcomes(['tells']))[0]).toMatchObject({ state: 'succeeded', attempt: 1 });
  });

  it('tries again what failed', { timeout: TEST_MS }, async () => {
    await putEvents(request('flaky', { type: 'flaky' }));
    const [outcome] = await outcomes(['flaky']);
    expect(outcome).toMatchObject({ state: 'succeeded', attempt: 2, result: { attempt: 2 } });
  });

  it('makes one job of an event that comes twice', { timeout: TEST_MS }, async () => {
    const twice = request('twice', { payload: 'once' });
    await putEvents(twice, twice);
    const delivered = eventText(`${run}-again`, JSON.stringify({ type: 'echo', payload: run }));
    await putRaw(delivered, delivered);
    await putRaw(delivered);
    await outcomes(['twice']);
    const isThere = (): JobOutcomeDetail | undefined =>
      [...ended.values()].find(({ result }) => result === run);
    await told(() => isThere() !== undefined);
    const jobs = await jobsOf([idOf('twice'), isThere()?.id ?? '']);
    expect(jobs.map(({ state, version }) => [state, version])).toEqual([
      ['succeeded', VERSION_OF_ONE_RUN],
      ['succeeded', VERSION_OF_ONE_RUN],
    ]);
    expect([...ended.values()].filter(({ result }) => result === run)).toHaveLength(1);
  });

  it('rejects what is not acceptable by the name of its field, and goes on with its neighbours', {
    timeout: TEST_MS,
  }, async () => {
    const bad: readonly (readonly [body: string, field: string])[] = [
      ['this is not JSON', ''],
      [eventText(`${run}-type`, '{"type":"nope"}'), 'type'],
      [eventText(`${run}-priority`, '{"type":"echo","priority":11}'), 'priority'],
      [eventText(`${run}-proto`, '{"type":"echo","__proto__":{"priority":1}}'), '__proto__'],
      [eventText(`${run}-unknown`, '{"type":"echo","colour":"red"}'), 'colour'],
      [
        eventText(`${run}-deep`, `{"type":"echo","payload":${'['.repeat(9_000)}${']'.repeat(9_000)}}`),
        'payload',
      ],
    ];
    const good = eventText(`${run}-good`, JSON.stringify(request('among-bad')));
    const messageIds = await putRaw(good, ...bad.map(([body]) => body));
    const large = JSON.stringify({ type: 'echo', payload: 'x'.repeat(255_000) });
    await putRaw(eventText(`${run}-large`, large));
    await putEvents({ type: 'nope', payload: run }, request('among-bad-too'));

    await outcomes(['among-bad', 'among-bad-too']);
    const sources = ['type', 'priority', 'proto', 'unknown', 'deep', 'large'].map((name) => `${run}-${name}`);
    const expected = [messageIds[1] ?? '', ...sources];
    await told(() => expected.every((sourceId) => rejected.some((each) => each.sourceId === sourceId)));
    for (const [at, sourceId] of expected.entries()) {
      const records = await store.listRejections(sourceId);
      expect(records).toHaveLength(1);
      expect(records[0]?.field).toBe(bad[at]?.[1] ?? 'payload');
      expect(rejected.find((each) => each.sourceId === sourceId)).toEqual(records[0]);
    }
    await told(() => rejected.some(({ detail }) => detail.includes(run) && detail.includes('nope')));
  });

  it('never starts a job before its time', { timeout: TEST_MS }, async () => {
    const runAtMs = Date.now() + 3_000;
    const names = range(3).map((n) => `later-${n}`);
    const runAt = new Date(runAtMs).toISOString();
    await putEvents({ jobs: names.map((name) => request(name, { type: 'slow', runAt })) });
    const ends = await outcomes(names);
    for (const { startedAtMs, result } of ends) {
      expect(startedAtMs).toBeGreaterThanOrEqual(runAtMs);
      expect((result as unknown as Interval).fromMs).toBeGreaterThanOrEqual(runAtMs);
    }
  });

  it('never runs two jobs of one conflict key together', { timeout: TEST_MS }, async () => {
    const names = range(5).map((n) => `conflict-${n}`);
    const ofTenant = (n: number) => ({ type: 'slow', resourceId: 'shelf-1', fairnessKey: `tenant-${n}` });
    await putEvents(...names.map((name, n) => request(name, ofTenant(n))));
    expect(mostAtOnce(intervalsOf(await outcomes(names)))).toBe(1);
  });

  it("never exceeds a type's cap", { timeout: TEST_MS }, async () => {
    const names = range(8).map((n) => `capped-${n}`);
    await putEvents(
      ...names.map((name, n) => request(name, { type: 'slow', fairnessKey: `tenant-${n % 3}` })),
    );
    expect(mostAtOnce(intervalsOf(await outcomes(names)))).toBeLessThanOrEqual(SLOW_AT_ONCE);
  });

  it('claims each job once, however many dispatch functions run', { timeout: TEST_MS }, async () => {
    const nowMs = Date.now();
    const at = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
    const names = range(24).map((n) => `race-${n}`);
    const jobs = names.map((name) => aJob({ id: idOf(name), type: 'echo', fairnessKey: 'race', ...at }));
    await submit(
      { store, configuration, nowMs: () => nowMs, clock: systemClock, announced: new Map() },
      jobs,
    );
    const invoked = await Promise.all(range(8).map(() => invokeDispatch()));
    expect(invoked).toEqual(range(8).map(() => 200));
    await outcomes(names);
    const ends = await jobsOf(names.map(idOf));
    expect(ends.map(({ state, attempt, version }) => ({ state, attempt, version }))).toEqual(
      names.map(() => ({ state: 'succeeded', attempt: 1, version: VERSION_OF_ONE_RUN })),
    );
    expect(new Set(ends.map(({ claim }) => claim?.claimId)).size).toBe(names.length);
  });

  it('holds nothing when all is done, and has set nothing aside', { timeout: TEST_MS }, async () => {
    const state = await eventually(
      () => store.loadPartition({ partition: 0, nowMs: Date.now() }),
      ({ reservations }) => reservations.length === 0,
    );
    expect(state.reservations).toEqual([]);
    const urls = Object.entries(deployment.outputs).filter(([name]) => name.startsWith('DeadLetters'));
    expect(urls.length).toBeGreaterThan(0);
    for (const [name, QueueUrl] of urls) {
      const { Messages = [] } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] }),
      );
      expect(Messages, name).toEqual([]);
    }
  });
});

/** As Lambda's `Invoke` does, with what the tick's rule sends. Answers the status. */
async function invokeDispatch(): Promise<number> {
  const path = `/2015-03-31/functions/${output('DispatchFunctionName')}/invocations`;
  const scope = `${clientConfiguration.credentials.accessKeyId}/20270101/${clientConfiguration.region}/lambda/aws4_request`;
  const response = await fetch(new URL(path, endpoint), {
    method: 'POST',
    headers: { authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=none` },
    body: JSON.stringify({ 'detail-type': 'Scheduled Event' }),
  });
  const failed = response.headers.get('x-amz-function-error');
  if (failed !== null) throw new Error(`the dispatch function failed (${failed}): ${await response.text()}`);
  await response.arrayBuffer();
  return response.status;
}
