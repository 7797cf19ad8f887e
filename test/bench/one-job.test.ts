import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/**
 * As many as it is: docs/decisions/2026-11-25-files-of-one-job.md says why it is not 30. A change that needs one more file for one
 * job's way says why, and raises it.
 * 55: one file keeps the order of the keys line on both stores, where one of them had it among its own.
 * 58: jobs that hints told of, keys below a share, and the ledgers of a page are kept by what each pass asks of them, in a file each: they
 * were loops over all of them, in three files that have no room for more.
 * 59: how many hints are looked up is asked before a pass is loaded, and when it settles.
 */
const FILES_MAX = 59;

it('one job goes from its request to its settlement through no more files than it did', {
  timeout: 60_000,
}, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/one-job.ts', '--json'], {
    cwd: project,
  });
  const { files, functions } = JSON.parse(stdout) as {
    readonly files: readonly { readonly file: string; readonly functions: number }[];
    readonly functions: number;
  };
  const names = files.map(({ file }) => file);
  expect(names.length).toBeLessThanOrEqual(FILES_MAX);
  expect(functions).toBe(files.reduce((sum, each) => sum + each.functions, 0));
  // Each part of the way was gone, or the count would say nothing.
  for (const part of [
    'request',
    'submit',
    'pass/plan',
    'pass/admit',
    'pass/send',
    'settle/settled',
    'outcomes',
  ])
    expect(names).toContain(`lib/dispatch/${part}.ts`);
  expect(names).toContain('lib/worker/run-job.ts');
  expect(names).toContain('lib/core/scheduler.ts');
});
