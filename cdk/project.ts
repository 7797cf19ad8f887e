/**
 * The project root and lock file for the CDK's bundling. The CDK needs a lock file, though only modules that are not
 * bundled use one.
 */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

/**
 * The names of the lock files that the CDK looks for, from the app's folder upwards. It refuses to choose among
 * several.
 */
const LOCK_FILES = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lockb', 'bun.lock', 'package-lock.json'];

export interface PlaceOfProject {
  readonly depsLockFilePath?: string;
  readonly projectRoot?: string;
}

/**
 * Returns explicit paths of the project and its lock file, for an app with no lock file, with two, or with a linked
 * package. Empty: the CDK finds a lock file itself.
 */
export function placeOfProject(entry: string, folder: string = process.cwd()): PlaceOfProject {
  const locked = foldersUp(folder).find((each) => lockFilesIn(each).length > 0);
  if (locked !== undefined && lockFilesIn(locked).length === 1 && isWithin(locked, entry)) return {};
  const projectRoot = foldersUp(realpathSync(folder)).find((each) => isWithin(each, entry));
  // Any file will do, because unbundled modules are not installed here.
  return { depsLockFilePath: entry, ...(projectRoot === undefined ? {} : { projectRoot }) };
}

const lockFilesIn = (folder: string): readonly string[] =>
  LOCK_FILES.filter((name) => existsSync(join(folder, name)));

/** Returns the folder and all its parents. */
function foldersUp(folder: string): readonly string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...foldersUp(above)];
}

const isWithin = (folder: string, file: string): boolean =>
  relative(folder, resolve(file)).split(sep)[0] !== '..';
