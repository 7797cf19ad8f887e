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
import type { Reservation } from '../../lib/store/contract/records.ts';
import type { Commit, CommitOutcome } from '../../lib/store/contract/requests.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { ATTRIBUTE } from '../../lib/store/table/codec/attributes.ts';
import { encodeLedger } from '../../lib/store/table/codec/ledger.ts';
import { decodeSummary, encodeLedgerSnapshot, encodeSummary } from '../../lib/store/table/codec/summary.ts';
import { ledgerKey, partitionPk, RESERVATION_PREFIX, summaryKey } from '../../lib/store/table/schema.ts';
import { nextSummary, type PartitionSummary } from '../../lib/store/table/summary.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';

const WAIT_MS = 60_000;

type Fate =
  /** It is not sent. */
  | 'unsent'
  /** It is carried out, and its answer gets lost. */
  | 'unanswered'
  | undefined;

/** What is put: the page, or an item that is put before it. */
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
        const sk = /"sk":\{"S":"(page|reservation|key\/)/.exec(body)?.[1];
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

  const page = async (): Promise<PartitionSummary> => {
    const { Item = {} } = await documents.send(
      new GetCommand({ TableName: table.table, Key: summaryKey(partition), ConsistentRead: true }),
    );
    return decodeSummary(Item);
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
    expect([named.size, batches]).toEqual([1, new Map()]);
    await store.tidy({ partition });
    expect(await items()).toEqual([...named]);
    const [first, ...others] = [...two.jobs.keys()];
    await commit(store, 3, { drop: [{ reservation: two, positions: others }] });
    expect((await held())[0]?.jobs).toEqual(new Map([...two.jobs].slice(0, 1)));
    await commit(store, 4, { drop: [{ reservation: two, positions: [first ?? 0] }] });
    await store.tidy({ partition });
    expect([await held(), await items()]).toEqual([[], []]);
    expect((await page()).named).toEqual(new Set());
  });

  it('holds nothing if its dispatcher dies before the page, and goes once the version is a later one, not before', async () => {
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(process(), 1, { reserve: [large('a')] })).rejects.toMatchObject({
      name: 'UnavailableError',
    });
    meddling.put = undefined;
    const first = await items();
    expect(first).toHaveLength(1);
    const store = process();
    expect(await held(store)).toEqual([]);
    // A page that names it may still come, as far as the table tells.
    await store.tidy({ partition });
    expect(await items()).toEqual(first);
    expect(await commit(store, 1, { reserve: [large('b')] })).toBe('committed');
    await store.tidy({ partition });
    expect([await items(), await held()]).toEqual([[...(await page()).named], [large('b')]]);
  });

  it('is taken away by a process that loads the partition after another commit', async () => {
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(process(), 1, { reserve: [large('a')] })).rejects.toThrow();
    meddling.put = undefined;
    await commit(process(), 1);
    const store = process();
    expect(await held(store)).toEqual([]);
    await store.tidy({ partition });
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
    expect(await items()).toHaveLength(2);
    const reader = process();
    expect(await held(reader)).toEqual([large('b')]);
    await reader.tidy({ partition });
    expect(await items()).toEqual([...(await page()).named]);
  });

  it('is of no use to a process that makes the same commit again: it puts another one', async () => {
    const store = process();
    meddling.put = (kind) => (kind === 'page' ? 'unsent' : undefined);
    await expect(commit(store, 1, { reserve: [large('a')] })).rejects.toThrow();
    meddling.put = undefined;
    const first = await items();
    expect([first.length, await held()]).toEqual([1, []]);
    expect(await commit(store, 1, { reserve: [large('a')] })).toBe('committed');
    expect(await held()).toEqual([large('a')]);
    expect([...(await page()).named].filter((itemId) => first.includes(itemId))).toEqual([]);
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
    await expect(commit(process(), 1, { reserve })).rejects.toMatchObject({ name: 'UnavailableError' });
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
      await reader.tidy({ partition });
    };
    await commit(process(), 1, { reserve: [large('a')] });
    seen.push((await held()).length);
    expect(seen).toEqual([0, 1]);
  });

  it('is read again where the page names it and it was not read; where it stays away, nothing goes on without it', async () => {
    await commit(process(), 1, { reserve: [large('a'), large('b')] });
    const [first = '', second = ''] = (await page()).named;
    meddling.leftOut.push(first, second);
    expect(await held()).toEqual([large('a'), large('b')]);
    expect(meddling.leftOut).toEqual([]);
    meddling.leftOut.push(...Array.from({ length: 5 }, () => first));
    await expect(held()).rejects.toMatchObject({
      name: 'MalformedItemError',
      message: expect.stringContaining(first),
    });
    expect(meddling.leftOut).toEqual([]);
  });

  it('is one of a thousand, of which the page names a few items', async () => {
    const store = process();
    const made: Reservation[] = [];
    let version = 1;
    for (let round = 0; round < 30; round += 1, version += 1) {
      const reserve = Array.from({ length: 40 }, (_, at) => large(`${100 + round}-${100 + at}`, 3));
      made.push(...reserve);
      expect(await commit(store, version, { reserve })).toBe('committed');
    }
    expect((await page()).named.size).toBeLessThan(100);
    const byId = (all: readonly Reservation[]) => new Map(all.map((each) => [each.batchId, each]));
    const reader = process();
    expect(byId(await held(reader))).toEqual(byId(made));
    for (let from = 0; from < made.length; from += 300, version += 1) {
      const drop = made.slice(from, from + 50).map((reservation) => ({ reservation, positions: [0, 1, 2] }));
      expect(await commit(reader, version, { drop })).toBe('committed');
      await reader.tidy({ partition });
    }
    const left = made.filter((_, at) => at % 300 >= 50);
    expect(byId(await held())).toEqual(byId(left));
    expect(new Set(await items())).toEqual((await page()).named);
  }, 120_000);

  it('is like a ledger that leaves the page, which takes the place of no newer one, however late it is put', async () => {
    let stored = (await page()) as PartitionSummary;
    const charge = (): Commit =>
      aCommit({
        version: stored.version,
        // Of so long names, some 740 have room.
        ledgers: Array.from({ length: 60 }, (_, at) =>
          aLedger({ fairnessKey: `${stored.version}/${at}/`.padEnd(480, 'n'), settledCostMs: 1 }),
        ),
      });
    const next = () => nextSummary(stored, charge(), new Map(), '');
    while (next().spilled.length === 0) stored = next().summary;
    if (stored.base === undefined) throw new Error('as many ledgers have a base');
    const put = (Item: Record<string, unknown>) =>
      documents.send(new PutCommand({ TableName: table.table, Item }));
    await put(encodeLedgerSnapshot(partition, stored.base));
    await put(encodeSummary(partition, stored, 'commit'));
    const [left] = next().spilled;
    if (left === undefined) throw new Error('one leaves');
    // It came back, was charged, and left again, while this commit was on its way.
    const newer = { ...left, settledCostMs: 2 };
    const key = ledgerKey(partition, left.fairnessKey);
    meddling.put = async () => {
      meddling.put = undefined;
      await put(encodeLedger(key, newer, stored.version + 30));
    };
    const { version, ledgers } = charge();
    expect(await commit(process(), version, { ledgers })).toBe('lost');
    const { Item } = await documents.send(
      new GetCommand({ TableName: table.table, Key: key, ConsistentRead: true }),
    );
    expect(Item).toEqual(expect.objectContaining({ [ATTRIBUTE.version]: stored.version + 30 }));
  });
});
