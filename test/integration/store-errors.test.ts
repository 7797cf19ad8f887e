/** What the store says where it does not know, cannot do what it is asked, or reads what it cannot understand. `meddled-verbs.test.ts` loses each answer. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { noise } from '../fixtures/noise.ts';

const WAIT_MS = 60_000;

describe('a commit whose answer got lost', () => {
  let table: TestTable;
  let store: DynamoJobStore;
  let partition = 0;
  /** What happens once the next request was carried out, before it is sent again. */
  let meanwhile: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    table = await createTable();
    table.client.middlewareStack.add(
      (next) => async (args) => {
        const answer = await next(args);
        if (meanwhile === undefined) return answer;
        const happens = meanwhile;
        meanwhile = undefined;
        await happens();
        throw Object.assign(new Error('the answer got lost'), { name: 'TimeoutError', $metadata: {} });
      },
      { step: 'deserialize', name: 'loseAnswer', priority: 'low' },
    );
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  it('is not said to have changed nothing, where another one came before its answer', async () => {
    const other = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
    for (const others of [1, 2]) {
      partition += 1;
      await store.loadPartition({ partition, nowMs: NOW_MS });
      const commit = (version: number) =>
        aCommit({ version, reserve: [aReservation([aJob()], { version })] });
      meanwhile = async () => {
        for (let version = 1; version <= others; version += 1)
          expect(await other.commit({ partition, commit: commit(version) })).toBe('committed');
      };
      await expect(store.commit({ partition, commit: commit(0) })).rejects.toMatchObject({
        name: 'UnavailableError',
      });
      const { version, reservations } = await store.loadPartition({ partition, nowMs: NOW_MS });
      expect([version, reservations.length]).toEqual([1 + others, 1 + others]);
    }
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
    await expect(store.readLeader(0)).rejects.toMatchObject({ name: 'MisconfiguredError' });
    await expect(store.claim([aClaimRequest(aJob())])).rejects.toMatchObject({ name: 'MisconfiguredError' });
  });

  it('refuses what no item can hold, and changes nothing', async () => {
    const store = new DynamoJobStore({ ...table, place: suitePlace });
    const large = aJob({ payload: noise(700_000) });
    await expect(store.createJobs([large])).rejects.toMatchObject({ name: 'RefusedError' });
    expect(await store.getJobs({ ids: [large.id] })).toEqual([undefined]);
    const endless = aJob({ priority: Number.NaN });
    await expect(store.createJobs([endless])).rejects.toMatchObject({ name: 'RefusedError' });
  });

  it('refuses a cursor that is none', async () => {
    const store = new DynamoJobStore({ ...table, place: suitePlace });
    await expect(
      store.readDue({ partition: 0, nowMs: NOW_MS, limit: 1, after: 'nonsense' }),
    ).rejects.toMatchObject({ name: 'RefusedError' });
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
