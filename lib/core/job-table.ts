/**
 * Waiting jobs as numbers, in pairing heaps by rank. Source of the structure: Fredman, Sedgewick, Sleator and Tarjan, 1986.
 *
 * A heap is the number of its root, or -1. Its links stand in one typed array, four places for each job, so that a job is
 * two places in memory and not an object that the collector visits: a million jobs are a million places.
 * Melding costs O(1), taking the root out O(log n) amortised.
 */
import type { ScoreCoefficients } from './configuration.ts';
import { widenFloats, widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';
import { rank } from './score.ts';

export const NONE = -1;

// A job's links: its first child, its next sibling, its line, its conflict key.
const WIDTH = 4;
const SIBLING = 1;
const LINE = 2;
const CONFLICT = 3;

export class JobTable {
  readonly #coefficients: ScoreCoefficients;
  readonly #jobs: (WaitingJob | undefined)[] = [];
  #ranks = new Float64Array(64);
  #links = new Int32Array(64 * WIDTH);
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
      if (number === this.#ranks.length) {
        this.#ranks = widenFloats(this.#ranks, number * 2);
        this.#links = widenInts(this.#links, number * 2 * WIDTH, NONE);
      }
    } else {
      this.#free = this.#links[number * WIDTH + SIBLING] as number;
      this.#jobs[number] = job;
    }
    this.#ranks[number] = rank(job, this.#coefficients);
    const at = number * WIDTH;
    this.#links[at] = NONE;
    this.#links[at + SIBLING] = NONE;
    this.#links[at + LINE] = line;
    this.#links[at + CONFLICT] = conflict;
    return number;
  }

  /** The job with this number; undefined once it is gone. */
  jobOf(number: number): WaitingJob | undefined {
    return this.#jobs[number];
  }

  lineOf(number: number): number {
    return this.#links[number * WIDTH + LINE] as number;
  }

  /** The number of its conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#links[number * WIDTH + CONFLICT] as number;
  }

  rankOf(number: number): number {
    return this.#ranks[number] as number;
  }

  /** Whether a has the better rank, is older at the same rank, or has the smaller id. */
  precedes(a: number, b: number): boolean {
    const rankA = this.#ranks[a] as number;
    const rankB = this.#ranks[b] as number;
    return rankA === rankB ? this.isOlder(a, b) : rankA < rankB;
  }

  /** Whether a became ready before b, or has the smaller id. A removed job precedes: it is on its way out. */
  isOlder(a: number, b: number): boolean {
    const jobA = this.#jobs[a];
    const jobB = this.#jobs[b];
    if (jobA === undefined || jobB === undefined) return jobA === undefined;
    return jobA.readyAtMs === jobB.readyAtMs ? jobA.id < jobB.id : jobA.readyAtMs < jobB.readyAtMs;
  }

  /** One heap of two. */
  meld(a: number, b: number): number {
    if (a === NONE) return b;
    if (b === NONE) return a;
    const first = this.precedes(a, b) ? a : b;
    const second = first === a ? b : a;
    this.#links[second * WIDTH + SIBLING] = this.#links[first * WIDTH] as number;
    this.#links[first * WIDTH] = second;
    return first;
  }

  /** The heap without its root, which becomes a heap of one. */
  withoutRoot(root: number): number {
    const links = this.#links;
    let rest = links[root * WIDTH] as number;
    links[root * WIDTH] = NONE;
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
    this.#jobs[number] = undefined;
    this.#links[number * WIDTH + CONFLICT] = NONE;
  }

  /** The heap without removed jobs at its root. */
  living(root: number): number {
    let living = root;
    while (living !== NONE && this.#jobs[living] === undefined) {
      const gone = living;
      living = this.withoutRoot(gone);
      this.forget(gone);
    }
    return living;
  }

  /** Frees the number of a job that stands in no heap. */
  forget(number: number): void {
    this.#jobs[number] = undefined;
    this.#links[number * WIDTH + SIBLING] = this.#free;
    this.#free = number;
  }
}
