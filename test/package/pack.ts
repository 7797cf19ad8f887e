/** The package as it would be published, made in a folder of its own: the project's `dist/` is left alone. */
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rename, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

export const project = resolve(import.meta.dirname, '../..');

const run = promisify(execFile);
const PUBLISHED = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'docs'];

export interface Packed {
  /** To be removed by the caller. */
  readonly folder: string;
  readonly tarball: string;
  readonly files: readonly { readonly path: string; readonly size: number }[];
  /** Bytes: of the tarball, and of what it holds. */
  readonly size: number;
  readonly unpackedSize: number;
}

/** Builds and packs. The lines of both are thrown when one of them fails. */
export async function packPackage(): Promise<Packed> {
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-package-'));
  for (const name of PUBLISHED) await cp(join(project, name), join(folder, name), { recursive: true });
  await run(process.execPath, ['build.ts', join(folder, 'dist')], { cwd: project });
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--json'], { cwd: folder });
  const [packed] = JSON.parse(stdout) as [Omit<Packed, 'folder' | 'tarball'> & { readonly filename: string }];
  return { ...packed, folder, tarball: join(folder, packed.filename) };
}

/** A folder of an app outside the project, with the packed package, and the project's packages as those it depends on. */
export async function appWith({ tarball }: Packed): Promise<string> {
  const app = await mkdtemp(join(tmpdir(), 'fairlead-app-'));
  const modules = join(app, 'node_modules');
  await mkdir(modules);
  await run('tar', ['-xzf', tarball, '-C', modules]);
  await rename(join(modules, 'package'), join(modules, 'fairlead'));
  // The CDK takes the folder that has one for the app's.
  await writeFile(join(app, 'package-lock.json'), '{}');
  for (const name of await readdir(join(project, 'node_modules')))
    if (name === '.bin' || !name.startsWith('.'))
      await symlink(join(project, 'node_modules', name), join(modules, name));
  return app;
}

export const manifest = async (): Promise<{
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, string | { readonly import: { readonly default: string } }>>;
}> => JSON.parse(await readFile(join(project, 'package.json'), 'utf8'));
