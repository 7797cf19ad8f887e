/** Events in virtual time, ordered by instant, then by rank, then by the order in which they were added. */
export class Agenda<What> {
  readonly #heap: {
    readonly atMs: number;
    readonly rank: number;
    readonly number: number;
    readonly what: What;
  }[] = [];
  #added = 0;

  get nextMs(): number {
    return this.#heap[0]?.atMs ?? Infinity;
  }

  /** @param rank - smaller ranks come first at one instant */
  add(atMs: number, rank: number, what: What): void {
    const heap = this.#heap;
    heap.push({ atMs, rank, number: this.#added, what });
    this.#added += 1;
    let index = heap.length - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#isBefore(index, parent)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  /** Removes and returns the next event if it happens by `nowMs`. */
  take(nowMs: number): What | undefined {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined || first.atMs > nowMs) return undefined;
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) {
      heap[0] = last;
      this.#sink();
    }
    return first.what;
  }

  #sink(): void {
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      let least = index;
      if (left < this.#heap.length && this.#isBefore(left, least)) least = left;
      if (right < this.#heap.length && this.#isBefore(right, least)) least = right;
      if (least === index) return;
      this.#swap(index, least);
      index = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const a = this.#heap[one];
    const b = this.#heap[other];
    if (a === undefined || b === undefined) return false;
    return (a.atMs - b.atMs || a.rank - b.rank || a.number - b.number) < 0;
  }

  #swap(one: number, other: number): void {
    const a = this.#heap[one];
    const b = this.#heap[other];
    if (a === undefined || b === undefined) return;
    this.#heap[one] = b;
    this.#heap[other] = a;
  }
}
