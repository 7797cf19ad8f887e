/** Objects beside the items: texts under keys, in a bucket or in memory. */

export interface ObjectStore {
  /** Puts a text. A second put of a key replaces the first. */
  put(request: { readonly key: string; readonly text: string }): Promise<void>;
  /** Reads the text of a key as it was put last; undefined if there is none. */
  get(key: string): Promise<string | undefined>;
  /** Deletes up to `DELETED_AT_ONCE` keys; missing ones are no error. */
  delete(keys: readonly string[]): Promise<void>;
  /** Reads keys with a prefix in ascending order, from the first one after `after`, a page at a time. */
  list(request: { readonly prefix: string; readonly after?: string | undefined }): Promise<ObjectPage>;
}

export interface ObjectPage {
  readonly keys: readonly string[];
  /** The last key of the page; absent at the end. */
  readonly next?: string | undefined;
}

/** Keys of one request that deletes, as S3 bounds them; a page of a list has as many. */
export const DELETED_AT_ONCE = 1_000;
