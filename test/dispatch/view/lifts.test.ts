/** A key that is new, or comes back, starts at the least share among the keys that wait or run: as it is, not as it was seen. */
import { describe, expect, it } from 'vitest';
import { costOf as costOfUnits } from '../../../lib/core/fairness.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { type Stage, type Started, stage, storeWith } from '../../stage/stage.ts';

const pool = (changes: Partial<PoolInput> = {}): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 1 } },
  fairness: { keyTtlMs: null },
  ...changes,
});

/** What keys have been charged before a test begins. */
async function charged(on: Stage, costs: Readonly<Record<string, number>>): Promise<void> {
  const ledgers = Object.entries(costs).map(([fairnessKey, settledCostMs]) => ({
    fairnessKey,
    settledCostMs,
    lastSeenMs: on.time.nowMs,
  }));
  await on.commit({ ledgers });
}

const costOf = (on: Stage, key: string): number | undefined =>
  on.store.inspect(0).ledgers.get(key)?.settledCostMs;

/** What a key is charged that is raised to just behind this share. */
const behind = (shareMs: number): number => shareMs + costOfUnits(1);

const running = new WeakMap<Stage, Started>();

/** Keys in the order in which their jobs start: one slot, each of them `tookMs` long. */
async function served(
  on: Stage,
  starts: number,
  tookMs: number,
  contextOf: () => DispatchContext = () => on.main,
): Promise<readonly string[]> {
  const order: string[] = [];
  for (let at = 0; at < starts; at += 1) {
    const runs = running.get(on);
    const hints: Job[] = runs === undefined ? [] : [await on.end(runs)];
    running.delete(on);
    await on.pass({ jobs: hints, reason: 'stream' }, contextOf());
    const [next] = await on.startEverywhere();
    if (next !== undefined) running.set(on, next);
    order.push(next?.job.fairnessKey ?? 'nobody');
    await on.advance(tookMs);
  }
  return order;
}

describe('a new key', () => {
  it('starts within one decision for each active key, whatever the others have been charged', async () => {
    const on = stage({ pool: pool() });
    const keys = ['a', 'b', 'c', 'd'];
    await charged(on, { a: 588_000, b: 2_900_000, c: 590_000, d: 3_000_000 });
    await on.put(...keys.flatMap((fairnessKey) => Array.from({ length: 20 }, () => on.job({ fairnessKey }))));
    await served(on, 3, 7_000);
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    expect(await served(on, keys.length + 1, 7_000)).toContain('new');
  });

  it('starts soon where a tier of few slots never sees the keys of the other tiers', async () => {
    const on = stage({
      pool: pool({
        tiers: [{ tier: 'hi' }, { tier: 'lo', maxConcurrency: 1, guaranteed: 1 }],
        types: { h: { tier: 'hi' }, l: { tier: 'lo' } },
        fleets: { f: { types: ['h', 'l'], slots: 6 } },
      }),
    });
    await charged(on, { x: 588_000, z: 2_900_000 });
    await on.put(
      ...Array.from({ length: 200 }, () => on.job({ type: 'h', fairnessKey: 'z' })),
      ...Array.from({ length: 50 }, () => on.job({ type: 'l', fairnessKey: 'x' })),
    );
    let busy: { readonly started: Started; readonly endsAtMs: number }[] = [];
    const starts: string[] = [];
    let hints: Job[] = [];
    for (let second = 0; second < 60; second += 1) {
      if (second === 20) {
        hints = Array.from({ length: 5 }, () => on.job({ type: 'l', fairnessKey: 'new' }));
        await on.put(...hints);
      }
      for (const { started, endsAtMs } of busy)
        if (endsAtMs <= on.time.nowMs) hints.push(await on.end(started));
      busy = busy.filter(({ endsAtMs }) => endsAtMs > on.time.nowMs);
      await on.pass({ jobs: hints, reason: 'stream' });
      hints = [];
      for (const started of await on.startEverywhere()) {
        busy.push({ started, endsAtMs: on.time.nowMs + (started.job.type === 'h' ? 10_000 : 7_000) });
        if (second >= 20 && started.job.type === 'l') starts.push(started.job.fairnessKey);
      }
      await on.advance(1_000);
    }
    expect(starts.slice(0, 3)).toContain('new');
  });

  it('is lifted once, when there is room for a job: it is not pushed back by what others pay later', async () => {
    const on = stage({ pool: pool() });
    await charged(on, { a: 10_000 });
    await on.put(...Array.from({ length: 9 }, () => on.job({ fairnessKey: 'a', priority: 10 })));
    await served(on, 1, 3_000);
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    expect(costOf(on, 'new')).toBeUndefined();
    // Both have 13,000 now, and the other's jobs are more urgent; then it has more.
    expect(await served(on, 1, 3_000, () => on.dispatcher())).toEqual(['a']);
    expect(costOf(on, 'new')).toBe(behind(13_000));
    for (const context of [on.main, on.dispatcher(), on.dispatcher()]) await on.pass({}, context);
    await on.advance(60_000);
    expect(costOf(on, 'new')).toBe(behind(13_000));
    expect(await served(on, 1, 1_000, () => on.dispatcher())).toEqual(['new']);
  });

  it('stays where it was while others have less, and starts level with them when its turn comes', async () => {
    const on = stage({ pool: pool() });
    await charged(on, { a: 10_000, back: 50_000 });
    await on.put(...Array.from({ length: 9 }, () => on.job({ fairnessKey: 'a' })));
    await served(on, 1, 20_000);
    const late = on.job({ fairnessKey: 'back' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    // At 50,000 ms and more, `a` is behind it, and its own jobs are older.
    expect(await served(on, 4, 20_000, () => on.dispatcher())).toEqual(['a', 'a', 'a', 'back']);
    expect(costOf(on, 'back')).toBe(behind(70_000));
  });

  /** Two slots, one of them busy with a key that was charged 10,000 ms before, and 1,000 ms for the job in flight. */
  async function halfBusy(changes: Partial<PoolInput> = {}): Promise<Stage> {
    const on = stage({ pool: pool({ fleets: { images: { types: ['resize'], slots: 2 } }, ...changes }) });
    await charged(on, { idle: 5, busy: 10_000, held: 7_000 });
    const [job] = await on.put(on.job({ fairnessKey: 'busy' }));
    await on.pass({ jobs: job === undefined ? [] : [job], reason: 'stream' });
    return on;
  }

  it('does not count those that have no jobs, and counts what is in flight', async () => {
    const on = await halfBusy();
    await on.store.announceLines({
      partition: 0,
      lines: [{ type: 'resize', mode: 'queued', fairnessKey: 'idle' }],
      nowMs: on.time.nowMs,
    });
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'new')).toBe(behind(11_000));
  });

  it('does not count those that may not start, as their type is at its cap or paused', async () => {
    const on = await halfBusy({
      types: { resize: { defaultCostMs: 1_000 }, pack: { defaultCostMs: 1_000 } },
      fleets: { images: { types: ['resize', 'pack'], slots: 2 } },
    });
    await on.store.changeControl({ partition: 0, scope: 'type/pack', change: { paused: true } });
    const held = on.job({ type: 'pack', fairnessKey: 'held', readyAtMs: on.time.nowMs - 5 });
    await on.put(held);
    await on.pass({ jobs: [held], reason: 'stream' });
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'new')).toBe(behind(11_000));
  });

  it('does not count several hundred of them, that were charged little', async () => {
    const on = await halfBusy();
    const idle = Array.from({ length: 600 }, (_, at) => `idle${at}`);
    await on.store.announceLines({
      partition: 0,
      lines: idle.map((fairnessKey) => ({ type: 'resize', mode: 'queued', fairnessKey })),
      nowMs: on.time.nowMs,
    });
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'new')).toBe(behind(11_000));
  });

  it('and others that come in the same moment are lifted alike, whichever of them starts', async () => {
    const on = await halfBusy();
    const late = ['one', 'two', 'three'].map((fairnessKey) => on.job({ fairnessKey }));
    await on.put(...late);
    await on.pass({ jobs: late, reason: 'stream' }, on.dispatcher());
    expect(late.map(({ fairnessKey }) => costOf(on, fairnessKey))).toEqual(
      [1, 1, 1].map(() => behind(11_000)),
    );
    expect(on.held()).toHaveLength(2);
  });
});

describe('a key that comes back', () => {
  it('is lifted though an old image tells of a job of its that is over', async () => {
    const on = stage({ pool: pool({ fleets: { images: { types: ['resize'], slots: 2 } } }) });
    await charged(on, { busy: 10_000 });
    const over = on.job({ fairnessKey: 'back' });
    await on.put(over);
    expect(await served(on, 1, 1_000)).toEqual(['back']);
    await served(on, 1, 1_000);
    const [busy] = await on.put(on.job({ fairnessKey: 'busy' }));
    await on.pass({ jobs: busy === undefined ? [] : [busy], reason: 'stream' });
    await on.advance(1_000);
    const next = on.job({ fairnessKey: 'back' });
    await on.put(next);
    await on.pass({ jobs: [over, next], reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'back')).toBe(behind(11_000));
  });
});

describe('a key whose ledgers were reset', () => {
  it.each([null, 3_600_000])('(every %s ms) gives a new key its share at once', async (resetEveryMs) => {
    const on = stage({ pool: pool({ fairness: { resetEveryMs, keyTtlMs: null } }) });
    await on.put(...Array.from({ length: 60 }, () => on.job({ fairnessKey: 'a' })));
    await served(on, 20, 60_000);
    await on.advance(3_600_000 - (on.time.nowMs % 3_600_000) + 1_000);
    await served(on, 1, 1_000);
    await on.put(...Array.from({ length: 10 }, () => on.job({ fairnessKey: 'new' })));
    const order = (await served(on, 16, 10_000)).filter((key) => key !== 'nobody');
    expect(order.slice(0, 8).filter((key) => key === 'new').length).toBeGreaterThanOrEqual(3);
  });
});

describe('a key is not away', () => {
  it('while another of its jobs waits, however old that is and whatever came in front of it', async () => {
    const on = stage({ pool: pool({ fleets: { images: { types: ['resize'], slots: 2 } } }) });
    await charged(on, { patient: 1_000, busy: 50_000 });
    await on.advance(1);
    await on.put(on.job({ fairnessKey: 'busy' }));
    await on.pass();
    // Urgent jobs came later, and stand in front.
    const old = on.job({ fairnessKey: 'patient', readyAtMs: on.time.nowMs - 10 });
    const urgent = Array.from({ length: 10 }, () => on.job({ fairnessKey: 'patient', priority: 1 }));
    await on.put(old, ...urgent);
    await on.pass({ jobs: urgent.slice(0, 1), reason: 'stream' });
    expect(costOf(on, 'patient')).toBe(1_000);
  });
});

describe('many keys that come at once, beside more than a page of others', () => {
  it.each([
    ['new', 0],
    ['returning', 500],
  ])('are looked up together: %s', async (_title, chargedMs) => {
    const types = ['a', 'b', 'c', 'd'];
    const on = stage({
      pool: pool({
        types: Object.fromEntries(types.map((type) => [type, {}])),
        fleets: { images: { types, slots: 110 } },
      }),
    });
    const crowd = Array.from({ length: 400 }, (_, at) => on.job({ type: 'a', fairnessKey: `crowd${at}` }));
    const keys = Array.from({ length: 300 }, (_, at) => `key${at}`);
    if (chargedMs > 0)
      await charged(on, Object.fromEntries(keys.slice(0, 80).map((key) => [key, chargedMs])));
    await on.advance(1_000);
    await on.put(...crowd.slice(0, 100));
    await on.pass({ jobs: crowd.slice(0, 100), reason: 'stream' });
    const coming = keys.map((fairnessKey) => on.job({ type: 'b', fairnessKey }));
    await on.put(...crowd.slice(100), ...coming);
    let reads = 0;
    const store = storeWith(on.store, {
      readBacklogs: (asked) => {
        reads += 1;
        return on.store.readBacklogs(asked);
      },
    });
    await on.pass({ jobs: coming, reason: 'stream' }, { ...on.dispatcher(), store });
    expect(costOf(on, 'key0')).toBeDefined();
    expect(reads).toBeLessThanOrEqual(50);
  });
});
