/** Reservations whose items are put before the page that names them: what nobody has named holds nothing, whoever died or came late. */
import { type DynamoDBClient, QueryCommand } from '@aws-sdk/client-dynamodb';
import {
  QueryCommand as DocumentQuery,
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  type QueryCommandOutput,
} from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { NAMES_BYTES_MAX } from '../../lib/store/bounds.ts';
import { decodePage, encodePage } from '../../lib/store/dynamodb/codec/page.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import type { Page } from '../../lib/store/page.ts';
import type { Fence, Reservation } from '../../lib/store/records.ts';
import { pageKey, partitionPk, RESERVATION_PREFIX } from '../../lib/store/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';

const WAIT_MS = 60_000;
const LEASE_MS = 1_000;

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
  let fence: Fence;

  beforeAll(async () => {
    table = await createTable({ maxAttempts: 2 });
    documents = DynamoDBDocumentClient.from(table.client);
    meddling = meddlingWith(table.client);
  }, WAIT_MS);
  afterAll(() => table?.drop());

  const process = (): DynamoJobStore =>
    new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });

  const leased = async (store: DynamoJobStore, holder: string, nowMs = NOW_MS): Promise<Fence> => {
    const outcome = await store.acquireLease({ partition, holder, nowMs, leaseMs: LEASE_MS });
    expect(outcome.kind).toBe('acquired');
    return { partition, epoch: outcome.epoch };
  };

  // A page that says which items count.
  beforeEach(async () => {
    partition += 1;
    meddling.put = undefined;
    meddling.leftOut.length = 0;
    const store = process();
    fence = await leased(store, 'one');
    expect(await store.commit({ fence, commit: aCommit() })).toBe('committed');
  });

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

  /** As an earlier version writes it. */
  const writeAsEarlier = async (): Promise<void> => {
    const { named: _, ...others } = await page();
    const { y: __, ...item } = encodePage(partition, { ...others, turn: others.turn + 1 }, 'earlier1');
    await documents.send(new PutCommand({ TableName: table.table, Item: item }));
  };

  /** Whoever does not know what became of its commit gives its lease back: somebody else goes on. */
  const successor = async (): Promise<DynamoJobStore> => {
    const store = process();
    fence = await leased(store, 'two', NOW_MS + LEASE_MS);
    return store;
  };

  it('is written with two puts, and no transaction; and read, settled and taken away as any other', async () => {
    const store = process();
    const [one, two] = [large('a'), large('b')];
    const puts: Kind[] = [];
    meddling.put = (kind) => void puts.push(kind);
    expect(await store.commit({ fence, commit: aCommit({ turn: 1, reserve: [one, two] }) })).toBe(
      'committed',
    );
    expect(puts).toEqual(['item', 'item', 'page']);
    expect(await held()).toEqual([one, two]);
    const positions = [...one.jobs.keys()];
    await store.commit({ fence, commit: aCommit({ drop: [{ reservation: one, positions }] }) });
    expect(await held()).toEqual([two]);
    expect((await page()).named).toEqual(new Set([two.batchId]));
    await store.tidy(partition);
    expect(await items()).toEqual([two.batchId]);
    const [first, ...others] = [...two.jobs.keys()];
    await store.commit({ fence, commit: aCommit({ drop: [{ reservation: two, positions: others }] }) });
    expect((await held())[0]?.jobs).toEqual(new Map([...two.jobs].slice(0, 1)));
    await store.commit({ fence, commit: aCommit({ drop: [{ reservation: two, positions: [first ?? 0] }] }) });
    await store.tidy(partition);
    expect([await held(), await items()]).toEqual([[], []]);
    await store.commit({ fence, commit: aCommit() });
    const { named, batches } = await page();
    expect([named, batches]).toEqual([new Set(), new Map()]);
  });

  it('holds nothing if its dispatcher dies before the page, and goes once the page has turned, not before', async () => {
    const dead = process();
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(dead.commit({ fence, commit: aCommit({ reserve: [large('a')] }) })).rejects.toMatchObject({
      name: 'StoreUnavailable',
    });
    meddling.put = undefined;
    expect(await items()).toEqual(['1-a']);
    const store = await successor();
    expect(await held(store)).toEqual([]);
    // A page that names it may still come, as far as the table tells.
    await store.tidy(partition);
    expect(await items()).toEqual(['1-a']);
    expect(await store.commit({ fence, commit: aCommit({ turn: 1, reserve: [large('b')] }) })).toBe(
      'committed',
    );
    await store.tidy(partition);
    expect([await items(), await held()]).toEqual([['1-b'], [large('b')]]);
  });

  it('is taken away by whoever loads the partition after the page has turned', async () => {
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(process().commit({ fence, commit: aCommit({ reserve: [large('a')] }) })).rejects.toThrow();
    meddling.put = undefined;
    await process().commit({ fence, commit: aCommit() });
    const store = process();
    expect(await held(store)).toEqual([]);
    await store.tidy(partition);
    expect(await items()).toEqual([]);
  });

  it('is void if its put comes after its dispatcher was superseded, and the page is refused', async () => {
    const slow = process();
    let puts = 0;
    meddling.put = async () => {
      puts += 1;
      if (puts > 1) return;
      const fast = await successor();
      expect(await fast.commit({ fence, commit: aCommit({ reserve: [large('b')] }) })).toBe('committed');
    };
    const former = fence;
    expect(await slow.commit({ fence: former, commit: aCommit({ reserve: [large('a')] }) })).toBe('lost');
    expect(await items()).toEqual(['1-a', '1-b']);
    const reader = process();
    expect(await held(reader)).toEqual([large('b')]);
    await reader.tidy(partition);
    expect(await items()).toEqual(['1-b']);
  });

  it('holds nothing if its commit follows what is not there any more', async () => {
    const [one, two] = [process(), process()];
    await two.loadPartition({ partition, nowMs: NOW_MS });
    await one.commit({ fence, commit: aCommit({ turn: 1, reserve: [large('a')] }) });
    await expect(
      two.commit({ fence, commit: aCommit({ turn: 1, reserve: [large('b')] }) }),
    ).rejects.toMatchObject({ name: 'StaleCommit' });
    expect([await items(), await held()]).toEqual([['1-a', '1-b'], [large('a')]]);
  });

  it('is taken up by whoever makes the same commit again', async () => {
    const store = process();
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    const commit = aCommit({ turn: 1, reserve: [large('a')] });
    await expect(store.commit({ fence, commit })).rejects.toThrow();
    meddling.put = undefined;
    expect([await items(), await held()]).toEqual([['1-a'], []]);
    expect(await store.commit({ fence, commit })).toBe('committed');
    expect(await held()).toEqual([large('a')]);
  });

  it('is not put over another one of its number: that commit is refused, and nothing of the other one is lost', async () => {
    const [one, two] = [process(), process()];
    await two.loadPartition({ partition, nowMs: NOW_MS });
    await one.commit({ fence, commit: aCommit({ turn: 1, reserve: [large('a')] }) });
    const other = { ...large('other'), batchId: '1-a' };
    await expect(two.commit({ fence, commit: aCommit({ turn: 1, reserve: [other] }) })).rejects.toMatchObject(
      {
        name: 'StaleCommit',
      },
    );
    expect(await held()).toEqual([large('a')]);
  });

  it.each<Kind>(['item', 'page'])('is committed once, though the answer of its %s got lost', async (lost) => {
    const store = process();
    let puts = 0;
    meddling.put = (kind) => {
      if (kind !== lost) return undefined;
      puts += 1;
      return puts === 1 ? 'unanswered' : undefined;
    };
    expect(await store.commit({ fence, commit: aCommit({ reserve: [large('a')] }) })).toBe('committed');
    expect(puts).toBe(2);
    expect([await held(), (await page()).turn]).toEqual([[large('a')], 2]);
  });

  it('leaves the page as it is where nobody knows whether its item is there', async () => {
    const store = process();
    const puts: Kind[] = [];
    meddling.put = (kind) => {
      puts.push(kind);
      return 'unanswered';
    };
    const reserve = [large('a'), large('b')];
    await expect(store.commit({ fence, commit: aCommit({ reserve }) })).rejects.toMatchObject({
      name: 'StoreUnavailable',
    });
    expect(puts).toEqual(['item', 'item', 'item', 'item']);
    meddling.put = undefined;
    expect([await held(), (await page()).turn]).toEqual([[], 1]);
  });

  it('counts for whoever reads only once the page names it', async () => {
    const store = process();
    const seen: number[] = [];
    meddling.put = async (kind) => {
      if (kind !== 'page') return;
      const reader = process();
      seen.push((await held(reader)).length);
      await reader.tidy(partition);
    };
    await store.commit({ fence, commit: aCommit({ reserve: [large('a')] }) });
    seen.push((await held()).length);
    expect(seen).toEqual([0, 1]);
  });

  it('is read again where the page names it and it was not read; where it stays away, it is gone', async () => {
    const store = process();
    await store.commit({ fence, commit: aCommit({ reserve: [large('a'), large('b')] }) });
    meddling.leftOut.push('1-a', '1-b');
    expect(await held()).toEqual([large('a'), large('b')]);
    expect(meddling.leftOut).toEqual([]);
    meddling.leftOut.push(...Array.from({ length: 5 }, () => '1-a'));
    expect(await held()).toEqual([large('b')]);
    expect(meddling.leftOut).toEqual([]);
  });

  it('counts by its item where an earlier version has written the page, named or not; the next page names all', async () => {
    const store = process();
    await store.commit({ fence, commit: aCommit({ reserve: [large('a')] }) });
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(process().commit({ fence, commit: aCommit({ reserve: [large('b')] }) })).rejects.toThrow();
    meddling.put = undefined;
    await writeAsEarlier();
    const later = process();
    expect(await held(later)).toEqual([large('a'), large('b')]);
    await later.tidy(partition);
    expect(await later.commit({ fence, commit: aCommit({ turn: 3, reserve: [large('c')] }) })).toBe(
      'committed',
    );
    expect((await page()).named).toEqual(new Set(['1-a', '1-b']));
    expect(await held()).toEqual([large('a'), large('b'), large('c')]);
    // What the page of an earlier version made count is settled as any other.
    const drop = [{ reservation: large('b'), positions: [...large('b').jobs.keys()] }];
    await later.commit({ fence, commit: aCommit({ drop }) });
    await later.tidy(partition);
    expect([await items(), await held()]).toEqual([
      ['1-a', '1-c'],
      [large('a'), large('c')],
    ]);
  });

  it('is one of thousands, of which a bounded number has names', async () => {
    const store = process();
    const made: Reservation[] = [];
    for (let round = 0; round < 30; round += 1) {
      const reserve = Array.from({ length: 40 }, (_, at) => large(`${100 + round}-${100 + at}`, 3));
      made.push(...reserve);
      expect(await store.commit({ fence, commit: aCommit({ reserve }) })).toBe('committed');
    }
    const { named = new Set() } = await page();
    expect(JSON.stringify([...named]).length).toBeLessThanOrEqual(NAMES_BYTES_MAX);
    expect(named.size).toBeGreaterThan(20);
    const byId = (all: readonly Reservation[]) => new Map(all.map((each) => [each.batchId, each]));
    const reader = process();
    expect(byId(await held(reader))).toEqual(byId(made));
    // Some of each kind are settled, and their items taken away.
    for (let from = 0; from < made.length; from += 300) {
      const drop = made.slice(from, from + 50).map((reservation) => ({ reservation, positions: [0, 1, 2] }));
      await reader.commit({ fence, commit: aCommit({ drop }) });
      await reader.tidy(partition);
    }
    const left = made.filter((_, at) => at % 300 >= 50);
    expect(byId(await held())).toEqual(byId(left));
    expect((await items()).length).toBe(left.length);
  }, 120_000);
});
