/** What the store in memory says a table would bill, beside what the emulator under test says it has. */
import { DynamoDBDocumentClient, GetCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CostMeter, createCostMeter } from '../../bench/metering/meter.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { itemBytes, readUnitsOf } from '../../lib/store/table/metering.ts';
import { ledgerSnapshotKey, summaryKey } from '../../lib/store/table/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aReadyLine } from '../fixtures/factories/ready-line.ts';
import { seeded } from '../simulation/random.ts';

let table: TestTable | undefined;
const stores: JobStore[] = [];
const metered: Record<'memory' | 'table', CostMeter> = {
  memory: createCostMeter(),
  table: createCostMeter(),
};

beforeAll(async () => {
  table = await createTable();
  const { client, table: name } = table;
  const memory = new MemoryJobStore({ clock: () => NOW_MS, random: seeded(1), place: suitePlace });
  memory.meter = metered.memory.store;
  const stored = new DynamoJobStore({
    client,
    table: name,
    place: suitePlace,
    nowMs: () => NOW_MS,
    meter: metered.table.store,
  });
  stores.push(memory, stored);
});
afterAll(() => table?.drop());

describe('the bill', () => {
  it('counts a key that is moved in its line', async () => {
    const units: number[] = [];
    for (const [at, store] of stores.entries()) {
      const meter = at === 0 ? metered.memory : metered.table;
      const charge = async (fairnessKey: string, settledCostMs: number): Promise<void> => {
        const ledgers = [aLedger({ fairnessKey, settledCostMs })];
        const { version } = await store.loadPartition({ partition: 7, nowMs: NOW_MS });
        const commit = aCommit({ version, ledgers });
        expect(await store.commit({ partition: 7, commit })).toBe('committed');
      };
      await charge('first', 100);
      await charge('second', 1_000);
      const lines = ['first', 'second'].map((fairnessKey) => aReadyLine({ fairnessKey }));
      await store.announceLines({ partition: 7, lines, nowMs: NOW_MS });
      await store.readKeys({ partition: 7, type: lines[0]?.type ?? '', limit: 1 });
      await charge('first', 50);
      const before = meter.counts('tidy').writeUnits;
      await store.tidy({ partition: 7 });
      units.push(meter.counts('tidy').writeUnits - before);
    }
    // The item, and its entry of the index: taken away, and put.
    expect(units).toEqual([3, 3]);
  });

  it('counts what a resource costs as a write of its own, beside a page that is written alone', async () => {
    const units: number[] = [];
    for (const [at, store] of stores.entries()) {
      const meter = at === 0 ? metered.memory : metered.table;
      const before = meter.counts('commit').writeUnits;
      const estimates = ['photos', 'films'].map((resourceId) => anEstimate({ resourceId }));
      await store.commit({ partition: 2, commit: aCommit({ estimates }) });
      units.push(meter.counts('commit').writeUnits - before);
    }
    expect(units).toEqual([3, 3]);
  });

  it('counts every part of a transaction twice, as DynamoDB does; emulators count some parts once', async () => {
    const before = [metered.memory, metered.table].map((meter) => meter.counts('commit').writeUnits);
    for (const store of stores) {
      // A loan stands with both partitions, and grants a request: beside the page.
      const loan = { loanId: '0-1-0-0', from: 0, to: 3, units: 1, scopes: [], expiresAtMs: NOW_MS + 1 };
      await store.commit({ partition: 0, commit: aCommit({ lend: [loan] }) });
    }
    const [writeUnits = 0, counted = 0] = [metered.memory, metered.table].map(
      (meter, at) => meter.counts('commit').writeUnits - (before[at] ?? 0),
    );
    expect(writeUnits).toBe(8);
    expect(counted).toBeGreaterThanOrEqual(writeUnits / 2);
    expect(counted).toBeLessThanOrEqual(writeUnits);
  });

  it('says of a partition whose ledgers have a base what DynamoDB bills for its items: who wrote the base knows it', async () => {
    if (table === undefined) throw new Error('no table');
    const partition = 1;
    const random = seeded(2);
    const ledgers = Array.from({ length: 800 }, (_, at) =>
      aLedger({ fairnessKey: `customer-${at}`, settledCostMs: Math.floor(random() * 1e9) }),
    );
    for (const store of stores) {
      await store.lead({ partition, holder: 'd', nowMs: NOW_MS, untilMs: NOW_MS + 60_000 });
      for (let from = 0; from < ledgers.length; from += 20)
        await store.commit({
          partition,
          commit: aCommit({ version: from / 20, ledgers: ledgers.slice(from, from + 20) }),
        });
    }
    const before = metered.memory.counts('loadPartition').readUnits;
    await stores[0]?.loadPartition({ partition, nowMs: NOW_MS });
    const documents = DynamoDBDocumentClient.from(table.client);
    const { Items = [] } = await documents.send(
      new QueryCommand({
        TableName: table.table,
        KeyConditionExpression: 'pk = :pk',
        ExpressionAttributeValues: { ':pk': summaryKey(partition).pk },
      }),
    );
    const { Item: base = {} } = await documents.send(
      new GetCommand({ TableName: table.table, Key: ledgerSnapshotKey(partition) }),
    );
    // The embedded emulator counts one unit for all of it.
    expect(Items.map(({ sk }) => sk)).toEqual(['leader', 'page']);
    const bytes = Items.reduce((sum, item) => sum + itemBytes(item), 0);
    expect(readUnitsOf(itemBytes(base), true)).toBeGreaterThan(1);
    const readUnits = readUnitsOf(bytes, true);
    expect(metered.memory.counts('loadPartition').readUnits - before).toBe(readUnits);
  });
});
