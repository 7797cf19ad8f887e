/** Bugs that are planted on purpose: the simulation, and the other tests of what it promises, are worth what they find. */
import { afterAll, describe, expect, it } from 'vitest';
import { findElsewhere, triedBugs } from './elsewhere.ts';
import { find, isWrongAnyway } from './finders.ts';
import type { Planted } from './planted-bug.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const FIND_MS = 600_000;

const isByTest = ({ foundBy }: Planted): boolean => 'test' in foundBy;
const isOnEmulator = ({ foundBy }: Planted): boolean => 'test' in foundBy && foundBy.onEmulator === true;

describe('a protection that is taken away is missed', () => {
  it.for(triedBugs('planted, seeds', (planted) => !isByTest(planted)))(
    '%s',
    { timeout: FIND_MS },
    async ([name, planted], { signal }) => {
      const found =
        planted.changes === undefined ? await find(name, planted) : await findElsewhere([name], signal)(name);
      expect(found).toBeDefined();
      expect(await isWrongAnyway(planted, found ?? '')).toBe(false);
    },
  );
});

describe('a protection that is taken away is missed by its test', () => {
  const bugs = triedBugs('planted, tests', (planted) => isByTest(planted) && !isOnEmulator(planted));
  let found: ReturnType<typeof findElsewhere> | undefined;
  const over = new AbortController();
  afterAll(() => over.abort());
  it.for(bugs.map(([name]) => name))('%s', { timeout: FIND_MS }, async (name, { signal }) => {
    signal.addEventListener('abort', () => over.abort());
    found ??= findElsewhere(
      bugs.map(([each]) => each),
      over.signal,
    );
    expect(await found(name)).toBeDefined();
  });
});
