/** Holding a partition: nobody's word is lost, and who has lost the lease changes nothing. */
import { describe, expect, it } from 'vitest';
import { DISPATCH_BUDGET } from '../../lib/dispatch/context.ts';
import { type DispatchReport, dispatch, dispatchAll } from '../../lib/dispatch/dispatch.ts';
import {
  newsSince,
  releaseLease,
  renewLease,
  takeLease,
  takeLeaseUnlessHeld,
} from '../../lib/dispatch/lease.ts';
import { pass } from '../../lib/dispatch/pass/pass.ts';
import type { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { decodeLease } from '../../lib/store/dynamodb/codec/lease.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import { DUE_WORK, NO_WAKES } from '../../lib/store/records.ts';
import { leaseKey } from '../../lib/store/schema.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { everyOrder, type Point, steppedStore } from './interleave.ts';
import { lockedJob, lockedPool } from './locked.ts';
import { disturbed, type Stage, stage, storeWith } from './stage.ts';

/** On a busy machine every order takes a while. */
const WAIT_MS = 60_000;

/** Where others may come between: what leases and wakes are made of, and what a pass sees and does. */
const STEPS = ['acquireLease', 'releaseLease', 'readWakes', 'wake', 'loadPartition'] as const;

/** Agents that each store a job, without a hint of it, and run passes. */
async function agents(count: number, point: Point, view: (store: JobStore) => JobStore = (store) => store) {
  const on = stage();
  const jobs = Array.from({ length: count }, () => on.job());
  const work = jobs.map(async (job, agent) => {
    const step = (): Promise<void> => point(agent);
    const context = on.dispatcher({ store: steppedStore(view(on.store), STEPS, step) });
    await step();
    await on.put(job);
    await dispatch(context, 0, { jobs: [], reason: 'wake' });
  });
  return { on, jobs, work };
}

describe('the wake counter', () => {
  it('loses no wake, in whatever order two dispatchers take their steps', { timeout: WAIT_MS }, async () => {
    const orders = await everyOrder(async (point) => {
      const { on, jobs, work } = await agents(2, point);
      const check = (order: readonly number[]): void => {
        expect({ order, states: on.states(jobs) }).toEqual({ order, states: ['claimed', 'claimed'] });
      };
      return { work, check };
    });
    expect(orders).toBeGreaterThan(1_000);
  });

  it('is what loses none: without it there are orders in which a job is forgotten', {
    timeout: WAIT_MS,
  }, async () => {
    let forgotten = 0;
    const unread = (store: JobStore): JobStore => storeWith(store, { readWakes: async () => NO_WAKES });
    await everyOrder(async (point) => {
      const { on, jobs, work } = await agents(2, point, unread);
      const check = (): void => {
        if (on.states(jobs).includes('pending')) forgotten += 1;
      };
      return { work, check };
    });
    expect(forgotten).toBeGreaterThan(0);
  });

  it('needs the second try: without it there are orders in which a job is forgotten', {
    timeout: WAIT_MS,
  }, async () => {
    let forgotten = 0;
    await everyOrder(async (point) => {
      const { on, jobs, work } = await agents(2, point, (store) => {
        let woke = false;
        return storeWith(store, {
          wake: async (asked) => {
            woke = true;
            return store.wake(asked);
          },
          acquireLease: async (asked) =>
            woke ? { kind: 'held', epoch: 0, expiresAtMs: 0, holder: 'other' } : store.acquireLease(asked),
        });
      });
      const check = (): void => {
        if (on.states(jobs).includes('pending')) forgotten += 1;
      };
      return { work, check };
    });
    expect(forgotten).toBeGreaterThan(0);
  });
});

describe('word that was left', () => {
  const job = (id: string) => ({ id, version: 1, isWaiting: true });
  const seen = { wakes: 5, named: 3, names: 4 };
  const now = { wakes: 5, named: 3, names: 4, jobs: [job('d')] };

  it.each([
    ['nothing, where none came', now, false, []],
    [
      'what came with names',
      { ...now, wakes: 6, named: 4, names: 6, jobs: ['d', 'e', 'f'].map(job) },
      false,
      ['e', 'f'],
    ],
    [
      'the same, once those before were taken away',
      { ...now, wakes: 6, named: 4, names: 6, jobs: ['e', 'f'].map(job) },
      false,
      ['e', 'f'],
    ],
    ['that one came without, as an earlier version leaves it', { ...now, wakes: 6 }, true, []],
    ['both', { ...now, wakes: 7, named: 4, names: 5, jobs: ['d', 'e'].map(job) }, true, ['e']],
    [
      'that names are gone which nobody has looked at',
      { ...now, wakes: 7, named: 5, names: 6, jobs: [job('f')] },
      true,
      ['f'],
    ],
  ])('says %s', (_, wakes, isBlank, names) => {
    const news = newsSince(seen, wakes);
    expect({ ...news, jobs: news.jobs.map(({ id }) => id) }).toEqual({
      isBlank,
      isOfDueWork: false,
      jobs: names,
    });
  });

  it('says that something is due, beside jobs that are named', () => {
    const jobs = [job('d'), DUE_WORK, job('e')];
    expect(newsSince(seen, { wakes: 7, named: 5, names: 6, jobs })).toEqual({
      isBlank: false,
      isOfDueWork: true,
      jobs: [job('e')],
    });
  });

  it('is all looked at after a holder that knew nothing of names', () => {
    const former = decodeLease({
      ...leaseKey(0),
      epoch: 3,
      expiresAtMs: 0,
      wakesSeen: 9,
      wordSeen: [7, 5, 6],
    });
    expect(former.wakesSeen).toEqual({ wakes: 9, named: 9, names: 0 });
    const wakes = { wakes: 9, named: 5, names: 6, jobs: [job('f')] };
    expect(newsSince(former.wakesSeen ?? NO_WAKES, wakes).isBlank).toBe(true);
  });
});

/** A dispatcher, and what it asks the store of the lease and of word. */
function counted(on: Stage) {
  const asked: string[] = [];
  const store = storeWith<JobStore>(on.store, {
    acquireLease: (request) => {
      asked.push('acquireLease');
      return on.store.acquireLease(request);
    },
    readLease: (partition) => {
      asked.push('readLease');
      return on.store.readLease(partition);
    },
    wake: (request) => {
      asked.push('wake');
      return on.store.wake(request);
    },
  });
  return { asked, context: on.dispatcher({ store }) };
}

describe('a lease', () => {
  it('that is free is taken, with a higher epoch each time', async () => {
    const on = stage();
    for (const epoch of [1, 2, 3]) {
      const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
      expect(lease?.fence).toEqual({ partition: 0, epoch });
      if (lease !== undefined) await releaseLease(on.main, lease, NO_WAKES);
    }
  });

  it('that another holds is left to it, with word', async () => {
    const on = stage();
    const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    expect(await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 })).toBeUndefined();
    expect((await on.store.readWakes(0)).wakes).toBe(1);
    // Who gives it back finds the word, and goes on.
    const again = lease === undefined ? undefined : await releaseLease(on.main, lease, NO_WAKES);
    expect(again?.next?.fence.epoch).toBe(2);
  });

  it('that is given back without word stays free', async () => {
    const on = stage();
    const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    const after = lease === undefined ? undefined : await releaseLease(on.main, lease, NO_WAKES);
    expect(after).toEqual({ wakes: NO_WAKES });
    expect(
      (await on.store.acquireLease({ partition: 0, holder: 'other', nowMs: on.time.nowMs, leaseMs: 1_000 }))
        .kind,
    ).toBe('acquired');
  });

  it('is tried for as long as the caller is patient', async () => {
    const on = stage();
    const first = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (first === undefined) throw new Error('not taken');
    on.time.after(1_000, () => void on.store.releaseLease({ fence: first.fence }));
    const second = await on.finish(takeLease(on.dispatcher(), { partition: 0, patienceMs: 2_000 }));
    expect(second?.fence.epoch).toBe(2);
    expect((await on.store.readWakes(0)).wakes).toBe(0);
    const startedMs = on.clock.monotonicMs();
    expect(await on.finish(takeLease(on.dispatcher(), { partition: 0, patienceMs: 2_000 }))).toBeUndefined();
    expect(on.clock.monotonicMs() - startedMs).toBeLessThanOrEqual(2_000);
  });

  /** A store whose answers about leases take so long. */
  const answeringAfter = (on: Stage, ms: number): JobStore =>
    storeWith(on.store, {
      acquireLease: async (asked) => {
        const outcome = await on.store.acquireLease(asked);
        await on.clock.sleep(ms);
        return outcome;
      },
      renewLease: async (asked) => {
        const outcome = await on.store.renewLease(asked);
        await on.clock.sleep(ms);
        return outcome;
      },
    });

  it('is trusted a margin less than the store keeps it, from before it was asked for', async () => {
    const on = stage();
    const askedMs = on.clock.monotonicMs();
    const lease = await on.finish(
      takeLease(on.dispatcher({ store: answeringAfter(on, 900) }), { partition: 0, patienceMs: 0 }),
    );
    const { leaseMs, leaseMarginMs } = DISPATCH_BUDGET;
    expect(lease?.trustedUntilMonotonicMs).toBe(askedMs + leaseMs - leaseMarginMs);
  });

  it('of a store that answers slowly is lengthened at once, by what the answers of a pass take', async () => {
    const on = stage();
    const context = on.dispatcher({ store: answeringAfter(on, 4_000) });
    const { leaseMs, leaseMarginMs } = DISPATCH_BUDGET;
    const askedMs = on.clock.monotonicMs();
    const lease = await on.finish(takeLease(context, { partition: 0, patienceMs: 0 }));
    if (lease === undefined) throw new Error('not taken');
    // The renewal was sent when the first answer had come.
    expect(lease.trustedUntilMonotonicMs).toBe(askedMs + 4_000 + leaseMs + 32_000 - leaseMarginMs);
    expect(on.store.inspect(0).lease.expiresAtMs).toBe(NOW_MS + 4_000 + leaseMs + 32_000);
    // Others take it when that is over, and not before.
    await on.advance(NOW_MS + 4_000 + leaseMs + 32_000 - 1 - on.time.nowMs);
    expect(await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 })).toBeUndefined();
    await on.advance(1);
    expect((await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 }))?.fence.epoch).toBe(2);
  });

  it('is as short again as ever once the store answers fast, and never longer than three times that', async () => {
    const on = stage();
    const { leaseMs, leaseMarginMs } = DISPATCH_BUDGET;
    let lease = await on.finish(
      takeLease(on.dispatcher({ store: answeringAfter(on, 30_000) }), { partition: 0, patienceMs: 0 }),
    );
    const lengths: number[] = [];
    for (let renewals = 0; renewals < 7; renewals += 1) {
      if (lease === undefined) throw new Error('lost');
      lease = await renewLease(on.main, lease);
      lengths.push((lease?.trustedUntilMonotonicMs ?? 0) + leaseMarginMs - on.clock.monotonicMs() - leaseMs);
    }
    expect(lengths).toEqual([40_000, 40_000, 40_000, 30_000, 15_000, 0, 0]);
  });

  it('that cannot be lengthened is held as it was taken', async () => {
    const on = stage();
    const slow = answeringAfter(on, 2_000);
    const renewLease = async (): Promise<never> => {
      throw new StoreThrottled('busy');
    };
    const askedMs = on.clock.monotonicMs();
    const lease = await on.finish(
      takeLease(on.dispatcher({ store: storeWith(slow, { renewLease }) }), { partition: 0, patienceMs: 0 }),
    );
    const { leaseMs, leaseMarginMs } = DISPATCH_BUDGET;
    expect(lease?.trustedUntilMonotonicMs).toBe(askedMs + leaseMs - leaseMarginMs);
  });

  it('is looked at while another holds it, and asked for once it is free', async () => {
    const on = stage();
    const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (lease === undefined) throw new Error('not taken');
    const { context, asked } = counted(on);
    const taken = takeLease(context, { partition: 0, patienceMs: 2_000 });
    await on.advance(200);
    const looks = asked.length - 1;
    expect(asked).toEqual(['acquireLease', ...Array.from({ length: looks }, () => 'readLease')]);
    expect(looks).toBeGreaterThanOrEqual(8);
    await on.store.releaseLease({ fence: lease.fence });
    await on.advance(25);
    expect(asked.slice(-2)).toEqual(['readLease', 'acquireLease']);
    expect(await taken).toMatchObject({ fence: { epoch: 2 }, waited: true });
  });

  it.each([
    ['leading', 'leading/one'],
    ['running on', 'resident/one/1'],
  ])(
    'of whoever keeps it, %s, is asked for once, and then looked at after word is left',
    async (_, holder) => {
      const on = stage();
      await on.store.acquireLease({ partition: 0, holder, nowMs: on.time.nowMs, leaseMs: 20_000 });
      const { context, asked } = counted(on);
      const come = (): Promise<unknown> =>
        takeLease(context, {
          partition: 0,
          patienceMs: 300,
          jobs: [{ id: 'one', version: 1, isWaiting: true }],
        });
      const sinceMs = on.time.nowMs;
      expect(await come()).toBeUndefined();
      expect(asked.splice(0)).toEqual(['acquireLease', 'wake', 'readLease']);
      for (let times = 0; times < 3; times += 1) {
        expect(await come()).toBeUndefined();
        expect(asked.splice(0)).toEqual(['wake', 'readLease']);
      }
      expect(on.time.nowMs).toBe(sinceMs);
      // It expires: who had it is gone.
      await on.advance(20_001);
      expect(await come()).toMatchObject({ fence: { epoch: 2 }, waited: true });
      expect(asked.splice(0)).toEqual(['wake', 'readLease', 'acquireLease']);
      // Nobody keeps it any more: no word is left before it is asked for.
      await on.store.releaseLease({ fence: { partition: 0, epoch: 2 } });
      expect(await come()).toMatchObject({ fence: { epoch: 3 }, waited: false });
      expect(asked).toEqual(['acquireLease']);
    },
  );

  it.each([
    ['by a function that leads, once: that one sends for somebody', 'leading/one', true, true],
    ['by a function that leads, not at all by whom it may have sent for', 'leading/one', false, false],
    ['by a dispatcher that runs on, not at all', 'resident/one/1', true, false],
  ])('is left alone when it was given back %s', async (_, holder, waitsForNext, isLeft) => {
    const on = stage();
    await on.store.acquireLease({ partition: 0, holder, nowMs: on.time.nowMs, leaseMs: 20_000 });
    const { context } = counted(on);
    const come = (): Promise<unknown> =>
      takeLease(context, {
        partition: 0,
        patienceMs: 300,
        waitsForNext,
        jobs: [{ id: 'one', version: 1, isWaiting: true }],
      });
    await come();
    await on.store.releaseLease({ fence: { partition: 0, epoch: 1 } });
    if (isLeft) expect(await come()).toBeUndefined();
    expect(await come()).toMatchObject({ fence: { epoch: 2 } });
  });

  it('of a function that led and was killed is not left alone: nobody was sent for', async () => {
    const on = stage();
    const asked = { partition: 0, holder: 'leading/one', nowMs: on.time.nowMs, leaseMs: 20_000 };
    await on.store.acquireLease(asked);
    const { context } = counted(on);
    const come = (): Promise<unknown> =>
      takeLease(context, {
        partition: 0,
        patienceMs: 300,
        waitsForNext: true,
        jobs: [{ id: 'one', version: 1, isWaiting: true }],
      });
    expect(await come()).toBeUndefined();
    await on.advance(20_001);
    expect(await come()).toMatchObject({ fence: { epoch: 2 } });
  });

  it('of whoever keeps it is only looked at by those who would leave word, and taken once it is free', async () => {
    const on = stage();
    await on.store.acquireLease({
      partition: 0,
      holder: 'leading/one',
      nowMs: on.time.nowMs,
      leaseMs: 20_000,
    });
    const { context, asked } = counted(on);
    const come = (): Promise<unknown> =>
      takeLeaseUnlessHeld(context, {
        partition: 0,
        patienceMs: 200,
        jobs: [{ id: 'one', version: 1, isWaiting: true }],
      });
    expect(await come()).toBeUndefined();
    expect(asked.splice(0)).toEqual(['acquireLease', 'wake']);
    expect(await come()).toBeUndefined();
    expect(asked.splice(0)).toEqual(['readLease', 'wake']);
    await on.store.releaseLease({ fence: { partition: 0, epoch: 1 } });
    for (const epoch of [2, 3]) {
      expect(await come()).toMatchObject({ fence: { epoch } });
      await on.store.releaseLease({ fence: { partition: 0, epoch } });
    }
    expect(asked).toEqual(['readLease', 'acquireLease', 'acquireLease']);
  });

  it('is renewed while it is held, and not once another has it', async () => {
    const on = stage();
    const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (lease === undefined) throw new Error('not taken');
    await on.advance(10_000);
    const renewed = await renewLease(on.main, lease);
    expect(renewed?.trustedUntilMonotonicMs).toBe(lease.trustedUntilMonotonicMs + 10_000);
    await on.advance(DISPATCH_BUDGET.leaseMs);
    expect((await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 }))?.fence.epoch).toBe(2);
    expect(await renewLease(on.main, lease)).toBeUndefined();
  });
});

describe('a run of passes', () => {
  const trigger = { jobs: [], reason: 'wake' } as const;

  it('is left to the holder, who makes another pass', async () => {
    const on = stage();
    const late = on.job();
    let other: string | undefined;
    const context = disturbed(on, 'releaseLease', async () => {
      await on.put(late);
      other = (await dispatch(on.dispatcher(), 0, trigger)).kind;
    });
    const report = await on.pass({}, context);
    expect(other).toBe('left');
    expect(report).toMatchObject({ kind: 'done', passes: 2, admitted: 1 });
    expect(on.stateOf(late.id)).toBe('claimed');
  });

  it('makes one more pass where word was left, also with a memory of what the counter was before', async () => {
    const on = stage();
    let isDisturbed = false;
    const context = on.dispatcher({
      store: steppedStore(on.store, ['loadPartition'], async () => {
        if (!isDisturbed) return;
        isDisturbed = false;
        await on.store.wake({ partition: 0 });
      }),
    });
    await on.pass({}, context);
    isDisturbed = true;
    expect(await on.pass({}, context)).toMatchObject({ kind: 'done', passes: 2 });
  });

  it('looks up what is in flight when word was left without saying what', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const context = disturbed(on, 'releaseLease', async () => {
      // Its outcome's hint goes to a dispatcher that does not get the lease.
      const ended = await on.end(started);
      await dispatch(on.dispatcher(), 0, { jobs: [{ ...ended, claim: undefined }], reason: 'stream' });
    });
    expect(await on.pass({}, context)).toMatchObject({ passes: 2, settled: 1 });
    expect(on.held()).toEqual([]);
  });

  it('promotes what is due when word was left of that, and looks up nothing else', async () => {
    const on = stage({
      pool: {
        types: { resize: {}, pack: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 4 }, boxes: { types: ['pack'], slots: 1 } },
      },
    });
    const runAtMs = on.time.nowMs + 1_000;
    const later = on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs });
    const [running] = await on.put(on.job({ type: 'pack' }), on.job({ type: 'pack' }), later);
    const due = { jobs: [], reason: 'wake', dueAtMs: runAtMs, isForDue: true } as const;
    const looks: string[] = [];
    let isWatched = false;
    const context = on.dispatcher({
      store: storeWith(on.store, {
        lookUpJobs: async (asked) => {
          looks.push(...asked.ids);
          return on.store.lookUpJobs(asked);
        },
        releaseLease: async (asked) => {
          if (isWatched) {
            isWatched = false;
            await on.clock.sleep(runAtMs - on.time.nowMs);
            expect((await dispatch(on.dispatcher(), 0, due)).kind).toBe('left');
          }
          return on.store.releaseLease(asked);
        },
      }),
    });
    await on.pass({}, context);
    const [started] = await on.startAll('boxes');
    if (started === undefined || running === undefined) throw new Error('nothing started');
    await on.pass({}, context);
    await on.end(started);
    isWatched = true;
    looks.length = 0;
    const report = await on.pass({ reason: 'stream' }, context);
    expect(report).toMatchObject({ passes: 2, admitted: 1, settled: 0 });
    expect(on.stateOf(later.id)).toBe('claimed');
    // Its end is left to its stream record.
    expect(looks).not.toContain(running.id);
  });

  it('looks up what is in flight when word was left for the holder before, and it took the lease first', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    const held = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (held === undefined) throw new Error('not taken');
    const ended = await on.end(started);
    await dispatch(on.dispatcher(), 0, { jobs: [ended], reason: 'ingest' });
    let third: Promise<DispatchReport> | undefined;
    // Between giving back and the look at the counter.
    const context = disturbed(on, 'readWakes', async () => {
      third = dispatch(on.dispatcher(), 0, { jobs: [], reason: 'ingest' });
      await third;
    });
    expect(await releaseLease(context, held, NO_WAKES)).toMatchObject({ next: { fence: { epoch: 4 } } });
    expect(await third).toMatchObject({ passes: 1, settled: 1 });
  });

  it('does not look up what is in flight for its own word', async () => {
    const on = stage();
    const held = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (held === undefined) throw new Error('not taken');
    const context = disturbed(on, 'wake', () => releaseLease(on.main, held, NO_WAKES));
    const lease = await takeLease(context, { partition: 0, patienceMs: 0 });
    expect(lease?.wakesLookedAt.wakes).toBe((await on.store.readWakes(0)).wakes);
  });

  it('that has lost its lease before it reads changes nothing', async () => {
    const on = stage();
    await on.put(on.job());
    const context = disturbed(on, 'loadPartition', async () => {
      await on.clock.sleep(DISPATCH_BUDGET.leaseMs + 1);
      await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 });
    });
    expect(await on.finish(dispatch(context, 0, trigger))).toMatchObject({
      kind: 'lost',
      admitted: 0,
      passes: 0,
    });
    expect(on.held()).toEqual([]);
  });

  it('that has lost its lease before it commits claims nothing', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    const context = disturbed(on, 'commit', async () => {
      await on.store.releaseLease({ fence: { partition: 0, epoch: 1 }, isWriting: true });
      await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 });
    });
    expect(await on.pass({}, context)).toMatchObject({ kind: 'lost', admitted: 0 });
    expect([on.held(), on.stateOf(job?.id ?? '')]).toEqual([[], 'pending']);
  });

  it('that loses its lease leaves word of what the stream has shown it', async () => {
    const on = stage();
    const [job] = await on.put(...Array.from({ length: 5 }, () => on.job()));
    await on.pass({ jobs: job === undefined ? [] : [job], reason: 'stream' });
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing runs');
    const ended = await on.end(started);
    const store = storeWith(on.store, {
      loadPartition: async ({ partition, nowMs }) => {
        const state = await on.store.loadPartition({ partition, nowMs });
        // Somebody else takes over, settles nothing of it, and goes.
        await on.store.releaseLease({ fence: { partition, epoch: state.epoch }, isWriting: true });
        const lease = await on.store.acquireLease({
          partition,
          holder: 'another',
          nowMs: on.time.nowMs,
          leaseMs: 20_000,
        });
        await on.store.releaseLease({ fence: { partition, epoch: lease.epoch }, wakesSeen: NO_WAKES });
        return state;
      },
    });
    on.wakes.length = 0;
    const report = await on.pass({ jobs: [ended], reason: 'stream' }, on.dispatcher({ store }));
    expect(report.kind).toBe('lost');
    await on.advance(1);
    expect(on.wakes).toHaveLength(1);
    expect(await on.pass({ reason: 'wake' })).toMatchObject({ kind: 'done', settled: 1, admitted: 1 });
  });

  it('that has reserved before it lost its lease goes on counting: its late claims are within what is held', async () => {
    const on = stage({ pool: lockedPool(4) });
    const jobs = await on.put(lockedJob(on), lockedJob(on), lockedJob(on));
    const itemStates = () => jobs.map(({ id }) => on.store.inspectJob(id)?.state);
    const other = on.dispatcher();
    const context = disturbed(on, 'claim', async () => {
      await on.store.releaseLease({ fence: { partition: 0, epoch: 1 } });
      await dispatch(other, 0, trigger);
      expect(on.held()).toHaveLength(3);
      expect(itemStates()).toEqual(['pending', 'pending', 'pending']);
    });
    await on.pass({}, context);
    expect(itemStates()).toEqual(['claimed', 'claimed', 'claimed']);
    expect(on.held()).toHaveLength(3);
  });

  it('that has reserved before it lost its lease goes on counting: what it tells late starts, within what is held', async () => {
    const on = stage();
    const jobs = await on.put(on.job(), on.job(), on.job());
    const other = on.dispatcher();
    let isOvertaken = false;
    const send: MemoryJobQueue['send'] = async (fleet, told, together) => {
      if (!isOvertaken) {
        isOvertaken = true;
        await on.store.releaseLease({ fence: { partition: 0, epoch: 1 } });
        await dispatch(other, 0, trigger);
        expect(on.held()).toHaveLength(3);
        expect(on.queue.sizeOf('images')).toBe(0);
      }
      return on.queue.send(fleet, told, together);
    };
    await on.pass({}, on.dispatcher({ queue: storeWith(on.queue, { send }) }));
    expect(isOvertaken).toBe(true);
    expect(await on.startAll('images')).toHaveLength(3);
    expect(on.states(jobs)).toEqual(['running', 'running', 'running']);
    expect(on.held()).toHaveLength(3);
  });

  it('commits nothing when too little is left of its lease, and takes up again what it had decided', async () => {
    const on = stage();
    const [first] = await on.put(on.job());
    await on.pass();
    const [started] = await on.startAll('images');
    if (first === undefined || started === undefined) throw new Error('nothing started');
    await on.advance(400);
    const ended = await on.end(started);
    const later = await on.put(on.job());
    // By then nobody takes over that nothing waits from a look that was made so early.
    await on.advance(2_000);
    const trustedMs = DISPATCH_BUDGET.leaseMs - DISPATCH_BUDGET.leaseMarginMs;
    const context = disturbed(on, 'readKeys', () => on.clock.sleep(trustedMs));
    const report = await on.pass({ jobs: [ended], reason: 'stream' }, context);
    expect(report).toMatchObject({ kind: 'done', passes: 2, admitted: 1 });
    expect(on.states(later)).toEqual(['claimed']);
    // What had been settled by the hint is settled once, though the hint came once.
    expect(on.held().map(({ id }) => id)).toEqual(later.map(({ id }) => id));
    expect(on.store.inspect(0).ledgers.get('tenant-a')?.settledCostMs).toBe(400);
  });

  it('reserves nothing behind the back of another run under the same lease', async () => {
    const on = stage();
    const jobs = await on.put(...Array.from({ length: 8 }, () => on.job()));
    let commits = 0;
    const store = storeWith(on.store, {
      commit: async ({ fence, commit }) => {
        commits += 1;
        // As when a process serves two triggers at once: the other has filled the four slots since this one looked.
        const reserve = [aReservation(jobs.slice(4), { batchId: 'other', epoch: fence.epoch })];
        if (commits === 1) await on.store.commit({ fence, commit: { ...aCommit(), reserve } });
        return on.store.commit({ fence, commit });
      },
    });
    await expect(on.pass({}, on.dispatcher({ store }))).rejects.toMatchObject({ name: 'StaleCommit' });
    expect([commits, on.held().length]).toEqual([1, 4]);
  });

  it('sends itself a wake when its budget ends', async () => {
    const on = stage({
      budget: { passesMax: 3, batchJobs: 1 },
      pool: {
        types: { resize: {} },
        fleets: { images: { types: ['resize'], slots: 100 } },
        tiers: [{ tier: 'standard' }],
      },
    });
    // Each pass promotes some, ten times one, and sees that there are more.
    const context = on.dispatcher({ budget: { ...on.main.budget, promoteMax: 1 } });
    const due = Array.from({ length: 40 }, () => on.job({ state: 'scheduled' }));
    await on.put(...due);
    const report = await on.pass({}, context);
    expect(report).toMatchObject({ kind: 'outOfBudget', passes: 3, admitted: 30 });
    await on.advance(0);
    expect(on.wakes).toHaveLength(1);
    expect(
      (await on.store.acquireLease({ partition: 0, holder: 'other', nowMs: on.time.nowMs, leaseMs: 1_000 }))
        .kind,
    ).toBe('acquired');
  });

  it('sends itself a wake before its function is ended', async () => {
    const on = stage({ budget: { batchJobs: 1, promoteMax: 1, runMs: 30_000 } });
    const context = on.dispatcher({
      store: steppedStore(on.store, ['loadPartition'], () => on.clock.sleep(8_000)),
    });
    await on.put(...Array.from({ length: 80 }, () => on.job({ state: 'scheduled' })));
    const startedMs = on.time.nowMs;
    const report = await on.pass({}, context);
    expect(report.kind).toBe('outOfBudget');
    expect(on.time.nowMs - startedMs).toBeLessThan(40_000);
    await on.advance(0);
    expect(on.wakes).toHaveLength(1);
    expect(
      (await on.store.acquireLease({ partition: 0, holder: 'other', nowMs: on.time.nowMs, leaseMs: 1_000 }))
        .kind,
    ).toBe('acquired');
  });

  it.each(['alone', 'while others leave word of another job'])(
    'leaves word of ends that it could not write, for whoever is woken: %s',
    async (how) => {
      const on = stage();
      const job = on.job();
      await on.put(job);
      await on.pass({ jobs: [job], reason: 'ingest' });
      const [started] = await on.startAll('images');
      if (started === undefined) throw new Error('nothing was started');
      const ended = await on.end(started);
      on.queue.onWake(() => void dispatchAll(on.dispatcher(), { jobs: [], reason: 'wake' }));
      const { leaseMs, leaseMarginMs } = on.main.budget;
      const store = storeWith(on.store, {
        loadPartition: async (asked) => {
          await on.time.sleep(leaseMs - leaseMarginMs + 1);
          return on.store.loadPartition(asked);
        },
        releaseLease: async (asked) => {
          if (others.length > 0) {
            const jobs = others.splice(0);
            expect((await dispatch(on.dispatcher(), 0, { jobs, reason: 'stream' })).kind).toBe('left');
          }
          return on.store.releaseLease(asked);
        },
      });
      const others = how === 'alone' ? [] : [...(await on.put(on.job()))];
      const context = on.dispatcher({ store, budget: { ...on.main.budget, passesMax: 1 } });
      const report = await on.finish(dispatch(context, 0, { jobs: [ended], reason: 'stream' }));
      expect(report).toMatchObject({ kind: 'outOfBudget' });
      await on.advance(1_000);
      expect(on.held().map(({ id }) => id)).not.toContain(job.id);
      if (how === 'alone') expect(on.held()).toEqual([]);
    },
  );

  it('gives the lease back that it took again because word was left', async () => {
    const on = stage();
    const words = [{ id: 'other', version: 1, isWaiting: true }];
    const store = storeWith(on.store, {
      releaseLease: async (asked) => {
        const jobs = words.splice(0);
        if (jobs.length > 0) await on.store.wake({ partition: 0, jobs });
        return on.store.releaseLease(asked);
      },
    });
    const context = on.dispatcher({ store, budget: { ...on.main.budget, passesMax: 1, promoteMax: 1 } });
    await on.put(...Array.from({ length: 40 }, () => on.job({ state: 'scheduled' })));
    const report = await on.finish(dispatch(context, 0, { jobs: [], reason: 'tick' }));
    expect(report.kind).toBe('outOfBudget');
    const asked = { partition: 0, holder: 'other', nowMs: on.time.nowMs, leaseMs: 1_000 };
    expect((await on.store.acquireLease(asked)).kind).toBe('acquired');
  });

  it.each(['readWakes', 'loadPartition', 'readKeys', 'commit', 'claim', 'tidy'] as const)(
    'that fails at %s gives the lease back, and the next one does its work',
    async (verb) => {
      const on = stage({ pool: lockedPool(4) });
      const jobs = await on.put(lockedJob(on));
      let failures = 1;
      const context = on.dispatcher({
        store: steppedStore(on.store, [verb], async () => {
          failures -= 1;
          if (failures >= 0) throw new StoreThrottled(`${verb}: too many requests`);
        }),
      });
      await on.pass({}, context).catch(() => undefined);
      expect(failures).toBeLessThan(1);
      expect((await on.pass({}, context)).kind).toBe('done');
      await on.advance(on.main.budget.checkAfterMs);
      await on.pass({}, context);
      await on.pass({}, context);
      expect(jobs.map(({ id }) => on.store.inspectJob(id)?.state)).toEqual(['claimed']);
    },
  );

  it('that fails has sent what it had claimed', async () => {
    const on = stage({ budget: { batchJobs: 1 } });
    await on.put(on.job(), on.job());
    let sent = 0;
    const queue = storeWith(
      on.queue as never,
      {
        send: async (fleet: string, messages: never) => {
          await on.clock.sleep(50);
          sent += 1;
          return on.queue.send(fleet, messages);
        },
      } as never,
    ) as never;
    let commits = 0;
    const store = steppedStore(on.store, ['commit'], async () => {
      commits += 1;
      if (commits === 2) throw new StoreThrottled('commit: too many requests');
    });
    await expect(on.finish(dispatch(on.dispatcher({ store, queue }), 0, trigger))).rejects.toThrow(
      'too many',
    );
    expect(sent).toBe(1);
  });

  it('has its messages sent when it ends', async () => {
    const on = stage();
    await on.put(on.job());
    await on.pass();
    expect(await on.startAll('images')).toHaveLength(1);
  });
});

describe('a pass', () => {
  it('that was waited for does not plan what ran meanwhile, though the hint says that it waits', async () => {
    const on = stage();
    const over = on.job({ id: 'over' });
    const waiting = on.job({ id: 'waiting' });
    await on.put(over);
    let tries = 0;
    const late = on.dispatcher({
      store: storeWith(on.store, {
        acquireLease: async (asked) => {
          tries += 1;
          if (tries > 1) return on.store.acquireLease(asked);
          await dispatch(on.main, 0, { jobs: [over], reason: 'stream' });
          const ended = await Promise.all((await on.startEverywhere()).map((each) => on.end(each)));
          await dispatch(on.main, 0, { jobs: ended, reason: 'stream' });
          await on.put(waiting);
          return { kind: 'held', epoch: 2, expiresAtMs: on.time.nowMs + 1, holder: 'other' };
        },
        // Of what is waiting the index does not tell yet.
        readLine: async () => ({ jobs: [] }),
      }),
    });
    const report = await on.pass({ jobs: [over, waiting], reason: 'stream' }, late);
    expect(report).toMatchObject({ admitted: 1, lostClaims: 0 });
    expect(on.states([over, waiting])).toEqual(['succeeded', 'claimed']);
    expect(on.held().map(({ id }) => id)).toEqual(['waiting']);
  });

  it('under an epoch that is past is lost', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    const lease = await takeLease(on.main, { partition: 0, patienceMs: 0 });
    if (lease === undefined) throw new Error('not taken');
    await on.advance(DISPATCH_BUDGET.leaseMs);
    await takeLease(on.dispatcher(), { partition: 0, patienceMs: 0 });
    const input = {
      hints: [],
      checksAll: true,
      hasMissed: true,
      fires: false,
      promotes: true,
      justStored: new Set<string>(),
      inBackground: () => undefined,
    };
    expect(await pass(on.main, lease, input)).toMatchObject({ kind: 'lost', admitted: 0 });
    expect(on.stateOf(job?.id ?? '')).toBe('pending');
  });
});
