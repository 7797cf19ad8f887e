/** A folder for one test, gone after it. */
import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

export async function folderWith(files: Readonly<Record<string, string | Buffer>> = {}): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'fairlead-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [path, content] of Object.entries(files)) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  return folder;
}
