import { expect, it } from 'vitest';
import { ZONES } from '../core/local-minutes.ts';
import { yearOf } from './schedule-year.ts';

it.each(['30 2 * * *', '0 0 * * *', '15 1 * * 0'])(
  'a year of %s in all zones through the product agrees with clocks on a wall',
  async (pattern) => {
    expect(await yearOf(ZONES, pattern)).toBeGreaterThan(4_000);
  },
  600_000,
);
