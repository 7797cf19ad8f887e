import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { classify } from '../../examples/files/classify.ts';
import { TEXT_BYTES_MAX } from '../../examples/files/work.ts';
import { folderWith } from './folder.ts';

const PNG = Buffer.from('89504e470d0a1a0a0000', 'hex');

describe('the job that a file gets', () => {
  it.each([
    ['photo.JPG', 'not even an image', 'thumbnail'],
    ['no-extension-but-png', PNG, 'thumbnail'],
    ['misnamed.txt', PNG, 'thumbnail'],
    ['notes.txt', 'words', 'index'],
    ['README', 'words', 'index'],
    ['.gitignore', 'dist/', 'index'],
    ['empty', '', 'index'],
    ['日本語.md', 'テキスト', 'index'],
    ['archive.zip', 'words', 'compress'],
    ['latin1.txt', Buffer.from('caf\xe9', 'latin1'), 'compress'],
    ['nul.txt', 'a\0b', 'compress'],
    ['full.txt', Buffer.alloc(TEXT_BYTES_MAX, 'a'), 'index'],
    ['large.txt', Buffer.alloc(TEXT_BYTES_MAX + 1, 'a'), 'compress'],
  ])('of %s', async (path, content, type) => {
    const root = await folderWith({ [path]: content });
    expect(await classify(path, join(root, path))).toBe(type);
  });

  it('is compression where the file cannot be read, so that a job says why', async () => {
    const root = await folderWith();
    expect(await classify('gone.txt', join(root, 'gone.txt'))).toBe('compress');
    expect(await classify('directory', root)).toBe('compress');
  });

  it('does not need a large file in memory', async () => {
    const root = await folderWith({ 'sparse.txt': '' });
    await truncate(join(root, 'sparse.txt'), 2 ** 40);
    expect(await classify('sparse.txt', join(root, 'sparse.txt'))).toBe('compress');
  });
});
