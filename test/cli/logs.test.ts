/** What a job's attempts have logged. */
import { expect, it } from 'vitest';
import { type LogQuery, linesIn } from '../../lib/cli/logs.ts';
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
