/** Values over 64 KB on a deployed stack: from a client through a function and back, and their end. */

import { DeleteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import { S3ObjectStore } from '../../lib/objects/s3/objects.ts';
import { collectObjects } from '../../lib/operate/collect-objects.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { jobKey } from '../../lib/store/table/schema.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { noise } from '../fixtures/noise.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { LARGE_POOL } from './pool.ts';

const DEPLOY_MS = 240_000;
const TEST_MS = 120_000;
const DAY_MS = 24 * 3_600_000;
const LARGE = { text: noise(1_000_000) };
/** An event holds a little less than 1 MB. */
const OF_EVENT = { text: noise(200_000) };

let deployment: DeclaredDeployment;
let client: SchedulerClient;
let objects: S3ObjectStore;

const output = (name: string): string => {
  const value = deployment.outputs[name];
  if (value === undefined) throw new Error(`the stack has no output ${name}`);
  return value;
};

const keysOf = async (kind: string, jobId: string): Promise<readonly string[]> =>
  (await objects.list({ prefix: `${kind}/` })).keys.filter((key) => key.includes(`/${jobId}/`));

beforeAll(async () => {
  deployment = await deployDeclared(
    'test/integration/large-payloads-stack.ts',
    resolveConfiguration(LARGE_POOL),
  );
  client = new SchedulerClient({
    ...clientConfiguration,
    table: output('TableName'),
    wakeQueueUrl: output('WakeQueueUrl'),
  });
  objects = new S3ObjectStore({
    bucket: output('BucketName'),
    client: { ...clientConfiguration, forcePathStyle: true },
  });
}, DEPLOY_MS);
afterAll(async () => {
  client?.destroy();
  await objects?.destroy();
});

describe('a job with values over 64 KB, deployed', { timeout: TEST_MS }, () => {
  it('takes its payload to its function, resumes from its checkpoint, and brings its result back', async () => {
    const { id, result } = await client.run('echo', LARGE);
    expect(result).toEqual(LARGE);
    expect(await client.get(id)).toMatchObject({ payload: LARGE, checkpoint: LARGE, attempt: 2 });
    expect(await keysOf('payload', id)).toHaveLength(1);
    // The checkpoint and the result are the same text.
    expect(await keysOf('kept', id)).toHaveLength(1);
  });

  it('comes by an event, too', async () => {
    const bus = new EventBridgeClient(clientConfiguration);
    const { Entries = [] } = await bus.send(
      new PutEventsCommand({
        Entries: [
          {
            EventBusName: output('BusName'),
            Source: 'test',
            DetailType: DETAIL_TYPE.requested,
            Detail: JSON.stringify({ type: 'echo', payload: OF_EVENT }),
          },
        ],
      }),
    );
    bus.destroy();
    const eventId = Entries[0]?.EventId ?? '';
    expect(await client.wait({ eventId }, { timeout: '60s' })).toMatchObject({
      status: 'succeeded',
      result: OF_EVENT,
    });
  });

  it('is deleted with its objects', async () => {
    const { id } = await client.run('echo', LARGE);
    const dynamodb = new DynamoDBClient(clientConfiguration);
    const table = output('TableName');
    const collect = (afterMs: number) =>
      collectObjects(
        {
          store: new DynamoJobStore({ client: dynamodb, table, place: suitePlace }),
          objects,
          clock: { ...systemClock, nowMs: () => Date.now() + afterMs },
          random: Math.random,
          log: { info: () => {}, warn: () => {}, error: () => {} },
        },
        TEST_MS,
      );
    await collect(21 * DAY_MS);
    expect(await keysOf('payload', id)).toHaveLength(1);
    const { pk, sk } = jobKey(id);
    await dynamodb.send(new DeleteItemCommand({ TableName: table, Key: { pk: { S: pk }, sk: { S: sk } } }));
    await collect(6 * DAY_MS);
    expect(await keysOf('payload', id)).toHaveLength(1);
    expect((await collect(21 * DAY_MS)).deleted).toBeGreaterThanOrEqual(2);
    expect([...(await keysOf('payload', id)), ...(await keysOf('kept', id))]).toEqual([]);
    dynamodb.destroy();
  });
});
