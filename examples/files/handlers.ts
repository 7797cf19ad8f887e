/** The work itself: one function for each job type. Output first, then the line in the directory's catalogue. */
import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { createZstdCompress } from 'node:zlib';
import type { Json } from '../../lib/core/job.ts';
import type { JobContext } from '../../lib/worker/run-job.ts';
import { appendToCatalogue } from './catalogue.ts';
import { outputPath, topDirectory } from './names.ts';
import { writeOutput } from './output.ts';
import { countWords } from './words.ts';
import {
  type FileJobType,
  type FilePayload,
  type FileResult,
  NotText,
  readFailure,
  readPayload,
  TEXT_BYTES_MAX,
} from './work.ts';

type Work = (payload: FilePayload, signal: AbortSignal) => Promise<FileResult>;

/** A job handler that needs no more of its context than this. */
export type FileHandler = (
  payload: Json,
  context: Pick<JobContext, 'jobId' | 'signal'>,
) => Promise<FileResult>;

/** A handler that does the work and enters its output into the catalogue. */
export function fileJob(type: FileJobType, work: Work): FileHandler {
  return async (payload, { jobId, signal }) => {
    const file = readPayload(payload);
    const result = await work(file, signal).catch((error: unknown) => {
      throw readFailure(error, file.file);
    });
    // An attempt that was told to stop may not be alone any more.
    signal.throwIfAborted();
    await appendToCatalogue(file.out, topDirectory(file.path), {
      job: jobId,
      path: file.path,
      type,
      ...result,
    });
    return result;
  };
}

/** Zstandard, in a stream: memory does not grow with the file. */
export const compress = fileJob('compress', ({ path, file, out }, signal) =>
  writeOutput(out, outputPath(path, '.zst'), () => [createReadStream(file), createZstdCompress()], signal),
);

/** Words and counts of a text, as JSON. */
export const index = fileJob('index', async ({ path, file, out }, signal) => {
  const bytes = await readFile(file, { signal });
  if (bytes.length > TEXT_BYTES_MAX || bytes.includes(0) || !isUtf8(bytes)) {
    throw new NotText(
      `${path} is not UTF-8 text of at most ${TEXT_BYTES_MAX} bytes any more; submit it again`,
    );
  }
  const json = `${JSON.stringify({ path, ...countWords(bytes.toString('utf8')) })}\n`;
  return writeOutput(
    out,
    outputPath(path, '.words.json'),
    () => [Readable.from([Buffer.from(json)])],
    signal,
  );
});
