/** Every duration that users give is milliseconds, a text or a `Duration`: the three mean the same. */
import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { type IVpc, Vpc } from 'aws-cdk-lib/aws-ec2';
import {
  Cluster,
  ContainerImage,
  FargateService,
  FargateTaskDefinition,
  type ICluster,
} from 'aws-cdk-lib/aws-ecs';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type ScaleProps, Scheduler, type SchedulerProps, WorkerFunction } from '../cdk/index.ts';
import { requestAsJson, SHAPES } from '../lib/client/arguments.ts';
import { SchedulerClient } from '../lib/client/aws.ts';
import { optionsOf } from '../lib/client/calls.ts';
import { scheduleAsJson } from '../lib/client/schedules.ts';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import { defineJobs, job } from '../lib/jobs/jobs.ts';
import { parseSchedule } from '../lib/schedules/request.ts';
import { parseRequests } from '../lib/submit/request.ts';
import { testScheduler } from '../lib/testing/index.ts';
import { RetryAfterError } from '../lib/worker/errors.ts';
import { runFleetWorker } from '../lib/worker/fleet-worker.ts';
import { desk } from './client/desk.ts';

const project = resolve(import.meta.dirname, '..');

/** What a duration comes to, to be compared. */
type Give = (value: never) => unknown;

const stackWith = (use: (stack: Stack) => void): unknown => {
  const stack = new Stack(new App({ context: { 'aws:cdk:bundling-stacks': [] } }), 'Jobs');
  use(stack);
  return Template.fromStack(stack).toJSON();
};
const schedulerWith = (props: SchedulerProps, use: (scheduler: Scheduler) => void = () => {}): unknown =>
  stackWith((stack) => use(new Scheduler(stack, 'Scheduler', props)));
const handlerIn = (stack: Stack): LambdaFunction =>
  new LambdaFunction(stack, 'Own', {
    runtime: Runtime.NODEJS_22_X,
    handler: 'index.handler',
    code: Code.fromInline('exports.handler = async () => {};'),
    timeout: Duration.seconds(30),
  });

const scaledWith = (props: ScaleProps): unknown =>
  stackWith((stack) => {
    const taskDefinition = new FargateTaskDefinition(stack, 'Task');
    taskDefinition.addContainer('Worker', { image: ContainerImage.fromRegistry('worker') });
    const cluster = new Cluster(stack, 'Cluster', { vpc: new Vpc(stack, 'Vpc') as IVpc }) as ICluster;
    const service = new FargateService(stack, 'Service', { cluster, taskDefinition });
    const workers = service.autoScaleTaskCount({ maxCapacity: 2 });
    new Scheduler(stack, 'Scheduler', { fleets: { gpu: { types: ['a'] } } }).scale(workers, props);
  });

const RESIZE = resolveConfiguration({ types: { resize: {} } });

const scheduled = (field: string) => (value: unknown) => {
  const asked = { type: 'resize', every: '1h', [field]: value };
  return parseSchedule(scheduleAsJson('nightly', asked), 0, RESIZE);
};
/** It goes on until it looks for its fleet, if its options are right. */
const processWith = (option: string, more: object) => (value: unknown) =>
  runFleetWorker({ render: () => null }, { ...more, [option]: value }).catch(String);
const option = (shape: Parameters<typeof optionsOf>[0], name: string) => (value: unknown) =>
  optionsOf(shape, { [name]: value });

/** The job of a request that says so, and of one whose declaration derives it. */
const deduplicated = (field: string, more: object) => async (value: unknown) => {
  const dedupe = { key: 'a', ...more, [field]: value };
  const derived = defineJobs({ resize: job({ dedupe: () => dedupe }) });
  const asked = await desk().client.submit({ type: 'resize', dedupe });
  const declared = await desk().anotherClient({ jobs: derived }).submit('resize');
  return [asked, declared].map(({ job: { runAtMs, dedupe: kept } }) => ({ runAtMs, kept }));
};

const jobs = defineJobs({ work: job() });
const tested = async (use: (t: Awaited<ReturnType<typeof testScheduler<typeof jobs>>>) => unknown) => {
  const t = await testScheduler(jobs, {}, { handlers: { work: () => null } });
  await use(t);
  const { now } = t;
  await t.dispose();
  return now;
};

/** By the file and the name of a field. The fields of a declaration are in configuration-page.test.ts. */
const FIELDS: Readonly<Record<string, Give>> = {
  'lib/schedules/request.ts every': scheduled('every'),
  'lib/schedules/request.ts jitter': scheduled('jitter'),
  'lib/schedules/request.ts misfireGrace': scheduled('misfireGrace'),
  'lib/worker/fleet-worker.ts shutdownMs': processWith('shutdownMs', {}),
  'lib/worker/fleet-worker.ts heartbeatMs': processWith('heartbeatMs', { leaseMs: '5m' }),
  'lib/worker/fleet-worker.ts leaseMs': processWith('leaseMs', {}),
  'lib/worker/errors.ts otherwise': (otherwise) =>
    RetryAfterError.from({ headers: {} }, { otherwise }).retryAfterMs,
  'lib/worker/errors.ts atMost': (atMost) =>
    RetryAfterError.from({ headers: { 'retry-after': '9000' } }, { atMost }).retryAfterMs,
  'lib/client/aws.ts requestTimeoutMs': (requestTimeoutMs) =>
    new SchedulerClient({
      table: 't',
      wakeQueueUrl: 'http://127.0.0.1/q',
      region: 'us-east-1',
      requestTimeoutMs,
    }).destroy(),
  'lib/client/submissions.ts expireAfter': (expireAfter) =>
    parseRequests(requestAsJson({ type: 'resize', expireAfter }, 0, 65_536).json, RESIZE).accepted,
  'lib/core/dedupe.ts quiet': deduplicated('quiet', {}),
  'lib/core/dedupe.ts atMost': deduplicated('atMost', { quiet: '1s' }),
  'lib/client/submissions.ts timeout': option(SHAPES.runOptions as never, 'timeout'),
  'lib/client/client.ts for': option(SHAPES.pauseOptions as never, 'for'),
  'lib/client/client.ts timeout': option(SHAPES.drainOptions as never, 'timeout'),
  'lib/client/waits.ts timeout': option(SHAPES.waitOptions as never, 'timeout'),
  'lib/testing/scheduler.ts within': (within) => tested((t) => t.runUntilIdle({ within })),
  'lib/testing/scheduler.ts for': (lasts) => tested((t) => t.answerSlowly('1s', { for: lasts })),
  'cdk/alarms.ts oldestPending': (oldestPending) =>
    schedulerWith({}, (it) => void it.alarms({ oldestPending })),
  'cdk/alarms.ts lag': (lag) => schedulerWith({}, (it) => void it.alarms({ lag })),
  'cdk/dashboard.ts past': (past) => schedulerWith({}, (it) => void it.dashboard({ past })),
  'cdk/scaling.ts backlog': (backlog) => scaledWith({ backlog }),
  'cdk/scaling.ts idle': (idle) => scaledWith({ idle }),
  'cdk/props.ts ingestBatchingWindow': (ingestBatchingWindow) => schedulerWith({ ingestBatchingWindow }),
  'cdk/fleet.ts handlerTimeout': (handlerTimeout) =>
    stackWith((stack) => {
      const handler = LambdaFunction.fromFunctionArn(stack, 'Own', 'arn:aws:lambda:eu-west-1:1:function:own');
      const fleets = { pdf: { types: ['pdf'], slots: 1, handler, handlerTimeout } };
      new Scheduler(stack, 'Scheduler', { fleets });
    }),
  'cdk/fleet.ts visibilityTimeout': (visibilityTimeout) =>
    stackWith((stack) => {
      const fleets = { pdf: { types: ['pdf'], slots: 1, handler: handlerIn(stack), visibilityTimeout } };
      new Scheduler(stack, 'Scheduler', { fleets });
    }),
  'cdk/worker-function-props.ts timeout': (timeout) =>
    stackWith(
      (stack) => void new WorkerFunction(stack, 'Pdf', { entry: 'examples/files/images.ts', timeout }),
    ),
};

/** Two minutes, unless the field takes less or more. */
function durationsFor(field: string): readonly unknown[] {
  if (field.endsWith(' idle')) return [600_000, '10m', Duration.minutes(10)];
  if (/(?:heartbeatMs|leaseMs|ingestBatchingWindow|shutdownMs)$/.test(field))
    return [10_000, '10s', Duration.seconds(10)];
  return [120_000, '2m', Duration.minutes(2)];
}

/** Fields that no user sees: they are handed on from one that stands above. */
const INTERNAL = [
  'lib/client/remote-client.ts requestTimeoutMs',
  'cdk/ingest.ts batchingWindow',
  'cdk/handlers.ts handlerTimeout',
];

async function declaredFields(): Promise<readonly string[]> {
  const found: string[] = [];
  for (const folder of ['lib', 'cdk'])
    for (const name of await readdir(join(project, folder), { recursive: true })) {
      const file = join(folder, name);
      if (!file.endsWith('.ts') || file === 'lib/core/pool-input.ts') continue;
      const source = await readFile(join(project, file), 'utf8');
      for (const { 1: field } of source.matchAll(/readonly (\w+)\??: DurationInput\b/g))
        found.push(`${file} ${field}`);
    }
  return [...new Set(found)];
}

describe('a duration', () => {
  afterEach(() => void vi.unstubAllEnvs());

  it.each(Object.entries(FIELDS))('is milliseconds, a text or a Duration: %s', async (field, give) => {
    vi.stubEnv('FAIRLEAD_FLEET', '');
    const [ms, text, duration] = durationsFor(field) as readonly never[];
    const expected = await give(ms as never);
    expect(await give(text as never)).toEqual(expected);
    expect(await give(duration as never)).toEqual(expected);
    expect(String(expected)).not.toContain('ConfigurationError');
  });

  it('is one of these wherever users give one', async () => {
    expect([...Object.keys(FIELDS), ...INTERNAL].toSorted()).toEqual((await declaredFields()).toSorted());
  });
});
