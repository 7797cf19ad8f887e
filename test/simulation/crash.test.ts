/** Processes that are killed; `crash.long.test.ts` has many more. */
import { describe, expect, it } from 'vitest';
import { crashPlanOf } from './crash.ts';
import { runSeeds } from './seeds.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const SEEDS = 10;
const SEEDS_MS = 300_000;
/** Seeds that once showed a bug, of the product or of a law. */
const REGRESSIONS: readonly number[] = [
  // A pass took a lease for ended that had not ended when it loaded the partition: it took nothing, and noted that it had.
  110,
  // A lease ended between the load of a pass and the look that it sent: that came much later.
  355,
  // The message of a job that had lost a worker came again after the job had ended: the process kept its slots free for it.
  289,
  // No bug: a worker's process that was killed with its word of new slots on the way was thought to have told nobody of them.
  5_187,
];

describe('a process that is killed', () => {
  it(`loses its jobs to others in time, quiet or busy, in ${SEEDS} seeds`, {
    timeout: SEEDS_MS,
  }, async () => {
    const { broken, finished, faults } = await runSeeds(1, SEEDS, crashPlanOf);
    expect(broken).toEqual([]);
    expect(faults.workerKilled).toBeGreaterThan(SEEDS / 2);
    expect(finished).toBeGreaterThan(SEEDS);
  });

  it('does so in every seed that once showed a bug', { timeout: SEEDS_MS }, async () => {
    for (const seed of REGRESSIONS) expect((await runSeeds(seed, seed, crashPlanOf)).broken).toEqual([]);
  });
});
