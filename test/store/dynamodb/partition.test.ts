/** What a process that knew a partition makes of a table that was restored under its name. */
import { expect, it } from 'vitest';
import { DynamoPartitionStore } from '../../../lib/store/dynamodb/partition.ts';
import { encodeReservations } from '../../../lib/store/table/codec/reservation.ts';
import { encodeSummary } from '../../../lib/store/table/codec/summary.ts';
import { EMPTY_SUMMARY } from '../../../lib/store/table/summary.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';

it('commits to a restored table, whose version is behind the one that it knew', async () => {
  const pageOf = (version: number) => encodeSummary(0, { ...EMPTY_SUMMARY, version }, `commit-${version}`);
  let page = pageOf(1_000);
  const items = {
    table: {
      put: async (_: string, { item }: { readonly item: typeof page }) => {
        page = item;
        return { applied: true, item };
      },
    },
    collection: async () => [page],
    baseOf: async () => undefined,
    keyRanks: { sawLedger: () => undefined },
    readable: async () => [],
    hint: async () => true,
  };
  const store = new DynamoPartitionStore(
    items as unknown as ConstructorParameters<typeof DynamoPartitionStore>[0],
  );
  expect((await store.loadPartition({ partition: 0, nowMs: 1 })).version).toBe(1_000);
  page = pageOf(900);
  const { version } = await store.loadPartition({ partition: 0, nowMs: 1 });
  expect(version).toBe(900);
  expect(await store.commit({ partition: 0, commit: aCommit({ version }) })).toBe('committed');
  expect((await store.loadPartition({ partition: 0, nowMs: 1 })).version).toBe(901);
});

it('takes a version that parking has raised for its own only if it knew the one before', async () => {
  const items = {
    table: { put: async () => ({ applied: true }) },
    collection: async () => [encodeSummary(0, { ...EMPTY_SUMMARY, version: 1_000 }, 'commit')],
    baseOf: async () => undefined,
    keyRanks: { sawLedger: () => undefined },
    readable: async () => [],
    hint: async () => true,
  };
  const store = new DynamoPartitionStore(
    items as unknown as ConstructorParameters<typeof DynamoPartitionStore>[0],
  );
  await store.loadPartition({ partition: 0, nowMs: 1 });
  // Others have committed since.
  store.raised(0, 1_005);
  expect(await store.commit({ partition: 0, commit: aCommit({ version: 1_006 }) })).toBe('lost');
  store.raised(0, 1_000);
  expect(await store.commit({ partition: 0, commit: aCommit({ version: 1_001 }) })).toBe('committed');
});

it('tidies nothing that a restored table names, though it knew a later one that did not', async () => {
  const itemId = '850-x.0';
  const reservation = aReservation([{ id: 'a' }], { batchId: '850-1' });
  const kept = encodeReservations(0, [itemId, [reservation]], 850);
  const pageOf = (version: number, named: readonly string[]) =>
    encodeSummary(0, { ...EMPTY_SUMMARY, version, named: new Set(named) }, `commit-${version}`);
  let table = [pageOf(1_000, []), kept];
  let isAway = true;
  const deleted: unknown[] = [];
  const items = {
    table: {
      delete: async (_: string, { sk }: { readonly sk: string }) => {
        deleted.push(sk);
        return { applied: true };
      },
    },
    collection: async () => table,
    baseOf: async () => undefined,
    keyRanks: { sawLedger: () => undefined, takeMoves: () => [] },
    readable: async () => [],
    hint: async (work: () => Promise<void>) => !isAway && (await work().then(() => true)),
  };
  const store = new DynamoPartitionStore(
    items as unknown as ConstructorParameters<typeof DynamoPartitionStore>[0],
  );
  await store.loadPartition({ partition: 0, nowMs: 1 });
  await store.tidy({ partition: 0 });
  table = [pageOf(900, [itemId]), kept];
  isAway = false;
  expect((await store.loadPartition({ partition: 0, nowMs: 1 })).reservations).toEqual([reservation]);
  await store.tidy({ partition: 0 });
  expect(deleted).toEqual([]);
});
