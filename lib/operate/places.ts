/**
 * Places in lists. A list that the store reads page by page can be continued behind any of its entries: the place names the page by the
 * store's cursor, and the entry by its id.
 */
import { ValidationError } from '../core/errors.ts';

export interface ListPlace {
  readonly partition: number;
  /** The cursor of the page; undefined: it is the first one of the partition. */
  readonly after?: string | undefined;
  readonly id: string;
}

const places = new WeakMap<object, ListPlace>();

/** Notes where an entry stands in its list. */
export function placed<Entry extends object>(entry: Entry, place: ListPlace | undefined): Entry {
  if (place !== undefined) places.set(entry, place);
  return entry;
}

export const placeOf = (entry: object): ListPlace | undefined => places.get(entry);

/** The place of a listed entry as text, by which a later call continues; undefined: the list is not read page by page. */
export function placeText(entry: object): string | undefined {
  const place = places.get(entry);
  if (place === undefined) return undefined;
  return Buffer.from(JSON.stringify([place.partition, place.id, place.after ?? ''])).toString('base64url');
}

/** @throws ValidationError - the text is not one that `placeText` returns */
export function parsePlace(field: string, text: string): ListPlace {
  try {
    const [partition, id, after]: readonly unknown[] = JSON.parse(
      Buffer.from(text, 'base64url').toString('utf8'),
    );
    if (Number.isSafeInteger(partition) && typeof id === 'string' && typeof after === 'string')
      return { partition: Number(partition), id, ...(after === '' ? {} : { after }) };
  } catch {
    // A text that cannot be decoded is refused below, as one with wrong fields is.
  }
  throw new ValidationError(field, 'must be what a list returned with an entry; begin without it');
}

interface Page<Entry> {
  readonly entries: readonly Entry[];
  /** The cursor by which the page was read. */
  readonly after: string | undefined;
}

/**
 * Yields the pages of a list of one partition that follow a place. If the entry of the place has left the list, its whole page follows
 * again: an entry may then be listed twice, and none is missed.
 */
export async function* pagesBehind<Entry>(
  from: ListPlace | undefined,
  idOf: (entry: Entry) => string,
  read: (
    after: string | undefined,
  ) => Promise<{ readonly entries: readonly Entry[]; readonly next?: string | undefined }>,
): AsyncGenerator<Page<Entry>> {
  let after = from?.after;
  let behind = from?.id;
  do {
    const { entries, next } = await read(after);
    const at = behind === undefined ? -1 : entries.findIndex((entry) => idOf(entry) === behind);
    yield { entries: entries.slice(at + 1), after };
    after = next;
    behind = undefined;
  } while (after !== undefined);
}
