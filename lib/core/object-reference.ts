/** A value that is too large for its item is an object, as JSON, and the item holds a reference to it. */
import type { Json } from './job.ts';

/** Names an object, and what must be in it. */
export interface ObjectReference {
  readonly key: string;
  /** UTF-8 bytes of the value as JSON. */
  readonly bytes: number;
  /** SHA-256 of those bytes, in hexadecimal digits. */
  readonly sha256: string;
}

/** The only field of a reference. Values of users may not have it. */
export const REFERENCE_FIELD = 'fairlead:object';

export const referenceTo = (object: ObjectReference): Json => ({ [REFERENCE_FIELD]: { ...object } });

/** Whether a value has the field that only references have. */
export const isReference = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, REFERENCE_FIELD);

/** The reference that stands in place of a value; undefined if the value itself is there. */
export function referenceIn(value: unknown): ObjectReference | undefined {
  if (!isReference(value)) return undefined;
  const { key, bytes, sha256 } = ((value as Readonly<Record<string, unknown>>)[REFERENCE_FIELD] ??
    {}) as Readonly<Record<string, unknown>>;
  return { key: String(key), bytes: Number(bytes), sha256: String(sha256) };
}

const KB = 1_024;

/** A size for people: `412 KB`, `3.2 MB`. */
export const sizeText = (bytes: number): string =>
  bytes < KB * KB ? `${Math.ceil(bytes / KB)} KB` : `${(bytes / KB / KB).toFixed(1)} MB`;

/** The reason why a value of a user is refused that has the field of references. */
export const REFERENCE_REFUSED = `may not have the field ${REFERENCE_FIELD}, which only references to stored objects have; rename the field`;
