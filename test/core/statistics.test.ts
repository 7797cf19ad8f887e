/** Statistics of a minute: histograms that add up, and the parts of times that lie below a bound. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addHistograms,
  bucketFromMs,
  bucketOf,
  countedWith,
  HISTOGRAM_BUCKETS,
  histogramOf,
  MINUTE_MS,
  quantileMs,
} from '../../lib/core/statistics.ts';
import { aMinute } from '../fixtures/factories/minute-counts.ts';

const times = fc.array(fc.integer({ min: 0, max: 90 * 86_400_000 }), { maxLength: 200 });

describe('a histogram', () => {
  it('has each time in the bucket whose bounds enclose it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2 ** 31 }), (ms) => {
        const bucket = bucketOf(ms);
        expect(bucketFromMs(bucket)).toBeLessThanOrEqual(ms);
        if (bucket < HISTOGRAM_BUCKETS - 1) expect(ms).toBeLessThan(bucketFromMs(bucket + 1));
      }),
    );
  });

  it('of all times is the sum of the histograms of their parts', () => {
    fc.assert(
      fc.property(times, times, (one, other) => {
        expect(addHistograms(histogramOf(one), histogramOf(other))).toEqual(histogramOf([...one, ...other]));
      }),
    );
  });

  it('tells each quantile to a factor of 1.4', () => {
    const short = fc.array(fc.integer({ min: 1, max: 86_400_000 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(short, fc.double({ min: 0.01, max: 1, noNaN: true }), (timesMs, part) => {
        const exact = timesMs.toSorted((a, b) => a - b)[Math.ceil(part * timesMs.length) - 1] ?? 0;
        const told = quantileMs(histogramOf(timesMs), part) ?? 0;
        expect(told / exact).toBeGreaterThan(1 / 1.42);
        expect(told / exact).toBeLessThan(1.42);
      }),
    );
    expect(quantileMs([], 0.5)).toBeUndefined();
    expect(quantileMs(histogramOf([0, 0, 0]), 0.99)).toBe(0);
  });
});

describe('the counts of a minute', () => {
  const next = aMinute({ minuteMs: aMinute().minuteMs + MINUTE_MS, failed: 1 });

  it('give way to those of a later minute, and take those of a clock that is behind', () => {
    expect(countedWith(undefined, undefined)).toBeUndefined();
    expect(countedWith(aMinute({ admitted: 1 }), next)).toEqual(next);
    expect(countedWith(next, aMinute({ admitted: 1 }))).toEqual({ ...next, admitted: 1 });
  });
});
