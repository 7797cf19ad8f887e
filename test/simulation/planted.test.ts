import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { changeSource } from './changed.ts';
import { PLANTED } from './planted.ts';

const ROOT = new URL('../../', import.meta.url);
const changed = Object.entries(PLANTED).flatMap(([name, { changes }]) =>
  changes === undefined ? [] : [{ name, changes }],
);

describe('a planted bug that changes a source', () => {
  it.each(changed)('$name stands where its code stands now, once', async ({ changes }) => {
    for (const change of changes) {
      const source = await readFile(new URL(change.file, ROOT), 'utf8');
      expect(changeSource(source, change)).not.toBe(source);
    }
  });
});
