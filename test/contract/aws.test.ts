/** The conformance suites on DynamoDB, SQS and EventBridge, as the emulator under test plays them. */
import { SQSClient } from '@aws-sdk/client-sqs';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import { S3ObjectStore } from '../../lib/objects/s3/objects.ts';
import { decodeWake } from '../../lib/queue/message.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { scheduleKey } from '../../lib/store/table/schema.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { clientConfiguration, createBucket, createBus, createQueue, createTable } from './aws.ts';
import { eventBusContract } from './event-bus.ts';
import { suitePlace } from './harness.ts';
import { jobQueueContract } from './job-queue.ts';
import { jobStoreContract } from './job-store.ts';
import { objectStoreContract } from './object-store.ts';
import { scheduleStoreContract } from './schedule-store.ts';

jobStoreContract('DynamoDB', async () => {
  const { client, table, drop } = await createTable();
  let clockMs = NOW_MS;
  const open = () => new DynamoJobStore({ client, table, place: suitePlace, nowMs: () => clockMs });
  return {
    store: open(),
    another: open(),
    setClock: (nowMs) => {
      clockMs = nowMs;
    },
    close: drop,
  };
});

scheduleStoreContract('DynamoDB', async () => {
  const { client, table, drop } = await createTable();
  const documents = DynamoDBDocumentClient.from(client);
  const told: UnreadableItem[] = [];
  const kept = new Map<string, unknown>();
  const setText = async (id: string, text: unknown): Promise<void> => {
    const { Attributes } = await documents.send(
      new UpdateCommand({
        TableName: table,
        Key: scheduleKey(id),
        UpdateExpression: 'SET #text = :text',
        ExpressionAttributeNames: { '#text': 'text' },
        ExpressionAttributeValues: { ':text': text },
        ReturnValues: 'UPDATED_OLD',
      }),
    );
    kept.set(id, Attributes?.text);
  };
  return {
    store: new DynamoJobStore({ client, table, place: suitePlace, unreadable: (item) => told.push(item) }),
    told,
    damage: (id) => setText(id, '{'),
    mend: (id) => setText(id, kept.get(id)),
    close: drop,
  };
});

objectStoreContract('S3', async () => {
  const { bucket, client, drop } = await createBucket();
  const objects = new S3ObjectStore({ bucket, client });
  return {
    objects,
    close: async () => {
      await drop(objects);
      await objects.destroy();
    },
  };
});

jobQueueContract('SQS', async () => {
  const client = new SQSClient(clientConfiguration);
  const [images, text, wakes] = await Promise.all(
    ['images', 'text', 'wakes'].map((kind) => createQueue(client, kind)),
  );
  if (images === undefined || text === undefined || wakes === undefined) throw new Error('no queues');
  const queueUrls = { images: images.url, text: text.url };
  return {
    queue: new SqsJobQueue({ client, queueUrls, wakeQueueUrl: wakes.url }),
    fleets: ['images', 'text'],
    receiveWakes: async () =>
      (await wakes.take()).map((body) => decodeWake(body)).filter((wake) => wake !== undefined),
    // Time passes by itself: who receives waits for what comes.
    pass: async () => {},
    close: async () => {
      await Promise.all([images, text, wakes].map((queue) => queue.drop()));
      client.destroy();
    },
  };
});

interface BusEvent {
  readonly 'detail-type': string;
  readonly detail: OutcomeEvent['detail'];
}

eventBusContract('EventBridge', async () => {
  const sqs = new SQSClient(clientConfiguration);
  const queue = await createQueue(sqs, 'events');
  const { client, busName, drop } = await createBus(queue);
  return {
    bus: new EventBridgeBus({ client, busName }),
    received: async (count) => {
      const bodies: string[] = [];
      for (let batch = await queue.take(); batch.length > 0; batch = await queue.take()) {
        bodies.push(...batch);
        if (bodies.length >= count) break;
      }
      return bodies.map((body) => {
        const { 'detail-type': detailType, detail } = JSON.parse(body) as BusEvent;
        return { detailType, detail };
      });
    },
    close: async () => {
      await drop();
      await queue.drop();
      sqs.destroy();
    },
  };
});
