/** The programs of docs/workers.md run as the page says. */
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { expect, it, vi } from 'vitest';
import type { Job, Json } from '../../lib/core/job.ts';
import { type JobHandlers, runJob } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { programsOf } from '../stage/programs.ts';
import { stage } from '../stage/stage.ts';
import { onlyJob } from '../testing/received.ts';

const { names, load } = await programsOf('docs/workers.md');

async function run(program: number, type: string, payload: Json): Promise<readonly Job[]> {
  const { handler } = await load<{ readonly handler: JobHandlers }>(`program-${program}.ts`);
  const on = stage({
    pool: {
      types: { [type]: { timeoutMs: 30_000, retry: { jitter: 'none', delayMs: 0 } } },
      tiers: [{ tier: 'standard' }],
      fleets: { all: { types: [type], slots: 1 } },
    },
  });
  await on.put(on.job({ type, payload }));
  const ends: Job[] = [];
  for (let tries = 1; tries <= 2 && ends.at(-1)?.state !== 'succeeded'; tries += 1) {
    await on.pass();
    const [received] = await on.queue.receive('all', 1, 0, 60_000);
    if (received === undefined) return ends;
    const message = onlyJob(received);
    const { store, configuration, clock, random, log } = on;
    const worker = { workerId: 'worker-1', incarnation: `${tries}` };
    await on.finish(runJob({ store, configuration, clock, random, log, worker }, handler, message));
    const job = on.store.inspectJob(message.jobId);
    if (job !== undefined) ends.push(job);
  }
  return ends;
}

it('are these eight, and the first is typed', async () => {
  expect(names).toHaveLength(8);
  expect(await run(0, 'thumbnail', { key: 'a.png' })).toMatchObject([{ result: { width: 256 } }]);
  expect(await run(0, 'thumbnail', { key: 7 })).toMatchObject([{ error: { name: 'PayloadRefused' } }]);
});

it('charges once, although the mail fails at first', async () => {
  const charge = vi.fn(async () => ({ id: 'ch_1' }));
  const mail = vi.fn(async () => {}).mockRejectedValueOnce(new Error('no mail'));
  vi.stubGlobal('payments', { charge, mail });
  expect(await run(1, 'order', { order: 'o-1' })).toMatchObject([
    { state: 'scheduled' },
    { state: 'succeeded', result: { charge: 'ch_1' } },
  ]);
  expect([charge.mock.calls.length, mail.mock.calls.length]).toEqual([1, 2]);
  vi.unstubAllGlobals();
});

it.each<readonly [number, string, Partial<Job>]>([
  [200, '', { state: 'succeeded', result: { ok: true } }],
  [400, '', { state: 'failed', attempt: 1 }],
  [429, '7', { state: 'scheduled', attempt: 2, runAtMs: NOW_MS + 7_000 }],
  [429, '', { state: 'scheduled', attempt: 2, runAtMs: NOW_MS + 30_000 }],
])('tells a webhook that answers %i, retry-after "%s", what to do', async (status, after, ended) => {
  const headers = after === '' ? {} : { 'retry-after': after };
  vi.stubGlobal('fetch', async () => Response.json({ ok: true }, { status, headers }));
  expect((await run(2, 'webhook', {}))[0]).toMatchObject(ended);
  vi.unstubAllGlobals();
});

it('surrounds a handler', async () => {
  expect(await run(3, 'thumbnail', {})).toMatchObject([{ result: { width: 256 } }]);
});

it('lets the key of a job rest whose service answers 429', async () => {
  const headers = { 'retry-after': '60' };
  vi.stubGlobal('fetch', async () => Response.json({}, { status: 429, headers }));
  expect((await run(4, 'quote', {}))[0]).toMatchObject({
    state: 'scheduled',
    attempt: 1,
    runAtMs: NOW_MS + 60_000,
    history: { entries: [{ outcome: 'rested' }] },
  });
  vi.unstubAllGlobals();
});

it('parks a job until its export is there', async () => {
  vi.stubGlobal('fetch', async () => Response.json({}, { headers: { location: '/exports/7' } }));
  expect((await run(5, 'report', {}))[0]).toMatchObject({
    state: 'scheduled',
    attempt: 1,
    runAtMs: NOW_MS + 900_000,
    parkedState: { url: '/exports/7' },
  });
  vi.unstubAllGlobals();
});

it('runs the handler of an SQS function', async () => {
  const existing = vi.fn(async () => undefined);
  vi.stubGlobal('existing', existing);
  expect(await run(6, 'invoice', { no: 7 })).toMatchObject([{ state: 'succeeded' }]);
  expect(existing).toHaveBeenCalledWith(
    { Records: [expect.objectContaining({ body: '{"no":7}' })] },
    expect.anything(),
    expect.anything(),
  );
  vi.unstubAllGlobals();
});

it('makes a function of another app the handler of a fleet', async () => {
  const { addJobs } = await load<{
    readonly addJobs: (scope: Stack, functionArn: string, roleArn: string) => unknown;
  }>('program-7.ts');
  const app = new App({ context: { 'aws:cdk:bundling-stacks': [] } });
  const stack = new Stack(app, 'Billing', { env: { account: '111122223333', region: 'eu-central-1' } });
  const functionArn = 'arn:aws:lambda:eu-central-1:111122223333:function:invoices';
  addJobs(stack, functionArn, 'arn:aws:iam::111122223333:role/invoices');
  Template.fromStack(stack).hasResourceProperties('AWS::Lambda::EventSourceMapping', {
    FunctionName: 'invoices',
  });
});
