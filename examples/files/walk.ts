/** Finds the files of the input folder, in an order that is the same everywhere. */
import type { Stats } from 'node:fs';
import { lstat, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

export interface InputFile {
  /** Relative to the input folder, with slashes. */
  readonly path: string;
  /** Absolute. */
  readonly file: string;
}

/** Something in the input that gets no job. */
export interface Skipped {
  readonly path: string;
  readonly reason: string;
}

export interface Walked {
  readonly files: readonly InputFile[];
  readonly skipped: readonly Skipped[];
}

export interface WalkOptions {
  /** Absolute paths that are left out, with what is in them. */
  readonly exclude?: readonly string[] | undefined;
}

type Found = { readonly kind: 'file' | 'directory' } | { readonly kind: 'skip'; readonly reason: string };

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function kindOf(stats: Stats): string {
  if (stats.isFIFO()) return 'a pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

/** Links to files are files; so are links that lead nowhere: their jobs say so. Links to directories may go in circles. */
async function look(file: string): Promise<Found> {
  try {
    const own = await lstat(file);
    if (own.isFile()) return { kind: 'file' };
    if (own.isDirectory()) return { kind: 'directory' };
    if (!own.isSymbolicLink()) return { kind: 'skip', reason: `is ${kindOf(own)}, not a file` };
  } catch (error) {
    return { kind: 'skip', reason: reasonOf(error) };
  }
  const target = await stat(file).catch(() => undefined);
  if (target === undefined || target.isFile()) return { kind: 'file' };
  return target.isDirectory()
    ? { kind: 'skip', reason: 'is a link to a directory; those are not followed' }
    : { kind: 'skip', reason: `is a link to ${kindOf(target)}, not to a file` };
}

// By code unit: a locale's order would differ from machine to machine.
const byName = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A name as text; undefined if its bytes are not UTF-8. Then no JSON could carry it. */
function decode(name: Buffer): string | undefined {
  try {
    return utf8.decode(name);
  } catch {
    return undefined;
  }
}

/** Walks the folder `root`. Whatever cannot be taken is skipped with its reason; nothing stops the walk. */
export async function walk(root: string, options: WalkOptions = {}): Promise<Walked> {
  const files: InputFile[] = [];
  const skipped: Skipped[] = [];
  const excluded = new Set(options.exclude);

  const visitDirectory = async (path: string, file: string): Promise<void> => {
    let names: Buffer[];
    try {
      names = await readdir(file, { encoding: 'buffer' });
    } catch (error) {
      skipped.push({ path: path === '' ? '.' : path, reason: `cannot be listed: ${reasonOf(error)}` });
      return;
    }
    const decoded: string[] = [];
    for (const name of names) {
      const text = decode(name);
      if (text !== undefined) decoded.push(text);
      else skipped.push({ path: joined(path, name.toString('utf8')), reason: 'its name is not valid UTF-8' });
    }
    for (const name of decoded.sort(byName)) await visit(joined(path, name));
  };

  const visit = async (path: string): Promise<void> => {
    const file = join(root, path);
    if (excluded.has(file)) return;
    const found = await look(file);
    if (found.kind === 'file') files.push({ path, file });
    else if (found.kind === 'skip') skipped.push({ path, reason: found.reason });
    else await visitDirectory(path, file);
  };

  await visitDirectory('', root);
  return { files, skipped };
}

const joined = (path: string, name: string): string => (path === '' ? name : `${path}/${name}`);
