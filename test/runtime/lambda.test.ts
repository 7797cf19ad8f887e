import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest';
import { lambdaEntry } from '../../lib/runtime/lambda.ts';

/** An invocation, with so much time left. */
const invocation = (awsRequestId: string, leftMs = 60_000): Context =>
  ({
    awsRequestId,
    functionName: 'dispatch',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:eu-central-1:123456789012:function:dispatch',
    memoryLimitInMB: '512',
    getRemainingTimeInMillis: () => leftMs,
  }) as unknown as Context;

describe('a Lambda entry', () => {
  // Lines go to the console that the tests see, instead of one of the logger's own.
  beforeEach(() => {
    vi.stubEnv('POWERTOOLS_DEV', 'true');
    vi.stubEnv('AWS_LAMBDA_INITIALIZATION_TYPE', 'on-demand');
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  const linesOf = async (act: () => Promise<unknown>): Promise<readonly Record<string, unknown>[]> => {
    const lines: string[] = [];
    for (const name of ['info', 'warn', 'error'] as const)
      vi.spyOn(console, name).mockImplementation((text) => void lines.push(String(text)));
    await act();
    return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  };

  it('logs lines of JSON that name the invocation, and say whether it was a cold start', async () => {
    const { log, wrap } = lambdaEntry();
    const handler = wrap(async (partition: number) => log.info('passed', { partition, epoch: 7 }));
    const lines = await linesOf(async () => {
      await handler(3, invocation('first'));
      await handler(4, invocation('second'));
    });
    const both = {
      level: 'INFO',
      message: 'passed',
      service: 'fairlead',
      function_name: 'dispatch',
      epoch: 7,
    };
    expect(lines).toMatchObject([
      { ...both, partition: 3, function_request_id: 'first', cold_start: true },
      { ...both, partition: 4, function_request_id: 'second', cold_start: false },
    ]);
    for (const { timestamp } of lines) expect(timestamp).toBe(new Date(String(timestamp)).toISOString());
    // What each line of a function would repeat stands with the function.
    const known = [
      'cold_start',
      'epoch',
      'function_name',
      'function_request_id',
      'level',
      'message',
      'partition',
    ];
    for (const line of lines)
      expect(Object.keys(line).toSorted()).toEqual([...known, 'service', 'timestamp']);
  });

  it('logs the trace that the invocation is of', async () => {
    vi.stubEnv(
      '_X_AMZN_TRACE_ID',
      'Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1',
    );
    const { log } = lambdaEntry();
    const [line] = await linesOf(async () => log.info('passed'));
    expect(line).toMatchObject({ xray_trace_id: '1-5759e988-bd862e3fe1be46a994272793' });
  });

  it('logs the name, message and stack of an error', async () => {
    const { log } = lambdaEntry();
    const [line] = await linesOf(async () => log.warn('late', { error: new RangeError('out of it') }));
    expect(line?.error).toMatchObject({ name: 'RangeError', message: 'out of it' });
  });

  it('takes the name of the service from the environment, as other functions of its users do', async () => {
    vi.stubEnv('POWERTOOLS_SERVICE_NAME', 'photos');
    const { log } = lambdaEntry();
    expect(await linesOf(async () => log.warn('late'))).toMatchObject([{ level: 'WARN', service: 'photos' }]);
  });

  it.each([
    ['info', ['INFO', 'WARN', 'ERROR']],
    ['WARN', ['WARN', 'ERROR']],
    ['ERROR', ['ERROR']],
    ['SILENT', []],
  ])(
    'logs from the level %s of the environment on, whatever Lambda’s own level is, and tells metrics',
    async (level, told) => {
      vi.stubEnv('AWS_LAMBDA_LOG_LEVEL', 'INFO');
      vi.stubEnv('POWERTOOLS_LOG_LEVEL', level);
      vi.stubEnv('FAIRLEAD_TABLE', 'jobs');
      vi.stubEnv('POWERTOOLS_METRICS_DISABLED', 'false');
      const metricLines: unknown[] = [];
      vi.spyOn(console, 'log').mockImplementation((line) => void metricLines.push(line));
      const { log, metrics, wrap } = lambdaEntry();
      const handler = wrap(async () => {
        for (const each of ['info', 'warn', 'error'] as const) log[each]('passed');
        metrics.add('started', 1);
      });
      const lines = await linesOf(() => handler(undefined, invocation('one')));
      expect(lines.map((line) => line.level)).toEqual(told);
      expect(metricLines).toHaveLength(1);
    },
  );

  it('is not answered for while its handler goes on, however little time is left', async () => {
    const { wrap } = lambdaEntry();
    const handler = wrap(async () => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return 'done';
    });
    expect(await handler(undefined, invocation('late', 10))).toBe('done');
  });

  it('takes further middlewares around its handler, and throws what it throws', async () => {
    const { wrap } = lambdaEntry();
    const seen: string[] = [];
    const handler = wrap(async (text: string) => {
      seen.push(text);
      if (text === 'bad') throw new RangeError(text);
      return text.length;
    }).use({
      before: ({ event }) => void seen.push(`before ${event}`),
      after: ({ response }) => void seen.push(`after ${response}`),
      onError: ({ error }) => void seen.push(`error ${error?.message}`),
    });
    expect(await handler('good', invocation('one'))).toBe(4);
    await expect(handler('bad', invocation('two'))).rejects.toThrow(RangeError);
    expect(seen).toEqual(['before good', 'good', 'after 4', 'before bad', 'bad', 'error bad']);
  });

  it('takes middlewares that are typed by middy, or by Powertools', () => {
    const { wrap } = lambdaEntry();
    const handler = wrap(async (text: string) => text.length);
    expectTypeOf(handler.use).toBeCallableWith({} as MiddlewareObj<string, number>);
    expectTypeOf(handler.use).toBeCallableWith({} as MiddlewareObj);
    expectTypeOf(handler.use).toBeCallableWith(injectLambdaContext(new Logger()));
    expect(handler.use([])).toBe(handler);
  });

  it('tells at its end, in lines of the log, what its invocation has measured, also when it failed', async () => {
    vi.stubEnv('FAIRLEAD_TABLE', 'Orders-Jobs');
    vi.stubEnv('POWERTOOLS_METRICS_DISABLED', 'false');
    const lines: string[] = [];
    vi.spyOn(console, 'log').mockImplementation((text) => void lines.push(String(text)));
    vi.spyOn(console, 'warn').mockImplementation((text) => void lines.push(String(text)));
    const { metrics, wrap } = lambdaEntry();
    const handler = wrap(async (started: number) => {
      metrics.add('started', started);
      if (started > 5) throw new RangeError('too many');
    });
    await handler(3, invocation('first'));
    await expect(handler(7, invocation('second'))).rejects.toThrow('too many');
    await handler(0, invocation('third'));
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { Scheduler: 'Orders-Jobs', JobsStarted: 3, _aws: { CloudWatchMetrics: [{ Namespace: 'Fairlead' }] } },
      { Scheduler: 'Orders-Jobs', JobsStarted: 7 },
    ]);
  });

  it.each([
    [undefined, []],
    ['', []],
    ['claimed', [{ JobsClaimed: 3 }]],
    [' passDuration , JobsClaimed, no such metric', [{ PassDuration: 12 }]],
  ])('tells of what is told on request what FAIRLEAD_METRICS names: %j', async (named, told) => {
    vi.stubEnv('FAIRLEAD_TABLE', 'Orders-Jobs');
    vi.stubEnv('FAIRLEAD_METRICS', named);
    vi.stubEnv('POWERTOOLS_METRICS_DISABLED', 'false');
    const lines: string[] = [];
    vi.spyOn(console, 'log').mockImplementation((text) => void lines.push(String(text)));
    vi.spyOn(console, 'warn').mockImplementation((text) => void lines.push(String(text)));
    const { metrics, wrap } = lambdaEntry();
    const handler = wrap(async () => {
      metrics.add('claimed', 3);
      metrics.add('passDuration', 12);
    });
    await handler(undefined, invocation('first'));
    const values = lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .map(({ _aws, Scheduler, ...values }) => values);
    expect(values).toEqual(told);
  });
});
