/** A deployed scheduler as its operator meets it: alarms and a dashboard, the command line, other stacks, and a bus that fails. */
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { CloudFormationClient, ListStackResourcesCommand } from '@aws-sdk/client-cloudformation';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { JobOutcomeDetail } from '../../lib/events/contract.ts';
import { runCommand } from '../../lib/testing/command.ts';
import { emulatorEnvironment } from '../../lib/testing/environment.ts';
import { clientConfiguration, endpoint } from '../contract/aws.ts';
import { type Cut, cutTo } from './cut.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { BUS_ENDPOINT_VARIABLE, DASHBOARD, STACK, WATCHED_POOL } from './watched-names.ts';

const DEPLOY_MS = 300_000;
const TEST_MS = 180_000;
const JOBS = 20;
const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
const MAIN = fileURLToPath(new URL('../../lib/cli/main.ts', import.meta.url));

const sqs = new SQSClient(clientConfiguration);
const cloudFormation = new CloudFormationClient(clientConfiguration);
let cut: Cut;
let deployment: DeclaredDeployment;
let client: SchedulerClient;

const output = (name: string): string => {
  const value = deployment.outputs[name];
  if (value === undefined) throw new Error(`the stack has no output ${name}`);
  return value;
};

/** What CloudWatch answers; by its JSON protocol. */
async function askCloudWatch(action: string, input: object = {}): Promise<Readonly<Record<string, unknown>>> {
  const credential = 'Credential=test/20270101/us-east-1/monitoring/aws4_request';
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': `GraniteServiceVersion20100801.${action}`,
      authorization: `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=host, Signature=none`,
    },
    body: JSON.stringify(input),
  });
  if (!response.ok) throw new Error(`${action}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Readonly<Record<string, unknown>>;
}

async function takeOutcomes(): Promise<readonly JobOutcomeDetail[]> {
  const QueueUrl = output('OutcomesQueueUrl');
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 2 }),
  );
  if (Messages.length > 0) {
    const Entries = Messages.map(({ ReceiptHandle }, at) => ({ Id: String(at), ReceiptHandle }));
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  }
  return Messages.map(({ Body = '' }) => (JSON.parse(Body) as { readonly detail: JobOutcomeDetail }).detail);
}

/** The command line, in an environment that says nothing but where AWS is. */
const fairlead = async (environment: Readonly<Record<string, string>>, ...words: readonly string[]) => {
  const { PATH = '' } = process.env;
  const env = { PATH, NO_COLOR: '1', ...emulatorEnvironment(endpoint), ...environment };
  const { code, output: said } = await runCommand(process.execPath, [MAIN, ...words], { env });
  return { code, said };
};

beforeAll(async () => {
  cut = await cutTo(endpoint);
  process.env[BUS_ENDPOINT_VARIABLE] = cut.url;
  const configuration = resolveConfiguration(WATCHED_POOL);
  deployment = await deployDeclared('test/integration/watched-stack.ts', configuration);
  client = SchedulerClient.fromEnvironment(clientConfiguration, {
    FAIRLEAD_TABLE: output('TableName'),
    FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl'),
  });
}, DEPLOY_MS);
afterAll(async () => {
  client?.destroy();
  await deployment?.destroy();
  delete process.env[BUS_ENDPOINT_VARIABLE];
  await cut?.close();
  sqs.destroy();
  cloudFormation.destroy();
}, DEPLOY_MS);

describe('a scheduler that is watched', () => {
  it('has its alarms, which look at its own table and functions', { timeout: TEST_MS }, async () => {
    const { StackResourceSummaries = [] } = await cloudFormation.send(
      new ListStackResourcesCommand({ StackName: STACK }),
    );
    const deployed = StackResourceSummaries.filter(
      ({ ResourceType }) => ResourceType === 'AWS::CloudWatch::Alarm',
    );
    expect(deployed.length).toBeGreaterThan(0);
    const { MetricAlarms = [] } = await askCloudWatch('DescribeAlarms', {
      AlarmNames: deployed.map(({ PhysicalResourceId }) => PhysicalResourceId),
    });
    const alarms = MetricAlarms as readonly {
      readonly MetricName: string;
      readonly Namespace: string;
      readonly Threshold: number;
      readonly TreatMissingData: string;
      readonly AlarmActions: readonly string[];
      readonly Dimensions: readonly { readonly Name: string; readonly Value: string }[];
    }[];
    const table = output('TableName');
    const byMetric = new Map(alarms.map((alarm) => [alarm.MetricName, alarm]));
    expect([...byMetric.keys()].toSorted()).toEqual([
      'ApproximateAgeOfOldestMessage',
      'IteratorAge',
      'OldestPendingAge',
      'OutcomesUnpublished',
    ]);
    expect(byMetric.get('OldestPendingAge')).toMatchObject({
      Namespace: 'Fairlead',
      Threshold: 900,
      TreatMissingData: 'notBreaching',
      Dimensions: [{ Name: 'Scheduler', Value: table }],
    });
    const dispatch = StackResourceSummaries.find(
      ({ LogicalResourceId: id, ResourceType }) =>
        ResourceType === 'AWS::Lambda::Function' && id?.startsWith('JobsDispatch'),
    );
    expect(byMetric.get('IteratorAge')?.Dimensions).toEqual([
      { Name: 'FunctionName', Value: dispatch?.PhysicalResourceId },
    ]);
    for (const { AlarmActions } of alarms)
      expect(AlarmActions).toEqual([expect.stringMatching(/^arn:aws:sns:/)]);
  });

  // LocalStack's CloudFormation makes no dashboards: it passes over the resource.
  const makesDashboards = process.env.FAIRLEAD_TEST_ENDPOINT === undefined;
  it.runIf(makesDashboards)(
    'has a dashboard, which draws its own metrics',
    { timeout: TEST_MS },
    async () => {
      const { DashboardBody } = await askCloudWatch('GetDashboard', { DashboardName: DASHBOARD });
      const { widgets } = JSON.parse(String(DashboardBody)) as {
        readonly widgets: readonly { readonly properties: { readonly metrics?: readonly unknown[] } }[];
      };
      expect(widgets.length).toBeGreaterThan(10);
      const drawn = JSON.stringify(widgets);
      expect(drawn).toContain(`"Fairlead","JobsSubmitted","Scheduler","${output('TableName')}"`);
      // Nothing is left that only a template knows.
      expect(drawn).not.toMatch(/\$\{|Fn::|"Ref"/);
    },
  );
});

describe('a scheduler that others look for', () => {
  it('is found by `fairlead env --stack`, and what that prints is all that other commands need', {
    timeout: TEST_MS,
  }, async () => {
    const { code, said } = await fairlead({}, 'env', '--stack', STACK);
    expect(code, said).toBe(0);
    const environment = parseEnv(said) as Readonly<Record<string, string>>;
    expect(environment).toEqual({
      FAIRLEAD_TABLE: output('TableName'),
      FAIRLEAD_BUS: output('BusName'),
      FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl'),
      FAIRLEAD_WAKE_FUNCTION: output('WakeFunctionArn'),
      AWS_REGION: 'us-east-1',
    });
    const ran = await fairlead(
      { ...environment, TRACEPARENT },
      ...['jobs', 'run', 'echo', '--payload', '"found"', '--timeout', '60s', '--json'],
    );
    expect(ran.code, ran.said).toBe(0);
    expect(JSON.parse(ran.said)).toMatchObject({
      job: { state: 'succeeded', result: 'found', traceparent: TRACEPARENT },
    });
  });

  it('is not found under another name, which is said', { timeout: TEST_MS }, async () => {
    const { code, said } = await fairlead({}, 'env', '--stack', 'nobody-has-deployed-this');
    expect(code).toBe(1);
    expect(said).toMatch(/the outputs of the stack "nobody-has-deployed-this" cannot be read/);
  });

  it('is found by another stack, through its parameter alone', () => {
    expect(output('FoundTable')).toBe(output('TableName'));
    expect(output('FoundBus')).toBe(output('BusName'));
    expect(output('FoundWakeQueueUrl').split('/').at(-1)).toBe(output('WakeQueueUrl').split('/').at(-1));
    expect(output('FoundWakeFunctionArn')).toBe(output('WakeFunctionArn'));
  });
});

describe('the dispatch function, by the alias that clients may invoke', () => {
  it('takes a wake, and believes nothing else', { timeout: TEST_MS }, async () => {
    const lambda = new LambdaClient(clientConfiguration);
    const invoke = async (event: object): Promise<string> => {
      const { FunctionError, LogResult = '' } = await lambda.send(
        new InvokeCommand({
          FunctionName: output('WakeFunctionArn'),
          LogType: 'Tail',
          Payload: JSON.stringify(event),
        }),
      );
      const log = Buffer.from(LogResult, 'base64').toString();
      expect(FunctionError, log).toBeUndefined();
      return log;
    };
    try {
      expect(await invoke({ partition: 0, jobIds: ['nobody-has-stored-this'] })).toMatch(
        /"dispatched".*"partition":0,"reason":"stored"/,
      );
      const image = { state: { S: 'succeeded' } };
      const record = { eventSource: 'aws:dynamodb', eventName: 'MODIFY', dynamodb: { NewImage: image } };
      const log = await invoke({ Records: [record] });
      expect(log).toContain('an event that came by the alias is not a wake');
      expect(log).not.toContain('"dispatched"');
    } finally {
      lambda.destroy();
    }
  });
});

describe('the dispatch function, asked by itself to lead', () => {
  it('keeps the partition until little goes on there', {
    timeout: TEST_MS,
  }, async () => {
    const lambda = new LambdaClient(clientConfiguration);
    const FunctionName = output('WakeFunctionArn').replace(/:[^:]+$/, '');
    try {
      const { FunctionError, LogResult = '' } = await lambda.send(
        new InvokeCommand({
          FunctionName,
          LogType: 'Tail',
          Payload: JSON.stringify({ asks: 'lead', partition: 0 }),
        }),
      );
      const log = Buffer.from(LogResult, 'base64').toString();
      expect(FunctionError, log).toBeUndefined();
      expect(log).toMatch(/"led while busy".*"partition":0,.*"end":"done"/);
    } finally {
      lambda.destroy();
    }
  });
});

describe('a bus that cannot be reached for a while', () => {
  it('loses no outcome: the dispatch function keeps them, and publishes them once it can', {
    timeout: TEST_MS,
  }, async () => {
    // What the commands above have run.
    while ((await takeOutcomes()).length > 0);
    cut.isCut = true;
    const before = cut.refused();
    const entries = await client.submitMany(
      Array.from({ length: JOBS }, (_, n) => ({ type: 'echo', payload: n, traceparent: TRACEPARENT })),
    );
    const ids = entries.map((entry) =>
      entry.kind === 'accepted' ? entry.jobId : expect.fail(entry.error.message),
    );
    const state = async (): Promise<ReadonlySet<string>> =>
      new Set(await Promise.all(ids.map(async (id) => (await client.get(id)).state)));
    const patience = { timeout: TEST_MS / 3, interval: 500 };
    await expect.poll(state, patience).toEqual(new Set(['succeeded']));
    // Tried by whoever the stream told of the ends, and in vain.
    await expect.poll(() => cut.refused(), patience).toBeGreaterThan(before);
    expect(await takeOutcomes()).toEqual([]);
    cut.isCut = false;
    const told = new Map<string, JobOutcomeDetail>();
    const untilMs = Date.now() + TEST_MS / 2;
    while (told.size < JOBS && Date.now() < untilMs)
      for (const detail of await takeOutcomes()) told.set(`${detail.id} ${detail.version}`, detail);
    const jobs = await Promise.all(ids.map((id) => client.get(id)));
    expect([...told.keys()].toSorted()).toEqual(jobs.map(({ id, version }) => `${id} ${version}`).toSorted());
    for (const detail of told.values())
      expect(detail).toMatchObject({ state: 'succeeded', traceparent: TRACEPARENT });
  });
});
