import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CronPattern,
  type Fires,
  firesOf,
  jitterOf,
  latestFiring,
  localIso,
  type TimeRules,
  zoneOffsetMs,
} from '../../lib/core/schedule.ts';
import { readCron } from '../../lib/cron/croner.ts';

type More = Omit<Partial<TimeRules>, 'when' | 'timeZone'>;

function cron(expression: string, timeZone: string, more: More = {}): Fires {
  return firesOf({ when: { kind: 'cron', expression }, timeZone, ...more }, readCron);
}

const every = (everyMs: number, anchorMs: number, more: More = {}): Fires =>
  firesOf({ when: { kind: 'every', everyMs, anchorMs }, timeZone: 'UTC', ...more }, readCron);

function list(fires: Fires, from: string, count: number): readonly string[] {
  const found: string[] = [];
  let atMs = fires.next(Date.parse(from));
  while (atMs !== undefined && found.length < count) {
    found.push(new Date(atMs).toISOString().slice(0, 16));
    atMs = fires.next(atMs);
  }
  return found;
}

describe('a fixed time, where the clock is set forward', () => {
  it('moves to the first instant after the gap', () => {
    expect(list(cron('30 2 * * *', 'Europe/Berlin'), '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ]);
  });

  it('is left out if the policy says so', () => {
    const fires = cron('30 2 * * *', 'Europe/Berlin', { gap: 'skip', overlap: 'once' });
    expect(list(fires, '2026-03-28T12:00Z', 1)).toEqual(['2026-03-30T00:30']);
  });

  it('fires once where several times fall into one gap', () => {
    expect(list(cron('15,45 2 * * *', 'Europe/Berlin'), '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:15',
    ]);
  });
});

describe('a fixed time, where the clock is set back', () => {
  it.each([
    ['once', ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['twice', ['2026-10-25T00:30', '2026-10-25T01:30', '2026-10-26T01:30']],
  ] as const)('fires %s', (overlap, expected) => {
    const fires = cron('30 2 * * *', 'Europe/Berlin', { gap: 'next', overlap });
    expect(list(fires, '2026-10-24T12:00Z', expected.length)).toEqual(expected);
  });
});

describe('an interval', () => {
  it.each(['*/30 * * * *', '0 */30 * * * *', '*/30  *  * * *'])(
    'follows elapsed time over both changes: %s',
    (expression) => {
      const fires = cron(expression, 'Europe/Berlin');
      expect(list(fires, '2026-03-29T00:10Z', 3)).toEqual([
        '2026-03-29T00:30',
        '2026-03-29T01:00',
        '2026-03-29T01:30',
      ]);
      expect(list(fires, '2026-10-25T00:10Z', 4)).toEqual([
        '2026-10-25T00:30',
        '2026-10-25T01:00',
        '2026-10-25T01:30',
        '2026-10-25T02:00',
      ]);
    },
  );

  it('is what a nickname for every hour means, and not one for every day', () => {
    expect(list(cron('@hourly', 'Europe/Berlin'), '2026-10-24T23:30Z', 3)).toEqual([
      '2026-10-25T00:00',
      '2026-10-25T01:00',
      '2026-10-25T02:00',
    ]);
    expect(list(cron('@Daily', 'Europe/Berlin'), '2026-10-24T12:00Z', 2)).toEqual([
      '2026-10-24T22:00',
      '2026-10-25T23:00',
    ]);
  });
});

describe('any cron schedule', () => {
  it('fires strictly later each time, where the wall clock says so', () => {
    const zones = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu', 'UTC'];
    const expressions = [
      '*/7 * * * *',
      '30 1-3 * * *',
      '0 0 * * *',
      '15 2 * * 0',
      '59 */2 * * *',
      '5 1,2 1 * *',
    ];
    const from = Date.UTC(2026, 0, 1);
    fc.assert(
      fc.property(
        fc.constantFrom(...zones),
        fc.constantFrom(...expressions),
        fc.integer({ min: 0, max: 365 * 86_400_000 }),
        (timeZone, expression, offsetMs) => {
          const fires = cron(expression, timeZone);
          const pattern = readCron(expression);
          let atMs = from + offsetMs;
          for (let index = 0; index < 5; index += 1) {
            const next = fires.next(atMs) ?? 0;
            expect(next).toBeGreaterThan(atMs);
            const wallMs = next + zoneOffsetMs(timeZone, next);
            const isShifted = zoneOffsetMs(timeZone, next - 1) !== zoneOffsetMs(timeZone, next);
            if (!isShifted) expect(pattern.next(wallMs - 1)).toBe(wallMs);
            atMs = next;
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  it('has no fire when its date never comes', () => {
    expect(cron('0 0 30 2 *', 'UTC').next(0)).toBeUndefined();
  });

  it('keeps the fire it found when its pattern ends after it', () => {
    const once: CronPattern = { next: (afterMs) => (afterMs < 5_000 ? 5_000 : undefined) };
    const fires = firesOf({ when: { kind: 'cron', expression: '5 5 5 5 *' }, timeZone: 'UTC' }, () => once);
    expect(fires.next(0)).toBe(5_000);
    expect(fires.next(5_000)).toBeUndefined();
  });

  it('gives up on a pattern that only ever names times that do not exist', () => {
    // Each year the clock goes from 02:00 to 03:00 on one day, and back half a year later; the pattern knows 02:30 of that day alone.
    const YEAR_MS = 364 * 86_400_000;
    const gapMs = Date.UTC(2026, 2, 29, 2);
    let asked = 0;
    const stuck: CronPattern = {
      next: (afterMs) => {
        asked += 1;
        const wallMs = gapMs + 1_800_000;
        return wallMs + Math.max(0, Math.floor((afterMs - wallMs) / YEAR_MS) + 1) * YEAR_MS;
      },
    };
    const fires = (gap: 'next' | 'skip') =>
      firesOf(
        { when: { kind: 'cron', expression: '30 2 29 3 *' }, timeZone: 'Europe/Berlin', gap },
        () => stuck,
        (_, atMs) => ((((atMs - gapMs) % YEAR_MS) + YEAR_MS) % YEAR_MS < YEAR_MS / 2 ? 3_600_000 : 0),
      );
    expect(fires('next').next(0)).toBe(gapMs);
    asked = 0;
    expect(fires('skip').next(0)).toBeUndefined();
    expect(asked).toBeLessThan(2_000);
  });

  it.each([
    ['a gap', '2026-03-29T00:59:59Z', 'next', 'once'],
    ['a gap that is left out', '2026-03-29T00:59:59Z', 'skip', 'once'],
    ['an hour that came twice', '2026-10-25T00:59:59Z', 'next', 'once'],
    ['the second of two hours', '2026-10-25T01:30:00Z', 'next', 'twice'],
    ['the day of a change', '2026-03-29T20:00:00Z', 'next', 'once'],
  ] as const)('of each second takes a few steps where clocks change: after %s', (_, after, gap, overlap) => {
    let asked = 0;
    const counted = (expression: string): CronPattern => {
      const pattern = readCron(expression);
      return {
        next: (afterMs) => {
          asked += 1;
          return pattern.next(afterMs);
        },
      };
    };
    const when = { kind: 'cron', expression: '* * * * * *' } as const;
    const fires = firesOf({ when, timeZone: 'Europe/Berlin', gap, overlap }, counted);
    expect(fires.next(Date.parse(after))).toBeGreaterThan(Date.parse(after));
    expect(asked).toBeLessThan(5);
  });

  it.each([
    '',
    'nonsense',
    '99 * * * *',
    '* * * *',
    '* * * * * * *',
    '@never',
    '@reboot',
    '2027-12-24T00:00:00',
  ])('refuses the pattern %j', (expression) => {
    expect(() => cron(expression, 'UTC')).toThrow(
      expect.objectContaining({ name: 'ConfigurationError', field: 'schedule' }),
    );
  });

  it('refuses a zone that does not exist, before the first fire', () => {
    expect(() => cron('0 0 * * *', 'Mars/Olympus')).toThrow(
      /timeZone: is no known zone, got "Mars\/Olympus"/,
    );
  });
});

describe('an elapsed interval', () => {
  it('fires at its anchor and every so often after it', () => {
    const fires = every(1_000, 5_500);
    expect([0, 5_499, 5_500, 6_499, 6_500].map((afterMs) => fires.next(afterMs))).toEqual([
      5_500, 5_500, 6_500, 6_500, 7_500,
    ]);
  });

  it.each([0, -1, 1.5, Number.NaN])('refuses to fire every %s ms', (everyMs) => {
    expect(() => every(everyMs, 0)).toThrow(/everyMs/);
  });
});

describe('start and end', () => {
  it('fires from the start on, itself included, and not at the end', () => {
    const fires = every(60_000, 0, { startMs: 120_000, endMs: 240_000 });
    expect([0, 120_000, 180_000].map((afterMs) => fires.next(afterMs))).toEqual([
      120_000,
      180_000,
      undefined,
    ]);
  });

  it('fires at nothing after the last year that patterns are known to work in', () => {
    expect(cron('0 0 1 1 *', 'UTC').next(Date.UTC(2199, 5))).toBeUndefined();
  });
});

describe('blackouts', () => {
  it('leave out what lies between two instants, and fire again at the second', () => {
    const blackouts = [
      { kind: 'between', fromMs: Date.UTC(2026, 0, 2), untilMs: Date.UTC(2026, 0, 4) },
    ] as const;
    expect(list(cron('0 0 * * *', 'UTC', { blackouts }), '2026-01-01T00:00Z', 2)).toEqual([
      '2026-01-04T00:00',
      '2026-01-05T00:00',
    ]);
  });

  it('leave out local times over midnight, on the days on which they begin', () => {
    const blackouts = [{ kind: 'daily', days: [5], fromMinute: 22 * 60, untilMinute: 6 * 60 }] as const;
    // 2 January 2026 is a Friday; Berlin is an hour ahead.
    expect(list(cron('0 */4 * * *', 'Europe/Berlin', { blackouts }), '2026-01-02T17:00Z', 4)).toEqual([
      '2026-01-02T19:00',
      '2026-01-03T07:00',
      '2026-01-03T11:00',
      '2026-01-03T15:00',
    ]);
  });

  it.each(['2026-03-29', '2026-10-25'])('end at their local time also where the clock changes: %s', (day) => {
    const blackouts = [{ kind: 'daily', days: [], fromMinute: 60, untilMinute: 4 * 60 }] as const;
    const fires = cron('*/30 * * * *', 'Europe/Berlin', { blackouts });
    const before = Date.parse(`${day}T00:00:00Z`) - 3_600_000;
    const locals: string[] = [];
    for (let atMs = fires.next(before); locals.length < 6; atMs = fires.next(atMs ?? 0))
      locals.push(localIso('Europe/Berlin', atMs ?? 0).slice(0, 16));
    expect(locals.filter((local) => local.startsWith(day)).find((local) => local >= `${day}T01`)).toBe(
      `${day}T04:00`,
    );
  });

  it('that leave nothing out of an endless pattern end the search', () => {
    const blackouts = [{ kind: 'daily', days: [], fromMinute: 0, untilMinute: 0 }] as const;
    expect(
      cron('0 12 * * *', 'UTC', { blackouts, endMs: Date.UTC(2030, 0) }).next(Date.UTC(2026, 0)),
    ).toBeUndefined();
  });

  it('over everything end the search within a few steps a day, also for each second', () => {
    const blackouts = Array.from({ length: 20 }, (_, hour) => ({
      kind: 'daily' as const,
      days: [],
      fromMinute: hour * 60,
      untilMinute: ((hour + 5) % 24) * 60,
    }));
    let asked = 0;
    const counted = (expression: string): CronPattern => {
      const pattern = readCron(expression);
      return {
        next: (afterMs) => {
          asked += 1;
          return pattern.next(afterMs);
        },
      };
    };
    const when = { kind: 'cron', expression: '* * * * * *' } as const;
    const fires = firesOf({ when, timeZone: 'Europe/Berlin', blackouts }, counted);
    expect(fires.next(Date.UTC(2026, 0))).toBeUndefined();
    expect(asked).toBeLessThan(800 * 12);
  });

  it('leave what a clock change alone brings out of them', () => {
    // 02:30 is left out each day; where it is skipped, the firing comes at 03:00.
    const blackouts = [{ kind: 'daily', days: [], fromMinute: 120, untilMinute: 180 }] as const;
    expect(list(cron('30 2 * * *', 'Europe/Berlin', { blackouts }), '2026-04-01T00:00Z', 2)).toEqual([
      '2027-03-28T01:00',
      '2028-03-26T01:00',
    ]);
  });
});

describe('a local time as text', () => {
  it.each([
    ['Europe/Berlin', '2026-03-29T01:00:00.000Z', '2026-03-29T03:00:00+02:00'],
    ['America/St_Johns', '2026-01-01T00:00:00.000Z', '2025-12-31T20:30:00-03:30'],
    ['Asia/Kathmandu', '2026-01-01T00:00:00.250Z', '2026-01-01T05:45:00.250+05:45'],
    ['UTC', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00+00:00'],
  ])('%s at %s is %s', (zone, utc, local) => {
    expect(localIso(zone, Date.parse(utc))).toBe(local);
    expect(new Date(local).toISOString()).toBe(utc);
  });
});

describe('the latest of many firings', () => {
  it('is found without visiting them', () => {
    const minutely = every(60_000, 0);
    let asked = 0;
    const counted: Fires = {
      next: (afterMs) => {
        asked += 1;
        return minutely.next(afterMs);
      },
    };
    expect(latestFiring(counted, 0, 60_000 * 1_000_000)).toBe(60_000 * 1_000_000);
    expect(asked).toBeLessThan(60);
  });
});

describe('jitter', () => {
  it('spreads schedules of one instant over its whole window, each by its id', () => {
    const WINDOW_MS = 60_000;
    const jitters = Array.from({ length: 200 }, (_, at) => jitterOf(`report-${at}`, WINDOW_MS));
    expect(new Set(jitters).size).toBeGreaterThan(190);
    expect(Math.min(...jitters)).toBeLessThan(WINDOW_MS / 20);
    expect(Math.max(...jitters)).toBeGreaterThan((WINDOW_MS * 19) / 20);
    expect(Math.max(...jitters)).toBeLessThanOrEqual(WINDOW_MS);
    expect(jitterOf('report-1', WINDOW_MS)).toBe(jitters[1]);
  });
});

describe('a zone that leaves out a whole day', () => {
  it('has what was fixed on that day once it begins again, or not at all', () => {
    const noon = '0 12 * * *';
    expect(list(cron(noon, 'Pacific/Apia'), '2011-12-29T00:00Z', 4)).toEqual([
      '2011-12-29T22:00',
      '2011-12-30T10:00',
      '2011-12-30T22:00',
      '2011-12-31T22:00',
    ]);
    expect(list(cron(noon, 'Pacific/Apia', { gap: 'skip' }), '2011-12-29T00:00Z', 3)).toEqual([
      '2011-12-29T22:00',
      '2011-12-30T22:00',
      '2011-12-31T22:00',
    ]);
  });
});

describe('a pattern whose numbers do not exist', () => {
  it.each([
    ['0 0 * 13 *', 'month 13 does not exist'],
    ['0 0 * 0 *', 'month 0 does not exist'],
    ['0 0 32 * *', 'day of month 32 does not exist'],
    ['0 0 0 * *', 'day of month 0 does not exist'],
    ['0 0 40W * *', 'day of month 40 does not exist'],
    ['0 25 * * *', 'Invalid value for hour: 25'],
  ])('%s is refused by the number that was written', (expression, problem) => {
    expect(() => readCron(expression)).toThrow(problem);
  });
});
