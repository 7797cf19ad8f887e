import { describe, expect, it } from 'vitest';
import { costOfFiring, costOfTick } from './cost.ts';

describe('schedules', () => {
  it.each([4, 128])(
    'with a name of %i letters cost at most four write units more than a submitted job for each firing',
    async (letters) => {
      const { submitted, fired } = await costOfFiring('x'.repeat(letters));
      expect({ submitted, more: fired - submitted }).toEqual({ submitted: 2, more: 4 });
    },
  );

  it('cost no more with a history of blackouts', async () => {
    const { submitted, fired } = await costOfFiring('x'.repeat(128), true);
    expect(fired - submitted).toBe(4);
  });

  it('and jobs for later cost two read units a tick together while nothing is due, however many there are', async () => {
    const few = await costOfTick(0, 0);
    const many = await costOfTick(20_000, 2_000);
    expect(many.all.byVerb).toEqual(few.all.byVerb);
    expect(many.due + many.schedules).toBeLessThanOrEqual(2);
    expect(many.all.writes).toBe(few.all.writes);
  });
});
