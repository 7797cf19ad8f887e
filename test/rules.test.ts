/** What `npm run check` refuses: each of its tools meets a small tree with one thing wrong, and says so. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  DEAD_CODE,
  FORMAT_AND_LINT,
  IMPORT_DIRECTIONS,
  type Tool,
  TYPES,
  UNUSED_IN_PRODUCTION,
} from './tools.ts';

const project = resolve(import.meta.dirname, '..');
const CONFIGURATIONS = [
  'biome.json',
  'knip.json',
  'tsconfig.json',
  '.dependency-cruiser.cjs',
  'package.json',
];
const FOLDERS = ['lib', 'functions', 'cdk', 'examples', 'bench', 'test'];
const WAIT_MS = 120_000;

interface Planted {
  readonly tool: Tool;
  readonly path: string;
  readonly text: string;
  /** What the tool's output names, beside the path. */
  readonly rule: string;
}

const lines = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => `${line(at)}\n`).join('');

/** A function of the complexity 3 n: conditions within conditions. */
const nested = (name: string, depth: number): string => {
  const open = lines(depth, (at) => `${'  '.repeat(at + 1)}if (values[${at}] === ${at}) {`);
  const close = lines(depth, (at) => `${'  '.repeat(depth - at)}}`);
  return `export function ${name}(values: readonly number[]): number {\n${open}${'  '.repeat(depth + 1)}return ${depth};\n${close}  return 0;\n}\n`;
};

const long = (name: string, statements: number): string =>
  `export function ${name}(values: number[]): void {\n${lines(statements, (at) => `  values.push(${at});`)}}\n`;

const PLANTED: Readonly<Record<string, Planted>> = {
  'a value of another type': {
    tool: TYPES,
    path: 'lib/planted/type.ts',
    text: "export const count: number = 'one';\n",
    rule: 'TS2322',
  },
  'a function of a complexity over 20': {
    tool: FORMAT_AND_LINT,
    path: 'lib/planted/complex.ts',
    text: nested('complex', 6),
    rule: 'noExcessiveCognitiveComplexity',
  },
  'a function of more than 80 lines': {
    tool: FORMAT_AND_LINT,
    path: 'functions/planted-function.ts',
    text: long('tooLong', 81),
    rule: 'noExcessiveLinesPerFunction',
  },
  'a file of more than 600 lines': {
    tool: FORMAT_AND_LINT,
    path: 'cdk/planted-file.ts',
    text: lines(601, (at) => `export const value${at} = ${at};`),
    rule: 'noExcessiveLinesPerFile',
  },
  'a non-null assertion': {
    tool: FORMAT_AND_LINT,
    path: 'lib/planted/assertion.ts',
    text: 'export const first = (values: readonly number[]): number => values[0]!;\n',
    rule: 'noNonNullAssertion',
  },
  'an import against the direction': {
    tool: IMPORT_DIRECTIONS,
    path: 'lib/core/planted.ts',
    text: "import 'node:fs';\n\nexport const here = true;\n",
    rule: 'core-is-pure',
  },
  'an SDK in the module of declared jobs': {
    tool: IMPORT_DIRECTIONS,
    path: 'lib/jobs/planted.ts',
    text: "import '../client/aws.ts';\n\nexport const here = true;\n",
    rule: 'declared-jobs-know-only-core',
  },
  'an export that nothing uses': {
    tool: DEAD_CODE,
    path: 'lib/planted/used.ts',
    text: 'export const used = true;\nexport const forgotten = true;\n',
    rule: 'forgotten',
  },
  'a file that nothing uses': {
    tool: DEAD_CODE,
    path: 'lib/planted/lost.ts',
    text: 'export const lost = true;\n',
    rule: 'Unused files',
  },
  'an export that only its test uses': {
    tool: UNUSED_IN_PRODUCTION,
    path: 'lib/planted/tested.ts',
    text: 'export const used = true;\nexport const tested = true;\n',
    rule: 'tested',
  },
  'a file that only its test uses': {
    tool: UNUSED_IN_PRODUCTION,
    path: 'lib/planted/helper.ts',
    text: 'export const help = true;\n',
    rule: 'Unused files',
  },
};

/** What the planted files need to be there, and what no tool finds fault with: the limits themselves. */
const GOOD: Readonly<Record<string, string>> = {
  'cdk/app.ts':
    "import { used as one } from '../lib/planted/tested.ts';\nimport { used } from '../lib/planted/used.ts';\n\nconsole.log(one, used);\n",
  'test/planted.test.ts':
    "import { help } from '../lib/planted/helper.ts';\nimport { tested } from '../lib/planted/tested.ts';\n\nconsole.log(help, tested);\n",
  'lib/planted/limits.ts': `${nested('complexEnough', 5)}\n${long('longEnough', 78)}`,
  'functions/short-enough.ts': lines(600, (at) => `export const value${at} = ${at};`),
};

describe('what npm run check finds in a tree with one of each wrong', () => {
  let tree: string;
  const outputs = new Map<Tool, { readonly code: number; readonly text: string }>();

  const run = ([, command, ...args]: Tool): Promise<{ readonly code: number; readonly text: string }> =>
    new Promise((done) => {
      const env = { ...process.env, NO_COLOR: '1' };
      const bin = join(project, 'node_modules/.bin', command);
      execFile(bin, args, { cwd: tree, env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
        done({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
      );
    });

  beforeAll(async () => {
    tree = await mkdtemp(join(tmpdir(), 'fairlead-rules-'));
    for (const name of CONFIGURATIONS) await copyFile(join(project, name), join(tree, name));
    await symlink(join(project, 'node_modules'), join(tree, 'node_modules'));
    for (const folder of FOLDERS) await mkdir(join(tree, folder), { recursive: true });
    const files = [...Object.entries(GOOD), ...Object.values(PLANTED).map(({ path, text }) => [path, text])];
    for (const [path, text] of files as [string, string][]) {
      await mkdir(dirname(join(tree, path)), { recursive: true });
      await writeFile(join(tree, path), text);
    }
    for (const tool of new Set(Object.values(PLANTED).map((planted) => planted.tool)))
      outputs.set(tool, await run(tool));
  }, WAIT_MS);
  afterAll(() => rm(tree, { recursive: true, force: true }));

  it.each(Object.entries(PLANTED))('is %s', (_, { tool, path, rule }) => {
    const output = outputs.get(tool);
    expect(output?.code).toBeGreaterThan(0);
    expect(output?.text).toContain(path);
    expect(output?.text).toContain(rule);
  });

  it('is not, for who counts tests as users, what a test uses', () => {
    for (const path of ['lib/planted/tested.ts', 'lib/planted/helper.ts'])
      expect(outputs.get(DEAD_CODE)?.text).not.toContain(path);
  });

  it('is nothing in the files that keep to the limits', () => {
    for (const tool of [TYPES, FORMAT_AND_LINT, IMPORT_DIRECTIONS])
      for (const path of Object.keys(GOOD)) expect(outputs.get(tool)?.text).not.toContain(path);
  });
});
