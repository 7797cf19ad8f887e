/** Items that something else wrote to: what can be decided without them goes on, what cannot says so. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  PutCommand,
  QueryCommand,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { JobHead } from '../../lib/store/contract/job-fields.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import {
  backlogKey,
  controlKey,
  dispatcherKey,
  estimateKey,
  type ItemKey,
  jobKey,
  ledgerKey,
  lockKey,
  mailPk,
  partitionPk,
  RESERVATION_PREFIX,
  requestKey,
  reservationKey,
  workerKey,
} from '../../lib/store/table/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { SUITE_TYPE, suitePlace } from '../contract/harness.ts';
import { settingsOf } from '../fixtures/controls.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { aJob, aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { lineOf } from '../fixtures/factories/ready-line.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { aWorker, aWorkerRecord } from '../fixtures/factories/worker.ts';
import { tableStage } from './table-stage.ts';

const WAIT_MS = 60_000;
const EXPIRES_AT_MS = NOW_MS + 3_600_000;
const CONFLICT_KEY = 'catalogue/photos';
const FAILURE = { kind: 'failed', error: { name: 'Broken', message: 'it broke' } } as const;

let table: TestTable;
let documents: DynamoDBDocumentClient;
let store: DynamoJobStore;
let told: UnreadableItem[];
let partition = 100;

beforeAll(async () => {
  table = await createTable();
  documents = DynamoDBDocumentClient.from(table.client as DynamoDBClient);
}, WAIT_MS);
afterAll(async () => {
  await table?.drop();
});
beforeEach(() => {
  partition += 1;
  told = [];
  store = new DynamoJobStore({
    ...table,
    place: suitePlace,
    nowMs: () => NOW_MS,
    unreadable: (item) => told.push(item),
  });
});

/** Writes what the scheduler never would. */
const damage = (key: ItemKey, name: string, value: unknown, of: TestTable = table): Promise<unknown> =>
  documents.send(
    new UpdateCommand({
      TableName: of.table,
      Key: key,
      UpdateExpression: 'SET #name = :value',
      ExpressionAttributeNames: { '#name': name },
      ExpressionAttributeValues: { ':value': value },
    }),
  );

const itemsUnder = async (prefix: string): Promise<readonly Readonly<Record<string, unknown>>[]> => {
  const { Items = [] } = await documents.send(
    new QueryCommand({
      TableName: table.table,
      KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
      ExpressionAttributeValues: { ':pk': partitionPk(partition), ':prefix': prefix },
      ConsistentRead: true,
    }),
  );
  return Items;
};

const named = (ids: readonly string[]): unknown => ids.map((id) => ({ key: `job/${id} job` }));

const running = async (job: Job): Promise<Job> => {
  const request = aClaimRequest(job);
  await store.claim([request]);
  const start = { ...aWorker(), jobId: job.id, claimId: request.claimId, nowMs: NOW_MS };
  const outcome = await store.startJob(start);
  if (outcome.kind !== 'started') throw new Error('not started');
  return outcome.job;
};

/** A line with three jobs, and how it is read. */
interface Line {
  readonly fill: (jobs: readonly Job[]) => Promise<unknown>;
  readonly make: (at: number) => Job;
  readonly read: () => Promise<readonly JobHead[]>;
}

const LINES: Readonly<Record<string, Line>> = {
  ready: {
    make: (at) => aJob({ partition, readyAtMs: NOW_MS + at }),
    fill: (jobs) => store.createJobs(jobs),
    read: async () =>
      (await store.readLine({ partition, line: lineOf(aJob({ partition })), limit: 10 })).jobs,
  },
  due: {
    make: (at) => aScheduledJob(NOW_MS + at, { partition }),
    fill: (jobs) => store.createJobs(jobs),
    read: async () => (await store.readDue({ partition, nowMs: NOW_MS + 10, limit: 10 })).jobs,
  },
  blocked: {
    make: (at) => aJob({ partition, readyAtMs: NOW_MS + at }),
    fill: async (jobs) => {
      await store.createJobs(jobs);
      await store.park({ partition, version: 0, jobs, conflictKey: CONFLICT_KEY });
    },
    read: async () => (await store.readBlocked({ partition, conflictKey: CONFLICT_KEY, groups: 10 })).jobs,
  },
  'dead-letter': {
    make: (at) => aJob({ partition, readyAtMs: NOW_MS - at }),
    fill: async (jobs) => {
      await store.createJobs(jobs);
      for (const [at, job] of jobs.toReversed().entries())
        await store.endUnfinished({
          job: await running(job),
          verdict: FAILURE,
          nowMs: NOW_MS + at,
          expiresAtMs: EXPIRES_AT_MS,
        });
    },
    read: async () => (await store.readDeadLetters({ partition, limit: 10 })).jobs,
  },
};

describe.each(Object.entries(LINES))('a job in a %s line that cannot be read', (_, { make, fill, read }) => {
  it('is left out of it, set aside with its reason, and told of once', { timeout: WAIT_MS }, async () => {
    const jobs = [make(1), make(2), make(3)];
    const [first, bad, last] = jobs as [Job, Job, Job];
    await fill(jobs);
    await damage(jobKey(bad.id), 'priority', 'high');
    for (let time = 0; time < 2; time += 1) {
      await expect.poll(async () => (await read()).map(({ id }) => id)).toEqual([first.id, last.id]);
    }
    expect(told).toMatchObject([{ key: `job/${bad.id} job`, line: expect.any(String) }]);
    expect(told[0]?.reason).toContain('attribute priority is "high", not a number');
    expect(await store.listUnreadable(partition)).toEqual(told);
    // For a process that never met it, too.
    const other: UnreadableItem[] = [];
    const later = new DynamoJobStore({ ...table, place: suitePlace, unreadable: (item) => other.push(item) });
    await later.readLine({ partition, line: lineOf(aJob({ partition })), limit: 10 });
    await later.readDue({ partition, nowMs: NOW_MS + 10, limit: 10 });
    expect(other).toEqual([]);
    await damage(jobKey(bad.id), 'priority', 0);
    expect(await store.listUnreadable(partition)).toEqual([]);
  });
});

describe('a job that cannot be read', () => {
  it('is an error to whoever asks for it alone, and left out for whoever asks for many', async () => {
    const [good, bad] = [aJob({ partition }), aJob({ partition })];
    await store.createJobs([good, bad]);
    await damage(jobKey(bad.id), 'version', 'x');
    await expect(store.getJobs({ ids: [bad.id] })).rejects.toMatchObject({
      name: 'MalformedItemError',
      attribute: 'version',
    });
    const unreadable: string[] = [];
    expect(
      await store.getJobs({ ids: [bad.id, good.id, 'none'], unreadable: (id) => unreadable.push(id) }),
    ).toEqual([undefined, good, undefined]);
    expect(unreadable).toEqual([bad.id]);
    expect(told).toMatchObject(named([bad.id]) as object[]);
  });

  it('comes back when it was corrected and is moved', async () => {
    const job = aJob({ partition });
    await store.createJobs([job]);
    await damage(jobKey(job.id), 'attempt', 'first');
    await expect
      .poll(
        async () =>
          (await store.readLine({ partition, line: lineOf(job), limit: 10 })).jobs.length + told.length,
      )
      .toBe(1);
    await damage(jobKey(job.id), 'attempt', 1);
    expect((await store.retimeJob({ job, runAtMs: NOW_MS + 5, nowMs: NOW_MS })).kind).toBe('moved');
    await expect
      .poll(async () => (await store.readDue({ partition, nowMs: NOW_MS + 5, limit: 10 })).jobs)
      .toHaveLength(1);
  });

  it('is no message to a worker', async () => {
    const job = aJob({ partition });
    await store.createJobs([job]);
    const request = aClaimRequest(job);
    await store.claim([request]);
    await damage(jobKey(job.id), 'fairnessKey', 7);
    const start = { ...aWorker(), jobId: job.id, claimId: request.claimId, nowMs: NOW_MS };
    for (let time = 0; time < 2; time += 1)
      expect(await store.startJob(start)).toEqual({ kind: 'superseded' });
    expect(told).toMatchObject(named([job.id]) as object[]);
  });

  it('neither stops the claims nor the promotions beside it', async () => {
    const jobs = [aJob({ partition }), aJob({ partition }), aJob({ partition })];
    const [, bad] = jobs as [Job, Job, Job];
    await store.createJobs(jobs);
    await damage(jobKey(bad.id), 'version', 'x');
    const requests = jobs.map((job) => aClaimRequest(job));
    expect(await store.claim(requests)).toEqual(['claimed', 'lost', 'claimed']);
    const due = [aScheduledJob(NOW_MS, { partition }), aScheduledJob(NOW_MS, { partition })];
    await store.createJobs(due);
    await damage(jobKey(due[0]?.id ?? ''), 'worker', 'w');
    const promoted = await store.promote({ jobs: due, nowMs: NOW_MS });
    expect(promoted.map((job) => job?.id)).toEqual([undefined, due[1]?.id]);
  });

  it('is started, failed and listed with its reason where only its content is wrong', async () => {
    const job = aJob({ partition });
    await store.createJobs([job]);
    await damage(jobKey(job.id), 'payload', '{');
    await damage(jobKey(job.id), 'workersLost', 'two');
    const held = await running(job);
    expect(held.unreadable).toContain('attribute payload');
    const error = { name: 'JobUnreadable', message: held.unreadable ?? '' };
    const verdict = { kind: 'failed', error } as const;
    const { workerId = '', incarnation = '' } = held.worker ?? {};
    const end = { workerId, incarnation, verdict, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS };
    expect((await store.finishJob({ ...end, job: held })).kind).toBe('finished');
    await expect
      .poll(async () => (await store.readDeadLetters({ partition, limit: 10 })).jobs)
      .toMatchObject([{ id: job.id, error, workersLost: 0, payload: null }]);
    expect(told).toEqual([]);
  });
});

describe("a partition's item that cannot be read", () => {
  const load = () => store.loadPartition({ partition, nowMs: NOW_MS });

  it('is a life without a slot, if it is a worker', async () => {
    const record = aWorkerRecord({ expiresAtMs: EXPIRES_AT_MS });
    await store.registerWorker({ partition, record });
    await damage(workerKey(partition, record.workerId), 'slots', 'four');
    const { workers } = await load();
    expect(workers).toMatchObject([{ workerId: record.workerId, slots: 0 }]);
    expect(workers[0]?.formerUntilMs).toBeGreaterThan(EXPIRES_AT_MS);
    await load();
    expect(told).toHaveLength(1);
    expect(await store.listUnreadable(partition)).toEqual(told);
    // The worker's next heartbeat says it anew.
    await store.heartbeat({ partition, record });
    expect((await load()).workers).toEqual([record]);
    expect(await store.listUnreadable(partition)).toEqual([]);
  });

  it('is a pause, if it is a control', async () => {
    await store.changeControl({ partition, scope: 'type/resize', change: { maxConcurrency: 3 } });
    await damage(controlKey(partition, 'type/resize'), 'maxConcurrency', 'three');
    expect((await load()).controls).toEqual([{ scope: 'type/resize', paused: true }]);
    expect(told).toHaveLength(1);
    await store.changeControl({ partition, scope: 'type/resize', change: { maxConcurrency: 4 } });
    expect((await load()).controls.map(settingsOf)).toEqual([
      { scope: 'type/resize', paused: false, maxConcurrency: 4 },
    ]);
  });

  it('stops every decision with its name and the way out, if it is a reservation', async () => {
    const reservation = aReservation([aJob({ partition })]);
    await store.commit({ partition, commit: aCommit({ reserve: [reservation] }) });
    const key = reservationKey(partition, reservation.batchId);
    await damage(key, 'j', '[');
    await expect(load()).rejects.toMatchObject({
      name: 'MalformedItemError',
      key: `${key.pk} ${key.sk}`,
      message: expect.stringContaining('Once none of them can be running, set its j to the text []'),
    });
  });

  it('stops every decision with its name and the way out, if it is a reservation that is gone, until it is there again', async () => {
    const jobs = Array.from({ length: 250 }, (_, at) => aJob({ partition, id: `${at}`.padStart(32, '0') }));
    const reservation = aReservation(jobs);
    await store.commit({ partition, commit: aCommit({ reserve: [reservation] }) });
    const [gone] = await itemsUnder(RESERVATION_PREFIX);
    await documents.send(new DeleteCommand({ TableName: table.table, Key: { pk: gone?.pk, sk: gone?.sk } }));
    const refused = {
      name: 'MalformedItemError',
      key: `${gone?.pk} ${gone?.sk}`,
      message: expect.stringMatching(/is missing.*restore it from a backup/),
    };
    for (const withoutLedgers of [false, true])
      await expect(store.loadPartition({ partition, nowMs: NOW_MS, withoutLedgers })).rejects.toMatchObject(
        refused,
      );
    const another = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
    await expect(another.commit({ partition, commit: aCommit({ version: 1 }) })).rejects.toMatchObject(
      refused,
    );
    await documents.send(new PutCommand({ TableName: table.table, Item: gone }));
    expect((await load()).reservations.map(({ jobs: held }) => held.size)).toEqual([250]);
    await damage({ pk: String(gone?.pk), sk: String(gone?.sk) }, 'j', '[]');
    expect((await load()).reservations).toEqual([]);
    expect(await another.commit({ partition, commit: aCommit({ version: 1 }) })).toBe('committed');
  });

  it('asks for nothing, if it is a request for a loan', async () => {
    await store.askForLoan({
      partition,
      request: { partition: 3, wants: [], askedAtMs: NOW_MS, untilMs: NOW_MS + 9 },
    });
    await damage(requestKey(partition, 3), 'wants', 'all');
    expect((await load()).requests).toEqual([]);
  });

  it('is as if it had never been known, if it is what a key was charged or what a job costs', async () => {
    const [ledger, estimate] = [aLedger({ fairnessKey: 'k' }), anEstimate({ type: 't', resourceId: 'r' })];
    await damage(ledgerKey(partition, ledger.fairnessKey), 'settledCostMs', 'much');
    await damage(estimateKey(partition, estimate.type, estimate.resourceId), 'samples', -1);
    expect(await store.getLedgers({ partition, fairnessKeys: ['k'] })).toEqual([undefined]);
    expect(await store.getEstimates({ partition, ids: [estimate] })).toEqual([undefined]);
    expect(told).toHaveLength(2);
  });
});

describe('other items that cannot be read', () => {
  it('of a key with backlog: others are served, and it is whole again with its next job', async () => {
    const lines = ['a', 'b'].map((fairnessKey) => lineOf(aJob({ fairnessKey })));
    await store.announceLines({ partition, lines, nowMs: NOW_MS });
    await damage(backlogKey(partition, SUITE_TYPE, 'a'), 'lines', 'all of them');
    const keys = async (): Promise<readonly string[]> =>
      (await store.readKeys({ partition, type: SUITE_TYPE, limit: 10 })).keys.map(
        ({ fairnessKey }) => fairnessKey,
      );
    await expect.poll(keys).toEqual(['b']);
    expect(await store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys: ['a', 'b'] })).toMatchObject(
      [undefined, { fairnessKey: 'b' }],
    );
    expect(told).toHaveLength(1);
    await store.announceLines({ partition, lines: lines.slice(0, 1), nowMs: NOW_MS + 1 });
    await expect.poll(keys).toEqual(['a', 'b']);
    expect(await store.listUnreadable(partition)).toEqual([]);
  });

  it('of a letter: everything is to be looked at, it can be deleted, and it is told of', async () => {
    for (const jobIds of [['a'], ['b']])
      await store.putLetter({ partition, letter: { jobIds }, nowMs: NOW_MS });
    const [first, second] = (await store.readLetters(partition)).letters;
    await damage({ pk: mailPk(partition), sk: first?.letterId ?? '' }, 'letter', 'all of them');
    const { letters } = await store.readLetters(partition);
    expect(letters).toEqual([{ letterId: first?.letterId, hints: [], jobIds: [], looksAtAll: true }, second]);
    expect(told).toHaveLength(1);
    await store.deleteLetters({ partition, letterIds: letters.map(({ letterId }) => letterId) });
    expect((await store.readLetters(partition)).letters).toEqual([]);
    expect(await store.listUnreadable(partition)).toEqual([]);
  });

  it('of a lock: it is held', async () => {
    const key = `lock-${partition}`;
    const job = aJob({ partition });
    await store.createJobs([job]);
    await store.claim([aClaimRequest(job, { claimId: '1-1.0', lock: { conflictKey: key, partition: 1 } })]);
    await damage(lockKey(key), 'jobId', 5);
    expect(await store.readLocks([key, 'free'])).toMatchObject([{ conflictKey: key, holder: {} }, undefined]);
    expect(
      await store.releaseLock({ conflictKey: key, partition: 1, claimId: '1-1.0', untilMs: NOW_MS }),
    ).toEqual({});
  });

  it('of a dispatcher: the others divide the partitions', async () => {
    const [one, other] = [aDispatcherRecord(), aDispatcherRecord({ dispatcherId: 'other' })];
    for (const record of [one, other]) await store.keepDispatcher(record);
    await damage(dispatcherKey('other'), 'leads', 'all');
    const found = await store.listDispatchers(0);
    expect(found.map(({ dispatcherId }) => dispatcherId)).toEqual([one.dispatcherId]);
    await documents.send(new DeleteCommand({ TableName: table.table, Key: dispatcherKey('other') }));
  });
});

describe('a pass', () => {
  it('starts all others, however often it comes', { timeout: WAIT_MS }, async () => {
    const on = await tableStage(
      resolveConfiguration({
        types: { resize: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 10 } },
      }),
      { unreadable: (item) => told.push(item) },
    );
    const jobs = Array.from({ length: 5 }, () => on.job());
    await on.put(jobs);
    await damage(jobKey(jobs[2]?.id ?? ''), 'mode', 'fast', on.table);
    const dispatcher = on.dispatcher();
    let admitted = 0;
    await expect
      .poll(
        async () => {
          admitted += (await on.pass(dispatcher)).admitted;
          return admitted;
        },
        { timeout: 20_000 },
      )
      .toBe(4);
    expect(told).toMatchObject(named([jobs[2]?.id ?? '']) as object[]);
    await on.drop();
  });
});
