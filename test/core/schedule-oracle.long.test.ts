import { describe, expect, it } from 'vitest';
import { firesOf } from '../../lib/core/schedule.ts';
import { readCron } from '../../lib/cron/croner.ts';
import { agreesAround } from './around-changes.ts';
import { ALL_POLICIES, changesOf, PATTERNS, walked, ZONES } from './local-minutes.ts';

const FROM_MS = Date.UTC(2024, 0);
const UNTIL_MS = Date.UTC(2034, 0);
const DAY_MS = 86_400_000;

const ALL = ZONES.flatMap((zone) => PATTERNS.map((pattern) => [zone, pattern] as const));

/** All patterns in all zones take more than an hour: `FAIRLEAD_WHOLE=1` walks them. Else each zone has one, of those that fire rarely. */
const isWhole = process.env.FAIRLEAD_WHOLE === '1';
const RARE = PATTERNS.filter((pattern) => /^\d+ \d+ /.test(pattern));
const patternOf = (zone: (typeof ZONES)[number]): string | undefined =>
  RARE[ZONES.indexOf(zone) % RARE.length];

describe('around every clock change of ten years, each pattern fires as clocks on a wall show it', () => {
  it.each(ZONES.map((zone) => [zone, changesOf(zone, FROM_MS, UNTIL_MS)] as const))(
    '%s',
    (zone, changes) => {
      let firings = 0;
      for (const changeMs of changes)
        for (const pattern of PATTERNS) firings += agreesAround(zone, pattern, changeMs);
      if (changes.length > 0) expect(firings).toBeGreaterThan(changes.length * PATTERNS.length);
    },
    600_000,
  );
});

describe('through all minutes of ten years, firings are those of clocks on a wall', () => {
  it.each(isWhole ? ALL : ALL.filter(([zone, pattern]) => pattern === patternOf(zone)))(
    '%s, %s',
    (zone, pattern) => {
      const oracle = walked(pattern, zone, FROM_MS - DAY_MS, UNTIL_MS);
      for (const [at, policies] of ALL_POLICIES.entries()) {
        const fires = firesOf(
          { when: { kind: 'cron', expression: pattern }, timeZone: zone, ...policies },
          readCron,
        );
        const expected = oracle[at]?.filter((atMs) => atMs >= FROM_MS) ?? [];
        let lastMs: number = FROM_MS - 1;
        for (const expectedMs of expected) {
          const nextMs = fires.next(lastMs);
          if (nextMs !== expectedMs)
            expect({ policies, next: iso(nextMs) }).toEqual({ policies, next: iso(expectedMs) });
          lastMs = expectedMs;
        }
        expect(fires.next(lastMs)).toBeGreaterThanOrEqual(UNTIL_MS);
      }
    },
    600_000,
  );
});

const iso = (atMs: number | undefined): string =>
  atMs === undefined ? 'never' : new Date(atMs).toISOString();
