/** How much of lib/core its own tests enter, and the contract of the stores: the rules of the product have no line that others alone know. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/** Percent, a little less than is covered: raise them with what is covered. */
const LEAST = { lines: 99, statements: 98.5, functions: 99, branches: 96 };

/**
 * Beside the folder's own: the core moves jobs, keeps and fires schedules, which is tested with a store, and has the errors and the checks
 * of fields of all surfaces.
 */
const ALSO = [
  ...['firing', 'firing-kept', 'firing-long-jobs', 'request', 'ingest'].map((name) => `schedules/${name}`),
  'dispatch/view/lifts',
  'declaration/codec',
  'client/arguments',
  'cli/surface',
  'deploy/declared-by-others',
  'store/dynamodb/connection',
  'submit/requires',
  'store/contract/bounds',
  'contract/memory',
].map((name) => `test/${name}.test.ts`);

it('lib/core is covered by its tests', { timeout: 900_000 }, async () => {
  // vitest passes over a file that is not there.
  expect(ALSO.filter((path) => !existsSync(join(project, path)))).toEqual([]);
  const directory = await mkdtemp(join(tmpdir(), 'fairlead-coverage-'));
  try {
    const names = await readdir(join(project, 'test/core'));
    // The oracle of clock changes takes minutes, and enters nothing that the tests of schedules do not.
    const tests = names.filter((name) => /^(?!schedule-oracle)[^.]*\.test\.ts$/.test(name));
    await promisify(execFile)(
      process.execPath,
      [
        'node_modules/vitest/vitest.mjs',
        'run',
        '--project=unit',
        '--coverage',
        '--coverage.reporter=json-summary',
        `--coverage.reportsDirectory=${directory}`,
        `--outputFile.json=${join(directory, 'tests.json')}`,
        ...tests.map((name) => `test/core/${name}`),
        ...ALSO,
      ],
      { cwd: project, env: { ...process.env, FAIRLEAD_TIMES: 'few' }, maxBuffer: 64 * 1024 * 1024 },
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
