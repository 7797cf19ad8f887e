/** Word that was left because something has become due: what its holder does of it, and of what it came together with. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { dispatch, dispatchAll, type Trigger } from '../../lib/dispatch/dispatch.ts';
import { retimeJob } from '../../lib/dispatch/retime.ts';
import { wakeForSchedules } from '../../lib/dispatch/timers.ts';
import { triggersOf } from '../../lib/dispatch/woken.ts';
import { DUE_WORK, DUE_WORK_WATCHED } from '../../lib/store/records.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { everyOrder, steppedStore } from './interleave.ts';
import { scene } from './schedule-scene.ts';
import { disturbed, type Stage, stage, storeWith } from './stage.ts';

/** Somebody is woken, finds a lease that was not taken just now, and leaves word. */
async function comes(on: Stage, trigger: Trigger | undefined): Promise<void> {
  if (trigger === undefined) throw new Error('nobody is woken');
  const later = on.dispatcher({ clock: on.time.clock(() => 1_200) });
  expect((await dispatch(later, 0, trigger)).kind).toBe('left');
}

/** What wakes say of when what they are for is due: how much later than now. */
function timesOf(on: Stage) {
  const inMs: (number | undefined)[] = [];
  const queue = storeWith(on.queue, {
    sendWake: async (_partition, _delayMs, dueAtMs) =>
      void inMs.push(dueAtMs === undefined ? undefined : dueAtMs - on.time.nowMs),
  });
  return { inMs, desk: { ...on.submitter(), queue, clock: on.clock } };
}

const wakeForDue = (dueAtMs: number) => ({ partition: 0, asks: 'pass', dueAtMs }) as const;

describe('word of what is due', () => {
  it('fires a schedule, whatever brought the pass', async () => {
    const { on, jobs } = scene();
    const dueMs = on.time.nowMs;
    const context = disturbed(on, 'releaseLease', async () => {
      const madeMs = dueMs - 60_000;
      const times = { anchorMs: madeMs, dealtMs: madeMs, nextMs: dueMs, dueMs };
      await on.store.putSchedule({ record: aSchedule({ id: 'late', ...times }), seen: 0 });
      await comes(on, triggersOf([wakeForDue(dueMs)])[0]);
    });
    const [job] = await on.put(on.job({ mode: 'onDemand' }));
    if (job === undefined) throw new Error('no job');
    await on.finish(dispatch(context, 0, { jobs: [job], reason: 'stream' }));
    expect(jobs()).toHaveLength(1);
  });

  it('makes a tick read the due lines itself, which has looked at them before', async () => {
    const on = stage();
    let isArmed = true;
    const late = on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 45, readyAtMs: on.time.nowMs + 45 });
    const context = on.dispatcher({
      store: storeWith(on.store, {
        acquireLease: async (asked) => {
          const lease = await on.store.acquireLease(asked);
          if (!isArmed) return lease;
          isArmed = false;
          await on.clock.sleep(50);
          await on.put(late);
          await comes(on, triggersOf([wakeForDue(late.runAtMs)])[0]);
          return lease;
        },
      }),
    });
    await on.finish(dispatchAll(context, { jobs: [], reason: 'tick' }));
    expect(on.stateOf(late.id)).toBe('claimed');
  });

  it('is left of a wake that comes alone, and not where another one means more', async () => {
    const on = stage();
    const lease = await on.store.acquireLease({
      partition: 0,
      holder: 'somebody',
      nowMs: on.time.nowMs,
      leaseMs: 20_000,
    });
    const due = wakeForDue(on.time.nowMs + 500);
    const word = async () => {
      const { wakes, named, jobs } = await on.store.readWakes(0);
      return { blank: wakes - named, names: jobs.map(({ id }) => id) };
    };
    await comes(on, triggersOf([due])[0]);
    expect(await word()).toEqual({ blank: 0, names: [DUE_WORK.id] });
    await comes(on, triggersOf([due, { partition: 0, asks: 'pass', jobIds: ['told'] }])[0]);
    expect(await word()).toEqual({ blank: 0, names: [DUE_WORK.id, 'told', DUE_WORK.id] });
    await comes(on, triggersOf([due, { partition: 0, asks: 'pass' }])[0]);
    expect(await word()).toEqual({ blank: 1, names: [DUE_WORK.id, 'told', DUE_WORK.id] });
    await on.store.releaseLease({ fence: { partition: 0, epoch: lease.epoch } });
  });

  it('leaves an end to its stream record', async () => {
    const on = stage({
      pool: {
        types: { resize: {}, pack: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 }, boxes: { types: ['pack'], slots: 0 } },
      },
    });
    // One of them waits in any case, so that the lease is needed.
    await on.put(on.job(), on.job({ type: 'pack' }));
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const context = disturbed(on, 'releaseLease', async () => {
      await on.end(started);
      await comes(on, triggersOf([wakeForDue(on.time.nowMs + 500)])[0]);
    });
    expect(await on.pass({ reason: 'stream' }, context)).toMatchObject({ passes: 2 });
    expect(on.held()).toHaveLength(1);
  });

  it('together with a wake that means more has an end looked up', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const context = disturbed(on, 'releaseLease', async () => {
      await on.end(started);
      await comes(on, triggersOf([wakeForDue(on.time.nowMs + 500), { partition: 0, asks: 'pass' }])[0]);
    });
    await on.pass({}, context);
    expect(on.held()).toEqual([]);
  });
});

const BUSY_POOL = {
  types: { resize: {}, pack: {} },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 20 }, boxes: { types: ['pack'], slots: 0 } },
};

/** A function that has made a pass, so that it looks at what is due only where it is told to. */
async function warm(on: Stage): Promise<DispatchContext> {
  const context = on.dispatcher();
  await on.pass({ reason: 'stream' }, context);
  return context;
}

/** A partition in which one function makes passes, with a job that always waits, so that each of them takes the lease; and one that is due. */
async function busy() {
  const on = stage({ pool: BUSY_POOL });
  await on.put(on.job(), on.job({ type: 'pack' }));
  const another = await warm(on);
  await on.pass({ reason: 'stream' });
  const atMs = on.time.nowMs - 5;
  const [due] = (await on.put(on.job({ state: 'scheduled', runAtMs: atMs, readyAtMs: atMs }))) as [Job];
  const trigger = triggersOf([wakeForDue(atMs)])[0] as Trigger;
  return { on, another, due, trigger };
}

describe('where passes follow each other, whoever is woken for what is due', () => {
  it('leaves it to the next pass: one that ends then makes no other one of it', async () => {
    const { on, due, trigger } = await busy();
    const kinds: string[] = [];
    const store = steppedStore(on.store, ['releaseLease'], async () => {
      if (kinds.length === 0) kinds.push((await dispatch(on.dispatcher(), 0, trigger)).kind);
    });
    const streams = { ...on.main, store };
    const passes = async (): Promise<number> => {
      const jobs = await on.put(on.job());
      return (await dispatch(streams, 0, { jobs, reason: 'stream' })).passes;
    };
    expect([await passes(), on.stateOf(due.id)]).toEqual([1, 'scheduled']);
    expect([await passes(), on.stateOf(due.id)]).toEqual([1, 'claimed']);
    expect(kinds).toEqual(['left']);
  });

  it('does not keep a holder from word beside it that does not say of what', async () => {
    const { on, trigger } = await busy();
    const kinds: string[] = [];
    const store = steppedStore(on.store, ['releaseLease'], async () => {
      if (kinds.length > 0) return;
      kinds.push((await dispatch(on.dispatcher(), 0, trigger)).kind);
      const blank = { jobs: [], reason: 'wake', partitions: [0] } as const;
      kinds.push((await dispatch(on.dispatcher({ clock: on.time.clock(() => 0) }), 0, blank)).kind);
    });
    const jobs = await on.put(on.job());
    expect((await dispatch({ ...on.main, store }, 0, { jobs, reason: 'stream' })).passes).toBe(2);
    expect(kinds).toEqual(['left', 'left']);
  });

  it('is woken again a second later, and finds it done', async () => {
    const { on, due, trigger } = await busy();
    const { inMs, desk } = timesOf(on);
    await dispatch(on.dispatcher({ queue: desk.queue }), 0, trigger);
    expect(inMs).toEqual([(trigger.dueAtMs ?? 0) - on.time.nowMs]);
    // The first pass notes the word, and the second one hears it.
    await on.pass({ reason: 'stream', jobs: await on.put(on.job()) });
    await on.pass({ reason: 'stream', jobs: await on.put(on.job()) });
    expect(on.stateOf(due.id)).toBe('claimed');
    // What has become due since has a wake of its own.
    await on.advance(1_000);
    await on.put(on.job({ state: 'scheduled', runAtMs: on.time.nowMs - 1, readyAtMs: on.time.nowMs - 1 }));
    const { epoch } = on.store.inspect(0).lease;
    expect((await dispatch(on.dispatcher(), 0, trigger)).kind).toBe('left');
    expect(on.store.inspect(0).lease.epoch).toBe(epoch);
  });

  it('does it itself a second later, if nobody has', async () => {
    const { on, due, trigger } = await busy();
    await dispatch(on.dispatcher(), 0, trigger);
    await on.advance(1_000);
    expect(on.stateOf(due.id)).toBe('scheduled');
    expect(await dispatch(on.dispatcher(), 0, trigger)).toMatchObject({ kind: 'done', admitted: 1 });
  });

  it('leaves word then that the holder of a long pass must hear itself', async () => {
    const { on, due, trigger } = await busy();
    const nowMs = on.time.nowMs;
    const lease = await on.store.acquireLease({ partition: 0, holder: 'another', nowMs, leaseMs: 20_000 });
    await dispatch(on.dispatcher(), 0, trigger);
    await on.advance(1_000);
    expect((await dispatch(on.dispatcher(), 0, trigger)).kind).toBe('left');
    expect((await on.store.readWakes(0)).jobs).toEqual([DUE_WORK_WATCHED, DUE_WORK]);
    await on.store.releaseLease({ fence: { partition: 0, epoch: lease.epoch } });
    await on.pass({ reason: 'stream' });
    expect(on.stateOf(due.id)).toBe('claimed');
  });

  it('does it at once where no pass was made for a second', async () => {
    const { on, due } = await busy();
    await on.advance(1_000);
    const [trigger] = triggersOf([wakeForDue(on.time.nowMs)]);
    if (trigger === undefined) throw new Error('nobody is woken');
    await dispatch(on.dispatcher(), 0, trigger);
    expect(on.stateOf(due.id)).toBe('claimed');
  });

  const STEPS_OF_STREAM = ['acquireLease', 'releaseLease', 'readWakes'] as const;
  const STEPS_OF_WOKEN = ['wake', 'acquireLease'] as const;

  /** Two passes are made, and somebody is woken for what is due: how many orders there are, and in how many that is forgotten. */
  async function inEveryOrder(
    areOfOne: boolean,
    isWokenAgain: boolean,
  ): Promise<{ readonly orders: number; readonly forgotten: number }> {
    let forgotten = 0;
    const orders = await everyOrder(async (point) => {
      const { on, another, due, trigger } = await busy();
      const store = steppedStore(on.store, STEPS_OF_STREAM, () => point(0));
      let waitedMs = 0;
      const clock = {
        ...on.time.clock(() => waitedMs),
        monotonicMs: () => waitedMs,
        sleep: async (ms: number) => {
          await point(0);
          waitedMs += ms;
        },
      };
      const streams = [on.main, areOfOne ? on.main : another].map((context) => ({
        ...context,
        store,
        clock,
      }));
      const passes = async (): Promise<void> => {
        for (const context of streams)
          await dispatch(context, 0, { jobs: await on.put(on.job()), reason: 'stream' });
      };
      const wakes = async (): Promise<void> => {
        for (const afterMs of isWokenAgain ? [0, 1_000] : [0]) {
          const clock = on.time.clock(() => afterMs);
          const stepped = steppedStore(on.store, STEPS_OF_WOKEN, () => point(1));
          await dispatch(on.dispatcher({ clock, store: stepped }), 0, trigger);
        }
      };
      const check = (): void => {
        if (on.stateOf(due.id) !== 'claimed') forgotten += 1;
      };
      return { work: [passes(), wakes()], check };
    });
    return { orders, forgotten };
  }

  it.each([
    ['one function makes', true],
    ['two functions make', false],
  ])('sees it done, in whatever order %s two passes beside it', async (_, areOfOne) => {
    const { orders, forgotten } = await inEveryOrder(areOfOne, true);
    expect(orders).toBeGreaterThan(50);
    expect(forgotten).toBe(0);
  });

  it('must look again: without that there are orders in which it is forgotten', async () => {
    expect((await inEveryOrder(true, false)).forgotten).toBeGreaterThan(0);
  });
});

describe('a wake says what it is for', () => {
  it.each([
    ['nothing, where a job is moved to now: it stands in its line, not in a due one', -1, undefined],
    ['its time, where a job is moved to a later one', 30_100, 30_100],
  ])('%s', async (_, movedMs, saysMs) => {
    const on = stage();
    const { inMs, desk } = timesOf(on);
    const job = on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 3_600_000 });
    await on.put(job);
    await retimeJob(desk, job.id, on.time.nowMs + movedMs);
    expect(inMs).toEqual([saysMs]);
  });

  it('nothing, where it is due already: a pass that is under way may have missed it', async () => {
    const on = stage();
    const { inMs, desk } = timesOf(on);
    await wakeForSchedules(desk, 0, [on.time.nowMs - 5, on.time.nowMs + 2_000]);
    expect(inMs).toEqual([undefined, 2_000]);
  });
});
