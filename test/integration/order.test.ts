/** Order, liveness and the size of items, as the table has them: what is shown in memory, where it could differ. */
import { DynamoDBDocumentClient, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { afterEach, describe, expect, it } from 'vitest';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { ITEM_BYTES_MAX } from '../../lib/store/bounds.ts';
import { itemBytes } from '../../lib/store/metering.ts';
import { partitionPk } from '../../lib/store/schema.ts';
import { type TableStage, tableStage } from './table-stage.ts';

const WAIT_MS = 120_000;
/** The index follows soon; a tick comes each minute. */
const TICKS_MAX = 5;
const TICK_MS = 60_000;

let on: TableStage;
afterEach(async () => {
  await on?.drop();
});

const stageWith = async (pool: PoolInput): Promise<void> => {
  on = await tableStage(resolveConfiguration({ tiers: [{ tier: 'standard' }], ...pool }));
};

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

/** Of these, those that wait, and have no place. */
const pendingOf = async (jobs: readonly Job[]): Promise<readonly string[]> => {
  const { reservations } = await on.store.loadPartition({ partition: 0, nowMs: on.clock.nowMs() });
  const held = new Set(reservations.flatMap((each) => [...each.jobs.values()].map(({ id }) => id)));
  const now = await on.store.getJobs({ ids: jobs.map(({ id }) => id) });
  return now.flatMap((job) => (job?.state === 'pending' && !held.has(job.id) ? [job.id] : []));
};

/** Ticks, each by a dispatcher that knows nothing, until none of these waits. */
async function ticksUntilStarted(jobs: readonly Job[]): Promise<void> {
  for (let tick = 0; tick < TICKS_MAX && (await pendingOf(jobs)).length > 0; tick += 1) {
    on.advance(TICK_MS);
    await on.pass(on.dispatcher());
  }
  expect(await pendingOf(jobs)).toEqual([]);
}

describe('slots are not left free', { timeout: WAIT_MS }, () => {
  it.each(['told of by a hint', 'told of by nobody'])(
    'by jobs of conflict keys that are held, while others are %s',
    async (how) => {
      const [slots, albums, each] = [40, 30, 6];
      await stageWith({
        types: { resize: { timeoutMs: 860_000, conflictGroup: 'album' } },
        fleets: { images: { types: ['resize'], slots } },
      });
      const warm = on.dispatcher();
      const first = await on.put(
        times(albums * each, (at) => on.job({ resourceId: `album-${Math.floor(at / each)}` })),
      );
      await on.pass(warm, { jobs: first, reason: 'stream' });
      expect(await on.startAll('images')).toHaveLength(albums);
      on.advance(1_000);
      const others = await on.put(times(slots - albums, (at) => on.job({ resourceId: `other-${at}` })));
      if (how === 'told of by nobody') await ticksUntilStarted(others);
      else {
        await on.pass(warm, { jobs: others, reason: 'stream' });
        expect(await pendingOf(others)).toEqual([]);
      }
    },
  );

  it('by hundreds of keys of a type at its cap', async () => {
    await stageWith({
      types: { capped: { maxConcurrency: 2 }, other: {} },
      fleets: { all: { types: ['capped', 'other'], slots: 20 } },
    });
    await on.put(times(300, (at) => on.job({ type: 'capped', fairnessKey: `customer-${at}` })));
    const one = await on.put([on.job({ type: 'other', fairnessKey: 'another' })]);
    await ticksUntilStarted(one);
  });
});

describe('a job that comes while every slot is busy', { timeout: WAIT_MS }, () => {
  it.each([
    ['is more urgent', { priority: 10 }],
    ['is on demand', { mode: 'onDemand' as const }],
  ])('and %s starts next, for a dispatcher that remembers what waited before', async (_, changes) => {
    await stageWith({
      types: { resize: { timeoutMs: 600_000 } },
      fleets: { images: { types: ['resize'], slots: 2 } },
    });
    const warm = on.dispatcher();
    const lesser = await on.put(times(14, () => on.job()));
    await on.pass(warm, { jobs: lesser, reason: 'stream' });
    const running = await on.startAll('images');
    expect(running).toHaveLength(2);
    on.advance(1_000);
    const urgent = await on.put([on.job(changes)]);
    await on.pass(warm, { jobs: urgent, reason: 'stream' });
    on.advance(500);
    const ended = await Promise.all(running.slice(0, 1).map(on.end));
    await on.pass(warm, { jobs: ended, reason: 'stream' });
    expect((await on.startAll('images')).map(({ id }) => id)).toEqual(urgent.map(({ id }) => id));
  });
});

describe("a partition's summary", { timeout: WAIT_MS }, () => {
  it('grows neither with the conflict keys that wait nor with their names', async () => {
    const albums = 100;
    await stageWith({
      types: { resize: { timeoutMs: 860_000, conflictGroup: 'album' } },
      fleets: { images: { types: ['resize'], slots: albums } },
    });
    const warm = on.dispatcher();
    const longName = (at: number): string => `album-${at}-${'x'.repeat(480)}`;
    const jobs = await on.put(times(2 * albums, (at) => on.job({ resourceId: longName(at % albums) })));
    await on.pass(warm, { jobs, reason: 'stream' });
    await on.pass(warm);
    expect(await on.startAll('images')).toHaveLength(albums);
    const { Items = [] } = await DynamoDBDocumentClient.from(on.table.client).send(
      new QueryCommand({
        TableName: on.table.table,
        KeyConditionExpression: 'pk = :partition',
        ExpressionAttributeValues: { ':partition': partitionPk(0) },
        ConsistentRead: true,
      }),
    );
    const largest = Math.max(...Items.filter(({ sk }) => sk === 'page').map(itemBytes));
    expect(largest).toBeLessThan(ITEM_BYTES_MAX / 40);
  });
});
