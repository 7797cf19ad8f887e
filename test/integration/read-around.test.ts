/** A table's partition that is read around the reservations which are known: what its reads hold, and what happens between them. */
import { type DynamoDBClient, QueryCommand, type QueryCommandOutput } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import type { PartitionState, Reservation } from '../../lib/store/records.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';

const WAIT_MS = 60_000;

/** Lets something happen before, or behind, one of the next queries. */
interface Between {
  /** Queries since it was last set to 0. */
  queries: number;
  items: number;
  act:
    | { readonly at: number; readonly when: 'before' | 'behind'; readonly what: () => Promise<unknown> }
    | undefined;
}

function betweenQueries(client: DynamoDBClient): Between {
  const between: Between = { queries: 0, items: 0, act: undefined };
  let turn: Promise<unknown> = Promise.resolve();
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        if (commandName !== QueryCommand.name) return next(args);
        // One after the other, in the order in which they were sent.
        const answer = turn.then(async () => {
          const { act } = between;
          const isIts = act?.at === between.queries;
          between.queries += 1;
          if (isIts) between.act = undefined;
          if (isIts && act?.when === 'before') await act.what();
          const found = await next(args);
          between.items += (found.output as QueryCommandOutput).Items?.length ?? 0;
          if (isIts && act?.when === 'behind') await act.what();
          return found;
        });
        turn = answer.catch(() => undefined);
        return answer;
      },
    { step: 'initialize', name: 'betweenQueries' },
  );
  return between;
}

describe('a partition that is read around its reservations', () => {
  let table: TestTable;
  let between: Between;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
    between = betweenQueries(table.client);
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  const aLongReservation = (): Reservation => {
    const { batchId } = aReservation();
    return aReservation(Array.from({ length: 50 }, (_, at) => ({ id: `${batchId}-job-${at}` })));
  };
  const process = (): DynamoJobStore =>
    new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  const load = (store: DynamoJobStore, knownTurn?: number): Promise<PartitionState> =>
    store.loadPartition({ partition, nowMs: NOW_MS, knownTurn });

  async function setting() {
    partition += 1;
    const [store, another, witness] = [process(), process(), process()];
    await store.lead({ partition, holder: 'one', nowMs: NOW_MS, untilMs: NOW_MS + 60_000 });
    for (let version = 0; version < 4; version += 1)
      await store.commit({
        partition,
        commit: aCommit({ version, reserve: [1, 2, 3, 4, 5].map(aLongReservation) }),
      });
    await load(another);
    const before = await load(store);
    Object.assign(between, { queries: 0, items: 0 });
    const commitsElsewhere = () =>
      another.commit({
        partition,
        commit: aCommit({ version: 4, reserve: [aLongReservation(), aLongReservation()] }),
      });
    return { store, witness, before, commitsElsewhere };
  }

  it('is read without them, and answered with them', async () => {
    const { store, before } = await setting();
    await load(store);
    // Some stand in the page.
    expect(between.queries).toBe(1);
    expect(between.items).toBeGreaterThan(2 + before.reservations.length / 2);
    Object.assign(between, { queries: 0, items: 0 });
    expect(await load(store, before.version)).toEqual(before);
    // The leader, and the page.
    expect(between).toMatchObject({ queries: 2, items: 2 });
  });

  it.each([
    [0, 'before', 'after'],
    [0, 'behind', 'before'],
    [1, 'behind', 'before'],
  ] as const)(
    'while another process commits (query %i, %s) is as it was at one version',
    async (at, when, shows) => {
      const { store, witness, before, commitsElsewhere } = await setting();
      between.act = { at, when, what: commitsElsewhere };
      const loaded = await load(store, before.version);
      expect(between.act).toBeUndefined();
      const after = await load(witness);
      expect(loaded).toEqual(shows === 'before' ? before : after);
      // Nothing can be committed on what was there before, and the next load shows what is.
      if (shows === 'before') {
        const commit = aCommit({ version: loaded.version, reserve: [aLongReservation()] });
        expect(await store.commit({ partition, commit })).toBe('lost');
      }
      expect(await load(store, before.version)).toEqual(after);
    },
  );

  it.each([
    [0, 'before'],
    [0, 'behind'],
    [1, 'behind'],
  ] as const)('while its own process commits (query %i, %s) shows what was committed', async (at, when) => {
    const { store, witness, before } = await setting();
    const commit = aCommit({ version: before.version, reserve: [aLongReservation()] });
    between.act = { at, when, what: () => store.commit({ partition, commit }) };
    const loaded = await load(store, before.version);
    expect(loaded).toEqual(await load(witness));
    expect(await load(store, before.version + 1)).toEqual(loaded);
  });

  it.each([
    ['of its item', 1, 0],
    ['of its page', 2, 1],
  ] as const)('after a commit whose answer got lost, %s, shows what became of it', async (_, lost, made) => {
    const { store, witness, before } = await setting();
    let answers = 0;
    table.client.middlewareStack.add(
      (next) => async (args) => {
        const answer = await next(args);
        answers += 1;
        if (answers === lost)
          throw Object.assign(new Error('lost'), { name: 'ValidationException', $metadata: {} });
        return answer;
      },
      { step: 'deserialize', name: 'loseAnswers', priority: 'low', override: true },
    );
    const commit = aCommit({ version: before.version, reserve: [aLongReservation()] });
    await expect(store.commit({ partition, commit })).rejects.toThrow('lost');
    for (const version of [before.version, before.version + 1]) {
      const loaded = await load(store, version);
      expect(loaded.reservations).toHaveLength(before.reservations.length + made);
      expect(loaded).toEqual(await load(witness));
    }
  });
});
