/** A priority queue by time. Entries of the same time come out in the order in which they were added. */

interface Due<T> {
  readonly atMs: number;
  readonly order: number;
  readonly value: T;
}

const isBefore = <T>(a: Due<T>, b: Due<T>): boolean =>
  a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

export class TimeHeap<T> {
  readonly #heap: Due<T>[] = [];
  #added = 0;

  get size(): number {
    return this.#heap.length;
  }

  /** Returns when the next entry is due; undefined if the heap is empty. */
  get nextAtMs(): number | undefined {
    return this.#heap[0]?.atMs;
  }

  /** Returns the next entry, due or not; undefined if the heap is empty. */
  get next(): T | undefined {
    return this.#heap[0]?.value;
  }

  add(atMs: number, value: T): void {
    const added: Due<T> = { atMs, order: this.#added, value };
    this.#added += 1;
    let at = this.#heap.length;
    while (at > 0) {
      const parentAt = (at - 1) >>> 1;
      const parent = this.#heap[parentAt];
      if (parent === undefined || !isBefore(added, parent)) break;
      this.#heap[at] = parent;
      at = parentAt;
    }
    this.#heap[at] = added;
  }

  /** Removes and returns the next entry if it is due at `nowMs`. */
  takeDue(nowMs: number): { readonly value: T } | undefined {
    const first = this.#heap[0];
    if (first === undefined || first.atMs > nowMs) return undefined;
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) this.#sink(last);
    return first;
  }

  /** Returns a new heap with the entries for which `keep` returns true. */
  filtered(keep: (value: T) => boolean): TimeHeap<T> {
    const kept = new TimeHeap<T>();
    const entries = this.#heap.filter((entry) => keep(entry.value));
    for (const { atMs, value } of entries.sort((a, b) => (isBefore(a, b) ? -1 : 1))) kept.add(atMs, value);
    return kept;
  }

  #sink(moved: Due<T>): void {
    let at = 0;
    for (;;) {
      const leftAt = 2 * at + 1;
      const left = this.#heap[leftAt];
      if (left === undefined) break;
      const right = this.#heap[leftAt + 1];
      const [child, childAt] =
        right !== undefined && isBefore(right, left) ? [right, leftAt + 1] : [left, leftAt];
      if (!isBefore(child, moved)) break;
      this.#heap[at] = child;
      at = childAt;
    }
    this.#heap[at] = moved;
  }
}
