/** A name stands for one thing: no two types, classes or constants that files share are called alike; and numbers stand in one file. */
import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '..');
const FOLDERS = ['lib', 'cdk', 'functions'] as const;

/** Names that stand for two things, and why. */
const SHARED: Readonly<Record<string, string>> = {
  Scheduler: 'the construct, as users write it, and the policy in memory, which no user sees',
};

const EXPORTED =
  /^export (?:abstract )?(?:class|interface|type|enum) (\w+)|^export const ([A-Z][A-Z0-9_]+)\b/gm;

const namesIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(EXPORTED), ([, type, constant]) => type ?? constant ?? '');

/** Each source of the product: its path and its text. */
async function* sources(): AsyncGenerator<{ readonly file: string; readonly text: string }> {
  for (const folder of FOLDERS) {
    const entries = await readdir(join(project, folder), { recursive: true, withFileTypes: true });
    for (const entry of entries.filter((each) => each.isFile() && each.name.endsWith('.ts'))) {
      const path = join(entry.parentPath, entry.name);
      yield { file: path.slice(project.length + 1), text: await readFile(path, 'utf8') };
    }
  }
}

/** By name, the files that export something called so. */
async function exportedNames(): Promise<ReadonlyMap<string, readonly string[]>> {
  const byName = new Map<string, string[]>();
  for await (const { file, text } of sources())
    for (const name of namesIn(text)) byName.set(name, [...(byName.get(name) ?? []), file]);
  return byName;
}

it('no two files export a type or a constant of one name', async () => {
  const names = await exportedNames();
  expect(names.size).toBeGreaterThan(500);
  const shared = [...names].filter(([, files]) => files.length > 1).map(([name, files]) => ({ name, files }));
  expect(shared.filter(({ name }) => !(name in SHARED))).toEqual([]);
  // An exception that is none any more goes.
  expect(shared.map(({ name }) => name)).toEqual(Object.keys(SHARED));
});

it('is told of what is exported, not of what a file keeps to itself', () => {
  const text =
    "export interface One {}\ninterface Two {}\nexport const THREE_MS = 3;\nexport const four = 4;\nexport type Five = 'five';\n";
  expect(namesIn(text)).toEqual(['One', 'THREE_MS', 'Five']);
});

const COMMENT = /^[ \t]*(?:\/\*.*?\*\/|\/\/[^\n]*$)/gms;
/** A name in a comment: `withPlaced`, `Candidates.outdated`, `settle()`. */
const NAME_IN_COMMENT = /`#?([A-Za-z_][\w.]*)(?:\(\))?`/g;
/** Names of the world outside: of files, packages, AWS and users' own things. */
const FOREIGN = [
  'allPutEvents',
  'sharp',
  'ImagesQueueUrl',
  'encryption',
  'W',
  'ECONNREFUSED',
  'AggregateError',
];

it('comments name what there is', async () => {
  const comments: (readonly [string, string])[] = [];
  const known = new Set<string>([...FOREIGN, ...Object.getOwnPropertyNames(globalThis)]);
  for await (const { file, text } of sources()) {
    for (const [name] of text.replaceAll(COMMENT, '').matchAll(/[A-Za-z_]\w*/g)) known.add(name);
    for (const [comment] of text.matchAll(COMMENT))
      for (const [, name = ''] of comment.matchAll(NAME_IN_COMMENT)) comments.push([file, name]);
  }
  expect(comments.length).toBeGreaterThan(500);
  const isFile = (name: string): boolean => /\.(ts|md|py|json)$/.test(name);
  const missing = comments.filter(
    ([, name]) => !isFile(name) && name.split('.').some((part) => part !== '' && !known.has(part)),
  );
  expect(missing).toEqual([]);
});

const TUNING = 'lib/dispatch/tuning.ts';

/** Constants of a file whose values are written with numbers. */
const numbersIn = (text: string): readonly string[] =>
  Array.from(text.matchAll(/^(?:export )?const (\w+)[^=]*=([^;]*);/gm), ([, name = '', value = '']) => {
    const isCalled = /=>|\bfunction\b/.test(value);
    return !isCalled && /\b\d/.test(value.replaceAll(/'[^']*'|`[^`]*`/g, '')) ? name : [];
  }).flat();

it('what makes passes has its numbers in one file, at most sixty of them', async () => {
  const entries = await readdir(join(project, 'lib/dispatch'), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  expect(files.length).toBeGreaterThan(30);
  for (const file of files.filter((each) => !each.endsWith(TUNING)))
    expect([file, numbersIn(await readFile(file, 'utf8'))]).toEqual([file, []]);
  const text = await readFile(join(project, TUNING), 'utf8');
  const budget = /^export const DISPATCH_BUDGET = \{(.*?)^\};/ms.exec(text)?.[1] ?? '';
  const named = [...numbersIn(text.replace(budget, '')), ...(budget.match(/^ {2}\w+:/gm) ?? [])];
  expect(named.length).toBeGreaterThan(40);
  expect(named.length).toBeLessThanOrEqual(60);
});

it('is told of numbers that have a name, not of those within a function', () => {
  const text =
    "const ONE_MS = 1_000;\nexport const TWO = { a: 2 } as const;\nconst THREE = 'v3';\nconst four = () => 4;\nconst FIVE_MS = ONE_MS;\n";
  expect(numbersIn(text)).toEqual(['ONE_MS', 'TWO']);
});
