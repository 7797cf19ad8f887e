/** Names in the output folder, for whatever names the input has. */
import { createHash } from 'node:crypto';

/** File systems take 255 bytes; a suffix and a temporary name need some of them. */
const NAME_BYTES_MAX = 200;
const KEPT_CHARS = 150;

/** The directory for files that lie in the input folder itself. */
export const ROOT_DIRECTORY = '.';

/** The first directory of a path relative to the input; `.` for a file that lies in none. */
export function topDirectory(path: string): string {
  const slash = path.indexOf('/');
  return slash === -1 ? ROOT_DIRECTORY : path.slice(0, slash);
}

/**
 * One file name for any text: readable, of letters that every file system takes, different for different texts.
 * Names never start with a dot, so none is hidden, or `.` or `..`.
 */
export function fileName(text: string): string {
  // `encodeURIComponent` leaves these; the tilde marks a name that was cut.
  const encoded = encodeURIComponent(text)
    .replaceAll('~', '%7E')
    .replaceAll('*', '%2A')
    .replace(/^\./, '%2E');
  if (encoded.length <= NAME_BYTES_MAX) return encoded;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 32);
  return `${encoded.slice(0, KEPT_CHARS)}~${hash}`;
}

/** Where a file's output goes, relative to the output folder. A folder for each directory, and no folders in it. */
export function outputPath(path: string, suffix: string): string {
  const directory = topDirectory(path);
  const rest = directory === ROOT_DIRECTORY ? path : path.slice(directory.length + 1);
  return `files/${fileName(directory)}/${fileName(rest)}${suffix}`;
}

/** The catalogue of a directory, relative to the output folder. */
export const cataloguePath = (directory: string): string => `catalogues/${fileName(directory)}.jsonl`;
