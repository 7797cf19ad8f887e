/** The programs of docs/guides/ do what their guides say: stacks are synthesised, and their jobs run on the stage under their terms. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import type { PutEventsCommand, PutEventsRequestEntry } from '@aws-sdk/client-eventbridge';
import { App, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { Cluster, type ICluster } from 'aws-cdk-lib/aws-ecs';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, SQSHandler } from 'aws-lambda';
import { build } from 'esbuild';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Scheduler } from '../cdk/scheduler.ts';
import type { LimitConfiguration, PoolConfiguration } from '../lib/core/configuration.ts';
import type { Job, Json } from '../lib/core/job.ts';
import type { LimitInput, PoolInput } from '../lib/core/pool-input.ts';
import { declareSchedules, unpackDeclaredSchedules } from '../lib/deploy/declared-schedules.ts';
import { publishOutcomes } from '../lib/dispatch/outcomes.ts';
import { EventBridgeBus } from '../lib/events/eventbridge/bus.ts';
import type { Jobs } from '../lib/jobs/jobs.ts';
import { testScheduler } from '../lib/testing/index.ts';
import { runWorker } from '../lib/worker/process/process.ts';
import { type JobHandler, type JobHandlers, runJob } from '../lib/worker/run-job.ts';
import { type Desk, desk } from './client/desk.ts';
import { folderOfFile } from './fixtures/folders.ts';
import { type Programs, programsOf } from './stage/programs.ts';
import { toldJobs } from './testing/received.ts';

const project = resolve(import.meta.dirname, '..');
const guide = (name: string): Promise<Programs> => programsOf(`docs/guides/${name}.md`);
const home = process.cwd();

afterEach(() => {
  process.chdir(home);
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

type StackClass = new (
  scope: App,
  id: string,
  cluster: ICluster,
) => Stack & { readonly scheduler: Scheduler };

/** A cluster that the user has. */
function clusterIn(app: App): ICluster {
  const stack = new Stack(app, 'Existing');
  const ids = { availabilityZones: ['a', 'b'], privateSubnetIds: ['subnet-a', 'subnet-b'] };
  const vpc = Vpc.fromVpcAttributes(stack, 'Vpc', { vpcId: 'vpc-1', ...ids });
  return Cluster.fromClusterAttributes(stack, 'Cluster', { clusterName: 'apps', vpc });
}

/** The guide's stack, synthesised in the guide's folder without bundling. */
async function stackOf({ folder, load }: Programs): Promise<{ template: Template; scheduler: Scheduler }> {
  process.chdir(folder);
  const [Class] = Object.values(await load<Readonly<Record<string, StackClass>>>('stack.ts'));
  if (Class === undefined) throw new Error('lib/stack.ts exports no stack');
  const app = new App({
    context: { 'aws:cdk:bundling-stacks': [] },
    analyticsReporting: false,
    outdir: folderOfFile('fairlead-guides-'),
  });
  const stack = new Class(app, 'Guide', clusterIn(app));
  return { template: Template.fromStack(stack), scheduler: stack.scheduler };
}

/** A limit as a declaration writes it. */
const limitInput = ({ limit: _name, rate, budget, ...caps }: LimitConfiguration): LimitInput => ({
  ...caps,
  ...(rate === undefined ? {} : { rate: { starts: rate.starts, perKey: rate.perKey, per: rate.perMs } }),
  ...(budget === undefined ? {} : { budget: { slotSeconds: budget.slotMs / 1_000, per: budget.perMs } }),
});

/** The configuration as a declaration writes it. */
function declarationOf({ types, tiers, fleets, limits, ...others }: PoolConfiguration): PoolInput {
  return {
    ...others,
    ...(limits === undefined
      ? {}
      : { limits: Object.fromEntries(limits.map((each) => [each.limit, limitInput(each)])) }),
    tiers,
    types: Object.fromEntries(types.map(({ type, ...fields }) => [type, fields])),
    fleets: Object.fromEntries(fleets.map(({ fleet, ...fields }) => [fleet, fields])),
  };
}

/** A scheduler in memory under the terms of the guide's stack; the guide's clients are clients of it. */
async function deployed(programs: Programs) {
  const { template, scheduler } = await stackOf(programs);
  const scene = desk({ pool: declarationOf(scheduler.configuration) });
  vi.stubGlobal('clientOnStage', (jobs?: Jobs) => scene.anotherClient(jobs === undefined ? {} : { jobs }));
  return { template, scheduler, scene };
}

/** Runs an attempt of each job that may start, and answers the jobs as they are afterwards. */
async function attempts(scene: Desk, handlers: JobHandlers): Promise<readonly Job[]> {
  const { store, configuration, clock, random, log, queue } = scene;
  await scene.pass({ reason: 'tick' });
  const after: Job[] = [];
  for (const { fleet } of configuration.fleets)
    for (const { message, receipt } of toldJobs(await queue.receive(fleet, 10, 0, 60_000))) {
      const worker = { workerId: 'worker-1', incarnation: `${message.jobId}-${clock.nowMs()}` };
      await scene.finish(runJob({ store, configuration, clock, random, log, worker }, handlers, message));
      await queue.delete(fleet, [receipt]);
      const job = store.inspectJob(message.jobId);
      if (job !== undefined) after.push(job);
    }
  await scene.pass({ jobs: after, reason: 'stream' });
  return after;
}

describe('the guide to webhooks', async () => {
  const programs = await guide('webhooks');
  const { handler } = await programs.load<{ readonly handler: JobHandlers }>('webhooks.ts');
  const { send } = await programs.load<{ readonly send: (webhook: object) => Promise<string> }>('send.ts');
  const webhook = { customer: 'c-1', url: 'https://c-1.example', event: { id: 'e-1', kind: 'paid' } };
  const answering = (status: number, after?: string) =>
    vi.fn(async (_: string, __: RequestInit) => {
      const headers = after === undefined ? {} : { 'retry-after': after };
      return new Response('', { status, headers });
    });

  it.each<readonly [number, string | undefined, Partial<Job>, number | undefined]>([
    [202, undefined, { state: 'succeeded', result: { status: 202 } }, undefined],
    [429, '7', { state: 'scheduled', attempt: 1 }, 7_000],
    [503, undefined, { state: 'scheduled', attempt: 1 }, 60_000],
    [429, 'Thu, 01 Jan 2026 00:02:00 GMT', { state: 'scheduled', attempt: 1 }, 120_000],
    [429, '99999999999', { state: 'scheduled', attempt: 1 }, 86_400_000],
    [429, 'soon', { state: 'scheduled', attempt: 1 }, 60_000],
    [
      404,
      undefined,
      { state: 'failed', attempt: 1, error: expect.objectContaining({ name: 'PermanentError' }) },
      undefined,
    ],
    [500, undefined, { state: 'scheduled', attempt: 2 }, undefined],
  ])('takes the answer %i with retry-after %s', async (status, after, expected, waitMs) => {
    const { scene } = await deployed(programs);
    const fetch = answering(status, after);
    vi.stubGlobal('fetch', fetch);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-01-01T00:00:00Z') });
    const id = await send(webhook);
    const [job] = await attempts(scene, handler);
    expect(job).toMatchObject({ id, fairnessKey: 'c-1', ...expected });
    if (waitMs !== undefined) expect((job?.runAtMs ?? 0) - scene.clock.nowMs()).toBe(waitMs);
    expect(fetch.mock.calls).toEqual([
      [webhook.url, expect.objectContaining({ headers: expect.objectContaining({ 'idempotency-key': id }) })],
    ]);
  });

  it('sends the same key at each attempt, makes one job of a repeated event, and gives up in the end', async () => {
    const { scene } = await deployed(programs);
    const fetch = answering(500);
    vi.stubGlobal('fetch', fetch);
    const id = await send(webhook);
    expect(await send(webhook)).toBe(id);
    let job: Job | undefined;
    for (let attempt = 1; attempt <= 15; attempt += 1) {
      [job] = await attempts(scene, handler);
      await scene.advance(6 * 3_600_000);
    }
    expect(job).toMatchObject({ state: 'failed', attempt: 15, error: { name: 'Error' } });
    const keys = fetch.mock.calls.map(([, { headers }]) => new Headers(headers).get('idempotency-key'));
    expect(keys).toEqual(Array(15).fill(id));
  });

  it('calls five endpoints of one customer at once, and those of another one beside them', async () => {
    const { scene } = await deployed(programs);
    for (let n = 0; n < 8; n += 1) await send({ ...webhook, event: { id: `e-${n}`, kind: 'paid' } });
    for (let n = 0; n < 2; n += 1)
      await send({ ...webhook, customer: 'c-2', event: { id: `f-${n}`, kind: 'paid' } });
    await scene.pass();
    const started = await scene.startEverywhere();
    const of = (key: string): number => started.filter(({ job }) => job.fairnessKey === key).length;
    expect([of('c-1'), of('c-2')]).toEqual([5, 2]);
  });

  it('burns no attempt of twelve customers whose endpoints answer 429 now and then', async () => {
    const { scheduler } = await stackOf(programs);
    const { jobs } = await programs.load<{ readonly jobs: Jobs }>('jobs.ts');
    const handlers = Object.fromEntries(Object.keys(jobs).map((type) => [type, handler[type] as JobHandler]));
    const customers = Array.from({ length: 12 }, (_, at) => `c-${at}`);
    const t = await testScheduler(jobs, declarationOf(scheduler.configuration), { handlers });
    const calls: { readonly customer: string; readonly atMs: number; readonly status: number }[] = [];
    vi.stubGlobal('fetch', async (url: string) => {
      const customer = new URL(url).host;
      const atMs = t.now.getTime();
      // Every third endpoint is busy for the first five minutes.
      const isBusy = customers.indexOf(customer) % 3 === 0 && atMs < Date.UTC(2026, 0, 1, 0, 5);
      const status = isBusy ? 429 : 200;
      calls.push({ customer, atMs, status });
      return new Response('', { status, headers: isBusy ? { 'retry-after': '120' } : {} });
    });
    const sent = await Promise.all(
      customers.flatMap((customer) =>
        Array.from({ length: 20 }, (_, at) =>
          t.submit('webhook', {
            customer,
            url: `https://${customer}/hook`,
            event: { id: `${customer}-${at}`, kind: 'paid' },
          }),
        ),
      ),
    );
    await t.runUntilIdle();
    const ended = sent.map((each) => t.job(each));
    expect(new Set(ended.map(({ state, attempt }) => `${state} ${attempt}`))).toEqual(
      new Set(['succeeded 1']),
    );
    for (const customer of customers) {
      const own = calls.filter((call) => call.customer === customer);
      const busy = own.filter(({ status }) => status === 429);
      // Three times at most, five calls were under way.
      if (customers.indexOf(customer) % 3 === 0) {
        expect(busy.length).toBeGreaterThanOrEqual(3);
        expect(busy.length).toBeLessThanOrEqual(15);
      }
      // The others did not wait.
      else expect(Math.max(...own.map(({ atMs }) => atMs))).toBeLessThan(Date.UTC(2026, 0, 1, 0, 2));
    }
    await t.dispose();
  });
});

describe('the guide to a nightly report', async () => {
  const programs = await guide('nightly-report');
  const { handler } = await programs.load<{ readonly handler: JobHandlers }>('reports.ts');
  const read = await programs.load<{
    readonly lastReport: () => Promise<string | undefined>;
    readonly reportNow: () => Promise<string>;
  }>('read.ts');

  async function scheduled() {
    const { template, scene } = await deployed(programs);
    const [declared] = Object.values(template.findResources('Custom::FairleadDeclaration'));
    const specs = unpackDeclaredSchedules(declared?.Properties.schedules, scene.configuration);
    await declareSchedules({ ...scene, nowMs: scene.clock.nowMs }, scene.configuration, specs);
    const until = (instant: string): Promise<unknown> =>
      scene.advance(Date.parse(instant) - scene.clock.nowMs());
    const countBefore = vi.fn(async (_: string) => 7);
    const put = vi.fn(async (name: string, _: string) => ({ url: `https://files.example/${name}` }));
    vi.stubGlobal('orders', { countBefore });
    vi.stubGlobal('files', { put });
    return { scene, until, countBefore, put };
  }

  it('makes one at half past two in Berlin, repeats only the step that failed, and reads it', async () => {
    const { scene, until, countBefore, put } = await scheduled();
    put.mockRejectedValueOnce(new Error('no storage'));
    await until('2027-01-16T01:29:59Z');
    expect(await attempts(scene, handler)).toEqual([]);
    expect(await scene.finish(read.lastReport())).toBeUndefined();
    await until('2027-01-16T01:30:00Z');
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'scheduled', attempt: 2 }]);
    const reading = read.lastReport();
    await scene.advance(60_000);
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'succeeded' }]);
    expect(await scene.finish(reading)).toBe('https://files.example/orders-2027-01-16.txt');
    expect(countBefore.mock.calls).toEqual([['2027-01-16']]);
    expect(put).toHaveBeenCalledTimes(2);
  });

  it('makes one report after an outage of three nights, and one in the night without half past two', async () => {
    const { scene, until, countBefore } = await scheduled();
    await until('2027-01-18T09:00:00Z');
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'succeeded' }]);
    expect(await attempts(scene, handler)).toEqual([]);
    expect(countBefore.mock.calls).toEqual([['2027-01-18']]);
    await until('2027-03-28T00:59:59Z');
    await attempts(scene, handler);
    await until('2027-03-28T01:00:00Z');
    expect(await attempts(scene, handler)).toMatchObject([{ payload: { at: '2027-03-28T03:00:00+02:00' } }]);
  });

  it('makes one at once', async () => {
    const { scene } = await scheduled();
    const reading = read.reportNow();
    await scene.advance(0);
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'succeeded' }]);
    expect(await scene.finish(reading)).toBe('https://files.example/orders-2027-01-15.txt');
  });
});

describe('the guide to long jobs', async () => {
  const programs = await guide('long-jobs');
  const text = await readFile(join(project, 'docs/guides/long-jobs.md'), 'utf8');
  const [, dockerfile = ''] = /^```dockerfile\n([\s\S]*?)^```$/m.exec(text) ?? [];
  await writeFile(join(programs.folder, 'Dockerfile'), dockerfile);

  it('has a Dockerfile that bundles the worker as esbuild does, without fairlead', async () => {
    const [, entry = '', flags = ''] = /npx esbuild (lib\/\S+) (.*)/.exec(dockerfile) ?? [];
    expect(programs.names).toContain(entry.replace('lib/', ''));
    expect(flags).toBe('--bundle --packages=external --platform=node --format=esm --outfile=exports.mjs');
    expect(dockerfile).toContain('COPY --from=build /app/exports.mjs ./');
    expect(dockerfile).toContain('CMD ["node", "exports.mjs"]');
    const source = /^```ts\n\/\/ lib\/exports.ts\n([\s\S]*?)^```$/m.exec(text)?.[1] ?? '';
    const { outputFiles } = await build({
      stdin: { contents: source, resolveDir: join(programs.folder, 'lib'), loader: 'ts' },
      bundle: true,
      packages: 'external',
      platform: 'node',
      format: 'esm',
      write: false,
    });
    expect(outputFiles[0]?.text).toContain('from "fairlead/fleet-worker"');
  });

  it('has a stack whose containers find the fleet, and have an init process', async () => {
    const { template } = await stackOf(programs);
    template.hasResourceProperties('AWS::ECS::TaskDefinition', {
      ContainerDefinitions: [
        Match.objectLike({
          StopTimeout: 120,
          LinuxParameters: Match.objectLike({ InitProcessEnabled: true }),
          Environment: Match.arrayWith([{ Name: 'FAIRLEAD_FLEET', Value: 'exports' }]),
        }),
      ],
    });
  });

  it('continues after SIGTERM from its last checkpoint, and begins its upload once', async () => {
    const { scene } = await deployed(programs);
    const pages = [['a', 'b'], ['c'], ['d', 'e', 'f'], []];
    const asked: number[] = [];
    const begin = vi.fn(async (name: string) => name);
    const putPart = vi.fn(async () => {});
    const complete = vi.fn(async () => {});
    vi.stubGlobal('files', { begin, putPart, complete });
    // The second page takes so long that the container is stopped meanwhile.
    vi.stubGlobal('orders', {
      page: async (_: string, page: number, { signal }: { signal: AbortSignal }) => {
        asked.push(page);
        if (page === 1 && asked.length === 2) await scene.clock.sleep(120_000, signal);
        signal.throwIfAborted();
        return pages[page] ?? [];
      },
    });
    const begun = Promise.withResolvers<{
      handlers: JobHandlers;
      options: { slots: number; shutdownMs: number };
      ended: Promise<unknown>;
    }>();
    const stop = new AbortController();
    const worker = (handlers: JobHandlers, options: object, signal: AbortSignal) => {
      const { store, queue, configuration, clock, random, log } = scene;
      const exit = (reason: string): never => {
        throw new Error(reason);
      };
      const own = {
        fleet: 'exports',
        slots: 1,
        workerId: crypto.randomUUID(),
        handlers,
        signal,
        exit,
        ...options,
      };
      return runWorker({ store, queue, configuration, clock, random, log, ...own });
    };
    vi.stubGlobal('runOnStage', (read: Awaited<typeof begun.promise>) => {
      const ended = worker(read.handlers, read.options, stop.signal);
      begun.resolve({ ...read, ended });
      return ended;
    });
    await programs.load('exports.ts');
    const { handlers, options, ended } = await begun.promise;
    expect(options).toEqual({ slots: 4, shutdownMs: 60_000 });
    await scene.advance(1_000);
    const { id } = await scene.client.submit('export', { customer: 'c-1' });
    await scene.pass();
    await scene.advance(10_000);
    expect(scene.store.inspectJob(id)).toMatchObject({ state: 'running' });
    stop.abort();
    await scene.advance(130_000);
    await ended;
    await scene.pass({ reason: 'tick' });
    const end = new AbortController();
    const second = worker(handlers, options, end.signal);
    await scene.advance(5_000);
    await scene.pass({ reason: 'tick' });
    await scene.advance(30_000);
    expect(scene.store.inspectJob(id)).toMatchObject({ state: 'succeeded', result: { rows: 6 } });
    end.abort();
    await scene.finish(second);
    expect(asked).toEqual([0, 1, 1, 2, 3]);
    expect([begin.mock.calls.length, complete.mock.calls.length]).toEqual([1, 1]);
  });
});

describe('the guide to an API in front', async () => {
  const programs = await guide('api-in-front');
  type Route = (event: APIGatewayProxyEventV2) => Promise<APIGatewayProxyStructuredResultV2>;
  const api = await programs.load<Readonly<Record<'submit' | 'submitAndWait' | 'get', Route>>>('api.ts');
  const post = (body: object | string, key?: string): APIGatewayProxyEventV2 =>
    ({
      headers: { 'x-user': 'u-1', ...(key === undefined ? {} : { 'idempotency-key': key }) },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    }) as unknown as APIGatewayProxyEventV2;
  const idOf = (id: string) => ({ pathParameters: { id } }) as unknown as APIGatewayProxyEventV2;
  const bodyOf = ({ body }: APIGatewayProxyStructuredResultV2): { id: string } => JSON.parse(body ?? '');
  const report: JobHandlers = { report: () => ({ url: 'https://files.example/3' }) };

  /** A fleet that the stage's attempts serve, in place of the processes that the guide leaves out. */
  async function served(): Promise<Desk> {
    const { template, scheduler } = await stackOf(programs);
    template.resourceCountIs('AWS::ApiGatewayV2::Route', 3);
    const pool = declarationOf(scheduler.configuration);
    const scene = desk({ pool: { ...pool, fleets: { reports: { types: ['report'], slots: 2 } } } });
    vi.stubGlobal('clientOnStage', (jobs: Jobs) => scene.anotherClient({ jobs }));
    return scene;
  }

  it('answers 202 and the id, the same for the same key, and 200 and the result to the caller who waits', async () => {
    const scene = await served();
    const first = await scene.finish(api.submit(post({ month: 3 }, 'k')));
    const { id } = bodyOf(first);
    expect(first).toMatchObject({ statusCode: 202, headers: { location: `/reports/${id}` } });
    expect(bodyOf(await scene.finish(api.submit(post({ month: 3 }, 'k'))))).toEqual({ id });
    expect(await scene.finish(api.submit(post({ month: 4 }, 'k')))).toMatchObject({ statusCode: 409 });
    const before = scene.clock.nowMs();
    expect(await scene.finish(api.get(idOf(id)))).toMatchObject({
      statusCode: 202,
      body: JSON.stringify({ id, status: 'pending' }),
    });
    expect(scene.clock.nowMs() - before).toBe(20_000);
    const waiting = api.get(idOf(id));
    await scene.advance(1_000);
    expect(await attempts(scene, report)).toHaveLength(1);
    expect(await scene.finish(waiting)).toMatchObject({
      statusCode: 200,
      body: JSON.stringify({ url: 'https://files.example/3' }),
    });
  });

  it('answers at once where the job is quick, and 202 where it is not', async () => {
    const scene = await served();
    const waiting = api.submitAndWait(post({ month: 3 }));
    await scene.advance(100);
    expect(await attempts(scene, report)).toMatchObject([{ mode: 'onDemand', fairnessKey: 'u-1' }]);
    expect(await scene.finish(waiting)).toMatchObject({ statusCode: 200 });
    expect(await scene.finish(api.submitAndWait(post({ month: 4 })))).toMatchObject({ statusCode: 202 });
  });

  it('answers 400 to a wrong body, 404 to a wrong id, and 200 and the state of a job that failed', async () => {
    const scene = await served();
    for (const [body, field] of [
      [{ month: 13 }, 'payload.month'],
      ['no json', undefined],
    ] as const) {
      const answer = await scene.finish(api.submit(post(body)));
      expect([answer.statusCode, JSON.parse(answer.body ?? '').field]).toEqual([400, field]);
    }
    expect(await scene.finish(api.get(idOf('f'.repeat(32))))).toMatchObject({ statusCode: 404 });
    const { id } = bodyOf(await scene.finish(api.submit(post({ month: 3 }))));
    const error = Object.assign(new Error('no'), { name: 'PermanentError' });
    await attempts(scene, { report: () => Promise.reject(error) });
    expect(bodyOf(await scene.finish(api.get(idOf(id))))).toEqual({ id, status: 'failed' });
  });
});

describe('the guide to outcomes', async () => {
  const programs = await guide('outcomes');
  const { handler } = await programs.load<{ readonly handler: (event: unknown) => Promise<void> }>('tell.ts');

  it('has a rule that sends the ends of reports to a function, which tells of them', async () => {
    const { template, scheduler } = await stackOf(programs);
    const pattern = {
      source: ['fairlead'],
      'detail-type': ['Job Succeeded', 'Job Failed'],
      detail: { type: ['report'] },
    };
    template.hasResourceProperties('AWS::Events::Rule', { EventPattern: pattern });
    const ofArchive = { ...pattern, 'detail-type': ['Job Succeeded'] };
    template.hasResourceProperties('AWS::Events::Rule', {
      EventPattern: ofArchive,
      Description: 'Events that become jobs of type archive',
    });
    const scene = desk({
      pool: {
        ...declarationOf(scheduler.configuration),
        fleets: { reports: { types: ['report'], slots: 2 } },
      },
    });
    const { jobs } = await programs.load<{ readonly jobs: Jobs }>('jobs.ts');
    const client = scene.anotherClient({ jobs });
    await client.submit('report', { customer: 'c-1', month: 1 });
    const failed = await client.submit('report', { customer: 'c-2', month: 2 });
    const ended = await attempts(scene, {
      report: (payload) => {
        if ((payload as { month: number }).month === 1) return { url: 'https://files.example/1' };
        throw Object.assign(new Error('no orders'), { name: 'PermanentError' });
      },
    });
    const sent: PutEventsRequestEntry[] = [];
    const eventBridge = {
      send: async ({ input: { Entries = [] } }: PutEventsCommand) => {
        sent.push(...Entries);
        return { Entries: Entries.map(() => ({ EventId: 'e' })) };
      },
    };
    const events = new EventBridgeBus({ client: eventBridge as never, busName: 'bus' });
    expect(await publishOutcomes(events, ended)).toBe(2);
    const send = vi.fn(async () => {});
    vi.stubGlobal('mail', { send });
    for (const { Source, DetailType, Detail } of sent) {
      const event = { source: Source, 'detail-type': DetailType, detail: JSON.parse(Detail ?? '') };
      expect(pattern.source).toContain(event.source);
      expect(pattern['detail-type']).toContain(event['detail-type']);
      await handler(event);
    }
    const once = { idempotencyKey: expect.stringMatching(/\/\d+$/) };
    expect(send.mock.calls).toEqual(
      expect.arrayContaining([
        ['c-1', 'Your report is ready: https://files.example/1', once],
        ['on-call@example.com', `report ${failed.id} failed: PermanentError: no orders`, once],
      ]),
    );
  });
});

describe('the guide from SQS and Lambda', async () => {
  const programs = await guide('from-sqs-and-lambda');
  const { handler } = await programs.load<{ readonly handler: JobHandlers }>('worker.ts');
  const { handler: forward } = await programs.load<{ readonly handler: SQSHandler }>('forward.ts');
  const record = (messageId: string, body: Json, group?: string) => ({
    messageId,
    body: JSON.stringify(body),
    attributes: group === undefined ? {} : { MessageGroupId: group },
  });

  it('submits each message once, runs its handler unchanged, and never two of one group', async () => {
    const { scene } = await deployed(programs);
    const send = vi.fn(async () => {});
    vi.stubGlobal('invoices', { send });
    const Records = [
      record('m-1', { no: 1 }, 'a'),
      record('m-2', { no: 2 }, 'a'),
      record('m-3', { no: 3 }, 'b'),
    ];
    const forwarded = async (records: readonly object[]) =>
      scene.finish(Promise.resolve(forward({ Records: records } as never, {} as never, () => {})));
    expect(await forwarded(Records)).toEqual({ batchItemFailures: [] });
    expect(await forwarded(Records)).toEqual({ batchItemFailures: [] });
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'succeeded' }, { state: 'succeeded' }]);
    expect(await attempts(scene, handler)).toMatchObject([{ state: 'succeeded', resourceId: 'a' }]);
    expect(send.mock.calls.toSorted()).toEqual([[{ no: 1 }], [{ no: 3 }], [{ no: 2 }]].toSorted());
    const refused = record('m-1', { no: 9 });
    expect(await forwarded([refused])).toEqual({ batchItemFailures: [{ itemIdentifier: 'm-1' }] });
  });
});

describe('the guide from BullMQ', async () => {
  const programs = await guide('from-bullmq');
  const { handler } = await programs.load<{ readonly handler: JobHandlers }>('mails.ts');
  const { welcome } = await programs.load<{ readonly welcome: (user: string) => Promise<string> }>('add.ts');

  it('adds one job with a delay, and fails for good where a retry would not help', async () => {
    const { scene } = await deployed(programs);
    vi.stubGlobal('mail', { send: async (user: string) => (user === 'u-1' ? 'm-1' : undefined) });
    const ids = [await welcome('u-1'), await welcome('u-1'), await welcome('u-2')];
    expect(new Set(ids).size).toBe(2);
    expect(await attempts(scene, handler)).toEqual([]);
    await scene.advance(60_000);
    const after = new Map((await attempts(scene, handler)).map((job) => [job.id, job]));
    expect(after.get(ids[0] ?? '')).toMatchObject({ state: 'succeeded', result: { messageId: 'm-1' } });
    expect(after.get(ids[2] ?? '')).toMatchObject({ state: 'failed', attempt: 1 });
  });
});

describe('the guide of tests', () => {
  it('finds that a charge is made twice, unless it has a key', async () => {
    const { load } = await guide('test-your-jobs');
    const { chargesAfterCrash } = await load<{
      chargesAfterCrash: (charge: (key: string) => Promise<void>) => Promise<void>;
    }>('charge-twice.ts');
    const keys: string[] = [];
    await chargesAfterCrash(async (key) => void keys.push(key));
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
  });

  it('has a test with matchers that vitest runs', async () => {
    const { folder, names } = await guide('test-your-jobs');
    expect(names).toContain('charge.test.ts');
    const vitest = resolve(project, 'node_modules/vitest/vitest.mjs');
    const env = { PATH: process.env.PATH, HOME: process.env.HOME };
    const { stdout } = await promisify(execFile)(process.execPath, [vitest, 'run', '--root', folder], {
      env,
    });
    expect(stdout).toMatch(/1 passed/);
  });
});
