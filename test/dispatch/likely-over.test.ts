/** Where slots are scarce, a pass looks up what should have ended, and need not wait for the stream to tell of it. */
import { describe, expect, it } from 'vitest';
import { claimIdOf, type Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { endsLikelyAtMs } from '../../lib/dispatch/pass/likely-over.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';
import { aReservation, aReservedJob } from '../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { notingLooks, type Stage, type Started, stage, storeWith } from './stage.ts';

const SLOTS = 4;

interface Scene {
  readonly on: Stage;
  readonly running: readonly Started[];
  /** Makes a pass that is told of a new job. Answers what it settled, and which jobs it looked up. */
  readonly pass: (
    hints?: readonly Job[],
  ) => Promise<{ readonly settled: number; readonly looked: readonly string[] }>;
}

interface Options {
  /** Of all partitions. */
  readonly slots?: number;
  /** The slots are those of a worker. */
  readonly isWorkers?: boolean;
  readonly partitions?: number;
  readonly costMs?: number;
  /** How long it takes to load the partition, also in the pass that starts the jobs: that much later they are seen to run. */
  readonly answerMs?: number;
}

/** All slots are taken, or some are free, and a job waits. */
async function scene({
  slots = SLOTS,
  isWorkers = false,
  partitions = 1,
  costMs = 1_000,
  answerMs = 0,
}: Options = {}): Promise<Scene> {
  const on = stage({
    pool: {
      types: { resize: { defaultCostMs: costMs, timeoutMs: 600_000 } },
      fleets: { images: isWorkers ? { types: ['resize'] } : { types: ['resize'], slots } },
      partitions,
    },
  });
  if (isWorkers) {
    const record = aWorkerRecord({ slots, expiresAtMs: on.time.nowMs + 600_000 });
    await on.store.registerWorker({ partition: 0, record });
  }
  const keys = Array.from({ length: 100 }, (_, at) => `tenant-${at}`);
  const fairnessKey = keys.find((key) => partitionOf(key, partitions) === 0) ?? '';
  const { store: noting, looked } = notingLooks(on.store);
  const store = storeWith(noting, {
    loadPartition: async (asked) => {
      await on.clock.sleep(answerMs);
      return on.store.loadPartition(asked);
    },
  });
  const context = on.dispatcher({ store });
  await on.put(...Array.from({ length: SLOTS }, () => on.job({ fairnessKey })));
  await on.pass({ reason: 'tick' }, context);
  const running = [...(await on.startEverywhere())];
  expect(running).toHaveLength(SLOTS);
  const pass: Scene['pass'] = async (hints = []) => {
    looked.length = 0;
    const [job] = (await on.put(on.job({ fairnessKey }))) as [Job];
    const { settled } = await on.pass({ reason: 'stream', jobs: [job, ...hints] }, context);
    return { settled, looked: [...looked] };
  };
  return { on, running, pass };
}

/** One of the running jobs ends so long after it was reserved, and nobody is told. */
async function ends({ on, running }: Scene, afterMs: number): Promise<Job> {
  await on.advance(afterMs);
  return on.end(running[0] as Started);
}

describe('an end of which nobody has told', () => {
  it.each([
    ['that are declared', {}],
    ["that are a partition's part of those declared", { slots: 3 * SLOTS, partitions: 3 }],
    ['of workers', { isWorkers: true }],
  ])('is found where all slots %s are taken, as soon as the job should have ended', async (_, options) => {
    const at = await scene(options);
    await ends(at, 1_150);
    const { settled, looked } = await at.pass();
    expect([settled, looked.length]).toEqual([1, SLOTS]);
    expect(at.on.held()).toHaveLength(SLOTS);
  });

  it.each([
    ['slots are free', { slots: 3 * SLOTS }, 1_150],
    ['slots of workers are free', { slots: 3 * SLOTS, isWorkers: true }, 1_150],
    ['the attempt may have begun a little later than its place was reserved', {}, 1_050],
    ['the job is estimated to take longer', { costMs: 2_000 }, 1_150],
    ['the stream has told of it by now, if it has ended', {}, 1_400],
    ['jobs are long: a slot that waits for the stream loses little', { costMs: 6_000 }, 6_650],
    ['the store takes as long to answer as the stream to tell', { answerMs: 300 }, 850],
  ])('is not looked for where %s', async (_, options, afterMs) => {
    const at = await scene(options);
    await ends(at, afterMs);
    expect(await at.pass()).toEqual({ settled: 0, looked: [] });
  });

  it('is not looked for where thousands of keys were charged', async () => {
    const at = await scene();
    const fence = { partition: 0, epoch: at.on.store.inspect(0).lease.epoch };
    for (let from = 0; from < 2_000; from += 80) {
      const ledgers = Array.from({ length: 80 }, (_, key) => aLedger({ fairnessKey: `key-${from + key}` }));
      expect(await at.on.store.commit({ fence, commit: aCommit({ ledgers }) })).toBe('committed');
    }
    await ends(at, 1_150);
    expect((await at.pass()).looked).toEqual([]);
  });

  it('is looked for whenever it should have been, where word was left', async () => {
    const at = await scene({ costMs: 60_000 });
    const ended = await ends(at, 70_000);
    await at.on.store.wake({ partition: 0, jobs: [{ id: 'other', version: 1, isWaiting: true }] });
    const { settled, looked } = await at.pass();
    expect(settled).toBe(1);
    expect(looked).toContain(ended.id);
  });

  it('is looked for, of a long job and later than the stream would tell, where word was left', async () => {
    const at = await scene({ costMs: 6_000 });
    await ends(at, 8_000);
    await at.on.store.wake({ partition: 0, jobs: [{ id: 'other', version: 1, isWaiting: true }] });
    expect(await at.on.pass({ reason: 'wake' }, at.on.dispatcher())).toMatchObject({ settled: 1 });
  });

  it('is not looked up if the pass is told of it', async () => {
    const at = await scene();
    const ended = await ends(at, 1_150);
    const { settled, looked } = await at.pass([ended]);
    expect(settled).toBe(1);
    expect(looked).not.toContain(ended.id);
  });

  it('is found beside any number of jobs that take longer than estimated', async () => {
    const [long, short] = [450, 50];
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000 } },
        fleets: { images: { types: ['resize'], slots: long + short } },
      },
    });
    let looked = 0;
    const store = storeWith<JobStore>(on.store, {
      lookUpJobs: (asked) => {
        looked += asked.ids.length;
        return on.store.lookUpJobs(asked);
      },
    });
    const context = on.dispatcher({ store });
    const jobsOf = (count: number): Promise<readonly Job[]> =>
      on.put(...Array.from({ length: count }, () => on.job()));
    await jobsOf(long);
    await on.pass({}, context);
    await on.startEverywhere();
    await on.advance(30_000);
    await jobsOf(short);
    await on.pass({}, context);
    const ending = await on.startEverywhere();
    await on.advance(1_200);
    for (const each of ending) await on.end(each);
    await on.store.wake({ partition: 0, jobs: [{ id: 'other', version: 1, isWaiting: true }] });
    looked = 0;
    const { settled } = await on.pass({ reason: 'stream', jobs: await jobsOf(short) }, context);
    expect(settled).toBe(short);
    // Beside those that it was told of, and the one that word named.
    expect(looked).toBeLessThanOrEqual(400 + short + 1);
  });

  it('is found beside any number of those by whoever hears word first', async () => {
    const [long, short] = [450, 50];
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000 } },
        fleets: { images: { types: ['resize'], slots: long + short } },
      },
    });
    const start = async (count: number): Promise<readonly Started[]> => {
      await on.put(...Array.from({ length: count }, () => on.job()));
      await on.pass();
      return on.startEverywhere();
    };
    await start(long);
    await on.advance(30_000);
    const ending = await start(short);
    await on.advance(1_200);
    for (const each of ending) await on.end(each);
    await on.store.wake({ partition: 0, jobs: [{ id: 'other', version: 1, isWaiting: true }] });
    expect(await on.pass({ reason: 'wake' }, on.dispatcher())).toMatchObject({ settled: short });
  });
});

describe('the first end that is likely, of what a pass leaves in flight', () => {
  const scope = { state: { ledgers: [] }, nowMs: NOW_MS };
  const placesOf = (...costsMs: readonly number[]): ReturnType<typeof aReservation> =>
    aReservation([], {
      batchId: '1-1',
      jobs: new Map(
        costsMs.map((estimatedCostMs, at) => [at, aReservedJob({ id: `job-${at}` }, { estimatedCostMs })]),
      ),
    });

  it('is that of the shortest attempt, a tenth later than it was estimated, in whatever order they stand', () => {
    for (const costsMs of [
      [2_000, 1_000, 3_000],
      [1_000, 2_000],
      [3_000, 2_000, 1_000],
    ])
      expect(endsLikelyAtMs(scope, [placesOf(...costsMs)])).toBe(NOW_MS + 1_100);
  });

  it('is none of a long attempt, nor one of which the stream has told by now', () => {
    expect(endsLikelyAtMs(scope, [placesOf(5_001)])).toBe(Infinity);
    expect(endsLikelyAtMs({ ...scope, nowMs: NOW_MS + 1_300 }, [placesOf(1_000)])).toBe(Infinity);
    expect(endsLikelyAtMs({ ...scope, nowMs: NOW_MS + 1_299 }, [placesOf(1_000)])).toBe(NOW_MS + 1_100);
  });

  it('is none whose slot another job takes over, which sees it by itself', () => {
    const next = aReservedJob({ id: 'next' }, { estimatedCostMs: 4_000, takesOver: claimIdOf('1-1', 0) });
    const behind = aReservation([], { batchId: '1-2', jobs: new Map([[0, next]]) });
    expect(endsLikelyAtMs(scope, [placesOf(1_000, 2_000), behind])).toBe(NOW_MS + 2_200);
  });

  it('is not looked for among very many keys', () => {
    const ledgers = Array.from({ length: 2_001 }, () => aLedger());
    expect(endsLikelyAtMs({ ...scope, state: { ledgers } }, [placesOf(1_000)])).toBe(Infinity);
  });
});
