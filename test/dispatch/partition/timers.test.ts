/** Due work of any number: who is woken for it, what that asks for, and in which order it starts. */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../../lib/core/errors.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { compareRanked } from '../../../lib/core/score.ts';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import { nextDueMs, wakeForDueWork } from '../../../lib/dispatch/partition/timers.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { aSchedule } from '../../fixtures/factories/schedule.ts';
import { seeded } from '../../simulation/random.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const WINDOW_MS = 75_000;
const LONG_MS = 60_000;

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at);

const poolOf = (slots: number): PoolInput => ({
  types: { resize: { timeoutMs: 600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots } },
});

/** Jobs that become due at these instants, counted from now. */
async function schedule(on: Stage, inMs: readonly number[]): Promise<readonly Job[]> {
  const jobs = inMs.map((ms, n) => {
    const runAtMs = on.time.nowMs + ms;
    return on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs, fairnessKey: `k${n % 7}` });
  });
  for (let from = 0; from < jobs.length; from += 500) await on.put(...jobs.slice(from, from + 500));
  return jobs;
}

/** A store whose reads of the due line take their time, and are counted. */
function slowStore(on: Stage, latencyMs: number): { store: JobStore; reads: { count: number } } {
  const reads = { count: 0 };
  const store = storeWith(on.store, {
    readDue: async (asked) => {
      reads.count += 1;
      if (latencyMs > 0) await on.clock.sleep(latencyMs);
      return on.store.readDue(asked);
    },
  });
  return { store, reads };
}

function look(on: Stage, store: JobStore): Promise<void> {
  return on.finish(wakeForDueWork(on.dispatcher({ store }), 0));
}

/** The wakes of one look ahead: when they come, counted from its start. */
async function wakesOf(on: Stage, store: JobStore): Promise<readonly number[]> {
  const startMs = on.time.nowMs;
  await look(on, store);
  await on.advance(2 * WINDOW_MS);
  return on.wakes.map((atMs) => atMs - startMs);
}

describe('a tick that looks ahead', () => {
  it.each([
    ['evenly spread', range(5_000).map((n) => 1 + n * 15)],
    ['in three seconds', range(5_000).map((n) => 20_000 + (n % 3) * 25_000 + (n % 1_000))],
    ['few and far between', range(40).map((n) => 700 + n * 1_850)],
  ] as const)(
    'wakes for each of many jobs less than a second after its time, by a read for each second: %s',
    { timeout: LONG_MS },
    async (_, inMs) => {
      for (const latencyMs of [0, 7]) {
        const on = stage({ pool: poolOf(10) });
        await schedule(on, inMs);
        const { store, reads } = slowStore(on, latencyMs);
        const wakes = await wakesOf(on, store);
        for (const ms of inMs) expect(wakes.some((wake) => wake >= ms && wake < ms + 1_000)).toBe(true);
        expect(wakes.length).toBeLessThanOrEqual(76);
        expect(reads.count).toBeLessThanOrEqual(76);
      }
    },
  );

  it('reads once when nothing is due, or what its own pass promotes, or what the next tick looks at', async () => {
    const on = stage();
    const { store, reads } = slowStore(on, 0);
    expect(await wakesOf(on, store)).toEqual([]);
    await schedule(on, [...range(11).map(() => 0), 3 * WINDOW_MS]);
    await look(on, store);
    expect(reads.count).toBe(2);
    expect(on.wakes).toEqual([]);
  });

  it('reads nothing of a crowd that is overdue, and wakes as ever', async () => {
    const on = stage();
    const { store, reads } = slowStore(on, 0);
    await schedule(on, [...range(500).map((n) => -n), ...range(9).map((n) => 5_000 + n * 7_000)]);
    expect(await wakesOf(on, store)).toEqual(range(9).map((n) => 5_000 + n * 7_000));
    expect(reads.count).toBe(1);
  });

  it('wakes at once for what has become due while it looked', async () => {
    const on = stage();
    await schedule(on, [30, 5_000]);
    expect(await wakesOf(on, slowStore(on, 40).store)).toEqual([40, 5_040]);
  });
});

describe('a tick whose look ahead fails', () => {
  it.each(['jobs', 'schedules'] as const)(
    'carries out what is due, and says that it failed: %s',
    async (fails) => {
      const on = stage();
      const nowMs = on.time.nowMs;
      const [job] = (await schedule(on, [0])) as [Job];
      const madeMs = nowMs - 60_000;
      const times = { anchorMs: madeMs, dealtMs: madeMs, nextMs: nowMs, dueMs: nowMs };
      await on.store.putSchedule({ record: aSchedule({ id: 'now', ...times }), afterRevision: 0 });
      const store = storeWith(on.store, {
        readDue: async (asked) => {
          if (fails === 'jobs' && asked.nowMs > on.time.nowMs) throw new ThrottledError('too many requests');
          return on.store.readDue(asked);
        },
        readDueSchedules: async (asked) => {
          if (fails === 'schedules' && asked.untilMs > on.time.nowMs)
            throw new ThrottledError('too many requests');
          return on.store.readDueSchedules(asked);
        },
      });
      const ticked = on.finish(dispatchAll(on.dispatcher({ store }), { jobs: [], reason: 'tick' }));
      await expect(ticked).rejects.toThrow('too many requests');
      expect(on.stateOf(job.id)).toBe('claimed');
      expect(on.store.inspectSchedule('now')?.state.history).toMatchObject([{ what: 'made' }]);
    },
  );
});

describe('a dispatcher that runs on', () => {
  it('knows when the next of many jobs becomes due, by one read', async () => {
    const on = stage({ pool: poolOf(10) });
    const startMs = on.time.nowMs;
    await schedule(on, [...range(3_000).map((n) => 9_000 + n), 8_000]);
    const { store, reads } = slowStore(on, 0);
    expect(await nextDueMs(on.dispatcher({ store }), 0)).toBe(startMs + 8_000);
    expect(reads.count).toBe(1);
  });
});

describe('a pass over a crowd that became due at one instant', () => {
  it('plans among all of it: the best start first', { timeout: LONG_MS }, async () => {
    const on = stage({ pool: poolOf(4) });
    const random = seeded(3);
    const runAtMs = on.time.nowMs + 5_000;
    const jobs = range(1_500).map(() =>
      on.job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs, priority: Math.floor(random() * 11) }),
    );
    for (let from = 0; from < jobs.length; from += 500) await on.put(...jobs.slice(from, from + 500));
    await on.advance(5_000);
    const starts: string[] = [];
    let hints: Job[] = [];
    for (let round = 0; round < 10; round += 1) {
      await on.pass({ jobs: hints, reason: round === 0 ? 'wake' : 'stream' });
      hints = [];
      const started = await on.startAll('images');
      const byRank = started.map(({ job }) => job);
      starts.push(...byRank.sort((a, b) => compareRanked(a, b, on.configuration.score)).map(({ id }) => id));
      await on.advance(10);
      for (const each of started) hints.push(await on.end(each));
    }
    const inOrder = jobs.toSorted((a, b) => compareRanked(a, b, on.configuration.score));
    expect(starts).toEqual(inOrder.slice(0, 40).map(({ id }) => id));
  });
});
