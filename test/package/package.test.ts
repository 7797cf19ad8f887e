/** The packed package, as those see it who install it: as ES modules and as CommonJS modules, and no larger than it says. */
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describedObjects } from '../configuration-page.ts';
import { appWith, manifest, type Packed, packPackage, project } from './pack.ts';

const run = promisify(execFile);
const WAIT_MS = 180_000;
/**
 * Nobody should have to wait for more. Raise them for a reason: all that is there comes twice, for ESM and for CommonJS. The bundled MCP SDK
 * is 0.33 MB of it, once, in place of a dependency of 8 MB.
 */
const BUDGET = { packedBytes: 1_750_000, unpackedBytes: 7_600_000 } as const;

/** By entry: some of what it must export. */
const ENTRIES: Readonly<Record<string, readonly string[]>> = {
  fairlead: ['Scheduler', 'ConfigurationError', 'FUNCTION_BUNDLING', 'schedulerOutputs', 'EnvironmentError'],
  'fairlead/jobs': ['defineJobs', 'job', 'only'],
  'fairlead/client': ['SchedulerClient', 'JobFailedError', 'ValidationError'],
  'fairlead/worker': [
    'worker',
    'fromSqsHandler',
    'PermanentError',
    'RetryAfterError',
    'CooldownError',
    'cooldownFrom',
  ],
  'fairlead/fleet-worker': [
    'runFleetWorker',
    'PermanentError',
    'RetryAfterError',
    'CooldownError',
    'cooldownFrom',
  ],
  'fairlead/http': ['httpApp'],
  'fairlead/otel': ['traceJobs', 'traceSubmissions'],
  'fairlead/events': ['DETAIL_TYPE', 'EVENT_DETAILS', 'eventSchema'],
  'fairlead/metrics': ['METRICS', 'METRICS_NAMESPACE'],
  'fairlead/testing': ['startEmulator', 'emulatorEnvironment'],
};

let packed: Packed;
let app: string;

/** Two declared jobs and so many more, in the three parts of an app that take them: a scheduler, a worker and a producer. */
const appOf = (count: number): string => {
  const names = Array.from({ length: count }, (_, at) => `job${at}`);
  const declared = names.map(
    (name, at) => `  ${name}: job({
    payload: z.object({ key: z.string(), width${at}: z.number().int().optional(), tags: z.array(z.string()), at: z.coerce.date() }),
    result: z.object({ url: z.string(), height${at}: z.number() }),
    resourceId: (payload) => payload.key,
  }),`,
  );
  const handlers = names.map(
    (name, at) =>
      `  ${name}: async ({ key, at, width${at} = 1 }, { step }) => ({ url: await step(key, () => at.toISOString()), height${at}: width${at} }),`,
  );
  const calls = names.flatMap((name, at) => [
    `  const handle${at} = await client.submit('${name}', { key: 'a', tags: [], at: 'today' }, { runAt: '+10m' });`,
    `  const height${at}: number = (await handle${at}.result({ timeout: '1m' })).height${at};`,
    `  await client.run({ type: '${name}', payload: { key: 'a', tags: [], at: height${at} } });`,
  ]);
  return `import { App, Stack } from 'aws-cdk-lib';
import { Scheduler } from 'fairlead';
import { SchedulerClient } from 'fairlead/client';
import { runFleetWorker } from 'fairlead/fleet-worker';
import { defineJobs, job, only } from 'fairlead/jobs';
import { worker } from 'fairlead/worker';
import { z } from 'zod';
export const jobs = defineJobs({
  thumbnail: job({ payload: z.object({ key: z.string() }) }),
  report: job<{ readonly month: number }, { readonly url: string }>(),
${declared.join('\n')}
});
const stack = new Stack(new App(), 'Jobs');
new Scheduler(stack, 'Scheduler', {
  jobs,
  types: { thumbnail: { maxConcurrency: 3, timeoutMs: '10m' } },
  fleets: { all: { types: ['thumbnail', 'report'] } },
});
export const handler = worker(jobs, {
  thumbnail: async ({ key }) => key,
  report: ({ month }) => ({ url: String(month) }),
${handlers.join('\n')}
});
const client = SchedulerClient.for(jobs);
export async function produce(): Promise<void> {
  await runFleetWorker(only(jobs, 'report'), { report: ({ month }) => ({ url: String(month) }) });
  await client.submitMany([{ type: 'report', payload: { month: 3 } }, { type: 'thumbnail', payload: { key: 'a' } }]);
${calls.join('\n')}
}
`;
};

/** Half again as many as fifty types need. */
const INSTANTIATIONS_MAX = 98_000;

/** The ways in which users compile. */
const COMPILERS = {
  NodeNext: { options: { module: 'NodeNext', moduleResolution: 'NodeNext' }, isModule: true },
  CommonJS: { options: { module: 'NodeNext', moduleResolution: 'NodeNext' }, isModule: false },
  bundler: { options: { module: 'ESNext', moduleResolution: 'bundler' }, isModule: true },
} as const;

/** What tsc says of a program: the first lines of its errors, how many types it instantiated, and the seconds that it took. */
async function compiled(
  program: string,
  options: object,
  isModule = true,
): Promise<{
  readonly errors: readonly string[];
  readonly instantiations: number;
  readonly checkSec: number;
  readonly totalSec: number;
}> {
  const folder = await mkdtemp(join(app, 'typed-'));
  await writeFile(join(folder, 'package.json'), JSON.stringify({ type: isModule ? 'module' : 'commonjs' }));
  await writeFile(join(folder, 'app.ts'), program);
  const compilerOptions = {
    ...options,
    target: 'ES2024',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
    types: ['node'],
  };
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['app.ts'] }));
  const tsc = join(project, 'node_modules/typescript/bin/tsc');
  // Several checkers would count what they share several times.
  const given = [tsc, '--project', folder, '--singleThreaded', '--extendedDiagnostics'];
  const { stdout } = await run(process.execPath, given, { cwd: app }).catch(
    (error: { readonly stdout: string }) => error,
  );
  const measured = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+([\\d.]+)`, 'm').exec(stdout)?.[1] ?? Number.NaN);
  return {
    errors: Array.from(
      stdout.matchAll(/^\S*app\.ts\(\d+,\d+\): error TS\d+: (.*)$/gm),
      ([, line = '']) => line,
    ),
    instantiations: measured('Instantiations'),
    checkSec: measured('Check time'),
    totalSec: measured('Total time'),
  };
}

const node = async (...given: readonly string[]): Promise<string> =>
  (await run(process.execPath, given, { cwd: app })).stdout.trim();

beforeAll(async () => {
  packed = await packPackage();
  app = await appWith(packed);
}, WAIT_MS);
afterAll(async () => {
  for (const folder of [packed.folder, app]) await rm(folder, { recursive: true, force: true });
});

describe('the package', { timeout: WAIT_MS }, () => {
  it('stays within its budget, and has nothing in it that nobody can use', async () => {
    expect(packed.size).toBeLessThan(BUDGET.packedBytes);
    expect(packed.unpackedSize).toBeLessThan(BUDGET.unpackedBytes);
    const paths = packed.files.map(({ path }) => path);
    expect(
      paths.filter(
        (path) =>
          /\.(test|long)\.|^(test|examples|bench)\/|decisions|\.ts$/.test(path) &&
          !path.endsWith('.d.ts') &&
          !path.endsWith('.d.mts'),
      ),
    ).toEqual([]);
    expect(
      paths.filter(
        (path) =>
          path.startsWith('dist/cdk/app') ||
          path.includes('launch') ||
          // What only a shell runs is no CommonJS module of anybody's.
          // The test kit prints explanations as the shell does.
          /^dist\/cjs\/lib\/(simulate\/|cli\/(?!(explanation|report|views)\.))/.test(path),
      ),
    ).toEqual([]);
    for (const path of ['emulator.py', 'guard.py', 'requirements.txt', 'lock.mjs'])
      expect(paths).toContain(`dist/lib/testing/${path}`);
    for (const folder of ['dist', 'dist/cjs'])
      expect(paths).toContain(`${folder}/lib/worker/guard-thread.js`);
    for (const name of await readdir(join(project, 'functions')))
      expect(paths).toContain(`dist/functions/${name.replace(/\.ts$/, '.js')}`);
  });

  it('has no page that leads to a file or a heading which is not in it', async () => {
    const folder = join(app, 'node_modules/fairlead');
    const headingsOf = async (path: string): Promise<readonly string[]> =>
      [...(await readFile(join(folder, path), 'utf8')).matchAll(/^#+ (.*)$/gm)].map(({ 1: title = '' }) =>
        title
          .toLowerCase()
          .replace(/[^\p{L}\p{N} _-]/gu, '')
          .replaceAll(' ', '-'),
      );
    const paths = packed.files.map(({ path }) => path);
    const broken: string[] = [];
    let followed = 0;
    for (const page of paths.filter((path) => path.endsWith('.md'))) {
      const text = await readFile(join(folder, page), 'utf8');
      for (const { 1: link = '' } of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^https?:/.test(link)) continue;
        followed += 1;
        const [file = '', heading] = link.split('#');
        const path = file === '' ? page : posix.join(posix.dirname(page), file);
        const isThere =
          paths.includes(path) &&
          (heading === undefined || (await headingsOf(path)).includes(heading.toLowerCase()));
        if (!isThere) broken.push(`${page}: ${link}`);
      }
    }
    expect(broken).toEqual([]);
    expect(followed).toBeGreaterThan(20);
  });

  it('loads nothing of the test kit, the development server or the HTTP server into clients, workers and stacks', async () => {
    const dist = join(app, 'node_modules/fairlead/dist');
    const { exports } = await manifest();
    const importedBy = async (name: string): Promise<readonly string[]> => {
      const entry = exports[name];
      if (entry === undefined || typeof entry === 'string') throw new Error(`the package exports no ${name}`);
      const found = new Set([entry.import.default.replace('./dist/', '')]);
      for (const path of found) {
        const text = await readFile(join(dist, path), 'utf8');
        for (const { 1: to = '' } of text.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+)['"]/g))
          found.add(posix.join(posix.dirname(path), to));
      }
      return [...found];
    };
    for (const name of ['./jobs', './client', './worker', './fleet-worker', '.']) {
      const imported = await importedBy(name);
      expect(imported.length, name).toBeGreaterThan(name === './jobs' ? 1 : 20);
      expect(imported.filter((path) => /^lib\/(testing|local|dev|http|cli|simulate)\//.test(path))).toEqual(
        [],
      );
    }
    expect(await importedBy('./testing')).toContain('lib/local/scheduler.js');
  });

  it('has types that name nothing which whoever installs it does not have', async () => {
    const declared = packed.files.filter(({ path }) => path.endsWith('.d.ts'));
    for (const { path } of declared) {
      const types = await readFile(join(app, 'node_modules/fairlead', path), 'utf8');
      // Its own types import an optional package: see lib/runtime/lambda.ts.
      expect(types, path).not.toMatch(/from '@middy/);
    }
  });

  it('has types that TypeScript 5.6 reads: its typed arrays have no parameter', async () => {
    const generic: string[] = [];
    for (const { path } of packed.files) {
      if (!path.endsWith('.d.ts')) continue;
      const text = await readFile(join(app, 'node_modules/fairlead', path), 'utf8');
      if (/\b(?:Float|Int|Uint)\d+(?:Clamped)?Array</.test(text)) generic.push(path);
    }
    expect(generic).toEqual([]);
  });

  it('is built by npm whenever it is packed, as it is here', async () => {
    const { scripts } = await manifest();
    expect(scripts.prepack).toBe('npm run --silent build');
    expect(scripts.build).toMatch(/ build\.ts$/);
  });

  it('exports what it says, and nothing is missing here', async () => {
    const { exports } = await manifest();
    const modules = Object.keys(exports).filter((name) => !name.endsWith('.json'));
    expect(modules.map((name) => join('fairlead', name)).toSorted()).toEqual(Object.keys(ENTRIES).toSorted());
  });

  it.each(Object.entries(ENTRIES))('%s is imported, and required, with %j', async (entry, names) => {
    const script = `const m = await import(${JSON.stringify(entry)}); console.log(Object.keys(m).join())`;
    expect((await node('--input-type=module', '--eval', script)).split(',')).toEqual(
      expect.arrayContaining([...names]),
    );
    // Without the engine's own way to require an ES module, which a test runner need not have.
    const required = `console.log(Object.keys(require(${JSON.stringify(entry)})).join())`;
    const asCommonJs = await node('--no-experimental-require-module', '--eval', required);
    expect(asCommonJs.split(',')).toEqual(expect.arrayContaining([...names]));
  });

  it.each(Object.entries(COMPILERS))(
    'has types with which the scheduler, worker and producer of fifty declared jobs compile: %s',
    async (way, { options, isModule }) => {
      const { errors, instantiations, checkSec, totalSec } = await compiled(appOf(48), options, isModule);
      console.info(`tsc, ${way}: ${instantiations} types, checked in ${checkSec} s of ${totalSec} s`);
      expect(errors).toEqual([]);
      // A count, because a time differs from machine to machine.
      expect(instantiations).toBeLessThan(INSTANTIATIONS_MAX);
    },
  );

  it.each(['dist', 'dist/cjs'])(
    'has types whose comments are those of the page of the configuration: %s',
    async (folder) => {
      const types = join(app, 'node_modules/fairlead', folder, 'lib/core/pool-input.d.ts');
      const described = await describedObjects();
      expect(await describedObjects(types)).toEqual(described);
      expect(described.size).toBeGreaterThan(5);
    },
  );

  it('has types with which a wrong name does not compile, and says why in its first line', async () => {
    const mistakes = [
      "new Scheduler(stack, 'A', { jobs, types: { thumbnial: {} } });",
      "new Scheduler(stack, 'B', { jobs, fleets: { a: { types: ['thumbnial'] } } });",
      "new Scheduler(stack, 'C', { jobs: { thumbnail: 'thumbnail' } });",
      "new Scheduler(stack, 'S', { jobs, schedules: { a: { cron: '@daily', type: 'raport' } } });",
      "new Scheduler(stack, 'D', { jobs, types: { thumbnail: { timeoutMs: true } } });",
    ];
    const { errors } = await compiled(`${appOf(0)}\n${mistakes.join('\n')}\n`, COMPILERS.NodeNext.options);
    expect(errors).toEqual([
      `Object literal may only specify known properties, but 'thumbnial' does not exist in type 'SettingsByName<"report" | "thumbnail">'. Did you mean to write 'thumbnail'?`,
      `Type '"thumbnial"' is not assignable to type '"report" | "thumbnail"'. Did you mean '"thumbnail"'?`,
      "Type 'string' is not assignable to type 'AnyJobDefinition'.",
      `Type '"raport"' is not assignable to type '"report" | "thumbnail"'. Did you mean '"report"'?`,
      "Type 'true' is not assignable to type 'DurationInput | undefined'.",
    ]);
  });

  it('is bundled for a worker, with middy and all else inside', async () => {
    const { outputFiles } = await build({
      stdin: {
        contents:
          "import { worker } from 'fairlead/worker'; export const handler = worker({ a: async () => 1 });",
        resolveDir: app,
      },
      bundle: true,
      format: 'esm',
      platform: 'node',
      write: false,
      mainFields: ['module', 'main'],
    });
    expect(outputFiles[0]?.text).toContain('DynamoDB_20120810');
  });

  it('has the schemas of the events beside it', async () => {
    const path = await node('--print', "require.resolve('fairlead/schemas/requested.json')");
    expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ title: 'The detail of Job Requested' });
  });

  it('tells its version, and which Node.js it needs', async () => {
    const { version, engines } = await manifest();
    expect(await node('node_modules/fairlead/dist/lib/cli/main.js', '--version')).toBe(version);
    expect(engines.node).toBe('>=22');
  });

  it('synthesises a stack with every function from its CommonJS modules', async () => {
    const script = `
      const { App, Stack } = require('aws-cdk-lib');
      const { Scheduler } = require('fairlead');
      const app = new App({ outdir: 'cdk.out', analyticsReporting: false });
      new Scheduler(new Stack(app, 'S'), 'Jobs', {
        fleets: { pdf: { types: ['pdf'] } },
        largePayloads: {},
        api: true,
      });
      console.log(app.synth().stacks.length);`;
    expect(await node('--eval', script)).toBe('1');
  });
});
