import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

it('the way of one job from its request to its settlement is measured whole', {
  timeout: 60_000,
}, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/one-job.ts', '--json'], {
    cwd: project,
  });
  const { files, functions } = JSON.parse(stdout) as {
    readonly files: readonly { readonly file: string; readonly functions: number }[];
    readonly functions: number;
  };
  console.log(`One job enters ${functions} functions of ${files.length} files.`);
  expect(functions).toBe(files.reduce((sum, each) => sum + each.functions, 0));
  // From the client to the outcome, or the count says nothing.
  const names = files.map(({ file }) => file);
  for (const part of ['submit/submit', 'core/planner', 'worker/run-job', 'dispatch/outcomes'])
    expect(names).toContain(`lib/${part}.ts`);
});
