/** Worker processes as they are deployed: several, real, and one of them killed in the middle. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { DISPATCH_BUDGET, type DispatchContext } from '../../lib/dispatch/context.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { placeOf, submit } from '../../lib/dispatch/submit.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import {
  clientConfiguration,
  createQueue,
  createTable,
  type TestQueue,
  type TestTable,
} from '../contract/aws.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { fleetEnvironment } from './fleet-environment.ts';

const JOBS = 50;
const SLOTS_OF_ONE = 3;
const TEST_MS = 120_000;
/** Without news for so long something is wrong. */
const WAIT_MS = 80_000;
const LOOK_EVERY_MS = 200;

interface Entry {
  readonly what: 'begin' | 'end';
  readonly jobId: string;
  readonly pid: number;
  readonly atMs: number;
}

const configuration = resolveConfiguration({
  types: { work: { onWorkerLost: 'resume', conflictGroup: 'shelf', timeoutMs: 60_000 } },
  fleets: { processes: { types: ['work'] } },
});

describe('worker processes', () => {
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-processes-'));
  const journalFile = join(folder, 'journal');
  const sqs = new SQSClient(clientConfiguration);
  const workers: ChildProcess[] = [];
  let table: TestTable;
  let fleetQueue: TestQueue;
  let wakeQueue: TestQueue;
  let context: DispatchContext;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    [table, fleetQueue, wakeQueue] = await Promise.all([
      createTable(),
      createQueue(sqs, 'processes'),
      createQueue(sqs, 'wakes'),
    ]);
    const queueUrls = { processes: fleetQueue.url };
    context = {
      store: new DynamoJobStore({ ...table, place: placeOf(configuration) }),
      queue: new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl: wakeQueue.url }),
      configuration,
      clock: systemClock,
      random: Math.random,
      log: { info: () => {}, warn: () => {} },
      holder: 'the test',
      budget: { ...DISPATCH_BUDGET, checkAfterMs: 5_000 },
      announced: new Map(),
      books: new Map(),
    };
    environment = fleetEnvironment({
      configuration,
      fleet: 'processes',
      table: table.table,
      fleetQueueUrl: fleetQueue.url,
      wakeQueueUrl: wakeQueue.url,
    });
  }, TEST_MS);

  afterAll(async () => {
    for (const worker of workers) worker.kill('SIGKILL');
    await Promise.all([table, fleetQueue, wakeQueue].map((each) => each?.drop()));
    sqs.destroy();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = (): ChildProcess => {
    const script = new URL('./fleet-process.ts', import.meta.url).pathname;
    const worker = spawn(process.execPath, [script, journalFile], {
      env: environment,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    workers.push(worker);
    return worker;
  };

  const journal = (): readonly Entry[] => {
    try {
      const lines = readFileSync(journalFile, 'utf8').trim().split('\n');
      return lines.map((line) => JSON.parse(line) as Entry);
    } catch {
      return [];
    }
  };

  /** Plays the stream and the ticks of the dispatcher until it is so. */
  const dispatchUntil = async (
    ids: readonly string[],
    isSo: (jobs: readonly Job[]) => boolean,
  ): Promise<void> => {
    const untilMs = Date.now() + WAIT_MS;
    const seen = new Map<string, number>();
    for (;;) {
      const jobs = (await context.store.getJobs(ids)).filter((job) => job !== undefined);
      const fresh = jobs.filter((job) => seen.get(job.id) !== job.version);
      for (const job of fresh) seen.set(job.id, job.version);
      const hints = fresh.filter(({ state }) => state !== 'claimed' && state !== 'running');
      await dispatchAll(context, { jobs: hints, reason: hints.length > 0 ? 'stream' : 'tick' });
      if (isSo(jobs)) return;
      if (Date.now() > untilMs) {
        throw new Error(
          `waited for too long: ${[...Map.groupBy(jobs, (job) => job.state)].map(([state, of]) => `${of.length} ${state}`)}`,
        );
      }
      await systemClock.sleep(LOOK_EVERY_MS);
    }
  };

  it('lose nothing when one of them is killed in the middle, and overlap nowhere', {
    timeout: TEST_MS,
  }, async () => {
    const killed = start();
    const lasting = start();
    const nowMs = Date.now();
    const jobs = Array.from({ length: JOBS }, (_, n) =>
      aJob({
        id: randomUUID(),
        type: 'work',
        // Ten pairs must not run together.
        ...(n < 20 ? { resourceId: `shelf-${n % 10}` } : {}),
        // Some are long enough to be met in the middle.
        payload: { forMs: n % 3 === 0 ? 1_500 : 100 },
        readyAtMs: nowMs,
        runAtMs: nowMs,
        submittedAtMs: nowMs,
      }),
    );
    const ids = jobs.map((job) => job.id);
    await submit({ ...context, nowMs: Date.now }, jobs);

    const busyWith = (pid: number | undefined): number => {
      const entries = journal().filter((entry) => entry.pid === pid);
      return (
        entries.filter(({ what }) => what === 'begin').length -
        entries.filter(({ what }) => what === 'end').length
      );
    };
    await dispatchUntil(
      ids,
      (now) => now.filter((job) => job.state === 'succeeded').length >= 10 && busyWith(killed.pid) > 0,
    );
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    const killedAtMs = Date.now();
    await dispatchUntil(ids, (now) => now.every((job) => isTerminal(job.state)));

    const done = (await context.store.getJobs(ids)).filter((job) => job !== undefined);
    expect(done.map((job) => job.state)).toEqual(ids.map(() => 'succeeded'));
    const lost = done.filter((job) => job.workersLost > 0);
    expect(lost.length).toBeGreaterThan(0);
    expect(lost.length).toBeLessThanOrEqual(SLOTS_OF_ONE);
    // Whoever took over went on from what the killed one had kept, where it had come so far.
    for (const { result } of lost) {
      expect([{ by: killed.pid }, null]).toContainEqual((result as { readonly after: unknown }).after);
    }

    const entries = journal();
    for (const id of ids) {
      const ended = entries.filter(({ jobId, what }) => jobId === id && what === 'end');
      const isLost = lost.some((job) => job.id === id);
      // A killed process may have come to the end of its work, but not to that of its job.
      expect(ended.length).toBeGreaterThanOrEqual(1);
      expect(ended.length).toBeLessThanOrEqual(isLost ? 2 : 1);
    }
    for (const worker of [killed, lasting]) {
      let running = 0;
      for (const { what } of entries.filter(({ pid }) => pid === worker.pid)) {
        running += what === 'begin' ? 1 : -1;
        expect(running).toBeLessThanOrEqual(SLOTS_OF_ONE);
      }
    }
    for (let shelf = 0; shelf < 10; shelf += 1) {
      const pair = [ids[shelf], ids[shelf + 10]];
      const intervals = pair.flatMap((id) =>
        entries
          .filter(({ jobId, what }) => jobId === id && what === 'begin')
          .map(({ pid, atMs }) => {
            const end = entries.find(
              (entry) => entry.jobId === id && entry.pid === pid && entry.what === 'end',
            );
            return { id, fromMs: atMs, toMs: end?.atMs ?? killedAtMs };
          }),
      );
      for (const one of intervals) {
        for (const other of intervals) {
          if (one.id !== other.id) expect(one.toMs <= other.fromMs || other.toMs <= one.fromMs).toBe(true);
        }
      }
    }

    lasting.kill('SIGTERM');
    const [code] = (await once(lasting, 'exit')) as [number | null];
    expect(code).toBe(0);
    // The one expired, the other left.
    expect((await context.store.loadPartition(0, Date.now())).workers).toEqual([]);
  });
});
