/** Suggestions for misspelt names. */

/**
 * Returns the most letters that may differ between a misspelling and its name: a third of the letters, and at least
 * two.
 */
const differencesAllowed = (name: string): number => Math.max(2, Math.floor(name.length / 3));

/**
 * Longer texts are not compared. Declared names have at most 100 characters, and a text twice as long is no
 * misspelling.
 */
const COMPARED_MAX = 200;

/**
 * Returns the number of letters to insert, remove, replace or swap with their neighbour until one text is the other:
 * the optimal string alignment distance.
 */
function differences(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= other.length; column += 1) {
      const isSame = one[row - 1] === other[column - 1];
      const isSwapped =
        row > 1 && column > 1 && one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      next.push(
        Math.min(
          (last[column] as number) + 1,
          (next[column - 1] as number) + 1,
          (last[column - 1] as number) + (isSame ? 0 : 1),
          isSwapped ? (before[column - 2] as number) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    before = last;
    last = next;
  }
  return last[other.length] as number;
}

/** Returns a word with its article, as it is spelt: `an object`, `a number`; `undefined` has none. */
export const withArticle = (word: string): string =>
  word === 'undefined' ? word : `${/^[aeiou]/i.test(word) ? 'an' : 'a'} ${word}`;

/** Returns the name nearest to the text; undefined if none is near. Case makes no difference. */
export function nearest(written: string, names: Iterable<string>): string | undefined {
  if (written.length > COMPARED_MAX) return undefined;
  let found: { readonly name: string; readonly distance: number } | undefined;
  for (const name of names) {
    if (name.length > COMPARED_MAX) continue;
    const distance = differences(written.toLowerCase(), name.toLowerCase());
    if (distance <= differencesAllowed(written) && distance < (found?.distance ?? Number.POSITIVE_INFINITY))
      found = { name, distance };
  }
  return found?.name;
}

/** Returns a sentence for the end of an error's message; empty if no name is near. */
export function didYouMean(written: unknown, names: Iterable<string>): string {
  const name = typeof written === 'string' ? nearest(written, names) : undefined;
  return name === undefined ? '' : `Did you mean ${JSON.stringify(name)}? `;
}
