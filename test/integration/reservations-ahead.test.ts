/** Reservations whose items are put before the page that names them: what nobody has named holds nothing, whoever died or came late. */
import { type DynamoDBClient, QueryCommand } from '@aws-sdk/client-dynamodb';
import {
  QueryCommand as DocumentQuery,
  DynamoDBDocumentClient,
  GetCommand,
  type QueryCommandOutput,
} from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { decodePage } from '../../lib/store/dynamodb/codec/page.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import type { Page } from '../../lib/store/page.ts';
import type { Reservation } from '../../lib/store/records.ts';
import type { Commit, CommitOutcome } from '../../lib/store/requests.ts';
import { pageKey, partitionPk, RESERVATION_PREFIX } from '../../lib/store/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';

const WAIT_MS = 60_000;

type Fate =
  /** It is not sent. */
  | 'unsent'
  /** It is carried out, and its answer gets lost. */
  | 'unanswered'
  | undefined;

/** What is put: the page, or a reservation. */
type Kind = 'page' | 'item';

interface Meddling {
  /** Before a put; what becomes of it. */
  put: ((kind: Kind) => Promise<Fate> | Fate) | undefined;
  /** Reservations that the next queries leave out, one after the other. */
  readonly leftOut: string[];
}

const failure = (): Error => Object.assign(new Error('no answer'), { name: 'TimeoutError', $metadata: {} });

function meddlingWith(client: DynamoDBClient): Meddling {
  const meddling: Meddling = { put: undefined, leftOut: [] };
  client.middlewareStack.add(
    (send, { commandName = '' }) =>
      async (args) => {
        const body = Buffer.from((args.request as { readonly body: Uint8Array }).body).toString();
        const sk = /"sk":\{"S":"(page|reservation)/.exec(body)?.[1];
        const isPut = /^PutItem/.test(commandName) && sk !== undefined;
        const fate = isPut ? await meddling.put?.(sk === 'page' ? 'page' : 'item') : undefined;
        if (fate === 'unsent') throw failure();
        const answer = await send(args);
        if (fate === 'unanswered') throw failure();
        return answer;
      },
    { step: 'deserialize', name: 'meddle', priority: 'low' },
  );
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const found = await next(args);
        const output = found.output as QueryCommandOutput;
        if (commandName !== QueryCommand.name || meddling.leftOut.length === 0) return found;
        const left = meddling.leftOut.shift();
        output.Items = output.Items?.filter(({ sk }) => sk !== `${RESERVATION_PREFIX}${left}`);
        return found;
      },
    { step: 'initialize', name: 'leaveOut' },
  );
  return meddling;
}

describe('a reservation whose item is put before the page', () => {
  let table: TestTable;
  let documents: DynamoDBDocumentClient;
  let meddling: Meddling;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable({ maxAttempts: 2 });
    documents = DynamoDBDocumentClient.from(table.client);
    meddling = meddlingWith(table.client);
  }, WAIT_MS);
  afterAll(() => table?.drop());

  const process = (): DynamoJobStore =>
    new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });

  beforeEach(async () => {
    partition += 1;
    meddling.put = undefined;
    meddling.leftOut.length = 0;
    expect(await commit(process(), 0)).toBe('committed');
  });

  const commit = (
    store: DynamoJobStore,
    version: number,
    changes: Partial<Commit> = {},
  ): Promise<CommitOutcome> => store.commit({ partition, commit: aCommit({ version, ...changes }) });

  /** Too large for the page. */
  const large = (id: string, jobs = 250): Reservation =>
    aReservation(
      Array.from({ length: jobs }, (_, at) => ({ id: `${id}-${at}`.padStart(32, '0') })),
      { batchId: `1-${id}` },
    );

  const held = async (store = process()): Promise<readonly Reservation[]> =>
    (await store.loadPartition({ partition, nowMs: NOW_MS })).reservations;

  const items = async (): Promise<readonly string[]> => {
    const { Items = [] } = await documents.send(
      new DocumentQuery({
        TableName: table.table,
        KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
        ExpressionAttributeValues: { ':pk': partitionPk(partition), ':prefix': RESERVATION_PREFIX },
        ConsistentRead: true,
      }),
    );
    return Items.map(({ sk }) => String(sk).slice(RESERVATION_PREFIX.length));
  };

  const page = async (): Promise<Page> => {
    const { Item = {} } = await documents.send(
      new GetCommand({ TableName: table.table, Key: pageKey(partition), ConsistentRead: true }),
    );
    return decodePage(Item);
  };

  it('is written with two puts, and no transaction; and read, settled and taken away as any other', async () => {
    const store = process();
    const [one, two] = [large('a'), large('b')];
    const puts: Kind[] = [];
    meddling.put = (kind) => void puts.push(kind);
    expect(await commit(store, 1, { reserve: [one, two] })).toBe('committed');
    expect(puts).toEqual(['item', 'item', 'page']);
    expect(await held()).toEqual([one, two]);
    const positions = [...one.jobs.keys()];
    await commit(store, 2, { drop: [{ reservation: one, positions }] });
    expect(await held()).toEqual([two]);
    const { named, batches } = await page();
    expect([named, batches]).toEqual([new Set([two.batchId]), new Map()]);
    await store.tidy(partition);
    expect(await items()).toEqual([two.batchId]);
    const [first, ...others] = [...two.jobs.keys()];
    await commit(store, 3, { drop: [{ reservation: two, positions: others }] });
    expect((await held())[0]?.jobs).toEqual(new Map([...two.jobs].slice(0, 1)));
    await commit(store, 4, { drop: [{ reservation: two, positions: [first ?? 0] }] });
    await store.tidy(partition);
    expect([await held(), await items()]).toEqual([[], []]);
    expect((await page()).named).toEqual(new Set());
  });

  it('holds nothing if its dispatcher dies before the page, and goes once the version is a later one, not before', async () => {
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(process(), 1, { reserve: [large('a')] })).rejects.toMatchObject({
      name: 'StoreUnavailable',
    });
    meddling.put = undefined;
    expect(await items()).toEqual(['1-a']);
    const store = process();
    expect(await held(store)).toEqual([]);
    // A page that names it may still come, as far as the table tells.
    await store.tidy(partition);
    expect(await items()).toEqual(['1-a']);
    expect(await commit(store, 1, { reserve: [large('b')] })).toBe('committed');
    await store.tidy(partition);
    expect([await items(), await held()]).toEqual([['1-b'], [large('b')]]);
  });

  it('is taken away by a process that loads the partition after another commit', async () => {
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(process(), 1, { reserve: [large('a')] })).rejects.toThrow();
    meddling.put = undefined;
    await commit(process(), 1);
    const store = process();
    expect(await held(store)).toEqual([]);
    await store.tidy(partition);
    expect(await items()).toEqual([]);
  });

  it('is void if another commit comes first, and the page is refused', async () => {
    const [slow, fast] = [process(), process()];
    let puts = 0;
    meddling.put = async () => {
      puts += 1;
      if (puts === 1) expect(await commit(fast, 1, { reserve: [large('b')] })).toBe('committed');
    };
    expect(await commit(slow, 1, { reserve: [large('a')] })).toBe('lost');
    expect(await items()).toEqual(['1-a', '1-b']);
    const reader = process();
    expect(await held(reader)).toEqual([large('b')]);
    await reader.tidy(partition);
    expect(await items()).toEqual(['1-b']);
  });

  it('is taken up by a process that makes the same commit again', async () => {
    const store = process();
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(store, 1, { reserve: [large('a')] })).rejects.toThrow();
    meddling.put = undefined;
    expect([await items(), await held()]).toEqual([['1-a'], []]);
    expect(await commit(store, 1, { reserve: [large('a')] })).toBe('committed');
    expect(await held()).toEqual([large('a')]);
  });

  it('is not put over another one of its number that follows the same version, or a later one', async () => {
    const other = { ...large('other'), batchId: '1-a' };
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(process(), 1, { reserve: [large('a')] })).rejects.toThrow();
    meddling.put = undefined;
    expect(await commit(process(), 1, { reserve: [other] })).toBe('lost');
    await commit(process(), 1);
    expect(await commit(process(), 2, { reserve: [large('a')] })).toBe('committed');
    expect(await held()).toEqual([large('a')]);
  });

  it('of one that the page has settled places of gets fewer places from no late put', async () => {
    const [slow, store] = [process(), process()];
    const made = Array.from({ length: 200 }, (_, at) => large(`${100 + at}`, 3));
    for (let from = 0; from < 200; from += 40)
      await commit(store, 1 + from / 40, { reserve: made.slice(from, from + 40) });
    let version = 6;
    const meant = new Map(made.map((each) => [each.batchId, each]));
    /** Settles a place of each of some, so that what the page says of the first ones goes into their items. */
    const settle = (from: number, place: number) => {
      const drop = made.slice(from, from + 40).map(({ batchId }) => {
        const reservation = meant.get(batchId) ?? large('none');
        return { reservation, positions: [place] };
      });
      return { drop };
    };
    const count = (from: number, place: number): void => {
      version += 1;
      for (const { batchId } of made.slice(from, from + 40)) {
        const { jobs, ...others } = meant.get(batchId) ?? large('none');
        meant.set(batchId, { ...others, jobs: new Map([...jobs].filter(([at]) => at !== place)) });
      }
    };
    const byId = (all: readonly Reservation[]) => new Map(all.map((each) => [each.batchId, each]));
    for (const [from, place] of [
      [0, 0],
      [40, 0],
    ] as const) {
      await commit(store, version, settle(from, place));
      count(from, place);
    }
    // One that comes too late puts the items of the first ones, after others have put them with fewer places still.
    await slow.loadPartition({ partition, nowMs: NOW_MS });
    let puts = 0;
    meddling.put = async () => {
      puts += 1;
      if (puts > 1) return;
      meddling.put = undefined;
      for (const [from, place] of [
        [80, 0],
        [0, 1],
        [40, 1],
        [80, 1],
      ] as const) {
        expect(await commit(store, version, settle(from, place))).toBe('committed');
        count(from, place);
      }
      // What is said of others takes the room of what is said of these, which their items say then.
      for (const from of [120, 160, 120, 160]) {
        const checkAtMs = NOW_MS + version;
        const later = made.slice(from, from + 40).map(({ batchId }) => meant.get(batchId) ?? large('none'));
        const postpone = later.map((reservation) => ({ reservation, checkAtMs }));
        expect(await commit(store, version, { postpone })).toBe('committed');
        version += 1;
        for (const each of later) meant.set(each.batchId, { ...each, checkAtMs });
      }
    };
    expect(await commit(slow, version, settle(80, 0))).toBe('lost');
    expect(puts).toBe(1);
    expect(byId(await held())).toEqual(meant);
    expect(await commit(store, version)).toBe('committed');
    expect(byId(await held())).toEqual(meant);
  });

  it.each<Kind>(['item', 'page'])('is committed once, though the answer of its %s got lost', async (lost) => {
    let puts = 0;
    meddling.put = (kind) => {
      if (kind !== lost) return undefined;
      puts += 1;
      return puts === 1 ? 'unanswered' : undefined;
    };
    expect(await commit(process(), 1, { reserve: [large('a')] })).toBe('committed');
    expect(puts).toBe(2);
    expect([await held(), (await page()).version]).toEqual([[large('a')], 2]);
  });

  it('leaves the page as it is where it is not known whether its item is there', async () => {
    const puts: Kind[] = [];
    meddling.put = (kind) => {
      puts.push(kind);
      return 'unanswered';
    };
    const reserve = [large('a'), large('b')];
    await expect(commit(process(), 1, { reserve })).rejects.toMatchObject({ name: 'StoreUnavailable' });
    expect(puts).toEqual(['item', 'item', 'item', 'item']);
    meddling.put = undefined;
    expect([await held(), (await page()).version]).toEqual([[], 1]);
  });

  it('counts for a reader only once the page names it', async () => {
    const seen: number[] = [];
    meddling.put = async (kind) => {
      if (kind !== 'page') return;
      const reader = process();
      seen.push((await held(reader)).length);
      await reader.tidy(partition);
    };
    await commit(process(), 1, { reserve: [large('a')] });
    seen.push((await held()).length);
    expect(seen).toEqual([0, 1]);
  });

  it('is read again where the page names it and it was not read; where it stays away, it is gone', async () => {
    await commit(process(), 1, { reserve: [large('a'), large('b')] });
    meddling.leftOut.push('1-a', '1-b');
    expect(await held()).toEqual([large('a'), large('b')]);
    expect(meddling.leftOut).toEqual([]);
    meddling.leftOut.push(...Array.from({ length: 5 }, () => '1-a'));
    expect(await held()).toEqual([large('b')]);
    expect(meddling.leftOut).toEqual([]);
  });

  it('is one of a thousand, all of which the page names', async () => {
    const store = process();
    const made: Reservation[] = [];
    let version = 1;
    for (let round = 0; round < 30; round += 1, version += 1) {
      const reserve = Array.from({ length: 40 }, (_, at) => large(`${100 + round}-${100 + at}`, 3));
      made.push(...reserve);
      expect(await commit(store, version, { reserve })).toBe('committed');
    }
    const { named, inline } = await page();
    expect(named.size + inline.size).toBe(made.length);
    const byId = (all: readonly Reservation[]) => new Map(all.map((each) => [each.batchId, each]));
    const reader = process();
    expect(byId(await held(reader))).toEqual(byId(made));
    for (let from = 0; from < made.length; from += 300, version += 1) {
      const drop = made.slice(from, from + 50).map((reservation) => ({ reservation, positions: [0, 1, 2] }));
      expect(await commit(reader, version, { drop })).toBe('committed');
      await reader.tidy(partition);
    }
    const left = made.filter((_, at) => at % 300 >= 50);
    expect(byId(await held())).toEqual(byId(left));
    expect((await items()).length + (await page()).inline.size).toBe(left.length);
  }, 120_000);
});
