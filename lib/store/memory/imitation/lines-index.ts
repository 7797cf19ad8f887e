/** The sparse index of lines. It may lag behind the items, as DynamoDB's does. */

import { TimeHeap } from '../../../runtime/time-heap.ts';
import { type Placed, SortedLine } from '../sorted-line.ts';

/** An item's entry in the index. Entries are immutable, so an index that lags still shows the old one. */
export interface LineEntry<T> extends Placed {
  readonly line: string;
  readonly value: T;
}

interface Change<T> {
  readonly key: string;
  readonly remove: LineEntry<T> | undefined;
  readonly insert: LineEntry<T> | undefined;
}

export interface IndexTiming {
  readonly clock: () => number;
  /**
   * Returns for how many milliseconds the index lags behind one write, drawn anew each time; undefined: it never lags.
   */
  readonly lagMs?: (() => number) | undefined;
}

export class LinesIndex<T> {
  readonly #lines = new Map<string, SortedLine<LineEntry<T>>>();
  readonly #changes = new TimeHeap<Change<T>>();
  /** When the last write of each item becomes visible, so that writes of one item become visible in their order. */
  readonly #appliedAtMs = new Map<string, number>();
  readonly #timing: IndexTiming;

  constructor(timing: IndexTiming) {
    this.#timing = timing;
  }

  /** Replaces an item's entry; undefined if the item stands in no line. */
  move(key: string, remove: LineEntry<T> | undefined, insert: LineEntry<T> | undefined): void {
    if (remove === undefined && insert === undefined) return;
    const { clock, lagMs } = this.#timing;
    if (lagMs === undefined) {
      this.#apply({ key, remove, insert });
      return;
    }
    const atMs = Math.max(clock() + lagMs(), this.#appliedAtMs.get(key) ?? -Infinity);
    this.#appliedAtMs.set(key, atMs);
    this.#changes.add(atMs, { key, remove, insert });
  }

  read(line: string, limit: number, after?: Placed): LineEntry<T>[] {
    this.#catchUp();
    return this.#lines.get(line)?.read(limit, after) ?? [];
  }

  /** Returns how many entries of a line the index shows. */
  sizeOf(line: string): number {
    this.#catchUp();
    return this.#lines.get(line)?.size ?? 0;
  }

  #catchUp(): void {
    if (this.#changes.size === 0) return;
    const nowMs = this.#timing.clock();
    for (let due = this.#changes.takeDue(nowMs); due !== undefined; due = this.#changes.takeDue(nowMs)) {
      const { key } = due.value;
      if ((this.#appliedAtMs.get(key) ?? Infinity) <= nowMs) this.#appliedAtMs.delete(key);
      this.#apply(due.value);
    }
  }

  #apply({ remove, insert }: Change<T>): void {
    if (remove !== undefined) {
      const line = this.#lines.get(remove.line);
      line?.remove(remove);
      if (line?.size === 0) this.#lines.delete(remove.line);
    }
    if (insert !== undefined) {
      let line = this.#lines.get(insert.line);
      if (line === undefined) {
        line = new SortedLine();
        this.#lines.set(insert.line, line);
      }
      line.insert(insert);
    }
  }
}
