/** Waiting jobs as numbers, so that what orders them can stand in typed arrays. */
import { widenFloats } from './fairness.ts';
import type { WaitingJob } from './job.ts';

export const NONE = -1;

// A job's record: when it became ready among doubles, its line and conflict key among whole numbers. 16 bytes, because a
// decision meets a job that nobody has touched for long: one place in memory costs as much as a hundred steps.
const DOUBLES = 2;
const INTS = 4;
const LINE = 2;
const CONFLICT = 3;

export class JobTable {
  readonly #jobs: WaitingJob[] = [];
  readonly #free: number[] = [];
  #doubles = new Float64Array(64 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  /** Numbers of jobs that are gone, but still stand in a heap: they keep their place among equals there. */
  readonly #removed = new Set<number>();

  /** A number for a job of a line; `conflict` is its conflict key's number, or -1. */
  add(job: WaitingJob, line: number, conflict: number): number {
    let number = this.#free.pop();
    if (number === undefined) {
      number = this.#jobs.length;
      this.#jobs.push(job);
      if (number * DOUBLES === this.#doubles.length) {
        this.#doubles = widenFloats(this.#doubles, number * 2 * DOUBLES);
        this.#ints = new Int32Array(this.#doubles.buffer);
      }
    } else {
      this.#jobs[number] = job;
    }
    this.#doubles[number * DOUBLES] = job.readyAtMs;
    this.#ints[number * INTS + LINE] = line;
    this.#ints[number * INTS + CONFLICT] = conflict;
    return number;
  }

  /** A job that waits. */
  jobOf(number: number): WaitingJob {
    return this.#jobs[number] as WaitingJob;
  }

  /** The job with this number, if it waits and has this id. */
  find(number: number, id: string): WaitingJob | undefined {
    const job = this.#jobs[number];
    return job?.id === id && !this.#removed.has(number) && this.lineOf(number) !== NONE ? job : undefined;
  }

  lineOf(number: number): number {
    return this.#ints[number * INTS + LINE] as number;
  }

  /** The number of its conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#ints[number * INTS + CONFLICT] as number;
  }

  readyAtMsOf(number: number): number {
    return this.#doubles[number * DOUBLES] as number;
  }

  /** Whether a became ready before b, or has the smaller id. */
  isOlder(a: number, b: number): boolean {
    const readyA = this.readyAtMsOf(a);
    const readyB = this.readyAtMsOf(b);
    return readyA === readyB ? this.jobOf(a).id < this.jobOf(b).id : readyA < readyB;
  }

  /** Marks a job as gone that still stands in a heap. */
  remove(number: number): void {
    this.#removed.add(number);
  }

  /** Whether the job was marked as gone; it is so no more. */
  takeRemoved(number: number): boolean {
    return this.#removed.size > 0 && this.#removed.delete(number);
  }

  /** Frees the number of a job that stands in no heap. */
  forget(number: number): void {
    this.#ints[number * INTS + LINE] = NONE;
    this.#free.push(number);
  }
}
