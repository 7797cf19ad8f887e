/**
 * Loads a user's module and its configuration, in TypeScript or JavaScript. With esbuild, which a project may have, the user's
 * sources become one file, and packages stay outside it; without it, Node.js takes the types out itself. Either way, the
 * package's own modules are those of this process.
 */
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join, resolve, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ConfigurationError, EnvironmentError } from '../core/errors.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { LocalDeclaration } from '../local/pool.ts';
import type { ReadHandling } from '../worker/handlers.ts';
import type { JobHandlers } from '../worker/run-job.ts';
import { handlingOf, startedProcesses } from './stand-in.ts';

/** The contents of a user's module and configuration. */
export interface LoadedApp {
  /** The declared jobs; undefined if the jobs are not declared. */
  readonly jobs: Jobs | undefined;
  readonly handlers: JobHandlers;
  readonly declaration: LocalDeclaration;
  /** Payloads by type, for samples. */
  readonly samples: Readonly<Record<string, unknown>>;
  /** The files that it was made from. */
  readonly files: readonly string[];
}

const CONFIGURATIONS = [
  'fairlead.config.ts',
  'fairlead.config.mts',
  'fairlead.config.js',
  'fairlead.config.mjs',
];

const own = (path: string): string =>
  new URL(`../${path}${extname(import.meta.filename)}`, import.meta.url).href;
/** The package's modules, as users name them. */
const OWN_MODULES: Readonly<Record<string, string>> = {
  'fairlead/worker': own('dev/stand-in'),
  'fairlead/fleet-worker': own('dev/stand-in'),
  'fairlead/jobs': own('jobs/jobs'),
  'fairlead/client': own('client/aws'),
};

/**
 * Loads a user's module and its configuration.
 * @param asked - takes the paths that the user's files import, also those at which there is no file
 * @throws EnvironmentError - the module is TypeScript, and nothing here reads it
 */
export async function loadApp(
  module: string | undefined,
  cwd: string,
  asked: Set<string>,
): Promise<LoadedApp> {
  const config = CONFIGURATIONS.map((name) => join(cwd, name)).find((path) => existsSync(path));
  const entry = module === undefined ? undefined : resolve(cwd, module);
  if (entry === undefined && config === undefined)
    throw new ConfigurationError(
      'module',
      module,
      'must be named',
      `Write fairlead dev src/worker.ts, or add ${CONFIGURATIONS[0]}.`,
    );
  if (entry !== undefined && !existsSync(entry))
    throw new ConfigurationError(
      'module',
      module,
      'does not exist',
      'Name the file that exports worker(jobs, handlers).',
    );
  startedProcesses().length = 0;
  const loaded = await importFresh(
    [entry, config].filter((path) => path !== undefined),
    cwd,
    asked,
  );
  const exported = loaded.modules.flatMap((each) => Object.values(each as object));
  const found = exported.flatMap((value) => handlingOf(value) ?? []);
  const configuration =
    config === undefined ? {} : ((loaded.modules.at(-1) as { default?: unknown }).default ?? {});
  return { ...appOf([...found, ...startedProcesses()], configuration), files: loaded.files };
}

function appOf(handlings: readonly ReadHandling<object>[], given: unknown): Omit<LoadedApp, 'files'> {
  if (typeof given !== 'object' || given === null)
    throw new ConfigurationError(
      'default',
      given,
      'must be an object',
      'Write export default { types: { … } }.',
    );
  const {
    jobs: declared,
    samples = {},
    ...declaration
  } = given as LocalDeclaration & {
    readonly jobs?: Jobs;
    readonly samples?: LoadedApp['samples'];
  };
  if (handlings.length === 0)
    throw new ConfigurationError(
      'module',
      undefined,
      'exports no worker',
      'Write export const handler = worker(jobs, { … }).',
    );
  const merged = Object.assign({}, declared, ...handlings.map(({ jobs }) => jobs ?? {})) as Jobs;
  const handlers = Object.assign({}, ...handlings.map((each) => each.handlers)) as JobHandlers;
  if (Object.keys(merged).length > 0) return { jobs: merged, handlers, declaration, samples };
  // Without declared jobs, the handlers name the types, as fleets do in a stack.
  const types = declaration.types ?? Object.fromEntries(Object.keys(handlers).map((type) => [type, {}]));
  return { jobs: undefined, handlers, declaration: { ...declaration, types }, samples };
}

interface Imported {
  readonly modules: readonly unknown[];
  readonly files: readonly string[];
}

let imports = 0;
const RELATIVE = /^\.\.?\//;

async function importFresh(paths: readonly string[], cwd: string, asked: Set<string>): Promise<Imported> {
  imports += 1;
  const esbuild = await loadEsbuild(cwd);
  if (esbuild !== undefined) return bundled(esbuild, paths, cwd, asked);
  const { registerHooks } = await import('node:module');
  const isTypeScript = paths.some((path) => /\.[mc]?ts$/.test(path));
  if (isTypeScript && (process.features.typescript === false || typeof registerHooks !== 'function'))
    throw new EnvironmentError(
      `Node.js ${process.versions.node} does not read TypeScript by itself: npm install --save-dev esbuild, or use Node.js 24`,
      { setting: 'esbuild' },
    );
  const files = new Set<string>();
  const turn = `?dev=${imports}`;
  const hooks = registerHooks({
    resolve: (specifier, context, next) => {
      const ours = OWN_MODULES[specifier];
      if (ours !== undefined) return { url: ours, shortCircuit: true };
      const isAsked = context.parentURL?.endsWith(turn) === true;
      if (isAsked && RELATIVE.test(specifier))
        asked.add(fileURLToPath(new URL(specifier, context.parentURL)));
      const found = next(specifier, context);
      // The user's own files are read again each time.
      const isUsers = isAsked && found.url.startsWith('file:') && !found.url.includes('/node_modules/');
      if (!isUsers) return found;
      files.add(found.url);
      return { ...found, url: `${found.url}${turn}` };
    },
  });
  try {
    const modules: unknown[] = [];
    for (const path of paths)
      modules.push(await import(/* @vite-ignore */ `${pathToFileURL(path).href}${turn}`));
    return { modules, files: [...paths, ...[...files].map((url) => fileURLToPath(url))] };
  } finally {
    hooks.deregister();
  }
}

type Esbuild = typeof import('esbuild');
type BuildFailure = import('esbuild').BuildFailure;

async function loadEsbuild(cwd: string): Promise<Esbuild | undefined> {
  try {
    const path = createRequire(join(cwd, 'package.json')).resolve('esbuild');
    const { default: esbuild, ...named } = (await import(pathToFileURL(path).href)) as {
      default?: Esbuild;
    } & Esbuild;
    return esbuild ?? (named as Esbuild);
  } catch {
    // esbuild is an optional peer dependency. Without it Node.js loads the sources itself.
    return undefined;
  }
}

async function bundled(
  esbuild: Esbuild,
  paths: readonly string[],
  cwd: string,
  asked: Set<string>,
): Promise<Imported> {
  // The file is written beside the user's packages, so that Node.js finds these.
  const folder = join(
    cwd,
    existsSync(join(cwd, 'node_modules')) ? 'node_modules' : '',
    `.fairlead-dev-${process.pid}-${imports}`,
  );
  // Errors of handlers show the user's own files.
  process.setSourceMapsEnabled(true);
  const building = esbuild.build({
    entryPoints: paths.map((path, at) => ({ in: path, out: `module-${at}` })),
    outdir: folder,
    sourceRoot: `${pathToFileURL(folder)}/`,
    absWorkingDir: cwd,
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    outExtension: { '.js': '.mjs' },
    sourcemap: 'inline',
    metafile: true,
    logLevel: 'silent',
    packages: 'external',
    plugins: [
      {
        name: 'fairlead-dev',
        setup: (build) => {
          build.onResolve({ filter: /^fairlead\// }, ({ path }) => {
            const ours = OWN_MODULES[path];
            return ours === undefined ? undefined : { path: ours, external: true };
          });
          build.onResolve({ filter: RELATIVE }, ({ path, resolveDir }) => {
            asked.add(resolve(resolveDir, path));
            return undefined;
          });
        },
      },
    ],
  });
  const { outputFiles = [], metafile } = await building.catch((error: unknown): never => {
    throw notBuilt(error);
  });
  await mkdir(folder, { recursive: true });
  try {
    const modules: unknown[] = [];
    for (const [at] of paths.entries()) {
      const file = outputFiles.find(({ path }) => path.endsWith(`module-${at}.mjs`));
      const target = join(folder, `module-${at}.mjs`);
      await writeFile(target, file?.contents ?? '');
      modules.push(await import(/* @vite-ignore */ pathToFileURL(target).href));
    }
    return { modules, files: Object.keys(metafile?.inputs ?? {}).map((path) => resolve(cwd, path)) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The error of a module that is no program, in one sentence. */
function notBuilt(error: unknown): unknown {
  const { errors } = error as Partial<BuildFailure>;
  const [first] = errors ?? [];
  if (first === undefined) return error;
  const { text, location } = first;
  const place = location === null ? '' : `${location.file}:${location.line}:${location.column + 1}: `;
  return new ConfigurationError('module', location?.file, `cannot be read: ${place}${text}`, 'Correct it.');
}

/** Returns the folders of files, which are watched for changes; for a folder that is missing, the one in which it would be. */
export const foldersOf = (files: ReadonlySet<string>): readonly string[] => [
  ...new Set([...files].filter((file) => !file.includes('node_modules')).map(existingFolderOf)),
];

function existingFolderOf(path: string): string {
  const folder = dirname(path);
  return existsSync(folder) || folder === path ? folder : existingFolderOf(folder);
}

/** Whether a change at `path` may be one of a file: imports may leave its extension out, or write another. */
export const isOneOf = (files: ReadonlySet<string>, path: string): boolean => {
  const stem = withoutExtension(path);
  return [...files].some((file) => withoutExtension(file) === stem || file.startsWith(`${path}${sep}`));
};

const withoutExtension = (path: string): string => path.slice(0, path.length - extname(path).length);
