/** What a job's attempts have logged. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type LogQuery, linesIn, readLogs } from '../../lib/cli/logs.ts';
import { FAILED } from '../stage/stage.ts';
import { counter } from './desk.ts';

const REQUEST = '8f5a2c1e-0000-4000-8000-000000000001';

it('asks for the lines of each attempt, by its function, request and times', async () => {
  const { fairleadIn, put, job, pass, startEverywhere, end, store } = counter();
  const [waiting] = await put(job());
  const id = waiting?.id ?? '';
  await pass();
  const [started] = await startEverywhere();
  if (started === undefined) throw new Error('nothing was started');
  await end(started, FAILED);
  const failed = store.inspectJob(id);
  if (failed?.startedAtMs === undefined || failed.finishedAtMs === undefined) throw new Error('no attempt');
  const queries: LogQuery[] = [];
  const own = {
    columns: 80,
    connect: async () => ({
      client: {
        history: async () => ({
          jobId: id,
          state: 'failed',
          dropped: { attempts: 0, losses: 0, others: 0 },
          events: [
            { kind: 'submitted', atMs: failed.submittedAtMs },
            {
              kind: 'attempt',
              attempt: 1,
              workerId: `Stack-Images-1A/${REQUEST}`,
              startedAtMs: failed.startedAtMs,
              endedAtMs: failed.finishedAtMs,
              outcome: 'failed',
            },
            { kind: 'attempt', attempt: 2, workerId: 'gpu-7', startedAtMs: 1, outcome: 'running' },
          ],
        }),
      } as never,
      close: () => {},
    }),
    readLogs: async (query: LogQuery) => {
      queries.push(query);
      return [{ atMs: query.fromMs, text: 'INFO\tread page 3\n' }];
    },
  };
  const { code, out } = await fairleadIn(own, 'jobs', 'logs', id, '--limit', '7');
  expect(code).toBe(0);
  expect(queries).toEqual([
    {
      functionName: 'Stack-Images-1A',
      requestId: REQUEST,
      fromMs: failed.startedAtMs - 5_000,
      untilMs: failed.finishedAtMs + 5_000,
      limit: 7,
    },
  ]);
  expect(out).toMatch(/attempt 1, failed, on Stack-Images-1A/);
  expect(out).toMatch(/read page 3/);
  expect(out).toMatch(/attempt 2, running, on gpu-7: it did not run in a function/);
  const { out: json } = await fairleadIn(own, 'jobs', 'logs', id, '--json');
  expect(JSON.parse(json)).toMatchObject({ attempts: [{ lines: [{}] }, { attempt: 2 }] });
});

it('says that no attempt has started', async () => {
  const { fairlead, put, job } = counter();
  const [waiting] = await put(job());
  expect((await fairlead('jobs', 'logs', waiting?.id ?? '')).out).toBe('no attempt has started\n');
});

const QUERY = { functionName: 'f', requestId: REQUEST, fromMs: 1_000.5, untilMs: 2_000, limit: 3 };

it('reads the pages of a log group up to the limit, also behind an empty one', async () => {
  const asked: object[] = [];
  const pages = [
    { events: [{ timestamp: 1, message: 'a' }], nextToken: 'p' },
    { nextToken: 'q' },
    { events: ['b', 'c', 'd'].map((message, at) => ({ timestamp: 2 + at, message })), nextToken: 'r' },
  ];
  const filterEvents = async (input: object) => {
    asked.push(input);
    return pages[asked.length - 1] ?? {};
  };
  const lines = await linesIn(filterEvents, '/aws/lambda/f', QUERY);
  expect(lines.map(({ text }) => text)).toEqual(['a', 'b', 'c']);
  const filter = { logGroupName: '/aws/lambda/f', filterPattern: `"${REQUEST}"`, limit: 3 };
  const times = { startTime: 1_000, endTime: 2_000 };
  expect(asked).toEqual([undefined, 'p', 'q'].map((nextToken) => ({ ...filter, ...times, nextToken })));
});

/** What an endpoint of AWS answers. */
type Answer = (request: IncomingMessage) => { readonly status: number; readonly body: object };

/** An endpoint that the environment names until the test is over, and what it was asked. */
async function endpoint(answer: Answer) {
  const asked: { readonly path: string | undefined; readonly target: unknown; readonly body: unknown }[] = [];
  const server = createServer(async (request, response) => {
    const { url: path, headers } = request;
    const body = request.method === 'POST' ? await json(request) : undefined;
    asked.push({ path, target: headers['x-amz-target'], body });
    const { status, body: answered } = answer(request);
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answered));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const environment = {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  return { asked, close: () => void server.close() };
}

describe('the logs of a function', () => {
  afterEach(() => void vi.unstubAllEnvs());

  it.each([
    ['/own/group', { LoggingConfig: { LogGroup: '/own/group' } }],
    ['/aws/lambda/f', {}],
  ])('are read from the group that its configuration names: %s', async (logGroupName, configuration) => {
    const events = [{ timestamp: 5, message: 'a line' }];
    const { asked, close } = await endpoint(({ method }) => ({
      status: 200,
      body: method === 'GET' ? configuration : { events },
    }));
    expect(await readLogs(QUERY)).toEqual([{ atMs: 5, text: 'a line' }]);
    close();
    expect(asked).toMatchObject([
      { path: '/2015-03-31/functions/f/configuration' },
      {
        target: 'Logs_20140328.FilterLogEvents',
        body: { logGroupName, filterPattern: `"${REQUEST}"`, startTime: 1_000, endTime: 2_000, limit: 3 },
      },
    ]);
  });

  it('say which rights are needed if they cannot be read', async () => {
    const { close } = await endpoint(() => ({ status: 403, body: { message: 'not authorized' } }));
    await expect(readLogs(QUERY)).rejects.toMatchObject({
      name: 'MisconfiguredError',
      message: expect.stringMatching(
        /^the logs of f cannot be read \(not authorized\).*lambda:GetFunctionConfiguration and logs:FilterLogEvents$/,
      ),
    });
    close();
  });
});
