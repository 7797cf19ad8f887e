/** Many items of one partition key: what pages answer and what keys do is together what each key would have answered. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CLOSE_ITEMS, CLOSE_KEYS_MIN, CloseReads } from '../../../lib/store/table/close-reads.ts';

const sortKeyOf = (at: number): string => `key/${String(at).padStart(6, '0')}`;
const ITEM_UNITS = 0.03;

interface Walked {
  /** Those that stand there, of what was asked for. */
  readonly found: ReadonlySet<string>;
  readonly pages: number;
  readonly readUnits: number;
}

/** Reads as a store does, from what stands there, in its order. */
function walk(asked: readonly string[], standing: readonly string[]): Walked {
  const reads = new CloseReads(asked);
  const wanted = new Set(asked);
  const found = new Set<string>();
  let pages = 0;
  let pageUnits = 0;
  for (let range = reads.next; range !== undefined; range = reads.next) {
    const { from, to } = range;
    const page = standing.filter((each) => each >= from && each <= to).slice(0, CLOSE_ITEMS);
    for (const each of page) if (wanted.has(each)) found.add(each);
    const units = Math.max(1, Math.ceil(page.length * ITEM_UNITS));
    pages += 1;
    pageUnits += units;
    reads.took(page.length === CLOSE_ITEMS ? page.at(-1) : undefined, units);
  }
  const there = new Set(standing);
  for (const each of reads.left) if (there.has(each)) found.add(each);
  expect(reads.readUnits).toBe(pageUnits + reads.left.length);
  return { found, pages, readUnits: reads.readUnits };
}

const some = (count: number, every: number, from = 0): string[] =>
  Array.from({ length: count }, (_, at) => sortKeyOf(from + at * every));

it('answers each key as by itself, and costs at most a page more than the keys would', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 0, max: 6_000 }), { minLength: 1, maxLength: 900 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 0, max: 3_000 }),
      (numbers, every, from) => {
        const asked = numbers.map(sortKeyOf);
        const standing = some(4_000, every, from);
        const there = new Set(standing);
        const { found, readUnits } = walk(asked, standing);
        expect(found).toEqual(new Set(asked.filter((each) => there.has(each))));
        expect(readUnits).toBeLessThanOrEqual(asked.length + Math.ceil(CLOSE_ITEMS * ITEM_UNITS));
      },
    ),
    { numRuns: 200 },
  );
});

it('reads page by page what stands close together', () => {
  expect(walk(some(10_000, 1), some(10_000, 1))).toMatchObject({ pages: 10, readUnits: 300 });
  // Of ten that stand there, one is asked for.
  expect(walk(some(1_000, 10), some(10_000, 1))).toMatchObject({ pages: 9, readUnits: 270 + 100 });
});

it('asks by their keys for what stands far apart, once one page has shown it', () => {
  const far = walk(some(1_000, 100), some(100_000, 1));
  expect(far).toMatchObject({ pages: 1, readUnits: 30 + 990 });
});

it('asks by its keys for the last of what it reads, and for few', () => {
  expect(walk(some(CLOSE_KEYS_MIN - 1, 1), some(10_000, 1))).toMatchObject({ pages: 0, readUnits: 199 });
  expect(walk(some(1_100, 1), some(10_000, 1))).toMatchObject({ pages: 1, readUnits: 30 + 100 });
});

it('takes nothing for there that is not, at a table that has none', () => {
  expect(walk(some(5_000, 1), [])).toMatchObject({ pages: 1, readUnits: 1 });
});
