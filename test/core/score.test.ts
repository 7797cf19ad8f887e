import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';
import {
  compareRanked,
  type Load,
  milliPoints,
  overtakenForMs,
  rank,
  rankKey,
  rarityBonus,
  score,
  scoreParts,
  starvationBoundMs,
  weightOf,
} from '../../lib/core/score.ts';
import { FEWER_RUNS, NOW_MS } from './random-pass.ts';

vi.setConfig({ testTimeout: 120_000 });

const scored = fc.record({
  priority: fc.integer({ min: 0, max: 10 }),
  mode: fc.constantFrom('queued' as const, 'onDemand' as const),
  readyAtMs: fc.integer({ min: NOW_MS - 10_000_000, max: NOW_MS }),
});
const identified = fc.record({
  id: fc.string({ minLength: 1, maxLength: 3 }),
  priority: fc.integer({ min: 0, max: 10 }),
  mode: fc.constantFrom('queued' as const, 'onDemand' as const),
  readyAtMs: fc.nat(20).map((steps) => NOW_MS - steps * 32_000),
});
const coefficients = fc.oneof(
  fc.constant(SCORE_DEFAULTS),
  fc.record({
    priority: fc.integer({ min: 0, max: 5_000 }),
    ageSec: fc.integer({ min: 1, max: 100 }),
    rarity: fc.integer({ min: 0, max: 1_000 }),
    onDemand: fc.integer({ min: 0, max: 10_000 }),
    onDemandAgeSec: fc.integer({ min: 0, max: 100 }),
  }),
);

describe('the score', () => {
  it('adds priority, age, rarity and the on-demand bonus', () => {
    const job = { priority: 3, mode: 'onDemand' as const, readyAtMs: NOW_MS - 12_500 };
    expect(scoreParts(job, NOW_MS, 3, SCORE_DEFAULTS)).toEqual({
      priority: 3_072,
      age: 200,
      rarity: 166,
      onDemand: 4_096 + 400,
      total: 3_072 + 200 + 166 + 4_096 + 400,
    });
    expect(scoreParts({ ...job, mode: 'queued' }, NOW_MS, 3, SCORE_DEFAULTS)).toEqual({
      priority: 3_072,
      age: 200,
      rarity: 166,
      onDemand: 0,
      total: 3_072 + 200 + 166,
    });
  });

  it('takes the age of a job that is ready in the future for 0', () => {
    const job = { priority: 1, mode: 'queued' as const, readyAtMs: NOW_MS + 5_000 };
    expect(score(job, NOW_MS, 0, SCORE_DEFAULTS)).toBe(1_024);
    expect(scoreParts(job, NOW_MS, 0, SCORE_DEFAULTS)).toMatchObject({ age: 0, total: 1_024 });
  });

  it('gives no rarity bonus without a slot, and its whole part otherwise', () => {
    expect([0, 1, 2, 3, 8, 500, 501].map((slots) => rarityBonus(slots, SCORE_DEFAULTS))).toEqual([
      0, 500, 250, 166, 62, 1, 0,
    ]);
  });

  it('never falls while a job waits', () => {
    fc.assert(
      fc.property(scored, coefficients, fc.nat(1e7), fc.nat(1e7), fc.nat(9), (job, points, a, b, slots) => {
        const [early, late] = a < b ? [a, b] : [b, a];
        expect(score(job, NOW_MS + late, slots, points)).toBeGreaterThanOrEqual(
          score(job, NOW_MS + early, slots, points),
        );
      }),
      { numRuns: FEWER_RUNS },
    );
  });

  it('is the sum of its parts, in thousandths', () => {
    fc.assert(
      fc.property(scored, coefficients, fc.nat(9), (job, points, slots) => {
        const { priority, age, rarity, onDemand, total } = scoreParts(job, NOW_MS, slots, points);
        expect(total).toBeCloseTo(priority + age + rarity + onDemand, 6);
        expect(score(job, NOW_MS, slots, points)).toBe(total);
        const ageMs = NOW_MS - job.readyAtMs;
        const inMilli = milliPoints(job.mode === 'onDemand', job.priority, ageMs, rarity, points);
        expect(inMilli).toBe(Math.round(total * 1_000));
      }),
      { numRuns: FEWER_RUNS },
    );
  });
});

describe('the rank', () => {
  it('orders a line as the score does, at every instant from when all are ready', () => {
    fc.assert(
      fc.property(identified, identified, coefficients, fc.nat(1e7), (a, other, points, laterMs) => {
        const b = { ...other, mode: a.mode };
        const difference = score(a, NOW_MS + laterMs, 4, points) - score(b, NOW_MS + laterMs, 4, points);
        const order = compareRanked(a, b, points);
        if (difference !== 0) expect(Math.sign(order)).toBe(-Math.sign(difference));
        else if (a.readyAtMs !== b.readyAtMs) {
          expect(Math.sign(order)).toBe(Math.sign(a.readyAtMs - b.readyAtMs));
        } else expect(Math.sign(order)).toBe(a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
      }),
      { numRuns: FEWER_RUNS * 4 },
    );
  });

  it('puts the smaller id first of two that are equal, and a job nowhere before itself', () => {
    const job = (id: string) => ({ id, priority: 0, mode: 'queued' as const, readyAtMs: NOW_MS });
    expect(compareRanked(job('a'), job('b'), SCORE_DEFAULTS)).toBe(-1);
    expect(compareRanked(job('b'), job('a'), SCORE_DEFAULTS)).toBe(1);
    expect(compareRanked(job('a'), job('a'), SCORE_DEFAULTS)).toBe(0);
  });

  it('is slope times ready time, less a thousand points for each point of priority', () => {
    const job = { priority: 2, mode: 'queued' as const, readyAtMs: 1_000_000 };
    expect(rank(job, SCORE_DEFAULTS)).toBe(16 * 1_000_000 - 2 * 1_024_000);
    expect(rank({ ...job, mode: 'onDemand' }, SCORE_DEFAULTS)).toBe(48 * 1_000_000 - 2 * 1_024_000);
  });

  it('sorts as text the way it does as a number, for fractional and negative ranks too', () => {
    const odd = { priority: 0.1, ageSec: 0.003, rarity: 1, onDemand: 1, onDemandAgeSec: 0.7 };
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            id: fc.string({ unit: fc.constantFrom('a', 'b', '0', '-'), minLength: 1, maxLength: 2 }),
            priority: fc.integer({ min: 0, max: 10 }),
            mode: fc.constant('queued' as const),
            readyAtMs: fc.oneof(fc.nat(3), fc.integer({ min: 0, max: 2 * NOW_MS })),
          }),
          { maxLength: 12 },
        ),
        fc.oneof(coefficients, fc.constant(odd)),
        (jobs, points) => {
          const byRank = [...jobs].sort((a, b) => compareRanked(a, b, points));
          const keys = byRank.map((job) => rankKey(job, points));
          expect([...keys].sort()).toEqual(keys);
          for (const [index, key] of keys.entries()) {
            expect(key.slice(0, 34)).toMatch(/^[0-9a-f]{16}\/[0-9a-f]{16}\/$/);
            expect(key.slice(34)).toBe(byRank[index]?.id);
          }
        },
      ),
      { numRuns: FEWER_RUNS },
    );
  });

  it('sorts as text where negative ranks differ by less than a millionth', () => {
    const points = { ...SCORE_DEFAULTS, ageSec: 0.003 };
    const job = (readyAtMs: number) => ({ id: 'a', priority: 10, mode: 'queued' as const, readyAtMs });
    const keys = [0, 1, 2, 3, 4].map((readyAtMs) => rankKey(job(readyAtMs), points));
    expect([...keys].sort()).toEqual(keys);
    expect(new Set(keys.map((key) => key.slice(0, 16))).size).toBe(5);
  });

  it('is one text for 0 and -0', () => {
    const free = { priority: 0, ageSec: 1, rarity: 0, onDemand: 0, onDemandAgeSec: 0 };
    const zero = { id: 'a', priority: 0, mode: 'queued' as const, readyAtMs: 0 };
    expect(rankKey({ ...zero, readyAtMs: -0 }, free)).toBe(rankKey(zero, free));
  });
});

describe('weights', () => {
  it('are looked up by the keys that were named, and by nothing that an object has by nature', () => {
    expect(weightOf({ big: 3 }, 1, 'big')).toBe(3);
    expect(weightOf({ big: 3 }, 1, 'small')).toBe(1);
    expect(weightOf({ big: 3 }, 2, 'constructor')).toBe(2);
  });
});

describe('the starvation bound', () => {
  const load: Load = {
    type: 'a',
    fairnessKey: 'k',
    mode: 'queued',
    priority: 10,
    activeKeys: 1,
    jobsAhead: 0,
  };

  it('lets fresh jobs overtake for as long as they can score more', () => {
    const most = 10 * 1_024 + 500 + 4_096;
    expect(overtakenForMs({ priority: 0, mode: 'queued' }, SCORE_DEFAULTS)).toBe((most / 16) * 1_000);
    expect(overtakenForMs({ priority: 10, mode: 'queued' }, SCORE_DEFAULTS)).toBe((4_596 / 16) * 1_000);
    expect(overtakenForMs({ priority: 10, mode: 'onDemand' }, SCORE_DEFAULTS)).toBeCloseTo(
      (500 / 48) * 1_000,
    );
    const free = { ...SCORE_DEFAULTS, onDemand: 0, rarity: 0 };
    expect(overtakenForMs({ priority: 10, mode: 'queued' }, free)).toBe(0);
  });

  it('is one hold after that for a job alone, one more for each slotful before it', () => {
    const alone = starvationBoundMs(pool({ slots: 2 }), load);
    const overtakenMs = overtakenForMs(load, SCORE_DEFAULTS);
    expect(alone).toBe(overtakenMs + 60_000);
    expect(starvationBoundMs(pool({ slots: 2 }), { ...load, jobsAhead: 1 })).toBe(overtakenMs + 60_000);
    expect(starvationBoundMs(pool({ slots: 2 }), { ...load, jobsAhead: 2 })).toBe(overtakenMs + 120_000);
    expect(starvationBoundMs(pool({ slots: 2 }), { ...load, jobsAhead: 5 })).toBe(overtakenMs + 180_000);
    expect(starvationBoundMs(pool({ slots: 2 }), { ...load, conflictsAhead: 3 })).toBe(
      overtakenMs + 60_000 + 180_000,
    );
  });

  it('counts what each other key may be admitted while this one is charged once, by weight', () => {
    const overtakenMs = overtakenForMs(load, SCORE_DEFAULTS);
    // Nothing of the other fleet is in flight, and nothing is given back.
    const bound = (changes: Partial<Load>, options: PoolOptions = {}): number =>
      (starvationBoundMs(pool({ slots: 1, floorMs: 20_000, trueUp: false, ...options }), {
        ...load,
        slotsByFleet: new Map([['others', 0]]),
        ...changes,
      }) -
        overtakenMs) /
      60_000;
    // 60 s of the other's work in admissions of at least 20 s, and one more.
    expect(bound({ activeKeys: 2 })).toBe(1 + 4);
    expect(bound({ activeKeys: 3 })).toBe(1 + 2 * 4);
    expect(bound({ activeKeys: 2, jobsAhead: 2 })).toBe(1 + 2 + 3 * 4);
    expect(bound({ activeKeys: 2 }, { weights: { other: 2 } })).toBe(1 + 7);
    expect(bound({ activeKeys: 2 }, { weights: { k: 2 } })).toBe(1 + 4);
    expect(bound({ activeKeys: 2 }, { weights: { k: 3, other: 3 } })).toBe(1 + 4);
    expect(bound({ activeKeys: 2 }, { defaultCostMs: 100_000 })).toBe(1 + 6);
    expect(bound({ activeKeys: 0 })).toBe(1);
    // One more round, and 100 s of credit in admissions of at least 20 s.
    const raises = { idlePolicy: 'advance', creditMs: 100_000 } as const;
    expect(bound({ activeKeys: 2 }, raises)).toBe(1 + 4 + 4 + 5);
    expect(bound({ activeKeys: 3, jobsAhead: 1 }, raises)).toBe(1 + 1 + 2 * 2 * 4 + 2 * (4 + 5));
    expect(bound({ activeKeys: 2 }, { ...raises, creditMs: null })).toBe(Number.POSITIVE_INFINITY);
    expect(bound({ activeKeys: 1 }, { ...raises, creditMs: null })).toBe(1);
    // What was in flight was charged 60 s and used 20 s: two admissions more for each slot of the pool.
    expect(bound({ activeKeys: 2 }, { trueUp: true })).toBe(1 + 4 + 2);
    expect(bound({ activeKeys: 3 }, { trueUp: true, defaultCostMs: 110_000 })).toBe(1 + 2 * 7 + 4);
    expect(bound({ activeKeys: 2, slotsByFleet: undefined }, { trueUp: true })).toBe(1 + 4 + 51 * 2);
    expect(bound({ activeKeys: 2, slotsByFleet: undefined }, { trueUp: true, poolCap: 7 })).toBe(
      1 + 4 + 7 * 2,
    );
    expect(bound({ activeKeys: 1 }, { trueUp: true })).toBe(1);
    // A fleet whose workers register has no slots before one is known of.
    const { fleets, ...rest } = pool({ slots: 1, floorMs: 20_000 });
    const unknown = fleets.map((fleet) => (fleet.fleet === 'others' ? { ...fleet, slots: null } : fleet));
    const boundMs = starvationBoundMs({ ...rest, fleets: unknown }, { ...load, activeKeys: 2 });
    expect((boundMs - overtakenMs) / 60_000).toBe(1 + 4 + 2);
  });

  it('counts on the slots that other tiers cannot take', () => {
    const overtakenMs = overtakenForMs(load, SCORE_DEFAULTS);
    const holds = (options: PoolOptions): number =>
      (starvationBoundMs(pool({ slots: 8, ...options }), { ...load, jobsAhead: 7 }) - overtakenMs) / 60_000;
    expect(holds({})).toBe(1);
    expect(holds({ slots: 4 })).toBe(2);
    expect(holds({ poolCap: 2 })).toBe(4);
    expect(holds({ tierCap: 2 })).toBe(4);
    expect(holds({ typeCap: 2 })).toBe(4);
    expect(holds({ keyCap: 2 })).toBe(4);
    expect(holds({ above: 6 })).toBe(4);
    expect(holds({ below: 6 })).toBe(4);
    expect(holds({ above: 4, below: 2 })).toBe(4);
    expect(holds({ above: 100, guaranteed: 2 })).toBe(4);
    expect(holds({ above: 100 })).toBe(Number.POSITIVE_INFINITY);
    expect(holds({ above: null, guaranteed: 4 })).toBe(2);
    // Its own guarantee takes nothing from it.
    expect(holds({ guaranteed: 4 })).toBe(1);
    expect(holds({ slots: null })).toBe(Number.POSITIVE_INFINITY);
    expect(starvationBoundMs(pool({ slots: null }), load)).toBe(Number.POSITIVE_INFINITY);
  });

  it('takes the slots it is told of before the configured ones', () => {
    const slotsByFleet = new Map([['all', 4]]);
    const overtakenMs = overtakenForMs(load, SCORE_DEFAULTS);
    expect(starvationBoundMs(pool({ slots: null }), { ...load, jobsAhead: 7, slotsByFleet })).toBe(
      overtakenMs + 120_000,
    );
  });

  it('promises nothing to a type that is not configured, and none without a floor as soon as keys compete', () => {
    expect(starvationBoundMs(pool({ slots: 1 }), { ...load, type: 'nothing' })).toBe(Infinity);
    expect(starvationBoundMs(pool({ slots: 1, floorMs: 0 }), { ...load, activeKeys: 2 })).toBe(Infinity);
    expect(starvationBoundMs(pool({ slots: 1, floorMs: 0 }), load)).toBeLessThan(Infinity);
  });

  it('holds in a pool where everybody else keeps submitting', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 2, max: 4 }),
        fc.integer({ min: 0, max: 4 }),
        fc.nat(20),
        fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true })),
        (slots, keys, jobsAhead, earlier, stream) => {
          const random = (): number => stream.next().value ?? 0;
          const configuration = pool({ slots, floorMs: 10_000 });
          const scheduler = new Scheduler(configuration);
          let count = 0;
          const submit = (fairnessKey: string, nowMs: number): string => {
            count += 1;
            const id = `job${String(count).padStart(6, '0')}`;
            const job = { id, type: 'a', priority: 10, mode: 'queued' as const, version: 1, attempt: 1 };
            scheduler.arrive({ ...job, fairnessKey, readyAtMs: nowMs }, nowMs);
            return id;
          };
          for (let key = 1; key < keys; key += 1) for (let job = 0; job < 5; job += 1) submit(`k${key}`, 0);
          const boundMs = starvationBoundMs(configuration, { ...load, activeKeys: keys, jobsAhead });
          const ends: { atMs: number; id: string; usedMs: number }[] = [];
          let nowMs = 0;
          let watched: string | undefined;
          let readyAtMs = 0;
          for (let ended = 0; ; ended += 1) {
            // The others are in the midst of it when the key comes.
            if (ended === earlier) {
              readyAtMs = nowMs;
              for (let job = 0; job < jobsAhead; job += 1) submit('k', nowMs);
              watched = submit('k', nowMs);
            }
            scheduler.beginPass(nowMs);
            for (let next = scheduler.next(); next !== undefined; next = scheduler.next()) {
              if (next.reserved.id === watched) {
                expect(nowMs - readyAtMs).toBeLessThanOrEqual(boundMs);
                return;
              }
              const usedMs = Math.round(10_000 + random() * 50_000);
              ends.push({ atMs: nowMs + usedMs, id: next.reserved.id, usedMs });
              if (next.reserved.fairnessKey !== 'k') submit(next.reserved.fairnessKey, nowMs);
            }
            ends.sort((a, b) => a.atMs - b.atMs);
            const end = ends.shift();
            if (end === undefined) throw new Error('the watched job waits, but nothing runs');
            nowMs = end.atMs;
            scheduler.settle(end.id, { nowMs, usedMs: end.usedMs, succeeded: true });
          }
        },
      ),
      { numRuns: FEWER_RUNS },
    );
  });

  it.each([
    [32, 'never'],
    [0, 'in its turn'],
  ])(
    'of a queued job whose key is sent on-demand jobs at twice its pace comes, with %s points a second more for these, %s',
    (onDemandAgeSec, when) => {
      const scheduler = new Scheduler({
        ...pool({ slots: 1 }),
        score: { ...SCORE_DEFAULTS, onDemandAgeSec },
      });
      const submit = (id: string, mode: 'queued' | 'onDemand', readyAtMs: number): void => {
        const job = { id, type: 'a', priority: 0, mode, version: 1, attempt: 1, fairnessKey: 'k', readyAtMs };
        scheduler.arrive(job, readyAtMs);
      };
      submit('queued', 'queued', 0);
      let startedAtSec = Number.POSITIVE_INFINITY;
      for (let second = 0; second < 3_600 && startedAtSec === Number.POSITIVE_INFINITY; second += 1) {
        const nowMs = second * 1_000;
        for (const at of [1, 2]) submit(`${second}/${at}`.padStart(8, '0'), 'onDemand', nowMs);
        scheduler.beginPass(nowMs);
        const started = scheduler.next()?.reserved.id;
        if (started === 'queued') startedAtSec = second;
        if (started !== undefined)
          scheduler.settle(started, { nowMs: nowMs + 1_000, usedMs: 1_000, succeeded: true });
      }
      if (when === 'never') expect(startedAtSec).toBe(Number.POSITIVE_INFINITY);
      // Those that came in its first 256 s go before it.
      else expect(startedAtSec).toBeLessThan(2 * 256 + 2);
    },
  );
});

interface PoolOptions {
  readonly slots?: number | null;
  readonly floorMs?: number;
  readonly trueUp?: boolean;
  readonly idlePolicy?: 'advance' | 'none';
  readonly creditMs?: number | null;
  readonly weights?: Readonly<Record<string, number>>;
  readonly defaultCostMs?: number;
  readonly poolCap?: number;
  readonly tierCap?: number;
  readonly typeCap?: number;
  readonly keyCap?: number;
  /** Cap of a tier above. */
  readonly above?: number | null;
  /** Guarantee of a tier below. */
  readonly below?: number;
  readonly guaranteed?: number;
}

function pool(options: PoolOptions): PoolConfiguration {
  const { slots = 1, floorMs = 10, weights = {}, above = 0, below = 0, guaranteed = 0 } = options;
  const type = {
    ...TYPE_DEFAULTS,
    type: 'a',
    tier: 'middle',
    maxConcurrency: options.typeCap ?? null,
    timeoutMs: 60_000,
    defaultCostMs: options.defaultCostMs ?? 30_000,
    retry: RETRY_DEFAULTS,
  };
  return {
    types: [
      { ...type, type: 'other', tier: 'top', maxConcurrency: null, timeoutMs: 1_000, defaultCostMs: 1 },
      type,
    ],
    tiers: [
      { tier: 'top', maxConcurrency: above, guaranteed: 0 },
      { tier: 'middle', maxConcurrency: options.tierCap ?? null, guaranteed },
      { tier: 'low', maxConcurrency: null, guaranteed: below },
    ],
    fleets: [
      { fleet: 'others', types: ['other'], slots: 50 },
      { fleet: 'all', types: ['a', 'other'], slots },
    ],
    maxConcurrency: options.poolCap ?? null,
    score: SCORE_DEFAULTS,
    fairness: {
      ...FAIRNESS_DEFAULTS,
      weights,
      admissionFloorMs: floorMs,
      maxConcurrencyPerKey: options.keyCap ?? null,
      idlePolicy: options.idlePolicy ?? 'none',
      creditMs: options.creditMs === undefined ? FAIRNESS_DEFAULTS.creditMs : options.creditMs,
      trueUp: options.trueUp ?? true,
    },
    partitions: 1,
  };
}
