/** Log files of what is started: a new one each time, and the newest are kept to look into a failed run. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const KEPT = 10;

/** Removes all but the newest entries of a folder whose names begin so; names sort by age. */
export async function keepNewest(folder: string, prefix: string, kept: number): Promise<void> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.startsWith(prefix)).sort();
  const surplus = names.slice(0, Math.max(0, names.length - kept));
  await Promise.all(surplus.map((name) => rm(join(folder, name), { recursive: true, force: true })));
}

/** Part of a file's name: this instant. */
export const stamp = (): string => new Date().toISOString().replaceAll(/[:.]/g, '-');

/** The path of a new log, in `logs/` of the data folder. */
export async function newLogFile(dataDir: string, name: string): Promise<string> {
  const folder = join(dataDir, 'logs');
  await mkdir(folder, { recursive: true });
  await keepNewest(folder, `${name}-`, KEPT - 1);
  return join(folder, `${name}-${stamp()}-${process.pid}.log`);
}
