/** A payload apart from its job: both are there, or neither, and both are collected together. */
import { DeleteItemCommand, GetItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { PAYLOAD_KEPT_MS } from '../../lib/store/table/payload.ts';
import { jobKey } from '../../lib/store/table/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aWorker } from '../fixtures/factories/worker.ts';
import { noise } from '../fixtures/noise.ts';

const WAIT_MS = 60_000;
const EXPIRES_AT_MS = NOW_MS + 3_600_000;
const PAYLOAD = { text: noise(1_900) };

describe('a payload that stands apart', () => {
  let table: TestTable;
  let store: DynamoJobStore;
  /** Throws instead of a request. */
  let cut: ((command: string, key: string) => void) | undefined;

  beforeAll(async () => {
    table = await createTable();
    table.client.middlewareStack.add(
      (next, { commandName = '' }) =>
        async (args) => {
          const { Item } = args.input as { readonly Item?: { readonly sk?: string } };
          cut?.(commandName, Item?.sk ?? '');
          return next(args);
        },
      { step: 'initialize', name: 'cut' },
    );
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  afterAll(() => table?.drop());

  const itemsOf = async ({ id }: Pick<Job, 'id'>): Promise<readonly Record<string, unknown>[]> => {
    const { Items = [] } = await table.client.send(
      new QueryCommand({
        TableName: table.table,
        KeyConditionExpression: 'pk = :pk',
        ExpressionAttributeValues: { ':pk': { S: jobKey(id).pk } },
        ConsistentRead: true,
      }),
    );
    return Items.map((item) => unmarshall(item));
  };
  const payloadsOf = async (job: Pick<Job, 'id'>): Promise<readonly Record<string, unknown>[]> =>
    (await itemsOf(job)).filter(({ sk }) => sk !== 'job');
  const ttlOf = async (job: Job): Promise<unknown> => {
    const { Item } = await table.client.send(
      new GetItemCommand({
        TableName: table.table,
        Key: { pk: { S: jobKey(job.id).pk }, sk: { S: 'job' } },
        ConsistentRead: true,
      }),
    );
    return Item === undefined ? undefined : unmarshall(Item).ttl;
  };

  const created = async (change: Partial<Job> = {}): Promise<Job> => {
    const job = aJob({ payload: PAYLOAD, ...change });
    expect(await store.createJobs([job])).toEqual([{ kind: 'created', job }]);
    return job;
  };
  const started = async (job: Job) => {
    const request = aClaimRequest(job);
    await store.claim([request]);
    const worker = aWorker();
    const outcome = await store.startJob({ ...worker, ...request, nowMs: NOW_MS });
    if (outcome.kind !== 'started') throw new Error('not started');
    return { ...worker, job: outcome.job, nowMs: NOW_MS + 1, expiresAtMs: EXPIRES_AT_MS };
  };

  it('is written once while its job moves, and the job stays within a write unit', async () => {
    const job = await created();
    const [before] = await payloadsOf(job);
    await started(job);
    expect(await payloadsOf(job)).toEqual([before]);
    const [moving] = await itemsOf(job);
    expect(moving).not.toHaveProperty('payload');
    expect(JSON.stringify(moving).length).toBeLessThan(1_024);
  });

  it('is kept for years beyond the time of a job that has not ended', async () => {
    const runAtMs = NOW_MS + 1_000_000;
    const job = await created({ state: 'scheduled', runAtMs, readyAtMs: runAtMs });
    expect(await payloadsOf(job)).toMatchObject([{ ttl: (runAtMs + PAYLOAD_KEPT_MS) / 1_000 }]);
    const far = NOW_MS + 2 * PAYLOAD_KEPT_MS;
    await store.retimeJob({ job, runAtMs: far, nowMs: NOW_MS });
    expect(await payloadsOf(job)).toMatchObject([{ ttl: (far + PAYLOAD_KEPT_MS) / 1_000 }]);
  });

  it('is collected when its job is, however that ended', async () => {
    const finished = await created();
    const success = { kind: 'succeeded', result: null } as const;
    await store.finishJob({ ...(await started(finished)), verdict: success });
    const lost = await created();
    const error = { name: 'WorkerLost', message: 'gone' };
    await store.endUnfinished({ ...(await started(lost)), verdict: { kind: 'failed', error } });
    const cancelled = await created();
    await store.cancelJob({ jobId: cancelled.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS });
    for (const job of [finished, lost, cancelled]) {
      expect(await ttlOf(job)).toBe(EXPIRES_AT_MS / 1_000);
      expect(await payloadsOf(job)).toMatchObject([
        { payload: JSON.stringify(PAYLOAD), ttl: EXPIRES_AT_MS / 1_000 },
      ]);
    }
  });

  it('is kept as it was while its job is tried again', async () => {
    const job = await created();
    const error = { name: 'Flaky', message: 'again' };
    const verdict = { kind: 'retry', error, runAtMs: NOW_MS + 9 } as const;
    const before = await payloadsOf(job);
    await store.finishJob({ ...(await started(job)), verdict });
    expect(await payloadsOf(job)).toEqual(before);
  });

  it('is marked again by a worker that learns late that its finish was written', async () => {
    const job = await created();
    const end = { ...(await started(job)), verdict: { kind: 'succeeded', result: null } as const };
    let updates = 0;
    cut = (command) => {
      if (command !== 'UpdateItemCommand') return;
      updates += 1;
      if (updates === 2)
        throw Object.assign(new Error('no answer'), { name: 'TimeoutError', code: 'ETIMEDOUT' });
    };
    await expect(store.finishJob(end)).rejects.toMatchObject({ name: 'UnavailableError' });
    cut = undefined;
    expect(await ttlOf(job)).toBe(EXPIRES_AT_MS / 1_000);
    expect((await store.finishJob(end)).kind).toBe('finished');
    expect(await payloadsOf(job)).toMatchObject([{ ttl: EXPIRES_AT_MS / 1_000 }]);
  });

  it.each([
    [
      'cancelled',
      (job: Job) => store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
    ],
    ['moved', (job: Job) => store.retimeJob({ job, runAtMs: NOW_MS + 1, nowMs: NOW_MS })],
  ])(
    'is told with a job that is %s, though nothing answers any more once that is written',
    async (kind, ask) => {
      const job = await created();
      let isWritten = false;
      cut = (command) => {
        if (isWritten)
          throw Object.assign(new Error('no answer'), { name: 'TimeoutError', code: 'ETIMEDOUT' });
        isWritten = command === 'UpdateItemCommand';
      };
      const outcome = await ask(job).finally(() => {
        cut = undefined;
      });
      expect(outcome).toMatchObject({ kind, job: { payload: PAYLOAD } });
    },
  );

  it('is left to be collected where its submitter dies before the job is there, and there is no job', async () => {
    const job = aJob({ payload: PAYLOAD });
    cut = (command, key) => {
      if (command === 'PutItemCommand' && key === 'job')
        throw Object.assign(new Error('gone'), { name: 'TimeoutError', code: 'ETIMEDOUT' });
    };
    await expect(store.createJobs([job])).rejects.toMatchObject({ name: 'UnavailableError' });
    cut = undefined;
    expect(await store.getJobs({ ids: [job.id] })).toEqual([undefined]);
    expect(await itemsOf(job)).toMatchObject([{ ttl: Math.ceil((NOW_MS + PAYLOAD_KEPT_MS) / 1_000) }]);
    // The next try is a submit like any other.
    expect(await store.createJobs([job])).toEqual([{ kind: 'created', job }]);
    expect(await store.getJobs({ ids: [job.id] })).toEqual([job]);
  });

  it('of a submit that changed nothing is taken back, and that of the job stays', async () => {
    const job = await created();
    const [own] = await payloadsOf(job);
    await store.createJobs([job]);
    await store.createJobs([{ ...job, contentHash: 'other', payload: 'y'.repeat(3_000) }]);
    const all = await payloadsOf(job);
    expect(all).toHaveLength(3);
    expect(all).toContainEqual(own);
    for (const other of all.filter(({ sk }) => sk !== own?.sk)) {
      expect(other).not.toHaveProperty('payload');
      expect(other.ttl).toBe(Math.ceil(NOW_MS / 1_000));
    }
    expect(await store.getJobs({ ids: [job.id] })).toEqual([job]);
  });

  it('that is gone is said of the job, which can be dealt with', async () => {
    const job = await created();
    const [{ sk = '' } = {}] = await payloadsOf(job);
    await table.client.send(
      new DeleteItemCommand({
        TableName: table.table,
        Key: { pk: { S: jobKey(job.id).pk }, sk: { S: String(sk) } },
      }),
    );
    const unreadable = expect.stringContaining(
      `item job/${job.id} ${String(sk)}: attribute payload is missing`,
    );
    expect(await store.getJobs({ ids: [job.id] })).toEqual([{ ...job, payload: null, unreadable }]);
    const { job: running } = await started(job);
    expect(running).toMatchObject({ state: 'running', payload: null, unreadable });
    const { payload: _payload, ...moving } = running;
    const [seen] = await store.lookUpJobs({ ids: [job.id] });
    expect(seen).toEqual({ ...moving, unreadable: undefined });
  });
});
