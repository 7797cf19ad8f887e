/** What the count of plain English finds, and what it lets be. */
import { expect, it } from 'vitest';
import { commentsIn, findingsIn } from './english.ts';

it('reads the comments of a source as passages', () => {
  const source = [
    '/** One. */',
    'const url = "https://example.org";',
    '  // Two',
    '  // goes on.',
    'x();',
    '/**',
    ' * Three.',
    ' *',
    ' * Four.',
    ' */',
  ].join('\n');
  expect(commentsIn(source).map(({ line, text }) => [line, text.replace(/\s+/g, ' ').trim()])).toEqual([
    [1, 'One.'],
    [3, 'Two goes on.'],
    [6, 'Three. Four.'],
  ]);
});

it.each([
  ['// Whoever finds it held leaves.', ['pronouns', 'relatives']],
  ['/** The lead ends. What is left waits. */', ['relatives']],
  ['/** Of two heads, the better one. */', ['relatives']],
  ['/** Nobody waits for it. */', ['pronouns']],
  ['/**\n * @param jobs - where they stand\n */', []],
  ['/** Why does it wait? What runs there? */', []],
  ['/** A job says what it waits for, where it stands and who has asked. */', []],
])('finds in %s: %s', (text, kinds) => {
  expect(findingsIn('lib/planted.ts', text).map(({ kind }) => kind)).toEqual(kinds);
});

it('reads the prose of pages, and none of their code', () => {
  const page = '## What it does\n\n- Who submits waits.\n\n```sh\n# What runs here\n```\n';
  expect(findingsIn('docs/planted.md', page).map(({ line }) => line)).toEqual([3]);
});
