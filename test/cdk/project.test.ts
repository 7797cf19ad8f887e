/** Where functions are bundled from, in apps as people have them. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { placeOfProject } from '../../cdk/project.ts';

const made = realpathSync(mkdtempSync(join(tmpdir(), 'fairlead-project-')));
afterAll(() => rmSync(made, { recursive: true, force: true }));

/** A folder with these files in it, and the package among its modules. */
function app(name: string, ...files: readonly string[]): { readonly folder: string; readonly entry: string } {
  const folder = join(made, name);
  mkdirSync(join(folder, 'node_modules/fairlead'), { recursive: true });
  mkdirSync(join(folder, 'packages/infra'), { recursive: true });
  for (const file of files) writeFileSync(join(folder, file), '');
  return { folder, entry: join(folder, 'node_modules/fairlead/ingest.js') };
}

describe('functions are bundled', () => {
  it('where the CDK finds the one lock file, in the app’s folder or above it', () => {
    const { folder, entry } = app('locked', 'package-lock.json');
    expect(placeOfProject(entry, folder)).toEqual({});
    expect(placeOfProject(entry, join(folder, 'packages/infra'))).toEqual({});
  });

  it.each([
    ['without a lock file', []],
    ['with two', ['yarn.lock', 'package-lock.json']],
  ] as const)('in the folder of an app %s', (name, files) => {
    const { folder, entry } = app(name, ...files);
    expect(placeOfProject(entry, folder)).toEqual({ depsLockFilePath: entry, projectRoot: folder });
  });

  it('in the folder that holds both, where the package is linked from elsewhere', () => {
    const { entry } = app('library', 'pnpm-lock.yaml');
    const { folder } = app('linking', 'package-lock.json');
    expect(placeOfProject(entry, folder)).toEqual({ depsLockFilePath: entry, projectRoot: made });
  });
});
