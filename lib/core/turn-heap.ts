/**
 * The keys of a tier by share. The few with the least shares are in a heap in front. The others are behind, unsorted,
 * all with a share above the `bound`. An admitted key goes from the top of the heap to the end of the unsorted ones,
 * instead of sinking through all others. When the heap is empty, the unsorted keys are looked through once and a part
 * of them moves into the heap: O(1) for each that does.
 *
 * A stored share is the key's share, or an older one that was lower. A share that falls must be reported (`repriced`);
 * one that rises is noticed when the key becomes first, if not earlier.
 *
 * In the heap, each position has eight children of 16 bytes side by side, in two cache lines of the processor. For that
 * the first position is 7, the children of position i are 8 i - 48 to 8 i - 41, and its parent is (i >> 3) + 6.
 */
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import { NONE } from './job-table.ts';

/** The state of a key that is in no heap of the tier. */
export const ABSENT = -1;
/** The state of a key of which each line stands in the heap of its class (type and mode) instead: see `backlog.ts`. */
export const IN_CLASS_HEAPS = -2;
/** The state of a key in the tier's heap. */
export const IN_TIER_HEAP = 0;

// One number per key has its state, if it is below 0, or its position. Heap positions begin at `FIRST`, and positions
// among the unsorted keys at `UNSORTED`.
const FIRST = 7;
const UNSORTED = 2 ** 30;

/** If at most so many keys are unsorted, all of them move into the heap. */
const REFILL_ALL_MAX = 64;
/** If more keys are unsorted, so many of their shares are sampled to find a bound for those that move. */
const SAMPLES = 64;
/** The index of that bound among the sorted samples: about a sixteenth of the keys have at most this share. */
const QUANTILE = 3;

// The layout of an entry, a share and a key: indexes among the doubles, and among the 32-bit integers of the same
// buffer.
const DOUBLES = 2;
const INTS = 4;
const KEY = 2;

/** A list of shares with their keys. */
class Entries {
  doubles: Float64Array = new Float64Array(16 * DOUBLES);
  ints: Int32Array = new Int32Array(this.doubles.buffer);

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

  /** Makes room for `count` + 1 entries. */
  ensure(count: number): void {
    if (count * DOUBLES < this.doubles.length) return;
    this.doubles = widenFloats(this.doubles, this.doubles.length * 2);
    this.ints = new Int32Array(this.doubles.buffer);
  }
}

export class TierHeap {
  readonly #ledgers: Ledgers;
  readonly #heap = new Entries();
  #end = FIRST;
  readonly #unsorted = new Entries();
  #unsortedCount = 0;
  /** The shares in the heap are at most this, and all unsorted ones are above it. */
  #bound = Number.NEGATIVE_INFINITY;
  readonly #samples: Float64Array = new Float64Array(SAMPLES);
  /** By key: `ABSENT`, `IN_CLASS_HEAPS`, its position in the heap, or `UNSORTED` plus its index among the unsorted keys. */
  #positions: Int32Array = new Int32Array(16).fill(ABSENT);

  constructor(ledgers: Ledgers) {
    this.#ledgers = ledgers;
  }

  stateOf(key: number): number {
    return key < this.#positions.length ? Math.min(IN_TIER_HEAP, this.#positions[key] as number) : ABSENT;
  }

  /** Returns the key with the least share; -1 if there is none. */
  first(): number {
    for (;;) {
      if (this.#end === FIRST && !this.#refill()) return NONE;
      const key = this.#heap.keyAt(FIRST);
      const share = this.#ledgers.shareOf(key);
      if (share === this.#heap.shareAt(FIRST)) return key;
      this.#shareRose(FIRST, key, share);
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
      // The key's share has risen since. The entry that replaces it is checked next.
      this.#shareRose(child, key, share);
    }
    return false;
  }

  /** Adds a key that is not in the heap. */
  push(key: number): void {
    if (key >= this.#positions.length) {
      this.#positions = widenInts(this.#positions, Math.max(key + 1, this.#positions.length * 2), ABSENT);
    }
    this.#add(key, this.#ledgers.shareOf(key));
  }

  /** Removes the first key and sets its state. */
  removeFirst(state: typeof ABSENT | typeof IN_CLASS_HEAPS): void {
    this.#positions[this.#heap.keyAt(FIRST)] = state;
    this.#removeFromHeap(FIRST);
  }

  /** Called when a key has left the class heaps and is in no heap of the tier any more. */
  endAside(key: number): void {
    this.#positions[key] = ABSENT;
  }

  /** Called when the share of a key in this heap has changed. */
  repriced(key: number): void {
    const position = this.#positions[key] as number;
    const share = this.#ledgers.shareOf(key);
    if (position >= UNSORTED) {
      const index = position - UNSORTED;
      if (share <= this.#bound) {
        this.#removeUnsorted(index);
        this.#addToHeap(key, share);
      } else if (share < this.#unsorted.shareAt(index)) {
        this.#unsorted.put(index, key, share);
      }
    } else if (share < this.#heap.shareAt(position)) {
      this.#siftUp(position, key, share);
    } else {
      this.#shareRose(position, key, share);
    }
  }

  /** Called when all shares may have fallen. */
  allRepriced(): void {
    for (let position = FIRST; position < this.#end; position += 1)
      this.#addUnsorted(this.#heap.keyAt(position), 0);
    this.#end = FIRST;
    this.#bound = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < this.#unsortedCount; index += 1) {
      const key = this.#unsorted.keyAt(index);
      this.#unsorted.put(index, key, this.#ledgers.shareOf(key));
    }
  }

  #add(key: number, share: number): void {
    if (share <= this.#bound) this.#addToHeap(key, share);
    else this.#addUnsorted(key, share);
  }

  // Moves a key of the heap whose share is higher than the stored one.
  #shareRose(position: number, key: number, share: number): void {
    if (share <= this.#bound) {
      this.#siftDown(position, key, share);
      return;
    }
    this.#removeFromHeap(position);
    this.#addUnsorted(key, share);
  }

  // Fills the empty heap with the unsorted keys of the least shares. Returns whether there are any.
  #refill(): boolean {
    const count = this.#unsortedCount;
    if (count === 0) return false;
    this.#bound = this.#boundFor(count);
    for (let index = 0; index < this.#unsortedCount; ) {
      if (this.#unsorted.shareAt(index) > this.#bound) {
        index += 1;
        continue;
      }
      const key = this.#unsorted.keyAt(index);
      const share = this.#ledgers.shareOf(key);
      if (share > this.#bound) {
        this.#unsorted.put(index, key, share);
        index += 1;
        continue;
      }
      // The last unsorted key has moved to this index.
      this.#removeUnsorted(index);
      this.#addToHeap(key, share);
    }
    return true;
  }

  // Returns a bound that at least one unsorted key does not exceed.
  #boundFor(count: number): number {
    const sampleCount = Math.min(count, SAMPLES);
    const samples = this.#samples.subarray(0, sampleCount);
    for (let sample = 0; sample < sampleCount; sample += 1) {
      samples[sample] = this.#ledgers.shareOf(
        this.#unsorted.keyAt(Math.floor((sample * count) / sampleCount)),
      );
    }
    samples.sort();
    return samples[count <= REFILL_ALL_MAX ? sampleCount - 1 : QUANTILE] as number;
  }

  #addUnsorted(key: number, share: number): void {
    this.#unsorted.ensure(this.#unsortedCount);
    this.#putUnsorted(this.#unsortedCount, key, share);
    this.#unsortedCount += 1;
  }

  #removeUnsorted(index: number): void {
    this.#unsortedCount -= 1;
    const last = this.#unsortedCount;
    if (index < last) this.#putUnsorted(index, this.#unsorted.keyAt(last), this.#unsorted.shareAt(last));
  }

  #putUnsorted(index: number, key: number, share: number): void {
    this.#unsorted.put(index, key, share);
    this.#positions[key] = UNSORTED + index;
  }

  #addToHeap(key: number, share: number): void {
    this.#heap.ensure(this.#end);
    this.#end += 1;
    this.#siftUp(this.#end - 1, key, share);
  }

  #removeFromHeap(position: number): void {
    this.#end -= 1;
    if (position === this.#end) return;
    const key = this.#heap.keyAt(this.#end);
    const share = this.#heap.shareAt(this.#end);
    if (share < this.#heap.shareAt(position)) this.#siftUp(position, key, share);
    else this.#siftDown(position, key, share);
  }

  #siftUp(from: number, key: number, share: number): void {
    let position = from;
    while (position > FIRST) {
      const parent = (position >> 3) + 6;
      const above = this.#heap.shareAt(parent);
      if (above <= share) break;
      this.#putInHeap(position, this.#heap.keyAt(parent), above);
      position = parent;
    }
    this.#putInHeap(position, key, share);
  }

  #siftDown(from: number, key: number, share: number): void {
    const { doubles } = this.#heap;
    const end = this.#end;
    let position = from;
    for (;;) {
      const first = 8 * position - 48;
      if (first >= end) break;
      const childrenEnd = Math.min(first + 8, end);
      let least = first;
      let leastShare = doubles[first * DOUBLES] as number;
      for (let child = first + 1; child < childrenEnd; child += 1) {
        const childShare = doubles[child * DOUBLES] as number;
        if (childShare < leastShare) {
          least = child;
          leastShare = childShare;
        }
      }
      if (leastShare >= share) break;
      this.#putInHeap(position, this.#heap.keyAt(least), leastShare);
      position = least;
    }
    this.#putInHeap(position, key, share);
  }

  #putInHeap(position: number, key: number, share: number): void {
    this.#heap.put(position, key, share);
    this.#positions[key] = position;
  }
}
