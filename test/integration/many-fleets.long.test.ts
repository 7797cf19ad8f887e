/** The largest pool that is promised is deployed, and works: the names of the table and the wake queue are all that anybody is told. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { emulatorEnvironment } from '../../lib/testing/environment.ts';
import { clientConfiguration, endpoint } from '../contract/aws.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { LAST_FLEET, MANY_FLEETS } from './many-fleets.ts';

const DEPLOY_MS = 300_000;
const PROGRAM = fileURLToPath(new URL('./fleet-process.ts', import.meta.url));

describe('a pool of 200 fleets and nearly 1,000 types', () => {
  let deployment: DeclaredDeployment;
  let client: SchedulerClient;
  let folder: string;
  let worker: ChildProcess | undefined;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fairlead-fleets-'));
    deployment = await deployDeclared(
      'test/integration/many-fleets-stack.ts',
      resolveConfiguration(MANY_FLEETS),
    );
    const { TableName = '', WakeQueueUrl = '' } = deployment.outputs;
    client = SchedulerClient.fromEnvironment(clientConfiguration, {
      FAIRLEAD_TABLE: TableName,
      FAIRLEAD_WAKE_QUEUE: WakeQueueUrl,
    });
  }, DEPLOY_MS);

  afterAll(async () => {
    if (worker?.exitCode === null) {
      const gone = once(worker, 'exit');
      worker.kill('SIGTERM');
      await gone;
    }
    client?.destroy();
    await deployment?.destroy();
    await rm(folder, { recursive: true, force: true });
  }, DEPLOY_MS);

  it('is declared whole, and takes a job for each fleet', { timeout: DEPLOY_MS }, async () => {
    const types = Object.values(MANY_FLEETS.fleets).flatMap(({ types: [type = ''] }) => type);
    expect(types).toHaveLength(200);
    const results = await client.submitMany(types.map((type) => ({ type, payload: { forMs: 1 } })));
    expect(results.filter(({ kind }) => kind !== 'accepted')).toEqual([]);
    await expect(client.submit({ type: 'type-200-0' })).rejects.toThrow(/type-200-0/);
  });

  it('has its last fleet served by a process that is told names only', { timeout: DEPLOY_MS }, async () => {
    worker = spawn(process.execPath, [PROGRAM, 'last', join(folder, 'journal')], {
      env: {
        ...process.env,
        ...emulatorEnvironment(endpoint),
        FAIRLEAD_FLEET: LAST_FLEET,
        FAIRLEAD_TABLE: deployment.outputs.TableName,
        FAIRLEAD_WAKE_QUEUE: deployment.outputs.WakeQueueUrl,
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const { jobId } = await client.submit({ type: 'work', payload: { forMs: 10 } });
    await expect
      .poll(async () => (await client.get(jobId)).state, { timeout: DEPLOY_MS / 2, interval: 500 })
      .toBe('succeeded');
  });
});
