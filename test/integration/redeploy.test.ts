/** Real redeploys while jobs wait, are claimed, and run: tier, conflict group, fleet and the number of partitions change under them. */

import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { ScheduleNotFoundError } from '../../lib/client/errors.ts';
import type { ScheduleView } from '../../lib/client/schedules.ts';
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
/** Jobs for a time to come: some are still to come when a deployment is through. */
const FUTURE_MS = 40_000;

/** Of the fleet that takes the type. */
const SLOTS = 4;

interface Interval {
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

const intervalOf = ({ result }: Job): Interval => result as unknown as Interval;

describe('a stack that is redeployed', () => {
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
    held = await gate.open();
    await redeploy('FIRST');
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

  const schedules = async (): Promise<Readonly<Record<string, ScheduleView>>> => {
    const all: Record<string, ScheduleView> = {};
    for await (const each of client.schedules.list()) all[each.id] = each;
    return all;
  };
  const cronOf = (view: ScheduleView | undefined): unknown => view?.spec.when;

  it(
    'makes the schedules that it declares, and one that the bus asks for, whose firings run',
    async (context) => {
      if (deployment.isDeclaredByHand) return context.skip('no resource of the stack declares here');
      expect(Object.keys(await schedules()).sort()).toEqual(['dropped', 'nightly', 'weekly']);
      expect(await client.schedules.get('nightly')).toMatchObject({ isDeclared: true, state: 'active' });
      await client.schedules.put('guest', { every: '10d', type: 'print' });
      await expect(client.schedules.delete('nightly')).rejects.toMatchObject({
        name: 'ScheduleDeclaredError',
      });
      const bus = new EventBridgeClient(clientConfiguration);
      const ask = async (DetailType: string, detail: object): Promise<void> => {
        const Entries = [
          {
            Source: 'redeploy-test',
            DetailType,
            Detail: JSON.stringify(detail),
            EventBusName: output('BusName'),
          },
        ];
        expect(await bus.send(new PutEventsCommand({ Entries }))).toMatchObject({ FailedEntryCount: 0 });
      };
      try {
        await ask('Schedule Put Requested', {
          id: 'room/121',
          schedule: { every: '5s', type: 'print', payload: 7 },
        });
        const polling = { timeout: WAIT_MS, interval: LOOK_EVERY_MS };
        const firings = async () => {
          const view = await client.schedules.get('room/121').catch((error: unknown) => {
            if (error instanceof ScheduleNotFoundError) return undefined;
            throw error;
          });
          return view?.firings.filter(({ what }) => what === 'made') ?? [];
        };
        await expect.poll(async () => (await firings()).length, polling).toBeGreaterThanOrEqual(2);
        const ids = (await firings()).map(({ jobId }) => jobId ?? '');
        const jobs = await until(ids, hasSucceeded);
        for (const job of jobs) expect(job).toMatchObject({ payload: 7, attempt: 1, scheduleId: 'room/121' });
        expect(new Set(jobs.map(({ runAtMs }) => runAtMs)).size).toBe(jobs.length);
        await ask('Schedule Delete Requested', { id: 'room/121' });
        await expect
          .poll(async () => Object.keys(await schedules()).includes('room/121'), polling)
          .toBe(false);
      } finally {
        bus.destroy();
      }
    },
    TEST_MS,
  );

  it(
    'moves what waits to another tier and conflict group, and overlaps nothing with what runs',
    async () => {
      const running = await submitted('print', held, 'cover');
      await until([running], ({ state }) => state === 'running');
      const waiting = await Promise.all(Array.from({ length: 14 }, () => submitted('print', 50, 'cover')));
      // A wake each, so that passes meet them, and park them.
      for (let round = 0; round < 3; round += 1) await client.explain(waiting[0] ?? '');
      await redeploy('SECOND');
      const waits = await client.get(waiting[0] ?? '');
      expect(['pending', 'claimed']).toContain(waits.state);
      gate.answer();
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

  it('adds, changes and removes exactly the schedules that it owns', async (context) => {
    if (deployment.isDeclaredByHand) return context.skip('no resource of the stack declares here');
    const after = await schedules();
    expect(Object.keys(after).sort()).toEqual(['fresh', 'guest', 'nightly', 'weekly']);
    expect(cronOf(after.nightly)).toEqual({ kind: 'cron', expression: '30 4 * * *' });
    expect(after.nightly?.spec.job.type).toBe('ship');
    expect(after.guest).toMatchObject({ isDeclared: false, state: 'active' });
    for (const id of ['fresh', 'nightly', 'weekly'])
      expect(after[id]).toMatchObject({ isDeclared: true, state: 'active' });
    // What has not changed was not written.
    expect(after.weekly?.changedAtMs).toBe(after.weekly?.createdAtMs);
    expect(after.nightly?.changedAtMs).toBeGreaterThan(after.nightly?.createdAtMs ?? Infinity);
  });

  it(
    'gives claims back whose fleet is gone, and its jobs run on another one',
    async () => {
      const expiresAtMs = Date.now() + 3_600_000;
      await store.registerWorker({
        partition: 0,
        record: aWorkerRecord({ fleet: 'boxes', slots: 3, expiresAtMs }),
      });
      const packed = await Promise.all(Array.from({ length: 5 }, () => submitted('pack', 0)));
      // As many as the worker has slots for; which ones, where all are stored at once, is not for the test to say.
      const claimed = async (): Promise<number> => {
        const jobs = await Promise.all(packed.map((id) => client.get(id)));
        return jobs.filter(({ state }) => state === 'claimed').length;
      };
      await expect.poll(claimed, { timeout: WAIT_MS, interval: LOOK_EVERY_MS }).toBe(3);
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
      const submit = async (
        payload: number | string,
        fairnessKey: string,
        resourceId?: string,
        afterMs = 0,
      ) => {
        const runAt = new Date(Date.now() + afterMs).toISOString();
        const resource = resourceId === undefined ? {} : { resourceId };
        const later = afterMs === 0 ? {} : { runAt };
        return (await client.submit({ type: 'print', payload, fairnessKey, ...resource, ...later })).jobId;
      };
      const isOf = (partitions: number) => (job: Job) =>
        job.partition === partitionOf(job.fairnessKey, partitions);
      const long = await submit(held, 'ann', 'cover');
      await until([long], ({ state }) => state === 'running');
      const ofCover = await Promise.all(keys.map((key) => submit(50, key, 'cover')));
      const others = await Promise.all(keys.flatMap((key) => [submit(2_000, key), submit(2_000, key)]));
      const future = await submit(50, 'fay', undefined, FUTURE_MS);
      await redeploy('QUARTERS');
      await until(ofCover, isOf(4));
      gate.answer();
      const quarters = await until([long, ...ofCover, ...others, future], hasSucceeded);
      expect(quarters.filter(({ id }) => ofCover.includes(id)).every(isOf(4))).toBe(true);
      const longer = await submit(held, 'bob', 'back');
      await until([longer], ({ state }) => state === 'running');
      const ofBack = await Promise.all(keys.map((key) => submit(50, key, 'back')));
      const last = await submit(50, 'cleo', undefined, FUTURE_MS);
      await redeploy('HALVES');
      await until(ofBack, isOf(2));
      gate.answer();
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
