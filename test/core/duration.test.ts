/** Durations as people write them. */
import { Duration } from 'aws-cdk-lib';
import { expect, it } from 'vitest';
import { durationMs, retryAfterMs } from '../../lib/core/duration.ts';

it.each<readonly [unknown, number]>([
  [0, 0],
  [1_500, 1_500],
  ['500ms', 500],
  ['30s', 30_000],
  ['1.5s', 1_500],
  ['1.001s', 1_001],
  ['10m', 600_000],
  ['1h30m', 5_400_000],
  ['2d', 172_800_000],
  [Duration.minutes(5), 300_000],
])('reads %s', (written, ms) => {
  expect(durationMs('timeout', written)).toBe(ms);
});

it.each<readonly [unknown]>([
  [-1],
  [Number.NaN],
  [Number.POSITIVE_INFINITY],
  [''],
  ['10'],
  ['10 m'],
  ['m'],
  ['-5s'],
  ['1h and more'],
  ['5s'.repeat(100)],
  [null],
  [undefined],
  [true],
  [{}],
  [{ toMilliseconds: 5 }],
  [
    {
      toMilliseconds: () => {
        throw new Error('not known yet');
      },
    },
  ],
])('refuses %s, and says how durations are written', (written) => {
  expect(() => durationMs('options.timeout', written)).toThrow(
    /^options\.timeout: must be a duration.*'10m'/,
  );
});

it.each(['Fri, 27 Nov 2026 08:00:30 GMT', 'Friday, 27-Nov-26 08:00:30 GMT', 'Fri Nov 27 08:00:30 2026'])(
  'reads the date of a Retry-After header: %s',
  (header) => {
    const nowMs = Date.UTC(2026, 10, 27, 8);
    expect(retryAfterMs({ headers: new Headers({ 'Retry-After': header }) }, nowMs)).toBe(30_000);
    expect(retryAfterMs({ headers: { 'retry-after': header } }, nowMs + 60_000)).toBe(0);
    expect(retryAfterMs({ headers: { 'retry-after': `${header}s` } }, nowMs)).toBeUndefined();
  },
);
