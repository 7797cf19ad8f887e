import { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { DynamoLeadStore } from '../../lib/store/dynamodb/leading.ts';
import { DynamoSubmitStore } from '../../lib/store/dynamodb/submit.ts';
import { aDeclaration, pretendDeclared } from '../fixtures/declared.ts';

const ENVIRONMENT = {
  FAIRLEAD_TABLE: 'jobs',
  FAIRLEAD_WAKE_QUEUE: 'https://sqs.invalid/1/wake',
};
const OPTIONS = {
  table: 'jobs',
  wakeQueueUrl: 'https://sqs.invalid/1/wake',
  region: 'eu-west-1',
};

describe('the client on AWS', () => {
  it('is made of what the construct tells a process', () => {
    const client = SchedulerClient.fromEnvironment({ region: 'eu-west-1' }, ENVIRONMENT);
    expect(client).toBeInstanceOf(SchedulerClient);
    client.destroy();
  });

  it.each([
    ['an alias', 'arn:aws:lambda:eu-west-1:111122223333:function:jobs-dispatch:wake'],
    // So says the parameter of a scheduler that an earlier version has deployed.
    ['the wake queue', 'arn:aws:sqs:eu-west-1:111122223333:jobs-wake'],
    ['nothing', ''],
  ])('is made where FAIRLEAD_WAKE_FUNCTION names %s', (_, arn) => {
    const environment = { ...ENVIRONMENT, FAIRLEAD_WAKE_FUNCTION: arn };
    const client = SchedulerClient.fromEnvironment({ region: 'eu-west-1' }, environment);
    expect(client).toBeInstanceOf(SchedulerClient);
    client.destroy();
  });

  it.each(Object.keys(ENVIRONMENT))('names the variable %s that is missing', (name) => {
    const without = { ...ENVIRONMENT, [name]: '' };
    expect(() => SchedulerClient.fromEnvironment({}, without)).toThrow(
      expect.objectContaining({ name: 'EnvironmentError', message: expect.stringContaining(name) }),
    );
  });

  it.each([
    [{ table: '' }, 'table'],
    [{ table: undefined }, 'table'],
    [{ wakeQueueUrl: null }, 'wakeQueueUrl'],
    [{ wakeFunctionArn: '' }, 'wakeFunctionArn'],
    [{ wakeFunctionArn: 'arn:aws:lambda:eu-west-1:111122223333:function:jobs' }, 'wakeFunctionArn'],
    [{ wakeFunctionArn: 'arn:aws:sqs:eu-west-1:111122223333:wake' }, 'wakeFunctionArn'],
    [{ wakeFunctionArn: null }, 'wakeFunctionArn'],
    [{ maxAttempts: 0 }, 'maxAttempts'],
    [{ maxAttempts: 1.5 }, 'maxAttempts'],
    [{ maxAttempts: '3' }, 'maxAttempts'],
    [{ maxAttempts: 101 }, 'maxAttempts'],
    [{ requestTimeoutMs: 0 }, 'requestTimeoutMs'],
    [{ requestTimeoutMs: Number.NaN }, 'requestTimeoutMs'],
    [{ requestTimeoutMs: Number.POSITIVE_INFINITY }, 'requestTimeoutMs'],
  ])('refuses %j', (change, field) => {
    expect(() => new SchedulerClient({ ...OPTIONS, ...change } as never)).toThrow(
      expect.objectContaining({ name: 'ValidationError', field }),
    );
  });

  it('wakes the dispatch function by the alias that the environment names, where and as it reaches all else', async () => {
    const requests: string[] = [];
    const lambda = createServer((request, response) => {
      requests.push(`${request.method} ${decodeURIComponent(request.url ?? '')}`);
      requests.push(String(request.headers.authorization).replace(/.*Credential=([^/]+).*/, '$1'));
      response.writeHead(202).end();
    });
    await new Promise<void>((listening) => lambda.listen(0, '127.0.0.1', listening));
    onTestFinished(() => {
      lambda.close();
      vi.restoreAllMocks();
    });
    pretendDeclared(aDeclaration(resolveConfiguration({ types: { resize: {} } })));
    vi.spyOn(DynamoSubmitStore.prototype, 'announceLines').mockImplementation(async ({ lines, nowMs }) =>
      lines.map(() => nowMs),
    );
    vi.spyOn(DynamoLeadStore.prototype, 'readLeader').mockResolvedValue(undefined);
    vi.spyOn(DynamoSubmitStore.prototype, 'createJobs').mockImplementation(async (jobs) =>
      jobs.map((job) => ({ kind: 'created', job })),
    );
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:jobs-dispatch:wake';
    const endpoint = `http://127.0.0.1:${(lambda.address() as AddressInfo).port}`;
    const credentials = { accessKeyId: 'mine', secretAccessKey: 'test' };
    const client = SchedulerClient.fromEnvironment(
      { region: 'eu-west-1', endpoint, credentials },
      { ...ENVIRONMENT, FAIRLEAD_WAKE_FUNCTION: arn },
    );
    const closed = vi.spyOn(LambdaClient.prototype, 'destroy');
    await client.submit({ type: 'resize', payload: null });
    // The submit waits for it no longer than a tenth of a second.
    await vi.waitFor(() => expect(requests).not.toEqual([]), { timeout: 20_000 });
    expect(requests).toEqual([`POST /2015-03-31/functions/${arn}/invocations`, 'mine']);
    client.destroy();
    expect(closed).toHaveBeenCalledTimes(1);
  });

  it('says why a server gave no answer: fetch itself says only that it failed', async () => {
    const server = createNetServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    vi.stubEnv('FAIRLEAD_TABLE', undefined);
    vi.stubEnv('FAIRLEAD_URL', `http://127.0.0.1:${port}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(SchedulerClient.fromEnvironment().get('a')).rejects.toThrow(/ECONNREFUSED 127\.0\.0\.1/);
  });

  it('gives a request up after its time and its tries', async () => {
    // A server that takes connections and never answers.
    const server = createNetServer();
    let connections = 0;
    server.on('connection', () => {
      connections += 1;
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const client = new SchedulerClient({
      ...OPTIONS,
      endpoint: `http://127.0.0.1:${port}`,
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      maxAttempts: 2,
      requestTimeoutMs: 50,
    });
    await expect(client.get('a')).rejects.toMatchObject({ name: 'UnavailableError' });
    expect(connections).toBe(2);
    client.destroy();
    server.close();
  });
});
