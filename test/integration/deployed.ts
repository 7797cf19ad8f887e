/** Deploys a stack whose Scheduler declares, also where the emulator has no custom resources: LocalStack passes over them. */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { inject } from 'vitest';
import { queueUrlOutput } from '../../cdk/outputs.ts';
import { deploy } from '../../examples/deploy.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import type { DeployedApp } from '../../lib/testing/deploy.ts';
import { clientConfiguration, endpoint } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { declareIn } from '../fixtures/declared.ts';

export interface DeclaredDeployment extends DeployedApp {
  /** The emulator has passed over the stack's own resource. */
  readonly isDeclaredByHand: boolean;
}

const LOOK_EVERY_MS = 100;
const BOOTSTRAP_MS = 120_000;

/** Bootstraps once in a run: two at once are in each other's way, and each takes seconds of processor time. */
async function bootstrapOnce(bootstrapNow: () => Promise<void>): Promise<void> {
  const [begun, over] = ['bootstrap', 'bootstrapped'].map((name) => join(inject('runDir'), name));
  if (begun === undefined || over === undefined) throw new Error('no names');
  const isFirst = await mkdir(begun).then(
    () => true,
    () => false,
  );
  if (isFirst) {
    // The others go on also when it has failed, and say of what.
    await bootstrapNow().finally(() => writeFile(over, ''));
    return;
  }
  const untilMs = performance.now() + BOOTSTRAP_MS;
  const isOver = async (): Promise<boolean> => (await stat(over).catch(() => undefined)) !== undefined;
  while (!(await isOver())) {
    if (performance.now() > untilMs)
      throw new Error('another test file began to bootstrap the endpoint, and did not end');
    await new Promise((resume) => setTimeout(resume, LOOK_EVERY_MS));
  }
}

/**
 * @param stack - a module that exports `addStack`
 * @param configuration - what the stack declares
 * @param declaredBefore - versions that earlier deployments have declared
 * @throws EnvironmentError
 */
export async function deployDeclared(
  stack: string,
  configuration: PoolConfiguration,
  declaredBefore = 0,
): Promise<DeclaredDeployment> {
  const deployment = await deploy({ endpoint, stack, bootstrap: bootstrapOnce });
  const { TableName: table = '', WakeQueueUrl: wakeQueueUrl = '' } = deployment.outputs;
  const client = new DynamoDBClient(clientConfiguration);
  const sqs = new SQSClient(clientConfiguration);
  try {
    const store = new DynamoJobStore({ client, table, place: suitePlace });
    if ((await store.readDeclaredVersion()) > declaredBefore)
      return { ...deployment, isDeclaredByHand: false };
    const queueUrls = Object.fromEntries(
      configuration.fleets.map(({ fleet }) => [fleet, deployment.outputs[queueUrlOutput(fleet)] ?? '']),
    );
    const queue = new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl });
    await declareIn(store, configuration, { queueUrls, queue, bucket: deployment.outputs.BucketName });
    return { ...deployment, isDeclaredByHand: true };
  } finally {
    client.destroy();
    sqs.destroy();
  }
}
