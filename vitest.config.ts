import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What needs an emulator: it is started once for all of these, and never for the others. */
const INTEGRATION = ['test/contract/aws.test.ts', 'test/integration/**/*.test.ts'];

/** What takes minutes: CI runs it beside `npm test`, with `npm run test:deep`. */
const LONG = ['test/**/*.long.test.ts'];

/** What is about processes, time, and a client that meddles, not about what stands behind the client: minutes each. */
const NOT_ABOUT_THE_STORE = ['busy-processes', 'killed-processes', 'redeploy'].map(
  (name) => `test/integration/${name}.test.ts`,
);
const isElsewhere = (process.env.FAIRLEAD_TEST_ENDPOINT ?? '') !== '';

/** What takes longest begins first, so that no processor is without work while one file is left. */
const LONGEST = [
  'test/simulation/planted.long.test.ts',
  'test/simulation/big.long.test.ts',
  'test/simulation/big-more.long.test.ts',
  'test/simulation/schedules.long.test.ts',
  'test/integration/chaos.long.test.ts',
  'test/differential/differential.long.test.ts',
  'test/integration/schedules.long.test.ts',
  'test/package/stranger.long.test.ts',
  'test/simulation/simulation.long.test.ts',
  'test/integration/redeploy-steps.long.test.ts',
  'test/integration/redeploy-partitions.long.test.ts',
  'test/protocol/protocol-model.long.test.ts',
  'test/integration/redeploy.test.ts',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((path) => moduleId.endsWith(path));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
  }
}

/** Against what hangs, not against what is slow: tests share the machine, and start processes. */
const BOUNDS = { testTimeout: 30_000, hookTimeout: 60_000 };

export default defineConfig({
  test: {
    reporters: ['default', 'json'],
    // Many tests wait for processes and time. `test/localstack.ts` asks for one.
    maxWorkers: Math.max(4, availableParallelism()),
    sequence: { sequencer: LongestFirst },
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
          exclude: [...LONG, ...(isElsewhere ? NOT_ABOUT_THE_STORE : [])],
          globalSetup: 'test/global-setup.ts',
        },
      },
      {
        test: { ...BOUNDS, name: 'long', include: LONG, globalSetup: 'test/global-setup.ts' },
      },
    ],
  },
});
