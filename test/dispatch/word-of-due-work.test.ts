/** Word that was left because something has become due: what its holder does of it, and of what it came together with. */
import { describe, expect, it } from 'vitest';
import { dispatch, dispatchAll, type Trigger } from '../../lib/dispatch/dispatch.ts';
import { retimeJob } from '../../lib/dispatch/retime.ts';
import { wakeForSchedules } from '../../lib/dispatch/timers.ts';
import { triggersOf } from '../../lib/dispatch/woken.ts';
import { DUE_WORK } from '../../lib/store/records.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { scene } from './schedule-scene.ts';
import { disturbed, type Stage, stage, storeWith } from './stage.ts';

/** Somebody is woken and leaves word. */
async function comes(on: Stage, trigger: Trigger | undefined): Promise<void> {
  if (trigger === undefined) throw new Error('nobody is woken');
  expect((await dispatch(on.dispatcher(), 0, trigger)).kind).toBe('left');
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
    const due = wakeForDue(on.time.nowMs);
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

  it.each([
    ['is found where slots are scarce', 1, 0],
    ['is left to its stream record where they are not', 20, 1],
  ])('an end of which nobody told %s', async (_, slots, held) => {
    const on = stage({
      pool: {
        types: { resize: {}, pack: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots }, boxes: { types: ['pack'], slots: 0 } },
      },
    });
    // One that waits in any case, so that the lease is needed.
    await on.put(on.job(), on.job({ type: 'pack' }));
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const context = disturbed(on, 'releaseLease', async () => {
      await on.end(started);
      await comes(on, triggersOf([wakeForDue(on.time.nowMs)])[0]);
    });
    expect(await on.pass({ reason: 'stream' }, context)).toMatchObject({ passes: 2 });
    expect(on.held()).toHaveLength(held);
  });

  it('together with a wake that means more has an end looked up', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const context = disturbed(on, 'releaseLease', async () => {
      await on.end(started);
      await comes(on, triggersOf([wakeForDue(on.time.nowMs), { partition: 0, asks: 'pass' }])[0]);
    });
    await on.pass({}, context);
    expect(on.held()).toEqual([]);
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
