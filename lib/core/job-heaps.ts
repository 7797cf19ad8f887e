/**
 * Heaps of jobs by rank. A heap has a number: that of a line, or that of a line's blocked jobs.
 *
 * The entries of a heap, 16 bytes each (rank, job, conflict key), lie side by side in a block of one buffer. The
 * block's size doubles and halves with the heap. The heap's record holds the position of its block and a copy of its
 * first entry. So looking at the heads of all lines of a key touches a few cache lines of the processor, taking a job
 * out of one touches one or two more, and the garbage collector has no objects to visit.
 */
import { widenFloats } from './fairness.ts';
import { type JobTable, NONE } from './job-table.ts';

// The layout of a heap's entry: indexes among the doubles, and among the 32-bit integers of the same buffer. The record
// of a heap begins with the heap's first entry, in the same layout.
const DOUBLES = 2;
const INTS = 4;
const JOB = 2;
const CONFLICT = 3;

const RECORD_DOUBLES = 4;
const RECORD_INTS = 8;
const BASE = 4;
const SIZE = 5;
const ROOM = 6;
const MORE = 7;

/** Entries of the smallest block, which has 64 bytes. */
const BLOCK_MIN = 4;

export class JobHeaps {
  readonly #jobs: JobTable;
  #recordDoubles: Float64Array = new Float64Array(0);
  #recordInts: Int32Array = new Int32Array(0);
  readonly #free: number[] = [];
  #openedCount = 0;
  #doubles: Float64Array = new Float64Array(64 * DOUBLES);
  #ints: Int32Array = new Int32Array(this.#doubles.buffer);
  #used = 0;
  /** Unused blocks, by the logarithm of their size. */
  readonly #freeBlocks: number[][] = [];

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  /** Makes room for all heaps below this number, which must be higher than before. The new heaps are empty. */
  ensure(heaps: number): void {
    const known = this.#recordDoubles.length / RECORD_DOUBLES;
    this.#recordDoubles = widenFloats(this.#recordDoubles, heaps * RECORD_DOUBLES);
    this.#recordInts = new Int32Array(this.#recordDoubles.buffer);
    for (let heap = known; heap < heaps; heap += 1) this.#resetFirst(heap);
  }

  /**
   * Opens an empty heap and returns its number. It is only for instances whose heap numbers the caller does not choose.
   */
  open(): number {
    const heap = this.#free.pop();
    if (heap !== undefined) return heap;
    this.#openedCount += 1;
    if (this.#openedCount * RECORD_DOUBLES > this.#recordDoubles.length) this.ensure(this.#openedCount * 2);
    return this.#openedCount - 1;
  }

  /** Closes an empty heap, so that its number is used again. */
  close(heap: number): void {
    this.#free.push(heap);
  }

  /** Returns the first job, or -1 if the heap is empty or its first job has not been read. */
  first(heap: number): number {
    return this.#recordInts[heap * RECORD_INTS + JOB] as number;
  }

  /**
   * Returns the first job's rank. Without a read job it is Infinity, or -Infinity if unread jobs follow, so that
   * nothing sorts before them.
   */
  firstRank(heap: number): number {
    return this.#recordDoubles[heap * RECORD_DOUBLES] as number;
  }

  /** Returns the first job's conflict key, or -1. */
  firstConflict(heap: number): number {
    return this.#recordInts[heap * RECORD_INTS + CONFLICT] as number;
  }

  /** Whether the first job of heap a comes before that of heap b. */
  precedes(a: number, b: number): boolean {
    const rankA = this.firstRank(a);
    const rankB = this.firstRank(b);
    return rankA === rankB ? this.#jobs.isOlder(this.first(a), this.first(b)) : rankA < rankB;
  }

  /** Sets whether the line has unread jobs behind the entries of the heap. */
  setMore(heap: number, more: boolean): void {
    this.#recordInts[heap * RECORD_INTS + MORE] = more ? 1 : 0;
    if (this.first(heap) === NONE) this.#resetFirst(heap);
  }

  /** Adds a job. Returns whether it is now the first. */
  push(heap: number, number: number, jobRank: number): boolean {
    const at = heap * RECORD_INTS;
    const size = this.#recordInts[at + SIZE] as number;
    if (size === this.#recordInts[at + ROOM]) this.#resize(heap, Math.max(BLOCK_MIN, size * 2));
    this.#recordInts[at + SIZE] = size + 1;
    const base = this.#recordInts[at + BASE] as number;
    const conflict = this.#jobs.conflictOf(number);
    let position = size;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (!this.#isBefore(jobRank, number, base + parent)) break;
      this.#copy(base + parent, base + position);
      position = parent;
    }
    this.#put(base + position, jobRank, number, conflict);
    if (position > 0) return false;
    this.#setFirst(heap, jobRank, number, conflict);
    return true;
  }

  /** Removes the first job, and then the jobs marked as removed that come to the top. */
  pop(heap: number): void {
    this.#popEntry(heap);
    this.clean(heap);
  }

  /** Deletes the jobs marked as removed that have come to the top. */
  clean(heap: number): void {
    for (;;) {
      const number = this.first(heap);
      if (number === NONE || !this.#jobs.takeRemoved(number)) return;
      this.#popEntry(heap);
      this.#jobs.forget(number);
    }
  }

  #popEntry(heap: number): void {
    const at = heap * RECORD_INTS;
    const size = (this.#recordInts[at + SIZE] as number) - 1;
    const base = this.#recordInts[at + BASE] as number;
    const room = this.#recordInts[at + ROOM] as number;
    this.#recordInts[at + SIZE] = size;
    if (size === 0) {
      this.#freeBlock(base, room);
      this.#recordInts[at + ROOM] = 0;
      this.#resetFirst(heap);
      return;
    }
    const last = base + size;
    const jobRank = this.#doubles[last * DOUBLES] as number;
    const number = this.#ints[last * INTS + JOB] as number;
    const conflict = this.#ints[last * INTS + CONFLICT] as number;
    let position = 0;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#isEntryBefore(base + child + 1, base + child)) child += 1;
      if (this.#isBefore(jobRank, number, base + child)) break;
      this.#copy(base + child, base + position);
      position = child;
    }
    this.#put(base + position, jobRank, number, conflict);
    this.#setFirst(
      heap,
      this.#doubles[base * DOUBLES] as number,
      this.#ints[base * INTS + JOB] as number,
      this.#ints[base * INTS + CONFLICT] as number,
    );
    if (room > BLOCK_MIN && size * 4 <= room) this.#resize(heap, room / 2);
  }

  #resetFirst(heap: number): void {
    const isUnread = this.#recordInts[heap * RECORD_INTS + MORE] === 1;
    this.#setFirst(heap, isUnread ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY, NONE, NONE);
  }

  #setFirst(heap: number, jobRank: number, number: number, conflict: number): void {
    this.#recordDoubles[heap * RECORD_DOUBLES] = jobRank;
    this.#recordInts[heap * RECORD_INTS + JOB] = number;
    this.#recordInts[heap * RECORD_INTS + CONFLICT] = conflict;
  }

  #isBefore(jobRank: number, number: number, entry: number): boolean {
    const other = this.#doubles[entry * DOUBLES] as number;
    if (jobRank !== other) return jobRank < other;
    return this.#jobs.isOlder(number, this.#ints[entry * INTS + JOB] as number);
  }

  #isEntryBefore(a: number, b: number): boolean {
    return this.#isBefore(this.#doubles[a * DOUBLES] as number, this.#ints[a * INTS + JOB] as number, b);
  }

  #copy(from: number, to: number): void {
    this.#doubles[to * DOUBLES] = this.#doubles[from * DOUBLES] as number;
    this.#ints[to * INTS + JOB] = this.#ints[from * INTS + JOB] as number;
    this.#ints[to * INTS + CONFLICT] = this.#ints[from * INTS + CONFLICT] as number;
  }

  #put(entry: number, jobRank: number, number: number, conflict: number): void {
    this.#doubles[entry * DOUBLES] = jobRank;
    this.#ints[entry * INTS + JOB] = number;
    this.#ints[entry * INTS + CONFLICT] = conflict;
  }

  // Blocks have 4, 8, 16... entries. A block that is no longer used serves other heaps of its size.

  #resize(heap: number, room: number): void {
    const at = heap * RECORD_INTS;
    const size = this.#recordInts[at + SIZE] as number;
    const from = this.#recordInts[at + BASE] as number;
    const to = this.#allocate(room);
    this.#doubles.copyWithin(to * DOUBLES, from * DOUBLES, (from + size) * DOUBLES);
    this.#freeBlock(from, this.#recordInts[at + ROOM] as number);
    this.#recordInts[at + BASE] = to;
    this.#recordInts[at + ROOM] = room;
  }

  #allocate(room: number): number {
    const block = this.#freeBlocks[Math.log2(room)]?.pop();
    if (block !== undefined) return block;
    const base = this.#used;
    this.#used += room;
    let length = this.#doubles.length;
    while (this.#used * DOUBLES > length) length *= 2;
    if (length > this.#doubles.length) {
      this.#doubles = widenFloats(this.#doubles, length);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    return base;
  }

  // A heap without a block has room for 0 entries.
  #freeBlock(block: number, room: number): void {
    if (room === 0) return;
    const size = Math.log2(room);
    while (this.#freeBlocks.length <= size) this.#freeBlocks.push([]);
    this.#freeBlocks[size]?.push(block);
  }
}
