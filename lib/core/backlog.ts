/**
 * Who waits, in an order that never has to be computed anew.
 *
 * A line holds the jobs of one fairness key and class (type and mode), as a heap by rank: nothing changes a job's place there while it
 * waits (see `score.ts`). What changes all the time is the keys' shares, and which types have room. A key stands in each tier in which it has jobs, in
 * one of two ways:
 *  - in turn: one entry in the tier's heap by share. At its top, the key's best head is found among its few lines.
 *  - aside: each of its lines has an entry in the heap of its class, by share, then by the head's rank.
 * A key goes aside when it comes to the top but only types without room have jobs of it, or when another has exactly its
 * share: which of those has the best head is a question for the classes' heaps, where the answer does not depend on time. It
 * comes back in turn when one of its jobs is taken, or when it stands first there and its share has risen. So the first key
 * that may run is at the top of the tier's heap or of one of the open classes' heaps, and going aside is paid for by the
 * admission that ends it, or that raised the share.
 *
 * A heap may hold a share that was less than the key's is now: it is a lower bound, and corrected when the entry comes to
 * the top. One that falls is corrected at once (`repriced`).
 *
 * A job whose conflict key is held is parked when it is met, and stands in no line until the key is free (`parked-jobs.ts`).
 *
 * Lines are numbers: key x classes + class.
 */
import type { PoolIndex } from './capacity.ts';
import type { ScoreCoefficients } from './configuration.ts';
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { JobHeaps } from './job-heaps.ts';
import { JobTable, NONE } from './job-table.ts';
import { ParkedJobs } from './parked-jobs.ts';
import { rank } from './score.ts';
import { ABSENT, ASIDE, IN_TURN, TurnHeap } from './turn-heap.ts';

/** Items with the shares they were put in at. */
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
  /** By class. */
  readonly #tierOfClass: Int32Array;
  /** By tier: keys in turn. */
  readonly #turns: readonly TurnHeap[];
  /** By class: lines that are aside. */
  readonly #asides: readonly ShareHeap[];
  /** By tier: how many those are. */
  readonly #asideLines: Int32Array;
  #size = 0;
  /** Keys for which there is room. */
  #keys = 16;

  // Lines
  readonly #lines: JobHeaps;
  #place: Int32Array;

  readonly #parked: ParkedJobs;

  constructor(index: PoolIndex, ledgers: Ledgers, coefficients: ScoreCoefficients) {
    this.jobs = new JobTable();
    this.#lines = new JobHeaps(this.jobs);
    this.#ledgers = ledgers;
    this.#parked = new ParkedJobs(this.jobs, ledgers, index.classes, (line, number, jobRank) =>
      this.#enter(line, number, jobRank),
    );
    this.#coefficients = coefficients;
    this.#classes = index.classes;
    this.#tiers = index.tiers.length;
    this.#classesOfTier = index.classesOfTier;
    this.#tierOfClass = new Int32Array(index.classes);
    index.classesOfTier.forEach((classes, tier) => {
      for (const class_ of classes) this.#tierOfClass[class_] = tier;
    });
    this.#turns = index.tiers.map(() => new TurnHeap(ledgers));
    this.#asides = Array.from({ length: index.classes }, emptyHeap);
    this.#asideLines = new Int32Array(index.tiers.length);
    const keys = this.#keys;
    this.#place = new Int32Array(keys * index.classes).fill(NONE);
    this.#lines.ensure(keys * index.classes);
  }

  /** Jobs that wait, the parked ones included. */
  get size(): number {
    return this.#size;
  }

  lineOf(key: number, class_: number): number {
    return key * this.#classes + class_;
  }

  keyOf(line: number): number {
    // Numbers of lines and entries fit 31 bits, where `| 0` is the cheapest whole part.
    return (line / this.#classes) | 0;
  }

  classOf(line: number): number {
    return line % this.#classes;
  }

  /** Puts a job in its line. `conflict` is its conflict key's number, or -1. Answers the job's number. */
  add(job: WaitingJob, resource: number, key: number, class_: number, conflict: number): number {
    const line = this.lineOf(key, class_);
    const number = this.jobs.add(job, resource, line, conflict);
    this.#size += 1;
    this.#makeRoom(key);
    this.#enter(line, number, rank(job, this.#coefficients));
    return number;
  }

  /** The first job of a line, or -1: it is empty, or its head is unread. */
  head(line: number): number {
    return this.#lines.first(line);
  }

  /** The conflict key's number of a line's head, or -1. */
  headConflict(line: number): number {
    return this.#lines.firstConflict(line);
  }

  /** The rank of a line's head; -Infinity while it is unread, because nothing precedes it for certain; Infinity without one. */
  headRank(line: number): number {
    return this.#lines.firstRank(line);
  }

  /** Whether a line has neither a job nor unread ones. */
  isEmpty(line: number): boolean {
    return this.#lines.firstRank(line) === Number.POSITIVE_INFINITY;
  }

  /** Whether a line's head has not been read yet. */
  isUnread(line: number): boolean {
    return this.#lines.firstRank(line) === Number.NEGATIVE_INFINITY;
  }

  /** The key in turn in a tier: the one with the least share of those that are not aside; -1 when there is none. */
  keyInTurn(tier: number): number {
    return this.#turnsOf(tier).first();
  }

  /** Whether another key in turn has exactly the share of the first. */
  isTurnTied(tier: number): boolean {
    return this.#turnsOf(tier).isTied();
  }

  /** Ends the turn of the first key until it has a new job, or `readmit`. */
  endTurn(tier: number): void {
    this.#turnsOf(tier).removeFirst(ABSENT);
  }

  /** Puts the first key's lines into the heaps of their classes. */
  setAside(tier: number): void {
    const turns = this.#turnsOf(tier);
    const key = turns.first();
    turns.removeFirst(ASIDE);
    this.#enterClasses(key, tier);
  }

  /** Whether any line of a tier is aside. */
  hasAside(tier: number): boolean {
    return (this.#asideLines[tier] as number) > 0;
  }

  /** The first line of a class that is aside, by share, then head; -1 when there is none. */
  topAside(class_: number): number {
    const heap = this.#asides[class_] as ShareHeap;
    while (heap.size > 0) {
      const line = heap.items[0] as number;
      const share = this.#ledgers.shareOf(this.keyOf(line));
      if (share === heap.shares[0]) return line;
      this.#sink(heap, 0, line, share);
    }
    return NONE;
  }

  /** Gives their turn back to keys whose share rose while they were aside, as long as one stands first in its class. */
  refreshAside(class_: number): void {
    const heap = this.#asides[class_] as ShareHeap;
    while (heap.size > 0) {
      const key = this.keyOf(heap.items[0] as number);
      if (this.#ledgers.shareOf(key) === heap.shares[0]) return;
      this.#endAside(key, this.#tierOfClass[class_] as number);
    }
  }

  /** Takes a line that is aside out of its class until `readmit`: its key has reached its cap. */
  holdAside(line: number): void {
    this.#leaveClass(line);
  }

  /** Whether the key has a job, or an unread line, in the tier. */
  hasLines(key: number, tier: number): boolean {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      if (!this.isEmpty(this.lineOf(key, classes[index] as number))) return true;
    }
    return false;
  }

  /** Takes the head of a line out: a line that has one. The table keeps the job until it is forgotten. */
  take(line: number): void {
    const number = this.head(line);
    this.#lines.pop(line);
    this.jobs.leaveLine(number);
    this.#size -= 1;
    const key = this.keyOf(line);
    const tier = this.#tierOfClass[this.classOf(line)] as number;
    if (this.#turnsOf(tier).stateOf(key) === ASIDE) {
      this.#endAside(key, tier);
    } else {
      this.#headChanged(line);
    }
  }

  /** Takes a job out wherever it stands. */
  remove(number: number): void {
    this.jobs.remove(number);
    this.#size -= 1;
    const line = this.jobs.lineOf(number);
    if (this.head(line) !== number) return;
    this.#lines.clean(line);
    this.#headChanged(line);
  }

  /** Parks the head of a line until its conflict key is free. */
  park(line: number): void {
    const number = this.head(line);
    const jobRank = this.headRank(line);
    this.#lines.pop(line);
    this.#headChanged(line);
    this.#parked.add(line, number, jobRank);
  }

  /** The conflict key has room: the first of its parked jobs go back. */
  wake(conflict: number): void {
    this.#parked.wake(conflict);
  }

  /** The first parked job of every line goes back. */
  wakeAll(conflict: number): void {
    this.#parked.wakeAll(conflict);
  }

  /** The conflict key is held: what is left of its parked jobs waits for the next time. */
  held(conflict: number): void {
    this.#parked.held(conflict);
  }

  /** A key's share or room changed; `improved` if it may come earlier than before. */
  changed(key: number, improved: boolean): void {
    this.#parked.changed(key, improved);
  }

  /** Puts the key back where it has jobs, if it may run again. */
  readmit(key: number): void {
    if (key >= this.#keys) return;
    for (let tier = 0; tier < this.#tiers; tier += 1) {
      if (this.#turnsOf(tier).stateOf(key) === ASIDE) this.#enterClasses(key, tier);
      else if (this.hasLines(key, tier)) this.#enterTurn(key, tier);
    }
  }

  /** The key's share changed. It must be told of a fall, and may be told of a rise. */
  repriced(key: number): void {
    const share = this.#ledgers.shareOf(key);
    for (let tier = 0; tier < this.#tiers; tier += 1) {
      const turns = this.#turnsOf(tier);
      const state = turns.stateOf(key);
      if (state === ASIDE) this.#repriceClasses(key, tier, share);
      else if (state === IN_TURN) turns.repriced(key);
    }
  }

  /** All shares may have fallen. O(keys + lines). */
  allRepriced(): void {
    this.#parked.allRepriced();
    for (const turns of this.#turns) turns.allRepriced();
    for (const heap of this.#asides) {
      for (let place = 0; place < heap.size; place += 1) {
        heap.shares[place] = this.#ledgers.shareOf(this.keyOf(heap.items[place] as number));
      }
      for (let place = heap.size - 1; place >= 0; place -= 1) {
        this.#sink(heap, place, heap.items[place] as number, heap.shares[place] as number);
      }
    }
  }

  /** Says whether a line goes on after the jobs that were added to it. */
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
    this.#place = widenInts(this.#place, wider * this.#classes, NONE);
  }

  #enter(line: number, number: number, jobRank: number): void {
    if (this.#lines.push(line, number, jobRank)) this.#headChanged(line);
  }

  #headChanged(line: number): void {
    const key = this.keyOf(line);
    const class_ = this.classOf(line);
    const tier = this.#tierOfClass[class_] as number;
    const turn = this.#turnsOf(tier).stateOf(key);
    if (turn === ASIDE) {
      if (this.isEmpty(line)) this.#leaveClass(line);
      else this.#enterClass(key, line, class_);
    } else if (turn === ABSENT && !this.isEmpty(line)) {
      this.#enterTurn(key, tier);
    }
  }

  #endAside(key: number, tier: number): void {
    this.#leaveClasses(key, tier);
    this.#turnsOf(tier).endAside(key);
    if (this.hasLines(key, tier)) this.#enterTurn(key, tier);
  }

  #turnsOf(tier: number): TurnHeap {
    return this.#turns[tier] as TurnHeap;
  }

  #enterTurn(key: number, tier: number): void {
    const turns = this.#turnsOf(tier);
    // A key at its cap stands nowhere until it may run again.
    if (turns.stateOf(key) === ABSENT && !this.#ledgers.isFull(key)) turns.push(key);
  }

  // Lines aside: binary heaps, by share, then by head.

  #enterClasses(key: number, tier: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      const class_ = classes[index] as number;
      const line = this.lineOf(key, class_);
      if (!this.isEmpty(line)) this.#enterClass(key, line, class_);
    }
  }

  #leaveClasses(key: number, tier: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      this.#leaveClass(this.lineOf(key, classes[index] as number));
    }
  }

  #repriceClasses(key: number, tier: number, share: number): void {
    const classes = this.#classesOfTier[tier] as Int32Array;
    for (let index = 0; index < classes.length; index += 1) {
      const class_ = classes[index] as number;
      const line = this.lineOf(key, class_);
      const place = this.#place[line] as number;
      if (place === NONE) continue;
      const heap = this.#asides[class_] as ShareHeap;
      if (share < (heap.shares[place] as number)) this.#lift(heap, place, line, share);
    }
  }

  // Puts a line into its class, or at its right place there when its head is another.
  #enterClass(key: number, line: number, class_: number): void {
    const heap = this.#asides[class_] as ShareHeap;
    const place = this.#place[line] as number;
    if (place !== NONE) {
      this.#settle(heap, place, line, heap.shares[place] as number);
      return;
    }
    if (this.#ledgers.isFull(key)) return;
    if (heap.size === heap.items.length) widenHeap(heap);
    this.#countAside(class_, 1);
    heap.size += 1;
    this.#lift(heap, heap.size - 1, line, this.#ledgers.shareOf(key));
  }

  #leaveClass(line: number): void {
    const place = this.#place[line] as number;
    if (place === NONE) return;
    const class_ = this.classOf(line);
    const heap = this.#asides[class_] as ShareHeap;
    this.#place[line] = NONE;
    this.#countAside(class_, -1);
    heap.size -= 1;
    if (place === heap.size) return;
    this.#settle(heap, place, heap.items[heap.size] as number, heap.shares[heap.size] as number);
  }

  #countAside(class_: number, change: number): void {
    const tier = this.#tierOfClass[class_] as number;
    this.#asideLines[tier] = (this.#asideLines[tier] as number) + change;
  }

  #settle(heap: ShareHeap, place: number, line: number, share: number): void {
    const parent = (place - 1) >> 1;
    if (
      place > 0 &&
      this.#isBefore(line, share, heap.items[parent] as number, heap.shares[parent] as number)
    ) {
      this.#lift(heap, place, line, share);
    } else {
      this.#sink(heap, place, line, share);
    }
  }

  #isBefore(line: number, share: number, otherLine: number, otherShare: number): boolean {
    if (share !== otherShare) return share < otherShare;
    const headRank = this.headRank(line);
    const otherRank = this.headRank(otherLine);
    if (headRank !== otherRank) return headRank < otherRank;
    const head = this.head(line);
    // Of two unread heads, either.
    return head === NONE ? line < otherLine : this.jobs.isOlder(head, this.head(otherLine));
  }

  #lift(heap: ShareHeap, from: number, line: number, share: number): void {
    const { items, shares } = heap;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = items[parent] as number;
      const aboveShare = shares[parent] as number;
      if (!this.#isBefore(line, share, above, aboveShare)) break;
      this.#put(items, shares, place, above, aboveShare);
      place = parent;
    }
    this.#put(items, shares, place, line, share);
  }

  #sink(heap: ShareHeap, from: number, line: number, share: number): void {
    const { items, shares, size } = heap;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
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
      this.#put(items, shares, place, below, belowShare);
      place = child;
    }
    this.#put(items, shares, place, line, share);
  }

  #put(items: Int32Array, shares: Float64Array, place: number, line: number, share: number): void {
    items[place] = line;
    shares[place] = share;
    this.#place[line] = place;
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
