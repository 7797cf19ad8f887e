/** A pattern of another scheduler fires here as there, or is refused with what to write, which fires as there. */

import { describe, expect, it } from 'vitest';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { readCron } from '../../lib/cron/croner.ts';
import { resultsOf, simulated } from '../cli/run.ts';
import { seeded } from '../simulation/random.ts';

const FROM_MS = Date.UTC(2027, 1, 20);
const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const MINUTE_MS = 60_000;

/** The firings of the next sixty days, as the other scheduler's manual says: weekdays from Sunday = 1, `?` for any day. */
function firingsThere(fields: readonly string[]): readonly number[] {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  const has = (field: string, value: number, most: number, names: readonly string[] = []): boolean =>
    field.split(',').some((part) => {
      const [range = '', step] = part.split('/');
      const numberOf = (text: string): number =>
        names.includes(text) ? names.indexOf(text) + 1 : Number(text);
      const [first, last = step === undefined ? first : String(most)] =
        range === '*' ? ['0', String(most)] : range.split('-');
      const from = numberOf(first ?? '');
      const to = numberOf(last ?? '');
      const every = Number(step ?? 1);
      const inside = from <= to ? value >= from && value <= to : value >= from || value <= to;
      const since = value >= from ? value - from : value + names.length - from;
      return inside && since % every === 0;
    });
  const isDay = (date: Date): boolean => {
    if (weekday === '?')
      return day === 'L'
        ? new Date(date.getTime() + 86_400_000).getUTCDate() === 1
        : has(day, date.getUTCDate(), 31);
    const ofWeek = date.getUTCDay() + 1;
    const [, lastOf] = /^(\w+)L$/.exec(weekday) ?? [];
    if (lastOf !== undefined) {
      const isLast = new Date(date.getTime() + 7 * 86_400_000).getUTCMonth() !== date.getUTCMonth();
      return isLast && has(lastOf, ofWeek, 7, DAYS);
    }
    const [of = '', nth] = weekday.split('#');
    if (nth !== undefined)
      return has(of, ofWeek, 7, DAYS) && Math.ceil(date.getUTCDate() / 7) === Number(nth);
    return has(weekday, ofWeek, 7, DAYS);
  };
  const found: number[] = [];
  for (let dayMs = FROM_MS; dayMs < FROM_MS + 60 * 86_400_000; dayMs += 86_400_000) {
    const date = new Date(dayMs);
    if (!has(month, date.getUTCMonth() + 1, 12) || !isDay(date)) continue;
    for (let at = 0; at < 1_440; at += 1)
      if (has(hour, Math.floor(at / 60), 23) && has(minute, at % 60, 59)) found.push(dayMs + at * MINUTE_MS);
  }
  return found;
}

function firingsHere(pattern: string): readonly number[] {
  const cron = readCron(pattern);
  const found: number[] = [];
  for (
    let at = cron.next(FROM_MS - 1);
    at !== undefined && at < FROM_MS + 60 * 86_400_000;
    at = cron.next(at)
  )
    found.push(at);
  return found;
}

/** Fields from minutes to weekdays, as either of the two would write them: one of the days is `?`. */
function aPattern(seed: number): readonly string[] {
  const random = seeded(seed);
  const dice = {
    pick: (from: readonly string[]): string => from[Math.floor(random() * from.length)] ?? '',
  };
  const day = dice.pick(['?', '?', '*', '1', 'L', '3-9', '2/10', '1,15']);
  const weekday = dice.pick([
    '*',
    '2-6',
    '1',
    '7',
    'MON-FRI',
    'SAT',
    '6#3',
    '6L',
    '2,4',
    '6-2',
    '2/2',
    'FRI#1',
    'SUN,3',
  ]);
  return [
    dice.pick(['0', '30', '*/20', '5/25', '10-12', '1,31']),
    dice.pick(['9', '*/6', '0/8', '8-10', '2,14', '23']),
    day,
    dice.pick(['*', '*', '2-3', '3', '1/2']),
    day === '?' ? weekday : '?',
  ];
}

/** What to write, as a refusal says it. */
function translated(pattern: string): string {
  try {
    readCron(pattern);
    return pattern;
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    return /Write "([^"]+)"/.exec(error.wayOut)?.[1] ?? '';
  }
}

const SEEDS = Array.from({ length: 60 }, (_, seed) => seed);

describe('a pattern of Amazon EventBridge', () => {
  it('is refused by name, and its translation fires as it does there', () => {
    for (const seed of SEEDS) {
      const fields = aPattern(seed);
      for (const pattern of [`${fields.join(' ')} *`, `cron(${fields.join(' ')} *)`]) {
        expect(() => readCron(pattern), pattern).toThrow(/Amazon EventBridge/);
        expect([pattern, firingsHere(translated(pattern))]).toEqual([pattern, firingsThere(fields)]);
      }
    }
  });

  it.each([
    ['0 9 * * ? *', 'Write "0 9 * * *".'],
    ['15 10 ? * 2-6 *', 'Write "15 10 * * MON-FRI".'],
    ['cron(0 9 * * ? *)', 'Write "0 9 * * *".'],
    ['rate(5 minutes)', 'Write every: "5m" instead.'],
    ['rate(1 day)', 'Write every: "1d" instead.'],
    ['at(2027-01-01T00:00:00)', 'Submit a job with runAt'],
    ['0 9 1 1 ? 2027-2030', 'give the years (2027-2030) with start and end'],
    ['@every 5m', 'Write every: "5m" instead.'],
  ])('%s is translated: %s', (pattern, wayOut) => {
    expect(() => readCron(pattern)).toThrow(wayOut);
  });
});

describe('a pattern of Quartz', () => {
  it('fires as there, or is refused, and its translation fires as it does there', () => {
    let accepted = 0;
    for (const seed of SEEDS) {
      const fields = aPattern(seed);
      for (const pattern of [`0 ${fields.join(' ')}`, `0 ${fields.join(' ')} 2027`]) {
        const here = translated(pattern);
        // What no library reads at all needs no translation.
        if (here === '') continue;
        if (here === pattern) accepted += 1;
        expect([pattern, firingsHere(here)]).toEqual([pattern, firingsThere(fields)]);
      }
    }
    expect(accepted).toBeGreaterThan(8);
  });
});

describe('a ? where no day stands', () => {
  it.each(['? 9 * * *', '0 ? * * *', '0 0 9 * ? *', '0 9 * ? *', '? 0 9 * * *'])(
    '%s is refused',
    (pattern) => {
      expect(() => readCron(pattern)).toThrow(/\?/);
    },
  );
});

describe('simulate', () => {
  it.each(['0 9 * * ? *', 'cron(0 9 * * ? *)', 'cron(15 10 ? * 2-6 *)', '0 0 9 ? * 2-6'])(
    'refuses %s with its translation',
    async (cron) => {
      const scenario = (pattern: string) => ({
        schema: 'fairlead/1',
        scenarios: [
          {
            id: 's',
            untilMs: 86_400_000,
            configuration: { types: { work: {} }, fleets: { work: { types: ['work'], slots: 1 } } },
            schedules: [{ id: 'nightly', schedule: pattern, job: { type: 'work', durationMs: 1 } }],
          },
        ],
      });
      const { code, error } = await simulated(scenario(cron));
      expect(code).toBe(2);
      expect(error).toMatch(/(Amazon EventBridge|Quartz).*Write /);
      await resultsOf(scenario('0 9 * * *'));
    },
  );
});
