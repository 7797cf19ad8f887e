/** Outputs appear whole or not at all, whatever becomes of the process that writes them. */
import { createHash, randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FileResult } from './work.ts';

/** Unfinished outputs stand here; whoever owns the output folder may clear it between runs. */
export const UNFINISHED = '.unfinished';

/** A stage of a pipeline. */
type Stage = NodeJS.ReadableStream | NodeJS.ReadWriteStream;

/**
 * Writes what the stages produce to `output`, at once when it is complete.
 *
 * The stages are made when everything is ready for them: a stream that nobody listens to yet would take the process
 * down with its error.
 *
 * @param output - relative to the folder `out`
 */
export async function writeOutput(
  out: string,
  output: string,
  stages: () => readonly Stage[],
  signal: AbortSignal,
): Promise<FileResult> {
  const target = join(out, output);
  const unfinished = join(out, UNFINISHED, randomUUID());
  await Promise.all([
    mkdir(dirname(target), { recursive: true }),
    mkdir(dirname(unfinished), { recursive: true }),
  ]);
  const hash = createHash('sha256');
  const hashing = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
  });
  try {
    await pipeline([...stages(), hashing, createWriteStream(unfinished)], { signal });
    await rename(unfinished, target);
  } catch (error) {
    await rm(unfinished, { force: true });
    throw error;
  }
  return { output, sha256: hash.digest('hex') };
}
