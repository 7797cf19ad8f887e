/** A pool in several partitions: each knows only itself, and together they keep every cap. */
import { describe, expect, it } from 'vitest';
import type { Job, ReservedJob } from '../../../lib/core/job.ts';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { explainJob } from '../../../lib/operate/explain.ts';
import { ingest } from '../../../lib/submit/ingest.ts';
import { desk } from '../../client/desk.ts';
import { type Stage, stage } from '../../stage/stage.ts';

const PARTITIONS = 3;

const pool = (more: PoolInput = {}): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 30 } },
  partitions: PARTITIONS,
  ...more,
});

const keyIn = (partition: number): string => {
  for (let at = 0; ; at += 1) if (partitionOf(`key-${at}`, PARTITIONS) === partition) return `key-${at}`;
};

const jobIn = (on: Stage, partition: number, changes: Partial<Job> = {}): Job =>
  on.job({ partition, fairnessKey: keyIn(partition), ...changes });

const heldIn = (on: Stage, partition: number): readonly ReservedJob[] =>
  [...on.store.inspect(partition).reservations.values()].flatMap(({ jobs }) => [...jobs.values()]);

const counts = (on: Stage): readonly number[] => [0, 1, 2].map((partition) => heldIn(on, partition).length);

const tick = (on: Stage, context: DispatchContext = on.main) =>
  on.finish(dispatchAll(context, { jobs: [], reason: 'tick' }));

/** As many jobs in each partition. */
const filled = async (on: Stage, jobs: number): Promise<void> => {
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    await on.put(...Array.from({ length: jobs }, () => jobIn(on, partition)));
  }
};

describe('caps of a pool in partitions', () => {
  it.each([
    ['the pool', { maxConcurrency: 7 }, [3, 2, 2]],
    ['a tier', { tiers: [{ tier: 'standard', maxConcurrency: 8 }] }, [3, 3, 2]],
    ['a type', { types: { resize: { defaultCostMs: 1, maxConcurrency: 4 } } }, [2, 1, 1]],
    ['a fleet', { fleets: { images: { types: ['resize'], slots: 5 } } }, [2, 2, 1]],
  ] as const)('of %s are shared out, and add up', async (_name, more, expected) => {
    const on = stage({ pool: pool(more) });
    await filled(on, 10);
    await tick(on);
    expect(counts(on)).toEqual(expected);
  });

  it('that an operator puts are shared out too, also below the number of partitions', async () => {
    const on = stage({ pool: pool() });
    await filled(on, 10);
    for (let partition = 0; partition < PARTITIONS; partition += 1)
      await on.store.changeControl({ partition, scope: 'type/resize', change: { maxConcurrency: 2 } });
    await tick(on);
    expect(counts(on)).toEqual([1, 1, 0]);
  });

  it('are named by whoever waits for a share, with the whole that it is a share of', async () => {
    const on = stage({ pool: pool({ maxConcurrency: 9 }) });
    await filled(on, 10);
    await tick(on);
    const context = { ...on.submitter(), clock: on.clock, queue: on.queue, partitionOf: () => 2 };
    const waiting = jobIn(on, 2);
    await on.put(waiting);
    const waitsFor = async () => (await explainJob(context, waiting.id))?.waitsFor;
    expect(await waitsFor()).toContainEqual({
      why: 'cap',
      scope: 'pool',
      cap: 3,
      running: 3,
      split: { cap: 9, partition: 2, partitions: 3 },
    });
    await on.store.changeControl({ partition: 2, scope: 'type/resize', change: { maxConcurrency: 2 } });
    expect(await waitsFor()).toContainEqual({
      why: 'cap',
      scope: 'type/resize',
      cap: 0,
      running: 3,
      split: { cap: 2, partition: 2, partitions: 3 },
    });
    await on.store.changeControl({ partition: 2, scope: 'fleet/images', change: { maxConcurrency: 1 } });
    const { fleets } = (await explainJob(context, waiting.id)) ?? {};
    expect(fleets).toEqual([
      { fleet: 'images', slots: 10, busy: 3, paused: false, maxConcurrency: 0, workers: undefined },
    ]);
  });
});

describe('a pool in partitions', () => {
  it('puts the jobs of a key where it lives, however they come', async () => {
    const on = desk({ pool: pool() });
    const keys = Array.from({ length: 12 }, (_, at) => `tenant-${at}`);
    for (const [at, fairnessKey] of keys.entries()) {
      const { job } = await on.client.submit({ type: 'resize', fairnessKey, idempotencyKey: `client-${at}` });
      expect(job.partition).toBe(partitionOf(fairnessKey, PARTITIONS));
    }
    const context = {
      ...on.submitter(),
      events: on.bus,
      log: on.log,
      partitionOf: (key: string) => partitionOf(key, PARTITIONS),
    };
    const report = await ingest(
      context,
      keys.map((fairnessKey, at) => ({
        messageId: `${at}`,
        body: JSON.stringify({ id: `event-${at}`, detail: { type: 'resize', fairnessKey } }),
      })),
    );
    expect(report.created.map(({ partition }) => partition)).toEqual(
      keys.map((key) => partitionOf(key, PARTITIONS)),
    );
  });

  it('moves a job that was stored when there were more to where its key lives', async () => {
    const on = stage({ pool: pool() });
    const job = on.job({ partition: 5, fairnessKey: 'ann' });
    await on.put(job);
    const home = partitionOf('ann', PARTITIONS);
    const context = { ...on.operator(), partitionOf: (key: string) => partitionOf(key, PARTITIONS) };
    expect((await explainJob(context, job.id))?.waitsFor).toContainEqual({ why: 'move', partition: 5, home });
    await on.finish(dispatchAll(on.main, { jobs: [job], reason: 'ingest' }));
    expect(on.store.inspectJob(job.id)).toMatchObject({ state: 'pending', partition: home });
    await tick(on);
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('tries a dead letter again where its key lives now', async () => {
    const on = desk({ pool: pool() });
    const letter = jobIn(on, 2);
    await on.put(letter);
    await tick(on);
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    await on.end(started, { kind: 'failed', error: { name: 'Broken', message: 'it broke' } });
    const later = on.anotherClient({ configuration: { ...on.configuration, partitions: 2 } });
    const { jobId } = await later.retry(letter.id);
    expect(on.store.inspectJob(jobId)?.partition).toBe(partitionOf(letter.fairnessKey, 2));
  });

  it('is listed, paused, drained and explained as one', async () => {
    const on = desk({ pool: pool({ maxConcurrency: 6 }) });
    const jobs = [0, 1, 2].flatMap((partition) => Array.from({ length: 3 }, () => jobIn(on, partition)));
    await on.put(...jobs);
    const all = async <T>(items: AsyncIterable<T>): Promise<readonly T[]> => {
      const found: T[] = [];
      for await (const item of items) found.push(item);
      return found;
    };
    const ids = jobs.map(({ id }) => id).toSorted();
    expect((await all(on.client.list({ state: 'pending' }))).map(({ id }) => id).toSorted()).toEqual(ids);
    expect((await all(on.client.keys())).map(({ fairnessKey }) => fairnessKey).toSorted()).toEqual(
      [0, 1, 2].map(keyIn).toSorted(),
    );
    await on.client.pause('pool');
    await tick(on);
    expect(counts(on)).toEqual([0, 0, 0]);
    await on.client.resume('pool');
    await tick(on);
    expect(counts(on)).toEqual([2, 2, 2]);
    const [fleet] = await on.client.fleets();
    expect(fleet).toMatchObject({ slots: 30, busy: 6 });
    expect(await all(on.client.list({ state: 'claimed' }))).toHaveLength(6);
    for (const started of await on.startEverywhere()) {
      await on.end(started, { kind: 'failed', error: { name: 'Broken', message: 'it broke' } });
    }
    await on.finish(dispatchAll(on.main, { jobs: [], reason: 'wake' }));
    const letters = await all(on.client.deadLetters());
    expect(new Set(letters.map(({ partition }) => partition))).toEqual(new Set([0, 1, 2]));
  });
});
