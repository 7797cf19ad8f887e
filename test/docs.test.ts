/** A reader finds every page from `docs/index.md`, and what the pages draw is what the code does. */
import { existsSync } from 'node:fs';
import { glob, readdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EDGES } from '../lib/core/life-cycle.ts';
import { jobRequest } from '../lib/submit/request.ts';

const project = resolve(import.meta.dirname, '..');
const docs = join(project, 'docs');
const textOf = (name: string): Promise<string> => readFile(join(docs, name), 'utf8');
const pagesIn = async (folder: string): Promise<readonly string[]> =>
  (await readdir(join(docs, folder))).filter((name) => name.endsWith('.md'));

describe('the index', () => {
  it('leads to every page', async () => {
    const index = await textOf('index.md');
    const guides = (await pagesIn('guides')).map((name) => `guides/${name}`);
    const missing = [...(await pagesIn('.')), ...guides].filter(
      (name) => name !== 'index.md' && !index.includes(`(${name})`),
    );
    expect(missing).toEqual([]);
  });
});

describe('the README', () => {
  it('lists every field that an event may have, and no other', async () => {
    const readme = await readFile(join(project, 'README.md'), 'utf8');
    const [table = ''] = /\| field \| meaning \|\n[\s\S]*?\n\n/.exec(readme) ?? [];
    const listed = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, field]) => field);
    expect(listed.toSorted()).toEqual(Object.keys(jobRequest.shape).toSorted());
  });
});

/** What is wrong with a decision record. */
function objectionsTo(text: string): readonly string[] {
  const [title = '', , status = '', dates = ''] = text.split('\n');
  const objections: string[] = [];
  if (!/^# [A-Z`]/.test(title)) objections.push('its first line is no title');
  const successor = /^Status: superseded by \[[^\]]+\]\(([\w-]+\.md)\)$/.exec(status)?.[1];
  if (successor === undefined && !/^Status: (accepted|log)$/.test(status))
    objections.push('its third line gives no status');
  if (successor !== undefined && !existsSync(join(docs, 'decisions', successor)))
    objections.push(`no record is called ${successor}`);
  if (!/^Dates: \d{4}-\d\d-\d\d/.test(dates)) objections.push('its fourth line gives no dates');
  for (const { 1: link = '' } of text.matchAll(/\]\((?!https?:)([^)#]+)/g))
    if (!existsSync(join(docs, 'decisions', link))) objections.push(`${link} is not there`);
  for (const { 1: path = '' } of text.matchAll(
    /`((?:lib|cdk|functions|test|bench|docs|examples)\/[\w./-]+)`/g,
  ))
    if (!existsSync(join(project, path))) objections.push(`${path} is not there`);
  return objections;
}

describe('the decisions', async () => {
  const names = (await pagesIn('decisions')).filter((name) => name !== 'README.md').toSorted();
  const records = await Promise.all(
    names.map(async (name) => ({ name, text: await textOf(join('decisions', name)) })),
  );

  it.each(records)('$name has a title, a status and dates, and names files that are there', ({ text }) => {
    expect(objectionsTo(text)).toEqual([]);
  });

  it.each([
    ['no status', '# A title\n\nDates: 2026-11-21\n', 'its third line gives no status'],
    ['no dates', '# A title\n\nStatus: accepted\n', 'its fourth line gives no dates'],
    [
      'a successor that is not there',
      '# A title\n\nStatus: superseded by [b](b.md)\nDates: 2026-11-21\n',
      'no record is called b.md',
    ],
    [
      'a file that has moved',
      '# A title\n\nStatus: accepted\nDates: 2026-11-21\n\nSee `lib/dispatch/gone.ts`.\n',
      'lib/dispatch/gone.ts is not there',
    ],
    [
      'a link that leads nowhere',
      '# A title\n\nStatus: accepted\nDates: 2026-11-21\n\nSee [that](gone.md).\n',
      'gone.md is not there',
    ],
  ])('are refused with %s', (_, text, objection) => {
    expect(objectionsTo(text)).toContain(objection);
  });

  it('are listed by their titles, each with its status', async () => {
    const listed = (await textOf('decisions/README.md')).split('\n').filter((line) => line.startsWith('- '));
    const expected = records.map(({ name, text }) => {
      const [title = '', , status = ''] = text.split('\n');
      return `- [${title.slice('# '.length)}](${name}): ${status.slice('Status: '.length)}`;
    });
    expect(listed.toSorted()).toEqual(expected.toSorted());
  });

  it('are there wherever one is cited', async () => {
    const missing: string[] = [];
    let cited = 0;
    for await (const path of glob('{*.md,*.ts,docs/*.md,{lib,cdk,functions,test,bench}/**/*.{ts,mjs,py}}', {
      cwd: project,
    }))
      for (const { 1: name = '' } of (await readFile(join(project, path), 'utf8')).matchAll(
        /\bdecisions\/([\w-]+\.md)/g,
      )) {
        cited += 1;
        if (!names.includes(name) && name !== 'README.md') missing.push(`${path}: ${name}`);
      }
    expect(missing).toEqual([]);
    expect(cited).toBeGreaterThan(4);
  });
});

describe('the glossary', () => {
  it('has thirty terms at most', async () => {
    const terms = [...(await textOf('glossary.md')).matchAll(/^- \*\*([^*]+)\*\*: /gm)].map(
      ({ 1: term }) => term,
    );
    expect(terms.length).toBeGreaterThan(20);
    expect(terms.length).toBeLessThanOrEqual(30);
    expect(new Set(terms).size).toBe(terms.length);
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
