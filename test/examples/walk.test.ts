import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { walk } from '../../examples/files/walk.ts';
import { folderWith } from './folder.ts';

const pathsOf = async (...given: Parameters<typeof walk>): Promise<readonly string[]> =>
  (await walk(...given)).files.map((file) => file.path);

describe('walking the input folder', () => {
  it('finds every file, in the same order everywhere', async () => {
    const root = await folderWith({ 'b/z': '', 'b/a/x': '', B: '', a: '', ä: '', 'a-b/c': '' });
    expect(await pathsOf(root)).toEqual(['B', 'a', 'a-b/c', 'b/a/x', 'b/z', 'ä']);
  });

  it('takes names with spaces, line ends, dashes, dots, quotes and letters of any script', async () => {
    const odd = [
      '-rf',
      '...',
      'a\nb',
      'a b',
      '日本語/テキスト',
      '😀',
      '"\'`$(x)',
      'back\\slash',
      '.hidden/.x',
      '__proto__/y',
    ];
    const root = await folderWith(Object.fromEntries(odd.map((path) => [path, ''])));
    expect((await pathsOf(root)).toSorted()).toEqual(odd.toSorted());
  });

  it('follows links to files, not those to directories, and lists links that lead nowhere', async () => {
    const root = await folderWith({ 'real/file': 'x' });
    await symlink('real/file', join(root, 'to-file'));
    await symlink('real', join(root, 'to-directory'));
    await symlink('..', join(root, 'real/up'));
    await symlink('nowhere', join(root, 'dangling'));
    await symlink('loop-b', join(root, 'loop-a'));
    await symlink('loop-a', join(root, 'loop-b'));
    const { files, skipped } = await walk(root);
    expect(files.map((file) => file.path)).toEqual(['dangling', 'loop-a', 'loop-b', 'real/file', 'to-file']);
    expect(skipped.map((entry) => entry.path)).toEqual(['real/up', 'to-directory']);
  });

  it('skips sockets, with the reason', async () => {
    const root = await folderWith();
    const server = createServer().listen(join(root, 'socket'));
    onTestFinished(() => {
      server.close();
    });
    await once(server, 'listening');
    await symlink('socket', join(root, 'to-socket'));
    expect(await walk(root)).toEqual({
      files: [],
      skipped: [
        { path: 'socket', reason: 'is a socket, not a file' },
        { path: 'to-socket', reason: 'is a link to a socket, not to a file' },
      ],
    });
  });

  it.runIf(process.platform === 'linux')('reports names that are not UTF-8 and goes on', async () => {
    const root = await folderWith({ good: '' });
    await writeFile(Buffer.concat([Buffer.from(`${root}/bad`), Buffer.from([0xff])]), '');
    const { files, skipped } = await walk(root);
    expect(files.map((file) => file.path)).toEqual(['good']);
    expect(skipped).toEqual([{ path: 'bad\ufffd', reason: 'its name is not valid UTF-8' }]);
  });

  it('reports a directory that cannot be listed and goes on', async () => {
    const root = await folderWith({ a: '' });
    const { files, skipped } = await walk(join(root, 'missing'));
    expect(files).toEqual([]);
    expect(skipped).toEqual([{ path: '.', reason: expect.stringContaining('ENOENT') }]);
  });

  it('leaves out what it is told to', async () => {
    const root = await folderWith({ 'src/a': '', 'out/b': '', 'd/e': '' });
    await mkdir(join(root, 'empty'));
    expect(await pathsOf(root, { exclude: [join(root, 'out')] })).toEqual(['d/e', 'src/a']);
  });
});
