/** Imports point one way: the rules hold for the tree, and each of them bites. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '..');
const config = join(project, '.dependency-cruiser.cjs');
const FOLDERS = ['lib', 'functions', 'cdk', 'examples', 'bench', 'test'] as const;
const WAIT_MS = 120_000;

interface Violation {
  readonly rule: { readonly name: string };
  readonly from: string;
  readonly to: string;
}

/** What dependency-cruiser finds in a tree, and how many modules it saw. */
async function cruise(
  cwd: string,
): Promise<{ readonly violations: readonly Violation[]; readonly modules: number }> {
  const command = join(project, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const parameters = [command, '--config', config, '--output-type', 'json', ...FOLDERS];
  const output = await new Promise<string>((done, failed) => {
    execFile(process.execPath, parameters, { cwd, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      // Violations make it exit with an error, and are in its output all the same.
      if (stdout.startsWith('{')) done(stdout);
      else failed(error ?? new Error(stderr));
    });
  });
  const { summary } = JSON.parse(output) as {
    readonly summary: { readonly violations: readonly Violation[]; readonly totalCruised: number };
  };
  return { violations: summary.violations, modules: summary.totalCruised };
}

const forbidden: readonly { readonly name: string }[] = (
  createRequire(import.meta.url)(config) as { readonly forbidden: readonly { readonly name: string }[] }
).forbidden;

/** One file for each rule that breaks that rule. Paths are relative to the tree, imports to the file. */
const PLANTED: Readonly<Record<string, readonly [path: string, imports: string]>> = {
  'core-is-pure': ['lib/core/impure.ts', 'node:fs'],
  'declared-jobs-know-only-core': ['lib/jobs/chatty.ts', '../cli/surface.ts'],
  'contracts-know-only-core': ['lib/store/contract/verbs.ts', '../../dispatch/use-case.ts'],
  'adapters-know-only-contracts': ['lib/queue/sqs/queue.ts', '../../worker/use-case.ts'],
  'adapters-meet-in-composition-roots': ['lib/dispatch/shortcut.ts', '../store/memory/store.ts'],
  'use-cases-know-no-surface': ['lib/worker/chatty.ts', '../cli/surface.ts'],
  'submit-imports-nothing-above-it': ['lib/submit/high.ts', '../declaration/above.ts'],
  'declaration-imports-nothing-above-it': ['lib/declaration/high.ts', '../dispatch/view/above.ts'],
  'dispatch-view-imports-nothing-above-it': ['lib/dispatch/view/high.ts', '../partition/above.ts'],
  'dispatch-partition-imports-nothing-above-it': ['lib/dispatch/partition/high.ts', '../partitions/above.ts'],
  'dispatch-partitions-imports-nothing-above-it': ['lib/dispatch/partitions/high.ts', '../recovery/above.ts'],
  'dispatch-recovery-imports-nothing-above-it': ['lib/dispatch/recovery/high.ts', '../pass/above.ts'],
  'dispatch-pass-imports-nothing-above-it': ['lib/dispatch/pass/high.ts', '../lead/above.ts'],
  'dispatch-lead-imports-nothing-above-it': ['lib/dispatch/lead/high.ts', '../use-case.ts'],
  'dispatch-imports-nothing-above-it': ['lib/dispatch/high.ts', './resident/above.ts'],
  'dispatch-resident-imports-nothing-above-it': ['lib/dispatch/resident/high.ts', '../../schedules/above.ts'],
  'schedules-imports-nothing-above-it': ['lib/schedules/high.ts', '../deploy/above.ts'],
  'deploy-imports-nothing-above-it': ['lib/deploy/high.ts', '../operate/above.ts'],
  'the-format-of-items-knows-no-store': ['lib/store/table/format.ts', '../dynamodb/table.ts'],
  'stores-know-no-other-store': ['lib/store/memory/copied.ts', '../dynamodb/table.ts'],
  'production-simulates-nothing': ['lib/dispatch/playful.ts', '../simulate/scenario.ts'],
  'production-runs-nothing-in-memory': ['lib/client/local.ts', '../local/scheduler.ts'],
  'the-local-scheduler-knows-no-surface': ['lib/local/chatty.ts', '../cli/surface.ts'],
  'the-protocol-knows-only-the-client': ['lib/http/shortcut.ts', '../dispatch/use-case.ts'],
  'a-client-serves-nothing': ['lib/client/server.ts', '../http/surface.ts'],
  'simulations-know-no-surface': ['lib/simulate/talkative.ts', '../cli/surface.ts'],
  'models-know-only-core': ['lib/simulate/model/deep.ts', '../scenario.ts'],
  'nothing-imports-the-functions': ['lib/client/caller.ts', '../../functions/dispatch.ts'],
  'the-stack-runs-no-scheduler': ['cdk/runner.ts', '../lib/worker/use-case.ts'],
  'product-imports-no-tests': ['lib/testing/borrowed.ts', '../../test/fixture.ts'],
  'examples-of-uses-import-the-package': ['examples/uses/deep.ts', '../../lib/core/pure.ts'],
  'no-cycles': ['lib/cli/one.ts', './other.ts'],
  resolvable: ['examples/lost.ts', './nowhere.ts'],
};

/** What the planted imports need to be there. */
const GOOD: Readonly<Record<string, string>> = {
  'lib/core/pure.ts': '',
  'lib/dispatch/use-case.ts': "import '../core/pure.ts';",
  'lib/worker/use-case.ts': "import '../core/pure.ts';",
  'lib/simulate/scenario.ts': "import '../dispatch/use-case.ts';",
  'lib/local/scheduler.ts': "import '../dispatch/use-case.ts';",
  'lib/store/memory/store.ts': "import '../../core/pure.ts';",
  'lib/store/dynamodb/table.ts': '',
  ...Object.fromEntries(
    [
      'declaration',
      'dispatch/view',
      'dispatch/partitions',
      'dispatch/partition',
      'dispatch/recovery',
      'dispatch/pass',
      'dispatch/lead',
      'dispatch/resident',
      'schedules',
      'deploy',
      'operate',
    ].map((folder) => [`lib/${folder}/above.ts`, '']),
  ),
  'lib/http/surface.ts': "import '../core/pure.ts';",
  'lib/cli/surface.ts': "import '../dispatch/use-case.ts';",
  'lib/cli/other.ts': "import './one.ts';",
  'functions/dispatch.ts': "import '../lib/dispatch/use-case.ts';",
  'test/fixture.ts': "import '../lib/core/pure.ts';",
  'bench/any.ts': "import '../lib/core/pure.ts';",
};

describe('the import directions', () => {
  it('hold everywhere', { timeout: WAIT_MS }, async () => {
    const { violations, modules } = await cruise(project);
    expect(violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`)).toEqual([]);
    expect(modules).toBeGreaterThan(100);
  });
});

describe('a planted violation', () => {
  let tree: string;
  let found: readonly Violation[];

  const write = async (path: string, text: string): Promise<void> => {
    await mkdir(dirname(join(tree, path)), { recursive: true });
    await writeFile(join(tree, path), `${text}\nexport const here = true;\n`);
  };

  beforeAll(async () => {
    tree = await mkdtemp(join(tmpdir(), 'fairlead-architecture-'));
    await copyFile(join(project, 'tsconfig.json'), join(tree, 'tsconfig.json'));
    for (const [path, text] of Object.entries(GOOD)) await write(path, text);
    for (const [path, imports] of Object.values(PLANTED)) await write(path, `import '${imports}';`);
    found = (await cruise(tree)).violations;
  }, WAIT_MS);
  afterAll(() => rm(tree, { recursive: true, force: true }));

  it.each(Object.entries(PLANTED))('is found by the rule %s', (name, [path]) => {
    const froms = found.filter(({ rule }) => rule.name === name).map(({ from }) => from);
    expect(froms).toContain(path);
  });

  it('is there for every rule, and no good file is found fault with', () => {
    expect(Object.keys(PLANTED).sort()).toEqual(forbidden.map(({ name }) => name).sort());
    const guilty = new Set([...Object.values(PLANTED).map(([path]) => path), 'lib/cli/other.ts']);
    expect(found.filter(({ from }) => !guilty.has(from))).toEqual([]);
  });
});
