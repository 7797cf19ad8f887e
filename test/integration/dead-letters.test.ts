/** Dead letters go back to where they belong, whoever has put them there: SQS's own task knows that of its queues' only. */
import { ReceiveMessageCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SqsDeadLetterQueues } from '../../lib/queue/sqs/dead-letters.ts';
import { clientConfiguration, createQueue, type TestQueue } from '../contract/aws.ts';

const WAIT_MS = 60_000;
const sqs = new SQSClient(clientConfiguration);
let [queue, dead]: TestQueue[] = [];
let queues: SqsDeadLetterQueues;

beforeAll(async () => {
  [queue, dead] = await Promise.all([createQueue(sqs, 'ingest'), createQueue(sqs, 'dead')]);
  queues = new SqsDeadLetterQueues({
    client: sqs,
    requests: ['Job Requested'],
    queues: { ingest: { queueUrl: queue?.url ?? '', deadLetterQueueUrl: dead?.url ?? '' } },
  });
}, WAIT_MS);
afterAll(async () => {
  await Promise.all([queue?.drop(), dead?.drop()]);
  sqs.destroy();
});

const put = (MessageBody: string, attributes: Readonly<Record<string, string>> = {}) =>
  sqs.send(
    new SendMessageCommand({
      QueueUrl: dead?.url,
      MessageBody,
      MessageAttributes: Object.fromEntries(
        Object.entries(attributes).map(([name, StringValue]) => [name, { DataType: 'String', StringValue }]),
      ),
    }),
  );

it('are shown with the reason that EventBridge, or the dispatch function, has given', {
  timeout: WAIT_MS,
}, async () => {
  await put('{"id":"event","detail-type":"Job Requested"}', {
    ERROR_CODE: 'NO_PERMISSIONS',
    ERROR_MESSAGE: 'not allowed',
    RULE_ARN: 'arn',
  });
  await put('{"jobIds":["j"],"reason":"MalformedDetail: no"}');
  await put('not JSON');
  const { deadLetters, shown } = await queues.look('ingest');
  expect(deadLetters).toBe(3);
  expect(new Map(shown.map(({ body, reason }) => [body, reason]))).toEqual(
    new Map([
      ['{"id":"event","detail-type":"Job Requested"}', 'NO_PERMISSIONS: not allowed'],
      ['{"jobIds":["j"],"reason":"MalformedDetail: no"}', 'MalformedDetail: no'],
      ['not JSON', undefined],
    ]),
  );
});

it('go back to the queue as they are, and are gone from where they stood', { timeout: WAIT_MS }, async () => {
  await Promise.all(Array.from({ length: 12 }, (_, at) => put(`letter ${at}`)));
  expect(await queues.redrive('ingest', 11)).toEqual({ sentBack: 11, kept: 0 });
  expect(await queues.redrive('ingest', 100)).toEqual({ sentBack: 4, kept: 0 });
  expect(await queues.redrive('ingest', 100)).toEqual({ sentBack: 0, kept: 0 });
  const bodies = new Set<string>();
  for (let tries = 0; tries < 20 && bodies.size < 15; tries += 1) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl: queue?.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1 }),
    );
    for (const { Body = '' } of Messages) bodies.add(Body);
  }
  expect(bodies.size).toBe(15);
  expect(bodies).toContain('{"id":"event","detail-type":"Job Requested"}');
  expect(await queues.look('ingest')).toMatchObject({ deadLetters: 0, shown: [] });
});

it('stay where they are if only a rule knows what job they ask for', { timeout: WAIT_MS }, async () => {
  const order = '{"id":"order","detail-type":"Order Placed","detail":{"type":"resize"}}';
  await put(order, { ERROR_CODE: 'NO_PERMISSIONS', RULE_ARN: 'arn' });
  await put('{"id":"asked","detail-type":"Job Requested"}', { RULE_ARN: 'arn' });
  // Of a bus that could not read it: no rule has seen it.
  await put('{"id":"outcome","detail-type":"Job Succeeded"}', { ERROR_CODE: 'NO_PERMISSIONS' });
  expect(await queues.redrive('ingest', 100)).toEqual({ sentBack: 1, kept: 2 });
  expect((await queues.look('ingest')).deadLetters).toBe(2);
});

it('are deleted for good if somebody says so', { timeout: WAIT_MS }, async () => {
  await put('unwanted');
  await queues.purge('ingest');
  expect(await queues.look('ingest')).toMatchObject({ deadLetters: 0 });
});
