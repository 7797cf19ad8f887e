import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { isSampled, oneOf, someOf } from './test/sample.ts';
import tsconfig from './tsconfig.json' with { type: 'json' };

/**
 * A process for each of these files would cost more than its tests do. They take turns in a few processes, which have the
 * product and the CDK loaded, and compiled, after their first files.
 */
const IN_SHARED_PROCESSES = [
  'test/{cdk,cli,client,core,cron,dashboard,declaration,deploy,dispatch,http,jobs,metrics,operate,otel,queue,schedules,store,submit}/**/*.test.ts',
  'test/contract/memory.test.ts',
  'examples/uses/*.test.ts',
];

/** What needs an emulator: it is started once for all of these, and never for the others. */
const INTEGRATION = ['test/contract/aws.test.ts', 'test/integration/**/*.test.ts'];

/** What takes minutes: `npm run test:deep`. */
const LONG = ['test/**/*.long.test.ts'];

/** Scenes that cannot be made smaller, by kind: a sampled run plays one of each kind. */
const SCENES: Readonly<Record<string, readonly string[]>> = {
  'processes die': [
    'test/integration/chaos',
    'test/integration/chaos-fragile',
    'test/examples/start-interrupted',
  ],
  'declarations follow one another': [
    'test/integration/redeploy-steps',
    'test/integration/partition-changes',
    'test/integration/many-fleets',
    'test/integration/restored',
  ],
  'users begin': [
    'test/package/stranger',
    'test/package/shop',
    'test/examples/keep',
    'test/examples/flood',
    'test/dev/emulator',
  ],
  'the table answers badly': ['test/integration/meddled-contract', 'test/integration/one-life-cycle'],
  'many schedules': [
    'test/integration/schedules',
    'test/schedules/cost',
    'test/schedules/crowd',
    'test/core/schedule-oracle',
    'test/core/coverage',
  ],
};
const LEFT_OUT = Object.entries(SCENES).flatMap(([kind, scenes]) => {
  const played = isSampled ? oneOf(kind, scenes) : scenes;
  return scenes.filter((scene) => !played.includes(scene)).map((scene) => `${scene}.long.test.ts`);
});

/** What is about processes, time, and a client that meddles, not about what stands behind the client: minutes each. */
const NOT_ABOUT_THE_STORE = ['busy-processes', 'killed-processes', 'redeploy'].map(
  (name) => `test/integration/${name}.test.ts`,
);
/** What `npm test` tries a part of, and `npm run test:deep` all: see `test/fixtures/times.ts`. */
const RANDOM = [
  ...['fairness', 'planner', 'schedule-oracle', 'scheduler', 'score', 'slots', 'turn-heap'].map(
    (name) => `core/${name}`,
  ),
  'cli/product',
  'cli/properties',
  'contract/http-client',
  'differential/many-keys',
  'http/refusals',
  'operate/parked-shown',
  'store/contract/bounds',
  'store/table/summary',
  'store/table/summary-ledgers',
].map((name) => `test/${name}.test.ts`);
const isElsewhere = (process.env.FAIRLEAD_TEST_ENDPOINT ?? '') !== '';

/** What takes longest begins first, so that no processor is without work while one file is left. */
const LONGEST = [
  'test/simulation/crash-points.long.test.ts',
  'test/simulation/crash-points-more.long.test.ts',
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
  'test/protocol/protocol-model.long.test.ts',
  'test/examples/keep.long.test.ts',
  'test/integration/redeploy.test.ts',
  'test/examples/start.test.ts',
  'test/integration/dispatcher-processes.test.ts',
  'test/integration/busy-processes.test.ts',
  'test/integration/killed-processes.test.ts',
  'test/integration/meddled-verbs.test.ts',
  'test/contract/aws.test.ts',
  'test/simulation/simulation.test.ts',
  'test/simulation/crash-points.test.ts',
  'test/protocol/protocol-model.test.ts',
  'test/differential/differential.test.ts',
];

/** What waits for processes, queues and leases, most of its time: beside what computes, it costs none. */
const WAITS = ['test/integration/', 'test/examples/', 'test/contract/'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((path) => moduleId.endsWith(path));
      return at < 0 ? LONGEST.length : at;
    };
    const sorted = (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other));
    const waits = sorted.filter(({ moduleId }) => WAITS.some((folder) => moduleId.includes(`/${folder}`)));
    const computes = sorted.filter((each) => !waits.includes(each));
    const pairs = Array.from({ length: Math.max(waits.length, computes.length) }, (_, at) => [
      waits[at],
      computes[at],
    ]);
    return pairs.flat().filter((each) => each !== undefined);
  }
}

/**
 * The engine with which the CDK validates templates takes three seconds of a processor to start, in each process that
 * synthesises. What it finds are warnings: `test/cdk/nag.test.ts` starts it, and asserts that there are none.
 */
const ENV = { CDK_VALIDATION: 'false' };

/** Against what hangs, not against what is slow: tests share the machine, and start processes. LocalStack answers a tenth as fast. */
const BOUNDS = { testTimeout: isElsewhere ? 180_000 : 60_000, hookTimeout: 60_000 };
const SHARED = { ...BOUNDS, env: ENV, setupFiles: 'test/fixtures/own-file.ts' };

/** The package's own name, which examples import as users do. */
const OWN_NAME = Object.entries(tsconfig.compilerOptions.paths).map(([find, [source = '']]) => ({
  find: new RegExp(`^${find}$`),
  replacement: resolve(import.meta.dirname, source),
}));

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
        test: {
          ...SHARED,
          alias: OWN_NAME,
          name: 'unit',
          include: IN_SHARED_PROCESSES,
          exclude: LONG,
          isolate: false,
        },
      },
      {
        test: {
          ...SHARED,
          name: 'apart',
          include: ['test/**/*.test.ts'],
          exclude: [...IN_SHARED_PROCESSES, ...INTEGRATION, ...LONG],
        },
      },
      {
        test: {
          ...SHARED,
          name: 'integration',
          include: INTEGRATION,
          exclude: [...LONG, ...(isElsewhere ? NOT_ABOUT_THE_STORE : [])],
          globalSetup: 'test/global-setup.ts',
        },
      },
      {
        test: {
          ...SHARED,
          name: 'long',
          include: LONG,
          exclude: LEFT_OUT,
          globalSetup: 'test/global-setup.ts',
        },
      },
      {
        test: {
          ...SHARED,
          name: 'thorough',
          include: [...someOf('random', RANDOM, 2)],
          testTimeout: 300_000,
          env: { ...ENV, FAIRLEAD_TIMES: 'all' },
        },
      },
    ],
  },
});
