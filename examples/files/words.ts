/** What an index holds of a text. */
export interface WordCounts {
  /** All words, repeated ones too. */
  readonly words: number;
  readonly distinct: number;
  /** The most frequent first; equal counts by word. */
  readonly counts: readonly (readonly [word: string, count: number])[];
}

// Letters of any script with the marks on them, digits, and what joins the parts of identifiers.
const WORD = /[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*/gu;

/** Words in lower case, however their letters are composed. */
export function countWords(text: string): WordCounts {
  const counts = new Map<string, number>();
  let words = 0;
  for (const [word] of text.normalize('NFC').toLowerCase().matchAll(WORD)) {
    words += 1;
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return { words, distinct: counts.size, counts: sorted };
}
