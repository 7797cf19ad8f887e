import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readOptions, UsageError } from '../../examples/options.ts';
import { folderWith } from './folder.ts';

const read = (given: readonly string[], cwd: string, env: Record<string, string> = {}) =>
  readOptions(given, { env, cwd, defaultOut: '/default/out' });

describe('the command line', () => {
  it('needs no option', async () => {
    const cwd = await folderWith();
    expect(read([], cwd)).toEqual({
      isStory: true,
      input: undefined,
      out: '/default/out',
      json: false,
      keep: false,
      endpoint: undefined,
    });
    expect(read(['--help'], cwd)).toBe('help');
  });

  it('takes relative paths from where it was typed, and sees through links', async () => {
    const cwd = await folderWith({ 'in/x': '' });
    await symlink('in', join(cwd, 'link'));
    expect(read(['--input', 'link', '--out', 'new/out', '--json', '--keep'], cwd)).toMatchObject({
      input: join(cwd, 'in'),
      out: join(cwd, 'new/out'),
      json: true,
      keep: true,
    });
  });

  it.each([
    [[], true],
    [['--keep'], true],
    [['--files'], false],
    [['--json'], false],
    [['--out', 'out'], false],
    [['--input', '.'], false],
  ])('with %j tells the story: %s', async (given, isStory) => {
    expect(read(given, await folderWith())).toMatchObject({ isStory });
  });

  it('uses the endpoint that is set', async () => {
    const cwd = await folderWith();
    expect(read([], cwd, { AWS_ENDPOINT_URL: 'http://127.0.0.1:4566/' })).toMatchObject({
      endpoint: 'http://127.0.0.1:4566',
    });
    expect(read([], cwd, { AWS_ENDPOINT_URL: '' })).toMatchObject({ endpoint: undefined });
    expect(() => read([], cwd, { AWS_ENDPOINT_URL: 'localhost:4566' })).toThrow(UsageError);
  });

  it.each([
    [['--input', 'missing'], '--input missing'],
    [['--input', 'file'], 'is not a folder'],
    [['--input', 'in', '--out', 'file'], '--out file is a file'],
    [['--input', 'in', '--out', 'in'], 'is the input folder itself'],
    [['--input', 'out/files/in', '--out', 'out'], 'among the results'],
    [['--nonsense'], '--nonsense'],
    [['stray'], 'stray'],
    [['--input'], '--input'],
  ])('refuses %j, and says why', async (given, reason) => {
    const cwd = await folderWith({ file: '', 'in/x': '', 'out/files/in/y': '' });
    expect(() => read(given, cwd)).toThrow(UsageError);
    expect(() => read(given, cwd)).toThrow(reason);
  });
});
