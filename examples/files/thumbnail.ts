/** Thumbnails, apart from the other work: only fleets that take images carry the native module. */
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import sharp from 'sharp';
import { fileJob } from './handlers.ts';
import { outputPath } from './names.ts';
import { writeOutput } from './output.ts';
import { BrokenImage } from './work.ts';

const SIDE_PX = 256;

// One job is one slot: it gets one thread, and leaves nothing behind for the next.
sharp.concurrency(1);
sharp.cache(false);

// Async, so that what it refuses at once is a rejection too.
const decode = async (image: Buffer): Promise<Buffer> =>
  sharp(image)
    .autoOrient()
    .resize(SIDE_PX, SIDE_PX, { fit: 'inside', withoutEnlargement: true })
    .webp()
    .toBuffer();

/** WebP of at most 256 x 256 pixels, upright. */
export const thumbnail = fileJob('thumbnail', async ({ path, file, out }, signal) => {
  // Not by name: brackets in a name would be read as options.
  const image = await readFile(file, { signal });
  const small = await decode(image).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message.replaceAll('\n', ' ') : String(cause);
    throw new BrokenImage(`the image cannot be decoded: ${reason}`, { cause });
  });
  return writeOutput(out, outputPath(path, '.webp'), () => [Readable.from([small])], signal);
});
