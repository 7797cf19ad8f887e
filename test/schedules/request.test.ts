import { Duration } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { parseSchedule, scheduleIdProblem } from '../../lib/schedules/request.ts';
import { BAD_REST, BAD_TIMES, badRequest, RIGHT_SCHEDULE } from '../fixtures/bad-schedules.ts';

const NOW_MS = Date.UTC(2026, 0);
const parse = (request: unknown) => parseSchedule(request, NOW_MS, { types: [{ type: 'work' }] });

describe('a schedule that is refused', () => {
  it('at least sixty times, on each surface', () => {
    // The command line’s `next` takes times alone.
    expect(BAD_TIMES.length).toBeGreaterThan(60);
  });

  it('for a field that must be there and is misspelt, says what was meant', () => {
    const { type: typ, ...others } = RIGHT_SCHEDULE;
    expect(parse({ ...others, typ })).toMatchObject({
      refusal: { field: 'typ', wayOut: 'Did you mean "type"? Leave it out.' },
    });
  });

  it.each([...BAD_TIMES, ...BAD_REST].map((bad) => [bad.title, bad] as const))('for %s', (_, bad) => {
    const parsed = parse(badRequest(bad));
    expect(parsed).toMatchObject({
      refusal: { field: expect.stringMatching(new RegExp(`^${bad.field}\\b`)) },
    });
    expect('refusal' in parsed && parsed.refusal.reason.length).toBeGreaterThan(9);
  });

  it.each([undefined, null, 5, 'cron', [], [{}]])('for being %j', (request) => {
    expect(parse(request)).toHaveProperty('refusal');
  });
});

describe('why a schedule is refused', () => {
  it.each([
    [{ zon: 'UTC' }, 'is not a field of a schedule. Did you mean "zone"? Leave it out.'],
    [
      { type: 'wrok' },
      'is not a job type of this pool (got "wrok"). Did you mean "work"? The pool has: work.',
    ],
    [{ retries: 3 }, 'is not a field of a schedule. Leave it out.'],
    [{ misfireMax: 0.5 }, 'must be a whole number from 1 to 100 (got 0.5)'],
    [{ priority: '5' }, 'must be a whole number from 0 to 10 (got "5")'],
    [
      { cron: '30 2 * *' },
      'is not a cron pattern (it has 4 fields) (got "30 2 * *"). Write five fields, or six that begin with seconds: minute 0-59, hour 0-23, day of month 1-31 or L, month 1-12 or JAN-DEC, day of week 0-7 or SUN-SAT; or @daily and the like.',
    ],
    [
      { blackouts: [{ from: '24:00', until: '06:00' }] },
      'must be two instants, the first before the second, {"from": "2027-12-24T00:00:00Z", "until": …}, or local times, {"from": "22:00", "until": "06:00", "days": ["fri", "sat"]} (got {"from":"24:00","until":"06:00"})',
    ],
    [
      { end: '2025-01-01T00:00:00Z' },
      'is in the past: it must be after 2026-01-01T00:00:00.000Z (got "2025-01-01T00:00:00.000Z")',
    ],
    [
      { every: '5m' },
      'is given together with cron "30 2 * * *": give exactly one of the two (got "300000ms")',
    ],
    [
      { cron: '* * 31 2 *' },
      'never fires: its date does not exist, such as 30 February (got "* * 31 2 *"). Use a date that exists; L is the last day of a month.',
    ],
    [
      { cron: '0 0 29 2 *', end: '2027-01-01T00:00:00Z' },
      'never fires after 2026-01-01T00:00:00.000Z: start, end and blackouts leave none of its times (got "0 0 29 2 *"). Choose a time before 2027-01-01T00:00:00.000Z.',
    ],
  ])('is said in words that help: %j', (fields, reason) => {
    expect(parse({ ...RIGHT_SCHEDULE, ...fields })).toMatchObject({ refusal: { reason } });
  });
});

describe('a schedule that is accepted', () => {
  it.each([
    ['30s', 30_000],
    ['1h30m', 5_400_000],
    ['1.5h', 5_400_000],
    [90_000, 90_000],
    [Duration.days(1), 86_400_000],
  ])('takes %s as a duration', (given, ms) => {
    const { cron: _, ...others } = RIGHT_SCHEDULE;
    expect(parse({ ...others, every: given, jitter: given, misfireGrace: given })).toMatchObject({
      spec: { when: { everyMs: ms }, jitterMs: ms, misfireGraceMs: ms },
    });
  });

  it('has every default filled in', () => {
    expect(parse(RIGHT_SCHEDULE)).toEqual({
      spec: {
        when: { kind: 'cron', expression: '30 2 * * *' },
        timeZone: 'Europe/Berlin',
        blackouts: [],
        jitterMs: 0,
        misfire: 'once',
        misfireGraceMs: 60_000,
        misfireMax: 10,
        ifRunning: 'allow',
        job: { type: 'work', payload: null, isTemplate: false, priority: 0, mode: 'queued', fairnessKey: '' },
      },
    });
  });

  it.each([
    ['seconds', { cron: '*/5 * * * * *' }],
    ['a nickname', { cron: '@hourly' }],
    ['the last day of the month', { cron: '0 0 L * *' }],
    ['29 February', { cron: '0 0 29 2 *' }],
    ['an interval', { cron: undefined, every: '90s', start: '2027-01-01T00:00:00+02:00' }],
    ['a template', { payloadTemplate: { from: '{{previousAt}}', to: '{{ scheduledAt }}' } }],
    ['blackouts', { blackouts: [{ from: '22:00', until: '06:00', days: ['fri'] }] }],
  ])('with %s', (_, fields) => {
    expect(parse(badRequest({ title: '', field: '', fields }))).toHaveProperty('spec');
  });
});

describe('the name of a schedule', () => {
  it.each(['nightly', 'room/121-B', 'a.b:c@d+e', '7'])('may be %s', (id) => {
    expect(scheduleIdProblem(id)).toBeUndefined();
  });

  it.each(['', ' ', '/a', 'a b', 'ä', 'a\n', '{a}', 'x'.repeat(129), 5, null, undefined])(
    'may not be %j',
    (id) => {
      expect(scheduleIdProblem(id)).toMatch(/must be 1 to 128/);
    },
  );
});
