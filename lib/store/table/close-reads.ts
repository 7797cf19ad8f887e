/**
 * Reads many items of one partition key: by queries over ranges while the wanted items are close together, else by their keys.
 *
 * A read by key costs one read unit, also if the item is missing. A query costs one unit for each started 4 KB that it passes over: forty
 * ledgers and more, wanted or not. After each query its cost is compared with the number of keys that it answered. If it cost more, no
 * further query is made, so the total is at most one query dearer than reads by key.
 */

/**
 * The least number of keys for which a query may pay, because one query costs 25 units and more. Fewer keys are read by
 * key.
 */
export const CLOSE_KEYS_MIN = 200;
/** Items in one query. */
export const CLOSE_ITEMS = 1_000;

export interface SortKeyRange {
  readonly from: string;
  /** The last sort key of the range, which is included. */
  readonly to: string;
}

/** The progress of reading many items of one partition key. */
export class CloseReads {
  readonly #sortKeys: readonly string[];
  #at = 0;
  #pays = true;
  #pageUnits = 0;

  /** @param sortKeys - in ASCII, so that they sort as in the table */
  constructor(sortKeys: Iterable<string>) {
    this.#sortKeys = [...new Set(sortKeys)].sort();
  }

  /** Returns the range of the next query; undefined: read the sort keys in `left` by key. */
  get next(): SortKeyRange | undefined {
    const from = this.#sortKeys[this.#at];
    const to = this.#sortKeys.at(-1);
    const isMany = this.#sortKeys.length - this.#at >= CLOSE_KEYS_MIN;
    return this.#pays && isMany && from !== undefined && to !== undefined ? { from, to } : undefined;
  }

  get left(): readonly string[] {
    return this.#sortKeys.slice(this.#at);
  }

  /** Returns the read units of all queries, and of reading the rest by key. */
  get readUnits(): number {
    return this.#pageUnits + this.#sortKeys.length - this.#at;
  }

  /**
   * Records the answer of a query.
   * @param last - its last sort key; undefined: the range has no further items
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
