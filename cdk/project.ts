/** Where the CDK bundles a function from. It asks for a lock file, though only modules that are not bundled need one. */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';

/** The CDK looks for these from the app's folder upwards, and refuses to choose. */
const LOCK_FILES = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lockb', 'bun.lock', 'package-lock.json'];

export interface PlaceOfProject {
  readonly depsLockFilePath?: string;
  readonly projectRoot?: string;
}

/** Nothing where the CDK finds its way. Else, as for an app without a lock file, with two, or with a linked package, what to go by. */
export function placeOfProject(entry: string, folder: string = process.cwd()): PlaceOfProject {
  const locked = foldersUp(folder).find((each) => lockFilesIn(each).length > 0);
  if (locked !== undefined && lockFilesIn(locked).length === 1 && isWithin(locked, entry)) return {};
  const projectRoot = foldersUp(realpathSync(folder)).find((each) => isWithin(each, entry));
  // Any file will do: what is not bundled is installed by nobody here.
  return { depsLockFilePath: entry, ...(projectRoot === undefined ? {} : { projectRoot }) };
}

const lockFilesIn = (folder: string): readonly string[] =>
  LOCK_FILES.filter((name) => existsSync(join(folder, name)));

/** The folder, and all above it. */
function foldersUp(folder: string): readonly string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...foldersUp(above)];
}

const isWithin = (folder: string, file: string): boolean =>
  relative(folder, resolve(file)).split(sep)[0] !== '..';
