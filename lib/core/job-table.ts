/**
 * Jobs as numbers, from their arrival until they have ended. What is known of a job stands in columns, and no object of it is
 * kept: its numbers side by side, 32 bytes, in one buffer; its id in an array. So a decision finds all of a job in two lines
 * of a processor's cache, wherever the object that told of it was, and of a million jobs the collector visits nothing but
 * their ids.
 */
import { widenFloats } from './fairness.ts';
import type { WaitingJob } from './job.ts';

export const NONE = -1;

/** What is kept of a job; its type, mode and fairness key are its line's. All numbers but the instant are whole. */
export interface KeptJob extends Pick<WaitingJob, 'id' | 'readyAtMs' | 'priority' | 'version' | 'attempt'> {
  /** The number of its resource among its type's estimates. */
  readonly resource: number;
}

// Places of a job's fields, among doubles and among whole numbers.
const DOUBLES = 4;
const READY_AT = 0;
const INTS = 8;
const PRIORITY = 2;
const VERSION = 3;
const ATTEMPT = 4;
const LINE = 5;
const CONFLICT = 6;
const RESOURCE = 7;

export class JobTable {
  /** Undefined for a number that is free. */
  readonly #ids: (string | undefined)[] = [];
  #doubles = new Float64Array(64 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  readonly #free: number[] = [];
  /** Numbers of jobs that are gone, but still stand in a heap: they keep their place among equals there. */
  readonly #removed = new Set<number>();

  /** A number for a job of a line, or of none: -1. `conflict` is its conflict key's number, or -1. */
  add(job: Omit<KeptJob, 'resource'>, resource: number, line: number, conflict: number): number {
    const number = this.#free.pop() ?? this.#ids.length;
    this.#ids[number] = job.id;
    if (number * DOUBLES === this.#doubles.length) {
      this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    this.#doubles[number * DOUBLES + READY_AT] = job.readyAtMs;
    const at = number * INTS;
    this.#ints[at + PRIORITY] = job.priority;
    this.#ints[at + VERSION] = job.version;
    this.#ints[at + ATTEMPT] = job.attempt;
    this.#ints[at + LINE] = line;
    this.#ints[at + CONFLICT] = conflict;
    this.#ints[at + RESOURCE] = resource;
    return number;
  }

  /** Whether the job with this number waits in a line, and has this id. */
  isWaiting(number: number, id: string): boolean {
    return this.#ids[number] === id && this.lineOf(number) !== NONE && !this.#removed.has(number);
  }

  idOf(number: number): string {
    return this.#ids[number] as string;
  }

  /** All that is kept of a job. */
  jobOf(number: number): KeptJob {
    const at = number * INTS;
    return {
      id: this.idOf(number),
      readyAtMs: this.#readyAtMsOf(number),
      priority: this.#ints[at + PRIORITY] as number,
      version: this.#ints[at + VERSION] as number,
      attempt: this.#ints[at + ATTEMPT] as number,
      resource: this.resourceOf(number),
    };
  }

  /** The number of its resource among its type's estimates. */
  resourceOf(number: number): number {
    return this.#ints[number * INTS + RESOURCE] as number;
  }

  /** The line in which it waits; -1 when it does not. */
  lineOf(number: number): number {
    return this.#ints[number * INTS + LINE] as number;
  }

  /** The number of its conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#ints[number * INTS + CONFLICT] as number;
  }

  /** Whether a became ready before b, or has the smaller id. */
  isOlder(a: number, b: number): boolean {
    const readyAtMsA = this.#readyAtMsOf(a);
    const readyAtMsB = this.#readyAtMsOf(b);
    return readyAtMsA === readyAtMsB ? this.idOf(a) < this.idOf(b) : readyAtMsA < readyAtMsB;
  }

  /** Marks a job as gone that still stands in a heap. */
  remove(number: number): void {
    this.#removed.add(number);
  }

  /** Whether the job was marked as gone; it is so no more. */
  takeRemoved(number: number): boolean {
    return this.#removed.size > 0 && this.#removed.delete(number);
  }

  /** A job that stands in no heap any more waits in no line. */
  leaveLine(number: number): void {
    this.#ints[number * INTS + LINE] = NONE;
  }

  /** Frees the number of a job that stands in no heap. */
  forget(number: number): void {
    this.#ids[number] = undefined;
    this.#free.push(number);
  }

  #readyAtMsOf(number: number): number {
    return this.#doubles[number * DOUBLES + READY_AT] as number;
  }
}
