/** Planted bugs can be planted; that each is found takes minutes: `planted.long.test.ts`. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { changeSource } from './changed.ts';
import { CHANGED } from './planted-changes.ts';

describe('what a planted bug changes', () => {
  it.each(Object.entries(CHANGED))('stands once in its source: %s', (_, { changes = [] }) => {
    expect(changes).not.toEqual([]);
    for (const change of changes) {
      const source = readFileSync(new URL(`../../${change.file}`, import.meta.url), 'utf8');
      expect(changeSource(source, change)).not.toBe(source);
    }
  });
});
