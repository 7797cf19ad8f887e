/** How much of lib/core its own tests enter, and the contract of the stores: the rules of the product have no line that others alone know. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/** Percent, a little less than is covered: raise them with what is covered. */
const LEAST = { lines: 99.5, statements: 98.8, functions: 99.2, branches: 95.8 };

/**
 * The core moves jobs, keeps and fires schedules and holds limits, which is tested with a store, and has the errors and the checks of fields
 * of all surfaces.
 */
const TESTS = [
  'core',
  'schedules',
  'submit',
  'dispatch/pass',
  'operate',
  'client',
  'declaration',
  'deploy',
  'worker/rests.test.ts',
  'worker/thrown.test.ts',
  'store/contract',
  'store/dynamodb/connection.test.ts',
].map((path) => `test/${path}`);

it('lib/core is covered by its tests', { timeout: 900_000 }, async () => {
  // vitest passes over what is not there.
  expect(TESTS.filter((path) => !existsSync(join(project, path)))).toEqual([]);
  const directory = await mkdtemp(join(tmpdir(), 'fairlead-coverage-'));
  try {
    await promisify(execFile)(
      process.execPath,
      [
        'node_modules/vitest/vitest.mjs',
        'run',
        '--project=unit',
        // Counting lines makes tests slow, and how long they take is no matter here.
        '--testTimeout=600000',
        '--coverage',
        '--coverage.reporter=json-summary',
        `--coverage.reportsDirectory=${directory}`,
        `--outputFile.json=${join(directory, 'tests.json')}`,
        // The oracle of clock changes takes minutes, and enters nothing that the tests of schedules do not.
        '--exclude=**/schedule-oracle*',
        ...TESTS,
      ],
      { cwd: project, maxBuffer: 64 * 1024 * 1024 },
    );
    const summary = JSON.parse(await readFile(join(directory, 'coverage-summary.json'), 'utf8')) as {
      readonly total: Readonly<Record<keyof typeof LEAST, { readonly pct: number }>>;
    };
    for (const [what, least] of Object.entries(LEAST) as [keyof typeof LEAST, number][])
      expect(summary.total[what].pct, what).toBeGreaterThanOrEqual(least);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
