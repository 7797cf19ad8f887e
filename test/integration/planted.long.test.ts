/** Bugs that are planted in what only a table can show: `test/simulation/planted.long.test.ts` has the others. */
import { describe, expect, inject, it } from 'vitest';
import { find } from '../simulation/finders.ts';
import { PLANTED } from '../simulation/planted.ts';

const FIND_MS = 120_000;

// What takes a protection away is the same elsewhere: once is enough, on the emulator of this project.
describe.skipIf(process.env.FAIRLEAD_TEST_ENDPOINT !== undefined)(
  'a protection that is taken away is missed',
  () => {
    it.each(
      Object.entries(PLANTED).filter(([, { foundBy }]) => 'test' in foundBy && foundBy.onEmulator === true),
    )('%s', { timeout: FIND_MS }, async (name, planted) => {
      const found = await find(name, planted, { FAIRLEAD_TEST_ENDPOINT: inject('endpoint') });
      expect(found).toBeDefined();
    });
  },
);
