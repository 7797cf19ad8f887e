import { createHash } from 'node:crypto';
import { readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { compress, type FileHandler, index } from '../../examples/files/handlers.ts';
import { thumbnail } from '../../examples/files/thumbnail.ts';
import { folderWith } from './folder.ts';

const context = (signal = new AbortController().signal) => ({ jobId: 'job', signal });

/** Runs a handler on one file of `root`; answers its result and the bytes of its output. */
async function work(handler: FileHandler, root: string, path: string, signal?: AbortSignal) {
  const out = join(root, 'out');
  const result = await handler({ path, file: join(root, path), out }, context(signal));
  return { ...result, bytes: await readFile(join(out, result.output)) };
}

const image = (width: number, height: number): Promise<Buffer> =>
  sharp({ create: { width, height, channels: 3, background: '#369' } })
    .png()
    .toBuffer();

describe('the work on a file', () => {
  it('compresses so that nothing is lost, and says the hash of what it wrote', async () => {
    const content = Buffer.alloc(300_000, 'fairlead ');
    const root = await folderWith({ 'a/b.bin': content });
    const { output, sha256, bytes } = await work(compress, root, 'a/b.bin');
    expect(output).toBe('files/a/b.bin.zst');
    expect(zstdDecompressSync(bytes).equals(content)).toBe(true);
    expect(sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  });

  it('compresses an empty file', async () => {
    const root = await folderWith({ empty: '' });
    expect(zstdDecompressSync((await work(compress, root, 'empty')).bytes)).toHaveLength(0);
  });

  it('counts words in lower case, of any script, however composed', async () => {
    const root = await folderWith({
      't.txt': 'Été e\u0301t\u00e9 日本語 job_id __proto__ constructor job_id',
    });
    expect(JSON.parse((await work(index, root, 't.txt')).bytes.toString())).toEqual({
      path: 't.txt',
      words: 7,
      distinct: 5,
      counts: [
        ['job_id', 2],
        ['été', 2],
        ['__proto__', 1],
        ['constructor', 1],
        ['日本語', 1],
      ],
    });
  });

  it('draws thumbnails that fit, and never enlarges', async () => {
    const root = await folderWith({
      'wide[page=1].png': await image(1_000, 500),
      'small.png': await image(10, 20),
    });
    const wide = await sharp((await work(thumbnail, root, 'wide[page=1].png')).bytes).metadata();
    expect(wide).toMatchObject({ format: 'webp', width: 256, height: 128 });
    const small = await sharp((await work(thumbnail, root, 'small.png')).bytes).metadata();
    expect(small).toMatchObject({ width: 10, height: 20 });
  });

  it.each([
    ['garbage', Buffer.from('no image')],
    ['nothing', Buffer.alloc(0)],
    ['a header alone', Buffer.from('89504e470d0a1a0a', 'hex')],
  ])('says that an image of %s is broken', async (_what, content) => {
    const root = await folderWith({ 'x.png': content });
    await expect(work(thumbnail, root, 'x.png')).rejects.toMatchObject({
      name: 'BrokenImage',
      message: expect.stringContaining('cannot be decoded'),
    });
  });

  it('says that a half image is broken', async () => {
    const whole = await sharp({
      create: {
        width: 400,
        height: 400,
        channels: 3,
        noise: { type: 'gaussian', mean: 99, sigma: 30 },
        background: '#000',
      },
    })
      .png()
      .toBuffer();
    const root = await folderWith({ 'x.png': whole.subarray(0, whole.length / 2) });
    await expect(work(thumbnail, root, 'x.png')).rejects.toMatchObject({ name: 'BrokenImage' });
  });

  it('says that a file which is gone, a directory or a loop cannot be read', async () => {
    const root = await folderWith({ 'directory/x': '' });
    await symlink('loop', join(root, 'loop'));
    for (const handler of [compress, index, thumbnail]) {
      for (const path of ['gone', 'directory', 'loop']) {
        await expect(work(handler, root, path)).rejects.toMatchObject({ name: 'UnreadableFile' });
      }
    }
    expect(await readdir(join(root, 'out/.unfinished'))).toEqual([]);
  });

  it('refuses text that is none any more, and payloads of others', async () => {
    const root = await folderWith({ x: 'a\0b' });
    await expect(work(index, root, 'x')).rejects.toMatchObject({ name: 'NotText' });
    await expect(compress({ path: 'x' }, context())).rejects.toMatchObject({ name: 'MalformedPayload' });
    await expect(compress(null, context())).rejects.toMatchObject({ name: 'MalformedPayload' });
  });

  it('leaves nothing behind when it is told to stop', async () => {
    const root = await folderWith({ x: Buffer.alloc(1_000_000, 1) });
    const signal = AbortSignal.abort();
    for (const handler of [compress, index]) await expect(work(handler, root, 'x', signal)).rejects.toThrow();
    const left = await readdir(join(root, 'out'), { recursive: true, withFileTypes: true }).catch(() => []);
    expect(left.filter((entry) => entry.isFile())).toEqual([]);
  });

  it('is done twice with the same result, and one line in the catalogue', async () => {
    const root = await folderWith({ 'lib/a.txt': 'some words' });
    const first = await work(index, root, 'lib/a.txt');
    expect(await work(index, root, 'lib/a.txt')).toEqual(first);
    const catalogue = await readFile(join(root, 'out/catalogues/lib.jsonl'), 'utf8');
    expect(catalogue.split('\n')).toHaveLength(2);
    expect(JSON.parse(catalogue)).toMatchObject({ job: 'job', path: 'lib/a.txt', sha256: first.sha256 });
  });
});
