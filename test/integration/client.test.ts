/** A producer's and an operator's day with the client on a real table and real queues. */
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runProgram } from '../../lib/cli/program.ts';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import { dispatch } from '../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { SqsJobQueue } from '../../lib/queue/sqs/queue.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { rankOf } from '../../lib/submit/submit.ts';
import { allOf, errorOf } from '../client/desk.ts';
import {
  clientConfiguration,
  createQueue,
  createTable,
  type TestQueue,
  type TestTable,
} from '../contract/aws.ts';
import { settingsOf } from '../fixtures/controls.ts';
import { declareIn } from '../fixtures/declared.ts';
import { onlyJob } from '../testing/received.ts';

const WAIT_MS = 60_000;
const TTL_MS = 3_600_000;
const RESIZED: Verdict = { kind: 'succeeded', result: { width: 640 } };
const BROKEN: Verdict = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } };

describe('the client on AWS', () => {
  const sqs = new SQSClient(clientConfiguration);
  const configuration = resolveConfiguration({
    types: { resize: { timeoutMs: 30_000, conflictGroup: 'album' } },
    fleets: { images: { types: ['resize'], slots: 2 } },
  });
  let table: TestTable;
  let images: TestQueue;
  let wake: TestQueue;
  let client: SchedulerClient;
  let store: DynamoJobStore;
  let dispatcher: DispatchContext;

  beforeAll(async () => {
    table = await createTable();
    images = await createQueue(sqs, 'images');
    wake = await createQueue(sqs, 'wake');
    store = new DynamoJobStore({
      client: table.client,
      table: table.table,
      place: rankOf(configuration),
    });
    await declareIn(store, configuration, { queueUrls: { images: images.url } });
    dispatcher = {
      store,
      queue: new SqsJobQueue({ client: sqs, queueUrls: { images: images.url }, wakeQueueUrl: wake.url }),
      configuration,
      clock: systemClock,
      random: Math.random,
      log: { info: () => {}, warn: () => {}, error: () => {} },
      holder: 'test',
      budget: DISPATCH_BUDGET,
      announced: new Map(),
      caches: new Map(),
      seen: new Map(),
    };
    client = SchedulerClient.fromEnvironment(clientConfiguration, {
      FAIRLEAD_TABLE: table.table,
      FAIRLEAD_WAKE_QUEUE: wake.url,
    });
  }, WAIT_MS);
  afterAll(async () => {
    client?.destroy();
    await images?.drop();
    await wake?.drop();
    await table?.drop();
    sqs.destroy();
  });

  /** A pass that is told of these, as the stream would, or of what waits by their ids. */
  const pass = (jobs: readonly Job[] = [], jobIds: readonly string[] = []): Promise<unknown> =>
    dispatch(dispatcher, 0, { jobs, jobIds, reason: 'wake' });

  /** Ends the next job that the fleet is sent. */
  const work = async (verdict: Verdict): Promise<Job> => {
    const { queue } = dispatcher;
    const [received] = await queue.receive('images', 1, 20_000, WAIT_MS);
    if (received === undefined) throw new Error('the fleet was sent nothing');
    await queue.delete('images', [received.receipt]);
    const worker = { workerId: 'w', incarnation: onlyJob(received).claimId };
    const nowMs = Date.now();
    const started = await store.startJob({ ...worker, ...onlyJob(received), nowMs });
    if (started.kind !== 'started') throw new Error('the message was outdated');
    const finish = { ...worker, job: started.job, verdict, nowMs, expiresAtMs: nowMs + TTL_MS };
    const finished = await store.finishJob(finish);
    if (finished.kind !== 'finished') throw new Error('the attempt was superseded');
    return { ...finished.job, payload: started.job.payload };
  };

  it(
    'submits, waits, explains, cancels, tries again, pauses and drains',
    async () => {
      const entries = await client.submitMany([
        ...Array.from({ length: 30 }, (_, n) => ({ type: 'resize', payload: n, fairnessKey: 'tenant-a' })),
        { type: 'unknown' },
      ]);
      expect(entries.map(({ kind }) => kind).sort()).toEqual([...new Array(30).fill('accepted'), 'refused']);
      const listed = await allOf(client.list({ state: 'pending' }));
      expect(listed).toHaveLength(30);
      for (const { id } of listed) expect(await client.cancel(id)).toMatchObject({ outcome: 'cancelled' });

      const running = client.run({ type: 'resize', payload: 'now' }, { timeout: WAIT_MS });
      const [foreground] = await waitFor(() => allOf(client.list({ state: 'pending', mode: 'onDemand' })));
      expect((await client.explain(foreground?.id ?? '')).waitsFor).toEqual([{ why: 'pass' }]);
      await pass([], [foreground?.id ?? '']);
      const ended = await work({ kind: 'succeeded', result: { width: 640 } });
      expect((await running).result).toEqual({ width: 640 });
      await pass([ended]);

      const { jobId } = await client.submit({ type: 'resize', payload: 'bad', resourceId: 'album-1' });
      const other = await client.submit({ type: 'resize', resourceId: 'album-1' });
      await pass([], [jobId, other.jobId]);
      expect(await client.explain(other.jobId)).toMatchObject({ blocker: jobId });
      expect(await client.explain(jobId)).toMatchObject({ waitsFor: [{ why: 'worker', fleet: 'images' }] });
      expect(await client.fleets()).toMatchObject([{ fleet: 'images', slots: 2, busy: 1 }]);
      const failed = await work(BROKEN);
      await client.cancel(other.jobId);
      await pass([failed, await client.get(other.jobId)]);
      expect(await allOf(client.deadLetters({ errorName: 'Broken' }))).toMatchObject([{ id: jobId }]);
      const again = await client.retry(jobId);
      expect(await client.retry(jobId)).toEqual({ jobId: again.jobId, repeated: true });
      expect(await allOf(client.deadLetters())).toEqual([]);

      await client.override({ fairnessKey: 'tenant-a' }, { weight: 2, maxConcurrency: 1 });
      await client.pause('pool');
      await pass([], [again.jobId]);
      expect(await client.explain(again.jobId)).toMatchObject({
        waitsFor: [{ why: 'paused', scope: 'pool' }],
      });
      const draining = client.drain('pool', { timeout: WAIT_MS });
      // It asks for passes, as often as it needs one to confirm the pause.
      const drained = draining.then(() => true);
      while (!(await Promise.race([drained, wake.take().then(() => false)]))) await pass();
      await client.resume('pool');
      expect((await client.controls()).map(settingsOf)).toEqual([
        { scope: 'key/tenant-a', paused: false, maxConcurrency: 1, weight: 2 },
      ]);
      expect(await allOf(client.keys())).toContainEqual(
        expect.objectContaining({ fairnessKey: '', waiting: 1 }),
      );
      await pass();
      expect((await client.explain(again.jobId)).waitsFor).toMatchObject([{ why: 'worker' }]);
    },
    WAIT_MS,
  );

  it(
    'submits jobs of declared types, and waits for one by its handle and for many at once',
    async () => {
      const jobs = defineJobs({
        resize: job({
          payload: z.object({ key: z.string() }),
          result: z.object({ width: z.number() }),
          fairnessKey: ({ key }) => key,
        }),
      });
      const typed = SchedulerClient.for(jobs, clientConfiguration, {
        FAIRLEAD_TABLE: table.table,
        FAIRLEAD_WAKE_QUEUE: wake.url,
      });
      expect(await errorOf(typed.submit('resize', { key: 7 as never }))).toMatchObject({
        field: 'payload.key',
      });
      const handle = await typed.submit('resize', { key: 'a.png' }, { idempotencyKey: 'a', priority: 10 });
      const waiting = handle.result({ timeout: WAIT_MS });
      // The fleet's other slot is taken by the job that the test before has sent to it.
      await pass([], [handle.id]);
      const ended = [await work(RESIZED), await work(RESIZED)];
      await pass(ended);
      expect(await waiting).toEqual({ width: 640 });
      expect(await typed.get({ idempotencyKey: 'a' })).toMatchObject({
        payload: { key: 'a.png' },
        fairnessKey: 'a.png',
      });

      const entries = await typed.submitMany(
        Array.from({ length: 150 }, () => ({ type: 'resize' as const, payload: { key: 'b.png' } })),
      );
      const ids = entries.map((entry) => (entry.kind === 'accepted' ? entry.jobId : ''));
      const all = allOf(typed.waitMany([...ids, handle.id], { timeout: WAIT_MS }));
      for (const id of ids) await typed.cancel(id);
      const outcomes = new Map((await all).map(({ id, outcome }) => [id, outcome]));
      expect(outcomes.size).toBe(151);
      expect(outcomes.get(ids[149] ?? '')).toMatchObject({ status: 'cancelled' });
      expect(outcomes.get(handle.id)).toMatchObject({
        status: 'succeeded',
        result: { width: 640 },
        job: { payload: { key: 'a.png' } },
      });
      typed.destroy();
    },
    WAIT_MS,
  );

  it('speaks from the command line, too', async () => {
    let out = '';
    const print = (text: string): void => {
      out += text;
    };
    const terminal = { out: print, error: () => {} };
    const connect = async () => ({ client, close: () => {} });
    expect(await runProgram(['fleets', '--json'], terminal, { connect })).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ fleets: [{ fleet: 'images' }] });
    expect(await runProgram(['jobs', 'get', 'nobody'], terminal, { connect })).toBe(3);
  });

  it('names what is missing', async () => {
    const nowhere = SchedulerClient.fromEnvironment(clientConfiguration, {
      FAIRLEAD_TABLE: 'no-such-table',
      FAIRLEAD_WAKE_QUEUE: wake.url,
    });
    expect(await errorOf(nowhere.get('a'))).toMatchObject({ name: 'MisconfiguredError' });
    nowhere.destroy();
  });
});

/** Reads until there is something: the index may lag, and a submission is on its way. */
async function waitFor<Value>(read: () => Promise<readonly Value[]>): Promise<readonly Value[]> {
  for (;;) {
    const values = await read();
    if (values.length > 0) return values;
  }
}
