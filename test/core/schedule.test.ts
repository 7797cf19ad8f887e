import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CronPattern,
  type DstPolicy,
  decideOverlap,
  type Fires,
  fireNow,
  firesOf,
  MISFIRE_DEFAULTS,
  type Recurrence,
  readRecurrence,
  zoneOffsetMs,
} from '../../lib/core/schedule.ts';
import { readCron } from '../../lib/schedule/croner.ts';

function cron(expression: string, timeZone: string, dst?: DstPolicy): Fires {
  return firesOf({ kind: 'cron', expression, timeZone, dst }, readCron);
}

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
    const fires = cron('30 2 * * *', 'Europe/Berlin', { gap: 'skip', overlap: 'first' });
    expect(list(fires, '2026-03-28T12:00Z', 1)).toEqual(['2026-03-30T00:30']);
  });

  it('fires once where several times fall into one gap', () => {
    expect(list(cron('15,45 2 * * *', 'Europe/Berlin'), '2026-03-28T12:00Z', 2)).toEqual([
      '2026-03-29T01:00',
      '2026-03-30T00:15',
    ]);
  });

  it('knows gaps of half an hour, of midnight and of a whole day', () => {
    expect(list(cron('15 2 * * *', 'Australia/Lord_Howe'), '2026-10-03T12:00Z', 1)).toEqual([
      '2026-10-03T15:30',
    ]);
    expect(list(cron('0 0 * * *', 'America/Sao_Paulo'), '2018-11-03T12:00Z', 1)).toEqual([
      '2018-11-04T03:00',
    ]);
    expect(list(cron('0 12 30 12 *', 'Pacific/Apia'), '2011-12-01T00:00Z', 1)).toEqual(['2011-12-30T10:00']);
  });
});

describe('a fixed time, where the clock is set back', () => {
  it.each([
    ['first', ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['second', ['2026-10-25T01:30', '2026-10-26T01:30']],
    ['both', ['2026-10-25T00:30', '2026-10-25T01:30', '2026-10-26T01:30']],
  ] as const)('fires at the %s occurrence', (overlap, expected) => {
    const fires = cron('30 2 * * *', 'Europe/Berlin', { gap: 'shift', overlap });
    expect(list(fires, '2026-10-24T12:00Z', expected.length)).toEqual(expected);
  });

  it('does not fire again when asked between the two', () => {
    expect(list(cron('30 2 * * *', 'Europe/Berlin'), '2026-10-25T00:30Z', 1)).toEqual(['2026-10-26T01:30']);
  });
});

describe('an interval', () => {
  it.each(['*/30 * * * *', '0 */30 * * * *', '*/30  *  * * *', '*/30 ? * * *'])(
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
    const fires = firesOf({ kind: 'cron', expression: '5 5 5 5 *', timeZone: 'UTC' }, () => once);
    expect(fires.next(0)).toBe(5_000);
    expect(fires.next(5_000)).toBeUndefined();
  });

  it('gives up on a pattern that only ever names times that do not exist', () => {
    // Berlin has no 02:30 on that day, and the pattern knows no other day.
    const wallMs = Date.UTC(2026, 2, 29, 2, 30);
    let asked = 0;
    const stuck: CronPattern = {
      next: () => {
        asked += 1;
        return wallMs;
      },
    };
    const recurrence: Recurrence = {
      kind: 'cron',
      expression: '30 2 29 3 *',
      timeZone: 'Europe/Berlin',
      dst: { gap: 'skip', overlap: 'first' },
    };
    expect(
      firesOf(
        recurrence,
        () => stuck,
        (_, atMs) => (atMs < wallMs - 3_600_000 ? 3_600_000 : 7_200_000),
      ).next(0),
    ).toBeUndefined();
    expect(asked).toBeLessThan(200_000);
  });

  it.each(['', 'nonsense', '99 * * * *', '* * * *', '* * * * * * *', '@never'])(
    'refuses the pattern %j',
    (expression) => {
      expect(() => cron(expression, 'UTC')).toThrow(
        expect.objectContaining({ name: 'ConfigurationError', field: 'schedule' }),
      );
    },
  );

  it('refuses a zone that does not exist, before the first fire', () => {
    expect(() => cron('0 0 * * *', 'Mars/Olympus')).toThrow(
      /timeZone: is no known zone, got "Mars\/Olympus"/,
    );
  });
});

describe('a rate', () => {
  it('fires at its anchor and every so often after it', () => {
    const fires = firesOf({ kind: 'rate', everyMs: 1_000, anchorMs: 5_500 }, readCron);
    expect([0, 5_499, 5_500, 6_499, 6_500].map((afterMs) => fires.next(afterMs))).toEqual([
      5_500, 5_500, 6_500, 6_500, 7_500,
    ]);
  });

  it.each([0, -1, 1.5, Number.NaN])('refuses to fire every %s ms', (everyMs) => {
    expect(() => firesOf({ kind: 'rate', everyMs, anchorMs: 0 }, readCron)).toThrow(/everyMs/);
  });
});

describe('readRecurrence', () => {
  it('reads rates, patterns and nicknames', () => {
    expect(readRecurrence('rate(5 minutes)', 'UTC', 7)).toEqual({
      kind: 'rate',
      everyMs: 300_000,
      anchorMs: 7,
    });
    expect(readRecurrence(' rate(1 day) ', 'UTC', 7)).toEqual({
      kind: 'rate',
      everyMs: 86_400_000,
      anchorMs: 7,
    });
    expect(readRecurrence('cron(0 9 * * 1-5)', 'Asia/Tokyo', 7)).toEqual({
      kind: 'cron',
      expression: '0 9 * * 1-5',
      timeZone: 'Asia/Tokyo',
    });
    expect(readRecurrence('@daily', 'UTC', 7)).toMatchObject({ kind: 'cron', expression: '@daily' });
  });

  it.each(['rate(0 minutes)', 'rate(5 weeks)', 'rate(-1 hours)', 'rate'])('refuses %s', (text) => {
    expect(() => readRecurrence(text, 'UTC', 0)).toThrow(/must be a rate of at least one second/);
  });
});

describe('fireNow', () => {
  const minutely = firesOf({ kind: 'rate', everyMs: 60_000, anchorMs: 0 }, readCron);
  const daily = firesOf({ kind: 'rate', everyMs: 86_400_000, anchorMs: 0 }, readCron);
  const at = (minutes: number): number => minutes * 60_000;

  it('fires what is due, once', () => {
    const first = fireNow(minutely, at(5), at(6), MISFIRE_DEFAULTS);
    expect(first).toEqual({ fires: [at(6)], dealtWithMs: at(6), nextMs: at(7) });
    expect(fireNow(minutely, first.dealtWithMs, at(6), MISFIRE_DEFAULTS).fires).toEqual([]);
  });

  it('makes one fire of all that were missed for longer than the grace', () => {
    const found = fireNow(minutely, at(5), at(100) + 30_000, { policy: 'once', graceMs: 60_000, batch: 100 });
    expect(found.fires).toEqual([at(99), at(100)]);
    expect(found.nextMs).toBe(at(101));
  });

  it('leaves missed fires out', () => {
    const found = fireNow(minutely, at(5), at(100) + 30_000, { policy: 'skip', graceMs: 60_000, batch: 100 });
    expect(found.fires).toEqual([at(100)]);
    expect(fireNow(daily, 0, 86_400_000 + 60_001, { policy: 'skip', graceMs: 60_000, batch: 9 })).toEqual({
      fires: [],
      dealtWithMs: 86_400_000,
      nextMs: 2 * 86_400_000,
    });
  });

  it('counts a fire exactly as old as the grace as in time', () => {
    expect(
      fireNow(daily, 0, 86_400_000 + 60_000, { policy: 'skip', graceMs: 60_000, batch: 9 }).fires,
    ).toHaveLength(1);
  });

  it('makes up for every missed fire, a batch at a time', () => {
    const policy = { policy: 'all', graceMs: 0, batch: 40 } as const;
    const fires: number[] = [];
    let last = at(5);
    for (let look = 0; look < 3; look += 1) {
      const found = fireNow(minutely, last, at(100), policy);
      expect(found.fires.length).toBeLessThanOrEqual(40);
      fires.push(...found.fires);
      last = found.dealtWithMs;
    }
    expect(fires).toEqual(Array.from({ length: 95 }, (_, index) => at(6 + index)));
  });

  it('finds the latest of a million missed fires without visiting them', () => {
    let asked = 0;
    const counted: Fires = {
      next: (afterMs) => {
        asked += 1;
        return minutely.next(afterMs);
      },
    };
    expect(fireNow(counted, 0, at(1_000_000), { policy: 'once', graceMs: 0, batch: 5 }).fires).toEqual([
      at(999_999),
      at(1_000_000),
    ]);
    expect(asked).toBeLessThan(60);
  });

  it('ends with a schedule that ends', () => {
    const once: Fires = { next: (afterMs) => (afterMs < 10 ? 10 : undefined) };
    expect(fireNow(once, 0, 100_000, MISFIRE_DEFAULTS)).toEqual({
      fires: [10],
      dealtWithMs: 10,
      nextMs: undefined,
    });
    expect(fireNow(once, 10, 100_000, MISFIRE_DEFAULTS)).toEqual({
      fires: [],
      dealtWithMs: 10,
      nextMs: undefined,
    });
  });
});

describe('decideOverlap', () => {
  it.each([
    ['allow', 1, 0, 'start'],
    ['skip', 1, 0, 'skip'],
    ['wait', 1, 0, 'wait'],
    ['wait', 1, 1, 'skip'],
    ['wait', 0, 1, 'skip'],
    ['replace', 2, 0, 'replace'],
  ] as const)('%s with %i unfinished and %i waiting: %s', (policy, unfinished, waiting, decision) => {
    expect(decideOverlap(policy, unfinished, waiting)).toBe(decision);
  });

  it.each(['allow', 'skip', 'wait', 'replace'] as const)(
    'starts when nothing is unfinished: %s',
    (policy) => {
      expect(decideOverlap(policy, 0, 0)).toBe('start');
    },
  );
});
