/** Real redeploys while jobs wait, are claimed, and run: tier, conflict group, fleet and the number of partitions change under them. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { type PoolName, REDEPLOY_VARIABLE, redeployPool } from './redeploy-pools.ts';

const TEST_MS = 240_000;
/** Without what is waited for so long, something is wrong. */
const WAIT_MS = 100_000;
const LOOK_EVERY_MS = 500;
/** Longer than a deployment takes, mostly. */
const LONG_MS = 40_000;

/** Of the fleet that takes the type. */
const SLOTS = 4;

interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
}

const intervalOf = ({ result }: Job): Interval => result as unknown as Interval;

describe('a stack that is redeployed', () => {
  let deployment: DeclaredDeployment;
  let declared = 0;
  let client: SchedulerClient;
  let store: DynamoJobStore;
  const dynamodb = new DynamoDBClient(clientConfiguration);

  const redeploy = async (pool: PoolName): Promise<void> => {
    process.env[REDEPLOY_VARIABLE] = pool;
    const configuration = resolveConfiguration(redeployPool(pool));
    deployment = await deployDeclared('test/integration/redeploy-stack.ts', configuration, declared);
    declared += 1;
  };
  const output = (name: string): string => {
    const value = deployment.outputs[name];
    if (value === undefined) throw new Error(`the stack has no output ${name}`);
    return value;
  };
  const submitted = async (type: string, payload: number, resourceId?: string): Promise<string> =>
    (await client.submit({ type, payload, ...(resourceId === undefined ? {} : { resourceId }) })).jobId;
  /** Looks until all of these are so. */
  const until = async (ids: readonly string[], isSo: (job: Job) => boolean): Promise<readonly Job[]> => {
    const untilMs = Date.now() + WAIT_MS;
    for (;;) {
      const jobs = await Promise.all(ids.map((id) => client.get(id)));
      if (jobs.every(isSo)) return jobs;
      if (Date.now() > untilMs)
        throw new Error(`waited for too long: ${jobs.map(({ id, state }) => `${id} ${state}`).join(', ')}`);
      await systemClock.sleep(LOOK_EVERY_MS);
    }
  };
  const hasSucceeded = ({ state }: Job): boolean => state === 'succeeded';

  beforeAll(async () => {
    await redeploy('FIRST');
    client = SchedulerClient.fromEnvironment(clientConfiguration, {
      FAIRLEAD_TABLE: output('TableName'),
      FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl'),
    });
    store = new DynamoJobStore({ client: dynamodb, table: output('TableName'), place: suitePlace });
  }, TEST_MS);
  afterAll(async () => {
    client?.destroy();
    dynamodb.destroy();
    // LocalStack cannot delete a stack whose fleets came and went: what it holds ends with it.
    if (deployment?.isDeclaredByHand === false) await deployment.destroy();
    delete process.env[REDEPLOY_VARIABLE];
  }, TEST_MS);

  it(
    'moves what waits to another tier and conflict group, and overlaps nothing with what runs',
    async () => {
      const running = await submitted('print', LONG_MS, 'cover');
      await until([running], ({ state }) => state === 'running');
      const waiting = await Promise.all(Array.from({ length: 14 }, () => submitted('print', 50, 'cover')));
      // A wake each, so that passes meet them, and park them.
      for (let round = 0; round < 3; round += 1) await client.explain(waiting[0] ?? '');
      await redeploy('SECOND');
      const behind = await submitted('print', 50, 'cover');
      // This producer began before the type was declared.
      const shipped = await submitted('ship', 0);
      const jobs = await until([running, ...waiting, behind, shipped], hasSucceeded);
      const ofCover = jobs
        .filter(({ type }) => type === 'print')
        .map(intervalOf)
        .toSorted((one, other) => one.fromMs - other.fromMs);
      for (const [at, { fromMs }] of ofCover.entries())
        expect(fromMs).toBeGreaterThanOrEqual(ofCover[at - 1]?.toMs ?? 0);
      expect(jobs[0]).toMatchObject({ attempt: 1, workersLost: 0, claim: { declared: 1 } });
      expect(await client.declaration()).toMatchObject({
        version: 2,
        partitions: [{ told: 2, carriedVersion: 2, isDone: true }],
      });
    },
    TEST_MS,
  );

  it(
    'gives claims back whose fleet is gone, and its jobs run on another one',
    async () => {
      const expiresAtMs = Date.now() + 3_600_000;
      await store.registerWorker(0, aWorkerRecord({ fleet: 'boxes', slots: 3, expiresAtMs }));
      const packed = await Promise.all(Array.from({ length: 5 }, () => submitted('pack', 0)));
      await until(packed.slice(0, 1), ({ state }) => state === 'claimed');
      await redeploy('THIRD');
      const jobs = await until(packed, hasSucceeded);
      expect(new Set(jobs.map(({ claim }) => claim?.fleet))).toEqual(new Set(['general']));
    },
    TEST_MS,
  );

  it(
    'divides among four partitions, then among two, while jobs wait and run',
    async () => {
      const keys = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay'];
      const submit = async (payload: number, fairnessKey: string, resourceId?: string, afterMs = 0) => {
        const runAt = new Date(Date.now() + afterMs).toISOString();
        const resource = resourceId === undefined ? {} : { resourceId };
        const later = afterMs === 0 ? {} : { runAt };
        return (await client.submit({ type: 'print', payload, fairnessKey, ...resource, ...later })).jobId;
      };
      const isOf = (partitions: number) => (job: Job) =>
        job.partition === partitionOf(job.fairnessKey, partitions);
      const long = await submit(LONG_MS, 'ann', 'cover');
      await until([long], ({ state }) => state === 'running');
      const ofCover = await Promise.all(keys.map((key) => submit(50, key, 'cover')));
      const others = await Promise.all(keys.flatMap((key) => [submit(2_000, key), submit(2_000, key)]));
      const future = await submit(50, 'fay', undefined, LONG_MS);
      await redeploy('QUARTERS');
      const quarters = await until([long, ...ofCover, ...others, future], hasSucceeded);
      expect(quarters.filter(({ id }) => ofCover.includes(id)).every(isOf(4))).toBe(true);
      const longer = await submit(LONG_MS, 'bob', 'back');
      await until([longer], ({ state }) => state === 'running');
      const ofBack = await Promise.all(keys.map((key) => submit(50, key, 'back')));
      const last = await submit(50, 'cleo', undefined, LONG_MS);
      await redeploy('HALVES');
      const halves = await until([longer, ...ofBack, last], hasSucceeded);
      expect(halves.filter(({ id }) => ofBack.includes(id)).every(isOf(2))).toBe(true);
      const all = [...quarters, ...halves];
      expect(all.map(({ attempt, workersLost }) => [attempt, workersLost])).toEqual(all.map(() => [1, 0]));
      const intervals = all.map((job) => ({ ...intervalOf(job), resourceId: job.resourceId }));
      for (const one of intervals) {
        const beside = intervals.filter(({ fromMs, toMs }) => fromMs <= one.fromMs && one.fromMs < toMs);
        expect(beside.length).toBeLessThanOrEqual(SLOTS);
        const exclusive = beside.filter(
          ({ resourceId }) => resourceId !== undefined && resourceId === one.resourceId,
        );
        expect(exclusive.length).toBeLessThanOrEqual(1);
      }
      const done = { carriedVersion: 5, isDone: true, isHandingOver: false };
      await expect
        .poll(() => client.declaration(), { timeout: WAIT_MS, interval: LOOK_EVERY_MS })
        .toMatchObject({ version: 5, partitions: Array.from({ length: 4 }, () => done) });
    },
    2 * TEST_MS,
  );
});
