/** What the store in memory says a table would bill, beside what the emulator under test says it has. */
import { DynamoDBDocumentClient, GetCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CostMeter, type Counts, createCostMeter } from '../../bench/metering/meter.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { itemBytes, readUnitsOf } from '../../lib/store/metering.ts';
import { ledgerBaseKey, pageKey } from '../../lib/store/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aReadyLine, lineOf } from '../fixtures/factories/ready-line.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { seeded } from '../simulation/random.ts';

/** The embedded one counts long items as DynamoDB does. */
const isOurEmulator = process.env.FAIRLEAD_TEST_ENDPOINT === undefined;

let table: TestTable | undefined;
const stores: JobStore[] = [];
const metered: Record<'memory' | 'table', CostMeter> = {
  memory: createCostMeter(),
  table: createCostMeter(),
};

/** What the commit of many long reservations was counted at, in memory and on the table. */
const longCommits: number[] = [];

/** A job's life, and what surrounds it: the same calls to each store. */
async function live(store: JobStore, meter: CostMeter): Promise<void> {
  const worker = { workerId: 'w', incarnation: '1' };
  const small = aJob({ id: 'small', payload: { order: 1 } });
  const large = aJob({ id: 'large', payload: 'x'.repeat(3_000) });
  await store.announceLines({ partition: 0, lines: [lineOf(small)], nowMs: NOW_MS });
  await store.createJobs([small, large]);
  await store.createJobs([large]);
  await store.lead({ partition: 0, holder: 'd', nowMs: NOW_MS, untilMs: NOW_MS + 60_000 });
  await store.readLeader(0);
  await store.putLetter({ partition: 0, letter: { hints: [small], jobIds: ['large'] }, nowMs: NOW_MS });
  const { letters } = await store.readLetters(0);
  await store.deleteLetters({ partition: 0, letterIds: letters.map(({ letterId }) => letterId) });
  await store.loadPartition({ partition: 0, nowMs: NOW_MS });
  await store.readKeys({ partition: 0, type: 'resize', limit: 10 });
  await store.readLine({ partition: 0, line: lineOf(small), limit: 10 });
  const reservation = aReservation([small, large]);
  await store.commit({ partition: 0, commit: aCommit({ reserve: [reservation] }) });
  const claims = [small, large].map((job) => aClaimRequest(job));
  // One by one: of those that go out together, emulators count a unit each, or say nothing.
  for (const claim of claims) await store.claim([claim]);
  await store.claim([aClaimRequest(small)]);
  for (const { jobId, claimId } of claims) {
    const started = await store.startJob({ ...worker, jobId, claimId, nowMs: NOW_MS });
    if (started.kind !== 'started') throw new Error('not started');
    const verdict = { kind: 'succeeded', result: null } as const;
    await store.finishJob({ ...worker, job: started.job, verdict, nowMs: NOW_MS, expiresAtMs: NOW_MS + 1e6 });
  }
  await store.commit({
    partition: 0,
    commit: aCommit({ version: 1, drop: [{ reservation, positions: [0, 1] }], ledgers: [aLedger()] }),
  });
  await store.tidy(0);
  // Many long ones.
  const jobs = Array.from({ length: 50 }, (_, at) => ({ id: `of-a-batch-${at}` }));
  const many = Array.from({ length: 10 }, () => aReservation(jobs));
  const before = meter.counts('commit').writeUnits;
  await store.commit({ partition: 0, commit: aCommit({ version: 2, reserve: many }) });
  longCommits.push(meter.counts('commit').writeUnits - before);
  await store.loadPartition({ partition: 0, nowMs: NOW_MS });
  await store.stopLeading({ partition: 0, holder: 'd' });
  // Ready as before, away, further away, back; and too late.
  const waiting = aJob({ id: 'waiting', payload: 'x'.repeat(2_000) });
  await store.createJobs([waiting]);
  for (const inMs of [0, 60_000, 90_000, 0]) {
    const [job] = await store.getJobs({ ids: [waiting.id] });
    if (job !== undefined) await store.retimeJob({ job, runAtMs: NOW_MS + inMs, nowMs: NOW_MS });
  }
  await store.retimeJob({ job: waiting, runAtMs: NOW_MS, nowMs: NOW_MS });
}

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
  await live(memory, metered.memory);
  await live(stored, metered.table);
});
afterAll(() => table?.drop());

/** What both must count alike, whatever the emulator. */
const ALIKE = [
  'createJobs',
  'lead',
  'stopLeading',
  'readLeader',
  'putLetter',
  'readLetters',
  'deleteLetters',
  'loadPartition',
  'readKeys',
  'readLine',
  'claim',
  'startJob',
  'finishJob',
  'retimeJob',
  'tidy',
] as const;

describe('the bill', () => {
  it.each(ALIKE)('is the same in memory and on the table for %s', (verb) => {
    expect(metered.memory.counts(verb)).toEqual(metered.table.counts(verb));
  });

  it('is the same in memory and on the table for commit; emulators count some long ones as if they were short', () => {
    const [long = 0, counted = 0] = longCommits;
    const { memory, table: onTable } = metered;
    const withoutLong = ({ writeUnits, ...others }: Counts, units: number): Counts => ({
      ...others,
      writeUnits: writeUnits - units,
    });
    expect(withoutLong(memory.counts('commit'), long)).toEqual(
      withoutLong(onTable.counts('commit'), counted),
    );
    expect(long).toBeGreaterThan(5);
    expect(counted).toBeGreaterThanOrEqual(isOurEmulator ? long : 2);
    expect(counted).toBeLessThanOrEqual(long);
  });

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
      await store.tidy(7);
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
      await store.commit({ partition: 0, commit: aCommit({ version: 3, lend: [loan] }) });
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
        ExpressionAttributeValues: { ':pk': pageKey(partition).pk },
      }),
    );
    const { Item: base = {} } = await documents.send(
      new GetCommand({ TableName: table.table, Key: ledgerBaseKey(partition) }),
    );
    // The embedded emulator counts one unit for all of it.
    expect(Items.map(({ sk }) => sk)).toEqual(['leader', 'page']);
    const bytes = Items.reduce((sum, item) => sum + itemBytes(item), 0);
    expect(readUnitsOf(itemBytes(base), true)).toBeGreaterThan(1);
    const readUnits = readUnitsOf(bytes, true);
    expect(metered.memory.counts('loadPartition').readUnits - before).toBe(readUnits);
  });
});
