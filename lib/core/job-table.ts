/**
 * Waiting jobs as numbers, in binary heaps by rank.
 *
 * A heap is a number too. Its entries, 16 bytes each (rank, job, conflict key), stand side by side in a block of one
 * buffer, of a size that doubles and halves with the heap: taking a job out of a line of four touches one line of a
 * processor's cache, and nothing here is an object for the collector to visit.
 */
import type { ScoreCoefficients } from './configuration.ts';
import { widenFloats, widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { rank } from './score.ts';

export const NONE = -1;

// Places of an entry's fields, among doubles and among whole numbers.
const DOUBLES = 2;
const INTS = 4;
const JOB = 2;
const CONFLICT = 3;

// A heap's fields: where its block begins, how many entries it has, and has room for.
const HEAP_INTS = 4;
const SIZE = 1;
const ROOM = 2;

/** Entries of the smallest block: 64 bytes. */
const BLOCK_MIN = 4;

export class JobTable {
  readonly #coefficients: ScoreCoefficients;

  // Jobs
  readonly #jobs: WaitingJob[] = [];
  readonly #freeJobs: number[] = [];
  #line = new Int32Array(64);
  #conflict = new Int32Array(64);
  /** Numbers of jobs that are gone but still have an entry. */
  readonly #removed = new Set<number>();

  // Heaps
  readonly #freeHeaps: number[] = [];
  #heaps = 0;
  #blocks = new Int32Array(64 * HEAP_INTS);

  // Blocks
  #doubles = new Float64Array(1_024 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  #used = 0;
  /** By the logarithm of their size. */
  readonly #freeBlocks: number[][] = [];

  constructor(coefficients: ScoreCoefficients) {
    this.#coefficients = coefficients;
  }

  /** A number for a job of a line; it stands in no heap yet. */
  add(job: WaitingJob, line: number, conflict: number): number {
    let number = this.#freeJobs.pop();
    if (number === undefined) {
      number = this.#jobs.length;
      this.#jobs.push(job);
      if (number === this.#line.length) {
        this.#line = widenInts(this.#line, number * 2, NONE);
        this.#conflict = widenInts(this.#conflict, number * 2, NONE);
      }
    } else {
      this.#jobs[number] = job;
    }
    this.#line[number] = line;
    this.#conflict[number] = conflict;
    return number;
  }

  /** A job that waits. */
  jobOf(number: number): WaitingJob {
    return this.#jobs[number] as WaitingJob;
  }

  /** The job with this number, if it waits and has this id. */
  find(number: number, id: string): WaitingJob | undefined {
    const job = this.#jobs[number];
    return job?.id === id && !this.#removed.has(number) && this.#line[number] !== NONE ? job : undefined;
  }

  lineOf(number: number): number {
    return this.#line[number] as number;
  }

  /** The number of its conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#conflict[number] as number;
  }

  /** Whether a became ready before b, or has the smaller id. */
  isOlder(a: number, b: number): boolean {
    const jobA = this.jobOf(a);
    const jobB = this.jobOf(b);
    return jobA.readyAtMs === jobB.readyAtMs ? jobA.id < jobB.id : jobA.readyAtMs < jobB.readyAtMs;
  }

  /** Marks a job as gone wherever it stands; `living` takes it out when it comes to the top. */
  remove(number: number): void {
    this.#removed.add(number);
  }

  /** Frees the number of a job that stands in no heap. */
  forget(number: number): void {
    this.#line[number] = NONE;
    this.#freeJobs.push(number);
  }

  /** An empty heap. */
  open(): number {
    let heap = this.#freeHeaps.pop();
    if (heap === undefined) {
      heap = this.#heaps;
      this.#heaps += 1;
      if (heap * HEAP_INTS === this.#blocks.length) {
        this.#blocks = widenInts(this.#blocks, this.#blocks.length * 2, 0);
      }
    }
    const at = heap * HEAP_INTS;
    this.#blocks[at] = this.#allocate(BLOCK_MIN);
    this.#blocks[at + SIZE] = 0;
    this.#blocks[at + ROOM] = BLOCK_MIN;
    return heap;
  }

  /** Gives an empty heap back. */
  close(heap: number): void {
    this.#free(this.#baseOf(heap), this.#blocks[heap * HEAP_INTS + ROOM] as number);
    this.#freeHeaps.push(heap);
  }

  /** The first job of a heap, or -1. Removed jobs that come to the top are taken out. */
  living(heap: number): number {
    for (;;) {
      if (this.#blocks[heap * HEAP_INTS + SIZE] === 0) return NONE;
      const number = this.#ints[this.#baseOf(heap) * INTS + JOB] as number;
      if (this.#removed.size === 0 || !this.#removed.delete(number)) return number;
      this.pop(heap);
      this.forget(number);
    }
  }

  /** The rank of a heap's first job. */
  topRank(heap: number): number {
    return this.#doubles[this.#baseOf(heap) * DOUBLES] as number;
  }

  /** The conflict key of a heap's first job. */
  topConflict(heap: number): number {
    return this.#ints[this.#baseOf(heap) * INTS + CONFLICT] as number;
  }

  /** Whether the first job of heap a precedes that of heap b. */
  precedes(a: number, b: number): boolean {
    const rankA = this.topRank(a);
    const rankB = this.topRank(b);
    if (rankA !== rankB) return rankA < rankB;
    return this.isOlder(
      this.#ints[this.#baseOf(a) * INTS + JOB] as number,
      this.#ints[this.#baseOf(b) * INTS + JOB] as number,
    );
  }

  /** Puts a job into a heap. Answers whether it is the first now. */
  push(heap: number, number: number): boolean {
    const at = heap * HEAP_INTS;
    const size = this.#blocks[at + SIZE] as number;
    if (size === this.#blocks[at + ROOM]) this.#resize(heap, size * 2);
    this.#blocks[at + SIZE] = size + 1;
    const base = this.#baseOf(heap);
    const jobRank = rank(this.jobOf(number), this.#coefficients);
    let place = size;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.#isBefore(jobRank, number, base + parent)) break;
      this.#copy(base + parent, base + place);
      place = parent;
    }
    this.#put(base + place, jobRank, number, this.#conflict[number] as number);
    return place === 0;
  }

  /** Takes the first job out of a heap. */
  pop(heap: number): void {
    const at = heap * HEAP_INTS;
    const size = (this.#blocks[at + SIZE] as number) - 1;
    this.#blocks[at + SIZE] = size;
    if (size === 0) return;
    const base = this.#baseOf(heap);
    const last = base + size;
    const jobRank = this.#doubles[last * DOUBLES] as number;
    const number = this.#ints[last * INTS + JOB] as number;
    const conflict = this.#ints[last * INTS + CONFLICT] as number;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#isEntryBefore(base + child + 1, base + child)) child += 1;
      if (this.#isBefore(jobRank, number, base + child)) break;
      this.#copy(base + child, base + place);
      place = child;
    }
    this.#put(base + place, jobRank, number, conflict);
    if (size * 4 <= (this.#blocks[at + ROOM] as number) && size >= BLOCK_MIN / 2)
      this.#resize(heap, size * 2);
  }

  #baseOf(heap: number): number {
    return this.#blocks[heap * HEAP_INTS] as number;
  }

  #isBefore(jobRank: number, number: number, entry: number): boolean {
    const other = this.#doubles[entry * DOUBLES] as number;
    if (jobRank !== other) return jobRank < other;
    return this.isOlder(number, this.#ints[entry * INTS + JOB] as number);
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

  // Blocks of 4, 8, 16... entries. A block that is given back serves heaps of its size again.

  #resize(heap: number, room: number): void {
    const at = heap * HEAP_INTS;
    const size = this.#blocks[at + SIZE] as number;
    const from = this.#baseOf(heap);
    const to = this.#allocate(room);
    this.#doubles.copyWithin(to * DOUBLES, from * DOUBLES, (from + size) * DOUBLES);
    this.#free(from, this.#blocks[at + ROOM] as number);
    this.#blocks[at] = to;
    this.#blocks[at + ROOM] = room;
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

  #free(block: number, room: number): void {
    const size = Math.log2(room);
    while (this.#freeBlocks.length <= size) this.#freeBlocks.push([]);
    this.#freeBlocks[size]?.push(block);
  }
}
