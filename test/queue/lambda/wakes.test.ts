/** Wakes by the alias of the dispatch function, and by the queue where it cannot be invoked. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  type InvokeCommand,
  LambdaClient,
  type LambdaClientConfig,
  LambdaServiceException,
} from '@aws-sdk/client-lambda';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { InvokedWakes, wakeClient } from '../../../lib/queue/lambda/wakes.ts';
import { decodeWake } from '../../../lib/queue/message.ts';

const ALIAS = 'arn:aws:lambda:eu-central-1:123456789012:function:dispatch:wake';
const MINUTE_MS = 60_000;

describe('wakes by invocation', () => {
  let invoked: InvokeCommand['input'][];
  let sent: unknown[];
  let refusal: Error | undefined;
  let monotonicMs: number;
  let wakes: InvokedWakes;

  beforeEach(() => {
    [invoked, sent, refusal, monotonicMs] = [[], [], undefined, 5];
    const send = async ({ input }: InvokeCommand): Promise<object> => {
      invoked.push(input);
      if (refusal !== undefined) throw refusal;
      return { StatusCode: 202 };
    };
    wakes = new InvokedWakes({
      client: { send } as unknown as LambdaClient,
      functionArn: ALIAS,
      queue: { sendWake: async (wake) => void sent.push(wake) },
      clock: { monotonicMs: () => monotonicMs },
    });
  });

  /** By a Lambda that is this server. */
  async function wakesAt(
    lambda: Server,
    clientOf: (aws: LambdaClientConfig) => LambdaClient,
  ): Promise<InvokedWakes> {
    await new Promise<void>((listening) => lambda.listen(0, '127.0.0.1', listening));
    const client = clientOf({
      endpoint: `http://127.0.0.1:${(lambda.address() as AddressInfo).port}`,
      region: 'eu-central-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    onTestFinished(() => {
      client.destroy();
      lambda.closeAllConnections();
      lambda.close();
    });
    const queue = { sendWake: async (wake: unknown) => void sent.push(wake) };
    return new InvokedWakes({ client, functionArn: ALIAS, queue, clock: { monotonicMs: () => 0 } });
  }

  it('name the jobs that are being stored, and wait for nothing that the function does', async () => {
    await wakes.sendWake({ partition: 3, jobIds: ['a', 'b'] });
    expect(invoked).toMatchObject([{ FunctionName: ALIAS, InvocationType: 'Event' }]);
    expect(decodeWake(Buffer.from(invoked[0]?.Payload as Uint8Array).toString())).toEqual({
      partition: 3,
      asks: 'pass',
      jobIds: ['a', 'b'],
    });
    expect(sent).toEqual([]);
  });

  it('go by the queue where they name no job, or are for later: an invocation cannot wait', async () => {
    await wakes.sendWake({ partition: 3 });
    await wakes.sendWake({ partition: 3, delayMs: 5_000, dueAtMs: 7_000 });
    await wakes.sendWake({ partition: 3, delayMs: 5_000, jobIds: ['a'] });
    expect(invoked).toEqual([]);
    expect(sent).toEqual([
      { partition: 3 },
      { partition: 3, delayMs: 5_000, dueAtMs: 7_000 },
      { partition: 3, delayMs: 5_000, jobIds: ['a'] },
    ]);
  });

  const refused = new LambdaServiceException({
    name: 'AccessDeniedException',
    $fault: 'client',
    $metadata: {},
  });
  it.each([
    ['may not be invoked, and for ten minutes more', refused, 10],
    ['is not reached, and for a minute more', new Error('connect ETIMEDOUT'), 1],
  ])('go by the queue when the function %s', async (_, error, minutes) => {
    refusal = error;
    await wakes.sendWake({ partition: 0, jobIds: ['a'] });
    refusal = undefined;
    monotonicMs += minutes * MINUTE_MS - 1;
    await wakes.sendWake({ partition: 0, jobIds: ['b'] });
    expect(invoked).toHaveLength(1);
    expect(sent).toEqual([
      { partition: 0, jobIds: ['a'] },
      { partition: 0, jobIds: ['b'] },
    ]);
    monotonicMs += 1;
    await wakes.sendWake({ partition: 0, jobIds: ['c'] });
    expect(invoked).toHaveLength(2);
    expect(sent).toHaveLength(2);
  });

  it('are tried by one, as long as nobody knows whether the function can be invoked', async () => {
    await Promise.all(['a', 'b', 'c'].map((id) => wakes.sendWake({ partition: 0, jobIds: [id] })));
    expect([invoked.length, sent.length]).toEqual([1, 2]);
    await Promise.all(['d', 'e'].map((id) => wakes.sendWake({ partition: 0, jobIds: [id] })));
    expect([invoked.length, sent.length]).toEqual([3, 2]);
  });

  it('are events for Lambda, by the name of the alias', async () => {
    const requests: unknown[] = [];
    const lambda = createServer(async (request, response) => {
      const { method, url = '', headers } = request;
      requests.push([method, decodeURIComponent(url), headers['x-amz-invocation-type'], await text(request)]);
      response.writeHead(202).end();
    });
    const real = await wakesAt(lambda, (aws) => new LambdaClient(aws));
    await real.sendWake({ partition: 3, jobIds: ['a'] });
    expect(requests).toEqual([
      ['POST', `/2015-03-31/functions/${ALIAS}/invocations`, 'Event', '{"partition":3,"jobIds":["a"]}'],
    ]);
    expect(sent).toEqual([]);
  });

  it('become messages soon where Lambda takes connections and never answers, and the next ones without asking it', async () => {
    let asked = 0;
    const lambda = createServer(() => {
      asked += 1;
    });
    const real = await wakesAt(lambda, wakeClient);
    for (const id of ['a', 'b']) await real.sendWake({ partition: 0, jobIds: [id] });
    expect([asked, sent.length]).toEqual([2, 2]);
  });

  it('are given up where their sender waits no longer, and send no message either', async () => {
    const lambda = createServer(() => {});
    const real = await wakesAt(lambda, wakeClient);
    const sender = new AbortController();
    lambda.on('request', () => sender.abort());
    await expect(real.sendWake({ partition: 0, jobIds: ['a'], signal: sender.signal })).rejects.toThrow();
    expect(sent).toEqual([]);
  });
});
