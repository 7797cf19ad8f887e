/** What a redeploy changes of what partitions share: their number, divided caps, conflict groups. While jobs wait and run. */
import { describe, expect, it } from 'vitest';
import { StoreClient } from '../../../lib/client/client.ts';
import type { Job } from '../../../lib/core/job.ts';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { Declarations } from '../../../lib/declaration/declaration.ts';
import { dispatch, dispatchAll, type Trigger } from '../../../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { changeControl, type OperateContext } from '../../../lib/operate/controls.ts';
import { explainJob } from '../../../lib/operate/explain.ts';
import { listJobs } from '../../../lib/operate/list-jobs.ts';
import { allOf } from '../../client/desk.ts';
import { type Redeployed, redeployed } from '../../stage/redeployed.ts';
import { FAILED, type Started, storeWith } from '../../stage/stage.ts';

type Type = NonNullable<PoolInput['types']>[string];

const pool = (partitions: number, more: Partial<PoolInput> = {}, type: Type = {}): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000, ...type } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 16 } },
  partitions,
  ...more,
});

/** A key that lives in these partitions, of so many in turn: `keyIn([0, 1], [1, 2])`. */
function keyIn(homes: readonly number[], numbers: readonly number[], nth = 0): string {
  const keys = Array.from({ length: 1_000 }, (_, at) => `key-${at}`);
  const found = keys.filter((key) =>
    numbers.every((partitions, at) => partitionOf(key, partitions) === homes[at]),
  );
  const key = found[nth];
  if (key === undefined) throw new Error(`no key lives in ${homes}`);
  return key;
}

/** Of one partition, then of two: it lives in the second one. */
const MOVED = keyIn([0, 1], [1, 2]);
const STAYING = keyIn([0, 0], [1, 2]);

async function jobOf(on: Redeployed, fairnessKey: string, changes: Partial<Job> = {}): Promise<Job> {
  const { configuration } = await on.declarations.current();
  const partition = partitionOf(fairnessKey, configuration.partitions);
  const [job] = await on.submitNow(on.job({ fairnessKey, partition, ...changes }));
  if (job === undefined) throw new Error('nothing was submitted');
  return job;
}

const pass = (on: Redeployed, context: DispatchContext, partition: number, trigger: Partial<Trigger> = {}) =>
  on.finish(dispatch(context, partition, { jobs: [], reason: 'tick', ...trigger }));
const tick = (on: Redeployed, context: DispatchContext) =>
  on.finish(dispatchAll(context, { jobs: [], reason: 'tick' }));

/** Ticks, until what partitions wait for from each other is settled. */
async function settle(on: Redeployed, context: DispatchContext, rounds = 4, everyMs = 16_000): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await tick(on, context);
    await on.advance(everyMs);
  }
}

/** A key that lived in partition 1 of two, and lives in the only one by now. */
async function moved(): Promise<{
  readonly on: Redeployed;
  readonly key: string;
  readonly context: DispatchContext;
}> {
  const on = await redeployed(pool(2));
  const key = keyIn([1, 0], [2, 1]);
  await on.deploy(pool(1));
  const context = await on.process();
  await settle(on, context);
  return { on, key, context };
}

const home = (on: Redeployed, id: string) => on.store.inspectJob(id)?.partition;

async function started(on: Redeployed): Promise<ReadonlyMap<string, Started>> {
  return new Map((await on.startAll('images')).map((each) => [each.job.id, each]));
}

/** Ends what runs, and tells its partition. */
async function endOf(on: Redeployed, context: DispatchContext, run: Started | undefined): Promise<void> {
  if (run === undefined) throw new Error('it does not run');
  const ended = await on.end(run);
  await pass(on, context, ended.partition, { jobs: [ended], reason: 'stream' });
}

const inUse = (on: Redeployed): number =>
  [0, 1, 2, 3].reduce(
    (sum, partition) =>
      sum +
      [...on.store.inspect(partition).reservations.values()].reduce((all, { jobs }) => all + jobs.size, 0),
    0,
  );

async function operatorOf(on: Redeployed): Promise<OperateContext> {
  const declared = await on.declarations.current(0);
  const { configuration } = declared;
  const partitionOfKey = (key: string): number => partitionOf(key, configuration.partitions);
  return { ...(await on.operatorNow()), shared: declared, partitionOf: partitionOfKey };
}

describe('partitions of which one has not come to the declaration', () => {
  it('start nothing, say so, and begin once it has', async () => {
    const on = await redeployed(pool(1));
    await on.deploy(pool(2));
    const context = await on.process();
    const job = await jobOf(on, MOVED);
    await pass(on, context, 1);
    expect(on.stateOf(job.id)).toBe('pending');
    expect((await explainJob(await operatorOf(on), job.id))?.waitsFor).toContainEqual({
      why: 'handover',
      partition: 0,
      holds: 'declaration',
    });
    await pass(on, context, 0);
    await on.advance(1_000);
    await pass(on, context, 1);
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('believe only a read that began after the other had come', async () => {
    const on = await redeployed(pool(1, {}, { conflictGroup: 'album' }));
    await jobOf(on, STAYING, { resourceId: 'photos' });
    await tick(on, await on.process());
    await on.deploy(pool(2, {}, { conflictGroup: 'album' }));
    const context = await on.process();
    await pass(on, context, 0);
    const waiting = await jobOf(on, MOVED, { resourceId: 'photos' });
    let reads = 0;
    // A query reads item by item: its first one may have passed by what was reserved when the other's note was written.
    const torn = storeWith(on.store, {
      loadPartition: async ({ partition, nowMs }) => {
        const state = await on.store.loadPartition({ partition, nowMs });
        if (partition === 0) reads += 1;
        return partition === 0 && reads === 2 ? { ...state, reservations: [] } : state;
      },
    });
    // The first read is for the controls.
    for (let round = 0; round < 4; round += 1) {
      await pass(on, { ...context, store: torn }, 1);
      await on.advance(16_000);
    }
    expect(reads).toBeGreaterThan(2);
    expect(on.stateOf(waiting.id)).toBe('pending');
  });

  it('read nothing of each other, and write nothing, once it is over', async () => {
    const on = await redeployed(pool(1));
    await on.deploy(pool(4));
    const context = await on.process();
    await settle(on, context);
    const calls: string[] = [];
    const store = new Proxy(on.store, {
      get: (target, verb) => {
        const member: unknown = Reflect.get(target, verb, target);
        if (typeof member !== 'function') return member;
        return (...input: unknown[]) => {
          calls.push(String(verb));
          return member.apply(target, input);
        };
      },
    });
    await pass(on, { ...context, store }, 2);
    expect(calls.filter((verb) => verb === 'loadPartition')).toHaveLength(1);
    expect(calls).not.toContain('noteCarried');
    expect(calls).not.toContain('commit');
  });
});

describe('a cap that was lowered', () => {
  it('holds for all partitions together, also while what ran under the former one goes on', async () => {
    const on = await redeployed(pool(2, { maxConcurrency: 4 }));
    const context = await on.process();
    const key = keyIn([0], [2]);
    await jobOf(on, key);
    await jobOf(on, key);
    await settle(on, context);
    const runs = [...(await started(on)).values()];
    expect(runs).toHaveLength(2);
    await on.deploy(pool(2, { maxConcurrency: 2 }));
    const next = await on.process();
    const waiting = await jobOf(on, keyIn([1], [2]));
    await settle(on, next);
    expect(on.stateOf(waiting.id)).toBe('pending');
    expect((await explainJob(await operatorOf(on), waiting.id))?.waitsFor).toContainEqual({
      why: 'handover',
      partition: 0,
      holds: 'cap',
      name: 'pool',
    });
    await endOf(on, next, runs[0]);
    await settle(on, next);
    expect(on.stateOf(waiting.id)).toBe('claimed');
    expect(inUse(on)).toBe(2);
  });
});

describe('a job that was reserved in one of two partitions, and whose claim with its lock never came', () => {
  it.each([0, 1])(
    'does not start beside one of its conflict key from the other, where no lock is needed any more: partition %d',
    async (home) => {
      const exclusive = { conflictGroup: 'album' };
      const on = await redeployed(pool(2, {}, exclusive));
      const before = await on.process();
      await settle(on, before, 3, 1_000);
      const unclaimed = await jobOf(on, keyIn([home], [2]), { resourceId: 'photos' });
      const claim = async (claims: readonly unknown[]) => claims.map(() => 'unknown' as const);
      await tick(on, { ...before, store: storeWith(before.store, { claim }) });
      const other = await jobOf(on, keyIn([1 - home], [2]), { resourceId: 'photos' });
      await tick(on, before);
      expect([...(await started(on)).keys()]).toEqual([other.id]);
      await on.deploy(pool(1, {}, exclusive));
      const after = await on.process();
      // As long as the other one runs, and the place of this one is looked at, and given up.
      for (let round = 0; round < 10; round += 1) {
        await on.advance(20_000);
        await tick(on, after);
        expect((await started(on)).has(unclaimed.id)).toBe(false);
      }
      expect(on.store.inspectJob(unclaimed.id)).toMatchObject({ state: 'pending', version: 2 });
    },
  );
});

describe('what runs in several partitions that are none any more', () => {
  /** Two jobs in each of three partitions, then one partition, and one job more. */
  async function lowered(more: Partial<PoolInput>, type: Type = {}, limit?: number) {
    const on = await redeployed(pool(3, more, type));
    for (let at = 0; at < 6; at += 1) await jobOf(on, keyIn([at % 3], [3], at));
    await settle(on, await on.process());
    const runs = await started(on);
    expect(runs.size).toBe(6);
    if (limit !== undefined)
      await changeControl(await operatorOf(on), { fleet: 'images' }, { maxConcurrency: limit });
    await on.deploy(pool(1, more, type));
    const context = await on.process();
    const waiting = await jobOf(on, 'key-of-now');
    await settle(on, context);
    return { on, context, runs, waiting };
  }

  it.each<readonly [string, Partial<PoolInput>, Type, number | undefined, string]>([
    ["a pool's cap", { maxConcurrency: 6 }, {}, undefined, 'pool'],
    ["a type's cap", {}, { maxConcurrency: 6 }, undefined, 'type/resize'],
    [
      "a fleet's slots",
      { fleets: { images: { types: ['resize'], slots: 6 } } },
      {},
      undefined,
      'fleet/images',
    ],
    ["an operator's cap of a fleet", {}, {}, 6, 'fleet/images'],
  ])(
    'counts together towards %s, and explain names each that has a part in it',
    async (_, more, type, limit, name) => {
      const { on, context, runs, waiting } = await lowered(more, type, limit);
      expect(on.stateOf(waiting.id)).toBe('pending');
      expect((await explainJob(await operatorOf(on), waiting.id))?.waitsFor).toEqual(
        [1, 2].map((partition) => ({ why: 'handover', partition, holds: 'cap', name })),
      );
      await endOf(on, context, [...runs.values()].at(-1));
      await settle(on, context);
      expect(on.stateOf(waiting.id)).toBe('claimed');
    },
  );
});

describe('a client that looked shortly before a deployment', () => {
  it('sees, and puts into the queue again, what is in all partitions a second after it', async () => {
    const once: Type = { retry: { maxAttempts: 1 } };
    const on = await redeployed(pool(1, {}, once));
    const declarations = new Declarations({ store: on.store, clock: on.clock, log: on.log });
    const newId = (): string => on.job().id;
    const client = new StoreClient({
      store: on.store,
      queue: on.queue,
      declarations,
      clock: on.clock,
      newId,
    });
    await client.types();
    await on.deploy(pool(8, {}, once));
    const context = await on.process();
    await settle(on, context, 4, 2_000);
    const jobs = await Promise.all(Array.from({ length: 8 }, (_, home) => jobOf(on, keyIn([home], [8]))));
    await settle(on, context, 4, 2_000);
    const count = async (state: 'running' | 'failed'): Promise<number> =>
      (await allOf(client.list({ state }))).length;
    const runs = await started(on);
    expect(await count('running')).toBe(jobs.length);
    expect((await client.fleets()).map(({ busy }) => busy)).toEqual([jobs.length]);
    for (const run of runs.values()) await on.end(run, FAILED);
    expect(await count('failed')).toBe(jobs.length);
    expect(await allOf(client.redriveDeadLetters({}))).toHaveLength(jobs.length);
  });
});

describe('a key that lives somewhere else', () => {
  it('has its jobs in flight counted towards its cap', async () => {
    const fairness = { maxConcurrencyPerKey: 1 };
    const on = await redeployed(pool(1, { fairness }));
    const first = await jobOf(on, MOVED);
    await settle(on, await on.process());
    const runs = await started(on);
    await on.deploy(pool(2, { fairness }));
    const context = await on.process();
    const second = await jobOf(on, MOVED);
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('pending');
    expect((await explainJob(await operatorOf(on), second.id))?.waitsFor).toContainEqual({
      why: 'handover',
      partition: 0,
      holds: 'cap',
      name: `key/${MOVED}`,
    });
    await endOf(on, context, runs.get(first.id));
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('claimed');
  });

  it('has its waiting jobs there: those in lines at once, parked ones too, and those to come when it is time', async () => {
    const on = await redeployed(pool(1, {}, { conflictGroup: 'album' }), { budget: { parkKept: 1 } });
    const context = await on.process();
    const holder = await jobOf(on, STAYING, { resourceId: 'photos' });
    await tick(on, context);
    const waiting = await Promise.all(
      Array.from({ length: 12 }, () => jobOf(on, MOVED, { resourceId: 'photos' })),
    );
    await settle(on, context, 2);
    expect(waiting.some(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/'))).toBe(true);
    const runAtMs = on.time.nowMs + 200_000;
    const future = await jobOf(on, MOVED, { state: 'scheduled', runAtMs, readyAtMs: runAtMs });
    const runs = await started(on);
    await on.deploy(pool(2, {}, { conflictGroup: 'album' }));
    const next = await on.process();
    await settle(on, next);
    expect(waiting.map(({ id }) => home(on, id))).toEqual(waiting.map(() => 1));
    expect(on.store.inspectJob(future.id)).toMatchObject({ state: 'scheduled', partition: 0 });
    const listed = await allOf(listJobs(await operatorOf(on), 'scheduled', { fairnessKey: MOVED }));
    expect(listed.map(({ id }) => id)).toEqual([future.id]);
    await on.advance(200_000);
    await settle(on, next, 2);
    expect(on.store.inspectJob(future.id)).toMatchObject({ partition: 1 });
    await endOf(on, next, runs.get(holder.id));
  });

  it('has its pauses there, and none that was ended', async () => {
    const on = await redeployed(pool(1));
    const scope = { fairnessKey: MOVED };
    await changeControl(await operatorOf(on), scope, { paused: true });
    await changeControl(await operatorOf(on), { type: 'resize' }, { maxConcurrency: 2 });
    await on.deploy(pool(2));
    const job = await jobOf(on, MOVED);
    await settle(on, await on.process());
    expect(on.stateOf(job.id)).toBe('pending');
    expect((await on.store.loadPartition({ partition: 1, nowMs: on.time.nowMs })).controls).toHaveLength(2);
    await changeControl(await operatorOf(on), scope, { paused: false });
    await on.deploy(pool(1));
    await settle(on, await on.process());
    await changeControl(await operatorOf(on), { type: 'resize' }, { maxConcurrency: null });
    await on.deploy(pool(2));
    await settle(on, await on.process());
    expect((await on.store.loadPartition({ partition: 1, nowMs: on.time.nowMs })).controls).toEqual([]);
    expect(['claimed', 'running']).toContain(on.stateOf(job.id));
  });

  it('is not claimed for a partition by what a late hint tells of the time when it stood there', async () => {
    const { on, key, context } = await moved();
    // Somebody who knew no better has moved it.
    const job = await jobOf(on, key, { partition: 1, version: 2 });
    await on.advance(31_000);
    await pass(on, context, 0, { jobs: [{ ...job, partition: 0, version: 1 }], reason: 'stream' });
    expect([home(on, job.id), on.stateOf(job.id)]).toEqual([1, 'pending']);
    expect([...on.store.inspect(0).reservations.values()]).toEqual([]);
    await pass(on, context, 1, { jobs: [job], reason: 'stream' });
    await tick(on, context);
    expect([home(on, job.id), on.stateOf(job.id)]).toEqual([0, 'claimed']);
  });

  it('takes no place among others of its key by such a hint, where those are known', async () => {
    const { on, key, context } = await moved();
    const others = [];
    for (let at = 0; at < 20; at += 1) others.push(await jobOf(on, key, { partition: 0 }));
    await pass(on, context, 0, { jobs: others, reason: 'stream' });
    const runs = await started(on);
    expect(runs.size).toBe(16);
    const stray = await jobOf(on, key, { partition: 1, version: 2, priority: 10 });
    await on.advance(31_000);
    await pass(on, context, 0, { jobs: [{ ...stray, partition: 0, version: 1 }], reason: 'stream' });
    await endOf(on, context, runs.get(others[0]?.id ?? ''));
    const held = [...on.store.inspect(0).reservations.values()].flatMap(({ jobs }) => [...jobs.values()]);
    expect(held).toHaveLength(16);
    expect(held.map(({ id }) => id)).not.toContain(stray.id);
  });

  it('keeps an attempt that is over where it ran, until it was charged', async () => {
    const on = await redeployed(pool(1, {}, { retry: { maxAttempts: 2, delayMs: 0 } }));
    const job = await jobOf(on, MOVED);
    await tick(on, await on.process());
    const runs = await started(on);
    await on.deploy(pool(2, {}, { retry: { maxAttempts: 2, delayMs: 0 } }));
    const context = await on.process();
    await settle(on, context, 1);
    const run = runs.get(job.id);
    if (run === undefined) throw new Error('it does not run');
    const error = { name: 'Broken', message: 'it broke' };
    const ended = await on.end(run, { kind: 'retry', error, runAtMs: on.time.nowMs });
    // Nobody told of its end: only when the reservation is looked at is its place settled.
    await tick(on, context);
    expect(home(on, job.id)).toBe(0);
    await settle(on, context, 8);
    expect(home(on, job.id)).toBe(1);
    const [ledger] = await on.store.getLedgers({ partition: 0, fairnessKeys: [MOVED] });
    expect(ledger?.settledCostMs).toBe((ended.finishedAtMs ?? 0) - (ended.startedAtMs ?? 0));
  });

  it('loses no job to a dispatcher that dies while it moves it', async () => {
    const on = await redeployed(pool(1));
    const job = await jobOf(on, MOVED);
    await on.deploy(pool(2));
    const context = await on.process();
    const dies = new Proxy(on.store, {
      get: (target, verb) => {
        const member: unknown = Reflect.get(target, verb, target);
        if (typeof member !== 'function') return member;
        return async (...input: unknown[]) => {
          const answer: unknown = await member.apply(target, input);
          if (verb === 'rehome') throw new Error('it dies');
          return answer;
        };
      },
    });
    await expect(pass(on, { ...context, store: dies }, 0)).rejects.toThrow('it dies');
    expect(home(on, job.id)).toBe(1);
    // No hint tells of it: the new partition finds it in its lines.
    await on.advance(60_000);
    await settle(on, await on.process());
    expect(on.stateOf(job.id)).toBe('claimed');
  });
});

describe('jobs of one resource', () => {
  it('exclude those that began in the only partition, without a lock', async () => {
    const on = await redeployed(pool(1, {}, { conflictGroup: 'album' }));
    const first = await jobOf(on, STAYING, { resourceId: 'photos' });
    await settle(on, await on.process());
    const runs = await started(on);
    await on.deploy(pool(2, {}, { conflictGroup: 'album' }));
    const context = await on.process();
    const second = await jobOf(on, MOVED, { resourceId: 'photos' });
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('pending');
    expect((await explainJob(await operatorOf(on), second.id))?.waitsFor).toContainEqual({
      why: 'handover',
      partition: 0,
      holds: 'conflict',
      name: 'album/photos',
    });
    await endOf(on, context, runs.get(first.id));
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('claimed');
  });

  it('exclude those that began in a partition that is none any more, and their lock is given back', async () => {
    const on = await redeployed(pool(2, {}, { conflictGroup: 'album' }));
    const first = await jobOf(on, keyIn([1, 0], [2, 1]), { resourceId: 'photos' });
    await settle(on, await on.process());
    const runs = await started(on);
    await on.deploy(pool(1, {}, { conflictGroup: 'album' }));
    const context = await on.process();
    const second = await jobOf(on, STAYING, { resourceId: 'photos' });
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('pending');
    await endOf(on, context, runs.get(first.id));
    expect(on.store.inspectLock('album/photos')?.holder).toBeUndefined();
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('claimed');
  });

  it.each([
    ['renamed', 'album', 'shelf'],
    ['added', null, 'shelf'],
  ])('exclude those that began in another partition before the group was %s', async (_, before, after) => {
    const on = await redeployed(pool(2, {}, { conflictGroup: before }));
    const first = await jobOf(on, keyIn([0], [2]), { resourceId: 'photos' });
    await settle(on, await on.process());
    const runs = await started(on);
    await on.deploy(pool(2, {}, { conflictGroup: after }));
    const context = await on.process();
    const second = await jobOf(on, keyIn([1], [2]), { resourceId: 'photos' });
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('pending');
    await endOf(on, context, runs.get(first.id));
    await settle(on, context);
    expect(on.stateOf(second.id)).toBe('claimed');
  });
});
