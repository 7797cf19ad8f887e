/** A table's partition whose ledgers stand in the page and in an item beside it: both are of one commit, or are read again. */
import { type DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import {
  DeleteCommand,
  DynamoDBDocumentClient,
  type GetCommandOutput,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Ledger, UnreadableItem } from '../../lib/store/contract/records.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { ATTRIBUTE } from '../../lib/store/table/codec/attributes.ts';
import { ledgerSnapshotKey, summaryKey } from '../../lib/store/table/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { refusedTo, watch } from '../contract/rights.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';

const WAIT_MS = 60_000;
const KEYS = 300;

type Answered = NonNullable<GetCommandOutput['Item']>[];

/** What reads of the base answer in its place, one after the other; and how often it was read. */
interface Bases {
  readonly instead: (Answered[number] | undefined)[];
  readonly seen: Answered;
}

const isBase = ({ sk }: Answered[number]): boolean => sk === ledgerSnapshotKey(0).sk;

function basesOf(client: DynamoDBClient): Bases {
  const bases: Bases = { instead: [], seen: [] };
  const replaced = (items: Answered = []): Answered =>
    items.flatMap((item) => {
      if (!isBase(item)) return [item];
      bases.seen.push(item);
      if (bases.instead.length === 0) return [item];
      const other = bases.instead.shift();
      return other === undefined ? [] : [other];
    });
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const found = await next(args);
        if (commandName === GetItemCommand.name) {
          const output = found.output as GetCommandOutput;
          [output.Item] = replaced(output.Item === undefined ? [] : [output.Item]);
        }
        return found;
      },
    { step: 'initialize', name: 'bases' },
  );
  return bases;
}

describe('ledgers of a page and its base', () => {
  let table: TestTable;
  let bases: Bases;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
    bases = basesOf(table.client as DynamoDBClient);
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  const ledgersOf = async (from: DynamoJobStore): Promise<readonly Ledger[]> =>
    (await from.loadPartition({ partition, nowMs: NOW_MS })).ledgers;

  /** A partition of three hundred keys whose base was written twice, and charges since. */
  async function setting() {
    partition += 1;
    const told: UnreadableItem[] = [];
    const process = (): DynamoJobStore =>
      new DynamoJobStore({
        ...table,
        place: suitePlace,
        nowMs: () => NOW_MS,
        unreadable: (item) => told.push(item),
      });
    const store = process();
    let version = 0;
    const charged = new Map<string, Ledger>();
    let cost = 0;
    const charge = async (count: number): Promise<void> => {
      const ledgers = Array.from({ length: count }, () => {
        cost += 1;
        return aLedger({ fairnessKey: `customer-${cost % KEYS}`, settledCostMs: cost });
      });
      for (const ledger of ledgers) {
        charged.delete(ledger.fairnessKey);
        charged.set(ledger.fairnessKey, ledger);
      }
      expect(await store.commit({ partition, commit: aCommit({ version, ledgers }) })).toBe('committed');
      version += 1;
    };
    const written = new Set<unknown>();
    bases.seen.length = 0;
    for (let commits = 0; written.size < 2; commits += 1) {
      await charge(20);
      await ledgersOf(process());
      for (const base of bases.seen) written.add(base.version);
      if (commits > 80) throw new Error('no base was written twice');
    }
    await charge(3);
    const [older] = bases.seen;
    bases.seen.length = 0;
    return { process, store, told, charge, charged, older };
  }

  it('are together what was charged, in that order, for whoever reads them first', async () => {
    const { process, charged, told } = await setting();
    expect(await ledgersOf(process())).toEqual([...charged.values()]);
    const keys = [...charged.keys()];
    expect(await process().getLedgers({ partition, fairnessKeys: [...keys, 'nobody'] })).toEqual([
      ...charged.values(),
      undefined,
    ]);
    expect(told).toEqual([]);
  });

  it('are not read with what jobs cost', async () => {
    const { process } = await setting();
    const ids = [{ type: 'resize', resourceId: '' }];
    expect(await process().getEstimates({ partition, ids })).toEqual([undefined]);
    expect(bases.seen).toEqual([]);
  });

  it.each(['loaded', 'asked for'])('are read again when a commit came in between: %s', async (how) => {
    const { process, charged, told, older } = await setting();
    bases.instead.push(older, undefined);
    const keys = [...charged.keys()];
    const read =
      how === 'loaded'
        ? await ledgersOf(process())
        : await process().getLedgers({ partition, fairnessKeys: keys });
    expect(read).toEqual([...charged.values()]);
    expect(bases.instead).toEqual([]);
    expect(bases.seen).toHaveLength(3);
    expect(told).toEqual([]);
  });

  it('are read without their base by whoever knows it, until somebody else writes another one', async () => {
    const { process, charged, charge } = await setting();
    const [one, other] = [process(), process()];
    expect(await ledgersOf(one)).toEqual([...charged.values()]);
    expect(bases.seen).toHaveLength(1);
    expect(await ledgersOf(one)).toEqual([...charged.values()]);
    const [first = ''] = charged.keys();
    await one.getLedgers({ partition, fairnessKeys: [first] });
    expect(bases.seen).toHaveLength(1);
    await ledgersOf(other);
    bases.seen.length = 0;
    for (let commits = 0; bases.seen.length === 0; commits += 1) {
      await charge(20);
      expect(await ledgersOf(other)).toEqual([...charged.values()]);
      if (commits > 40) throw new Error('no base was written');
    }
    expect(await ledgersOf(one)).toEqual([...charged.values()]);
    const { version } = await one.loadPartition({ partition, nowMs: NOW_MS });
    const next = aCommit({ version, ledgers: [aLedger({ fairnessKey: first })] });
    expect(await one.commit({ partition, commit: next })).toBe('committed');
  });

  it('are not read for whoever asks for none: a worker may read no more than the partition', async () => {
    const { process, charged } = await setting();
    const { watched, take } = watch(table.client);
    const state = await watched(process()).loadPartition({ partition, nowMs: NOW_MS, withoutLedgers: true });
    expect(state.ledgers).toEqual([]);
    expect(bases.seen).toEqual([]);
    expect(refusedTo('work', take())).toEqual([]);
    const store = process();
    await store.loadPartition({ partition, nowMs: NOW_MS, withoutLedgers: true });
    const { ledgers } = await store.loadPartition({ partition, nowMs: NOW_MS });
    expect(ledgers).toEqual([...charged.values()]);
  });

  it('are those of the commit that counts, where another one of the same version was refused', async () => {
    partition += 1;
    const [one, other] = [0, 1].map(
      () => new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS }),
    );
    if (one === undefined || other === undefined) throw new Error('no stores');
    // So long names that the first commit writes a base.
    const charges = (cost: number): readonly Ledger[] =>
      Array.from({ length: 80 }, (_, at) =>
        aLedger({ fairnessKey: `${at}/`.padEnd(480, 'n'), settledCostMs: cost }),
      );
    for (const store of [one, other]) await store.loadPartition({ partition, nowMs: NOW_MS });
    const commit = (store: DynamoJobStore, cost: number): Promise<unknown> =>
      store.commit({ partition, commit: aCommit({ ledgers: charges(cost) }) });
    expect(await commit(other, 7)).toBe('committed');
    expect(await commit(one, 3)).toBe('lost');
    expect(await ledgersOf(one)).toEqual(charges(7));
  });

  it('whose page says of no version which base is its own are those since: somebody is told', async () => {
    const { process, told, charged } = await setting();
    const documents = DynamoDBDocumentClient.from(table.client as DynamoDBClient);
    await documents.send(
      new UpdateCommand({
        TableName: table.table,
        Key: summaryKey(partition),
        UpdateExpression: 'SET #base = :none',
        ExpressionAttributeNames: { '#base': ATTRIBUTE.baseVersion },
        ExpressionAttributeValues: { ':none': 'none' },
      }),
    );
    const since = await ledgersOf(process());
    expect(since).toEqual([...charged.values()].slice(-since.length));
    expect(told).toHaveLength(1);
  });

  it('are asked for behind their page, which some of them may have left in between', async () => {
    const { process, charged } = await setting();
    const names = [...charged.keys(), ...Array.from({ length: 200 }, (_, at) => `nobody-${at}`)];
    const commands: string[] = [];
    const client = table.client as DynamoDBClient;
    client.middlewareStack.add(
      (next, { commandName }) =>
        (args) => {
          commands.push(String(commandName));
          return next(args);
        },
      { step: 'initialize', name: 'commands' },
    );
    try {
      await process().getLedgers({ partition, fairnessKeys: names });
    } finally {
      client.middlewareStack.remove('commands');
    }
    expect(commands.slice(0, 3)).toEqual(['BatchGetItemCommand', 'GetItemCommand', 'QueryCommand']);
  });

  it('are known to whoever wrote their base', async () => {
    const { store, charged } = await setting();
    expect(await ledgersOf(store)).toEqual([...charged.values()]);
    expect(bases.seen).toEqual([]);
  });

  it('without a base are those that have changed since: somebody is told, and the next commit writes all that there is', async () => {
    const { process, charged, told } = await setting();
    const documents = DynamoDBDocumentClient.from(table.client as DynamoDBClient);
    await documents.send(new DeleteCommand({ TableName: table.table, Key: ledgerSnapshotKey(partition) }));
    const survivor = process();
    const since = await ledgersOf(survivor);
    expect(since.length).toBeLessThan(KEYS);
    expect(since).toEqual([...charged.values()].slice(-since.length));
    const { pk, sk } = summaryKey(partition);
    expect(told).toMatchObject([
      { key: `${pk} ${sk}`, reason: expect.stringContaining('snapshot of ledgers') },
    ]);
    const { version } = await survivor.loadPartition({ partition, nowMs: NOW_MS });
    const fresh = aLedger({ fairnessKey: 'fresh', settledCostMs: 1 });
    await survivor.commit({ partition, commit: aCommit({ version, ledgers: [fresh] }) });
    expect(await ledgersOf(process())).toEqual([...since, fresh]);
    expect(told).toHaveLength(1);
  });
});
