/** What is sent from a function begins a chain of its own: Lambda would take jobs that submit jobs for a loop, and end them. */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeEach, expect, it, vi } from 'vitest';
import { EventBridgeBus } from '../../lib/events/eventbridge/bus.ts';
import { leadClient, leadRequester } from '../../lib/queue/lambda/leads.ts';
import { InvokedWakes, wakeClient } from '../../lib/queue/lambda/wakes.ts';
import { SqsOutcomeOutbox } from '../../lib/queue/sqs/outbox.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';

let received: IncomingHttpHeaders[] = [];
const aws = createServer((request, answer) => {
  received.push(request.headers);
  answer.writeHead(202).end('{}');
});
await new Promise<void>((listening) => aws.listen(0, '127.0.0.1', listening));
const endpoint = `http://127.0.0.1:${(aws.address() as AddressInfo).port}`;
const settings = {
  endpoint,
  region: 'eu-central-1',
  credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
};
afterAll(() => {
  aws.closeAllConnections();
  aws.close();
});

beforeEach(() => {
  received = [];
  vi.stubEnv('AWS_LAMBDA_FUNCTION_NAME', 'worker');
  vi.stubEnv('_X_AMZN_TRACE_ID', 'Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=15:a87bd80c:1');
  for (const [name, value] of [
    ['AWS_ENDPOINT_URL', endpoint],
    ['AWS_REGION', 'eu-central-1'],
    ['AWS_ACCESS_KEY_ID', 'a'],
    ['AWS_SECRET_ACCESS_KEY', 'b'],
  ] as const)
    vi.stubEnv(name, value);
  return () => vi.unstubAllEnvs();
});

/** The server that answers here knows no checksums. */
const sqs = (): SQSClient => new SQSClient({ ...settings, md5: false });
const queue = (): SqsJobQueue =>
  new SqsJobQueue({
    client: sqs(),
    queueUrls: { images: `${endpoint}/images` },
    wakeQueueUrl: `${endpoint}/wake`,
  });

it.each([
  ['a job', () => queue().send('images', [{ jobId: 'j', claimId: 'c' }])],
  ['a wake', () => queue().sendWake({ partition: 0 })],
  ['a look', () => queue().sendLook(0, 0, 1)],
  [
    'an outcome that is kept',
    () =>
      new SqsOutcomeOutbox({
        client: sqs(),
        queue: { queueUrl: `${endpoint}/outcomes`, deadLetterQueueUrl: `${endpoint}/dead` },
      }).keepOutcomes({ jobIds: ['j'], tries: 1 }, 0),
  ],
  [
    'a wake by invocation',
    () =>
      new InvokedWakes({
        client: wakeClient(settings),
        functionArn: 'arn:aws:lambda:eu-central-1:123456789012:function:dispatch:wake',
        queue: queue(),
        clock: { monotonicMs: () => 0 },
      }).sendWake({ partition: 0, jobIds: ['j'] }),
  ],
  ['a lead', () => leadRequester({ client: leadClient(), functionName: 'dispatch' })(0)],
])('%s', async (_, send) => {
  await send();
  expect(received).toHaveLength(1);
  expect(received[0]).not.toHaveProperty('x-amzn-trace-id');
});

/** Dead letters are sent by an operator's command, which no function runs. */
const OUTSIDE_FUNCTIONS = ['lib/queue/sqs/dead-letters.ts'];

it('each file that sends is one of those that are tried here', async () => {
  const root = join(import.meta.dirname, '../..');
  const files = ['lib', 'functions'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${folder}/${name}`),
  );
  const sends = files.filter((path) =>
    /new (Send|Invoke|PutEvents|StartExecution|Publish)\w*Command\(/.test(
      readFileSync(join(root, path), 'utf8'),
    ),
  );
  const here = readFileSync(import.meta.filename, 'utf8');
  const tried = sends.filter((path) => here.includes(`from '../../${path}'`));
  expect(tried).toHaveLength(5);
  expect(sends.filter((path) => !tried.includes(path))).toEqual(OUTSIDE_FUNCTIONS);
});

it('the bus is told of the trace as before: Lambda counts no chain through it', async () => {
  const events = new EventBridgeBus({ client: new EventBridgeClient(settings), busName: 'bus' });
  await events.publish([
    { kind: 'stopped', detail: { id: 's', revision: 1, reason: 'type', failures: 0, stoppedAtMs: 1 } },
  ]);
  expect(received[0]).toHaveProperty('x-amzn-trace-id');
});
