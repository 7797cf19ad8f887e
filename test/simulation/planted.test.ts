/** Planted bugs can be planted; that each is found takes minutes: `planted.long.test.ts`. */
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { describe, expect, it } from 'vitest';
import { markedFiles } from './mutation.ts';
import { CHANGED } from './planted-changes.ts';

it('each marker in the sources has a bug that is planted at it', () => {
  const planted = globSync('test/simulation/planted*.ts')
    .map((file) => readFileSync(file, 'utf8'))
    .join('');
  expect([...markedFiles().keys()].filter((name) => !planted.includes(`at('${name}')`))).toEqual([]);
});

describe('what a planted bug changes', () => {
  it.each(Object.entries(CHANGED))(
    'finds its place in its source, and leaves one that can be loaded: %s',
    (_, { changes = [] }) => {
      expect(changes).not.toEqual([]);
      const changed = new Map<string, string>();
      for (const change of changes) {
        const { file } = change;
        const source = changed.get(file) ?? readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
        changed.set(file, change.change(source));
        expect(changed.get(file)).not.toBe(source);
      }
      // What cannot be loaded is not found either.
      for (const source of changed.values()) expect(() => stripTypeScriptTypes(source)).not.toThrow();
    },
  );
});
