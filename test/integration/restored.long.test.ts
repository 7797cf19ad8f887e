/** A table that a deployment has left is put back into service by another one: what waits in it is done. */
import { DescribeTableCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { declareIn } from '../fixtures/declared.ts';
import { type DeclaredDeployment, deployDeclared } from './deployed.ts';
import { RESTORED_VARIABLE } from './restored-stack.ts';
import { type TableStage, tableStage } from './table-stage.ts';

const POOL = resolveConfiguration({
  types: { print: { timeoutMs: 50_000 } },
  fleets: { printers: { types: ['print'], slots: 4 } },
});
const [DEPLOY_MS, WAIT_MS] = [240_000, 180_000];

let on: TableStage;
let deployment: DeclaredDeployment | undefined;
let jobs: readonly Job[];

beforeAll(async () => {
  on = await tableStage(POOL);
  await declareIn(on.store, POOL);
  // The first one is told of to a queue that is gone with its stack; the others wait.
  const [told, waiting] = [on.job({ type: 'print', payload: 1 }), on.job({ type: 'print', payload: 2 })];
  await on.put([told]);
  await on.pass(on.dispatcher());
  const later = on.job({
    type: 'print',
    payload: 3,
    state: 'scheduled',
    runAtMs: on.clock.nowMs() + 90_000,
  });
  jobs = [told, ...(await on.put([waiting, later]))];
  const { Table } = await on.table.client.send(new DescribeTableCommand({ TableName: on.table.table }));
  vi.stubEnv(RESTORED_VARIABLE, `${Table?.TableArn} ${Table?.LatestStreamArn}`);
  deployment = await deployDeclared('test/integration/restored-stack.ts', POOL, 1);
}, DEPLOY_MS);
afterAll(async () => {
  vi.unstubAllEnvs();
  await deployment?.destroy();
  // The stack has left it where it was.
  await on.drop();
}, DEPLOY_MS);

it('jobs that waited, were told of, or are due later go on under the next version', {
  timeout: WAIT_MS,
}, async () => {
  expect(deployment?.outputs.TableName).toBe(on.table.table);
  expect(await on.store.readDeclaredVersion()).toBe(2);
  const ids = jobs.map(({ id }) => id);
  await expect
    .poll(async () => (await on.store.lookUpJobs({ ids })).map((job) => job?.state), {
      timeout: WAIT_MS,
      interval: 500,
    })
    .toEqual(['succeeded', 'succeeded', 'succeeded']);
  const [, , later] = await on.store.lookUpJobs({ ids });
  expect(later?.startedAtMs).toBeGreaterThanOrEqual(jobs[2]?.runAtMs ?? Infinity);
});
