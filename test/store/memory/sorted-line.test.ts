import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareText, type Placed, SortedLine } from '../../../lib/store/memory/sorted-line.ts';

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
const byPlace = (a: Placed, b: Placed): number => byBytes(a.rank, b.rank) || byBytes(a.id, b.id);

// Few ranks, so that they meet; characters on both sides of where UTF-8 and UTF-16 order differently.
const text = fc.string({ unit: fc.constantFrom('a', 'b', '0', 'é', '日', '\uffee', '🚀'), maxLength: 3 });
// As instants and scores begin, some alike in what a line compares first.
const ALIKE = ['c3417f3a2b40000', 'c3417f3a2b40001', 'c34180a00000000'];
const digitsOf = (...beginnings: readonly string[]): fc.Arbitrary<string> =>
  fc.tuple(fc.constantFrom(...beginnings), text).map((parts) => parts.join(''));
const digits = fc.oneof(digitsOf(...ALIKE), digitsOf(...ALIKE, 'c35000000000000', 'c33'));
const anyPlace = fc.record({ rank: fc.oneof(digits, text), id: text });
const keyedPlace = fc.record({ rank: digits, id: text });
const alikePlace = fc.record({ rank: digitsOf(...ALIKE), id: text });
const place = fc.oneof(keyedPlace, anyPlace);
/** Lines all of whose ranks begin alike, or with digits, and others. */
const someOf = <T>(make: (each: fc.Arbitrary<Placed>) => fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.oneof(...[alikePlace, keyedPlace, anyPlace].map((each) => fc.array(make(each), { maxLength: 60 })));
const nameOf = (each: Placed): string => JSON.stringify([each.rank, each.id]);

describe('a sorted line', () => {
  it('orders text by its UTF-8 bytes', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(Math.sign(compareText(a, b))).toBe(Math.sign(byBytes(a, b)));
      }),
    );
  });

  it('holds what was inserted and not removed, in order, whatever came first', () => {
    fc.assert(
      fc.property(
        someOf((each) => fc.tuple(fc.boolean(), each)),
        (changes) => {
          const line = new SortedLine<Placed>();
          const expected = new Map<string, Placed>();
          for (const [isInsert, each] of changes) {
            const isThere = expected.has(nameOf(each));
            if (isInsert && !isThere) {
              line.insert(each);
              expected.set(nameOf(each), each);
            } else if (!isInsert) {
              expect(line.remove(each)).toBe(isThere);
              expected.delete(nameOf(each));
            }
          }
          const sorted = [...expected.values()].sort(byPlace);
          expect(line.size).toBe(sorted.length);
          expect(line.read(100)).toEqual(sorted);
        },
      ),
    );
  });

  it('reads on behind any place, whether or not something stands there', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uniqueArray(keyedPlace, { selector: nameOf, maxLength: 30 }),
          fc.uniqueArray(anyPlace, { selector: nameOf, maxLength: 30 }),
        ),
        place,
        fc.nat(5),
        (places, after, limit) => {
          const line = new SortedLine<Placed>();
          for (const each of places) line.insert(each);
          const behind = places.filter((each) => byPlace(each, after) > 0).sort(byPlace);
          expect(line.read(limit, after)).toEqual(behind.slice(0, limit));
        },
      ),
    );
  });
});
