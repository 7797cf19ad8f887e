/**
 * Keys in turn, by share. The few with the least stand in front, in a heap; the others behind, in no order, all with a
 * share above the `bound`. A key that is admitted goes from the top of the heap to the end of what is behind, instead
 * of down through all the others; when nobody is left in front, those behind are looked over once, and a part of
 * them comes forward: O(1) for each that does.
 *
 * A share that stands here is the key's, or an older one that was less: one that falls is to be told
 * (`repriced`), one that rises is found out when the key is first at the latest.
 *
 * In the heap, each place has eight children of 16 bytes that stand side by side in two lines of a processor's cache.
 * For that the first place is number 7, the children of place i are 8 i - 48 to 8 i - 41, and its parent is (i >> 3) + 6.
 */
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import { NONE } from './job-table.ts';

/** What a key is to those in turn. */
export const ABSENT = -1;
export const ASIDE = -2;
export const IN_TURN = 0;

// Places: below 0 the two above, then those in the heap, then those behind.
const FIRST = 7;
const BEHIND = 2 ** 30;

/** As many come forward together, whatever their shares. */
const ALL_MAX = 64;
/** Of more, about a sixteenth: as many as have no greater share than the fourth of 64 that are looked at. */
const SAMPLES = 64;
const QUANTILE = 3;

// Places of an entry's fields, among doubles and among whole numbers: its share, its key.
const DOUBLES = 2;
const INTS = 4;
const KEY = 2;

/** Shares with their keys. */
class Entries {
  doubles = new Float64Array(16 * DOUBLES);
  ints = new Int32Array(this.doubles.buffer);

  shareAt(index: number): number {
    return this.doubles[index * DOUBLES] as number;
  }

  keyAt(index: number): number {
    return this.ints[index * INTS + KEY] as number;
  }

  put(index: number, key: number, share: number): void {
    this.doubles[index * DOUBLES] = share;
    this.ints[index * INTS + KEY] = key;
  }

  /** Makes room for one more than `count`. */
  ensure(count: number): void {
    if (count * DOUBLES < this.doubles.length) return;
    this.doubles = widenFloats(this.doubles, this.doubles.length * 2);
    this.ints = new Int32Array(this.doubles.buffer);
  }
}

export class TurnHeap {
  readonly #ledgers: Ledgers;
  readonly #heap = new Entries();
  #end = FIRST;
  readonly #behind = new Entries();
  #behindCount = 0;
  /** No share in the heap is above it, and every one behind is. */
  #bound = Number.NEGATIVE_INFINITY;
  readonly #samples = new Float64Array(SAMPLES);
  /** By key: `ABSENT`, `ASIDE`, its place in the heap, or `BEHIND` and its place there. */
  #place = new Int32Array(16).fill(ABSENT);

  constructor(ledgers: Ledgers) {
    this.#ledgers = ledgers;
  }

  /** `ABSENT`, `ASIDE` or `IN_TURN`. */
  stateOf(key: number): number {
    return key < this.#place.length ? Math.min(IN_TURN, this.#place[key] as number) : ABSENT;
  }

  /** The key with the least share; -1 when there is none. */
  first(): number {
    for (;;) {
      if (this.#end === FIRST && !this.#comeForward()) return NONE;
      const key = this.#heap.keyAt(FIRST);
      const share = this.#ledgers.shareOf(key);
      if (share === this.#heap.shareAt(FIRST)) return key;
      this.#rose(FIRST, key, share);
    }
  }

  /** Whether another key has exactly the share of the first. */
  isTied(): boolean {
    const least = this.#heap.shareAt(FIRST);
    for (let child = FIRST + 1; child < FIRST + 9 && child < this.#end; ) {
      if (this.#heap.shareAt(child) !== least) {
        child += 1;
        continue;
      }
      const key = this.#heap.keyAt(child);
      const share = this.#ledgers.shareOf(key);
      if (share === least) return true;
      // It rose since; what takes its place is looked at next.
      this.#rose(child, key, share);
    }
    return false;
  }

  /** Puts a key in that is absent or aside. */
  push(key: number): void {
    if (key >= this.#place.length) {
      this.#place = widenInts(this.#place, Math.max(key + 1, this.#place.length * 2), ABSENT);
    }
    this.#add(key, this.#ledgers.shareOf(key));
  }

  /** Takes the first key out. */
  removeFirst(state: typeof ABSENT | typeof ASIDE): void {
    this.#place[this.#heap.keyAt(FIRST)] = state;
    this.#leaveHeap(FIRST);
  }

  /** A key that was aside is so no more. */
  endAside(key: number): void {
    this.#place[key] = ABSENT;
  }

  /** The share of a key that is here changed. */
  repriced(key: number): void {
    const place = this.#place[key] as number;
    const share = this.#ledgers.shareOf(key);
    if (place >= BEHIND) {
      const index = place - BEHIND;
      if (share <= this.#bound) {
        this.#leaveBehind(index);
        this.#enterHeap(key, share);
      } else if (share < this.#behind.shareAt(index)) {
        this.#behind.put(index, key, share);
      }
    } else if (share < this.#heap.shareAt(place)) {
      this.#lift(place, key, share);
    } else {
      this.#rose(place, key, share);
    }
  }

  /** All shares may have fallen. */
  allRepriced(): void {
    for (let place = FIRST; place < this.#end; place += 1) this.#enterBehind(this.#heap.keyAt(place), 0);
    this.#end = FIRST;
    this.#bound = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < this.#behindCount; index += 1) {
      const key = this.#behind.keyAt(index);
      this.#behind.put(index, key, this.#ledgers.shareOf(key));
    }
  }

  #add(key: number, share: number): void {
    if (share <= this.#bound) this.#enterHeap(key, share);
    else this.#enterBehind(key, share);
  }

  // The share of a key in the heap is more than what stands there.
  #rose(place: number, key: number, share: number): void {
    if (share <= this.#bound) {
      this.#sink(place, key, share);
      return;
    }
    this.#leaveHeap(place);
    this.#enterBehind(key, share);
  }

  // Fills the empty heap with those behind that have the least shares. Answers whether there are any.
  #comeForward(): boolean {
    const count = this.#behindCount;
    if (count === 0) return false;
    this.#bound = this.#boundFor(count);
    for (let index = 0; index < this.#behindCount; ) {
      if (this.#behind.shareAt(index) > this.#bound) {
        index += 1;
        continue;
      }
      const key = this.#behind.keyAt(index);
      const share = this.#ledgers.shareOf(key);
      if (share > this.#bound) {
        this.#behind.put(index, key, share);
        index += 1;
        continue;
      }
      // The last of them is at this index now.
      this.#leaveBehind(index);
      this.#enterHeap(key, share);
    }
    return true;
  }

  // A share that at least one key behind does not exceed.
  #boundFor(count: number): number {
    const looked = Math.min(count, SAMPLES);
    const samples = this.#samples.subarray(0, looked);
    for (let sample = 0; sample < looked; sample += 1) {
      samples[sample] = this.#ledgers.shareOf(this.#behind.keyAt(Math.floor((sample * count) / looked)));
    }
    samples.sort();
    return samples[count <= ALL_MAX ? looked - 1 : QUANTILE] as number;
  }

  #enterBehind(key: number, share: number): void {
    this.#behind.ensure(this.#behindCount);
    this.#putBehind(this.#behindCount, key, share);
    this.#behindCount += 1;
  }

  #leaveBehind(index: number): void {
    this.#behindCount -= 1;
    const last = this.#behindCount;
    if (index < last) this.#putBehind(index, this.#behind.keyAt(last), this.#behind.shareAt(last));
  }

  #putBehind(index: number, key: number, share: number): void {
    this.#behind.put(index, key, share);
    this.#place[key] = BEHIND + index;
  }

  #enterHeap(key: number, share: number): void {
    this.#heap.ensure(this.#end);
    this.#end += 1;
    this.#lift(this.#end - 1, key, share);
  }

  #leaveHeap(place: number): void {
    this.#end -= 1;
    if (place === this.#end) return;
    const key = this.#heap.keyAt(this.#end);
    const share = this.#heap.shareAt(this.#end);
    if (share < this.#heap.shareAt(place)) this.#lift(place, key, share);
    else this.#sink(place, key, share);
  }

  #lift(from: number, key: number, share: number): void {
    let place = from;
    while (place > FIRST) {
      const parent = (place >> 3) + 6;
      const above = this.#heap.shareAt(parent);
      if (above <= share) break;
      this.#putInHeap(place, this.#heap.keyAt(parent), above);
      place = parent;
    }
    this.#putInHeap(place, key, share);
  }

  #sink(from: number, key: number, share: number): void {
    const { doubles } = this.#heap;
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
      this.#putInHeap(place, this.#heap.keyAt(least), leastShare);
      place = least;
    }
    this.#putInHeap(place, key, share);
  }

  #putInHeap(place: number, key: number, share: number): void {
    this.#heap.put(place, key, share);
    this.#place[key] = place;
  }
}
