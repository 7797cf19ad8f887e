/**
 * Jobs as numbers, from their arrival until they have ended. What is known of a job stands in columns, and no object of it is
 * kept: its numbers side by side, 32 bytes, in one buffer; its texts side by side in one array. So a decision finds
 * all of a job in two lines of a processor's cache, wherever the object that told of it was, and of a million jobs the
 * collector visits nothing but their texts.
 */
import { widenFloats } from './fairness.ts';
import type { WaitingJob } from './job.ts';

export const NONE = -1;

/** What is kept of a job; its type, mode and fairness key are its line's. */
export type KeptJob = Pick<WaitingJob, 'id' | 'readyAtMs' | 'priority' | 'version' | 'attempt'> & {
  readonly resourceId: string | undefined;
};

// Places of a job's fields, among doubles, among whole numbers, among texts.
const DOUBLES = 4;
const READY_AT = 0;
const PRIORITY = 1;
const INTS = 8;
const VERSION = 4;
const ATTEMPT = 5;
const LINE = 6;
const CONFLICT = 7;
const TEXTS = 2;
const ID = 0;
const RESOURCE = 1;

export class JobTable {
  /** Undefined for a number that is free. */
  readonly #texts: (string | undefined)[] = [];
  #doubles = new Float64Array(64 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  readonly #free: number[] = [];
  /** Numbers of jobs that are gone, but still stand in a heap: they keep their place among equals there. */
  readonly #removed = new Set<number>();

  /** A number for a job of a line, or of none: -1. `conflict` is its conflict key's number, or -1. */
  add(
    job: Omit<KeptJob, 'resourceId'>,
    resourceId: string | undefined,
    line: number,
    conflict: number,
  ): number {
    let number = this.#free.pop();
    if (number === undefined) {
      number = this.#texts.length / TEXTS;
      this.#texts.push(job.id, resourceId);
      if (number * DOUBLES === this.#doubles.length) {
        this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
        this.#ints = new Int32Array(this.#doubles.buffer);
      }
    } else {
      this.#texts[number * TEXTS + ID] = job.id;
      this.#texts[number * TEXTS + RESOURCE] = resourceId;
    }
    this.#doubles[number * DOUBLES + READY_AT] = job.readyAtMs;
    this.#doubles[number * DOUBLES + PRIORITY] = job.priority;
    const at = number * INTS;
    this.#ints[at + VERSION] = job.version;
    this.#ints[at + ATTEMPT] = job.attempt;
    this.#ints[at + LINE] = line;
    this.#ints[at + CONFLICT] = conflict;
    return number;
  }

  /** Whether the job with this number waits in a line, and has this id. */
  isWaiting(number: number, id: string): boolean {
    return (
      this.#texts[number * TEXTS + ID] === id && this.lineOf(number) !== NONE && !this.#removed.has(number)
    );
  }

  idOf(number: number): string {
    return this.#texts[number * TEXTS + ID] as string;
  }

  resourceOf(number: number): string | undefined {
    return this.#texts[number * TEXTS + RESOURCE];
  }

  /** All that is kept of a job. */
  jobOf(number: number): KeptJob {
    return {
      id: this.idOf(number),
      resourceId: this.resourceOf(number),
      readyAtMs: this.#readyAtMsOf(number),
      priority: this.#doubles[number * DOUBLES + PRIORITY] as number,
      version: this.#ints[number * INTS + VERSION] as number,
      attempt: this.#ints[number * INTS + ATTEMPT] as number,
    };
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
    this.#texts[number * TEXTS + ID] = undefined;
    this.#texts[number * TEXTS + RESOURCE] = undefined;
    this.#free.push(number);
  }
  #readyAtMsOf(number: number): number {
    return this.#doubles[number * DOUBLES + READY_AT] as number;
  }
}
