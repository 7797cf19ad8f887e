/**
 * Reads many items of one partition key: page by page as long as those that are asked for stand close together, by their keys where
 * they do not.
 *
 * By its key, an item is a read unit, also where there is none. A query is one for each started 4 KB that it passes over, so forty
 * ledgers and more, whether or not they are asked for. What a page costs more than the keys it answers is known when it was read, and
 * then no further one is: so all of it is never more than one page dearer than the keys alone.
 */

/** Fewer keys are asked for by name: a page costs 25 units and more. */
export const CLOSE_KEYS_MIN = 200;
/** Items of a page. */
export const CLOSE_ITEMS = 1_000;

export interface SortKeyRange {
  readonly from: string;
  /** Included. */
  readonly to: string;
}

/** How far a read has come. */
export class CloseReads {
  readonly #sortKeys: readonly string[];
  #at = 0;
  #pays = true;
  #pageUnits = 0;

  /** @param sortKeys - in ASCII, so that their order here is the table's */
  constructor(sortKeys: Iterable<string>) {
    this.#sortKeys = [...new Set(sortKeys)].sort();
  }

  /** The range whose first items are to be read now; undefined: what is `left` is read by its keys. */
  get next(): SortKeyRange | undefined {
    const from = this.#sortKeys[this.#at];
    const to = this.#sortKeys.at(-1);
    const isMany = this.#sortKeys.length - this.#at >= CLOSE_KEYS_MIN;
    return this.#pays && isMany && from !== undefined && to !== undefined ? { from, to } : undefined;
  }

  get left(): readonly string[] {
    return this.#sortKeys.slice(this.#at);
  }

  /** Of the pages, and of what is left. */
  get readUnits(): number {
    return this.#pageUnits + this.#sortKeys.length - this.#at;
  }

  /**
   * A page was read.
   *
   * @param last - its last sort key; undefined: nothing of the range follows
   */
  took(last: string | undefined, readUnits: number): void {
    const before = this.#at;
    const isAnswered = (sortKey: string | undefined): boolean =>
      sortKey !== undefined && (last === undefined || sortKey <= last);
    while (isAnswered(this.#sortKeys[this.#at])) this.#at += 1;
    this.#pageUnits += readUnits;
    this.#pays = this.#at - before > readUnits;
  }
}
