/** Bugs that are planted in what only a table can show: `test/simulation/planted.long.test.ts` has the others. */
import { afterAll, describe, expect, inject, it } from 'vitest';
import { findElsewhere, triedBugs } from '../simulation/elsewhere.ts';

const FIND_MS = 600_000;

// What takes a protection away is the same elsewhere: once is enough, on the emulator of this project.
describe.skipIf(process.env.FAIRLEAD_TEST_ENDPOINT !== undefined)(
  'a protection that is taken away is missed',
  () => {
    const bugs = triedBugs(
      'planted, on the emulator',
      ({ foundBy }) => 'test' in foundBy && foundBy.onEmulator === true,
    );
    let found: ReturnType<typeof findElsewhere> | undefined;
    const over = new AbortController();
    afterAll(() => over.abort());
    it.for(bugs.map(([name]) => name))('%s', { timeout: FIND_MS }, async (name, { signal }) => {
      signal.addEventListener('abort', () => over.abort());
      found ??= findElsewhere(
        bugs.map(([each]) => each),
        over.signal,
        { FAIRLEAD_TEST_ENDPOINT: inject('endpoint') },
      );
      expect(await found(name)).toBeDefined();
    });
  },
);
