/**
 * `npm run build`: makes `dist/`, the package as it is published. ES modules by TypeScript, the same as CommonJS modules
 * for whoever cannot import those (see docs/decisions/package.md), the JSON Schemas of
 * events, and what the embedded emulator needs beside its code.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { buildPage } from './build-page.ts';
import { EVENT_DETAILS, type EventKind, eventSchema } from './lib/client/events.ts';

const project = import.meta.dirname;

const IMPORTED = /\b(?:from|import)\s*\(?['"](\.[^'"]+)['"]/g;
/** Started by its path, as a thread. */
const THREADS = ['lib/worker/guard-thread'];
const isDeclaration = (path: string): boolean => /\.d\.m?ts$/.test(path);
/** Of what there are ES modules only, a copy stands in the CommonJS module that asks for it. */
const INLINED = /^(@middy\/|\.\/lock\.mjs)/;
const ASSETS = ['emulator.py', 'guard.py', 'requirements.txt', 'lock.mjs', 'lock.d.mts'];

/** Leaves every import as it is, but those of `INLINED`. */
const outside: Plugin = {
  name: 'outside',
  setup: ({ onResolve }) => {
    onResolve({ filter: /.*/ }, ({ kind, path, importer }) => {
      const isOurs = !importer.includes('node_modules') && !importer.endsWith('.mjs');
      const isInside = kind === 'entry-point' || INLINED.test(path) || (path.startsWith('.') && !isOurs);
      return isInside ? undefined : { path, external: true };
    });
  },
};

/** What the package exports, and its threads: as paths inside `dist`. */
function entriesOf(kind: 'default' | 'types'): readonly string[] {
  const { exports } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as {
    readonly exports: Readonly<
      Record<string, string | { readonly import: Readonly<Record<typeof kind, string>> }>
    >;
  };
  const modules = Object.values(exports).filter((each) => typeof each !== 'string');
  const threads = THREADS.map((path) => `${path}${kind === 'types' ? '.d.ts' : '.js'}`);
  return [...modules.map((each) => each.import[kind].replace('./dist/', '')), ...threads];
}

/** Modules that an entry of the package is, or imports, or any of those does: as paths inside `dist`. */
function reachable(dist: string, entries: readonly string[]): readonly string[] {
  const found = new Set(entries);
  for (const path of found)
    for (const [, name = ''] of readFileSync(join(dist, path), 'utf8').matchAll(IMPORTED)) {
      const imported = join(dirname(path), name);
      if (isDeclaration(path)) found.add(imported.replace(/(?<!\.d)\.(m?)[jt]s$/, '.d.$1ts'));
      else if (!INLINED.test(name)) found.add(imported);
    }
  return [...found];
}

/** As CommonJS, beside the declarations of the types, which are the same. */
async function buildCommonJs(dist: string): Promise<void> {
  await build({
    entryPoints: reachable(dist, entriesOf('default')).map((path) => join(dist, path)),
    outdir: join(dist, 'cjs'),
    outbase: dist,
    format: 'cjs',
    platform: 'node',
    target: 'node22',
    bundle: true,
    // Where it builds into another folder.
    nodePaths: [join(project, 'node_modules')],
    plugins: [outside],
    define: { 'import.meta.url': 'fairleadModuleUrl' },
    banner: { js: "const fairleadModuleUrl = require('node:url').pathToFileURL(__filename).href;" },
    logLevel: 'warning',
  });
  const types = new Set(reachable(dist, entriesOf('types')));
  // Nobody imports the others, so nobody asks for their types.
  for (const path of readdirSync(dist, { recursive: true, encoding: 'utf8' }))
    if (isDeclaration(path) && !types.has(path)) rmSync(join(dist, path));
  for (const path of types) {
    const to = join(dist, 'cjs', path);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(join(dist, path), to);
  }
  writeFileSync(join(dist, 'cjs/package.json'), '{ "type": "commonjs" }\n');
}

/** Puts the MCP SDK into the module that exports it, with its licences. */
async function bundleMcp(dist: string): Promise<void> {
  const module = join(dist, 'lib/mcp/sdk.js');
  await build({
    entryPoints: [module],
    outfile: module,
    allowOverwrite: true,
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    external: ['zod', 'zod/*'],
    nodePaths: [join(project, 'node_modules')],
    legalComments: 'none',
    logLevel: 'warning',
  });
  const licence = readFileSync(join(project, 'node_modules/@modelcontextprotocol/server/LICENSE'), 'utf8');
  writeFileSync(join(dist, 'lib/mcp/LICENSES.txt'), `@modelcontextprotocol/server\n\n${licence}`);
}

/** @param dist - a folder that is replaced */
async function buildPackage(dist: string): Promise<void> {
  rmSync(dist, { recursive: true, force: true });
  const { status } = spawnSync('tsc', ['--project', 'tsconfig.build.json', '--outDir', dist], {
    cwd: project,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('tsc failed: see above');
  for (const name of ASSETS) cpSync(join(project, 'lib/testing', name), join(dist, 'lib/testing', name));
  await buildCommonJs(dist);
  await buildPage(join(dist, 'lib/dashboard/static'));
  await bundleMcp(dist);
  mkdirSync(join(dist, 'schemas'));
  for (const kind of Object.keys(EVENT_DETAILS) as EventKind[]) {
    const text = `${JSON.stringify(eventSchema(kind), null, 2)}\n`;
    writeFileSync(join(dist, 'schemas', `${kind}.json`), text);
  }
}

await buildPackage(resolve(process.argv[2] ?? join(project, 'dist')));
