/** What no scenario may ask of a schedule. */
import { expect, it } from 'vitest';
import { BAD_TIMES } from '../fixtures/bad-schedules.ts';
import { simulated } from './run.ts';

const RIGHT = { id: 'nightly', schedule: '30 2 * * *', timeZone: 'Europe/Berlin' };
const JOB = { type: 'work', durationMs: 1 };

const patterns = BAD_TIMES.flatMap(({ title, field, fields: { cron, ...others } }) =>
  field === 'cron' && typeof cron === 'string' && Object.keys(others).length === 0
    ? ([[title, { schedule: cron }, 'schedule']] as const)
    : [],
);

const rates = ['0 minutes', '-1 minutes', '1.5 hours', '5 weeks', '99999999999 days', 'NaN minutes', ''].map(
  (rate) => [`the rate ${JSON.stringify(rate)}`, { schedule: `rate(${rate})` }, 'schedule'] as const,
);

const others = [
  ['30 February as a cron(…)', { schedule: 'cron(0 0 30 2 *)' }, 'schedule'],
  ['an instant', { schedule: 'at(2026-01-01T00:00:00)' }, 'schedule'],
  ['a number as a pattern', { schedule: 5 }, 'schedule'],
  ['no pattern', { schedule: undefined }, 'schedule'],
  ['a planet', { timeZone: 'Mars/Olympus' }, 'timeZone'],
  ['an offset', { timeZone: '+02:00' }, 'timeZone'],
  ['a name of prototypes as a zone', { timeZone: '__proto__' }, 'timeZone'],
  ['no zone', { timeZone: '' }, 'timeZone'],
  ['a policy for a gap that is none', { dst: { gap: 'next', overlap: 'first' } }, 'dst.gap'],
  ['half of what is done where clocks change', { dst: { gap: 'skip' } }, 'dst.overlap'],
  ['a policy for overlaps that is none', { overlap: 'queue' }, 'overlap'],
  ['a name that is a number', { id: 5 }, 'id'],
  ['no name', { id: '' }, 'id'],
  ['a field that there is not', { maxFailures: 3 }, 'maxFailures'],
  ['a priority too high', { job: { ...JOB, priority: 11 } }, 'job.priority'],
  ['a priority that is NaN', { job: { ...JOB, priority: Number.NaN } }, 'job.priority'],
  ['a negative duration', { job: { ...JOB, durationMs: -1 } }, 'job.durationMs'],
  ['a type that nobody knows', { job: { ...JOB, type: 'toString' } }, 'job.type'],
] as const;

it.each([...patterns, ...rates, ...others])('a scenario is refused for %s', async (_, changes, field) => {
  const configuration = { types: { work: {} }, fleets: { all: { types: ['work'], slots: 1 } } };
  const schedules = [{ ...RIGHT, job: JOB, ...changes }];
  const scenarios = [{ id: 's', untilMs: 100_000, configuration, schedules }];
  const { code, out, error } = await simulated({ schema: 'fairlead/1', scenarios }, '--json');
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(error).toContain(`scenarios[0].schedules[0].${field}: `);
});

it('more than sixty of them', () => {
  expect(patterns.length + rates.length + others.length).toBeGreaterThan(60);
});
