/** Capacity that partitions lend one another, as passes move it. */
import { describe, expect, it } from 'vitest';
import { LENDING_DEFAULTS } from '../../../lib/core/defaults.ts';
import type { Job, ReservedJob } from '../../../lib/core/job.ts';
import type { Loan } from '../../../lib/core/lending.ts';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { dispatch, dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import { explainJob } from '../../../lib/operate/explain.ts';
import { ITEM_BOUNDS } from '../../../lib/store/contract/bounds.ts';
import type { WorkerRecord } from '../../../lib/store/contract/records.ts';
import type { JobStore, RequestOf } from '../../../lib/store/contract/verbs.ts';
import { encodeRequest } from '../../../lib/store/table/codec/loan.ts';
import { itemBytes } from '../../../lib/store/table/metering.ts';
import { type Stage, type StageOptions, type Started, stage, storeWith } from '../../stage/stage.ts';

const keyIn = (partition: number, partitions: number): string => {
  for (let at = 0; ; at += 1) if (partitionOf(`key-${at}`, partitions) === partition) return `key-${at}`;
};

const pool = (more: PoolInput = {}): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 8 } },
  partitions: 2,
  ...more,
});

/** A pool in partitions, whose wakes cause passes as they do in the cloud. */
function pooled(more: PoolInput = {}, options: StageOptions = {}) {
  const on = stage({ ...options, pool: pool(more) });
  const { partitions } = on.configuration;
  on.queue.onWake((partition) => {
    void dispatchAll(on.main, { jobs: [], reason: 'wake', partitions: [partition] });
  });
  const running: Started[] = [];
  return {
    ...on,
    running,
    jobIn: (partition: number, changes: Partial<Job> = {}): Job =>
      on.job({ partition, fairnessKey: keyIn(partition, partitions), ...changes }),
  };
}
type Pooled = ReturnType<typeof pooled>;

const heldIn = (on: Stage, partition: number): readonly ReservedJob[] =>
  [...on.store.inspect(partition).reservations.values()].flatMap(({ jobs }) => [...jobs.values()]);
const counts = (on: Pooled): readonly number[] =>
  Array.from({ length: on.configuration.partitions }, (_, partition) => heldIn(on, partition).length);
const loansIn = (on: Stage, partition: number): readonly Loan[] => [
  ...on.store.inspect(partition).loans.values(),
];

/** Jobs come, as the stream shows them, and all that follows from that happens. */
const arrive = async (on: Pooled, ...jobs: readonly Job[]): Promise<void> => {
  await on.put(...jobs);
  await on.finish(dispatchAll(on.main, { jobs, reason: 'stream' }));
  await on.advance(1_000);
};
const manyIn = (on: Pooled, partition: number, count: number, changes: Partial<Job> = {}): readonly Job[] =>
  Array.from({ length: count }, () => on.jobIn(partition, changes));

const tick = async (on: Pooled): Promise<void> => {
  await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
  await on.advance(1_000);
};

/** Attempts end, and the stream shows it. */
const endAll = async (on: Pooled, count = Number.POSITIVE_INFINITY): Promise<void> => {
  on.running.push(...(await on.startEverywhere()));
  const jobs: Job[] = [];
  for (const each of on.running.splice(0, count)) jobs.push(await on.end(each));
  await on.finish(dispatchAll(on.main, { jobs, reason: 'stream' }));
  await on.advance(1_000);
};

const workerIn = (
  partition: number,
  slots: number,
  changes: Partial<WorkerRecord> = {},
): RequestOf<'registerWorker'> => ({
  partition,
  record: {
    workerId: 'box',
    incarnation: '0001',
    fleet: 'farm',
    slots,
    expiresAtMs: Number.MAX_SAFE_INTEGER,
    occupants: [],
    ...changes,
  },
});
const FARM = { fleets: { farm: { types: ['resize'], slots: null } } };

describe('a partition whose share is used up', () => {
  it('is lent half of what another one has free, each time that it asks', async () => {
    const on = pooled();
    await arrive(on, ...manyIn(on, 0, 20));
    expect(counts(on)).toEqual([6, 0]);
    expect(loansIn(on, 0)).toEqual(loansIn(on, 1));
    expect(loansIn(on, 0)).toMatchObject([
      { from: 1, to: 0, units: 2, scopes: [{ scope: 'fleet/images', under: '8/2' }] },
    ]);
    await on.advance(2_000);
    await endAll(on, 1);
    expect(counts(on)).toEqual([7, 0]);
    await on.advance(2_000);
    await endAll(on, 1);
    expect(counts(on)).toEqual([8, 0]);
  });

  it.each(['claimed', 'unknown'] as const)(
    'is lent nothing that the same pass has just filled, be its claims %s',
    async (answer) => {
      // Each job has a lock of its own, so that its pass claims it.
      const type = { defaultCostMs: 1_000, timeoutMs: 600_000, conflictGroup: 'album' };
      const on = stage({ pool: pool({ types: { resize: type } }) });
      let albums = 0;
      let claims = 0;
      const jobIn = (partition: number): Job => {
        albums += 1;
        return on.job({ partition, fairnessKey: keyIn(partition, 2), resourceId: `album-${albums}` });
      };
      const [demands, lender] = [
        Array.from({ length: 20 }, () => jobIn(0)),
        Array.from({ length: 4 }, () => jobIn(1)),
      ];
      await on.put(...demands, ...lender);
      await on.finish(dispatch(on.main, 0, { jobs: demands, reason: 'stream' }));
      expect((await on.store.loadPartition({ partition: 1, nowMs: on.time.nowMs })).requests).toHaveLength(1);
      const store = storeWith(on.store, {
        claim: async (requests) => {
          const outcomes = await on.store.claim(requests);
          claims += outcomes.length;
          return outcomes.map((outcome) => (answer === 'unknown' ? answer : outcome));
        },
      });
      await on.finish(dispatch(on.dispatcher({ store }), 1, { jobs: lender, reason: 'stream' }));
      expect(claims).toBe(lender.length);
      expect(loansIn(on, 1)).toEqual([]);
      await on.finish(dispatch(on.main, 0, { jobs: [], reason: 'tick' }));
      expect([heldIn(on, 0).length, heldIn(on, 1).length]).toEqual([4, 4]);
    },
  );

  it('is lent what the pool declares, for as long', async () => {
    const on = pooled({ lending: { lentShare: 1, loanMs: 60_000 } });
    await arrive(on, ...manyIn(on, 0, 20));
    expect(counts(on)).toEqual([8, 0]);
    const [loan, ...more] = loansIn(on, 0);
    expect(more).toEqual([]);
    expect(loan).toMatchObject({ units: 4 });
    expect((loan?.expiresAtMs ?? 0) - on.time.nowMs).toBeGreaterThan(LENDING_DEFAULTS.loanMs);
  });

  it.each([
    ['the last of its jobs waits', (on: Pooled) => manyIn(on, 0, 5), async () => {}],
    [
      'its type is paused',
      (on: Pooled) => manyIn(on, 0, 20),
      (on: Pooled) =>
        on.store.changeControl({ partition: 0, scope: 'type/resize', change: { paused: true } }),
    ],
    [
      'its key has its cap',
      (on: Pooled) => manyIn(on, 0, 20),
      (on: Pooled) =>
        on.store.changeControl({ partition: 0, scope: `key/${keyIn(0, 2)}`, change: { maxConcurrency: 4 } }),
    ],
  ] as const)('asks for nothing when %s', async (_name, jobs, prepare) => {
    const on = pooled();
    await prepare(on);
    await arrive(on, ...jobs(on));
    expect(loansIn(on, 0)).toEqual([]);
    expect((await on.store.loadPartition({ partition: 1, nowMs: on.time.nowMs })).requests).toEqual([]);
  });

  it('goes on when nobody can be asked', async () => {
    const on = pooled();
    const askForLoan = () => Promise.reject(new Error('the store is away'));
    const main = on.dispatcher({ store: storeWith(on.store, { askForLoan }) });
    const jobs = manyIn(on, 0, 20);
    await on.put(...jobs);
    const [report] = await on.finish(dispatchAll(main, { jobs, reason: 'stream' }));
    expect(report).toMatchObject({ kind: 'done', admitted: 4 });
    expect(on.logged).toContainEqual({
      level: 'warn',
      message: 'capacity could not be asked for; a later pass asks again',
      fields: { partition: 1, error: 'Error: the store is away' },
    });
  });

  it('asks three at a time, and others the next time', async () => {
    const on = pooled({ partitions: 6, fleets: { images: { types: ['resize'], slots: 6 } } });
    const asked = new Set<number>();
    const askForLoan: JobStore['askForLoan'] = async ({ partition }) => void asked.add(partition);
    const main = on.dispatcher({ store: storeWith(on.store, { askForLoan }) });
    const jobs = manyIn(on, 0, 20);
    await on.put(...jobs);
    await on.finish(dispatchAll(main, { jobs, reason: 'stream' }));
    expect(asked.size).toBe(3);
    await on.finish(dispatchAll(main, { jobs, reason: 'stream' }));
    expect(asked.size).toBe(3);
    await on.advance(2_000);
    await on.finish(dispatchAll(main, { jobs, reason: 'stream' }));
    expect([...asked].sort()).toEqual([1, 2, 3, 4, 5]);
  });

  it('is one of very many: what all of them ask for, and give back, fits into transactions', async () => {
    const partitions = 60;
    const slots = 100 * partitions;
    const on = pooled({
      partitions,
      maxConcurrency: slots,
      fleets: { images: { types: ['resize'], slots } },
    });
    const others = Array.from({ length: partitions - 1 }, (_, at) => at + 1);
    const asks = async (partition: number, borrower: number): Promise<void> => {
      const [askedAtMs, untilMs] = [on.time.nowMs, on.time.nowMs + 60_000];
      const wants = [{ units: 1, scopes: ['pool'], fleets: [] }];
      await on.store.askForLoan({
        partition,
        request: { partition: borrower, wants, askedAtMs, untilMs },
      });
    };
    const pass = (partition: number) =>
      on.finish(dispatchAll(on.main, { jobs: [], reason: 'stream', partitions: [partition] }));

    for (const other of others) await asks(0, other);
    for (let passes = 0; passes < 4; passes += 1) await pass(0);
    const lent = loansIn(on, 0).map(({ to }) => to);
    expect(lent.toSorted((one, other) => one - other)).toEqual(others);
    // Nobody has a job for it: each gives it back.
    for (const other of others) await pass(other);
    expect(loansIn(on, 0)).toEqual([]);

    for (const other of others) {
      await asks(other, 0);
      await pass(other);
    }
    expect(loansIn(on, 0)).toHaveLength(others.length);
    for (let passes = 0; passes < 4; passes += 1) await pass(0);
    expect([0, ...others].flatMap((partition) => loansIn(on, partition))).toEqual([]);
  });

  it('asks for as much as an item holds, and for the rest the next times', async () => {
    const types = Array.from({ length: 300 }, (_, at) => `${at}`.padStart(4, '0').padEnd(100, '日'));
    const on = pooled({
      types: Object.fromEntries(types.map((type) => [type, { timeoutMs: 600_000, maxConcurrency: 2 }])),
      fleets: { images: { types, slots: 20_000 } },
      lending: { maxBorrowed: 1_000 },
    });
    const asked = new Set<string>();
    const sizes: number[] = [];
    const askForLoan: JobStore['askForLoan'] = async ({ partition, request }) => {
      sizes.push(itemBytes(encodeRequest(partition, request)));
      for (const { scopes } of request.wants) for (const scope of scopes) asked.add(scope);
    };
    const main = on.dispatcher({ store: storeWith(on.store, { askForLoan }) });
    const jobs = types.flatMap((type) => manyIn(on, 0, 3, { type }));
    await on.put(...jobs);
    await on.finish(dispatchAll(main, { jobs, reason: 'stream', partitions: [0] }));
    expect(asked.size).toBeGreaterThan(0);
    for (let times = 0; asked.size < types.length && times < 20; times += 1) {
      await on.advance(2_000);
      await on.finish(dispatchAll(main, { jobs, reason: 'stream', partitions: [0] }));
    }
    expect(asked).toEqual(new Set(types.map((type) => `type/${type}`)));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(ITEM_BOUNDS.request);
  });

  it('is told of by explain with what it may use by now', async () => {
    const on = pooled();
    const jobs = manyIn(on, 0, 20);
    await arrive(on, ...jobs);
    const context = on.operator();
    const waiting = jobs.find(({ id }) => on.stateOf(id) === 'pending');
    expect((await explainJob(context, waiting?.id ?? ''))?.fleets).toMatchObject([
      { fleet: 'images', slots: 6, busy: 6 },
    ]);
  });
});

describe('a partition without any share', () => {
  it('starts the only job it has with what it is lent', async () => {
    const on = pooled(FARM);
    await on.store.registerWorker(workerIn(1, 1));
    await on.store.registerWorker(workerIn(0, 0));
    await arrive(on, on.jobIn(0));
    expect(counts(on)).toEqual([1, 0]);
    expect(loansIn(on, 0)).toMatchObject([
      { units: 1, scopes: [{ scope: 'worker/box', under: '0001', fleet: 'farm' }] },
    ]);
  });

  it('finds it among many lines that are empty, in a few ticks', async () => {
    const on = pooled(FARM);
    await on.store.registerWorker(workerIn(1, 1));
    await on.store.registerWorker(workerIn(0, 0));
    const lines = Array.from({ length: 90 }, (_, at) => ({
      tier: 'standard',
      type: 'resize',
      mode: 'queued' as const,
      fairnessKey: `idle-${String(at).padStart(2, '0')}`,
    }));
    await on.store.announceLines({ partition: 0, lines, nowMs: on.time.nowMs });
    await on.put(on.jobIn(0));
    for (let ticks = 0; ticks < 40 && counts(on)[0] === 0; ticks += 1) {
      await on.advance(60_000);
      await tick(on);
    }
    expect(counts(on)).toEqual([1, 0]);
  });

  it('asks for jobs that are parked, once their conflict key is free', async () => {
    const on = pooled(
      { ...FARM, types: { resize: { conflictGroup: 'album', timeoutMs: 600_000 } } },
      { budget: { parkKept: 0 } },
    );
    await on.store.registerWorker(workerIn(0, 2));
    const jobs = manyIn(on, 0, 9, { resourceId: 'cats' });
    await arrive(on, ...jobs);
    expect(counts(on)).toEqual([1, 0]);
    await tick(on);
    await on.store.deregisterWorker({ partition: 0, worker: workerIn(0, 2).record });
    const next = { workerId: 'next', incarnation: '0001' };
    await on.store.registerWorker(workerIn(1, 1, next));
    await on.store.registerWorker(workerIn(0, 0, next));
    await endAll(on);
    expect(on.states(jobs).filter((state) => state === 'claimed')).toHaveLength(1);
  });

  it('asks for nothing where the whole pool has nothing', async () => {
    const on = pooled({ types: { resize: { maxConcurrency: 0 } } });
    await arrive(on, on.jobIn(0));
    const farm = pooled(FARM);
    await arrive(farm, farm.jobIn(0));
    for (const each of [on, farm])
      expect((await each.store.loadPartition({ partition: 1, nowMs: each.time.nowMs })).requests).toEqual([]);
  });
});

describe('a loan', () => {
  it('goes back as soon as nobody needs it', async () => {
    const on = pooled();
    await arrive(on, ...manyIn(on, 0, 6));
    expect(counts(on)).toEqual([6, 0]);
    await endAll(on, 1);
    expect(loansIn(on, 1)).toMatchObject([{ units: 1 }]);
    await endAll(on);
    expect([...loansIn(on, 0), ...loansIn(on, 1)]).toEqual([]);
    await arrive(on, ...manyIn(on, 1, 20));
    expect(counts(on)[1]).toBeGreaterThanOrEqual(4);
  });

  it('stays with the jobs that run when its time is over, and no other job starts with it', async () => {
    const on = pooled();
    await arrive(on, ...manyIn(on, 0, 20));
    expect(counts(on)).toEqual([6, 0]);
    // Its own work comes back to the lender, which lends no more.
    await arrive(on, ...manyIn(on, 1, 20));
    expect(counts(on)).toEqual([6, 2]);
    await on.advance(LENDING_DEFAULTS.loanMs);
    await tick(on);
    expect(counts(on)).toEqual([6, 2]);
    await endAll(on, 1);
    expect(counts(on)).toEqual([5, 3]);
    expect(loansIn(on, 0)).toMatchObject([{ units: 1 }]);
  });

  it('stays with the jobs that run while the worker whose slots it is of is not heard of', async () => {
    const on = pooled(FARM);
    await on.store.registerWorker(workerIn(1, 2));
    await on.store.registerWorker(workerIn(0, 0, { expiresAtMs: on.time.nowMs + 5_000 }));
    await arrive(on, on.jobIn(0));
    expect(counts(on)).toEqual([1, 0]);
    const loans = loansIn(on, 0);
    await on.advance(LENDING_DEFAULTS.loanMs);
    await tick(on);
    expect(loansIn(on, 0)).toEqual(loans);
  });

  it('ends with the life of the worker whose slots it is of, and is not made of one that ends', async () => {
    const on = pooled(FARM);
    await on.store.registerWorker(workerIn(1, 4));
    await on.store.registerWorker(workerIn(0, 1));
    await arrive(on, ...manyIn(on, 0, 9));
    expect(counts(on)).toEqual([3, 0]);
    const ending = { isEnding: true, slots: 3, expiresAtMs: Number.MAX_SAFE_INTEGER };
    await on.store.heartbeat(workerIn(0, 3, ending));
    await on.store.heartbeat(workerIn(1, 0, { ...ending, slots: 0 }));
    await arrive(on, on.jobIn(0));
    expect(counts(on)).toEqual([3, 0]);
    expect(loansIn(on, 0)).toEqual([]);
  });
});
