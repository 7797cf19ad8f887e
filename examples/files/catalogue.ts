/**
 * A directory's catalogue: one line for each of its jobs that made an output.
 *
 * Read, check, append, without a lock: the scheduler never runs two jobs of one directory at once, because they share
 * a conflict key. A second attempt of a job finds the line of the first.
 */
import { appendFile, mkdir, readFile, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cataloguePath } from './names.ts';
import type { FileJobType } from './work.ts';

export interface CatalogueLine {
  readonly job: string;
  readonly path: string;
  readonly type: FileJobType;
  readonly output: string;
  readonly sha256: string;
}

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ENOENT';

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    if (isMissing(error)) return Buffer.alloc(0);
    throw error;
  }
}

/** Adds the line to the catalogue of `directory`, once for each job. */
export async function appendToCatalogue(
  out: string,
  directory: string,
  line: CatalogueLine,
): Promise<'appended' | 'present'> {
  const file = join(out, cataloguePath(directory));
  const content = await read(file);
  // A line without its end is what a writer left that died in the middle of it.
  const wholeBytes = content.lastIndexOf('\n') + 1;
  // Inside a JSON string the quotes would be escaped: this matches nothing but the member itself.
  if (content.subarray(0, wholeBytes).includes(`"job":${JSON.stringify(line.job)}`)) return 'present';
  if (wholeBytes < content.length) await truncate(file, wholeBytes);
  await mkdir(dirname(file), { recursive: true });
  await appendFile(file, `${JSON.stringify(line)}\n`);
  return 'appended';
}
