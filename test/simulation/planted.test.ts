/** Bugs that are planted on purpose: the simulation is worth what it finds. */
import { describe, expect, it } from 'vitest';
import { PLANTED } from './planted.ts';
import { run } from './run.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

/** A planted bug must be found within this many seeds. */
const PLANTED_SEEDS_MAX = 2_000;

describe('a protection that is taken away is missed', () => {
  it.each(Object.entries(PLANTED))('%s', { timeout: 600_000 }, async (_, sabotage) => {
    // First where it was seen last; what a seed does changes with the code.
    for (let at = 0; at <= PLANTED_SEEDS_MAX; at += 1) {
      const { violations } = await run(at === 0 ? sabotage.seenAt : at, { sabotage });
      if (violations.length > 0) return;
    }
    expect.fail(`nothing was found within ${PLANTED_SEEDS_MAX} seeds`);
  });
});
