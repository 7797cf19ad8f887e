/** A fleet of functions is told of a job before a slot is free: the job starts as soon as one is, and never before. */
import { describe, expect, it } from 'vitest';
import type { JobTypeInput, PoolInput } from '../../lib/core/defaults.ts';
import type { Job, ReservedJob } from '../../lib/core/job.ts';
import { DISPATCH_BUDGET, type DispatchBudget, type DispatchContext } from '../../lib/dispatch/context.ts';
import type { Deployed } from '../../lib/dispatch/declaration.ts';
import { explainJob } from '../../lib/dispatch/explain.ts';
import { readFleets } from '../../lib/dispatch/inspect.ts';
import { leadingHolder, takeLease } from '../../lib/dispatch/lease.ts';
import { pass } from '../../lib/dispatch/pass/pass.ts';
import type { SlotTimes } from '../../lib/dispatch/slot-times.ts';
import { nextTakeoverAtMs, slotsSoonFree } from '../../lib/dispatch/takeovers.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { inItsSlot, SLOT_WAIT_MS } from '../../lib/worker/slot-wait.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger } from '../fixtures/factories/ledger.ts';
import { aReservation, aReservedJob } from '../fixtures/factories/reservation.ts';
import { toldJobs } from '../testing/received.ts';
import { notingLooks, type Stage, type Started, stage, storeWith } from './stage.ts';

const JOB_MS = 1_000;
const SLOTS = 2;
const WAITING = 4;
/** Ends are foretold once the first two are seen. */
const TAKEOVERS = { ...DISPATCH_BUDGET.takeovers, seenMin: SLOTS };

const poolOf = (own: PoolInput = {}): PoolInput => ({
  types: { resize: { defaultCostMs: JOB_MS, timeoutMs: 600_000 } },
  fleets: { images: { types: ['resize'], slots: SLOTS } },
  ...own,
});

interface Scene {
  readonly on: Stage;
  readonly context: DispatchContext;
  readonly running: Started[];
  readonly waiting: readonly Job[];
}

const sceneOn = (pool: PoolInput, budget: Partial<DispatchBudget> = {}): Stage =>
  stage({ pool, budget: { takeovers: TAKEOVERS, ...budget } });

/** Two generations of jobs have come and gone, each of a second; the third one runs since the same moment, and more wait. */
async function saturated(
  pool: PoolInput = poolOf(),
  budget: Partial<DispatchBudget> = {},
  waits = WAITING,
  prepare: (on: Stage) => Promise<unknown> = async () => {},
): Promise<Scene> {
  const on = sceneOn(pool, budget);
  await prepare(on);
  const context = on.dispatcher();
  const jobs = await on.put(...Array.from({ length: 2 * SLOTS + waits }, () => on.job()));
  await on.pass({ reason: 'tick' }, context);
  let running: readonly Started[] = [];
  for (let generation = 0; generation < 2; generation += 1) {
    running = await on.startAll('images');
    expect(running).toHaveLength(SLOTS);
    if (generation === 1) break;
    await on.advance(JOB_MS);
    const ended = await endAll(on, running);
    await on.pass({ reason: 'stream', jobs: ended }, context);
  }
  const waiting = jobs.filter(({ id }) => on.stateOf(id) === 'pending');
  return { on, context, running: [...running], waiting };
}

/** What fleets were told since they were asked last. */
const toldOf = async (on: Stage, fleet = 'images') =>
  toldJobs(await on.queue.receive(fleet, 10, 0, 60_000)).map(({ message }) => message);

/** Time passes until the slots of what runs are about to be free, and a pass is made. */
async function nearTheEnd({ on, context }: Scene): Promise<void> {
  await on.advance(JOB_MS - 50);
  await on.pass({ reason: 'wake' }, context);
}

/** What fleets are told then. */
async function toldAhead(scene: Scene) {
  await nearTheEnd(scene);
  return toldOf(scene.on);
}

/** Attempts end, and nobody is told. */
const endAll = (on: Stage, running: readonly Started[]): Promise<readonly Job[]> =>
  Promise.all(running.map((each) => on.end(each)));

/** A reservation of such jobs, numbered by their places. */
const reservationOf = (jobs: readonly Partial<ReservedJob>[]) =>
  aReservation([], {
    batchId: '1-1',
    jobs: new Map(jobs.map((each, at) => [at, aReservedJob({ id: `job-${at}` }, each)])),
  });

/** A worker that waits for a slot as functions do. Answers what it started; undefined: nothing. */
const worksOn = async (on: Stage, told: Awaited<ReturnType<typeof toldOf>>[number]) => {
  const message = await on.finish(inItsSlot({ store: on.store, clock: on.clock, log: on.main.log }, told));
  return message === undefined ? undefined : on.begin('images', 'function', message);
};

const idsOf = (messages: readonly { readonly jobId: string }[]): readonly string[] =>
  messages.map(({ jobId }) => jobId);

describe('a slot that is about to be free', () => {
  it('is taken over by the next job, whose worker starts it as soon as the slot is free', async () => {
    const scene = await saturated();
    const { on, running, waiting } = scene;
    const told = await toldAhead(scene);
    expect(idsOf(told)).toEqual(waiting.slice(0, SLOTS).map(({ id }) => id));
    expect(told.map(({ takesOver }) => takesOver?.claimId).toSorted()).toEqual(
      running.map(({ message }) => message.claimId).toSorted(),
    );
    const [first] = told;
    if (first === undefined) throw new Error('nobody was told');
    const before = on.time.nowMs;
    const ends = running.find(({ message }) => message.claimId === first.takesOver?.claimId);
    on.time.after(70, () => void on.end(ends as Started));
    expect((await worksOn(on, first))?.kind).toBe('started');
    const tookMs = on.time.nowMs - before;
    expect(tookMs).toBeGreaterThanOrEqual(70);
    expect(tookMs).toBeLessThan(100);
  });

  it('holds both as one, in what operators see, too', async () => {
    const scene = await saturated();
    const { on } = scene;
    await nearTheEnd(scene);
    expect(on.held()).toHaveLength(2 * SLOTS);
    expect(await readFleets(on.operator())).toMatchObject([{ fleet: 'images', slots: SLOTS, busy: SLOTS }]);
    const told = await toldOf(on);
    const [first] = told;
    expect(await explainJob(on.operator(), first?.jobId ?? '')).toMatchObject({
      waitsFor: [{ why: 'worker', fleet: 'images', holder: first?.takesOver?.jobId }],
    });
  });

  it('is taken over once', async () => {
    const scene = await saturated();
    const { on, context } = scene;
    await nearTheEnd(scene);
    expect(await toldOf(on)).toHaveLength(SLOTS);
    for (let passes = 0; passes < 3; passes += 1) await on.pass({ reason: 'wake' }, context);
    expect(await toldOf(on)).toEqual([]);
  });

  it('counts as that of the job that took it over, once its attempt is settled', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    const ended = await endAll(on, running);
    for (const message of told) expect((await worksOn(on, message))?.kind).toBe('started');
    await on.pass({ reason: 'stream', jobs: ended }, context);
    expect(on.held().map(({ id }) => id)).toEqual(idsOf(told));
    expect(await toldOf(on)).toEqual([]);
  });

  it('is not taken over by a worker that does not know of it', async () => {
    const scene = await saturated();
    await nearTheEnd(scene);
    expect(await scene.on.startAll('images')).toEqual([]);
  });

  it.each([
    [
      'the fleet does not want it',
      poolOf({ fleets: { images: { types: ['resize'], slots: SLOTS, tellAhead: false } } }),
    ],
    [
      'its attempts are longer than five seconds',
      poolOf({ types: { resize: { defaultCostMs: 6_000, timeoutMs: 600_000 } } }),
    ],
  ])('is left to end where %s', async (_, pool) => {
    const scene = await saturated(pool);
    await nearTheEnd(scene);
    expect(await toldOf(scene.on)).toEqual([]);
  });

  it('is left to end where attempts of its type end at any time', async () => {
    const on = sceneOn(poolOf());
    const context = on.dispatcher();
    await on.put(...Array.from({ length: 20 }, () => on.job()));
    await on.pass({ reason: 'tick' }, context);
    for (const lastsMs of [300, 1_500, 700, 1_900]) {
      const running = await on.startAll('images');
      await on.advance(lastsMs);
      const ended = await endAll(on, running);
      await on.pass({ reason: 'stream', jobs: ended }, context);
    }
    await on.startAll('images');
    for (let at = 0; at < 40; at += 1) {
      await on.advance(50);
      await on.pass({ reason: 'wake' }, context);
    }
    expect(await toldOf(on)).toEqual([]);
  });

  it('is left to end where another fleet has one that is free', async () => {
    const fleets = {
      images: { types: ['resize'], slots: SLOTS },
      all: { types: ['resize', 'index'], slots: 4 },
    };
    const pool = poolOf({ fleets, types: { ...poolOf().types, index: { timeoutMs: 600_000 } } });
    const pauseAll = (on: Stage, paused: boolean) =>
      on.store.changeControl({ partition: 0, scope: 'fleet/all', change: { paused } });
    const scene = await saturated(pool, {}, 0, (on) => pauseAll(on, true));
    const { on, context } = scene;
    await pauseAll(on, false);
    await on.advance(JOB_MS - 50);
    const jobs = await on.put(on.job());
    await on.pass({ reason: 'stream', jobs }, context);
    expect(await toldOf(on)).toEqual([]);
    expect(idsOf(await toldOf(on, 'all'))).toEqual(jobs.map(({ id }) => id));
  });

  it('is left to end where thousands of keys were charged', async () => {
    const scene = await saturated();
    const { on } = scene;
    const fence = { partition: 0, epoch: on.store.inspect(0).lease.epoch };
    for (let from = 0; from < 2_000; from += 80) {
      const ledgers = Array.from({ length: 80 }, (_, key) => aLedger({ fairnessKey: `key-${from + key}` }));
      expect(await on.store.commit({ fence, commit: aCommit({ ledgers }) })).toBe('committed');
    }
    await nearTheEnd(scene);
    expect(await toldOf(on)).toEqual([]);
  });

  it('is left to end where workers may be of a version that does not wait', async () => {
    const scene = await saturated();
    const { on } = scene;
    const deployed = { version: 1, tellsAhead: false } as unknown as Deployed;
    const soon = (own: Partial<DispatchContext>) => {
      const times = { endsAtMs: () => on.time.nowMs } as unknown as SlotTimes;
      const reservations = [...on.store.inspect(0).reservations.values()];
      const given = { context: { ...scene.context, ...own }, between: undefined, times };
      return slotsSoonFree(given, reservations, on.time.nowMs).size;
    };
    expect([soon({}), soon({ deployed }), soon({ deployed: { ...deployed, tellsAhead: true } })]).toEqual([
      1, 0, 1,
    ]);
  });

  it('is taken over by who comes after whoever has one that is free', async () => {
    const scene = await saturated(poolOf(), {}, 0);
    const { on, context, running } = scene;
    // One ends a little before the other one is to end.
    await on.advance(JOB_MS - 50);
    const ended = await on.end(running[0] as Started);
    const jobs = await on.put(on.job(), on.job(), on.job());
    await on.pass({ reason: 'stream', jobs: [ended, ...jobs] }, context);
    const told = await toldOf(on);
    expect(told.map(({ takesOver }) => takesOver?.claimId)).toEqual([undefined, running[1]?.message.claimId]);
  });

  it('is let go where a fleet holds more than it has by now', async () => {
    const scene = await saturated();
    const { on } = scene;
    const fewer = on.dispatcher({
      configuration: sceneOn(poolOf({ fleets: { images: { types: ['resize'], slots: SLOTS - 1 } } }))
        .configuration,
      caches: scene.context.caches,
    });
    await on.advance(JOB_MS - 50);
    await on.pass({ reason: 'wake' }, fewer);
    expect(await toldOf(on)).toEqual([]);
  });
});

describe('a job that waits for a slot', () => {
  it('is planned anew when the slot is free later than its worker waits', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    expect(await Promise.all(told.map((each) => worksOn(on, each)))).toEqual([undefined, undefined]);
    const ended = await endAll(on, running);
    await on.pass({ reason: 'stream', jobs: ended }, context);
    const again = await toldOf(on);
    expect(idsOf(again)).toEqual(idsOf(told));
    for (const message of again) {
      expect(message.takesOver).toBeUndefined();
      expect((await worksOn(on, message))?.kind).toBe('started');
    }
    expect(on.held()).toHaveLength(SLOTS);
  });

  it.each<readonly [string, (scene: Scene) => Promise<Partial<DispatchContext>>]>([
    [
      'its type is paused',
      async ({ on }) => {
        await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { paused: true } });
        return {};
      },
    ],
    [
      'its type has a lower cap',
      async ({ on }) => {
        await on.store.changeControl({ partition: 0, scope: 'type/resize', change: { maxConcurrency: 1 } });
        return {};
      },
    ],
    [
      'its fleet has fewer slots',
      async () => ({
        configuration: sceneOn(poolOf({ fleets: { images: { types: ['resize'], slots: 1 } } })).configuration,
      }),
    ],
  ])('starts no more where meanwhile %s', async (_, change) => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    for (const message of told) expect(await worksOn(on, message)).toBeUndefined();
    const changed = { ...context, ...(await change(scene)) };
    // Nobody makes a pass until one of the two ends.
    await on.advance(50_000);
    await on.pass({ reason: 'stream', jobs: [await on.end(running[0] as Started)] }, changed);
    expect(await toldOf(on)).toEqual([]);
    expect(on.held().map(({ id }) => id)).toEqual([running[1]?.job.id]);
  });

  it('is given any slot that is free while nothing else wants it', async () => {
    const scene = await saturated(poolOf(), {}, 1);
    const { on, context, running } = scene;
    const [told] = await toldAhead(scene);
    const other = running.find(({ message }) => message.claimId !== told?.takesOver?.claimId);
    await on.advance(60);
    await on.pass({ reason: 'stream', jobs: [await on.end(other as Started)] }, context);
    const [again] = await toldOf(on);
    expect(again).toMatchObject({ jobId: told?.jobId, toClaim: { version: 2 } });
    expect((await worksOn(on, again as NonNullable<typeof again>))?.kind).toBe('started');
    // Its worker that waits still starts nothing.
    on.time.after(50, () => void on.end(running.find((each) => each !== other) as Started));
    expect((await worksOn(on, told as NonNullable<typeof told>))?.kind).toBe('superseded');
  });

  it('is looked up after two seconds by another process, too, where nothing was heard of it', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    const ended = await endAll(on, running);
    await on.advance(300);
    await on.pass({ reason: 'stream', jobs: ended }, context);
    expect(await toldOf(on)).toEqual([]);
    await on.advance(1_800);
    await on.pass({ reason: 'wake' }, on.dispatcher());
    expect(idsOf(await toldOf(on))).toEqual(idsOf(told));
  });

  it('is planned anew where a look, and nobody else, has found its slot free', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    for (const message of told) expect(await worksOn(on, message)).toBeUndefined();
    for (const each of running) await on.end(each);
    await on.store.wake({ partition: 0 });
    await on.pass({ reason: 'wake' }, context);
    expect(idsOf(await toldOf(on))).toEqual(idsOf(told));
  });

  it('is given a slot of another fleet that becomes free', async () => {
    const fleets = {
      images: { types: ['resize'], slots: SLOTS },
      all: { types: ['resize', 'index'], slots: 1 },
    };
    const index = { defaultCostMs: 100_000, timeoutMs: 600_000 };
    let busy: Started | undefined;
    const scene = await saturated(
      poolOf({ fleets, types: { ...poolOf().types, index } }),
      {},
      1,
      async (on) => {
        await on.pass({ reason: 'stream', jobs: await on.put(on.job({ type: 'index' })) }, on.dispatcher());
        [busy] = await on.startAll('all');
      },
    );
    const { on, context } = scene;
    const [told] = await toldAhead(scene);
    expect(told?.takesOver).toBeDefined();
    await on.advance(500);
    await on.pass({ reason: 'stream', jobs: [await on.end(busy as Started)] }, context);
    expect(idsOf(await toldOf(on, 'all'))).toEqual([told?.jobId]);
  });

  it('holds what it counts against for two seconds at most, though nobody else comes', async () => {
    const fleets = { images: { types: ['resize'], slots: SLOTS }, other: { types: ['index'], slots: 1 } };
    const types = { ...poolOf().types, index: { timeoutMs: 600_000 } };
    const scene = await saturated(poolOf({ maxConcurrency: 2 * SLOTS, fleets, types }), {}, SLOTS);
    const { on, context } = scene;
    await nearTheEnd(scene);
    expect(on.held()).toHaveLength(2 * SLOTS);
    const beganMs = on.time.nowMs;
    on.queue.onWake(() => void on.pass({ reason: 'wake', partitions: [0] }, context));
    await on.advance(400);
    await on.pass({ reason: 'stream', jobs: await on.put(on.job({ type: 'index' })) }, context);
    expect(await toldOf(on, 'other')).toEqual([]);
    // Whoever told ahead has asked for a look.
    expect(on.wakes.filter((atMs) => atMs > beganMs)).toEqual([]);
    await on.advance(2_100);
    expect(await toldOf(on, 'other')).toHaveLength(1);
  });

  it('and cannot be read keeps nobody busy', async () => {
    const scene = await saturated(poolOf(), {}, 1);
    const { on, running } = scene;
    const [told] = await toldAhead(scene);
    const store = storeWith<JobStore>(on.store, {
      lookUpJobs: async ({ ids, unreadable }) => {
        for (const id of ids) unreadable?.(id);
        return ids.map(() => undefined);
      },
    });
    const other = running.find(({ message }) => message.claimId !== told?.takesOver?.claimId);
    const ended = await on.end(other as Started);
    const report = await on.pass({ reason: 'stream', jobs: [ended] }, { ...scene.context, store });
    expect(report.passes).toBe(2);
    expect(on.held()).toHaveLength(SLOTS);
  });

  it('is looked up after two seconds, once, where nothing was heard of it', async () => {
    const scene = await saturated();
    const { on, running } = scene;
    const { store, looked } = notingLooks(on.store);
    const context = { ...scene.context, store };
    await nearTheEnd({ ...scene, context });
    const told = await toldOf(on);
    const ended = await endAll(on, running);
    // One starts in time; of the other one the message is lost.
    expect((await worksOn(on, told[0] as (typeof told)[number]))?.kind).toBe('started');
    await on.advance(300);
    await on.pass({ reason: 'stream', jobs: ended }, context);
    looked.length = 0;
    await on.advance(1_000);
    await on.pass({ reason: 'wake' }, context);
    expect(looked).toEqual([]);
    await on.advance(1_000);
    for (let passes = 0; passes < 3; passes += 1) await on.pass({ reason: 'wake' }, context);
    expect(looked.filter((id) => told.some(({ jobId }) => jobId === id)).toSorted()).toEqual(
      idsOf(told).toSorted(),
    );
    expect(idsOf(await toldOf(on))).toEqual([told[1]?.jobId]);
  });

  it('is not told of again when its worker has seen the slot free', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    await nearTheEnd(scene);
    await toldOf(on);
    await on.advance(SLOT_WAIT_MS - 150);
    const ended = await endAll(on, running);
    await on.pass({ reason: 'stream', jobs: ended }, context);
    expect(await toldOf(on)).toEqual([]);
  });

  it('is told of to nobody else, though the time has come to look after it', async () => {
    const scene = await saturated(poolOf(), { checkAfterMs: 500 });
    const { on, context } = scene;
    const told = await toldAhead(scene);
    await on.advance(600);
    await on.pass({ reason: 'tick' }, context);
    expect(await toldOf(on)).toEqual([]);
    expect(told.map(({ jobId }) => on.store.inspectJob(jobId)?.state)).toEqual(['pending', 'pending']);
    expect(on.held()).toHaveLength(2 * SLOTS);
  });

  it('gives the slot up that does not come free, and waits for any', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    await on.advance(1_500);
    await on.pass({ reason: 'wake' }, context);
    expect(on.held().map(({ id }) => id)).toEqual(running.map(({ job }) => job.id));
    // One slot becomes free: the job that comes next is the one that was told of first.
    const ended = await on.end(running[1] as Started);
    const given = await Promise.all(
      told.map(async ({ jobId }) => (await on.store.getJobs({ ids: [jobId] }))[0]),
    );
    await on.pass(
      { reason: 'stream', jobs: [ended, ...given.filter((each) => each !== undefined)] },
      context,
    );
    const [again] = await toldOf(on);
    expect(again).toMatchObject({ jobId: told[0]?.jobId });
    expect(again?.takesOver).toBeUndefined();
    // The former message starts nothing.
    for (const message of told) expect((await worksOn(on, message))?.kind).not.toBe('started');
  });

  it('and is cancelled lets the slot go, and starts nothing', async () => {
    const scene = await saturated();
    const { on, context, running } = scene;
    const told = await toldAhead(scene);
    const nowMs = on.time.nowMs;
    const cancelled = await on.store.cancelJob({
      jobId: told[0]?.jobId ?? '',
      nowMs,
      expiresAtMs: nowMs + 1_000,
    });
    if (cancelled.kind !== 'cancelled') throw new Error(cancelled.kind);
    const ended = await endAll(on, running);
    expect((await worksOn(on, told[0] as (typeof told)[number]))?.kind).toBe('superseded');
    await on.pass({ reason: 'stream', jobs: [...ended, { ...cancelled.job, payload: null }] }, context);
    expect(on.held()).toHaveLength(SLOTS);
  });

  it('has a slot that no other takes over, until it has it', async () => {
    const scene = await saturated();
    const { on, context } = scene;
    const [first, second] = await toldAhead(scene);
    await on.advance(100);
    await on.pass({ reason: 'wake' }, context);
    expect(await toldOf(on)).toEqual([]);
    const claims = on.held().flatMap(({ takesOver }) => takesOver ?? []);
    expect(claims).not.toContain(first?.claimId);
    expect(claims).not.toContain(second?.claimId);
  });

  it('starts where its dispatcher has died: another one plans it anew', async () => {
    const scene = await saturated();
    const { on, running } = scene;
    const told = await toldAhead(scene);
    for (const message of told) expect(await worksOn(on, message)).toBeUndefined();
    const ended = await endAll(on, running);
    await on.pass({ reason: 'stream', jobs: ended }, on.dispatcher());
    expect(idsOf(await toldOf(on))).toEqual(idsOf(told));
  });

  it('starts where the pass that settled the slot died before it could tell', async () => {
    const scene = await saturated();
    const { on, running } = scene;
    const told = await toldAhead(scene);
    for (const message of told) expect(await worksOn(on, message)).toBeUndefined();
    const ended = await endAll(on, running);
    const queue = {
      ...on.queue,
      send: async () => [],
      sendWake: async () => {},
    } as unknown as DispatchContext['queue'];
    await on.pass({ reason: 'stream', jobs: ended }, on.dispatcher({ queue }));
    await on.advance(DISPATCH_BUDGET.checkAfterMs);
    await on.pass({ reason: 'tick' }, on.dispatcher());
    expect(await on.startAll('images')).toHaveLength(SLOTS);
  });
});

describe('whoever takes slots over', () => {
  it('asks for somebody who leads, and looks for them between what the stream tells', async () => {
    const asked: number[] = [];
    const lead = async (partition: number): Promise<void> => void asked.push(partition);
    const scene = await saturated(poolOf(), { leadFrom: 1 }, 40);
    const { on } = scene;
    const context = { ...scene.context, lead };
    let running: readonly Started[] = scene.running;
    let ended: readonly Job[] = [];
    let ahead = 0;
    for (let generation = 0; generation < 12; generation += 1) {
      await on.advance(JOB_MS - 50);
      const come = await on.put(on.job());
      await on.pass({ reason: 'stream', jobs: [...ended, ...come] }, context);
      const told = [...(await toldOf(on))];
      ahead += told.length;
      await on.advance(50);
      ended = await endAll(on, running);
      // Of attempts that took slots over none has been seen to end at first.
      if (told.length === 0) {
        await on.pass({ reason: 'wake', jobs: ended }, context);
        told.push(...(await toldOf(on)));
      }
      const started = await Promise.all(told.map((each) => worksOn(on, each)));
      running = started.flatMap((each, at) => {
        const message = told[at];
        return each?.kind === 'started' && message !== undefined
          ? [{ fleet: 'images', message, job: each.job }]
          : [];
      });
      expect(running).toHaveLength(SLOTS);
    }
    expect(ahead).toBeGreaterThan(10);
    expect(asked).toContain(0);
  });

  it('looks up no end that whoever takes its slot over sees by itself', async () => {
    const scene = await saturated();
    const { on } = scene;
    await nearTheEnd(scene);
    const { store, looked } = notingLooks(on.store);
    // By now they should have ended.
    await on.advance(200);
    await on.pass({ reason: 'wake' }, { ...scene.context, store });
    expect(looked).toEqual([]);
  });
});

describe('a pool whose slots are taken, some of them not for long', () => {
  const capped = (own: Partial<PoolInput>, type: JobTypeInput = {}) =>
    poolOf({ types: { resize: { ...poolOf().types?.resize, ...type } }, ...own });

  it.each([
    ['nothing else keeps jobs from them', poolOf(), SLOTS],
    ['the pool has no room for more', capped({ maxConcurrency: SLOTS }), 0],
    ['their type has no room for more', capped({}, { maxConcurrency: SLOTS }), 0],
  ])(
    'is full, and whoever leads looks for ends, not for slots that it was offered: where %s',
    async (_, pool, count) => {
      const scene = await saturated(pool);
      const { on } = scene;
      await on.advance(JOB_MS - 90);
      const context = { ...scene.context, holder: leadingHolder('function') };
      const lease = await on.finish(takeLease(context, { partition: 0, patienceMs: 0 }));
      if (lease === undefined) throw new Error('not taken');
      const report = await on.finish(
        pass(context, lease, {
          hints: [],
          checksAll: false,
          hasMissed: false,
          promotes: false,
          fires: false,
          justStored: new Set(),
          inBackground: () => {},
        }),
      );
      if (!('isFull' in report)) throw new Error(report.kind);
      expect(report).toMatchObject({ isFull: true, takenOver: count, takeoverAtMs: Infinity });
      expect(report.endsLikelyAtMs).toBeLessThan(Infinity);
      expect(report.lateAtMs).toBe(count === 0 ? Infinity : on.time.nowMs + 1_500);
    },
  );
});

describe('which slots may be taken over', () => {
  /** Everything ends as soon as it may be told. */
  const times = { endsAtMs: () => NOW_MS } as unknown as SlotTimes;
  const grouped = poolOf({
    types: { resize: { timeoutMs: 600_000 }, index: { conflictGroup: 'catalogue', timeoutMs: 600_000 } },
    fleets: { images: { types: ['resize'], slots: 4 }, mixed: { types: ['resize', 'index'], slots: 4 } },
  });
  const locks = { lockOfPlace: () => undefined };

  /** The claims of them. */
  function soonFree(pool: PoolInput, jobs: readonly Partial<ReservedJob>[], between?: typeof locks) {
    const context = sceneOn(pool).dispatcher();
    const found = slotsSoonFree({ context, between, times }, [reservationOf(jobs)], NOW_MS);
    return [...found.values()].flat().map(({ claimId }) => claimId);
  }

  it('are those of which nobody has told, and that no other takes over', () => {
    expect(soonFree(poolOf(), [{}, {}])).toEqual(['1-1.0', '1-1.1']);
    expect(soonFree(poolOf(), [{}, { takesOver: '1-1.0' }])).toEqual([]);
    // What it took over is free by now.
    expect(soonFree(poolOf(), [{}, { takesOver: '1-0.7' }])).toEqual(['1-1.0', '1-1.1']);
  });

  it('are not those of fleets whose jobs may need a lock between partitions', () => {
    const jobs = [{ fleet: 'images' }, { fleet: 'mixed' }];
    expect(soonFree(grouped, jobs)).toEqual(['1-1.0', '1-1.1']);
    expect(soonFree(grouped, jobs, locks)).toEqual(['1-1.0']);
  });

  it('are looked for again when the next attempt is about to end, if it ends as foretold', () => {
    const { aheadMs } = TAKEOVERS;
    const nextAtMs = (endsInMs: number, jobs: readonly Partial<ReservedJob>[]): number => {
      const context = sceneOn(poolOf()).dispatcher();
      const foretold = { endsAtMs: () => NOW_MS + endsInMs } as unknown as SlotTimes;
      const given = { context, between: undefined, times: foretold };
      return nextTakeoverAtMs(given, [reservationOf(jobs)], NOW_MS) - NOW_MS;
    };
    expect(nextAtMs(500, [{}])).toBe(500 - aheadMs);
    // It was offered to the pass that asks.
    expect(nextAtMs(aheadMs, [{}])).toBe(Infinity);
    expect(nextAtMs(500, [{}, { takesOver: '1-1.0' }])).toBe(Infinity);
  });

  it('are not those of workers that register their own', () => {
    expect(soonFree(poolOf({ fleets: { images: { types: ['resize'] } } }), [{}])).toEqual([]);
  });
});
