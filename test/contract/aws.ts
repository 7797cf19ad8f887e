/** What the conformance suites on AWS share: clients for the endpoint under test, and resources as the stack makes them. */
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  type DynamoDBClientConfig,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import {
  CreateEventBusCommand,
  DeleteEventBusCommand,
  DeleteRuleCommand,
  EventBridgeClient,
  PutRuleCommand,
  PutTargetsCommand,
  RemoveTargetsCommand,
} from '@aws-sdk/client-eventbridge';
import { CreateBucketCommand, DeleteBucketCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3';
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { inject } from 'vitest';
import { EVENT_SOURCE } from '../../lib/events/contract.ts';
import type { ObjectStore } from '../../lib/objects/contract.ts';
import { PROJECTED, TABLE } from '../../lib/store/table/schema.ts';

const KEYS = [TABLE.partitionKey, TABLE.sortKey, TABLE.line, TABLE.rank, TABLE.expiry];
const TABLE_WAIT_SEC = 60;
const POLL_SEC = 10;

/** The emulator under test: the global setup has started it, or was given it. */
export const endpoint: string = inject('endpoint');

export const clientConfiguration = {
  endpoint,
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
};

let named = 0;

/** A name that nothing else on the endpoint has. */
export function freshName(kind: string): string {
  named += 1;
  return `fairlead-${kind}-${process.pid}-${Date.now()}-${named}`;
}

export interface TestTable {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly drop: () => Promise<void>;
}

export async function createTable(changes: DynamoDBClientConfig = {}): Promise<TestTable> {
  const client = new DynamoDBClient({ ...clientConfiguration, ...changes });
  const table = freshName('table');
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [
        ...KEYS.map((AttributeName) => ({ AttributeName, AttributeType: 'S' as const })),
        { AttributeName: TABLE.expireAtMs, AttributeType: 'N' },
      ],
      KeySchema: [
        { AttributeName: TABLE.partitionKey, KeyType: 'HASH' },
        { AttributeName: TABLE.sortKey, KeyType: 'RANGE' },
      ],
      GlobalSecondaryIndexes: [
        {
          IndexName: TABLE.linesIndex,
          KeySchema: [
            { AttributeName: TABLE.line, KeyType: 'HASH' },
            { AttributeName: TABLE.rank, KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: [...PROJECTED] },
        },
        {
          IndexName: TABLE.expiriesIndex,
          KeySchema: [
            { AttributeName: TABLE.expiry, KeyType: 'HASH' },
            { AttributeName: TABLE.expireAtMs, KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
      ],
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: TABLE_WAIT_SEC, minDelay: 1 }, { TableName: table });
  return {
    client,
    table,
    drop: async () => {
      await client.send(new DeleteTableCommand({ TableName: table }));
      client.destroy();
    },
  };
}

export interface TestQueue {
  readonly url: string;
  readonly arn: string;
  /** Bodies that came; waits for the first one, and deletes them. Empty when nothing came for a while. */
  readonly take: () => Promise<readonly string[]>;
  readonly drop: () => Promise<void>;
}

export async function createQueue(client: SQSClient, kind: string): Promise<TestQueue> {
  const { QueueUrl = '' } = await client.send(new CreateQueueCommand({ QueueName: freshName(kind) }));
  const { Attributes } = await client.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }),
  );
  const take = async (): Promise<readonly string[]> => {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: POLL_SEC }),
    );
    if (Messages.length > 0) {
      const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
      await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    }
    return Messages.map((message) => message.Body ?? '');
  };
  const drop = async (): Promise<void> => {
    await client.send(new DeleteQueueCommand({ QueueUrl }));
  };
  return { url: QueueUrl, arn: Attributes?.QueueArn ?? '', take, drop };
}

export interface TestBus {
  readonly client: EventBridgeClient;
  readonly busName: string;
  readonly drop: () => Promise<void>;
}

/** A bus of which every event of the scheduler goes to the queue. */
export async function createBus(queue: TestQueue): Promise<TestBus> {
  const client = new EventBridgeClient(clientConfiguration);
  const busName = freshName('bus');
  const rule = { Name: 'all', EventBusName: busName };
  await client.send(new CreateEventBusCommand({ Name: busName }));
  await client.send(
    new PutRuleCommand({ ...rule, EventPattern: JSON.stringify({ source: [EVENT_SOURCE] }) }),
  );
  await client.send(
    new PutTargetsCommand({ Rule: 'all', EventBusName: busName, Targets: [{ Id: 'queue', Arn: queue.arn }] }),
  );
  const drop = async (): Promise<void> => {
    await client.send(new RemoveTargetsCommand({ Rule: 'all', EventBusName: busName, Ids: ['queue'] }));
    await client.send(new DeleteRuleCommand(rule));
    await client.send(new DeleteEventBusCommand({ Name: busName }));
    client.destroy();
  };
  return { client, busName, drop };
}

export interface TestBucket {
  readonly bucket: string;
  readonly client: S3ClientConfig;
  readonly drop: (objects: ObjectStore) => Promise<void>;
}

export async function createBucket(): Promise<TestBucket> {
  const client = { ...clientConfiguration, forcePathStyle: true };
  const s3 = new S3Client(client);
  const bucket = freshName('bucket');
  await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return {
    bucket,
    client,
    drop: async (objects) => {
      for (;;) {
        const { keys, next } = await objects.list({ prefix: '' });
        await objects.delete(keys);
        if (next === undefined) break;
      }
      await s3.send(new DeleteBucketCommand({ Bucket: bucket }));
      s3.destroy();
    },
  };
}
