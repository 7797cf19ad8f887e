/** What the example's job types are, what their jobs are told, and how they fail. */
import type { Json } from '../../lib/core/job.ts';

export const JOB_TYPES = ['compress', 'thumbnail', 'index'] as const;
export type FileJobType = (typeof JOB_TYPES)[number];

/** Files above this are not read as text. */
export const TEXT_BYTES_MAX = 1024 * 1024;

export interface FilePayload {
  /** Relative to the input folder, with slashes. */
  readonly path: string;
  /** The file itself, absolute. */
  readonly file: string;
  /** The output folder, absolute. */
  readonly out: string;
}

/** What a finished job leaves. A type, not an interface: results are JSON. */
export type FileResult = {
  /** Relative to the output folder, with slashes. */
  readonly output: string;
  /** Of the output's bytes, hexadecimal. */
  readonly sha256: string;
};

/** The input cannot be opened or read, and will not be readable at the next attempt either. */
export class UnreadableFile extends Error {
  override readonly name = 'UnreadableFile';
}

/** The input says it is an image, and is none that can be decoded. */
export class BrokenImage extends Error {
  override readonly name = 'BrokenImage';
}

/** The input was text when it was submitted, and is not any more. */
export class NotText extends Error {
  override readonly name = 'NotText';
}

/** The payload is not one of this example's. */
export class MalformedPayload extends Error {
  override readonly name = 'MalformedPayload';
}

/** Trying again would only fail again: the pool's retry rules name these. */
export const FINAL_ERRORS = ['UnreadableFile', 'BrokenImage', 'NotText', 'MalformedPayload'] as const;

const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

export function readPayload(payload: Json): FilePayload {
  if (typeof payload === 'object' && payload !== null && 'path' in payload) {
    const { path, file, out } = payload;
    if (isText(path) && isText(file) && isText(out)) return { path, file, out };
  }
  throw new MalformedPayload(
    `the payload must be { path, file, out }, not ${JSON.stringify(payload).slice(0, 100)}`,
  );
}

const FINAL_CODES = new Set([
  'ENOENT',
  'EACCES',
  'EPERM',
  'EISDIR',
  'ELOOP',
  'ENOTDIR',
  'ENAMETOOLONG',
  'ENXIO',
]);

const hasCode = (error: unknown): error is Error & { readonly code: string } =>
  error instanceof Error && 'code' in error && typeof error.code === 'string';

/** A failure to read the input, as what it means for the job; everything else as it is. */
export function readFailure(error: unknown, file: string): unknown {
  // Only if it was the input that failed: a missing output folder is another matter.
  if (hasCode(error) && FINAL_CODES.has(error.code) && (!('path' in error) || error.path === file)) {
    return new UnreadableFile(`the file cannot be read: ${error.message}`, { cause: error });
  }
  return error;
}
