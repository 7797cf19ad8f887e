/** Which name is near to what was written. */
import { describe, expect, it } from 'vitest';
import { didYouMean, nearest, withArticle } from '../../lib/core/spelling.ts';

describe('the nearest name', () => {
  it.each([
    ['one letter too few', 'rendr', 'render'],
    ['one letter too many', 'renderr', 'render'],
    ['another letter', 'rander', 'render'],
    ['two letters that changed places', 'redner', 'render'],
    ['another case', 'RENDER', 'render'],
  ])('is found through %s', (_, written, name) => {
    expect(nearest(written, ['thumbnail', 'render', 'report'])).toBe(name);
  });

  it('is the nearest of those that are near', () => {
    expect(nearest('reportz', ['reporters', 'report'])).toBe('report');
  });

  it.each([
    ['a name of another kind', 'invoice', ['render']],
    ['a text too long to compare', 'r'.repeat(10_000), ['render']],
    ['a name too long to compare', 'render', ['r'.repeat(10_000)]],
    ['no names', 'render', []],
  ])('is none for %s', (_, written, names) => {
    expect(nearest(written, names)).toBeUndefined();
  });
});

it('asks about the nearest name, and asks nothing where none is near', () => {
  expect(didYouMean('rendr', ['render'])).toBe('Did you mean "render"? ');
  expect(didYouMean('invoice', ['render'])).toBe('');
  expect(didYouMean(undefined, ['undefined'])).toBe('');
});

it.each([
  ['object', 'an object'],
  ['number', 'a number'],
  ['undefined', 'undefined'],
])('puts the article before %s', (word, expected) => {
  expect(withArticle(word)).toBe(expected);
});
