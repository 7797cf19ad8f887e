import { expect, it } from 'vitest';
import { costOfTick } from './cost.ts';

it('a tick with nothing due reads no more with 1,000,000 future jobs and 100,000 schedules than with none', async () => {
  const none = await costOfTick(0, 0);
  const many = await costOfTick(1_000_000, 100_000);
  console.log(
    `a tick reads ${many.all.reads} units: ${many.due} for due jobs, ${many.schedules} for schedules; it writes ${many.all.writes}`,
  );
  expect(many.all.byVerb).toEqual(none.all.byVerb);
  expect(many.due + many.schedules).toBeLessThanOrEqual(2);
}, 600_000);
