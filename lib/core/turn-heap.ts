/**
 * Keys in turn: a heap by share. A share in it is the key's, or an older one that was less: one that falls is to be told
 * (`repriced`), one that rises is found out when the key is first at the latest. Telling it at once is cheaper: most keys
 * stand near the bottom, and have nowhere to sink to.
 *
 * A key that is admitted sinks from the top nearly to the bottom, so what a level costs is what a decision costs: each
 * place has eight children of 16 bytes that stand side by side in two lines of a processor's cache. For that the first
 * place is number 7, the children of place i are 8 i - 48 to 8 i - 41, and its parent is (i >> 3) + 6.
 */
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import { NONE } from './job-table.ts';

/** Where a key is that has no place here. */
export const ABSENT = -1;
export const ASIDE = -2;

const FIRST = 7;

// Places of an entry's fields, among doubles and among whole numbers: its share, its key.
const DOUBLES = 2;
const INTS = 4;
const KEY = 2;

export class TurnHeap {
  readonly #ledgers: Ledgers;
  #doubles = new Float64Array(16 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  #end = FIRST;
  /** By key: its place, `ABSENT` or `ASIDE`. */
  #place = new Int32Array(16).fill(ABSENT);

  constructor(ledgers: Ledgers) {
    this.#ledgers = ledgers;
  }

  /** A key's place, `ABSENT` or `ASIDE`. */
  placeOf(key: number): number {
    return key < this.#place.length ? (this.#place[key] as number) : ABSENT;
  }

  /** The key with the least share; -1 when there is none. */
  first(): number {
    while (this.#end > FIRST) {
      const key = this.#keyAt(FIRST);
      const share = this.#ledgers.shareOf(key);
      if (share === this.#shareAt(FIRST)) return key;
      this.#sink(FIRST, key, share);
    }
    return NONE;
  }

  /** Whether another key has exactly the share of the first. */
  isTied(): boolean {
    const least = this.#shareAt(FIRST);
    const end = Math.min(FIRST + 9, this.#end);
    for (let child = FIRST + 1; child < end; ) {
      if (this.#shareAt(child) !== least) {
        child += 1;
        continue;
      }
      const key = this.#keyAt(child);
      const share = this.#ledgers.shareOf(key);
      if (share === least) return true;
      // It rose since; what takes its place is looked at next.
      this.#sink(child, key, share);
    }
    return false;
  }

  /** Puts a key in that is absent or aside. */
  push(key: number): void {
    if (key >= this.#place.length) {
      this.#place = widenInts(this.#place, Math.max(key + 1, this.#place.length * 2), ABSENT);
    }
    if (this.#end * DOUBLES === this.#doubles.length) {
      this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    this.#end += 1;
    this.#lift(this.#end - 1, key, this.#ledgers.shareOf(key));
  }

  /** Takes the first key out. */
  removeFirst(state: typeof ABSENT | typeof ASIDE): void {
    this.#place[this.#keyAt(FIRST)] = state;
    this.#end -= 1;
    if (this.#end > FIRST) this.#sink(FIRST, this.#keyAt(this.#end), this.#shareAt(this.#end));
  }

  /** A key that was aside is so no more. */
  endAside(key: number): void {
    this.#place[key] = ABSENT;
  }

  /** The share of a key that is here changed. */
  repriced(key: number): void {
    const place = this.#place[key] as number;
    const share = this.#ledgers.shareOf(key);
    if (share < this.#shareAt(place)) this.#lift(place, key, share);
    else this.#sink(place, key, share);
  }

  /** All shares may have fallen. */
  allRepriced(): void {
    for (let place = FIRST; place < this.#end; place += 1) {
      this.#doubles[place * DOUBLES] = this.#ledgers.shareOf(this.#keyAt(place));
    }
    for (let place = this.#end - 1; place >= FIRST; place -= 1) {
      this.#sink(place, this.#keyAt(place), this.#shareAt(place));
    }
  }

  #shareAt(place: number): number {
    return this.#doubles[place * DOUBLES] as number;
  }

  #keyAt(place: number): number {
    return this.#ints[place * INTS + KEY] as number;
  }

  #lift(from: number, key: number, share: number): void {
    let place = from;
    while (place > FIRST) {
      const parent = (place >> 3) + 6;
      const above = this.#shareAt(parent);
      if (above <= share) break;
      this.#put(place, this.#keyAt(parent), above);
      place = parent;
    }
    this.#put(place, key, share);
  }

  #sink(from: number, key: number, share: number): void {
    const doubles = this.#doubles;
    const end = this.#end;
    let place = from;
    for (;;) {
      const first = 8 * place - 48;
      if (first >= end) break;
      const behind = Math.min(first + 8, end);
      let least = first;
      let leastShare = doubles[first * DOUBLES] as number;
      for (let child = first + 1; child < behind; child += 1) {
        const childShare = doubles[child * DOUBLES] as number;
        if (childShare < leastShare) {
          least = child;
          leastShare = childShare;
        }
      }
      if (leastShare >= share) break;
      this.#put(place, this.#keyAt(least), leastShare);
      place = least;
    }
    this.#put(place, key, share);
  }

  #put(place: number, key: number, share: number): void {
    this.#doubles[place * DOUBLES] = share;
    this.#ints[place * INTS + KEY] = key;
    this.#place[key] = place;
  }
}
