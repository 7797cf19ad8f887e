/** The package as it would be published, made in a folder of its own: the project's `dist/` is left alone. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile } from 'node:fs/promises';
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

export const manifest = async (): Promise<{
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly node: string };
  readonly exports: Readonly<Record<string, string | { readonly import: { readonly default: string } }>>;
}> => JSON.parse(await readFile(join(project, 'package.json'), 'utf8'));
