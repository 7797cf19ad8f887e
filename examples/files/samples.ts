/** The 50 files that the example works through unless it is given a folder: the same ones each time. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import sharp from 'sharp';

const ALBUMS = ['coast', 'forest', 'harbour', 'market', 'station'] as const;
const PICTURES = 4;
const NOTES = 4;
const RECORDING_BYTES = 200_000;
const WORDS = ['light', 'rain', 'early', 'boats', 'empty', 'crowd', 'north', 'bridge', 'later', 'again'];

/** One of the pictures cannot be decoded: an example has to show what becomes of a job that fails. */
const BROKEN = 'station/picture-4.png';

async function contentsOf(album: string, at: number): Promise<ReadonlyMap<string, Buffer | string>> {
  const files = new Map<string, Buffer | string>();
  for (let no = 1; no <= PICTURES; no += 1) {
    const background = { r: 40 * at, g: 50 * no, b: 160 };
    const picture = sharp({ create: { width: 800, height: 600, channels: 3, background } });
    files.set(`${album}/picture-${no}.png`, await picture.png().toBuffer());
  }
  for (let no = 1; no <= NOTES; no += 1) {
    const words = Array.from({ length: 200 }, (_, word) => WORDS[(word * (no + at) + no) % WORDS.length]);
    files.set(`${album}/note-${no}.txt`, `${album} ${no}: ${words.join(' ')}\n`);
  }
  for (const side of ['a', 'b']) {
    const samples = Buffer.alloc(RECORDING_BYTES, `${album}-${side}-${'~'.repeat(at)}`);
    files.set(`${album}/recording-${side}.pcm`, samples);
  }
  return files;
}

/** Writes the files, and returns their folder. */
export async function writeSamples(folder: string): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  for (const [at, album] of ALBUMS.entries()) {
    for (const [path, content] of await contentsOf(album, at)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), path === BROKEN ? 'no picture' : content);
    }
  }
  return folder;
}
