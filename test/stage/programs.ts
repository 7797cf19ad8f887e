/** Programs of a page, in a folder of their own, where the package's modules are the sources, and its workers and clients a test's. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll } from 'vitest';

const project = resolve(import.meta.dirname, '../..');
const sourceOf = (path: string): string => JSON.stringify(pathToFileURL(join(project, path)).href);

/** A function's handlers, which a stage runs. */
const WORKER = `
  import { readHandling } from ${sourceOf('lib/worker/handlers.ts')};
  export * from ${sourceOf('lib/worker/errors.ts')};
  export { fromSqsHandler } from ${sourceOf('lib/worker/sqs-handler.ts')};
  export const worker = (given, ...rest) => readHandling(given, rest).handlers;
`;
/** A process of the test: `runOnStage` gets its handlers and options. */
const FLEET_WORKER = `
  import { readHandling } from ${sourceOf('lib/worker/handlers.ts')};
  import { WORKER_CHECKS } from ${sourceOf('lib/worker/process/options.ts')};
  export * from ${sourceOf('lib/worker/errors.ts')};
  export const runFleetWorker = (given, ...rest) => globalThis.runOnStage(readHandling(given, rest, WORKER_CHECKS));
`;
/** The client that `clientOnStage` answers when it is used. */
const CLIENT = `
  export * from ${sourceOf('lib/client/aws.ts')};
  const clientOf = (jobs) => new Proxy({}, {
    get: (_, name) => {
      const client = globalThis.clientOnStage(jobs);
      const value = client[name];
      return typeof value === 'function' ? value.bind(client) : value;
    },
  });
  export const SchedulerClient = { for: clientOf, fromEnvironment: () => clientOf() };
`;
const MODULES: Readonly<Record<string, string>> = {
  'fairlead/worker': JSON.stringify('./worker.of-test.ts'),
  'fairlead/fleet-worker': JSON.stringify('./fleet-worker.of-test.ts'),
  'fairlead/client': JSON.stringify('./client.of-test.ts'),
  'fairlead/events': sourceOf('lib/client/events.ts'),
  'fairlead/jobs': sourceOf('lib/jobs/jobs.ts'),
  'fairlead/testing': sourceOf('lib/testing/index.ts'),
  fairlead: sourceOf('cdk/index.ts'),
};

export interface Programs {
  /** An app's folder: the programs stand in its `lib`. */
  readonly folder: string;
  /** The files that the page names in their first lines, `// lib/jobs.ts`; those of others are `program-0.ts`, by their place. */
  readonly names: readonly string[];
  readonly load: <Module>(name: string) => Promise<Module>;
}

/** The TypeScript programs of a page, until the test file has ended. */
export async function programsOf(page: string): Promise<Programs> {
  const text = await readFile(join(project, page), 'utf8');
  const blocks = Array.from(text.matchAll(/^```ts\n([\s\S]*?)^```$/gm), ([, block = '']) => block);
  await mkdir(join(project, '.fairlead'), { recursive: true });
  const folder = await mkdtemp(join(project, '.fairlead', 'programs-'));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const lib = join(folder, 'lib');
  await mkdir(lib);
  await writeFile(join(lib, 'worker.of-test.ts'), WORKER);
  await writeFile(join(lib, 'fleet-worker.of-test.ts'), FLEET_WORKER);
  await writeFile(join(lib, 'client.of-test.ts'), CLIENT);
  const names: string[] = [];
  for (const [at, block] of blocks.entries()) {
    const [, name = `program-${at}.ts`] = /^\/\/ lib\/(\S+)\n/.exec(block) ?? [];
    const ours = block.replaceAll(/from '(fairlead[\w/-]*)'/g, (all, from: string) =>
      MODULES[from] === undefined ? all : `from ${MODULES[from]}`,
    );
    await writeFile(join(lib, name), ours);
    names.push(name);
  }
  const load = <Module>(name: string): Promise<Module> => import(/* @vite-ignore */ join(lib, name));
  return { folder, names, load };
}
