/** A worker process that runs on while its pool is redeployed with one partition, then three, then two. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { clientConfiguration } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { entriesOf } from './journal.ts';
import { PARTITIONS_VARIABLE, PROCESS_FLEET, partitionsPool } from './partitions-pool.ts';
import { hasSucceeded, LOOK_EVERY_MS, untilAll } from './redeploys.ts';

const TEST_MS = 900_000;
/** Without what is waited for so long, something is wrong. */
const WAIT_MS = 240_000;
/** Longer than a deployment takes, mostly. */
const LONG_MS = 30_000;
/** As `fleet-process.ts` has. */
const SLOTS = 3;
const EVER = 3;
const NAME = 'lasting';

/** Two that live in each of three partitions. */
const KEYS = Array.from({ length: EVER }, (_, home) =>
  Array.from({ length: 100 }, (_each, at) => `key-${at}`)
    .filter((key) => partitionOf(key, EVER) === home)
    .slice(0, 2),
).flat();

describe('a worker process whose pool gets other partitions', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-partitions-'));
  const journal = join(folder, 'journal');
  const dynamodb = new DynamoDBClient(clientConfiguration);
  let deployment: DeclaredDeployment;
  let declared = 0;
  let client: SchedulerClient;
  let store: DynamoJobStore;
  let worker: ChildProcess;

  const redeploy = async (partitions: number): Promise<void> => {
    process.env[PARTITIONS_VARIABLE] = String(partitions);
    const configuration = resolveConfiguration(partitionsPool(partitions));
    deployment = await deployDeclared('test/integration/partitions-stack.ts', configuration, declared);
    declared += 1;
  };
  const output = (name: string): string => {
    const value = deployment.outputs[name];
    if (value === undefined) throw new Error(`the stack has no output ${name}`);
    return value;
  };

  beforeAll(async () => {
    await redeploy(1);
    const places = { FAIRLEAD_TABLE: output('TableName'), FAIRLEAD_WAKE_QUEUE: output('WakeQueueUrl') };
    client = SchedulerClient.fromEnvironment(clientConfiguration, places);
    store = new DynamoJobStore({ client: dynamodb, table: places.FAIRLEAD_TABLE, place: suitePlace });
    const { endpoint, region, credentials } = clientConfiguration;
    worker = spawn(
      process.execPath,
      [fileURLToPath(new URL('./fleet-process.ts', import.meta.url)), NAME, journal],
      {
        env: {
          ...process.env,
          ...places,
          AWS_ENDPOINT_URL: endpoint,
          AWS_REGION: region,
          AWS_ACCESS_KEY_ID: credentials.accessKeyId,
          AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
          FAIRLEAD_FLEET: PROCESS_FLEET,
        },
        stdio: ['ignore', 'ignore', 'inherit'],
      },
    );
  }, TEST_MS);
  afterAll(async () => {
    worker?.kill('SIGKILL');
    client?.destroy();
    dynamodb.destroy();
    delete process.env[PARTITIONS_VARIABLE];
    rmSync(folder, { recursive: true, force: true });
    if (deployment?.isDeclaredByHand === false) await deployment.destroy();
  }, TEST_MS);

  const submitted = async (fairnessKey: string, forMs: number, resourceId?: string): Promise<string> => {
    const resource = resourceId === undefined ? {} : { resourceId };
    return (await client.submit({ type: 'work', payload: { forMs }, fairnessKey, ...resource })).jobId;
  };
  const ofEachKey = (): Promise<readonly string[]> =>
    Promise.all(KEYS.map((key) => submitted(key, 200, 'cover')));
  const until = (ids: readonly string[], isSo: (job: Job) => boolean): Promise<readonly Job[]> =>
    untilAll(client, ids, isSo, WAIT_MS);
  const isRunning = ({ state }: Job): boolean => state === 'running';
  /** Slots of the worker's leases that count, by partition. */
  const slots = (): Promise<readonly (number | undefined)[]> =>
    Promise.all(
      Array.from({ length: EVER }, async (_, partition) => {
        const { workers } = await store.loadPartition({ partition, nowMs: Date.now() });
        return workers[0]?.slots;
      }),
    );
  const poll = () => expect.poll(slots, { timeout: WAIT_MS, interval: LOOK_EVERY_MS });

  it(
    'takes up those that come, and leaves those that go, and runs what is in each of them, once',
    async () => {
      const first = await until(await ofEachKey(), hasSucceeded);
      expect(await slots()).toEqual([SLOTS, undefined, undefined]);

      const [inFirst = '', , , , inLast = ''] = KEYS;
      const long = await submitted(inLast, LONG_MS, 'spine');
      await until([long], isRunning);
      await redeploy(3);
      const behind = await submitted(inFirst, 200, 'spine');
      const moved = await ofEachKey();
      await poll().toEqual([1, 1, 1]);
      const spread = await until([long, behind, ...moved, ...(await ofEachKey())], hasSucceeded);

      const longer = await submitted(inLast, LONG_MS, 'spine');
      await until([longer], isRunning);
      await redeploy(2);
      const after = await submitted(inFirst, 200, 'spine');
      const home = await ofEachKey();
      await poll().toEqual(
        expect.toSatisfy(([one, other, gone]) => one + other === SLOTS && gone === undefined),
      );
      const drawn = await until([longer, after, ...home, ...(await ofEachKey())], hasSucceeded);

      const all = [...first, ...spread, ...drawn];
      expect(all.map(({ attempt, workersLost }) => [attempt, workersLost])).toEqual(all.map(() => [1, 0]));
      const isOf = (partitions: number) => (job: Job) =>
        job.id === long || job.id === longer || job.partition === partitionOf(job.fairnessKey, partitions);
      expect([first.every(isOf(1)), spread.every(isOf(3)), drawn.every(isOf(2))]).toEqual([true, true, true]);

      const entries = entriesOf(journal);
      const resources = new Map(all.map(({ id, resourceId }) => [id, resourceId]));
      const busy = new Map<string | undefined, number>();
      let running = 0;
      for (const { what, jobId } of entries) {
        const step = what === 'begin' ? 1 : -1;
        const resource = resources.get(jobId);
        running += step;
        busy.set(resource, (busy.get(resource) ?? 0) + step);
        expect(running).toBeLessThanOrEqual(SLOTS);
        expect(busy.get(resource)).toBeLessThanOrEqual(1);
      }
      // Each of them once, and to its end.
      for (const what of ['begin', 'end'] as const) {
        const ids = entries.filter((entry) => entry.what === what).map(({ jobId }) => jobId);
        expect(ids.toSorted()).toEqual(all.map(({ id }) => id).toSorted());
      }

      const done = { carriedVersion: 3, isDone: true, isHandingOver: false };
      await expect
        .poll(() => client.declaration(), { timeout: WAIT_MS, interval: LOOK_EVERY_MS })
        .toMatchObject({ version: 3, partitions: Array.from({ length: EVER }, () => done) });
      worker.kill('SIGTERM');
      const [code] = (await once(worker, 'exit')) as [number | null];
      expect(code).toBe(0);
      expect(await slots()).toEqual([undefined, undefined, undefined]);
    },
    TEST_MS,
  );
});
