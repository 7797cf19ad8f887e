import { defineConfig } from 'vitest/config';

/** What needs an emulator: it is started once for all of these, and never for the others. */
const INTEGRATION = ['test/contract/aws.test.ts', 'test/integration/**/*.test.ts'];

/** What takes minutes: CI runs it beside `npm test`, with `npm run test:long`. */
const LONG = ['test/**/*.long.test.ts'];

/** Against what hangs, not against what is slow: tests share the machine, and start processes. */
const BOUNDS = { testTimeout: 30_000, hookTimeout: 60_000 };

export default defineConfig({
  test: {
    reporters: ['default', 'json'],
    // Many tests wait for processes and time: one worker for each core, not one less.
    maxWorkers: '100%',
    outputFile: { json: process.env.FAIRLEAD_TEST_REPORT ?? 'reports/vitest.json' },
    coverage: { provider: 'v8', include: ['lib/core/**'], reporter: ['text', 'json-summary'] },
    projects: [
      {
        test: { ...BOUNDS, name: 'unit', include: ['test/**/*.test.ts'], exclude: [...INTEGRATION, ...LONG] },
      },
      {
        test: {
          ...BOUNDS,
          name: 'integration',
          include: INTEGRATION,
          exclude: LONG,
          globalSetup: 'test/global-setup.ts',
        },
      },
      {
        test: { ...BOUNDS, name: 'long', include: LONG, globalSetup: 'test/global-setup.ts' },
      },
    ],
  },
});
