/**
 * Waiting jobs, in an order that never has to be computed anew.
 *
 * A line holds the jobs of one fairness key and class (type and mode), as a pairing heap by rank: nothing a job does
 * while it waits changes its place there (see `score.ts`). A class holds the lines of all its keys, as a binary heap by the key's share, then by
 * the head's rank: among keys of equal share the best head comes first, and inside a class that order does not depend on
 * time either. So the first job of a class is at the top of its heap, and the first of a tier among the tops of its
 * few classes, which is where time (queued against on-demand) and free slots (rarity) come in.
 *
 * Shares change all the time. One that rises is left alone: the heap then holds a lower bound, which is corrected when
 * the line comes to the top, so a key with lines in many classes pays for those that are looked at. One that falls is
 * corrected at once (`repriced`).
 *
 * A job whose conflict key is held is parked when it is met at the top of its class, and stands in no line until the
 * key is free. Then the first of each line's parked jobs goes back: the others cannot come before it.
 *
 * Jobs, lines and classes are numbers, their fields columns of typed arrays: a million jobs are a million places,
 * not a million objects for the collector to visit. Line number = key x classes + class.
 */
import type { ScoreCoefficients } from './configuration.ts';
import { type Ledgers, widenFloats, widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { rank } from './score.ts';

const NONE = -1;

/** The rank of a head that has not been read yet: nothing can precede it, so it asks to be read before it is passed over. */
const UNREAD = Number.NEGATIVE_INFINITY;

/** Lines of one class. Share and rank stand beside the line, so that a comparison touches one place. */
interface LineHeap {
  lines: Int32Array;
  shares: Float64Array;
  ranks: Float64Array;
  size: number;
}

export class Backlog {
  readonly #coefficients: ScoreCoefficients;
  readonly #ledgers: Ledgers;
  readonly #classes: number;
  readonly #heaps: readonly LineHeap[];

  // Jobs
  readonly #jobs: (WaitingJob | undefined)[] = [];
  #rank = new Float64Array(64);
  #readyAtMs = new Float64Array(64);
  #child = new Int32Array(64);
  #sibling = new Int32Array(64);
  #line = new Int32Array(64);
  #conflict = new Int32Array(64);
  #freeJob = NONE;
  #size = 0;

  // Lines
  #root: Int32Array;
  #place: Int32Array;
  #more: Uint8Array;

  /** By conflict key, then line: the root of the jobs that are parked. */
  readonly #parked = new Map<number, Map<number, number>>();

  constructor(classes: number, ledgers: Ledgers, coefficients: ScoreCoefficients) {
    this.#classes = classes;
    this.#ledgers = ledgers;
    this.#coefficients = coefficients;
    this.#heaps = Array.from({ length: classes }, () => ({
      lines: new Int32Array(16),
      shares: new Float64Array(16),
      ranks: new Float64Array(16),
      size: 0,
    }));
    const lines = 16 * classes;
    this.#root = new Int32Array(lines).fill(NONE);
    this.#place = new Int32Array(lines).fill(NONE);
    this.#more = new Uint8Array(lines);
  }

  /** Jobs that wait, the parked ones included. */
  get size(): number {
    return this.#size;
  }

  lineOf(key: number, class_: number): number {
    return key * this.#classes + class_;
  }

  keyOf(line: number): number {
    return Math.trunc(line / this.#classes);
  }

  classOf(line: number): number {
    return line % this.#classes;
  }

  /** Puts a job in its line. `conflict` is its conflict key's number, or -1. Answers the job's number. */
  add(job: WaitingJob, key: number, class_: number, conflict: number): number {
    const number = this.#allocate();
    const line = this.lineOf(key, class_);
    this.#jobs[number] = job;
    this.#rank[number] = rank(job, this.#coefficients);
    this.#readyAtMs[number] = job.readyAtMs;
    this.#line[number] = line;
    this.#conflict[number] = conflict;
    this.#size += 1;
    this.#makeRoom(line);
    this.#enter(line, number);
    return number;
  }

  /** The job with this number; undefined once it is gone. */
  jobOf(number: number): WaitingJob | undefined {
    return this.#jobs[number];
  }

  conflictOf(number: number): number {
    return this.#conflict[number] as number;
  }

  /** The first job of a line, or -1: it is empty, or its head is unread. */
  head(line: number): number {
    return this.#root[line] as number;
  }

  /** Whether a has the better rank, is older at the same rank, or has the smaller id. */
  precedes(a: number, b: number): boolean {
    const rankA = this.#rank[a] as number;
    const rankB = this.#rank[b] as number;
    if (rankA !== rankB) return rankA < rankB;
    return this.isOlder(a, b);
  }

  /** Whether a became ready before b, or has the smaller id. */
  isOlder(a: number, b: number): boolean {
    const readyA = this.#readyAtMs[a] as number;
    const readyB = this.#readyAtMs[b] as number;
    if (readyA !== readyB) return readyA < readyB;
    return (this.#jobs[a]?.id ?? '') < (this.#jobs[b]?.id ?? '');
  }

  /** The first line of a class, by share, then head; -1 when the class has none. */
  top(class_: number): number {
    const heap = this.#heaps[class_] as LineHeap;
    while (heap.size > 0) {
      const line = heap.lines[0] as number;
      const share = this.#ledgers.share[this.keyOf(line)] as number;
      if (share === heap.shares[0]) return line;
      this.#sink(heap, 0, line, share, heap.ranks[0] as number);
    }
    return NONE;
  }

  /** Takes the head of a line out. */
  take(line: number): WaitingJob | undefined {
    const number = this.#root[line] as number;
    if (number === NONE) return undefined;
    const job = this.#jobs[number];
    this.#root[line] = this.#popped(number);
    this.#forget(number);
    this.#size -= 1;
    this.#headChanged(line);
    return job;
  }

  /** Takes a job out wherever it stands. Answers it, or undefined when it is gone already. */
  remove(number: number): WaitingJob | undefined {
    const job = this.#jobs[number];
    if (job === undefined) return undefined;
    // Its place is taken out of the heap when it comes to the top; only a head must go at once.
    this.#jobs[number] = undefined;
    this.#conflict[number] = NONE;
    this.#size -= 1;
    const line = this.#line[number] as number;
    if (this.#root[line] === number) {
      this.#root[line] = this.#livingRoot(number);
      this.#headChanged(line);
    }
    return job;
  }

  /** Parks the head of a line until its conflict key is free. */
  park(line: number): void {
    const number = this.#root[line] as number;
    const conflict = this.#conflict[number] as number;
    this.#root[line] = this.#popped(number);
    this.#headChanged(line);
    let lines = this.#parked.get(conflict);
    if (lines === undefined) {
      lines = new Map();
      this.#parked.set(conflict, lines);
    }
    lines.set(line, this.#meld(lines.get(line) ?? NONE, number));
  }

  /** Puts the first parked job of each line back: the conflict key is free. O(lines with parked jobs). */
  wake(conflict: number): void {
    const lines = this.#parked.get(conflict);
    if (lines === undefined) return;
    for (const [line, root] of lines) {
      const first = this.#livingRoot(root);
      const rest = first === NONE ? NONE : this.#popped(first);
      if (rest === NONE) lines.delete(line);
      else lines.set(line, rest);
      if (first !== NONE) this.#enter(line, first);
    }
    if (lines.size === 0) this.#parked.delete(conflict);
  }

  /** Takes a line out of its class until `admitKey`: its key has reached its cap. */
  hold(line: number): void {
    const place = this.#place[line] as number;
    if (place !== NONE) this.#removeAt(this.#heaps[this.classOf(line)] as LineHeap, place);
  }

  /** Puts the key's lines back into their classes. */
  admitKey(key: number): void {
    const from = key * this.#classes;
    const to = Math.min(from + this.#classes, this.#root.length);
    for (let line = from; line < to; line += 1) {
      if (this.#place[line] === NONE && !this.isEmpty(line)) this.#headChanged(line);
    }
  }

  /** The key's share fell. */
  repriced(key: number): void {
    const share = this.#ledgers.share[key] as number;
    const from = key * this.#classes;
    const to = Math.min(from + this.#classes, this.#place.length);
    for (let line = from; line < to; line += 1) {
      const place = this.#place[line] as number;
      if (place === NONE) continue;
      const heap = this.#heaps[line - from] as LineHeap;
      if (share < (heap.shares[place] as number)) {
        this.#lift(heap, place, line, share, heap.ranks[place] as number);
      }
    }
  }

  /** All shares may have fallen. O(lines). */
  allRepriced(): void {
    for (const heap of this.#heaps) {
      for (let place = 0; place < heap.size; place += 1) {
        heap.shares[place] = this.#ledgers.share[this.keyOf(heap.lines[place] as number)] as number;
      }
      for (let place = (heap.size >> 1) - 1; place >= 0; place -= 1) {
        this.#sink(
          heap,
          place,
          heap.lines[place] as number,
          heap.shares[place] as number,
          heap.ranks[place] as number,
        );
      }
    }
  }

  /** Whether a line has neither jobs nor unread ones. */
  isEmpty(line: number): boolean {
    return this.#root[line] === NONE && this.#more[line] === 0;
  }

  /** Whether a line's head has not been read yet. */
  isUnread(line: number): boolean {
    return this.#root[line] === NONE && this.#more[line] === 1;
  }

  /** Says whether a line goes on after the jobs that were added to it. */
  setMore(key: number, class_: number, more: boolean): void {
    const line = this.lineOf(key, class_);
    this.#makeRoom(line);
    this.#more[line] = more ? 1 : 0;
    this.#headChanged(line);
  }

  #allocate(): number {
    if (this.#freeJob !== NONE) {
      const number = this.#freeJob;
      this.#freeJob = this.#sibling[number] as number;
      this.#child[number] = NONE;
      this.#sibling[number] = NONE;
      return number;
    }
    const number = this.#jobs.length;
    this.#jobs.push(undefined);
    if (number === this.#rank.length) {
      const size = number * 2;
      this.#rank = widenFloats(this.#rank, size);
      this.#readyAtMs = widenFloats(this.#readyAtMs, size);
      this.#child = widenInts(this.#child, size, NONE);
      this.#sibling = widenInts(this.#sibling, size, NONE);
      this.#line = widenInts(this.#line, size, NONE);
      this.#conflict = widenInts(this.#conflict, size, NONE);
    }
    this.#child[number] = NONE;
    this.#sibling[number] = NONE;
    return number;
  }

  #forget(number: number): void {
    this.#jobs[number] = undefined;
    this.#sibling[number] = this.#freeJob;
    this.#freeJob = number;
  }

  #makeRoom(line: number): void {
    if (line < this.#root.length) return;
    let size = this.#root.length;
    while (size <= line) size *= 2;
    this.#root = widenInts(this.#root, size, NONE);
    this.#place = widenInts(this.#place, size, NONE);
    const more = new Uint8Array(size);
    more.set(this.#more);
    this.#more = more;
  }

  // Pairing heaps of jobs. Source of the structure: Fredman, Sedgewick, Sleator, Tarjan, 1986.

  #meld(a: number, b: number): number {
    if (a === NONE) return b;
    const first = this.precedes(a, b) ? a : b;
    const second = first === a ? b : a;
    this.#sibling[second] = this.#child[first] as number;
    this.#child[first] = second;
    return first;
  }

  // The heap without its root.
  #popped(root: number): number {
    let rest = this.#child[root] as number;
    this.#child[root] = NONE;
    let pairs = NONE;
    while (rest !== NONE) {
      const a = rest;
      const b = this.#sibling[a] as number;
      this.#sibling[a] = NONE;
      let pair = a;
      if (b === NONE) rest = NONE;
      else {
        rest = this.#sibling[b] as number;
        this.#sibling[b] = NONE;
        pair = this.#meld(a, b);
      }
      this.#sibling[pair] = pairs;
      pairs = pair;
    }
    let merged = NONE;
    while (pairs !== NONE) {
      const next = this.#sibling[pairs] as number;
      this.#sibling[pairs] = NONE;
      merged = this.#meld(merged, pairs);
      pairs = next;
    }
    return merged;
  }

  // The root once removed jobs have been taken out from the top.
  #livingRoot(root: number): number {
    let living = root;
    while (living !== NONE && this.#jobs[living] === undefined) {
      const dead = living;
      living = this.#popped(dead);
      this.#forget(dead);
    }
    return living;
  }

  #enter(line: number, number: number): void {
    const root = this.#root[line] as number;
    this.#root[line] = this.#meld(root, number);
    if (this.#root[line] !== root) this.#headChanged(line);
  }

  // Heaps of lines.

  #headChanged(line: number): void {
    const living = this.#livingRoot(this.#root[line] as number);
    this.#root[line] = living;
    const heap = this.#heaps[this.classOf(line)] as LineHeap;
    const place = this.#place[line] as number;
    if (this.isEmpty(line)) {
      if (place !== NONE) this.#removeAt(heap, place);
      return;
    }
    const headRank = living === NONE ? UNREAD : (this.#rank[living] as number);
    if (place === NONE) {
      // A key at its cap stands in no class until it may run again.
      if (this.#ledgers.isFull(this.keyOf(line))) return;
      const share = this.#ledgers.share[this.keyOf(line)] as number;
      if (heap.size === heap.lines.length) widenHeap(heap);
      heap.size += 1;
      this.#lift(heap, heap.size - 1, line, share, headRank);
    } else {
      this.#settle(heap, place, line, heap.shares[place] as number, headRank);
    }
  }

  #removeAt(heap: LineHeap, place: number): void {
    this.#place[heap.lines[place] as number] = NONE;
    heap.size -= 1;
    const last = heap.size;
    if (place === last) return;
    this.#settle(
      heap,
      place,
      heap.lines[last] as number,
      heap.shares[last] as number,
      heap.ranks[last] as number,
    );
  }

  #settle(heap: LineHeap, place: number, line: number, share: number, headRank: number): void {
    if (place > 0 && this.#isBefore(heap, line, share, headRank, (place - 1) >> 1)) {
      this.#lift(heap, place, line, share, headRank);
    } else {
      this.#sink(heap, place, line, share, headRank);
    }
  }

  #isBefore(heap: LineHeap, line: number, share: number, headRank: number, place: number): boolean {
    const otherShare = heap.shares[place] as number;
    if (share !== otherShare) return share < otherShare;
    const otherRank = heap.ranks[place] as number;
    if (headRank !== otherRank) return headRank < otherRank;
    return this.#isHeadOlder(line, heap.lines[place] as number);
  }

  #isHeadOlder(a: number, b: number): boolean {
    const headA = this.#root[a] as number;
    const headB = this.#root[b] as number;
    // Equal ranks: either both heads are unread, or none is.
    return headA === NONE || headB === NONE ? a < b : this.isOlder(headA, headB);
  }

  #lift(heap: LineHeap, from: number, line: number, share: number, headRank: number): void {
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.#isBefore(heap, line, share, headRank, parent)) break;
      this.#move(heap, parent, place);
      place = parent;
    }
    this.#put(heap, place, line, share, headRank);
  }

  #sink(heap: LineHeap, from: number, line: number, share: number, headRank: number): void {
    const { lines, shares, ranks, size } = heap;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      const right = child + 1;
      if (
        right < size &&
        this.#isBefore(heap, lines[right] as number, shares[right] as number, ranks[right] as number, child)
      ) {
        child = right;
      }
      if (!this.#isAfter(heap, line, share, headRank, child)) break;
      this.#move(heap, child, place);
      place = child;
    }
    this.#put(heap, place, line, share, headRank);
  }

  #isAfter(heap: LineHeap, line: number, share: number, headRank: number, place: number): boolean {
    const otherShare = heap.shares[place] as number;
    if (share !== otherShare) return share > otherShare;
    const otherRank = heap.ranks[place] as number;
    if (headRank !== otherRank) return headRank > otherRank;
    return this.#isHeadOlder(heap.lines[place] as number, line);
  }

  #move(heap: LineHeap, from: number, to: number): void {
    this.#put(heap, to, heap.lines[from] as number, heap.shares[from] as number, heap.ranks[from] as number);
  }

  #put(heap: LineHeap, place: number, line: number, share: number, headRank: number): void {
    heap.lines[place] = line;
    heap.shares[place] = share;
    heap.ranks[place] = headRank;
    this.#place[line] = place;
  }
}

function widenHeap(heap: LineHeap): void {
  const size = heap.lines.length * 2;
  heap.lines = widenInts(heap.lines, size, NONE);
  heap.shares = widenFloats(heap.shares, size);
  heap.ranks = widenFloats(heap.ranks, size);
}
