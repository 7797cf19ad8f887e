/** Two processes that read a partition under one lease, and both commit: the second follows nothing that is there. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';

const WAIT_MS = 60_000;

describe('a commit that does not follow what is there', () => {
  let table: TestTable;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  const process = (): DynamoJobStore =>
    new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });

  it.each([
    ['the first of all, by its turn', 0, true],
    ['a later one, by its turn', 2, true],
    ['the first of all, by what it has read', 0, false],
    ['a later one, by what it has read', 2, false],
  ] as const)('is refused, and takes nothing back: %s', async (_, before, namesTurn) => {
    partition += 1;
    const [one, two] = [process(), process()];
    const { epoch } = await one.acquireLease({ partition, holder: 'one', nowMs: NOW_MS, leaseMs: 60_000 });
    const fence = { partition, epoch };
    for (let turn = 0; turn < before; turn += 1) {
      await one.commit({ fence, commit: aCommit({ turn, ledgers: [aLedger({ settledCostMs: turn })] }) });
    }
    const [seen] = [
      await two.loadPartition({ partition, nowMs: NOW_MS }),
      await one.loadPartition({ partition, nowMs: NOW_MS }),
    ];
    expect(seen.turn).toBe(before);
    const turn = namesTurn ? before : undefined;
    const kept = aLedger({ settledCostMs: 500 });
    const reservation = aReservation([aJob()]);
    expect(
      await one.commit({ fence, commit: aCommit({ turn, ledgers: [kept], reserve: [reservation] }) }),
    ).toBe('committed');
    const late = aCommit({
      turn,
      ledgers: [aLedger({ settledCostMs: 9 })],
      reserve: [aReservation([aJob()])],
    });
    await expect(two.commit({ fence, commit: late })).rejects.toMatchObject({ name: 'StaleCommit' });
    const after = await process().loadPartition({ partition, nowMs: NOW_MS });
    expect(after.turn).toBe(before + 1);
    expect(after.reservations).toEqual([reservation]);
    expect(await process().getLedgers({ partition, fairnessKeys: [kept.fairnessKey] })).toEqual([kept]);
  });
});
