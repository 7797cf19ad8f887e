/** Bundles the dashboard's page into a folder of static files, from which `lib/dashboard/server.ts` serves it. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const source = join(import.meta.dirname, 'lib/dashboard/page');

/** @param folder - a folder that is replaced */
export async function buildPage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await build({
    entryPoints: [join(source, 'main.tsx'), join(source, 'style.css')],
    outdir: folder,
    bundle: true,
    // The chart, which is imported where it is needed, becomes a file of its own.
    splitting: true,
    format: 'esm',
    target: ['chrome120', 'firefox121', 'safari17'],
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    logLevel: 'warning',
  });
  for (const name of ['index.html', 'icon.svg']) cpSync(join(source, name), join(folder, name));
  // The licences ask to be passed on with the code.
  const licences = ['preact', 'uplot'].map(
    (name) =>
      `${name}\n\n${readFileSync(join(import.meta.dirname, 'node_modules', name, 'LICENSE'), 'utf8')}`,
  );
  writeFileSync(join(folder, 'LICENSES.txt'), licences.join('\n'));
}
