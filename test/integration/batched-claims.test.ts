/** Claims that go out together: each has its own outcome, and what is unclear is asked for by itself. */
import type { BatchExecuteStatementCommandOutput, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import type { ClaimOutcome } from '../../lib/store/requests.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { lineOf } from '../fixtures/factories/ready-line.ts';

const WAIT_MS = 60_000;
const BATCH = 50;

type Meddle = (answer: BatchExecuteStatementCommandOutput) => BatchExecuteStatementCommandOutput;

/** Changes what the table answers to the next batches, once they have been carried out. */
function meddler(client: DynamoDBClient): {
  readonly meddle: (times: number, how: Meddle) => void;
  readonly asked: string[];
} {
  let left = 0;
  let change: Meddle = (answer) => answer;
  const asked: string[] = [];
  client.middlewareStack.add(
    (next, { commandName = '' }) =>
      async (args) => {
        asked.push(commandName);
        const answer = await next(args);
        if (left === 0 || commandName !== 'BatchExecuteStatementCommand') return answer;
        left -= 1;
        return { ...answer, output: change(answer.output as BatchExecuteStatementCommandOutput) };
      },
    { step: 'initialize', name: 'meddle', priority: 'high' },
  );
  return {
    meddle: (times, how) => {
      left = times;
      change = how;
    },
    asked,
  };
}

describe('claims that go out together', () => {
  let table: TestTable;
  let store: DynamoJobStore;
  let answers: ReturnType<typeof meddler>;

  beforeAll(async () => {
    table = await createTable();
    answers = meddler(table.client);
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  const waiting = async (count: number): Promise<readonly Job[]> => {
    const jobs = Array.from({ length: count }, () => aJob({ payload: { large: 'x'.repeat(2_000) } }));
    await store.createJobs(jobs);
    answers.asked.length = 0;
    return jobs;
  };
  const claimIds = async (jobs: readonly Job[]): Promise<readonly (string | undefined)[]> =>
    (await store.getJobs({ ids: jobs.map(({ id }) => id) })).map((job) => job?.claim?.claimId);
  const all = (outcome: ClaimOutcome, jobs: readonly Job[]): readonly ClaimOutcome[] =>
    jobs.map(() => outcome);

  it('take one request for 25 of them, and leave their lines', { timeout: WAIT_MS }, async () => {
    const jobs = await waiting(BATCH);
    const requests = jobs.map((job) => aClaimRequest(job));
    expect(await store.claim(requests)).toEqual(all('claimed', jobs));
    expect(answers.asked).toEqual(['BatchExecuteStatementCommand', 'BatchExecuteStatementCommand']);
    expect(await claimIds(jobs)).toEqual(requests.map(({ claimId }) => claimId));
    const ids = new Set(jobs.map(({ id }) => id));
    const [first] = jobs;
    if (first === undefined) throw new Error('no job');
    const { jobs: left } = await store.readLine({ partition: 0, line: lineOf(first), limit: 100 });
    expect(left.filter(({ id }) => ids.has(id))).toEqual([]);
  });

  it('are lost one by one', { timeout: WAIT_MS }, async () => {
    const jobs = await waiting(30);
    const faster = jobs.filter((_, at) => at % 3 === 0).map((job) => aClaimRequest(job));
    await store.claim(faster);
    const missing = aJob();
    const outcomes = await store.claim([...jobs, missing].map((job) => aClaimRequest(job)));
    expect(outcomes).toEqual([...jobs.map((_, at) => (at % 3 === 0 ? 'lost' : 'claimed')), 'lost']);
    expect(await store.getJobs({ ids: [missing.id] })).toEqual([undefined]);
  });

  it('are known to be won when they come again, though their first answer got lost', async () => {
    const jobs = await waiting(10);
    const requests = jobs.map((job) => aClaimRequest(job));
    answers.meddle(1, () => {
      throw Object.assign(new Error('the answer got lost'), { name: 'TimeoutError', $metadata: {} });
    });
    expect(await store.claim(requests)).toEqual(all('claimed', jobs));
    expect(await claimIds(jobs)).toEqual(requests.map(({ claimId }) => claimId));
  });

  it.each(['InternalServerError', 'ThrottlingError', 'TransactionConflict', 'ProvisionedThroughputExceeded'])(
    'are asked for by themselves when the table answers %s',
    async (Code) => {
      const jobs = await waiting(6);
      const rival = jobs[4];
      if (rival === undefined) throw new Error('no job');
      const won = aClaimRequest(rival);
      await store.claim([won]);
      answers.asked.length = 0;
      // The second was applied, whatever the table says; of the fifth, another dispatcher was faster.
      answers.meddle(1, (answer) => ({
        ...answer,
        Responses: answer.Responses?.map((each, at) =>
          at === 1 || at === 4 ? { Error: { Code } as never } : each,
        ),
      }));
      const requests = jobs.map((job) => aClaimRequest(job));
      expect(await store.claim(requests)).toEqual(jobs.map((_, at) => (at === 4 ? 'lost' : 'claimed')));
      expect(answers.asked.filter((command) => command === 'UpdateItemCommand')).toHaveLength(2);
      expect(await claimIds(jobs)).toEqual(
        requests.map(({ claimId }, at) => (at === 4 ? won.claimId : claimId)),
      );
    },
  );

  it('are asked for by themselves when answers are missing', async () => {
    const jobs = await waiting(4);
    answers.meddle(1, (answer) => ({ ...answer, Responses: answer.Responses?.slice(0, 2) }));
    expect(await store.claim(jobs.map((job) => aClaimRequest(job)))).toEqual(all('claimed', jobs));
  });
});
