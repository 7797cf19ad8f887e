import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { weightsWithOverrides } from '../../lib/core/capacity.ts';
import type { FairnessConfiguration, PoolConfiguration } from '../../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import { chargeMs, correctionMs, Ledgers, raisesOf } from '../../lib/core/fairness.ts';
import type { ReservedJob } from '../../lib/core/job.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { FEWER_RUNS } from './random-pass.ts';

vi.setConfig({ testTimeout: 120_000 });

const UNIT_MS = 2 ** -16;

const fairness = (changes: Partial<FairnessConfiguration> = {}): FairnessConfiguration => ({
  ...FAIRNESS_DEFAULTS,
  admissionFloorMs: 0,
  ...changes,
});

/** One type, one fleet, slots enough for a batch. */
function pool(slots: number, changes: Partial<FairnessConfiguration> = {}): PoolConfiguration {
  return {
    types: [
      { ...TYPE_DEFAULTS, type: 'a', tier: 'only', defaultCostMs: 1_000, retry: RETRY_DEFAULTS },
      { ...TYPE_DEFAULTS, type: 'b', tier: 'only', defaultCostMs: 3_000, retry: RETRY_DEFAULTS },
    ],
    tiers: [{ tier: 'only', maxConcurrency: null, guaranteed: 0 }],
    fleets: [{ fleet: 'all', types: ['a', 'b'], slots }],
    maxConcurrency: null,
    score: SCORE_DEFAULTS,
    fairness: fairness(changes),
    partitions: 1,
  };
}

/** Submits without end, one job after another. */
function submitter(scheduler: Scheduler): (fairnessKey: string, type: string, nowMs: number) => string {
  let count = 0;
  return (fairnessKey, type, nowMs) => {
    count += 1;
    const id = `job${String(count).padStart(6, '0')}`;
    const job = { id, type, fairnessKey, priority: 0, mode: 'queued' as const, version: 1, attempt: 1 };
    scheduler.arrive({ ...job, readyAtMs: nowMs }, nowMs);
    return id;
  };
}

describe('a charge', () => {
  it('is the estimate, and never less than the floor', () => {
    expect(chargeMs(500, fairness({ admissionFloorMs: 100 }))).toBe(500);
    expect(chargeMs(5, fairness({ admissionFloorMs: 100 }))).toBe(100);
  });

  it('is corrected to what was used, and never below the floor', () => {
    const floor = fairness({ admissionFloorMs: 100 });
    expect(correctionMs(500, 700, floor)).toBe(200);
    expect(correctionMs(500, 300, floor)).toBe(-200);
    expect(correctionMs(500, 1, floor)).toBe(-400);
    expect(correctionMs(500, 300, { ...floor, trueUp: false })).toBe(0);
  });

  it('is given back whole for an attempt that never ran', () => {
    expect(correctionMs(500, undefined, fairness({ trueUp: false }))).toBe(-500);
    expect(correctionMs(500, undefined, fairness())).toBe(-500);
  });
});

describe('a cost', () => {
  it('is a whole number of 2^-16 ms, whether it is charged, corrected or lifted to', () => {
    const free = fairness();
    expect(chargeMs(1 / 3, free)).toBe(21_845 * UNIT_MS);
    expect(correctionMs(chargeMs(1 / 3, free), 2 / 3, free)).toBe((43_691 - 21_845) * UNIT_MS);
    const ledgers = new Ledgers(free);
    const key = ledgers.open('key', 0);
    ledgers.setCost(key, 0.1);
    expect(ledgers.costOf(key)).toBe(6_554 * UNIT_MS);
  });

  it('is the same whatever the order in which attempts were charged and settled, for years', () => {
    const cost = fc.double({ min: 0, max: 900_000, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(cost, fc.option(cost, { nil: undefined })), { maxLength: 60 }),
        fc.integer({ min: 0, max: 2 ** 36 }),
        fc.infiniteStream(fc.nat()),
        (attempts, earlierMs, stream) => {
          const free = fairness();
          const ledgers = new Ledgers(free);
          const [first, second] = [ledgers.open('first', 0), ledgers.open('second', 0)];
          for (const key of [first, second]) ledgers.setCost(key, earlierMs);
          const endings = attempts.map(
            ([estimateMs, usedMs]) => [chargeMs(estimateMs, free), usedMs] as const,
          );
          for (const [charged, usedMs] of endings) {
            ledgers.hold(first, charged, 0);
            ledgers.settle(first, charged, usedMs, 0, 0);
          }
          for (const [charged] of endings) ledgers.hold(second, charged, 0);
          const left = [...endings];
          while (left.length > 0) {
            const [ending] = left.splice((stream.next().value ?? 0) % left.length, 1);
            if (ending !== undefined) ledgers.settle(second, ...ending, 0, 0);
          }
          expect(ledgers.costOf(second)).toBe(ledgers.costOf(first));
        },
      ),
      { numRuns: FEWER_RUNS },
    );
  });
});

describe('what a key weighs now', () => {
  it('is what an operator said last, else what is configured for it, else what is for all', () => {
    const { of, named } = weightsWithOverrides(
      { fairness: fairness({ weights: { configured: 4, both: 3 }, defaultWeight: 2 }) },
      [
        { scope: 'key/both', paused: false, weight: 7 },
        { scope: 'key/both', paused: false, weight: 0.5 },
        { scope: 'key/overridden', paused: false, weight: 8 },
        { scope: 'key/paused', paused: true },
        { scope: 'type/other', paused: false, weight: 9 },
      ],
    );
    expect(['configured', 'both', 'overridden', 'paused', 'other'].map(of)).toEqual([4, 0.5, 8, 2, 2]);
    expect(named).toEqual(['configured', 'both', 'overridden']);
  });
});

describe('shares that a pass raises', () => {
  const NOTHING_HELD = (): number => Number.POSITIVE_INFINITY;
  const key = (name: string, shareMs: number, arrives: boolean, weight = 1) => ({
    key: name,
    shareMs,
    weight,
    arrives,
  });
  const there = (name: string, shareMs: number) => key(name, shareMs, false);
  const late = (name: string, shareMs: number, weight = 1) => key(name, shareMs, true, weight);

  it('are those of keys that arrive, to just behind the first that does not, by their weights', () => {
    const met = [late('new', 0), late('heavy', 100, 4), there('old', 300)];
    expect(raisesOf(met, NOTHING_HELD, null, false)).toEqual([
      { key: 'new', costMs: 300 + UNIT_MS },
      { key: 'heavy', costMs: 1_200 + UNIT_MS },
    ]);
  });

  it('are raised to what is in flight where nothing less waits, and none is lowered', () => {
    const met = [late('new', 0), late('rich', 900)];
    expect(raisesOf(met, () => 500, null, false)).toBeUndefined();
    expect(raisesOf(met, () => 500, null, true)).toEqual([{ key: 'new', costMs: 500 + UNIT_MS }]);
  });

  it('are raised behind one of the same share only where they would come first', () => {
    const [before, behind] = [late('before', 300), late('behind', 300)];
    expect(raisesOf([before, there('old', 300), behind], NOTHING_HELD, 0, true)).toEqual([
      { key: 'before', costMs: 300 + UNIT_MS },
    ]);
  });

  it('leave the first key a credit below its others, whether they wait or run; what arrives is none of them', () => {
    const heldMs = (butFor: string | undefined): number => (butFor === 'hoards' ? 5_000 : 10);
    const met = [there('hoards', 10), late('new', 20)];
    expect(raisesOf(met, heldMs, 1_000, false)).toBeUndefined();
    expect(raisesOf([...met, there('next', 3_000)], heldMs, 1_000, false)).toEqual([
      { key: 'hoards', costMs: 2_000 },
      { key: 'new', costMs: 2_000 + UNIT_MS },
    ]);
    expect(raisesOf(met, heldMs, 1_000, true)).toEqual([
      { key: 'hoards', costMs: 4_000 },
      { key: 'new', costMs: 4_000 + UNIT_MS },
    ]);
    expect(raisesOf(met, heldMs, null, false)).toEqual([]);
    expect(raisesOf(met, heldMs, 4_990, false)).toEqual([]);
  });
});

describe('ledgers', () => {
  it('know the least share among active keys after any history', () => {
    const operation = fc.record({
      key: fc.nat(40),
      kind: fc.constantFrom(
        'arrive',
        'arrive',
        'admit',
        'hold',
        'leave',
        'settle',
        'weight',
        'cost',
        'reset',
      ),
      ms: fc.nat(5_000),
    });
    interface Known {
      cost: number;
      /** Of the attempts in flight, with how many resets there had been. */
      readonly charges: { readonly ms: number; readonly resets: number }[];
      weight: number;
      waiting: number;
    }
    fc.assert(
      fc.property(
        fc.array(operation, { maxLength: 300, size: 'max' }),
        // Among few keys each is often the first, or follows it.
        fc.constantFrom(3, 8, 41),
        fc.boolean(),
        (operations, keys, trueUp) => {
          const ledgers = new Ledgers(fairness({ idlePolicy: 'none', admissionFloorMs: 5, trueUp }));
          const model = new Map<string, Known>();
          const firstGeneration = ledgers.generation;
          let resets = 0;
          for (const { key: drawn, kind, ms } of operations) {
            const name = `key${drawn % keys}`;
            const key = ledgers.open(name, 0);
            let known = model.get(name);
            if (known === undefined) {
              // Nobody begins at 0, or the least share would nearly always be that.
              known = { cost: 2_000 + drawn, weight: 1, waiting: 0, charges: [] };
              ledgers.setCost(key, known.cost);
              model.set(name, known);
            }
            if (kind === 'arrive') {
              ledgers.arrive(key, 0);
              known.waiting += 1;
            } else if ((kind === 'admit' && known.waiting > 0) || kind === 'hold') {
              if (kind === 'hold') ledgers.hold(key, ms, 0);
              else ledgers.admit(key, ms, 0);
              known.waiting -= kind === 'hold' ? 0 : 1;
              known.cost += ms;
              known.charges.push({ ms, resets });
            } else if (kind === 'leave' && known.waiting > 0) {
              ledgers.leave(key, 0);
              known.waiting -= 1;
            } else if (kind === 'settle') {
              const charged = known.charges.pop();
              if (charged === undefined) continue;
              const usedMs = ms % 3 === 0 ? undefined : ms;
              ledgers.settle(key, charged.ms, usedMs, firstGeneration + charged.resets, 0);
              const settledMs = usedMs === undefined ? 0 : trueUp ? Math.max(usedMs, 5) : charged.ms;
              if (charged.resets === resets) known.cost = Math.max(0, known.cost + settledMs - charged.ms);
            } else if (kind === 'weight') {
              ledgers.setWeight(key, 1 + (ms % 4));
              known.weight = 1 + (ms % 4);
            } else if (kind === 'cost') {
              ledgers.setCost(key, ms);
              known.cost = ms;
            } else if (kind === 'reset' && ms < 500) {
              ledgers.reset();
              resets += 1;
              for (const other of model.values()) other.cost = 0;
            }
            const active = [...model.values()].filter((other) => other.waiting + other.charges.length > 0);
            expect(ledgers.activeKeys).toBe(active.length);
            expect(ledgers.leastShareMs()).toBe(
              active.length === 0 ? undefined : Math.min(...active.map((other) => other.cost / other.weight)),
            );
          }
          expect(ledgers.list()).toEqual(
            [...model]
              .map(([fairnessKey, { cost, weight, waiting, charges }]) => ({
                fairnessKey,
                costMs: cost,
                weight,
                waiting,
                running: charges.length,
              }))
              .sort((a, b) => (a.fairnessKey < b.fairnessKey ? -1 : 1)),
          );
        },
      ),
      { numRuns: FEWER_RUNS * 2 },
    );
  });

  it('drop keys that are idle for the time to live, counted from their last arrival, start or end', () => {
    const ledgers = new Ledgers(fairness({ keyTtlMs: 1_000 }));
    ledgers.arrive(ledgers.open('busy', 0), 0);
    const key = ledgers.open('key', 0);
    ledgers.arrive(key, 50);
    // What waited and was cancelled has ended.
    ledgers.leave(key, 100);
    expect(ledgers.evict(1_099)).toEqual([]);
    expect(ledgers.find('key')).toBe(key);
    ledgers.arrive(key, 1_099);
    expect(ledgers.evict(9_000)).toEqual([]);
    ledgers.admit(key, 10, 2_000);
    expect(ledgers.evict(9_000)).toEqual([]);
    ledgers.settle(key, 10, 10, ledgers.generation, 3_000);
    expect(ledgers.evict(3_999)).toEqual([]);
    expect(ledgers.evict(4_000)).toEqual([key]);
    expect(ledgers.find('key')).toBeUndefined();
    expect(ledgers.list().map(({ fairnessKey }) => fairnessKey)).toEqual(['busy']);
    expect(ledgers.evict(9_000)).toEqual([]);
    // Its number is used again, and nothing of it is left.
    expect(ledgers.open('next', 4_000)).toBe(key);
    expect([ledgers.costOf(key), ledgers.shareOf(key), ledgers.nameOf(key)]).toEqual([0, 0, 'next']);
    expect(ledgers.nameOf(99)).toBe('');
  });

  it('count the time to live from the latest instant, where a late word is about the past', () => {
    const ledgers = new Ledgers(fairness({ keyTtlMs: 1_000 }));
    const key = ledgers.open('key', 0);
    const lastAtMs = 5_000;
    const histories = [
      () => {
        ledgers.arrive(key, lastAtMs);
        ledgers.leave(key, 100);
      },
      () => {
        ledgers.arrive(key, 100);
        ledgers.leave(key, lastAtMs);
        ledgers.arrive(key, 200);
        ledgers.leave(key, 200);
      },
      () => {
        ledgers.arrive(key, 100);
        ledgers.admit(key, 10, lastAtMs);
        ledgers.settle(key, 10, 10, ledgers.generation, 200);
      },
      () => {
        ledgers.hold(key, 10, 100);
        ledgers.settle(key, 10, 10, ledgers.generation, lastAtMs);
      },
    ];
    for (const history of histories) {
      expect(ledgers.open('key', 0)).toBe(key);
      history();
      expect(ledgers.evict(lastAtMs + 999)).toEqual([]);
      expect(ledgers.evict(lastAtMs + 1_000)).toEqual([key]);
    }
  });
});

describe('a scheduler', () => {
  it('gives keys of equal weight equal shares under backlog: a Jain index of at least 0.99', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 8 }),
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 100, max: 4_000 }), { minLength: 8, maxLength: 8 }),
        fc.infiniteStream(fc.double({ min: 0.5, max: 1.5, noNaN: true })),
        (keys, slots, usualMs, stream) => {
          const scheduler = new Scheduler(pool(slots, { admissionFloorMs: 10 }));
          const submit = submitter(scheduler);
          const names = Array.from({ length: keys }, (_, key) => `key${key}`);
          for (const name of names) for (let job = 0; job <= slots; job += 1) submit(name, 'a', 0);
          const used = new Map(names.map((name) => [name, 0]));
          const ends: { atMs: number; id: string; key: string; usedMs: number }[] = [];
          let nowMs = 0;
          // Long enough that the few jobs of the dearest key that still run, uncounted, are a small part of its share.
          const enoughMs = 60 * keys * Math.max(...usualMs.slice(0, keys));
          for (let countedMs = 0; countedMs < enoughMs; ) {
            scheduler.beginPass(nowMs);
            for (let next = scheduler.next(); next !== undefined; next = scheduler.next()) {
              const { id, fairnessKey } = next.reserved;
              const usualOfKey = usualMs[names.indexOf(fairnessKey)] ?? 1_000;
              const usedMs = usualOfKey * (stream.next().value ?? 1);
              ends.push({ atMs: nowMs + usedMs, id, key: fairnessKey, usedMs });
              submit(fairnessKey, 'a', nowMs);
            }
            ends.sort((a, b) => a.atMs - b.atMs);
            const end = ends.shift();
            if (end === undefined) throw new Error('something always runs');
            nowMs = end.atMs;
            countedMs += end.usedMs;
            used.set(end.key, (used.get(end.key) ?? 0) + end.usedMs);
            scheduler.settle(end.id, { nowMs, usedMs: end.usedMs, succeeded: true });
          }
          const sum = [...used.values()].reduce((total, ms) => total + ms, 0);
          const squares = [...used.values()].reduce((total, ms) => total + ms * ms, 0);
          expect((sum * sum) / (keys * squares)).toBeGreaterThanOrEqual(0.99);
        },
      ),
      { numRuns: Math.ceil(FEWER_RUNS / 20) },
    );
  });

  it('starts a new key within one decision for each active key, and one for each floor that is given back meanwhile', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 4 }),
        fc.nat(60),
        fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 20 }),
        fc.constantFrom(100, 700),
        fc.boolean(),
        (keys, batch, before, usedMs, floorMs, trueUp) => {
          const scheduler = new Scheduler(pool(batch, { admissionFloorMs: floorMs, trueUp }));
          const submit = submitter(scheduler);
          const names = Array.from({ length: keys }, (_, key) => `key${key}`);
          for (const name of names) for (let job = 0; job < 300; job += 1) submit(name, 'a', 0);
          const running: ReservedJob[] = [];
          const givenBackMs = new Map(names.map((name) => [name, 0]));
          let settled = 0;
          const decide = (): string | undefined => {
            scheduler.beginPass(0);
            const next = scheduler.next();
            if (next !== undefined) {
              running.push(next.reserved);
              return next.reserved.fairnessKey;
            }
            const ended = running.shift();
            if (ended === undefined) throw new Error('something runs or may start');
            settled += 1;
            const ending = { nowMs: 0, usedMs: usedMs[settled % usedMs.length] ?? 1, succeeded: true };
            const tooMuchMs = trueUp ? ended.estimatedCostMs - Math.max(ending.usedMs, floorMs) : 0;
            givenBackMs.set(
              ended.fairnessKey,
              (givenBackMs.get(ended.fairnessKey) ?? 0) + Math.max(0, tooMuchMs),
            );
            scheduler.settle(ended.id, ending);
            return undefined;
          };
          for (let count = 0; count < before; ) if (decide() !== undefined) count += 1;
          for (const name of names) givenBackMs.set(name, 0);
          submit('new', 'a', 0);
          let others = 0;
          for (let key = decide(); key !== 'new'; key = decide()) if (key !== undefined) others += 1;
          const most = [...givenBackMs.values()].map((ms) => 1 + Math.floor(ms / floorMs));
          expect(others).toBeLessThanOrEqual(most.reduce((sum, each) => sum + each, 0));
        },
      ),
      { numRuns: FEWER_RUNS },
    );
  });

  it('evicts idle keys and estimates, and gives their numbers to keys that start afresh', () => {
    const scheduler = new Scheduler(pool(2, { keyTtlMs: 1_000, estimateTtlMs: 2_000, idlePolicy: 'none' }));
    const submit = submitter(scheduler);
    for (const key of ['old', 'older']) {
      const id = submit(key, 'a', 0);
      scheduler.beginPass(0);
      scheduler.next();
      scheduler.settle(id, { nowMs: 0, usedMs: 7_000, succeeded: true });
    }
    expect(scheduler.estimates.list().length).toBe(1);
    scheduler.evict(1_000);
    expect(scheduler.costs()).toEqual([]);
    expect(scheduler.estimates.list().length).toBe(1);
    scheduler.evict(2_000);
    expect(scheduler.estimates.list()).toEqual([]);
    submit('b', 'a', 3_000);
    submit('a', 'a', 3_001);
    scheduler.beginPass(3_001);
    expect([scheduler.next(), scheduler.next()].map((next) => next?.reserved.fairnessKey)).toEqual([
      'b',
      'a',
    ]);
  });
});
