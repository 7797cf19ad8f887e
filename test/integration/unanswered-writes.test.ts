/** The answer of a write gets lost after it was applied, and the SDK sends it again. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { aJob, aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { aWorker, aWorkerRecord } from '../fixtures/factories/worker.ts';
import { noise } from '../fixtures/noise.ts';

const EXPIRES_AT_MS = NOW_MS + 3_600_000;
const WAIT_MS = 60_000;
const WORKER = aWorker();

/** Loses the answer to the next request, once it has been carried out. */
function answerLoser(client: DynamoDBClient) {
  let armed = false;
  let lost = 0;
  /** What happens before the request is sent again. */
  const during: { meanwhile: (() => Promise<void>) | undefined } = { meanwhile: undefined };
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args);
      if (!armed) return answer;
      armed = false;
      lost += 1;
      const { meanwhile } = during;
      during.meanwhile = undefined;
      await meanwhile?.();
      throw Object.assign(new Error('the answer got lost'), { name: 'TimeoutError', $metadata: {} });
    },
    { step: 'deserialize', name: 'loseAnswer', priority: 'low' },
  );
  return Object.assign(during, {
    loseNext: () => {
      armed = true;
    },
    lost: () => lost,
  });
}

describe('a write whose answer got lost', () => {
  let table: TestTable;
  let store: DynamoJobStore;
  let answers: ReturnType<typeof answerLoser>;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
    answers = answerLoser(table.client);
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  /** Carries out one verb, whose first answer gets lost. */
  async function unanswered<T>(verb: () => Promise<T>): Promise<T> {
    const before = answers.lost();
    answers.loseNext();
    const outcome = await verb();
    expect(answers.lost()).toBe(before + 1);
    return outcome;
  }

  async function running(): Promise<Job> {
    const job = aJob();
    await store.createJobs([job]);
    const request = aClaimRequest(job);
    await store.claim([request]);
    const outcome = await store.startJob({
      ...WORKER,
      jobId: job.id,
      claimId: request.claimId,
      nowMs: NOW_MS,
    });
    if (outcome.kind !== 'started') throw new Error('not started');
    return outcome.job;
  }

  it('creates the job once', async () => {
    const job = aJob();
    expect(await unanswered(() => store.createJobs([job]))).toEqual([{ kind: 'repeated', job }]);
  });

  it('takes the lead of a partition and ends it, and knows that it leads', async () => {
    partition += 1;
    const lead = { partition, holder: 'one', nowMs: NOW_MS, untilMs: NOW_MS + 1_000 };
    for (let times = 0; times < 2; times += 1)
      expect(await unanswered(() => store.lead(lead))).toEqual({ kind: 'leading' });
    await unanswered(() => store.stopLeading({ partition, holder: 'one' }));
    expect(await store.readLeader(partition)).toBeUndefined();
  });

  it('puts a letter under one name, and deletes it', async () => {
    partition += 1;
    await unanswered(() => store.putLetter({ partition, letter: { jobIds: ['one'] }, nowMs: NOW_MS }));
    const { letters } = await store.readLetters(partition);
    expect(letters.map(({ jobIds }) => jobIds)).toEqual([['one']]);
    const letterIds = letters.map(({ letterId }) => letterId);
    await unanswered(() => store.deleteLetters({ partition, letterIds }));
    expect((await store.readLetters(partition)).letters).toEqual([]);
  });

  it('keeps and ends the membership of a dispatcher', async () => {
    const record = aDispatcherRecord();
    expect(await unanswered(() => store.keepDispatcher(record))).toBe('applied');
    expect(await store.listDispatchers(NOW_MS)).toEqual([record]);
    expect(await unanswered(() => store.removeDispatcher(record))).toBe('applied');
    expect(await store.listDispatchers(NOW_MS)).toEqual([]);
  });

  it('commits once', async () => {
    partition += 1;
    const reservation = aReservation([aJob()]);
    const commit = aCommit({ reserve: [reservation], ledgers: [aLedger()] });
    await store.loadPartition({ partition, nowMs: NOW_MS });
    expect(await unanswered(() => store.commit({ partition, commit }))).toBe('committed');
    const { version, reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
    expect([version, reservations]).toEqual([1, [reservation]]);
  });

  it('does not say of a commit that it changed nothing, where another one came before its answer', async () => {
    const other = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
    for (const others of [1, 2]) {
      partition += 1;
      await store.loadPartition({ partition, nowMs: NOW_MS });
      const commit = (version: number) =>
        aCommit({ version, reserve: [aReservation([aJob()], { version })] });
      answers.meanwhile = async () => {
        for (let version = 1; version <= others; version += 1)
          expect(await other.commit({ partition, commit: commit(version) })).toBe('committed');
      };
      await expect(unanswered(() => store.commit({ partition, commit: commit(0) }))).rejects.toMatchObject({
        name: 'StoreUnavailable',
      });
      const { version, reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect([version, reservations.length]).toEqual([1 + others, 1 + others]);
    }
  });

  it('parks once', async () => {
    partition += 1;
    const jobs = [aJob({ partition }), aJob({ partition })];
    await store.createJobs(jobs);
    await store.commit({ partition, commit: aCommit({ parks: true }) });
    const park = { partition, version: 1, jobs, conflictKey: 'album/cats' };
    expect(await unanswered(() => store.park(park))).toEqual({
      kind: 'parked',
      version: 2,
      outcomes: ['applied', 'applied'],
    });
    expect((await store.loadPartition({ partition, nowMs: NOW_MS })).version).toBe(2);
  });

  it('claims, and knows that the claim was won', async () => {
    const job = aJob();
    await store.createJobs([job]);
    expect(await unanswered(() => store.claim([aClaimRequest(job)]))).toEqual(['claimed']);
  });

  it('starts, and answers the job with its payload', async () => {
    const job = aJob({ payload: { deep: [1] } });
    await store.createJobs([job]);
    const request = aClaimRequest(job);
    await store.claim([request]);
    const outcome = await unanswered(() =>
      store.startJob({ ...WORKER, jobId: job.id, claimId: request.claimId, nowMs: NOW_MS }),
    );
    expect(outcome).toMatchObject({ kind: 'started', job: { payload: { deep: [1] }, version: 3 } });
  });

  it.each<readonly [Verdict]>([
    [{ kind: 'succeeded', result: 1 }],
    [{ kind: 'failed', error: { name: 'E', message: 'm' } }],
    [{ kind: 'retry', error: { name: 'E', message: 'm' }, runAtMs: NOW_MS + 5 }],
  ])('ends an attempt once: %o', async (verdict) => {
    const job = await running();
    const finish = { ...WORKER, job, verdict, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS };
    const outcome = await unanswered(() => store.finishJob(finish));
    expect(outcome).toEqual({ kind: 'finished', job: (await store.getJobs({ ids: [job.id] }))[0] });
    expect(outcome).toMatchObject({ job: { version: job.version + 1, workersLost: 0 } });
  });

  it('loses a worker once', async () => {
    const job = await running();
    const verdict: Verdict = {
      kind: 'retry',
      error: { name: 'WorkerLost', message: '' },
      runAtMs: NOW_MS,
    };
    const outcome = await unanswered(() =>
      store.loseWorker({ job, verdict, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
    );
    expect(outcome).toMatchObject({ kind: 'finished', job: { workersLost: 1, attempt: 1 } });
  });

  it('raises a version once', async () => {
    const job = aJob();
    await store.createJobs([job]);
    expect(await unanswered(() => store.raiseVersion({ jobId: job.id, version: 1 }))).toBe('raised');
    expect((await store.getJobs({ ids: [job.id] }))[0]?.version).toBe(2);
  });

  it('promotes once; that the answer is lost reads as a lost race', async () => {
    const job = aScheduledJob(NOW_MS);
    await store.createJobs([job]);
    expect(await unanswered(() => store.promote({ jobs: [job], nowMs: NOW_MS }))).toEqual([undefined]);
    expect((await store.getJobs({ ids: [job.id] }))[0]).toMatchObject({ state: 'pending', version: 2 });
  });

  it('cancels once', async () => {
    const job = aJob();
    await store.createJobs([job]);
    const outcome = await unanswered(() =>
      store.cancelJob({ jobId: job.id, nowMs: NOW_MS, expiresAtMs: EXPIRES_AT_MS }),
    );
    expect(outcome).toMatchObject({ kind: 'cancelled', job: { state: 'cancelled', version: 2 } });
  });

  it('moves once', async () => {
    const job = aJob();
    await store.createJobs([job]);
    const outcome = await unanswered(() => store.retimeJob({ job, runAtMs: NOW_MS + 60_000, nowMs: NOW_MS }));
    expect(outcome).toMatchObject({ kind: 'moved', job: { state: 'scheduled', version: 2 } });
  });

  it('registers, renews and takes away a worker', async () => {
    partition += 1;
    const record = aWorkerRecord();
    expect(await unanswered(() => store.registerWorker({ partition, record }))).toBe('applied');
    expect(await unanswered(() => store.heartbeat({ partition, record }))).toBe('applied');
    expect(await unanswered(() => store.deregisterWorker({ partition, worker: record }))).toBe('applied');
    expect((await store.loadPartition({ partition, nowMs: NOW_MS })).workers).toEqual([]);
  });

  it('redrives once', async () => {
    const dead = await running();
    const verdict: Verdict = { kind: 'failed', error: { name: 'E', message: '' } };
    const failed = await store.finishJob({
      ...WORKER,
      job: dead,
      verdict,
      nowMs: NOW_MS,
      expiresAtMs: EXPIRES_AT_MS,
    });
    if (failed.kind !== 'finished') throw new Error('not finished');
    const job = aJob({ redriveOf: dead.id });
    expect(await unanswered(() => store.redrive({ deadLetter: failed.job, job }))).toBe('applied');
    expect(await store.redrive({ deadLetter: failed.job, job })).toBe('applied');
    expect(await store.redrive({ deadLetter: failed.job, job: aJob() })).toBe('superseded');
    expect(await store.getJobs({ ids: [dead.id, job.id] })).toEqual([
      { ...failed.job, redrivenAs: job.id, redrivenAtMs: job.submittedAtMs },
      job,
    ]);
  });

  it('retires a line once', async () => {
    partition += 1;
    const line = { type: 'a', mode: 'queued', fairnessKey: 'k' } as const;
    await store.announceLines({ partition, lines: [line, { ...line, type: 'b' }], nowMs: NOW_MS });
    expect(await unanswered(() => store.retireLine({ partition, line, announcedAtMs: NOW_MS }))).toBe(
      'retired',
    );
    expect((await store.readKeys({ partition, type: 'a', limit: 10 })).keys).toEqual([]);
    const left = await store.readKeys({ partition, type: 'b', limit: 10 });
    expect(left.keys).toMatchObject([
      { fairnessKey: 'k', lines: [{ mode: 'queued' }], announcedAtMs: NOW_MS },
    ]);
  });
});

describe('a store that cannot be reached or used', () => {
  let table: TestTable;
  beforeAll(async () => {
    table = await createTable();
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  it('says that the table is missing', async () => {
    const store = new DynamoJobStore({ client: table.client, table: 'fairlead-none', place: suitePlace });
    await expect(store.readLeader(0)).rejects.toMatchObject({ name: 'StoreMisconfigured' });
    await expect(store.claim([aClaimRequest(aJob())])).rejects.toMatchObject({ name: 'StoreMisconfigured' });
  });

  it('refuses what no item can hold, and changes nothing', async () => {
    const store = new DynamoJobStore({ ...table, place: suitePlace });
    const large = aJob({ payload: noise(700_000) });
    await expect(store.createJobs([large])).rejects.toMatchObject({ name: 'ItemTooLarge' });
    expect(await store.getJobs({ ids: [large.id] })).toEqual([undefined]);
    const endless = aJob({ priority: Number.NaN });
    await expect(store.createJobs([endless])).rejects.toMatchObject({ name: 'StoreRefused' });
  });

  it('refuses a cursor that is none', async () => {
    const store = new DynamoJobStore({ ...table, place: suitePlace });
    await expect(
      store.readDue({ partition: 0, nowMs: NOW_MS, limit: 1, after: 'nonsense' }),
    ).rejects.toMatchObject({ name: 'StoreRefused' });
  });

  it('names the item and the attribute that are malformed', async () => {
    const store = new DynamoJobStore({ ...table, place: suitePlace });
    const job = aJob({ priority: 'high' as unknown as number });
    await store.createJobs([job]);
    await expect(store.getJobs({ ids: [job.id] })).rejects.toMatchObject({
      name: 'MalformedItemError',
      key: `job/${job.id} job`,
      attribute: 'priority',
    });
  });
});
