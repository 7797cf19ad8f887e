/** A function that leads: asked for where several compete for a busy partition, it keeps the lease, and gives it back in order. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { leadForAWhile, noteLed } from '../../lib/dispatch/lead-for-a-while.ts';
import { leaveWord, residentHolder } from '../../lib/dispatch/lease.ts';
import { runDispatcher } from '../../lib/dispatch/resident/resident.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { StoreRefused, StoreThrottled, StoreUnavailable } from '../../lib/store/errors.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aDispatcherRecord } from '../fixtures/factories/dispatcher.ts';
import { redeployed } from './redeployed.ts';
import { scene as scheduleScene } from './schedule-scene.ts';
import { answeringIn, type Stage, type StageOptions, stage, storeWith } from './stage.ts';

const RUN_MS = 30_000;
const CALM_MS = 3_000;
const SLOTS = 3_000;

const busyStage = (options: StageOptions = {}): Stage =>
  stage({
    pool: {
      types: { resize: { defaultCostMs: 60_000, timeoutMs: 600_000 } },
      fleets: { images: { types: ['resize'], slots: SLOTS } },
    },
    ...options,
  });

/** Two functions that the stream invokes, and who was asked to lead. */
function competing(on: Stage) {
  const asked: number[] = [];
  const lead = async (partition: number): Promise<void> => void asked.push(partition);
  return { asked, functions: [on.dispatcher({ lead }), on.dispatcher({ lead })] as const };
}

/** For some seconds, each pass is told of so many new jobs. */
async function keepBusy(
  on: Stage,
  whoseTurn: (at: number) => DispatchContext,
  {
    passes,
    jobs,
    everyMs = 100,
  }: { readonly passes: number; readonly jobs: number; readonly everyMs?: number },
): Promise<void> {
  for (let at = 0; at < passes; at += 1) {
    const told = (await on.put(...Array.from({ length: jobs }, () => on.job()))) as readonly Job[];
    await on.pass({ reason: 'stream', jobs: told }, whoseTurn(at));
    await on.advance(everyMs);
  }
}

const holderOf = async ({ store }: Stage): Promise<string | undefined> => {
  const lease = await store.readLease(0);
  return lease?.isHeld === true ? lease.holder : undefined;
};

const aFew = (on: Stage, count: number): Promise<readonly Job[]> =>
  on.put(...Array.from({ length: count }, () => on.job()));

const wordOf = (jobs: readonly Job[]) => jobs.map(({ id, version }) => ({ id, version, isWaiting: true }));

describe('who is asked to lead', () => {
  it('somebody, once, where two functions take turns and much goes on', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, { passes: 20, jobs: 10 });
    // Each of both has seen it.
    expect(asked).toEqual([0, 0]);
  });

  it('nobody where one process makes all passes', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, () => functions[0], { passes: 40, jobs: 10 });
    expect(asked).toEqual([]);
  });

  it('nobody where little goes on', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, { passes: 40, jobs: 1, everyMs: 150 });
    expect(asked).toEqual([]);
  });

  it.each([
    ['somebody', 'just above', 10, [0, 0]],
    ['nobody', 'just below', 9, []],
  ])('%s where %s as much goes on as makes leading worth it', async (_, __, jobs, expected) => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, { passes: 12, jobs, everyMs: 600 });
    expect(asked).toEqual(expected);
  });

  it('nobody where it takes longer than ten seconds to take the lease three times', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, {
      passes: 12,
      jobs: 160,
      everyMs: 5_100,
    });
    expect(asked).toEqual([]);
  });

  it.each([
    ['somebody', 'others were in the way', true, [0]],
    ['nobody', 'no other was', false, []],
  ])('%s where %s each time, though no other took the lease', async (_, __, isContended, expected) => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    for (let epoch = 1; epoch <= 12; epoch += 1) {
      await noteLed(functions[0], { partition: 0, epoch }, { moved: 10, isContended });
      await on.advance(200);
    }
    expect(asked).toEqual(expected);
  });

  it('nobody for what wakes and ticks do', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    for (let at = 0; at < 40; at += 1) {
      await on.put(...Array.from({ length: 10 }, () => on.job()));
      await on.pass({ reason: 'wake' }, functions[at % 2] as DispatchContext);
      await on.advance(100);
    }
    expect(asked).toEqual([]);
  });

  it('again after some seconds, if nobody has come', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, { passes: 90, jobs: 5 });
    expect(asked).toHaveLength(4);
  });

  it('nobody where others are in the way of one lease in three', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    for (let epoch = 1; epoch <= 60; epoch += 1) {
      await noteLed(functions[0], { partition: 0, epoch }, { moved: 10, isContended: epoch % 3 === 0 });
      await on.advance(100);
    }
    expect(asked).toEqual([]);
  });

  it('somebody, once much goes on, though little did for a long time before', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    const note = async (epoch: number, moved: number, everyMs: number): Promise<void> => {
      await noteLed(functions[0], { partition: 0, epoch }, { moved, isContended: true });
      await on.advance(everyMs);
    };
    for (let epoch = 1; epoch <= 4; epoch += 1) await note(epoch, 1, 15_000);
    expect(asked).toEqual([]);
    for (let epoch = 5; epoch <= 20; epoch += 1) await note(epoch, 10, 200);
    expect(asked).toEqual([0]);
  });

  it('nobody a second time where less goes on since than leading is worth', async () => {
    const on = busyStage();
    const { asked, functions } = competing(on);
    const whose = (at: number): DispatchContext => functions[at % 2] as DispatchContext;
    await keepBusy(on, whose, { passes: 20, jobs: 10 });
    expect(asked).toEqual([0, 0]);
    // Five starts a second.
    await keepBusy(on, whose, { passes: 60, jobs: 2, everyMs: 400 });
    expect(asked).toEqual([0, 0]);
  });

  it('nobody again for ten minutes where that has failed', async () => {
    const on = busyStage();
    let asked = 0;
    const lead = async (): Promise<void> => {
      asked += 1;
      throw new Error('not allowed');
    };
    const context = on.dispatcher({ lead });
    for (let epoch = 1; epoch <= 2_900; epoch += 1) {
      await noteLed(context, { partition: 0, epoch }, { moved: 10, isContended: true });
      await on.advance(200);
    }
    expect(asked).toBe(1);
  });

  it('is told of in the log where that fails, and the passes go on', async () => {
    const on = busyStage();
    const lead = async (): Promise<void> => {
      throw new Error('not allowed');
    };
    const functions = [on.dispatcher({ lead }), on.dispatcher({ lead })];
    await keepBusy(on, (at) => functions[at % 2] as DispatchContext, { passes: 20, jobs: 10 });
    expect(on.held()).toHaveLength(200);
    expect(on.logged.map(({ message }) => message)).toContain(
      'nobody could be asked to lead; functions go on one by one',
    );
  });
});

describe('a function that leads', () => {
  it('keeps the lease between its passes, starts what word tells of, and others need not wait', async () => {
    const on = busyStage();
    const led = leadForAWhile(on.dispatcher(), 0);
    await on.advance(500);
    expect(await holderOf(on)).toMatch(/^leading\//);
    const told = (await on.put(on.job(), on.job())) as readonly Job[];
    const startedMs = on.time.nowMs;
    expect(await on.pass({ reason: 'stream', jobs: told })).toMatchObject({ kind: 'left' });
    expect(on.time.nowMs - startedMs).toBeLessThan(20);
    await on.advance(400);
    expect(on.held()).toHaveLength(2);
    await on.finish(led);
  });

  it('goes on at once where a pass has met a bound', async () => {
    const on = busyStage({ budget: { promoteMax: 2 } });
    await on.put(
      ...Array.from({ length: 200 }, () => on.job({ state: 'scheduled', runAtMs: on.time.nowMs - 1_000 })),
    );
    const led = leadForAWhile(on.dispatcher(), 0);
    await on.advance(500);
    expect(on.held()).toHaveLength(200);
    await on.finish(led);
  });

  it('ends after some seconds in which little goes on, and asks for a pass', async () => {
    const on = busyStage();
    const startedMs = on.time.nowMs;
    const wakes = on.wakes.length;
    expect(await on.finish(leadForAWhile(on.dispatcher(), 0))).toMatchObject({ end: 'handed over' });
    expect(on.time.nowMs - startedMs).toBeLessThan(CALM_MS + 1_000);
    expect(await holderOf(on)).toBeUndefined();
    await on.advance(100);
    expect(on.wakes.length).toBe(wakes + 1);
  });

  it('goes on for as long as a run of passes may take, and is succeeded without a gap', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const startedMs = on.time.nowMs;
    let successor: ReturnType<typeof leadForAWhile> | undefined;
    const next = on.dispatcher();
    const lead = async (partition: number): Promise<void> => {
      successor = leadForAWhile(next, partition);
    };
    const first = await on.finish(leadForAWhile(on.dispatcher({ lead }), 0));
    expect(first).toMatchObject({ end: 'handed over' });
    expect(on.time.nowMs - startedMs).toBeGreaterThan(RUN_MS - 1_000);
    expect(on.time.nowMs - startedMs).toBeLessThan(RUN_MS + 1_000);
    expect(await holderOf(on)).toBe(`leading/${next.holder}`);
    // Whoever has come hears what was left: no pass is asked for beside it.
    expect(on.wakes).toEqual([]);
    await on.finish(successor as Promise<unknown>);
  });

  it('asks for a pass where whoever was asked to lead next does not come', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const asked: number[] = [];
    const lead = async (partition: number): Promise<void> => void asked.push(partition);
    await on.finish(leadForAWhile(on.dispatcher({ lead }), 0));
    await on.advance(100);
    expect([asked, on.wakes.length]).toEqual([[0], 1]);
  });

  it('is followed by a pass of whoever answers its call, though that one has left word just now', async () => {
    const on = busyStage();
    const other = on.dispatcher();
    const led = leadForAWhile(on.dispatcher(), 0);
    await on.advance(500);
    expect(await on.pass({ reason: 'wake' }, other)).toMatchObject({ kind: 'left' });
    await on.finish(led);
    await on.put(on.job());
    expect(await on.pass({ reason: 'wake' }, other)).toMatchObject({ kind: 'done', admitted: 1 });
  });

  it('asks for a pass at once where nobody could be asked to lead next', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    let givenBackAtMs = Infinity;
    const store = storeWith<JobStore>(on.store, {
      releaseLease: (request) => {
        givenBackAtMs = on.time.nowMs;
        return on.store.releaseLease(request);
      },
    });
    const lead = async (): Promise<void> => {
      throw new Error('not allowed');
    };
    await on.finish(leadForAWhile(on.dispatcher({ store, lead }), 0));
    await on.advance(100);
    expect(on.wakes).toHaveLength(1);
    expect((on.wakes[0] ?? Infinity) - givenBackAtMs).toBeLessThan(500);
  });

  it('asks for a pass where it ends as the store is throttled, though no word can be left', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    let isThrottled = false;
    const unlessThrottled = async <T>(call: () => Promise<T>): Promise<T> => {
      if (isThrottled) throw new StoreThrottled('busy');
      return call();
    };
    const store = storeWith<JobStore>(on.store, {
      readWakes: (partition) => unlessThrottled(() => on.store.readWakes(partition)),
      wake: (asked) => unlessThrottled(() => on.store.wake(asked)),
    });
    const led = leadForAWhile(on.dispatcher({ store }), 0);
    await on.advance(500);
    isThrottled = true;
    expect(await on.finish(led)).toMatchObject({ end: 'failed' });
    await on.advance(100);
    expect(on.wakes).toHaveLength(1);
  });

  it('leaves a partition to another that leads it already', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const first = leadForAWhile(on.dispatcher(), 0);
    await on.advance(100);
    expect(await on.finish(leadForAWhile(on.dispatcher(), 0))).toBeUndefined();
    await on.finish(first);
  });

  it('leaves a partition at once to a dispatcher that runs on', async () => {
    const on = busyStage();
    const holder = residentHolder({ dispatcherId: 'one', incarnation: '1' });
    await on.store.acquireLease({ partition: 0, holder, nowMs: on.time.nowMs, leaseMs: 20_000 });
    const startedMs = on.time.nowMs;
    expect(await on.finish(leadForAWhile(on.dispatcher(), 0))).toBeUndefined();
    expect(on.time.nowMs - startedMs).toBeLessThan(100);
  });

  it('leads nothing where a dispatcher that runs on lives, so that this one has the partition', async () => {
    const on = busyStage();
    const stop = new AbortController();
    const { store, queue, configuration, clock, random, log } = on;
    const settings = { store, queue, configuration, clock, random, log, signal: stop.signal };
    const first = leadForAWhile(on.dispatcher({ budget: { ...on.main.budget, leadWhile: 0 } }), 0);
    await on.advance(100);
    const resident = runDispatcher({ ...settings, dispatcherId: 'one' });
    await on.advance(1_000);
    expect(await on.finish(leadForAWhile(on.dispatcher(), 0))).toBeUndefined();
    await on.finish(first);
    await on.advance(1_000);
    expect(await holderOf(on)).toMatch(/^resident\/one\//);
    stop.abort();
    await on.finish(resident);
  });

  it('ends in order, with a pass asked for, where the store does not answer for a moment', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    let reads = 0;
    const store = storeWith<JobStore>(on.store, {
      readWakes: (partition) => {
        reads += 1;
        if (reads > 5) throw new StoreThrottled('busy');
        return on.store.readWakes(partition);
      },
    });
    expect(await on.finish(leadForAWhile(on.dispatcher({ store }), 0))).toMatchObject({ end: 'failed' });
    await on.advance(100);
    expect([await holderOf(on), on.wakes.length]).toEqual([undefined, 1]);
  });

  it('leads nothing where the store answers slowly: its last pass would outlast the function', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const startedMs = on.time.nowMs;
    await on.finish(leadForAWhile(on.dispatcher({ store: answeringIn(on, 3_500) }), 0));
    expect(on.time.nowMs - startedMs).toBeLessThan(30_000);
    await on.advance(100);
    expect([await holderOf(on), on.wakes.length]).toEqual([undefined, 1]);
  });

  it('uses a slot that is free after a time without as soon as a job comes', async () => {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 500, timeoutMs: 30_000 } },
        fleets: { images: { types: ['resize'], slots: 10 } },
      },
      budget: { leadWhile: 0 },
    });
    const wordOf = (jobs: readonly Job[], isWaiting: boolean) =>
      on.store.wake({ partition: 0, jobs: jobs.map(({ id, version }) => ({ id, version, isWaiting })) });
    const backlog = (await on.put(...Array.from({ length: 170 }, () => on.job()))) as readonly Job[];
    const led = leadForAWhile(on.dispatcher({ store: answeringIn(on, 6) }), 0);
    await wordOf(backlog, true);
    await on.advance(500);
    const running = [...(await on.startEverywhere())];
    // An end is told of each 50 ms, and the next job starts, until a slot stays free.
    while (running.length > 5) {
      await on.advance(50);
      running.push(...(await on.startEverywhere()));
      const [first] = running.splice(0, 1);
      if (first !== undefined) await wordOf([await on.end(first)], false);
    }
    const [job] = (await on.put(on.job())) as [Job];
    await wordOf([job], true);
    await on.advance(500);
    expect(on.stateOf(job.id)).not.toBe('pending');
    await on.finish(led);
  });

  it('hears what was left while it gave the lease back', async () => {
    const on = busyStage();
    let left: readonly Job[] = [];
    const store = storeWith<JobStore>(on.store, {
      releaseLease: async (request) => {
        // In the last moment: this one looks no more.
        left = (await on.put(on.job())) as readonly Job[];
        await on.store.wake({
          partition: 0,
          jobs: left.map(({ id, version }) => ({ id, version, isWaiting: true })),
        });
        return on.store.releaseLease(request);
      },
    });
    await on.finish(leadForAWhile(on.dispatcher({ store }), 0));
    await on.advance(100);
    expect(on.wakes).toHaveLength(1);
    await on.pass({ reason: 'wake' });
    expect(on.held()).toHaveLength(1);
  });

  it('gives the lease back, and asks for a pass, where it fails', async () => {
    const on = busyStage();
    const store = storeWith<JobStore>(on.store, {
      loadPartition: async () => {
        throw new StoreRefused('loadPartition');
      },
    });
    await expect(on.finish(leadForAWhile(on.dispatcher({ store }), 0))).rejects.toThrow(StoreRefused);
    await on.advance(100);
    expect([await holderOf(on), on.wakes.length]).toEqual([undefined, 1]);
  });

  it('leaves what it was shown to whoever has superseded it', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const led = leadForAWhile(on.dispatcher(), 0);
    await on.advance(200);
    const lease = await on.store.readLease(0);
    await on.store.releaseLease({ fence: { partition: 0, epoch: lease?.epoch ?? 0 }, isWriting: true });
    await on.pass({ reason: 'tick' });
    const told = (await on.put(on.job())) as readonly Job[];
    await on.store.wake({
      partition: 0,
      jobs: told.map(({ id, version }) => ({ id, version, isWaiting: true })),
    });
    expect(await on.finish(led)).toMatchObject({ end: 'superseded' });
    await on.advance(100);
    expect(on.wakes.length).toBeGreaterThan(0);
    await on.pass({ reason: 'wake' });
    expect(on.held()).toHaveLength(1);
  });

  it('ends some seconds after the work has, however much there was before', async () => {
    const on = busyStage();
    const led = leadForAWhile(on.dispatcher(), 0);
    for (let at = 0; at < 50; at += 1) {
      await on.store.wake({ partition: 0, jobs: wordOf(await aFew(on, 18)) });
      await on.advance(200);
    }
    const sinceMs = on.time.nowMs;
    expect(await on.finish(led)).toMatchObject({ end: 'handed over', admitted: 900 });
    expect(on.time.nowMs - sinceMs).toBeGreaterThan(CALM_MS);
    expect(on.time.nowMs - sinceMs).toBeLessThan(2 * CALM_MS + 500);
  });

  it('leaves word of the hints that it has heard where it is superseded within a pass', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    let isToLose = false;
    const store = storeWith<JobStore>(on.store, {
      loadPartition: async (asked) => {
        if (isToLose) {
          isToLose = false;
          const epoch = (await on.store.readLease(0))?.epoch ?? 0;
          await on.store.releaseLease({ fence: { partition: 0, epoch }, isWriting: true });
          await on.store.acquireLease({
            partition: 0,
            holder: 'other',
            nowMs: on.time.nowMs,
            leaseMs: 20_000,
          });
        }
        return on.store.loadPartition(asked);
      },
    });
    const led = leadForAWhile(on.dispatcher({ store }), 0);
    await on.advance(500);
    const told = await aFew(on, 8);
    const { names: before } = await on.store.readWakes(0);
    await leaveWord(on.main, 0, { jobs: wordOf(told), hints: told });
    const { names: heard } = await on.store.readWakes(0);
    expect(heard).toBeGreaterThan(before);
    isToLose = true;
    expect(await on.finish(led)).toMatchObject({ end: 'superseded' });
    expect((await on.store.readWakes(0)).names).toBe(heard + heard - before);
  });

  it('ends where a newer declaration has come, with word that says of nothing, and a pass asked for', async () => {
    const pool = { types: { resize: {} }, fleets: { images: { types: ['resize'], slots: 4 } } };
    const on = await redeployed(pool, { budget: { leadWhile: 0 } });
    const former = await on.process();
    const version = await on.deploy({ ...pool, fleets: { images: { types: ['resize'], slots: 5 } } });
    await on.store.announceDeclaration({ partition: 0, version });
    await on.advance(1_000);
    const { wakes, named } = await on.store.readWakes(0);
    const sent = on.wakes.length;
    expect(await on.finish(leadForAWhile(former, 0))).toMatchObject({ end: 'redeployed' });
    await on.advance(100);
    const left = await on.store.readWakes(0);
    expect(left.wakes - left.named).toBe(wakes - named + 1);
    expect(on.wakes.length).toBe(sent + 1);
  });

  it('fires schedules when their time has come', async () => {
    const { on, put, jobs } = scheduleScene();
    await put({ when: { kind: 'every', everyMs: 10_000 } });
    const budget = { ...on.main.budget, leadWhile: 0 };
    const led = leadForAWhile(on.dispatcher({ budget }), 0);
    await on.advance(11_000);
    expect(on.states(jobs())).toEqual(['claimed']);
    await on.finish(led);
  });

  it('says up to where it has heard word, so that whoever comes next hears nothing twice', async () => {
    const on = busyStage();
    const led = leadForAWhile(on.dispatcher(), 0);
    await on.advance(500);
    await on.store.wake({ partition: 0, jobs: wordOf(await aFew(on, 2)) });
    await on.finish(led);
    const { wakes, named, names } = await on.store.readWakes(0);
    const asked = { partition: 0, holder: 'next', nowMs: on.time.nowMs, leaseMs: 20_000 };
    expect(await on.store.acquireLease(asked)).toMatchObject({ wakesSeen: { wakes, named, names } });
  });

  it('that fails writes nothing late, once another has the lease', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const late: Parameters<JobStore['commit']>[0][] = [];
    const store = storeWith<JobStore>(on.store, {
      commit: async (request) => {
        // Given up, and still on its way.
        late.push(request);
        throw new StoreUnavailable('no answer');
      },
    });
    await aFew(on, 1);
    await on.finish(leadForAWhile(on.dispatcher({ store }), 0));
    const asked = { partition: 0, holder: 'next', nowMs: on.time.nowMs, leaseMs: 20_000 };
    await on.store.acquireLease(asked);
    const [request] = late;
    if (request === undefined) throw new Error('nothing was committed');
    expect(await on.store.commit({ ...request, commit: aCommit() })).not.toBe('committed');
  });

  it('keeps its lease though a renewal fails, and those of some seconds', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const startedMs = on.time.nowMs;
    const store = storeWith<JobStore>(on.store, {
      renewLease: async (request) => {
        const sinceMs = on.time.nowMs - startedMs;
        if (sinceMs < 3_000 || (sinceMs > 7_000 && sinceMs < 14_500)) throw new StoreThrottled('busy');
        return on.store.renewLease(request);
      },
    });
    const led = leadForAWhile(on.dispatcher({ store }), 0);
    await on.advance(25_000);
    expect((await on.store.readLease(0))?.epoch).toBe(1);
    expect(await on.finish(led)).toMatchObject({ end: 'handed over' });
    expect(on.time.nowMs - startedMs).toBeGreaterThan(RUN_MS - 1_000);
  });

  it('renews its lease when half of it is over', async () => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    const led = leadForAWhile(on.dispatcher(), 0);
    for (let at = 0; at < 28; at += 1) {
      await on.advance(1_000);
      const { expiresAtMs = 0 } = (await on.store.readLease(0)) ?? {};
      expect(expiresAtMs - on.time.nowMs).toBeGreaterThan(on.main.budget.leaseMs / 2);
    }
    await on.finish(led);
  });

  it('leads nothing where a dispatcher that runs on lives, though the partition is free', async () => {
    const on = busyStage();
    await on.store.keepDispatcher(aDispatcherRecord({ expiresAtMs: on.time.nowMs + 15_000 }));
    expect(await on.finish(leadForAWhile(on.dispatcher(), 0))).toBeUndefined();
    expect(await on.store.readLease(0)).toBeUndefined();
  });

  it.each([
    ['no pass where it comes a second and a half later', 1_500, 0],
    ['a pass within three seconds where it does not come', 60_000, 1],
  ])('asks, of whoever was asked to lead next, for %s', async (_, comesAfterMs, wakes) => {
    const on = busyStage({ budget: { leadWhile: 0 } });
    let givenBackAtMs = Infinity;
    const store = storeWith<JobStore>(on.store, {
      releaseLease: (request) => {
        givenBackAtMs = Math.min(givenBackAtMs, on.time.nowMs);
        on.time.after(comesAfterMs, () => void leadForAWhile(next, 0));
        return on.store.releaseLease(request);
      },
    });
    const next = on.dispatcher();
    await on.finish(leadForAWhile(on.dispatcher({ store, lead: async () => {} }), 0));
    await on.advance(100);
    expect(on.wakes).toHaveLength(wakes);
    expect(on.time.nowMs - givenBackAtMs).toBeLessThan(3_000);
  });

  it.each([new StoreThrottled('busy'), new StoreUnavailable('no answer')])(
    'takes %s for no failure of its own: the function need not be told of',
    async (error) => {
      const on = busyStage();
      const store = storeWith<JobStore>(on.store, {
        loadPartition: async () => {
          throw error;
        },
      });
      expect(await on.finish(leadForAWhile(on.dispatcher({ store }), 0))).toMatchObject({ end: 'failed' });
    },
  );

  it('goes on where much ends, though nothing starts', async () => {
    const on = busyStage();
    await on.put(...Array.from({ length: 200 }, () => on.job()));
    await on.pass();
    const running = [...(await on.startEverywhere())];
    const led = leadForAWhile(on.dispatcher(), 0);
    for (let at = 0; at < 45; at += 1) {
      const ended = await Promise.all(running.splice(0, 4).map((each) => on.end(each)));
      await on.store.wake({
        partition: 0,
        jobs: ended.map(({ id, version }) => ({ id, version, isWaiting: false })),
      });
      await on.advance(200);
    }
    expect(await holderOf(on)).toMatch(/^leading\//);
    await on.finish(led);
  });
});
