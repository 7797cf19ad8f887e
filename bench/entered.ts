/** How often the functions of the project are entered, as V8 counts them. What the optimizer has put into its caller counts, too. */
import { Session } from 'node:inspector/promises';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = resolve(import.meta.dirname, '..');

export interface EnteredFile {
  /** From the project's root: `lib/...`. */
  readonly file: string;
  /** Of each of its functions that was entered, how often. */
  readonly counts: readonly number[];
}

/** Begins to count. The answered function says what was entered since it was last asked, file by file of `lib`. */
export async function countEntries(): Promise<() => Promise<readonly EnteredFile[]>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  return async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    return result.flatMap(({ url, functions }) => {
      const file = url.startsWith('file:') ? relative(PROJECT, fileURLToPath(url)) : '';
      const counts = functions.flatMap(({ ranges }) => ranges[0]?.count || []);
      return file.startsWith('lib/') && counts.length > 0 ? [{ file, counts }] : [];
    });
  };
}
