/** What fairness keys are charged and what is learned of costs, through whole passes. */

import { describe, expect, it } from 'vitest';
import type { FairnessConfiguration } from '../../../lib/core/configuration.ts';
import { ThrottledError } from '../../../lib/core/errors.ts';
import { costOf } from '../../../lib/core/fairness.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { Verdict } from '../../../lib/core/life-cycle.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { LedgerCache } from '../../../lib/dispatch/view/ledger-cache.ts';
import { openCache } from '../../../lib/dispatch/view/partition-cache.ts';
import type { EstimateRecord } from '../../../lib/store/contract/records.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import { aReservation, aReservedJob } from '../../fixtures/factories/reservation.ts';
import { disturbed, FAILED, type Stage, SUCCEEDED, stage, storeWith } from '../../stage/stage.ts';

const setting = (fairness: Partial<FairnessConfiguration> = {}, slots = 1): Stage =>
  stage({
    leads: true,
    pool: {
      types: { resize: { defaultCostMs: 1_000 }, pack: { defaultCostMs: 400 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'pack'], slots } },
      fairness,
    },
  });

/** Runs one job of a key to its end. */
async function runOne(
  on: Stage,
  changes: Partial<Job>,
  tookMs: number,
  verdict: Verdict = SUCCEEDED,
): Promise<void> {
  await on.pass({ jobs: await on.put(on.job(changes)), reason: 'stream' });
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  await on.advance(tookMs);
  await on.pass({ jobs: [await on.end(started, verdict)], reason: 'stream' });
}

/** Raised to just behind a share. */
const behind = (costMs: number): number => costMs + costOf(1);

const ledgerOf = (on: Stage, key: string): number | undefined =>
  on.store.inspect(0).ledgers.get(key)?.settledCostMs;
const estimateOf = async (on: Stage, type: string, resourceId: string): Promise<EstimateRecord | undefined> =>
  (await on.store.getEstimates({ partition: 0, ids: [{ type, resourceId }] }))[0];
const chargedFor = (on: Stage): readonly number[] => on.held().map(({ estimatedCostMs }) => estimatedCostMs);

/** Gives the pool a history: a key that runs has been charged so much. */
async function leastShare(on: Stage, leastShareMs: number): Promise<void> {
  const runs = aReservedJob(
    { id: 'history' },
    {
      fairnessKey: 'history',
      type: 'other',
      fleet: 'elsewhere',
      estimatedCostMs: 0,
    },
  );
  const reserve = [aReservation([], { checkAtMs: on.time.nowMs + 3_600_000, jobs: new Map([[0, runs]]) })];
  const ledgers = [{ fairnessKey: 'history', settledCostMs: leastShareMs, lastSeenMs: on.time.nowMs }];
  await on.commit({ ledgers, reserve });
}

describe('a key', () => {
  it('is charged the estimate while its job is in flight, and what it really used once it is settled', async () => {
    const on = setting();
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' });
    expect([chargedFor(on), ledgerOf(on, 'tenant-a')]).toEqual([[1_000], undefined]);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(250);
    await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    expect(ledgerOf(on, 'tenant-a')).toBe(250);
  });

  it('is charged the estimate for good without true-up', async () => {
    const on = setting({ trueUp: false });
    await runOne(on, {}, 250);
    expect(ledgerOf(on, 'tenant-a')).toBe(1_000);
  });

  it('is charged at least the floor, and nothing for what never ran', async () => {
    const on = setting({ admissionFloorMs: 100 });
    await runOne(on, {}, 1);
    expect(ledgerOf(on, 'tenant-a')).toBe(100);
    const jobs = await on.put(on.job());
    const [job] = jobs;
    await on.pass({ jobs: jobs, reason: 'stream' });
    const unwanted = { jobId: job?.id ?? '', nowMs: on.time.nowMs, expiresAtMs: on.time.nowMs + 1_000_000 };
    await on.store.cancelJob(unwanted);
    await on.advance(on.main.budget.checkAfterMs);
    expect([await on.pass(), on.held()]).toMatchObject([{ settled: 1, admitted: 0 }, []]);
    expect(ledgerOf(on, 'tenant-a')).toBe(100);
  });

  it('is charged for failures as for successes', async () => {
    const on = setting();
    await runOne(on, {}, 500, FAILED);
    await runOne(on, {}, 300);
    expect(ledgerOf(on, 'tenant-a')).toBe(800);
  });

  it('gets a share by its weight', async () => {
    const on = setting({ weights: { heavy: 3 } });
    const jobs = Array.from({ length: 24 }, (_, n) =>
      on.job({ fairnessKey: n % 2 === 0 ? 'heavy' : 'light' }),
    );
    await on.put(...jobs);
    let hints: Job[] = [];
    const order: string[] = [];
    for (let n = 0; n < 12; n += 1) {
      await on.pass({ jobs: hints, reason: 'stream' });
      const [started] = await on.startAll('images');
      if (started === undefined) throw new Error('nothing started');
      order.push(started.job.fairnessKey);
      await on.advance(1_000);
      hints = [await on.end(started)];
    }
    expect(order.filter((key) => key === 'heavy')).toHaveLength(9);
  });
});

describe('a key that is new', () => {
  it('starts at the least share among active keys, so that it cannot take all', async () => {
    const on = setting();
    await leastShare(on, 5_000);
    await runOne(on, { fairnessKey: 'new' }, 100);
    expect(ledgerOf(on, 'new')).toBe(behind(5_100));
  });

  it('starts there times its weight', async () => {
    const on = setting({ weights: { new: 2 } });
    await leastShare(on, 5_000);
    await runOne(on, { fairnessKey: 'new' }, 100);
    expect(ledgerOf(on, 'new')).toBe(behind(10_100));
  });

  it('starts at nothing where being away is worth something', async () => {
    const on = setting({ idlePolicy: 'none' });
    await leastShare(on, 5_000);
    await runOne(on, { fairnessKey: 'new' }, 100);
    expect(ledgerOf(on, 'new')).toBe(100);
  });

  it('starts there too when its first job is admitted only passes later, whoever settles it', async () => {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, maxConcurrency: 1 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 4 } },
      },
    });
    await leastShare(on, 5_000);
    await on.pass({
      jobs: await on.put(on.job({ fairnessKey: 'first', priority: 10 }), on.job({ fairnessKey: 'second' })),
      reason: 'stream',
    });
    for (const context of [on.main, on.dispatcher()]) {
      const [started] = await on.startAll('images');
      if (started === undefined) throw new Error('nothing started');
      await on.advance(100);
      await on.pass({ jobs: [await on.end(started)], reason: 'stream' }, context);
    }
    expect(['first', 'second'].map((key) => ledgerOf(on, key))).toEqual([behind(5_100), behind(5_100)]);
  });
});

describe('a key that comes back', () => {
  it('starts at the least share among active keys: being away saves nothing up', async () => {
    const on = setting();
    await runOne(on, { fairnessKey: 'away' }, 100);
    await leastShare(on, 5_000);
    await on.advance(60_000);
    await runOne(on, { fairnessKey: 'away' }, 100);
    expect(ledgerOf(on, 'away')).toBe(behind(5_100));
  });

  it('keeps what it has been charged beyond that', async () => {
    const on = setting();
    await runOne(on, { fairnessKey: 'away' }, 9_000);
    await leastShare(on, 5_000);
    await on.advance(60_000);
    await runOne(on, { fairnessKey: 'away' }, 100);
    expect(ledgerOf(on, 'away')).toBe(9_100);
  });

  it('is new once its ledger has expired', async () => {
    const on = setting({ keyTtlMs: 60_000 });
    await runOne(on, { fairnessKey: 'away' }, 9_000);
    await on.advance(60_001);
    await runOne(on, { fairnessKey: 'away' }, 100);
    expect(ledgerOf(on, 'away')).toBe(100);
  });

  it('starts at nothing after a reset', async () => {
    const on = setting({ resetEveryMs: 3_600_000, keyTtlMs: null, idlePolicy: 'none' });
    await runOne(on, {}, 9_000);
    await on.advance(3_600_000);
    await runOne(on, {}, 100);
    expect(ledgerOf(on, 'tenant-a')).toBe(100);
  });
});

describe('an estimate', () => {
  it('is learned from successes only', async () => {
    const on = setting();
    await runOne(on, {}, 5_000, FAILED);
    expect(await estimateOf(on, 'resize', '')).toBeUndefined();
    await runOne(on, {}, 200);
    expect(await estimateOf(on, 'resize', '')).toMatchObject({ samples: 1 });
  });

  it('is used for the next charge', async () => {
    const on = setting({ alpha: 1 });
    await runOne(on, {}, 200);
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' });
    expect(chargedFor(on)).toEqual([200]);
  });

  it("of a resource is its own, of a new one its type's", async () => {
    const on = setting({ alpha: 1 });
    await runOne(on, { resourceId: 'small' }, 50);
    await runOne(on, { resourceId: 'large' }, 9_000);
    expect((await estimateOf(on, 'resize', 'small'))?.meanMs).toBe(50);
    expect((await estimateOf(on, 'resize', ''))?.meanMs).toBe(9_000);
    for (const [resourceId, expected] of [
      ['small', 50],
      ['new', 9_000],
    ] as const) {
      const fresh = on.job({ resourceId });
      await on.put(fresh);
      await on.pass({ jobs: [fresh], reason: 'stream' });
      expect(chargedFor(on)).toEqual([expected]);
      for (const each of await on.startAll('images')) await on.end(each, FAILED);
      await on.advance(on.main.budget.checkAfterMs);
      await on.pass();
    }
  });

  it('of one type says nothing about another', async () => {
    const on = setting({ alpha: 1 });
    await runOne(on, { type: 'resize' }, 200);
    await on.pass({ jobs: await on.put(on.job({ type: 'pack' })), reason: 'stream' });
    expect(chargedFor(on)).toEqual([400]);
  });

  it('of the type is not learned where only the default stands in', async () => {
    const on = setting({ estimateFallback: 'default' });
    await runOne(on, { resourceId: 'r' }, 200);
    expect(await estimateOf(on, 'resize', '')).toBeUndefined();
    expect(await estimateOf(on, 'resize', 'r')).toMatchObject({ samples: 1 });
  });

  it('that has expired is forgotten, and what follows is learned anew', async () => {
    const on = setting({ alpha: 0.5, estimateTtlMs: 60_000 });
    await runOne(on, {}, 9_000);
    await runOne(on, {}, 9_000);
    expect(await estimateOf(on, 'resize', '')).toMatchObject({ samples: 2 });
    await on.advance(60_001);
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' });
    expect(chargedFor(on)).toEqual([1_000]);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(200);
    await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    const fresh = setting({ alpha: 0.5, estimateTtlMs: 60_000 });
    await runOne(fresh, {}, 200);
    const { samples, meanMs } = (await estimateOf(fresh, 'resize', '')) ?? {};
    expect(await estimateOf(on, 'resize', '')).toMatchObject({ samples, meanMs });
  });
});

describe('the books in memory', () => {
  /** A dispatcher whose reads of ledgers are counted. */
  function reader(on: Stage): { readonly context: DispatchContext; readonly reads: () => number } {
    let reads = 0;
    const store = storeWith(on.store, {
      getLedgers: async ({ partition, fairnessKeys: keys }) => {
        reads += 1;
        return on.store.getLedgers({ partition, fairnessKeys: keys });
      },
    });
    return { context: on.dispatcher({ store }), reads: () => reads };
  }

  it('are kept from pass to pass of a lead', async () => {
    const on = setting({}, 4);
    const { context, reads } = reader(on);
    for (let n = 0; n < 3; n += 1) {
      await on.pass({ jobs: await on.put(on.job()), reason: 'stream' }, context);
    }
    expect(reads()).toBe(1);
  });

  it('are read once of a key that is asked for from several sides, and again where that failed', async () => {
    const on = setting();
    const asked: string[] = [];
    let fails = true;
    const store = storeWith(on.store, {
      getLedgers: async ({ partition, fairnessKeys }) => {
        asked.push(...fairnessKeys);
        const found = await on.store.getLedgers({ partition, fairnessKeys });
        if (fails) throw new ThrottledError('getLedgers: too many requests; try again');
        return found;
      },
    });
    const { configuration } = on.main;
    const books = new LedgerCache(store, configuration, 0, on.time.nowMs, openCache(new Map(), 0, 'one'));
    const reads = (): Promise<unknown>[] => [
      books.readLedgers(['tenant-a', 'tenant-b']),
      books.readLedgers(['tenant-b', 'tenant-c']),
      books.readLedgers(['tenant-a']),
    ];
    const failed = await Promise.allSettled(reads());
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    fails = false;
    asked.length = 0;
    await Promise.all(reads());
    expect(asked).toEqual(['tenant-a', 'tenant-b', 'tenant-c']);
    await Promise.all(reads());
    expect(asked).toHaveLength(3);
  });

  it('that somebody reads are there for whoever asks meanwhile', async () => {
    const on = setting();
    const store = storeWith(on.store, {
      getLedgers: async (request) => {
        await on.clock.sleep(5);
        return on.store.getLedgers(request);
      },
    });
    const books = new LedgerCache(
      store,
      on.main.configuration,
      0,
      on.time.nowMs,
      openCache(new Map(), 0, 'one'),
    );
    const first = books.readLedgers(['tenant-a', 'tenant-b']);
    await on.finish(books.readLedgers(['tenant-b']));
    expect(books.isKnown('tenant-b')).toBe(true);
    await first;
  });

  it('are read again after another dispatcher has committed', async () => {
    const on = setting({}, 4);
    const { context, reads } = reader(on);
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' }, context);
    const before = reads();
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' }, context);
    expect(reads()).toBe(before);
    await on.commit({});
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' }, context);
    expect(reads()).toBe(before + 1);
  });

  it('are read again after a pass that failed', async () => {
    const on = setting({}, 4);
    const { context, reads } = reader(on);
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' }, context);
    let fails = 1;
    const failing = {
      ...context,
      store: storeWith(context.store, {
        commit: async (request) => {
          const outcome = await on.store.commit(request);
          fails -= 1;
          if (fails === 0) throw new Error('no answer, though it was applied');
          return outcome;
        },
      }),
    };
    const jobs = await on.put(on.job());
    await expect(on.pass({ jobs, reason: 'stream' }, failing)).rejects.toThrow('no answer');
    await on.pass({ jobs: await on.put(on.job({ fairnessKey: 'another' })), reason: 'stream' }, failing);
    expect(reads()).toBe(3);
  });

  it('that a pass changed whose commit was lost are read again: nothing is charged twice', async () => {
    const on = setting({}, 4);
    await runOne(on, {}, 300);
    await on.pass({ jobs: await on.put(on.job()), reason: 'stream' });
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(200);
    const ended = await on.end(started);
    const context = disturbed(on, 'readKeys', () => on.commit({}));
    expect(await on.pass({ jobs: [ended], reason: 'stream' }, context)).toMatchObject({ settled: 1 });
    expect(ledgerOf(on, 'tenant-a')).toBe(500);
  });

  it('of two dispatchers that take turns are the same as of one', async () => {
    const together = setting({ alpha: 0.5 });
    const alone = setting({ alpha: 0.5 });
    const pair = [together.dispatcher(), together.dispatcher()];
    for (let n = 0; n < 10; n += 1) {
      for (const on of [together, alone]) {
        const context = on === together ? (pair[Math.floor(n / 2) % 2] ?? on.main) : on.main;
        await on.pass(
          { jobs: await on.put(on.job({ fairnessKey: `tenant-${n % 3}` })), reason: 'stream' },
          context,
        );
        const [started] = await on.startAll('images');
        if (started === undefined) throw new Error('nothing started');
        await on.advance(100 * (n + 1));
        await on.pass({ jobs: [await on.end(started)], reason: 'stream' }, context);
      }
    }
    const books = (on: Stage) =>
      [...on.store.inspect(0).ledgers.values()].map(({ fairnessKey, settledCostMs }) => [
        fairnessKey,
        settledCostMs,
      ]);
    expect(books(together)).toEqual(books(alone));
    expect(await estimateOf(together, 'resize', '')).toEqual(await estimateOf(alone, 'resize', ''));
  });
});

describe('when a key was seen last', () => {
  it('is never earlier than before, however late an end is settled', () => {
    const on = setting();
    const nowMs = on.time.nowMs;
    const entry = aReservedJob({ id: 'ended', type: 'resize', fairnessKey: 'tenant-a' });
    const reservation = aReservation([entry], { reservedAtMs: nowMs - 60_000 });
    const seenAfter = (beforeMs: number): number | undefined => {
      const cached = openCache(new Map(), 0, 'one');
      const own = new LedgerCache(on.store, on.main.configuration, 0, nowMs, cached);
      const before = aLedger({ fairnessKey: 'tenant-a', lastSeenMs: beforeMs });
      own.know({ ledgers: [before], estimates: [], controls: [] });
      const ended = { succeeded: true, durationMs: 1_000, endedAtMs: nowMs - 30_000 };
      const { ledgers } = own.settle({ reservation, position: 0, entry, ...ended });
      return ledgers[0]?.lastSeenMs;
    };
    expect(seenAfter(nowMs - 40_000)).toBe(nowMs - 30_000);
    expect(seenAfter(nowMs - 20_000)).toBe(nowMs - 20_000);
  });
});

describe('raised shares', () => {
  /** The books of a partition in which a key was charged 1,000. */
  function books() {
    const cached = openCache(new Map(), 0, 'one');
    const on = setting();
    const own = new LedgerCache(on.store, on.main.configuration, 0, on.time.nowMs, cached);
    own.know({
      ledgers: [aLedger({ fairnessKey: 'tenant-a', settledCostMs: 1_000 })],
      estimates: [],
      controls: [],
    });
    return { own, cached };
  }

  it('move a key to the front of its keys lines if it was not charged so much before as nobody knows', () => {
    const { own, cached } = books();
    const raised = ['tenant-a', 'new'].map((fairnessKey) => ({ fairnessKey, settledCostMs: 5_000 }));
    own.raise(raised, new Set());
    expect([...cached.view.movedBackSince(0)]).toEqual(['new']);
  });
});

describe('costs', () => {
  it('are conserved: what keys were charged is what their attempts used, whoever ran them', async () => {
    const on = setting({ keyTtlMs: null, idlePolicy: 'none' }, 6);
    const used = new Map<string, number>();
    const dispatchers = [on.dispatcher(), on.dispatcher(), on.dispatcher()];
    let hints: Job[] = [];
    for (let round = 0; round < 40; round += 1) {
      await on.put(
        ...Array.from({ length: 3 }, (_, n) => on.job({ fairnessKey: `tenant-${(round + n) % 4}` })),
      );
      const context = dispatchers[Math.floor(on.random() * 3)] ?? on.main;
      await on.pass({ jobs: on.random() < 0.3 ? [] : hints, reason: 'stream' }, context);
      hints = [];
      for (const started of await on.startAll('images')) {
        await on.advance(Math.floor(on.random() * 2_000) + 10);
        const ended = await on.end(started, on.random() < 0.3 ? FAILED : SUCCEEDED);
        const tookMs = (ended.finishedAtMs ?? 0) - (ended.startedAtMs ?? 0);
        used.set(ended.fairnessKey, (used.get(ended.fairnessKey) ?? 0) + tookMs);
        hints.push(ended);
      }
    }
    await on.advance(on.main.budget.checkAfterMs);
    for (let pass = 0; pass < 5; pass += 1) await on.pass({ jobs: hints, reason: 'stream' });
    const running = new Set(on.held().map(({ id }) => id));
    expect([...running].every((id) => on.stateOf(id) !== 'succeeded')).toBe(true);
    for (const [key, usedMs] of used) expect([key, ledgerOf(on, key)]).toEqual([key, usedMs]);
  });
});
