/** A reader finds every page from `docs/index.md`, and what the pages draw is what the code does. */
import { readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EDGES } from '../lib/core/life-cycle.ts';

const docs = resolve(import.meta.dirname, '../docs');
const textOf = (name: string): Promise<string> => readFile(join(docs, name), 'utf8');
const pagesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(join(docs, folder))).filter((name) => name.endsWith('.md'));

describe('the index', () => {
  it('leads to every page', async () => {
    const index = await textOf('index.md');
    const missing = (await pagesIn('.')).filter(
      (name) => name !== 'index.md' && !index.includes(`(${name})`),
    );
    expect(missing).toEqual([]);
  });

  it('of the decisions names each by its title, in the order of their days', async () => {
    const names = (await pagesIn('decisions')).filter((name) => name !== 'README.md').toSorted();
    const expected = await Promise.all(
      names.map(async (name) => {
        const [heading = ''] = (await textOf(join('decisions', name))).split('\n');
        const [, day, title = ''] = /^# (\d{4}-\d\d-\d\d): (.*)$/.exec(heading) ?? [];
        expect(name.startsWith(`${day}-`), `${name} begins with "# YYYY-MM-DD: title"`).toBe(true);
        return `- [${title.charAt(0).toUpperCase()}${title.slice(1)}](${name})`;
      }),
    );
    const listed = (await textOf('decisions/README.md')).split('\n').filter((line) => line.startsWith('- '));
    expect(listed).toEqual(expected);
  });
});

describe('the picture of the life of a job', () => {
  it('shows the legal edges, all of them and none else', async () => {
    const drawn = [...(await textOf('life-cycle.md')).matchAll(/^ {2}(\w+) --> (\w+): /gm)].map(
      ({ 1: from, 2: to }) => `${from} ${to}`,
    );
    const legal = Object.entries(EDGES).flatMap(([from, next]) => next.map((to) => `${from} ${to}`));
    expect(drawn.toSorted()).toEqual(legal.toSorted());
  });
});
