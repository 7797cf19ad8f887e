/** A tick reads the front of each due line once, for its look ahead and for its pass: what that saves, and what it must not miss. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { showsNothingDue } from '../../lib/dispatch/timers.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { StoreThrottled } from '../../lib/store/errors.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aSchedule } from '../fixtures/factories/schedule.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const poolOf = (subLines: number): PoolInput => ({
  types: { resize: { timeoutMs: 600_000, subLines } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 50 } },
});

const later = async (on: Stage, inMs: number): Promise<Job> => {
  const runAtMs = on.time.nowMs + inMs;
  const job = on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs });
  await on.put(job);
  return job;
};

const dueSchedule = async (on: Stage, id: string, inMs: number): Promise<void> => {
  const dueMs = on.time.nowMs + inMs;
  const madeMs = dueMs - 60_000;
  const record = aSchedule({ id, anchorMs: madeMs, dealtMs: madeMs, nextMs: dueMs, dueMs });
  await on.store.putSchedule({ record, seen: 0 });
};

/** Reads of the due lines, by what they are of. */
function counting(on: Stage, own: Partial<JobStore> = {}) {
  const reads = { jobs: 0, schedules: 0 };
  const store = storeWith(on.store, {
    readDue: async (asked) => {
      reads.jobs += 1;
      return on.store.readDue(asked);
    },
    readDueSchedules: async (asked) => {
      reads.schedules += 1;
      return on.store.readDueSchedules(asked);
    },
    ...own,
  });
  return { store, reads };
}

const tick = (on: Stage, store: JobStore) =>
  on.finish(dispatchAll(on.dispatcher({ store }), { jobs: [], reason: 'tick' }));

/** Something happens when the tick has read the fronts, and before it has the lease. */
const beforeLease = (on: Stage, happens: () => Promise<unknown>): Partial<JobStore> => ({
  acquireLease: async (asked) => {
    await happens();
    return on.store.acquireLease(asked);
  },
});

describe('a tick', () => {
  it('with nothing due reads each due line once', async () => {
    const on = stage();
    const { store, reads } = counting(on);
    await later(on, 20_000);
    await dueSchedule(on, 'soon', 30_000);
    await tick(on, store);
    expect(reads).toEqual({ jobs: 1, schedules: 1 });
    await on.advance(75_000);
    expect(on.wakes.length).toBe(2);
  });

  it('reads only those lines again that show something due', async () => {
    const on = stage({ pool: poolOf(4) });
    // Shards are known from the first pass on.
    await on.pass();
    const job = await later(on, 0);
    const { store, reads } = counting(on);
    await tick(on, store);
    expect(reads).toEqual({ jobs: 5, schedules: 1 });
    expect(on.stateOf(job.id)).toBe('claimed');
  });

  it('fires a schedule that is due, and promotes a job that is', async () => {
    const on = stage();
    const job = await later(on, 0);
    await dueSchedule(on, 'now', 0);
    const { store, reads } = counting(on);
    expect(await tick(on, store)).toMatchObject([{ admitted: 2 }]);
    expect(on.stateOf(job.id)).toBe('claimed');
    expect(reads).toEqual({ jobs: 2, schedules: 2 });
  });

  it('passes over a crowd that is overdue, and wakes for what becomes due behind it', async () => {
    const on = stage();
    for (let at = 1; at <= 90; at += 1) await later(on, -1_000 * at);
    const startMs = on.time.nowMs;
    await later(on, 40_020);
    let looks = 0;
    const { store } = counting(on, {
      readDue: async (asked) => {
        if (asked.nowMs > startMs + 60_000) looks += 1;
        return on.store.readDue(asked);
      },
    });
    await tick(on, store);
    expect(looks).toBe(2);
    await on.advance(60_000);
    expect(on.wakes.some((atMs) => atMs >= startMs + 40_020 && atMs < startMs + 41_020)).toBe(true);
  });

  it('sees what becomes due between its look and its pass, and wakes for what becomes due after', async () => {
    const on = stage();
    const [between, after] = [await later(on, 20), await later(on, 5_020)];
    await dueSchedule(on, 'between', 30);
    const { store } = counting(
      on,
      beforeLease(on, () => on.clock.sleep(40)),
    );
    const startMs = on.time.nowMs;
    expect(await tick(on, store)).toMatchObject([{ admitted: 2 }]);
    expect([on.stateOf(between.id), on.stateOf(after.id)]).toEqual(['claimed', 'scheduled']);
    await on.advance(75_000);
    expect(on.wakes.some((atMs) => atMs >= startMs + 5_020 && atMs < startMs + 6_020)).toBe(true);
  });

  it.each([
    ['was frozen for more than a second after its look', 1_100, 'nothing'],
    ['is told of something that came after its look', 20, 'word'],
    ['is told of jobs by name', 20, 'names'],
  ] as const)('that %s reads the due lines itself', async (_, pauseMs, told) => {
    const on = stage();
    let job: Job | undefined;
    const { store, reads } = counting(
      on,
      beforeLease(on, async () => {
        await on.clock.sleep(pauseMs - 10);
        job = await later(on, 5);
        if (told === 'word') await on.store.wake({ partition: 0 });
        if (told === 'names')
          await on.store.wake({
            partition: 0,
            jobs: [{ id: job.id, version: job.version, isWaiting: true }],
          });
        await on.clock.sleep(10);
      }),
    );
    await tick(on, store);
    expect(on.stateOf(job?.id ?? '')).toBe('claimed');
    // Whoever leaves word without names may be ahead: then it looks for what becomes due next, too.
    const lines = told === 'word' ? 3 : 2;
    expect(reads).toEqual({ jobs: lines, schedules: lines });
  });

  it('that has word left to it during its pass reads the due lines in the pass after that', async () => {
    const on = stage();
    let passes = 0;
    let job: Job | undefined;
    const { store, reads } = counting(on, {
      loadPartition: async (asked) => {
        passes += 1;
        if (passes === 1) {
          job = await later(on, 0);
          await on.store.wake({ partition: 0 });
        }
        return on.store.loadPartition(asked);
      },
    });
    await tick(on, store);
    expect([passes, on.stateOf(job?.id ?? ''), reads]).toEqual([2, 'claimed', { jobs: 3, schedules: 3 }]);
  });

  it.each(['readDue', 'readDueSchedules'] as const)(
    'whose first %s fails carries out what is due, and says that it failed',
    async (verb) => {
      const on = stage();
      const job = await later(on, 0);
      await dueSchedule(on, 'now', 0);
      let calls = 0;
      const failing = async (): Promise<void> => {
        calls += 1;
        if (calls === 1) throw new StoreThrottled(`${verb}: too many requests`);
      };
      const own: Partial<JobStore> =
        verb === 'readDue'
          ? { readDue: async (asked) => failing().then(() => on.store.readDue(asked)) }
          : { readDueSchedules: async (asked) => failing().then(() => on.store.readDueSchedules(asked)) };
      await expect(tick(on, counting(on, own).store)).rejects.toThrow('too many requests');
      expect(on.stateOf(job.id)).toBe('claimed');
      expect(on.store.inspectSchedule('now')?.state.history).toMatchObject([{ what: 'made' }]);
    },
  );
});

it.each([
  ['nothing', [], false, true],
  ['nothing readable, and goes on', [], true, false],
  ['what is due later', [10], true, true],
  ['what is due', [-10], false, false],
])('a front that shows %s', async (_, inMs, isCut, isSo) => {
  const front = { readAtMs: NOW_MS, instants: inMs.map((each) => NOW_MS + each), isCut };
  expect(await showsNothingDue(Promise.resolve(front), NOW_MS)).toBe(isSo);
});
