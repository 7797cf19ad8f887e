/** Dispatchers as processes, as `fairlead dispatcher` runs them, without any function: one is killed, the other stopped. */

import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { StoreClient } from '../../lib/client/client.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { buildRing, roleOf } from '../../lib/core/ring.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { rankOf, submit } from '../../lib/submit/submit.ts';
import {
  clientConfiguration,
  createQueue,
  createTable,
  type TestQueue,
  type TestTable,
} from '../contract/aws.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { fleetEnvironment } from './fleet-environment.ts';

const PARTITIONS = 3;
const JOBS = 36;
const TEST_MS = 180_000;
/** Longer than a membership and a lease last, and a message that was not sent waits for its check. */
const WAIT_MS = 90_000;
/** Most of its time the test waits: whoever looks often costs the others a processor. */
const LOOK_EVERY_MS = 250;

const configuration = resolveConfiguration({
  types: { work: { timeoutMs: 60_000 } },
  fleets: { processes: { types: ['work'] } },
  partitions: PARTITIONS,
});
const partitions = Array.from({ length: PARTITIONS }, (_, partition) => partition);

interface Line {
  readonly message: string;
  readonly partition?: number;
  readonly to?: string;
  readonly why?: string;
  readonly end?: string;
}

interface DispatcherProcess {
  readonly child: ChildProcess;
  /** What it has said so far. */
  readonly lines: Line[];
  /** Metrics, as CloudWatch takes them. */
  readonly metrics: Readonly<Record<string, unknown>>[];
  readonly exited: Promise<number | null>;
}

/** Two names between which the ring divides the partitions. */
function twoNames(): readonly [string, string] {
  for (let at = 0; at < 100; at += 1) {
    const names = ['one', `two-${at}`] as const;
    const ring = buildRing(names);
    if (names.every((name) => partitions.some((partition) => roleOf(ring, partition, name) === 'leader')))
      return names;
  }
  throw new Error('no two names share the partitions');
}

describe('dispatcher processes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-dispatchers-'));
  const sqs = new SQSClient(clientConfiguration);
  const children: ChildProcess[] = [];
  let table: TestTable;
  let fleetQueue: TestQueue;
  let wakeQueue: TestQueue;
  let store: DynamoJobStore;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    [table, fleetQueue, wakeQueue] = await Promise.all([
      createTable(),
      createQueue(sqs, 'processes'),
      createQueue(sqs, 'wakes'),
    ]);
    store = new DynamoJobStore({ ...table, place: rankOf(configuration) });
    environment = await fleetEnvironment({
      store,
      configuration,
      fleet: 'processes',
      table: table.table,
      fleetQueueUrl: fleetQueue.url,
      wakeQueueUrl: wakeQueue.url,
    });
  }, TEST_MS);

  afterAll(async () => {
    for (const child of children) child.kill('SIGKILL');
    await Promise.all([table, fleetQueue, wakeQueue].map((each) => each?.drop()));
    sqs.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  const pathOf = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

  const startWorker = (): void => {
    const words = [pathOf('./fleet-process.ts'), 'worker', join(folder, 'journal')];
    children.push(
      spawn(process.execPath, words, { env: environment, stdio: ['ignore', 'ignore', 'inherit'] }),
    );
  };

  const startDispatcher = (name: string): DispatcherProcess => {
    const words = [
      'dispatcher',
      '--name',
      name,
      '--json',
      '--poll',
      '500ms',
      '--pass-every',
      '500ms',
      '--metrics',
    ];
    const child = spawn(process.execPath, [pathOf('../../lib/cli/main.ts'), ...words], {
      env: { ...environment, FAIRLEAD_METRICS: 'claimed,writeUnits' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const lines: Line[] = [];
    const metrics: Readonly<Record<string, unknown>>[] = [];
    let rest = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const parts = (rest + text).split('\n');
      rest = parts.pop() ?? '';
      for (const part of parts) {
        if (part.includes('"_aws"')) metrics.push(JSON.parse(part) as Readonly<Record<string, unknown>>);
        else lines.push(JSON.parse(part) as Line);
      }
    });
    const exited = once(child, 'close').then(([code]) => code as number | null);
    return { child, lines, metrics, exited };
  };

  /** Partitions that it leads, by what it says. */
  const ledBy = ({ lines }: DispatcherProcess): readonly number[] => {
    const led = new Set<number>();
    for (const { partition, to } of lines) {
      if (partition === undefined || to === undefined) continue;
      if (to === 'leader') led.add(partition);
      else led.delete(partition);
    }
    return [...led].sort();
  };

  const submitJobs = async (count: number): Promise<readonly string[]> => {
    const nowMs = Date.now();
    const jobs = Array.from({ length: count }, (_, n): Job => {
      const fairnessKey = `tenant-${n}`;
      return aJob({
        id: randomUUID(),
        type: 'work',
        fairnessKey,
        partition: partitionOf(fairnessKey, PARTITIONS),
        payload: { forMs: 50 },
        readyAtMs: nowMs,
        runAtMs: nowMs,
        submittedAtMs: nowMs,
      });
    });
    await submit({ store, configuration, nowMs: Date.now, clock: systemClock, announced: new Map() }, jobs);
    expect(new Set(jobs.map((job) => job.partition)).size).toBe(PARTITIONS);
    return jobs.map(({ id }) => id);
  };

  const succeeded = async (ids: readonly string[]): Promise<number> =>
    (await store.getJobs({ ids })).filter((job) => job?.state === 'succeeded').length;

  const waitFor = (check: () => Promise<void> | void): Promise<void> =>
    vi.waitFor(check, { timeout: WAIT_MS, interval: LOOK_EVERY_MS });

  it('share the partitions; one takes over what a killed one led, and leaves all free when it is stopped', {
    timeout: TEST_MS,
  }, async () => {
    const [first, second] = twoNames();
    const looker = new StoreClient({
      store,
      queue: { sendWake: async () => {} },
      configuration,
      clock: systemClock,
      newId: randomUUID,
    });
    startWorker();
    const one = startDispatcher(first);
    const two = startDispatcher(second);
    await waitFor(() => {
      expect([...ledBy(one), ...ledBy(two)].sort()).toEqual(partitions);
      expect(Math.min(ledBy(one).length, ledBy(two).length)).toBeGreaterThan(0);
    });
    await waitFor(async () => {
      const { residents, partitions: led } = await looker.dispatchers();
      expect(residents.map(({ dispatcherId }) => dispatcherId)).toEqual([first, second].toSorted());
      for (const { leads, standsBy, load } of residents) {
        // With two of them, each stands by for what the other leads.
        expect([...leads, ...standsBy].toSorted()).toEqual(partitions);
        expect(load?.waiting).toEqual({ jobs: 0, isLeast: false });
        expect(load?.memoryBytes).toBeGreaterThan(10_000_000);
        expect(load?.eventLoopLagMs).toBeGreaterThanOrEqual(0);
        expect(load?.busy).toBeGreaterThan(0);
      }
      for (const { partition, ledBy: role, leader: id, untilMs } of led) {
        const leader = residents.find(({ leads }) => leads.includes(partition))?.dispatcherId;
        expect({ role, id }).toEqual({ role: 'resident', id: leader });
        expect(untilMs).toBeGreaterThan(Date.now() - TEST_MS);
      }
    });
    const ids = await submitJobs(JOBS);
    await waitFor(async () => expect(await succeeded(ids)).toBeGreaterThan(JOBS / 4));

    one.child.kill('SIGKILL');
    await one.exited;
    const late = await submitJobs(JOBS / 2);
    await waitFor(async () => expect(await succeeded([...ids, ...late])).toBe(ids.length + late.length));
    expect(ledBy(two)).toEqual(partitions);

    two.child.kill('SIGTERM');
    expect(await two.exited).toBe(0);
    expect(two.lines.at(-1)).toMatchObject({ message: 'dispatcher ended', end: 'stopped' });
    // In lines of their own: what it has claimed, and what that cost.
    const told = (name: string): number =>
      two.metrics.reduce((sum, { [name]: value }) => sum + (typeof value === 'number' ? value : 0), 0);
    expect(told('JobsClaimed')).toBeGreaterThanOrEqual(late.length);
    expect(told('WriteUnits')).toBeGreaterThan(told('JobsClaimed'));
    const handedOver = two.lines.slice(-20).filter(({ why }) => why === 'stopped');
    expect(handedOver.map(({ partition }) => partition).sort()).toEqual(partitions);
    for (const partition of partitions) expect(await store.readLeader(partition)).toBeUndefined();
    expect(await store.listDispatchers(Date.now())).toEqual([]);
  });
});
