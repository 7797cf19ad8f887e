/**
 * Work for a future time: what waits, what starts.
 * Source: future-work. The rows say what is to happen and when; that something has been armed is known in memory
 * only, so after a crash there is nothing to repair: whoever starts reads the rows and arms again. Changes count at
 * once, and a row that has run is gone, so creating its id again is new work.
 *
 * Instants are milliseconds.
 */

/** One row: work that waits for its time. */
export interface TimedWork {
  readonly id: string;
  readonly triggerMs: number;
}

/** The rows, and whether somebody is there to look at them. Changes and starts take O(log rows). */
export class Timers {
  readonly #triggers = new Map<string, number>();
  /** A heap by trigger, then id. A row that was moved or cancelled leaves its old entry behind until it surfaces. */
  readonly #heap: TimedWork[] = [];
  #up = false;

  /** The scheduler comes up: from now on, due rows start. */
  start(): void {
    this.#up = true;
  }

  /** The scheduler is gone: rows stay, nothing starts. */
  crash(): void {
    this.#up = false;
  }

  /** Adds a row; one with that id that still waits gets the new time. */
  create(id: string, triggerMs: number): void {
    this.#triggers.set(id, triggerMs);
    push(this.#heap, { id, triggerMs });
  }

  /** Moves a row. Answers whether there was one. */
  update(id: string, triggerMs: number): boolean {
    if (!this.#triggers.has(id)) return false;
    this.create(id, triggerMs);
    return true;
  }

  /** Removes a row. Answers whether there was one. */
  cancel(id: string): boolean {
    return this.#triggers.delete(id);
  }

  /** Takes out what starts now, by trigger, then id. While nobody is up, nothing does. */
  startDue(nowMs: number): readonly TimedWork[] {
    const started: TimedWork[] = [];
    if (!this.#up) return started;
    for (let next = this.#head(); next !== undefined && next.triggerMs <= nowMs; next = this.#head()) {
      this.#triggers.delete(next.id);
      started.push(next);
    }
    return started;
  }

  /** When somebody who is up must look next; undefined if nothing waits or nobody is up. */
  nextTriggerMs(): number | undefined {
    return this.#up ? this.#head()?.triggerMs : undefined;
  }

  /** All rows, by trigger, then id. */
  waiting(): readonly TimedWork[] {
    return [...this.#triggers].map(([id, triggerMs]) => ({ id, triggerMs })).sort(byTrigger);
  }

  #head(): TimedWork | undefined {
    while (this.#heap[0] !== undefined && this.#triggers.get(this.#heap[0].id) !== this.#heap[0].triggerMs) {
      pop(this.#heap);
    }
    return this.#heap[0];
  }
}

function byTrigger(one: TimedWork, other: TimedWork): number {
  return one.triggerMs - other.triggerMs || (one.id < other.id ? -1 : 1);
}

function push(heap: TimedWork[], row: TimedWork): void {
  let place = heap.push(row) - 1;
  while (place > 0) {
    const parent = (place - 1) >> 1;
    const above = heap[parent] as TimedWork;
    if (byTrigger(above, row) <= 0) return;
    heap[place] = above;
    heap[parent] = row;
    place = parent;
  }
}

function pop(heap: TimedWork[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let place = 0;
  for (;;) {
    const left = 2 * place + 1;
    if (left >= heap.length) break;
    const right = left + 1;
    const smaller =
      right < heap.length && byTrigger(heap[right] as TimedWork, heap[left] as TimedWork) < 0 ? right : left;
    if (byTrigger(last, heap[smaller] as TimedWork) <= 0) break;
    heap[place] = heap[smaller] as TimedWork;
    place = smaller;
  }
  heap[place] = last;
}
