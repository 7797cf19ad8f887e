import { defineConfig } from 'vitest/config';

/** The core's tests alone: mutants are judged by them, and by nothing that needs an emulator. */
export default defineConfig({
  test: {
    // Nothing in them is shared, and a worker for each file would cost each mutant more than its tests do.
    isolate: false,
    include: [
      'test/core/{conflict,estimate,explain,fairness,fairness-oracle,job-heaps,life-cycle,planner}.test.ts',
      'test/core/{retry,scheduler,score,scoring-oracle,slots,turn-heap}.test.ts',
    ],
  },
});
