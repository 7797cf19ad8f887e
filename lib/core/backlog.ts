/**
 * The waiting jobs of a pool, kept in an order that is never computed anew.
 *
 * A line holds the jobs of one fairness key and one class (type and mode) as a heap by rank. A job keeps its position
 * in the line for as long as it waits (see `score.ts`). The keys' shares change all the time, and so do the types that
 * have room. So a key with jobs in a tier stands there in one of two ways:
 * - in the tier's heap: one entry for the key, ordered by share (`turn-heap.ts`). When the key is first there,
 *   `best-line.ts` compares the heads of its few lines.
 * - in the class heaps: one entry for each of its lines, in the heap of the line's class, ordered by share, then by the
 *   head's rank.
 *
 * A key moves from the tier's heap to the class heaps when it is first, but all its jobs in the tier are of types
 * without room, or another key has exactly the same share. The class heaps can compare the heads of keys with equal
 * shares, because their order does not depend on time. The key moves back when one of its jobs is taken, or when a line
 * of it is first in a class heap and its share has risen. So the first key that may run is always first in the tier's
 * heap or in the heap of an open class. Each move to the class heaps is paid for by the admission that ends it, or by
 * the one that raised the share.
 *
 * A heap may hold an older share of a key that was lower than its share is now. The older share is a lower bound, and
 * it is corrected when the entry becomes first. A share that falls is corrected at once (`repriced`).
 *
 * A job that is found at a line's head while its conflict key is held counts as blocked. It stands in no line until the
 * conflict key is free (`blocked-jobs.ts`).
 *
 * A line's number is key x classes + class.
 */

import { BlockedJobs } from './blocked-jobs.ts';
import type { PoolIndex } from './capacity.ts';
import type { ScoreCoefficients } from './configuration.ts';
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { JobHeaps } from './job-heaps.ts';
import { JobTable, NONE } from './job-table.ts';
import { rank } from './score.ts';
import { ABSENT, IN_CLASS_HEAPS, IN_TIER_HEAP, TierHeap } from './turn-heap.ts';

/** A heap of lines, each with the share that its key had when the entry was last placed. */
interface ShareHeap {
  items: Int32Array;
  shares: Float64Array;
  size: number;
}

export class Backlog {
  readonly jobs: JobTable;
  readonly #ledgers: Ledgers;
  readonly #coefficients: ScoreCoefficients;
  readonly #classes: number;
  readonly #tiers: number;
  readonly #classesOfTier: readonly Int32Array[];
  readonly #tierOfClass: Int32Array;
  /** By tier: the keys in the tier's heap. */
  readonly #tierHeaps: readonly TierHeap[];
  /** By class (type and mode): the lines in the heap of the class. */
  readonly #classHeaps: readonly ShareHeap[];
  /** By tier: how many lines stand in the heaps of its classes. */
  readonly #classHeapLines: Int32Array;
  #size = 0;
  /** For how many keys the arrays have room. They grow when more keys come. */
  #keys = 16;

  readonly #lines: JobHeaps;
  #positions: Int32Array;

  readonly #blocked: BlockedJobs;
  /**
   * Lines whose key may start no more jobs of the line's type, because of a limit's bound for each key. They count as
   * empty until `readmit`.
   */
  readonly #closed = new Set<number>();

  constructor(index: PoolIndex, ledgers: Ledgers, coefficients: ScoreCoefficients) {
    this.jobs = new JobTable();
    this.#lines = new JobHeaps(this.jobs);
    this.#ledgers = ledgers;
    this.#blocked = new BlockedJobs(this.jobs, ledgers, index.classes, (line, number, jobRank) =>
      this.#addToLine(line, number, jobRank),
    );
    this.#coefficients = coefficients;
    this.#classes = index.classes;
    this.#tiers = index.tiers.length;
    this.#classesOfTier = index.classesOfTier;
    this.#tierOfClass = new Int32Array(index.classes);
    index.classesOfTier.forEach((classes, tier) => {
      for (const class_ of classes) this.#tierOfClass[class_] = tier;
    });
    this.#tierHeaps = index.tiers.map(() => new TierHeap(ledgers));
    this.#classHeaps = Array.from({ length: index.classes }, emptyHeap);
    this.#classHeapLines = new Int32Array(index.tiers.length);
    const keys = this.#keys;
    this.#positions = new Int32Array(keys * index.classes).fill(NONE);
    this.#lines.ensure(keys * index.classes);
  }

  /** Returns the number of waiting jobs, including the blocked ones. */
  get size(): number {
    return this.#size;
  }

  lineOf(key: number, class_: number): number {
    return key * this.#classes + class_;
  }

  keyOf(line: number): number {
    // Line numbers fit into 31 bits, where `| 0` is the cheapest way to truncate.
    return (line / this.#classes) | 0;
  }

  classOf(line: number): number {
    return line % this.#classes;
  }

  /**
   * Adds a job to its line and returns the job's number. `resource` and `key` are the numbers of its resource and its
   * fairness key. `conflict` is the number of its conflict key, or -1 if it has none.
   */
  add(job: WaitingJob, resource: number, key: number, class_: number, conflict: number): number {
    const line = this.lineOf(key, class_);
    const number = this.jobs.add(job, resource, line, conflict);
    this.#size += 1;
    this.#makeRoom(key);
    this.#addToLine(line, number, rank(job, this.#coefficients));
    return number;
  }

  /** Returns the number of the first job of a line; -1: the line is empty, or its head has not been read. */
  head(line: number): number {
    return this.#lines.first(line);
  }

  /** Returns the number of the conflict key of a line's head; -1: there is no head, or it has no conflict key. */
  headConflict(line: number): number {
    return this.#lines.firstConflict(line);
  }

  /**
   * Returns the rank of a line's head. It is -Infinity while the head has not been read, so that nothing sorts before
   * it, and Infinity for an empty or closed line.
   */
  headRank(line: number): number {
    return this.#closed.size > 0 && this.#closed.has(line) ? Infinity : this.#lines.firstRank(line);
  }

  /** Whether a line has no job, read or unread, or is closed. */
  isEmpty(line: number): boolean {
    return this.headRank(line) === Number.POSITIVE_INFINITY;
  }

  /** Whether a line's head has not been read yet. */
  isUnread(line: number): boolean {
    return this.headRank(line) === Number.NEGATIVE_INFINITY;
  }

  /** Returns the key with the least share in the tier's heap; -1 if the heap is empty. */
  firstKey(tier: number): number {
    return this.#tierHeap(tier).first();
  }

  /** Whether another key in the tier's heap has exactly the share of the first. */
  isFirstKeyTied(tier: number): boolean {
    return this.#tierHeap(tier).isTied();
  }

  /** Removes the first key from the tier's heap until it has a new job, or until `readmit`. */
  removeFirstKey(tier: number): void {
    this.#tierHeap(tier).removeFirst(ABSENT);
  }

  /** Moves the first key of the tier's heap to the class heaps, with each of its lines in the tier. */
  moveToClassHeaps(tier: number): void {
    const tierHeap = this.#tierHeap(tier);
    const key = tierHeap.first();
    tierHeap.removeFirst(IN_CLASS_HEAPS);
    this.#addToClassHeaps(key, tier);
  }

  /** Whether the class heaps of a tier have any line. */
  hasClassHeapLines(tier: number): boolean {
    return (this.#classHeapLines[tier] as number) > 0;
  }

  /**
   * Returns the number of the first line in the heap of a class (type and mode): by the key's share, then by the rank
   * of the line's head. -1: the heap is empty.
   */
  firstOfClassHeap(class_: number): number {
    const heap = this.#classHeaps[class_] as ShareHeap;
    while (heap.size > 0) {
      const line = heap.items[0] as number;
      const share = this.#ledgers.shareOf(this.keyOf(line));
      if (share === heap.shares[0]) return line;
      this.#siftDown(heap, 0, line, share);
    }
    return NONE;
  }

  /**
   * While the first key in the heap of this class has a greater share than when it was put there, moves that key back
   * to the tier's heap.
   */
  returnRisenKeys(class_: number): void {
    const heap = this.#classHeaps[class_] as ShareHeap;
    while (heap.size > 0) {
      const key = this.keyOf(heap.items[0] as number);
      if (this.#ledgers.shareOf(key) === heap.shares[0]) return;
      this.#returnToTierHeap(key, this.#tierOfClass[class_] as number);
    }
  }

  /** Removes a line whose key has reached its cap from the heap of its class until `readmit`. */
  removeFromClassHeap(line: number): void {
    this.#removeFromClassHeap(line);
  }

  /** Closes a line whose key may start no more jobs of its type, until `readmit`. */
  close(line: number): void {
    this.#closed.add(line);
    this.#headChanged(line);
  }

  get hasClosedLines(): boolean {
    return this.#closed.size > 0;
  }

  /** Opens all closed lines: time or an operator may have made room. */
  openAll(): void {
    for (const key of new Set([...this.#closed].map((line) => this.keyOf(line)))) this.readmit(key);
  }

  /** Whether the key has a job in the tier, read or unread. */
  hasLines(key: number, tier: number): boolean {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      if (!this.isEmpty(this.lineOf(key, classes[index] as number))) return true;
    }
    return false;
  }

  /** Removes the head of a line that has one. The job table keeps the job until `forget`. */
  take(line: number): void {
    const number = this.head(line);
    this.#lines.pop(line);
    this.jobs.leaveLine(number);
    this.#size -= 1;
    const key = this.keyOf(line);
    const tier = this.#tierOfClass[this.classOf(line)] as number;
    if (this.#tierHeap(tier).stateOf(key) === IN_CLASS_HEAPS) {
      this.#returnToTierHeap(key, tier);
    } else {
      this.#headChanged(line);
    }
  }

  /** Removes a waiting job from its line, or from the blocked jobs. */
  remove(number: number): void {
    this.jobs.remove(number);
    this.#size -= 1;
    const line = this.jobs.lineOf(number);
    if (this.head(line) !== number) return;
    this.#lines.clean(line);
    this.#headChanged(line);
  }

  /** Takes the head of a line out of it until this conflict key of the head is free. */
  block(line: number, conflict: number): void {
    const number = this.head(line);
    const jobRank = this.headRank(line);
    this.#lines.pop(line);
    this.#headChanged(line);
    this.#blocked.add(line, number, jobRank, conflict);
  }

  /**
   * Called when a conflict key has room: the first of its blocked jobs return to their lines (see `BlockedJobs.wake`).
   */
  wake(conflict: number): void {
    this.#blocked.wake(conflict);
  }

  /** Returns the first blocked job of every line that waits for the conflict key to that line. */
  wakeAll(conflict: number): void {
    this.#blocked.wakeAll(conflict);
  }

  /** Called when a conflict key is held: the jobs that are still blocked wait until it is free again. */
  held(conflict: number): void {
    this.#blocked.held(conflict);
  }

  /**
   * Called when a key's share changes, or the number of jobs that its cap still allows. `improved`: the key may now
   * come earlier than before.
   */
  changed(key: number, improved: boolean): void {
    this.#blocked.changed(key, improved);
  }

  /** Adds a key that may run again to the heaps of the tiers in which it has jobs. */
  readmit(key: number): void {
    if (key >= this.#keys) return;
    if (this.#closed.size > 0)
      for (let class_ = 0; class_ < this.#classes; class_ += 1) this.#closed.delete(this.lineOf(key, class_));
    for (let tier = 0; tier < this.#tiers; tier += 1) {
      if (this.#tierHeap(tier).stateOf(key) === IN_CLASS_HEAPS) this.#addToClassHeaps(key, tier);
      else if (this.hasLines(key, tier)) this.#addToTierHeap(key, tier);
    }
  }

  /** Called when a key's share changes. Every fall must be reported; a rise may be. */
  repriced(key: number): void {
    const share = this.#ledgers.shareOf(key);
    for (let tier = 0; tier < this.#tiers; tier += 1) {
      const tierHeap = this.#tierHeap(tier);
      const state = tierHeap.stateOf(key);
      if (state === IN_CLASS_HEAPS) this.#repriceInClassHeaps(key, tier, share);
      else if (state === IN_TIER_HEAP) tierHeap.repriced(key);
    }
  }

  /** Called when all shares may have fallen. O(keys + lines). */
  allRepriced(): void {
    this.#blocked.allRepriced();
    for (const tierHeap of this.#tierHeaps) tierHeap.allRepriced();
    for (const heap of this.#classHeaps) {
      for (let position = 0; position < heap.size; position += 1) {
        heap.shares[position] = this.#ledgers.shareOf(this.keyOf(heap.items[position] as number));
      }
      for (let position = heap.size - 1; position >= 0; position -= 1) {
        this.#siftDown(heap, position, heap.items[position] as number, heap.shares[position] as number);
      }
    }
  }

  /** Sets whether a line has further jobs, behind those that were added, which have not been read. */
  setMore(key: number, class_: number, more: boolean): void {
    const line = this.lineOf(key, class_);
    this.#makeRoom(key);
    this.#lines.setMore(line, more);
    this.#headChanged(line);
  }

  #makeRoom(key: number): void {
    if (key < this.#keys) return;
    let wider = this.#keys;
    while (key >= wider) wider *= 2;
    this.#keys = wider;
    this.#lines.ensure(wider * this.#classes);
    this.#positions = widenInts(this.#positions, wider * this.#classes, NONE);
  }

  #addToLine(line: number, number: number, jobRank: number): void {
    if (this.#lines.push(line, number, jobRank)) this.#headChanged(line);
  }

  #headChanged(line: number): void {
    const key = this.keyOf(line);
    const class_ = this.classOf(line);
    const tier = this.#tierOfClass[class_] as number;
    const state = this.#tierHeap(tier).stateOf(key);
    if (state === IN_CLASS_HEAPS) {
      if (this.isEmpty(line)) this.#removeFromClassHeap(line);
      else this.#addToClassHeap(key, line, class_);
    } else if (state === ABSENT && !this.isEmpty(line)) {
      this.#addToTierHeap(key, tier);
    }
  }

  #returnToTierHeap(key: number, tier: number): void {
    this.#removeFromClassHeaps(key, tier);
    this.#tierHeap(tier).endAside(key);
    if (this.hasLines(key, tier)) this.#addToTierHeap(key, tier);
  }

  #tierHeap(tier: number): TierHeap {
    return this.#tierHeaps[tier] as TierHeap;
  }

  #addToTierHeap(key: number, tier: number): void {
    const tierHeap = this.#tierHeap(tier);
    // A key at its cap stands in no heap until it may run again.
    if (tierHeap.stateOf(key) === ABSENT && !this.#ledgers.isFull(key)) tierHeap.push(key);
  }

  // The class heaps: binary heaps of lines, by share, then by rank of the head.

  #addToClassHeaps(key: number, tier: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      const class_ = classes[index] as number;
      const line = this.lineOf(key, class_);
      if (!this.isEmpty(line)) this.#addToClassHeap(key, line, class_);
    }
  }

  #removeFromClassHeaps(key: number, tier: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      this.#removeFromClassHeap(this.lineOf(key, classes[index] as number));
    }
  }

  #repriceInClassHeaps(key: number, tier: number, share: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      const class_ = classes[index] as number;
      const line = this.lineOf(key, class_);
      const position = this.#positions[line] as number;
      if (position === NONE) continue;
      const heap = this.#classHeaps[class_] as ShareHeap;
      if (share < (heap.shares[position] as number)) this.#siftUp(heap, position, line, share);
    }
  }

  // Adds a line to the heap of its class, or moves it there after its head has changed.
  #addToClassHeap(key: number, line: number, class_: number): void {
    const heap = this.#classHeaps[class_] as ShareHeap;
    const position = this.#positions[line] as number;
    if (position !== NONE) {
      this.#reposition(heap, position, line, heap.shares[position] as number);
      return;
    }
    if (this.#ledgers.isFull(key)) return;
    if (heap.size === heap.items.length) widenHeap(heap);
    this.#countClassHeapLines(class_, 1);
    heap.size += 1;
    this.#siftUp(heap, heap.size - 1, line, this.#ledgers.shareOf(key));
  }

  #removeFromClassHeap(line: number): void {
    const position = this.#positions[line] as number;
    if (position === NONE) return;
    const class_ = this.classOf(line);
    const heap = this.#classHeaps[class_] as ShareHeap;
    this.#positions[line] = NONE;
    this.#countClassHeapLines(class_, -1);
    heap.size -= 1;
    if (position === heap.size) return;
    this.#reposition(heap, position, heap.items[heap.size] as number, heap.shares[heap.size] as number);
  }

  #countClassHeapLines(class_: number, change: number): void {
    const tier = this.#tierOfClass[class_] as number;
    this.#classHeapLines[tier] = (this.#classHeapLines[tier] as number) + change;
  }

  #reposition(heap: ShareHeap, position: number, line: number, share: number): void {
    const parent = (position - 1) >> 1;
    if (
      position > 0 &&
      this.#isBefore(line, share, heap.items[parent] as number, heap.shares[parent] as number)
    ) {
      this.#siftUp(heap, position, line, share);
    } else {
      this.#siftDown(heap, position, line, share);
    }
  }

  #isBefore(line: number, share: number, otherLine: number, otherShare: number): boolean {
    if (share !== otherShare) return share < otherShare;
    const headRank = this.headRank(line);
    const otherRank = this.headRank(otherLine);
    if (headRank !== otherRank) return headRank < otherRank;
    const head = this.head(line);
    // Two unread heads have no order; the lower line number goes first.
    return head === NONE ? line < otherLine : this.jobs.isOlder(head, this.head(otherLine));
  }

  #siftUp(heap: ShareHeap, from: number, line: number, share: number): void {
    const { items, shares } = heap;
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      const above = items[parent] as number;
      const aboveShare = shares[parent] as number;
      if (!this.#isBefore(line, share, above, aboveShare)) break;
      this.#put(items, shares, position, above, aboveShare);
      position = parent;
    }
    this.#put(items, shares, position, line, share);
  }

  #siftDown(heap: ShareHeap, from: number, line: number, share: number): void {
    const { items, shares, size } = heap;
    let position = from;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= size) break;
      const right = child + 1;
      if (
        right < size &&
        this.#isBefore(
          items[right] as number,
          shares[right] as number,
          items[child] as number,
          shares[child] as number,
        )
      ) {
        child = right;
      }
      const below = items[child] as number;
      const belowShare = shares[child] as number;
      if (!this.#isBefore(below, belowShare, line, share)) break;
      this.#put(items, shares, position, below, belowShare);
      position = child;
    }
    this.#put(items, shares, position, line, share);
  }

  #put(items: Int32Array, shares: Float64Array, position: number, line: number, share: number): void {
    items[position] = line;
    shares[position] = share;
    this.#positions[line] = position;
  }
}

function emptyHeap(): ShareHeap {
  return { items: new Int32Array(16), shares: new Float64Array(16), size: 0 };
}

function widenHeap(heap: ShareHeap): void {
  const size = heap.items.length * 2;
  heap.items = widenInts(heap.items, size, NONE);
  heap.shares = widenFloats(heap.shares, size);
}
