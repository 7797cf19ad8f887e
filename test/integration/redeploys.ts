/** A stack that is redeployed with other pools while its jobs wait, are claimed and run; for the tests of one file. */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { type PoolName, REDEPLOY_VARIABLE, redeployPool } from './redeploy-pools.ts';

export const TEST_MS = 240_000;
/** Without what is waited for so long, something is wrong. */
export const WAIT_MS = 100_000;
export const LOOK_EVERY_MS = 500;
/** When a handler ran, epoch ms. */
export interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Holds requests back until it is told: what a handler waits for. */
class Gate {
  readonly #waiting: ServerResponse[] = [];
  readonly #server = createServer((_, response) => this.#waiting.push(response));

  /** The address that a handler asks. */
  async open(): Promise<string> {
    await new Promise<void>((listening) => this.#server.listen(0, '127.0.0.1', listening));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }
  answer(): void {
    for (const response of this.#waiting.splice(0)) response.end('go on');
  }
  close(): void {
    this.answer();
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

export const intervalOf = ({ result }: Job): Interval => result as unknown as Interval;

export const hasSucceeded = ({ state }: Job): boolean => state === 'succeeded';

/** Looks until all of these jobs are so. */
export async function untilAll(
  client: SchedulerClient,
  ids: readonly string[],
  isSo: (job: Job) => boolean,
  waitMs: number,
): Promise<readonly Job[]> {
  const untilMs = Date.now() + waitMs;
  for (;;) {
    const jobs = await Promise.all(ids.map((id) => client.get(id)));
    if (jobs.every(isSo)) return jobs;
    if (Date.now() > untilMs)
      throw new Error(`waited for too long: ${jobs.map(({ id, state }) => `${id} ${state}`).join(', ')}`);
    await systemClock.sleep(LOOK_EVERY_MS);
  }
}

/** @param first - the pool that it is deployed with, before the first test of the file */
export function redeployedStack(first: PoolName) {
  let deployment: DeclaredDeployment;
  let declared = 0;
  let client: SchedulerClient;
  let store: DynamoJobStore;
  const dynamodb = new DynamoDBClient(clientConfiguration);
  const gate = new Gate();
  /** What a job asks that is to run until `gate.answer()`. */
  let held = '';

  const redeploy = async (pool: PoolName): Promise<void> => {
    process.env[REDEPLOY_VARIABLE] = pool;
    const { schedules: _, ...declares } = redeployPool(pool);
    const configuration = resolveConfiguration(declares);
    deployment = await deployDeclared('test/integration/redeploy-stack.ts', configuration, declared);
    declared += 1;
  };
  const output = (name: string): string => {
    const value = deployment.outputs[name];
    if (value === undefined) throw new Error(`the stack has no output ${name}`);
    return value;
  };
  const submitted = async (type: string, payload: number | string, resourceId?: string): Promise<string> =>
    (await client.submit({ type, payload, ...(resourceId === undefined ? {} : { resourceId }) })).jobId;
  const until = (ids: readonly string[], isSo: (job: Job) => boolean): Promise<readonly Job[]> =>
    untilAll(client, ids, isSo, WAIT_MS);

  beforeAll(async () => {
    held = await gate.open();
    await redeploy(first);
    client = SchedulerClient.fromEnvironment(clientConfiguration, {
      FAIRLEAD_TABLE: output('TableName'),
      FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl'),
    });
    store = new DynamoJobStore({ client: dynamodb, table: output('TableName'), place: suitePlace });
  }, TEST_MS);
  afterAll(async () => {
    gate.close();
    client?.destroy();
    dynamodb.destroy();
    // LocalStack cannot delete a stack whose fleets came and went: what it holds ends with it.
    if (deployment?.isDeclaredByHand === false) await deployment.destroy();
    delete process.env[REDEPLOY_VARIABLE];
  }, TEST_MS);

  return {
    redeploy,
    output,
    submitted,
    until,
    gate,
    /** What a job asks that is to run until `gate.answer()`. */
    held: (): string => held,
    client: (): SchedulerClient => client,
    store: (): DynamoJobStore => store,
    isDeclaredByHand: (): boolean => deployment.isDeclaredByHand,
  };
}
