/** A key that is new, or comes back, starts at the least share among the keys that wait or run: as it is, not as it was seen. */
import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { LATER_JOBS_MAX } from '../../lib/store/bounds.ts';
import { type Stage, type Started, stage, storeWith } from './stage.ts';

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
    expect(costOf(on, 'new')).toBe(13_000);
    for (const context of [on.main, on.dispatcher(), on.dispatcher()]) await on.pass({}, context);
    await on.advance(60_000);
    expect(costOf(on, 'new')).toBe(13_000);
    expect(await served(on, 1, 1_000, () => on.dispatcher())).toEqual(['new']);
  });

  it('stays where it was if that was not below the least share then, whoever meets it later', async () => {
    const on = stage({ pool: pool() });
    await charged(on, { a: 10_000, back: 50_000 });
    await on.put(...Array.from({ length: 9 }, () => on.job({ fairnessKey: 'a' })));
    await served(on, 1, 20_000);
    const late = on.job({ fairnessKey: 'back' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' });
    // At 50,000 ms and more, `a` is behind.
    expect(await served(on, 3, 20_000, () => on.dispatcher())).toEqual(['a', 'a', 'back']);
    expect(costOf(on, 'back') ?? 50_000).toBe(50_000);
  });

  describe('that came while nothing had room, and was not below the least share when there was', () => {
    /**
     * A pool of two slots, of which `a` holds one for long, and had the other: with that free again, its dispatcher has said that no
     * key came unseen. Then there is room for one job only.
     */
    async function shut(): Promise<Stage> {
      const on = stage({ pool: pool({ fleets: { images: { types: ['resize'], slots: 2 } } }) });
      await charged(on, { a: 10_000, idle: 20_000, back: 50_000 });
      await on.store.announceLines({
        partition: 0,
        lines: [{ type: 'resize', mode: 'queued', fairnessKey: 'idle' }],
        nowMs: on.time.nowMs,
      });
      const both = jobsOf(on, 'a', 2);
      await on.put(...both);
      await on.pass({ jobs: both, reason: 'stream' });
      const [started] = await on.startEverywhere();
      if (started === undefined) throw new Error('nothing started');
      await on.advance(1_000);
      await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
      expect((await on.store.loadPartition({ partition: 0, nowMs: on.time.nowMs })).isLifted).toBe(true);
      await on.store.changeControl({ partition: 0, scope: 'pool', change: { maxConcurrency: 1 } });
      return on;
    }
    const open = (on: Stage): Promise<unknown> =>
      on.store.changeControl({ partition: 0, scope: 'pool', change: { maxConcurrency: 2 } });
    const jobsOf = (on: Stage, fairnessKey: string, count: number): Job[] =>
      Array.from({ length: count }, () => on.job({ fairnessKey }));

    it('is not pushed back by what others pay later, if another dispatcher was told of it', async () => {
      const on = await shut();
      const jobs = [...jobsOf(on, 'back', 1), ...jobsOf(on, 'a', 9)];
      await on.put(...jobs);
      await on.pass({ jobs, reason: 'stream' });
      // By then every dispatcher can see what came.
      await on.advance(on.main.budget.seenWithinMs);
      await open(on);
      // The first pass with room opens two lines: not the one of `back`. At 71,000 ms, `a` is behind it.
      expect(await served(on, 2, 60_000, () => on.dispatcher())).toEqual(['a', 'back']);
      expect(costOf(on, 'back')).toBe(50_000);
    });

    it('is not pushed back by what others pay later, if more came than a dispatcher remembers', async () => {
      const on = await shut();
      for (const jobs of [[...jobsOf(on, 'back', 1), ...jobsOf(on, 'a', 2_999)], jobsOf(on, 'a', 2_999)]) {
        await on.put(...jobs);
        await on.pass({ jobs, reason: 'stream' });
        // What hints told is left to the index.
        await on.advance(20_000);
      }
      await open(on);
      expect(await served(on, 2, 60_000)).toEqual(['a', 'back']);
      expect(costOf(on, 'back')).toBe(50_000);
    });
  });

  it('is lifted to the share of a key all of whose jobs are parked', async () => {
    const on = stage({
      budget: { parkKept: 1 },
      pool: pool({
        types: { resize: { defaultCostMs: 1_000, conflictGroup: 'album', timeoutMs: 600_000 } },
        fleets: { images: { types: ['resize'], slots: 3 } },
      }),
    });
    await charged(on, { busy: 10_000, first: 500, patient: 1_000 });
    const photo = (fairnessKey: string): Job => on.job({ fairnessKey, resourceId: 'holiday' });
    await on.put(photo('busy'));
    await on.pass();
    const behind = await on.put(photo('first'), ...Array.from({ length: 4 }, () => photo('patient')));
    const [kept] = behind;
    await on.pass({ jobs: behind, reason: 'stream' }, on.dispatcher());
    await on.store.cancelJob({
      jobId: kept?.id ?? '',
      nowMs: on.time.nowMs,
      expiresAtMs: on.time.nowMs + 1_000_000,
    });
    const late = on.job({ fairnessKey: 'new' });
    await on.put(late);
    await on.pass({ jobs: [late], reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'new')).toBe(1_000);
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
    expect(costOf(on, 'new')).toBe(11_000);
  });

  it('counts those whose type is at its cap or paused', async () => {
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
    expect(costOf(on, 'new')).toBe(7_000);
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
    expect(costOf(on, 'new')).toBe(11_000);
  });

  it('and others that come in the same moment are lifted alike, whichever of them starts', async () => {
    const on = await halfBusy();
    const late = ['one', 'two', 'three'].map((fairnessKey) => on.job({ fairnessKey }));
    await on.put(...late);
    await on.pass({ jobs: late, reason: 'stream' }, on.dispatcher());
    expect(late.map(({ fairnessKey }) => costOf(on, fairnessKey))).toEqual([11_000, 11_000, 11_000]);
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
    expect(costOf(on, 'back')).toBe(11_000);
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

const laterPool = (slots: number): PoolInput =>
  pool({
    types: { resize: { defaultCostMs: 1_000, retry: { maxAttempts: 3, delayMs: 60_000, jitter: 'none' } } },
    fleets: { images: { types: ['resize'], slots } },
  });

/** A key that was charged 50,000 ms, and 1,000 ms for a job in flight; other slots are free. */
async function busyBeside(slots: number): Promise<Stage> {
  const on = stage({ pool: laterPool(slots + 1) });
  await charged(on, { busy: 50_000 });
  await on.put(on.job({ fairnessKey: 'busy' }));
  await on.pass();
  return on;
}

/** Jobs of a key that was charged little: each was tried once, and waits to be tried again. */
async function waitingAgain(count: number) {
  const on = stage({ pool: laterPool(count + 1) });
  await charged(on, { busy: 50_000 });
  await on.put(...Array.from({ length: count }, () => on.job({ fairnessKey: 'flaky' })));
  await on.pass();
  const busy = await on.put(on.job({ fairnessKey: 'busy' }));
  await on.pass({ jobs: busy, reason: 'stream' });
  const jobs: Job[] = [];
  for (const started of await on.startEverywhere()) {
    if (started.job.fairnessKey !== 'flaky') continue;
    await on.advance(100);
    const runAtMs = on.time.nowMs + 60_000;
    const error = { name: 'Busy', message: 'later' };
    jobs.push(await on.end(started, { kind: 'retry', error, runAtMs }));
  }
  await on.pass({ jobs, reason: 'stream' });
  await on.advance(5_000);
  /** Another job of the key comes. */
  const comes = async (): Promise<void> => {
    const come = await on.put(on.job({ fairnessKey: 'flaky' }));
    await on.pass({ jobs: come, reason: 'stream' }, on.dispatcher());
  };
  return { on, jobs, comes, before: costOf(on, 'flaky') };
}

/** Cancels jobs, and tells a dispatcher of it a little later. */
async function cancel(on: Stage, jobs: readonly Job[]): Promise<void> {
  const images: Job[] = [];
  for (const { id } of jobs) {
    const outcome = await on.store.cancelJob({
      jobId: id,
      nowMs: on.time.nowMs,
      expiresAtMs: on.time.nowMs + 1_000_000,
    });
    if (outcome.kind !== 'cancelled') throw new Error(`cancelling it was ${outcome.kind}`);
    images.push(outcome.job);
  }
  await on.pass({ jobs: images, reason: 'stream' });
  await on.advance(1_000);
}

/** Moves a job to so much later. */
async function move(on: Stage, job: Job | undefined, afterMs: number): Promise<Job> {
  if (job === undefined) throw new Error('there is no job to be moved');
  const [seen = job] = await on.store.getJobs({ ids: [job.id] });
  const outcome = await on.store.retimeJob({
    job: seen,
    runAtMs: on.time.nowMs + afterMs,
    nowMs: on.time.nowMs,
  });
  if (outcome.kind !== 'moved') throw new Error(`moving it was ${outcome.kind}`);
  return outcome.job;
}

describe('a key is not away', () => {
  it('while another of its jobs waits, however old that is and whatever came in front of it', async () => {
    const on = stage({ pool: pool() });
    await charged(on, { patient: 1_000, busy: 50_000 });
    await on.advance(1);
    // Twenty urgent jobs came later, and stand in front.
    const old = on.job({ fairnessKey: 'patient', readyAtMs: on.time.nowMs - 10 });
    const urgent = Array.from({ length: 20 }, () => on.job({ fairnessKey: 'patient', priority: 1 }));
    await on.put(old, ...urgent, on.job({ fairnessKey: 'busy' }));
    await on.pass({ jobs: urgent.slice(0, 1), reason: 'stream' });
    expect(costOf(on, 'patient')).toBe(1_000);
  });

  it('while its job waits for longer than its ledger lasts, also where that is found while another key is lifted', async () => {
    const on = stage({
      pool: pool({
        tiers: [{ tier: 'hi' }, { tier: 'lo' }],
        types: { h: { tier: 'hi', timeoutMs: 600_000 }, l: { tier: 'lo', timeoutMs: 600_000 } },
        fleets: { f: { types: ['h', 'l'], slots: 2 } },
        fairness: { keyTtlMs: 20_000 },
      }),
    });
    await charged(on, { patient: 3_000, modest: 1_000 });
    const ofLow = { type: 'l' };
    await on.put(on.job({ ...ofLow, fairnessKey: 'patient', readyAtMs: on.time.nowMs - 1 }));
    await on.put(on.job({ ...ofLow, fairnessKey: 'modest' }));
    await on.put(...[1, 2].map(() => on.job({ type: 'h', fairnessKey: 'busy' })));
    await on.pass();
    const first = await on.startEverywhere();
    expect(first.map(({ job }) => job.fairnessKey)).toEqual(['busy', 'busy']);
    await on.advance(30_000);
    const ended: Job[] = [];
    for (const each of first) ended.push(await on.end(each));
    // No hint tells of it: it is met when its type's keys are read, beside those of the other type.
    await on.put(on.job({ type: 'h', fairnessKey: 'fresh' }));
    await on.pass({ jobs: ended, reason: 'stream' });
    const next = await on.startEverywhere();
    expect(next.map(({ job }) => job.fairnessKey).toSorted()).toEqual(['fresh', 'modest']);
  });

  it('while one of its jobs waits to be tried again', async () => {
    const { on, comes, before } = await waitingAgain(1);
    await comes();
    expect(costOf(on, 'flaky')).toBe(before);
  });

  it('while any of its jobs does, though others were cancelled', async () => {
    const { on, jobs, comes, before } = await waitingAgain(3);
    await cancel(on, jobs.slice(1));
    await comes();
    expect(costOf(on, 'flaky')).toBe(before);
  });

  it('while more of its jobs do than its ledger tells apart', async () => {
    const { on, jobs, comes, before } = await waitingAgain(LATER_JOBS_MAX + 2);
    await cancel(on, jobs.slice(1));
    await comes();
    expect(costOf(on, 'flaky')).toBe(before);
  });

  it('while its first job waits that was moved before anything was decided, since another one was lifted', async () => {
    const on = await busyBeside(1);
    const [moved] = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: [await move(on, moved, 600_000)], reason: 'stream' });
    expect(costOf(on, 'moved')).toBe(0);
    const second = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: second, reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'moved')).toBe(51_000);
    const started = await on.startEverywhere();
    await on.advance(30_000);
    const images: Job[] = [];
    for (const each of started) images.push(await on.end(each));
    await on.pass({ jobs: images, reason: 'stream' });
    await on.put(on.job({ fairnessKey: 'busy' }));
    await on.pass();
    await on.advance(1_000);
    const third = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: third, reason: 'stream' }, on.dispatcher());
    expect(costOf(on, 'moved')).toBe(81_000);
  });

  it('while a job waits that was moved before anything of its key was charged, where nobody is lifted', async () => {
    const on = stage({ pool: pool({ fairness: { idlePolicy: 'none', keyTtlMs: 20_000 } }) });
    const [first] = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: [await move(on, first, 600_000)], reason: 'stream' });
    const second = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: second, reason: 'stream' });
    const ended: Job[] = [];
    for (const each of await on.startEverywhere()) {
      await on.advance(5_000);
      ended.push(await on.end(each));
    }
    await on.pass({ jobs: ended, reason: 'stream' });
    await on.advance(60_000);
    await on.put(on.job({ fairnessKey: 'moved' }));
    await on.advance(1);
    await on.put(on.job({ fairnessKey: 'fresh' }));
    await on.pass({}, on.dispatcher());
    const next = await on.startEverywhere();
    expect(next.map(({ job }) => job.fairnessKey)).toEqual(['fresh']);
  });

  it('while its first job waits for the time that it was moved to after a pass with room had seen it', async () => {
    const on = stage({ pool: laterPool(2) });
    const setPaused = (paused: boolean) =>
      on.store.changeControl({ partition: 0, scope: 'type/resize', change: { paused } });
    await setPaused(true);
    const [moved] = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.advance(on.main.budget.seenWithinMs);
    await on.pass();
    await on.pass({ jobs: [await move(on, moved, 60_000)], reason: 'stream' });
    await setPaused(false);
    await charged(on, { busy: 50_000 });
    const busy = await on.put(on.job({ fairnessKey: 'busy' }));
    await on.pass({ jobs: busy, reason: 'stream' }, on.dispatcher());
    await on.advance(60_000);
    await on.pass({}, on.dispatcher());
    expect(on.held()).toHaveLength(2);
    expect(costOf(on, 'moved')).toBe(0);
  });
});

describe('a key that has only a job that was moved before anything was decided', () => {
  it('comes when that job does, though others were lifted meanwhile', async () => {
    const on = stage({ pool: laterPool(1) });
    await charged(on, { busy: 50_000 });
    const endAll = async (): Promise<void> => {
      const images: Job[] = [];
      for (const each of await on.startEverywhere()) images.push(await on.end(each));
      // Who has seen nothing before looks around, and notes that it did.
      await on.pass({ jobs: images, reason: 'stream' }, on.dispatcher());
    };
    const busy = await on.put(...Array.from({ length: 3 }, () => on.job({ fairnessKey: 'busy' })));
    await on.pass({ jobs: busy, reason: 'stream' });
    await on.advance(1_000);
    const [moved] = await on.put(on.job({ fairnessKey: 'moved' }));
    await on.pass({ jobs: moved === undefined ? [] : [moved], reason: 'stream' });
    await on.advance(1_000);
    await on.pass({ jobs: [await move(on, moved, 20_000)], reason: 'stream' });
    await on.advance(on.main.budget.seenWithinMs + 2_000);
    await endAll();
    await on.advance(20_000);
    await on.pass();
    expect(costOf(on, 'moved')).toBe(0);
    const least = costOf(on, 'busy');
    await endAll();
    expect(costOf(on, 'moved')).toBeGreaterThanOrEqual(least ?? Infinity);
  });
});

describe('where nobody is there', () => {
  it('keys start level with the one that came first, though a later job of its was moved while nothing had room', async () => {
    const on = stage({ pool: laterPool(1) });
    await charged(on, { first: 5_000 });
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: true } });
    await on.advance(1_000);
    await on.put(on.job({ fairnessKey: 'first' }));
    await on.advance(1_000);
    await on.put(on.job({ fairnessKey: 'second' }));
    const [later] = await on.put(on.job({ fairnessKey: 'first' }));
    await on.pass({ jobs: [await move(on, later, 600_000)], reason: 'stream' });
    await on.store.changeControl({ partition: 0, scope: 'pool', change: { paused: false } });
    await on.pass({}, on.dispatcher());
    expect([costOf(on, 'first'), costOf(on, 'second')]).toEqual([5_000, 5_000]);
  });
});

describe('a key is away', () => {
  const LIFTED_MS = 51_000;

  it('from when all of its jobs that waited to be tried again are cancelled', async () => {
    const { on, jobs, comes } = await waitingAgain(2);
    await cancel(on, jobs);
    await comes();
    expect(costOf(on, 'flaky')).toBe(LIFTED_MS);
  });

  it('whatever an old image tells of them', async () => {
    const { on, jobs, comes } = await waitingAgain(1);
    await cancel(on, jobs);
    await on.pass({ jobs, reason: 'stream' }, on.dispatcher());
    await comes();
    expect(costOf(on, 'flaky')).toBe(LIFTED_MS);
  });

  it('from when the last of them is over, if that was moved to an earlier time', async () => {
    const { on, jobs, comes } = await waitingAgain(1);
    const [job] = jobs;
    await on.pass({ jobs: [await move(on, job, 0)], reason: 'stream' });
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    await on.advance(100);
    await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    await on.advance(1_000);
    await comes();
    expect(costOf(on, 'flaky')).toBe(LIFTED_MS);
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
