/** What stands behind the first page of an index is not forgotten: keys after a reset, groups of a blocked line, due jobs of several shards. */
import { describe, expect, it } from 'vitest';
import { readFreed } from '../../lib/dispatch/parking.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import type { Heads } from '../../lib/store/requests.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** A page of a keys line is a hundred keys. */
const KEYS = 150;
const RESET_MS = 60_000;
const keyOf = (at: number): string => `tenant-${String(at).padStart(3, '0')}`;
const keys = Array.from({ length: KEYS }, (_, at) => keyOf(at));

/** The last key was charged much before the reset, and each of the others a little since. All have a job. */
async function afterReset(idlePolicy: 'advance' | 'none'): Promise<Stage> {
  const on = stage({
    pool: {
      types: {
        resize: { defaultCostMs: 1_000, tier: 'standard' },
        print: { defaultCostMs: 1_000, tier: 'urgent' },
      },
      tiers: [{ tier: 'urgent' }, { tier: 'standard' }],
      fleets: { images: { types: ['resize', 'print'], slots: 1 } },
      fairness: { idlePolicy, resetEveryMs: RESET_MS },
    },
  });
  await on.put(...keys.map((fairnessKey) => on.job({ fairnessKey })));
  const charge = async (fairnessKeys: readonly string[], costOf: (at: number) => number): Promise<void> => {
    for (let from = 0; from < fairnessKeys.length; from += 50) {
      const ledgers = fairnessKeys.slice(from, from + 50).map((fairnessKey, at) => ({
        fairnessKey,
        settledCostMs: costOf(from + at),
        lastSeenMs: on.time.nowMs,
      }));
      await on.commit({ ledgers });
    }
  };
  await charge(keys.slice(-1), () => 5_000);
  await on.advance(RESET_MS);
  await charge(keys.slice(0, -1), (at) => 50 + at);
  return on;
}

describe('after a reset', () => {
  it('a key that was charged much before it comes first, though many stand before it in the keys line', async () => {
    const on = await afterReset('none');
    await on.pass();
    expect(on.held().map(({ fairnessKey }) => fairnessKey)).toEqual(keys.slice(-1));
  });

  it('a key that moves to the front of the keys line, while only its first page was read, comes first', async () => {
    const on = await afterReset('none');
    const [fairnessKey = ''] = keys.slice(-1);
    await on.put(on.job({ type: 'print', fairnessKey }), on.job({ type: 'print', fairnessKey }));
    // Reads a page of what may come next, and starts what is more urgent.
    await on.pass();
    for (let prints = 0; prints < 2; prints += 1) {
      const [urgent] = await on.startAll('images');
      if (urgent === undefined) throw new Error('nothing started');
      expect(urgent.job.type).toBe('print');
      await on.advance(10);
      await on.pass({ jobs: [await on.end(urgent)], reason: 'stream' });
    }
    const { settledCostMs = 0 } = on.store.inspect(0).ledgers.get(fairnessKey) ?? {};
    expect(settledCostMs).toBeLessThan(50);
    expect(on.held().map((held) => [held.type, held.fairnessKey])).toEqual([['resize', fairnessKey]]);
  });

  it('a new key is lifted to its share, and no further', async () => {
    const on = await afterReset('advance');
    const job = on.job({ fairnessKey: 'new' });
    await on.put(job);
    await on.pass({ jobs: [job], reason: 'stream' });
    expect(on.store.inspect(0).ledgers.get('new')?.settledCostMs ?? 0).toBe(0);
  });
});

describe('a conflict key for which more groups wait than one pass reads', () => {
  it('has each of them read by some pass', async () => {
    const on = stage({
      pool: {
        types: { resize: { conflictGroup: 'album' } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
    });
    const [job] = await on.put(on.job({ resourceId: 'one' }));
    if (job === undefined) throw new Error('no job');
    const pages = 5;
    const read = new Set<string>();
    const store: JobStore = storeWith(on.store, {
      readParked: async ({ conflictKeys: names }) =>
        names.map((conflictKey) => ({ conflictKey, parkedAtMs: 0 })),
      readBlocked: async ({ after = '0' }): Promise<Heads> => {
        read.add(after);
        const next = Number(after) + 1;
        return { jobs: [job], ...(next < pages ? { next: String(next) } : {}) };
      },
    });
    const groupCursors = new Map<string, string>();
    for (let passes = 0; passes < pages; passes += 1) {
      await readFreed(on.dispatcher({ store }), {
        partition: 0,
        freed: ['album/one'],
        inFlight: [],
        looksAround: false,
        cursor: undefined,
        groupCursors,
        nowMs: on.time.nowMs,
      });
    }
    expect([...read].sort()).toEqual(Array.from({ length: pages }, (_, at) => String(at)));
  });
});

describe('more due jobs than one pass moves', () => {
  it('become ready in the order of their times', async () => {
    const on = stage({
      budget: { promoteMax: 2, passesMax: 1 },
      pool: {
        types: { resize: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
    });
    const startMs = on.time.nowMs;
    const jobs = Array.from({ length: 60 }, (_, at) =>
      on.job({ state: 'scheduled', runAtMs: startMs + 1_000 + at * 10 }),
    );
    await on.put(...[...jobs].reverse());
    await on.advance(10_000);
    await on.pass();
    const moved = jobs.filter(({ id }) => on.stateOf(id) !== 'scheduled');
    expect(moved).toHaveLength(20);
    expect(moved.map(({ id }) => id)).toEqual(jobs.slice(0, 20).map(({ id }) => id));
  });
});
