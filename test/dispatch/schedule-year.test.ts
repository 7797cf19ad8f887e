import { expect, it } from 'vitest';
import { yearOf } from './schedule-year.ts';

it('a year of a night’s schedule through the product agrees with clocks on a wall', async () => {
  expect(await yearOf(['Europe/Berlin', 'Australia/Lord_Howe'], '30 2 * * *')).toBeGreaterThan(2_900);
}, 60_000);
