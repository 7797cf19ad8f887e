/** A stack that is full of jobs is changed in ten ways, one after the other: nothing is lost, and nothing that holds data is replaced. */
import { CloudFormationClient, ListStackResourcesCommand } from '@aws-sdk/client-cloudformation';
import { GetQueueUrlCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { CHANGES, STEP_VARIABLE, stateAfter } from './redeploy-steps.ts';

const DEPLOY_MS = 300_000;
const WAIT_MS = 120_000;
const STACK = 'fairlead-steps';
const KEYS = ['ann', 'bob', 'cleo'];
/** What holds data, and would be empty if it were another one. */
const HOLDING = new Set([
  'AWS::DynamoDB::GlobalTable',
  'AWS::SQS::Queue',
  'AWS::Events::EventBus',
  'AWS::Logs::LogGroup',
]);

const cloudFormation = new CloudFormationClient(clientConfiguration);
const sqs = new SQSClient(clientConfiguration);
let deployment: DeclaredDeployment;
let declared = 0;
let lastDeclared = '';
let client: SchedulerClient;
/** Every job that was ever accepted. */
const accepted: string[] = [];

async function deployAfter(changes: number): Promise<void> {
  process.env[STEP_VARIABLE] = String(changes);
  const { types, tiers, fleets, partitions, fairness } = stateAfter(changes);
  const given = { types, tiers, fleets, partitions, ...(fairness === undefined ? {} : { fairness }) };
  const pool = resolveConfiguration(given);
  const text = JSON.stringify(given);
  // Changes of functions and options alone declare nothing new.
  const before = text === lastDeclared ? 0 : declared;
  lastDeclared = text;
  deployment = await deployDeclared('test/integration/redeploy-steps-stack.ts', pool, before);
  declared = (await client?.declaration())?.version ?? 1;
}

const output = (name: string): string =>
  deployment.outputs[name] ?? expect.fail(`the stack has no output ${name}`);

/** Physical ids of what holds data, by logical ids. */
async function holding(): Promise<ReadonlyMap<string, string>> {
  const ids = new Map<string, string>();
  let NextToken: string | undefined;
  do {
    const page = await cloudFormation.send(
      new ListStackResourcesCommand({ StackName: STACK, ...(NextToken === undefined ? {} : { NextToken }) }),
    );
    for (const {
      LogicalResourceId = '',
      PhysicalResourceId = '',
      ResourceType = '',
    } of page.StackResourceSummaries ?? [])
      if (HOLDING.has(ResourceType)) ids.set(LogicalResourceId, PhysicalResourceId);
    NextToken = page.NextToken;
  } while (NextToken !== undefined);
  return ids;
}

/** Some that run while the next deployment is under way, and more behind them than there are slots for. */
async function fill(type: string): Promise<void> {
  const requests = KEYS.flatMap((fairnessKey) => [
    { type, payload: 8_000, fairnessKey },
    { type, payload: 500, fairnessKey },
    { type, payload: 500, fairnessKey, resourceId: 'cover' },
  ]);
  for (const entry of await client.submitMany(requests)) {
    if (entry.kind !== 'accepted') throw entry.error;
    accepted.push(entry.jobId);
  }
}

const jobs = async (): Promise<readonly Job[]> => {
  const all: Job[] = [];
  for (const id of accepted) all.push(await client.get(id));
  return all;
};

beforeAll(async () => {
  await deployAfter(0);
  client = SchedulerClient.fromEnvironment(clientConfiguration, {
    FAIRLEAD_TABLE: output('TableName'),
    FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl'),
  });
}, DEPLOY_MS);
afterAll(async () => {
  client?.destroy();
  await deployment?.destroy();
  cloudFormation.destroy();
  sqs.destroy();
  delete process.env[STEP_VARIABLE];
}, DEPLOY_MS);

it(`survives ${CHANGES.length} changes with everything that it holds`, {
  timeout: CHANGES.length * DEPLOY_MS,
}, async () => {
  const future = await client.submit({
    type: 'print',
    payload: 100,
    fairnessKey: 'dan',
    runAt: new Date(Date.now() + 24 * 3_600_000).toISOString(),
  });
  // Nobody serves its fleet: it waits through all of this.
  const waiting = await client.submit({ type: 'pack', payload: 100, fairnessKey: 'eve' });
  await fill('print');
  const first = await holding();
  const firstTable = output('TableName');
  let before = first;
  for (const [at, [what]] of CHANGES.entries()) {
    await deployAfter(at + 1);
    const after = await holding();
    const replaced = [...before].filter(([id, physical]) => after.has(id) && after.get(id) !== physical);
    expect(replaced, `replaced by a change of ${what}`).toEqual([]);
    // Of a fleet that is gone, or has another name, the queues are left behind, with what is in them.
    const gone = [...before.keys()].filter((id) => !after.has(id) && !/^(JobsFleets|Work)/.test(id));
    expect(gone, `gone with a change of ${what}`).toEqual([]);
    for (const [id, url] of before)
      if (!after.has(id) && url.includes('/') && id.startsWith('JobsFleets'))
        await sqs.send(new GetQueueUrlCommand({ QueueName: url.split('/').at(-1) ?? '' }));
    expect(output('TableName')).toBe(firstTable);
    before = after;
    await fill(at >= 3 && at % 2 === 1 ? 'ship' : 'print');
  }

  await client.retime(future.jobId, { runAt: new Date().toISOString() });
  accepted.push(future.jobId);
  await expect
    .poll(
      async () =>
        (await jobs()).filter(({ state }) => state !== 'succeeded').map(({ id, state }) => `${id} ${state}`),
      {
        timeout: 2 * WAIT_MS,
        interval: 2_000,
      },
    )
    .toEqual([]);
  const all = await jobs();
  expect(all).toHaveLength(1 + 3 * KEYS.length * (CHANGES.length + 1));
  expect(all.filter(({ attempt }) => attempt !== 1)).toEqual([]);
  expect((await client.get(waiting.jobId)).state).toBe('pending');
  // Never two of one resource together, whatever its conflict group was called.
  const ofCover = all
    .filter(({ type, resourceId }) => type === 'print' && resourceId === 'cover')
    .map(({ result }) => result as unknown as { readonly fromMs: number; readonly toMs: number })
    .toSorted((one, other) => one.fromMs - other.fromMs);
  for (const [at, { fromMs }] of ofCover.entries())
    expect(fromMs).toBeGreaterThanOrEqual(ofCover[at - 1]?.toMs ?? 0);
  const done = { isDone: true, isHandingOver: false };
  await expect
    .poll(() => client.declaration(), { timeout: WAIT_MS, interval: 2_000 })
    .toMatchObject({ partitions: [done, done] });
});
