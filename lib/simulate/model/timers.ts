/**
 * A model of the timers in the reference text "future-work", against which scenarios are checked. A row is one stored
 * piece of work and its time. The armed timers exist only in memory, so a crash leaves nothing to repair: a scheduler
 * that starts reads the rows and arms its timers again. Changes take effect at
 * once. A row that has run is deleted, so creating its id again is new work.
 *
 * Instants are milliseconds.
 */

/** One row: work that waits for its time. */
export interface TimedWork {
  readonly id: string;
  readonly triggerMs: number;
}

/** The rows, and whether the scheduler is running. Changes and starts take O(log rows). */
export class Timers {
  readonly #triggers = new Map<string, number>();
  /**
   * A heap by trigger, then id. A row that was moved or cancelled leaves an outdated entry, which is skipped when it
   * surfaces.
   */
  readonly #heap: TimedWork[] = [];
  #isRunning = false;

  /** Starts the scheduler. From now on, due rows start. */
  start(): void {
    this.#isRunning = true;
  }

  /** Crashes the scheduler: rows stay, and none starts. */
  crash(): void {
    this.#isRunning = false;
  }

  /** Adds a row. A waiting row of this id gets the new time. */
  create(id: string, triggerMs: number): void {
    this.#triggers.set(id, triggerMs);
    push(this.#heap, { id, triggerMs });
  }

  /** Moves a row. Returns false if there is none. */
  update(id: string, triggerMs: number): boolean {
    if (!this.#triggers.has(id)) return false;
    this.create(id, triggerMs);
    return true;
  }

  /** Deletes a row. Returns false if there is none. */
  cancel(id: string): boolean {
    return this.#triggers.delete(id);
  }

  /** Removes and returns the rows that start now, by trigger, then id. None starts while the scheduler is not running. */
  startDue(nowMs: number): readonly TimedWork[] {
    const started: TimedWork[] = [];
    if (!this.#isRunning) return started;
    for (let next = this.#head(); next !== undefined && next.triggerMs <= nowMs; next = this.#head()) {
      this.#triggers.delete(next.id);
      started.push(next);
    }
    return started;
  }

  /** Returns when the next row is due; undefined if none waits, or the scheduler is not running. */
  nextTriggerMs(): number | undefined {
    return this.#isRunning ? this.#head()?.triggerMs : undefined;
  }

  /** Returns all rows, by trigger, then id. */
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
  let index = heap.push(row) - 1;
  while (index > 0) {
    const parent = (index - 1) >> 1;
    const above = heap[parent] as TimedWork;
    if (byTrigger(above, row) <= 0) return;
    heap[index] = above;
    heap[parent] = row;
    index = parent;
  }
}

function pop(heap: TimedWork[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let index = 0;
  for (;;) {
    const left = 2 * index + 1;
    if (left >= heap.length) break;
    const right = left + 1;
    const smaller =
      right < heap.length && byTrigger(heap[right] as TimedWork, heap[left] as TimedWork) < 0 ? right : left;
    if (byTrigger(last, heap[smaller] as TimedWork) <= 0) break;
    heap[index] = heap[smaller] as TimedWork;
    index = smaller;
  }
  heap[index] = last;
}
