/** Log files of started programs. Each start has a new one, and the newest are kept to examine failed runs. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const KEPT_LOGS = 10;

/** Removes all but the newest entries of a folder whose names have this prefix. Names sort by age. */
export async function keepNewest(folder: string, prefix: string, kept: number): Promise<void> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.startsWith(prefix)).sort();
  const surplus = names.slice(0, Math.max(0, names.length - kept));
  await Promise.all(surplus.map((name) => rm(join(folder, name), { recursive: true, force: true })));
}

/** Returns the present time, as part of a file name. */
export const stamp = (): string => new Date().toISOString().replaceAll(/[:.]/g, '-');

/** Returns the path of a new log file in `logs/` of the data folder. */
export async function newLogFile(dataDir: string, name: string): Promise<string> {
  const folder = join(dataDir, 'logs');
  await mkdir(folder, { recursive: true });
  await keepNewest(folder, `${name}-`, KEPT_LOGS - 1);
  return join(folder, `${name}-${stamp()}-${process.pid}.log`);
}
