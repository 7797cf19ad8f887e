import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cataloguePath, fileName, outputPath, topDirectory } from '../../examples/files/names.ts';

const name = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 250 })
  .filter((text) => text.isWellFormed() && !/[/\0]/.test(text) && text !== '.' && text !== '..');
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));

describe('names in the output folder', () => {
  it('are names that every file system takes, whatever the text', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
        (text) => {
          const encoded = fileName(text);
          expect(encoded.length).toBeLessThanOrEqual(200);
          expect(encoded).toMatch(/^[A-Za-z0-9_.%!~'()-]*$/);
          expect(encoded).not.toMatch(/^\./);
        },
      ),
    );
  });

  it('differ for different texts, also for long ones that begin alike', () => {
    fc.assert(fc.property(name, name, (a, b) => a === b || fileName(a) !== fileName(b)));
    expect(fileName(`${'x'.repeat(300)}a`)).not.toBe(fileName(`${'x'.repeat(300)}b`));
    expect(fileName('a~b')).not.toBe(fileName('a%7Eb'));
  });

  it('never make an output the folder of another', () => {
    fc.assert(
      fc.property(path, path, (a, b) => {
        const [one, other] = [outputPath(a, '.zst'), outputPath(b, '.zst')];
        expect(other.startsWith(`${one}/`)).toBe(false);
        if (a !== b) expect(other).not.toBe(one);
      }),
    );
    expect(outputPath('a', '.zst')).toBe('files/%2E/a.zst');
    expect(outputPath('a.zst/b', '.zst')).toBe('files/a.zst/b.zst');
  });

  it('keep the files of one directory together', () => {
    expect(topDirectory('lib/core/job.ts')).toBe('lib');
    expect(topDirectory('README.md')).toBe('.');
    expect(cataloguePath('.')).toBe('catalogues/%2E.jsonl');
    expect(cataloguePath('sp ace')).toBe('catalogues/sp%20ace.jsonl');
  });
});
