/**
 * Waiting jobs as numbers, in pairing heaps by rank. Source of the structure: Fredman, Sedgewick, Sleator and Tarjan, 1986.
 *
 * A heap is the number of its root, or -1. Rank, age and links of a job stand together in 32 bytes of one buffer: half a
 * line of a processor's cache, and nothing that the collector visits.
 * Melding costs O(1), taking the root out O(log n) amortised.
 */
import type { ScoreCoefficients } from './configuration.ts';
import { widenFloats } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { rank } from './score.ts';

export const NONE = -1;

// As doubles: its rank, when it became ready.
const DOUBLES = 4;
const READY_AT = 1;
// As whole numbers, after those: its first child, its next sibling, its line, its conflict key.
const WIDTH = 8;
const CHILD = 4;
const SIBLING = 5;
const LINE = 6;
const CONFLICT = 7;

// Stands where a job was.
const GONE: WaitingJob = {
  id: '',
  type: '',
  priority: 0,
  mode: 'queued',
  fairnessKey: '',
  readyAtMs: 0,
  version: 0,
  attempt: 0,
};

export class JobTable {
  readonly #coefficients: ScoreCoefficients;
  readonly #jobs: WaitingJob[] = [];
  #doubles = new Float64Array(64 * DOUBLES);
  #links = new Int32Array(this.#doubles.buffer);
  #free = NONE;

  constructor(coefficients: ScoreCoefficients) {
    this.#coefficients = coefficients;
  }

  /** A job's number: a heap of one. */
  add(job: WaitingJob, line: number, conflict: number): number {
    let number = this.#free;
    if (number === NONE) {
      number = this.#jobs.length;
      this.#jobs.push(job);
      if (number * DOUBLES === this.#doubles.length) {
        this.#doubles = widenFloats(this.#doubles, 2 * number * DOUBLES);
        this.#links = new Int32Array(this.#doubles.buffer);
      }
    } else {
      this.#free = this.#links[number * WIDTH + SIBLING] as number;
      this.#jobs[number] = job;
    }
    this.#doubles[number * DOUBLES] = rank(job, this.#coefficients);
    this.#doubles[number * DOUBLES + READY_AT] = job.readyAtMs;
    const at = number * WIDTH;
    this.#links[at + CHILD] = NONE;
    this.#links[at + SIBLING] = NONE;
    this.#links[at + LINE] = line;
    this.#links[at + CONFLICT] = conflict;
    return number;
  }

  /** The job with this number; undefined once it is gone. */
  jobOf(number: number): WaitingJob | undefined {
    const job = this.#jobs[number];
    return job === GONE ? undefined : job;
  }

  lineOf(number: number): number {
    return this.#links[number * WIDTH + LINE] as number;
  }

  /** The number of its conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#links[number * WIDTH + CONFLICT] as number;
  }

  rankOf(number: number): number {
    return this.#doubles[number * DOUBLES] as number;
  }

  /** Whether a has the better rank, is older at the same rank, or has the smaller id. */
  precedes(a: number, b: number): boolean {
    const rankA = this.#doubles[a * DOUBLES] as number;
    const rankB = this.#doubles[b * DOUBLES] as number;
    return rankA === rankB ? this.isOlder(a, b) : rankA < rankB;
  }

  /** Whether a became ready before b, or has the smaller id. Ids of removed jobs do not matter. */
  isOlder(a: number, b: number): boolean {
    const readyA = this.#doubles[a * DOUBLES + READY_AT] as number;
    const readyB = this.#doubles[b * DOUBLES + READY_AT] as number;
    if (readyA !== readyB) return readyA < readyB;
    return (this.#jobs[a] as WaitingJob).id < (this.#jobs[b] as WaitingJob).id;
  }

  /** One heap of two, the first of which may be empty. */
  meld(a: number, b: number): number {
    if (a === NONE) return b;
    const first = this.precedes(a, b) ? a : b;
    const second = first === a ? b : a;
    this.#links[second * WIDTH + SIBLING] = this.#links[first * WIDTH + CHILD] as number;
    this.#links[first * WIDTH + CHILD] = second;
    return first;
  }

  /** The heap without its root, which becomes a heap of one. */
  withoutRoot(root: number): number {
    const links = this.#links;
    let rest = links[root * WIDTH + CHILD] as number;
    links[root * WIDTH + CHILD] = NONE;
    let pairs = NONE;
    while (rest !== NONE) {
      const a = rest;
      const b = links[a * WIDTH + SIBLING] as number;
      links[a * WIDTH + SIBLING] = NONE;
      let pair = a;
      rest = NONE;
      if (b !== NONE) {
        rest = links[b * WIDTH + SIBLING] as number;
        links[b * WIDTH + SIBLING] = NONE;
        pair = this.meld(a, b);
      }
      links[pair * WIDTH + SIBLING] = pairs;
      pairs = pair;
    }
    let merged = NONE;
    while (pairs !== NONE) {
      const next = links[pairs * WIDTH + SIBLING] as number;
      links[pairs * WIDTH + SIBLING] = NONE;
      merged = this.meld(merged, pairs);
      pairs = next;
    }
    return merged;
  }

  /** Marks a job as gone wherever it stands; `living` takes it out when it comes to the root. */
  remove(number: number): void {
    this.#jobs[number] = GONE;
    this.#links[number * WIDTH + CONFLICT] = NONE;
  }

  /** The heap without removed jobs at its root. */
  living(root: number): number {
    let living = root;
    while (living !== NONE && this.#jobs[living] === GONE) {
      const gone = living;
      living = this.withoutRoot(gone);
      this.forget(gone);
    }
    return living;
  }

  /** Frees the number of a job that stands in no heap. */
  forget(number: number): void {
    this.#jobs[number] = GONE;
    this.#links[number * WIDTH + SIBLING] = this.#free;
    this.#free = number;
  }
}
