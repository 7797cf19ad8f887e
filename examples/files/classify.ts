/** Which work a file gets: exactly one job. */
import { isUtf8 } from 'node:buffer';
import { open } from 'node:fs/promises';
import { extname } from 'node:path';
import { type FileJobType, TEXT_BYTES_MAX } from './work.ts';

/** Whatever they hold: an image that cannot be decoded is to be reported, not compressed in silence. */
const IMAGE_EXTENSIONS = new Set([
  ...['.png', '.jpg', '.jpeg', '.webp', '.gif', '.avif', '.tif', '.tiff', '.svg'],
]);

const TEXT_EXTENSIONS = new Set([
  ...['.txt', '.md', '.markdown', '.rst', '.adoc', '.tex', '.csv', '.tsv', '.log', '.ini', '.cfg', '.conf'],
  ...[
    '.json',
    '.jsonl',
    '.jsonc',
    '.json5',
    '.yaml',
    '.yml',
    '.toml',
    '.xml',
    '.html',
    '.htm',
    '.css',
    '.scss',
  ],
  ...[
    '.js',
    '.mjs',
    '.cjs',
    '.jsx',
    '.ts',
    '.mts',
    '.cts',
    '.tsx',
    '.map',
    '.vue',
    '.sql',
    '.graphql',
    '.proto',
  ],
  ...['.py', '.rb', '.go', '.rs', '.java', '.kt', '.c', '.h', '.cc', '.cpp', '.hpp', '.cs', '.swift', '.php'],
  ...[
    '.sh',
    '.bash',
    '.zsh',
    '.fish',
    '.ps1',
    '.bat',
    '.ex',
    '.exs',
    '.erl',
    '.lua',
    '.pl',
    '.r',
    '.tf',
    '.env',
  ],
]);

/** Enough for every signature below. */
const HEAD_BYTES = 16;

const startsWith = (head: Buffer, signature: string, at = 0): boolean =>
  head.subarray(at, at + signature.length).equals(Buffer.from(signature, 'latin1'));

/** By what the first bytes say: PNG, JPEG, GIF, WebP, TIFF, AVIF. */
function looksLikeImage(head: Buffer): boolean {
  return (
    startsWith(head, '\x89PNG\r\n\x1a\n') ||
    startsWith(head, '\xff\xd8\xff') ||
    startsWith(head, 'GIF87a') ||
    startsWith(head, 'GIF89a') ||
    (startsWith(head, 'RIFF') && startsWith(head, 'WEBP', 8)) ||
    startsWith(head, 'II*\0') ||
    startsWith(head, 'MM\0*') ||
    startsWith(head, 'ftypavif', 4)
  );
}

async function readUpTo(file: Awaited<ReturnType<typeof open>>, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  let filled = 0;
  while (filled < bytes) {
    const { bytesRead } = await file.read(buffer, filled, bytes - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

/**
 * Images by extension or by their first bytes; UTF-8 text without NUL of at most 1 MiB with a known extension or
 * none; everything else is compressed. So is what cannot be read: its job says why it fails.
 */
export async function classify(path: string, file: string): Promise<FileJobType> {
  const extension = extname(path).toLowerCase();
  if (IMAGE_EXTENSIONS.has(extension)) return 'thumbnail';
  let opened: Awaited<ReturnType<typeof open>> | undefined;
  try {
    opened = await open(file);
    if (looksLikeImage(await readUpTo(opened, HEAD_BYTES))) return 'thumbnail';
    if (extension !== '' && !TEXT_EXTENSIONS.has(extension)) return 'compress';
    const { size } = await opened.stat();
    if (size > TEXT_BYTES_MAX) return 'compress';
    const content = await readUpTo(opened, size);
    return content.includes(0) || !isUtf8(content) ? 'compress' : 'index';
  } catch {
    return 'compress';
  } finally {
    await opened?.close();
  }
}
