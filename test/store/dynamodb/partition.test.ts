/** What a process that knew a partition makes of a table that was restored under its name. */
import { expect, it } from 'vitest';
import { encodePage } from '../../../lib/store/dynamodb/codec/page.ts';
import { DynamoPartitionStore } from '../../../lib/store/dynamodb/partition.ts';
import { EMPTY_PAGE } from '../../../lib/store/page.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';

it('commits to a restored table, whose version is behind the one that it knew', async () => {
  const pageOf = (version: number) => encodePage(0, { ...EMPTY_PAGE, version }, `commit-${version}`);
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
