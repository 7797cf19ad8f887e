/** Errors: few classes, one rule for their names, one page that has them all. */
import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '..');
/** Three of them handlers throw, and not Fairlead. */
const CLASSES_MAX = 24;

async function errorClasses(): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for (const folder of ['lib', 'cdk', 'functions']) {
    for (const file of await readdir(join(project, folder), { recursive: true })) {
      if (!file.endsWith('.ts')) continue;
      const text = await readFile(join(project, folder, file), 'utf8');
      for (const [, name = '', body = ''] of text.matchAll(/class (\w+) extends \w*Error \{([\s\S]*?)^\}/gm))
        names.set(name, /override readonly name = '(\w+)'/.exec(body)?.[1] ?? '');
    }
  }
  return names;
}

const classes = await errorClasses();

it('are few', () => {
  expect(classes.size).toBeGreaterThan(10);
  expect(classes.size).toBeLessThanOrEqual(CLASSES_MAX);
});

it.each([...classes])('%s is called as its class is, and ends in Error', (name, said) => {
  expect(said).toBe(name);
  expect(name).toMatch(/Error$/);
});

it('all stand on the page of errors, which has no other', async () => {
  const page = await readFile(join(project, 'docs/errors.md'), 'utf8');
  const listed = Array.from(page.matchAll(/^\| `(\w+)` \|/gm), ([, name]) => name);
  expect(listed.toSorted()).toEqual([...classes.keys()].toSorted());
});
