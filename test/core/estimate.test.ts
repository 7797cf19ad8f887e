import { describe, expect, it } from 'vitest';
import { FAIRNESS_DEFAULTS } from '../../lib/core/defaults.ts';
import {
  Estimates,
  expectedCostMs,
  observe,
  ordinarilyWithinMs,
  TYPE_AVERAGE_RESOURCE,
  type TypeEstimates,
  WHOLE,
} from '../../lib/core/estimate.ts';

/** A job comes and ends at one instant. */
function end(
  type: TypeEstimates,
  resourceId: string | undefined,
  defaultCostMs: number,
  observedMs: number | undefined,
  nowMs: number,
): void {
  type.end(type.arrive(resourceId, nowMs), defaultCostMs, observedMs, nowMs);
}

/** What the next job is expected to cost. */
function costMs(type: TypeEstimates, resourceId: string | undefined, defaultCostMs: number): number {
  const number = type.arrive(resourceId, 0);
  const expectedMs = type.costMs(number, defaultCostMs);
  type.end(number, defaultCostMs, undefined, 0);
  return expectedMs;
}

const known = (meanMs: number) => ({ meanMs, varianceMs2: 0, samples: 1 });

describe('an observation', () => {
  it('moves the mean by alpha, from what was expected at first', () => {
    const first = observe(undefined, 60_000, 10_000, 0.3);
    expect(first).toMatchObject({ meanMs: 25_000, samples: 1 });
    expect(first.varianceMs2).toBeCloseTo(0.7 * 0.3 * 50_000 ** 2);
    const second = observe(first, 60_000, 99, 0.3);
    expect(second.meanMs).toBeCloseTo(35_500);
    expect(second.varianceMs2).toBeCloseTo(0.7 * (first.varianceMs2 + 0.3 * 35_000 ** 2));
    expect(second.samples).toBe(2);
  });
});

describe('the expected cost', () => {
  it('is the one of the resource, or of the type, or the default', () => {
    expect(expectedCostMs(known(1), known(2), 3)).toBe(1);
    expect(expectedCostMs(undefined, known(2), 3)).toBe(2);
    expect(expectedCostMs(undefined, undefined, 3)).toBe(3);
  });
});

describe('estimates', () => {
  it('learn a resource from its successes, and the type from all of them', () => {
    const estimates = new Estimates(FAIRNESS_DEFAULTS);
    expect(costMs(estimates.ofType('clone'), 'linux', 10_000)).toBe(10_000);
    end(estimates.ofType('clone'), 'linux', 10_000, 60_000, 0);
    expect(costMs(estimates.ofType('clone'), 'linux', 10_000)).toBe(25_000);
    expect(costMs(estimates.ofType('clone'), undefined, 10_000)).toBe(25_000);
    // Never seen: the type's average, and learning starts from there.
    expect(costMs(estimates.ofType('clone'), 'git', 10_000)).toBe(25_000);
    end(estimates.ofType('clone'), 'git', 10_000, 5_000, 0);
    expect(estimates.ofType('clone').get('git')?.meanMs).toBeCloseTo(0.3 * 5_000 + 0.7 * 25_000);
    expect(estimates.ofType('clone').get(TYPE_AVERAGE_RESOURCE)?.meanMs).toBeCloseTo(
      0.3 * 5_000 + 0.7 * 25_000,
    );
    expect(estimates.ofType('clone').get('linux')?.meanMs).toBe(25_000);
    expect(estimates.list().map(({ resourceId, samples }) => [resourceId, samples])).toEqual([
      ['', 2],
      ['git', 1],
      ['linux', 1],
    ]);
  });

  it('learn nothing from what did not succeed', () => {
    for (const estimateTtlMs of [null, 1_000]) {
      const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs });
      end(estimates.ofType('clone'), 'linux', 10_000, undefined, 0);
      expect(estimates.list()).toEqual([]);
      expect(costMs(estimates.ofType('clone'), 'linux', 10_000)).toBe(10_000);
      expect(estimates.ofType('clone').get('linux')).toBeUndefined();
    }
  });

  it('fall back to the default alone where the configuration says so, as the text does', () => {
    const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateFallback: 'default' });
    end(estimates.ofType('clone'), 'linux', 10_000, 60_000, 0);
    expect(costMs(estimates.ofType('clone'), 'git', 10_000)).toBe(10_000);
    expect(costMs(estimates.ofType('clone'), undefined, 10_000)).toBe(10_000);
    expect(estimates.list().map((estimate) => estimate.resourceId)).toEqual(['linux']);
    end(estimates.ofType('clone'), '', 10_000, 20_000, 0);
    expect(estimates.ofType('clone').get('')?.meanMs).toBe(13_000);
    end(estimates.ofType('clone'), 'git', 10_000, 20_000, 0);
    expect(estimates.ofType('clone').get('git')?.meanMs).toBe(13_000);
  });

  it('are dropped so long after their last arrival or end, never while a job waits or runs', () => {
    const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs: 1_000 });
    estimates.ofType('clone').set('linux', known(70), 0);
    estimates.ofType('clone').set('git', known(60), 500);
    const clone = estimates.ofType('clone');
    const first = clone.arrive('linux', 100);
    const second = clone.arrive('linux', 200);
    estimates.evict(50_000);
    expect(estimates.list().map((estimate) => estimate.resourceId)).toEqual(['linux']);
    clone.end(first, 10_000, undefined, 50_000);
    estimates.evict(90_000);
    expect(estimates.ofType('clone').get('linux')?.meanMs).toBe(70);
    clone.end(second, 10_000, 70, 90_000);
    estimates.evict(90_999);
    expect(estimates.list().map((estimate) => estimate.resourceId)).toEqual(['', 'linux']);
    estimates.evict(91_000);
    expect(estimates.list()).toEqual([]);
  });

  it("keep a resource's when the type's own average is dropped, and the other way round", () => {
    const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs: 1_000 });
    estimates.ofType('clone').set(TYPE_AVERAGE_RESOURCE, known(50), 0);
    estimates.ofType('clone').set('linux', known(70), 900);
    estimates.evict(1_000);
    expect(estimates.list().map((estimate) => estimate.resourceId)).toEqual(['linux']);
    estimates.ofType('clone').set(TYPE_AVERAGE_RESOURCE, known(50), 1_500);
    estimates.evict(2_000);
    expect(estimates.list().map((estimate) => estimate.resourceId)).toEqual(['']);
  });

  it('do not become younger by a late word about the past', () => {
    const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs: 1_000 });
    estimates.ofType('clone').set('linux', known(70), 900);
    estimates.ofType('clone').set('linux', known(80), 100);
    estimates.ofType('clone').end(estimates.ofType('clone').arrive('linux', 50), 10_000, undefined, 60);
    estimates.evict(1_899);
    expect(estimates.ofType('clone').get('linux')?.meanMs).toBe(80);
    estimates.evict(1_900);
    expect(estimates.list()).toEqual([]);
  });

  it('count nothing below zero for a job that was reserved before they began', () => {
    const estimates = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs: 1_000 });
    estimates.ofType('clone').end(WHOLE, 10_000, 70, 0);
    estimates.ofType('clone').arrive(undefined, 0);
    estimates.evict(5_000);
    expect(estimates.ofType('clone').get(TYPE_AVERAGE_RESOURCE)).toBeDefined();
  });

  it('know a resource by a number while it has jobs, or something was learned of it', () => {
    const clone = new Estimates({ ...FAIRNESS_DEFAULTS, estimateTtlMs: null }).ofType('clone');
    const linux = clone.arrive('linux', 0);
    expect([clone.arrive('linux', 0), clone.nameOf(linux)]).toEqual([linux, 'linux']);
    expect([clone.arrive(undefined, 0), clone.nameOf(WHOLE)]).toEqual([WHOLE, undefined]);
    clone.end(linux, 10_000, undefined, 0);
    // The other job waits.
    expect(clone.arrive('git', 0)).not.toBe(linux);
    clone.end(linux, 10_000, undefined, 0);
    const others = Array.from({ length: 40 }, (_, index) => clone.arrive(`r${index}`, 0));
    expect(others[0]).toBe(linux);
    expect(new Set(others).size).toBe(40);
    others.forEach((number, index) => {
      expect(clone.nameOf(number)).toBe(`r${index}`);
      clone.end(number, 10_000, index * 100, 0);
    });
    expect(clone.arrive('linux', 0)).not.toBe(linux);
    expect(clone.get('r0')).toMatchObject({ samples: 1 });
    expect(clone.get('linux')).toBeUndefined();
  });
});

describe('ordinarilyWithinMs', () => {
  const DAY_MS = 86_400_000;
  const known = { meanMs: 1_000, varianceMs2: 10_000, samples: 5, lastSeenMs: 0 };

  it('is three deviations above the mean', () => {
    expect(ordinarilyWithinMs(known, FAIRNESS_DEFAULTS, DAY_MS)).toBe(1_300);
  });

  it.each([
    ['nothing was learned', undefined, DAY_MS],
    ['too little was', { ...known, samples: 4 }, DAY_MS],
    ['it was too long ago', known, 31 * DAY_MS],
  ])('is unknown where %s', (_, learned, nowMs) => {
    expect(ordinarilyWithinMs(learned, FAIRNESS_DEFAULTS, nowMs)).toBeUndefined();
  });

  it('is known for the time to live since an attempt was seen last', () => {
    const seen = { ...known, lastSeenMs: 20 * DAY_MS };
    const within = (nowMs: number) => ordinarilyWithinMs(seen, { estimateTtlMs: 30 * DAY_MS }, nowMs);
    expect([within(50 * DAY_MS), within(50 * DAY_MS + 1)]).toEqual([1_300, undefined]);
  });

  it('is known for ever where estimates are', () => {
    expect(ordinarilyWithinMs(known, { estimateTtlMs: null }, 1_000 * DAY_MS)).toBe(1_300);
  });

  it.each([
    ['evenly', (draw: number) => 1_000 + 9_000 * draw],
    ['mostly short', (draw: number) => (draw < 0.9 ? 500 : 20_000)],
    ['exponentially', (draw: number) => -2_000 * Math.log(1 - draw)],
  ])('is kept by nine of ten attempts, once it was learned, where times are spread %s', (_, timeOf) => {
    let state = 1;
    const draw = (): number => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647;
    };
    let learned = observe(undefined, timeOf(draw()), 1_000, FAIRNESS_DEFAULTS.alpha);
    let within = 0;
    for (let seen = 0; seen < 2_000; seen += 1) {
      const tookMs = timeOf(draw());
      const withinMs = ordinarilyWithinMs({ ...learned, lastSeenMs: 0 }, FAIRNESS_DEFAULTS, 0) ?? Infinity;
      if (tookMs <= withinMs) within += 1;
      learned = observe(learned, tookMs, 1_000, FAIRNESS_DEFAULTS.alpha);
    }
    expect(within / 2_000).toBeGreaterThan(0.9);
  });
});
