/** Waiting jobs as numbers, so that what orders them can stand in typed arrays. */
import { widenInts } from './fairness.ts';
import type { WaitingJob } from './job.ts';

export const NONE = -1;

export class JobTable {
  /** By number; undefined for a number that is free. */
  readonly #jobs: (WaitingJob | undefined)[] = [];
  readonly #free: number[] = [];
  #line = new Int32Array(64);
  #conflict = new Int32Array(64);
  /** Numbers of jobs that are gone, but still stand in a heap: they keep their place among equals there. */
  readonly #removed = new Set<number>();

  /** A number for a job of a line; `conflict` is its conflict key's number, or -1. */
  add(job: WaitingJob, line: number, conflict: number): number {
    let number = this.#free.pop();
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
    return job?.id === id && !this.#removed.has(number) ? job : undefined;
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
    this.#jobs[number] = undefined;
    this.#free.push(number);
  }
}
