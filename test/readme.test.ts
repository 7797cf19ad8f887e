/** What the README and the docs tell users to do works: commands are there, examples are accepted and type-check. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runProgram } from '../lib/cli/program.ts';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import { parseRequests } from '../lib/submit/request.ts';
import { readmeBeginning, SUBMIT } from './package/readme.ts';

const project = resolve(import.meta.dirname, '..');
const WAIT_MS = 120_000;

interface Block {
  readonly where: string;
  readonly language: string;
  readonly text: string;
}

interface Page {
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
}

async function readPage(path: string): Promise<Page> {
  const text = await readFile(join(project, path), 'utf8');
  const fences = [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)];
  const blocks = fences.map(({ 1: language = '', 2: body = '', index }) => {
    const line = text.slice(0, index).split('\n').length;
    return { where: `${path}:${line}`, language, text: body };
  });
  return { path, text, blocks };
}

const inDocs = (await readdir(join(project, 'docs'), { recursive: true })).filter((name) =>
  name.endsWith('.md'),
);
const pages = await Promise.all(['README.md', ...inDocs.map((name) => join('docs', name))].map(readPage));
const readme = pages[0] as Page;
const blocksOf = (...languages: readonly string[]): readonly Block[] =>
  pages.flatMap(({ blocks }) => blocks.filter(({ language }) => languages.includes(language)));

interface Package {
  readonly scripts: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | { readonly import: { readonly types: string } }>>;
}
const { scripts, exports } = JSON.parse(await readFile(join(project, 'package.json'), 'utf8')) as Package;

/** The commands that `get|cancel ID` stands for. */
function alternativesOf(words: readonly string[]): readonly (readonly string[])[] {
  const at = words.findIndex((word) => /^[a-z-]+(\|[a-z-]+)+$/.test(word));
  if (at === -1) return [words];
  return (words[at] ?? '').split('|').map((word) => words.with(at, word));
}

/** Those of the beginning are run, in an app outside the project: package/stranger.long.test.ts. */
const begun = new Set((await readmeBeginning()).commands);

describe('a command', () => {
  const shell = blocksOf('sh', 'bash', 'console').flatMap(({ where, text }) =>
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((command) => ({ where, command })),
  );
  const inText = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/`(npm (?:run|start|test)[^`]*)`/g)].map(({ 1: command = '' }) => ({
      where: path,
      command,
    })),
  );
  const isOurs = (command: string): boolean => /^(npx )?fairlead /.test(command);
  const commands = [...shell, ...inText]
    .filter(({ command }) => !isOurs(command) && !begun.has(command))
    .map(({ where, command }) => [command, where] as const);
  // `a; b` are two commands, and `pause|resume` one of several.
  const ours = shell
    .filter(({ command }) => isOurs(command))
    .flatMap(({ where, command }) =>
      command
        .replace(/^npx |\s#.*$/g, '')
        .split(';')
        .flatMap((each) => alternativesOf(each.trim().split(/\s+/).slice(1)))
        .map((words) => [words.join(' '), where, words] as const),
    );

  /** The script of package.json that a command runs, and what it gives it. */
  function scriptOf(
    command: string,
  ): { readonly script: string; readonly given: readonly string[] } | undefined {
    const [npm, ...words] = command.split(/\s+/);
    if (npm !== 'npm') return undefined;
    const [verb, ...rest] = words.filter((word) => word !== '--silent' && word !== '--');
    if (verb === 'start' || verb === 'test') return { script: verb, given: rest };
    const [script = '', ...given] = rest;
    return verb === 'run' ? { script, given } : undefined;
  }

  it.each(ours)(
    'fairlead %s, as %s has it, is one of the command line, with options that it has',
    async (_, __, words) => {
      const at = words.findIndex((word) => /^[^a-z]/.test(word));
      const path = (at === -1 ? words : words.slice(0, at)).slice(0, 2);
      const help: string[] = [];
      const code = await runProgram([...path, '--help'], { out: (text) => help.push(text), error: () => {} });
      expect(code).toBe(0);
      expect(help.join('')).toContain(`Usage: fairlead ${path[0]}`);
      for (const option of words.filter((word) => word.startsWith('--')))
        expect(help.join('')).toContain(option);
    },
  );

  it('is one that a user of the package has', () => {
    for (const { path, text } of pages) expect(text, path).not.toContain('npm run fairlead');
  });

  it('is there to be checked', () => {
    expect(ours.length).toBeGreaterThan(2);
    expect(shell.length).toBeGreaterThan(2);
    expect(inText.length).toBeGreaterThan(2);
  });

  it.each(commands)('%s, as %s has it, is a script of the package, with files that are there', (command) => {
    const run = scriptOf(command);
    expect(run, `${command} is no script of the package: run it in a test of its own`).toBeDefined();
    expect(Object.keys(scripts)).toContain(run?.script);
    for (const path of run?.given.filter((word) => /^[a-z][\w-]*\/.*\.\w+$/.test(word)) ?? []) {
      expect(existsSync(join(project, path)), `${path} is not there`).toBe(true);
    }
  });

  it('of the package that is run by a file runs one that is there', () => {
    for (const [script, command] of Object.entries(scripts)) {
      for (const path of command.match(/[\w/.-]+\.(?:m?ts|mjs)\b/g) ?? []) {
        expect(existsSync(join(project, path)), `${script} runs ${path}`).toBe(true);
      }
    }
  });
});

describe('a link', () => {
  const links = pages.flatMap(({ path, text }) =>
    [...text.matchAll(/\]\((?!https?:)([^)\s#]*)(#[^)\s]*)?\)/g)].map(
      ({ 1: to = '', 2: anchor = '' }) => [path, to, anchor] as const,
    ),
  );

  it.each(links)('in %s leads somewhere: %s%s', async (from, to, anchor) => {
    const target = to === '' ? from : join(from, '..', to);
    expect(existsSync(join(project, target))).toBe(true);
    if (anchor === '') return;
    const text = await readFile(join(project, target), 'utf8');
    const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(
      ({ 1: title = '' }) =>
        `#${title
          .toLowerCase()
          .replaceAll(/[^\w\s-]/g, '')
          .trim()
          .replaceAll(/\s/g, '-')}`,
    );
    expect(headings).toContain(anchor);
  });
});

describe('the example of an event', () => {
  const pool = resolveConfiguration({ types: { thumbnail: {}, report: {} } });
  const events = readme.blocks.filter(({ language, text }) => language === 'json' && text.includes('"jobs"'));

  it('is in the README', () => {
    expect(events.length).toBeGreaterThan(0);
  });

  it.each(events)('is accepted as a whole: $where', ({ text }) => {
    const { accepted, refused } = parseRequests(JSON.parse(text), pool);
    expect(refused).toEqual([]);
    expect(accepted.length).toBeGreaterThan(0);
  });
});

/** What examples take for given: names that a reader knows from around them. */
const AROUND = `
import type { Construct as AroundConstruct } from 'constructs';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
declare global { const api: IGrantable; const onCall: ITopic; }
export type Around = AroundConstruct;
`;

describe('the TypeScript examples', () => {
  const examples = blocksOf('ts', 'typescript');
  let folder: string;

  /** As a module: statements that use \`this\` stand in a construct. */
  function moduleOf(text: string): string {
    const isImport = (line: string): boolean => /^import\b/.test(line);
    const lines = text.split('\n');
    const body = lines.filter((line) => !isImport(line)).join('\n');
    const imports = lines.filter(isImport).join('\n');
    if (!/\bthis[.,]/.test(body) || /^export class\b/m.test(body)) return text;
    return `import type { Around } from '../around.ts';\n${imports}\nexport function example(this: Around): void {\n${body}\n}\n`;
  }

  /** Types of the package's own exports, from their sources: nothing has to be built. */
  const paths = Object.fromEntries(
    Object.entries(exports).flatMap(([name, to]) => {
      if (typeof to === 'string') return [];
      const source = to.import.types.replace(/^\.\/dist\//, '').replace(/\.d\.ts$/, '.ts');
      return [[join('fairlead', name), [join(project, source)]]];
    }),
  );

  beforeAll(async () => {
    await mkdir(join(project, '.fairlead'), { recursive: true });
    folder = await mkdtemp(join(project, '.fairlead', 'readme-'));
    await writeFile(join(folder, 'around.ts'), AROUND);
    await writeFile(join(folder, 'submit.ts'), SUBMIT);
    for (const [at, { where, text }] of examples.entries()) {
      // Examples import those of their page that name their file.
      const ofPage = join(folder, where.replace(/:\d+$/, '').replaceAll('/', '-'));
      await mkdir(ofPage, { recursive: true });
      const [, name = `example-${at}.ts`] = /^\/\/ lib\/(\S+)\n/.exec(text) ?? [];
      await writeFile(join(ofPage, name), moduleOf(text));
    }
    const compilerOptions = { paths, noUnusedLocals: false, module: 'esnext', moduleResolution: 'bundler' };
    await writeFile(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        extends: join(project, 'tsconfig.json'),
        compilerOptions,
        include: ['**/*.ts'],
        exclude: [],
      }),
    );
  }, WAIT_MS);
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const typeErrors = (): Promise<string> =>
    new Promise((done) => {
      const tsc = join(project, 'node_modules/typescript/bin/tsc');
      execFile(
        process.execPath,
        [tsc, '--project', folder, '--pretty', 'false'],
        { cwd: folder },
        (_, stdout, stderr) => done(`${stdout}${stderr}`),
      );
    });

  it('of a file of an app run in a CommonJS package too, as `cdk init` makes it', () => {
    const programs = blocksOf('ts').filter(({ text }) => text.startsWith('// lib/'));
    expect(programs.length).toBeGreaterThan(10);
    for (const { where, text } of programs) expect(text, where).not.toMatch(/^(\S.* = )?await /m);
  });

  it('type-check against what the package exports, and so does what a stranger writes next; a name that it does not export would not', {
    timeout: WAIT_MS,
  }, async () => {
    expect(examples.length).toBeGreaterThan(1);
    expect(Object.keys(paths)).toContain('fairlead');
    const wrong = "import { Shedule } from 'fairlead';\nexport const wrong = Shedule;\n";
    await writeFile(join(folder, 'wrong.ts'), wrong);
    const errors = (await typeErrors()).split('\n').filter((line) => line !== '');
    expect(errors.filter((line) => !line.startsWith('wrong.ts'))).toEqual([]);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain('no exported member');
  });
});
