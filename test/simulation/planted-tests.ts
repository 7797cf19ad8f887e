/** Runs tests with planted bugs, one bug after the other: vitest starts once for all of them, and loads again what a bug changes. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createVitest } from 'vitest/node';
import type { Mutation } from './mutation.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

interface PlantedTests {
  /** What failed of the tests whose name has this in it; undefined: nothing. */
  readonly failed: (
    of: { readonly test: string; readonly name: string },
    changes: readonly Mutation[],
  ) => Promise<string | undefined>;
  readonly close: () => Promise<void>;
}

export async function openPlantedTests(): Promise<PlantedTests> {
  let planted: readonly Mutation[] = [];
  const vitest = await createVitest(
    'test',
    {
      root: ROOT,
      config: false,
      watch: false,
      include: ['test/**/*.test.ts'],
      reporters: [{}],
      // What is cached says nothing of what is planted.
      fsModuleCache: false,
      maxWorkers: 1,
      testTimeout: 60_000,
      env: { FAIRLEAD_PLANTED: '1' },
      // Of tests on an emulator: the one that is there.
      ...(process.env.FAIRLEAD_TEST_ENDPOINT === undefined ? {} : { globalSetup: 'test/global-setup.ts' }),
    },
    {
      plugins: [
        {
          name: 'planted',
          enforce: 'pre',
          transform: (code, id) => {
            const own = planted.filter(({ file }) => id.endsWith(`/${file}`));
            return own.length === 0 ? undefined : own.reduce((source, each) => each.change(source), code);
          },
        },
      ],
    },
  );
  await vitest.standalone();
  return {
    failed: async ({ test, name }, changes) => {
      const changed = [...planted, ...changes];
      planted = changes;
      for (const { file } of changed) vitest.invalidateFile(join(ROOT, file));
      vitest.setGlobalTestNamePattern(name);
      const { testModules } = await vitest.runTestSpecifications(await vitest.globTestSpecifications([test]));
      // What earlier runs have left is told, too.
      const own = testModules.filter(({ moduleId }) => moduleId === join(ROOT, test));
      const tests = own.flatMap(({ children }) => [...children.allTests()]);
      const failures = tests.filter((each) => each.result().state === 'failed');
      if (!tests.some((each) => ['passed', 'failed'].includes(each.result().state)))
        throw new RangeError(`${test} has no test ${name}, or could not be loaded`);
      const [failed] = failures;
      return failed && `${failed.fullName}: ${failed.result().errors?.[0]?.message.split('\n')[0]}`;
    },
    close: () => vitest.close(),
  };
}
