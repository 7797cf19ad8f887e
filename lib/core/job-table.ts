/**
 * Jobs as numbers, from their arrival until they have ended. A job's numbers lie side by side in one buffer, 32 bytes
 * per job, and its id in an array; no object is kept. So a decision finds all numbers of a job in two cache lines of
 * the processor, and of a million jobs the garbage collector visits only the ids.
 */
import { widenFloats } from './fairness.ts';
import type { JobKeys, JobUnits, WaitingJob } from './job.ts';

export const NONE = -1;

const NO_NUMBERS: readonly number[] = [];
const NOTHING_NAMED = { keys: undefined, units: undefined } as const;

/** Few jobs have these: keys besides the fairness key, units, and conflict keys in the limits that count by those keys. */
interface Limited {
  readonly keys: JobKeys | undefined;
  readonly units: JobUnits | undefined;
  readonly conflicts: readonly number[];
}

/**
 * The fields kept of a job. Its type, mode and fairness key are those of its line. All numbers but `readyAtMs` are
 * 32-bit integers.
 */
export interface JobColumns
  extends Pick<WaitingJob, 'id' | 'readyAtMs' | 'priority' | 'version' | 'attempt'> {
  /** The number of the job's resource in the estimates of its type. */
  readonly resource: number;
}

// The layout of a job: indexes among the doubles, and among the 32-bit integers of the same buffer.
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
  /** Ids by the job's number; undefined: the number is free. */
  readonly #ids: (string | undefined)[] = [];
  #doubles: Float64Array = new Float64Array(64 * DOUBLES);
  #ints: Int32Array = new Int32Array(this.#doubles.buffer);
  readonly #free: number[] = [];
  /** By number: the job's keys, its units, and the numbers of its conflict keys in limits. Absent for a job that has none. */
  readonly #limited = new Map<number, Limited>();
  /** Numbers of removed jobs that are still in a heap. They keep their position among jobs of equal rank there. */
  readonly #removed = new Set<number>();

  /**
   * Adds a job and returns its number. `line` is -1 for a job in no line, `conflict` the number of its conflict key or
   * -1.
   */
  add(job: Omit<JobColumns, 'resource'>, resource: number, line: number, conflict: number): number {
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

  /** Whether the job with this number waits in a line and has this id. */
  isWaiting(number: number, id: string): boolean {
    return this.#ids[number] === id && this.lineOf(number) !== NONE && !this.#removed.has(number);
  }

  idOf(number: number): string {
    return this.#ids[number] as string;
  }

  jobOf(number: number): JobColumns {
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

  resourceOf(number: number): number {
    return this.#ints[number * INTS + RESOURCE] as number;
  }

  /** Returns the line in which the job waits, or -1. */
  lineOf(number: number): number {
    return this.#ints[number * INTS + LINE] as number;
  }

  /** Returns the number of the job's conflict key, or -1. */
  conflictOf(number: number): number {
    return this.#ints[number * INTS + CONFLICT] as number;
  }

  /** Sets the job's keys, its units, and the numbers of its conflict keys in limits. */
  setLimited(number: number, limited: Limited): void {
    this.#limited.set(number, limited);
  }

  /** Returns the job's keys and units. */
  namedOf(number: number): Pick<Limited, 'keys' | 'units'> {
    return this.#limited.get(number) ?? NOTHING_NAMED;
  }

  /** Returns the numbers of the job's conflict keys in limits. */
  limitConflictsOf(number: number): readonly number[] {
    return this.#limited.get(number)?.conflicts ?? NO_NUMBERS;
  }

  /** Whether job a became ready before job b, or at the same time and has the smaller id. */
  isOlder(a: number, b: number): boolean {
    const readyAtMsA = this.#readyAtMsOf(a);
    const readyAtMsB = this.#readyAtMsOf(b);
    return readyAtMsA === readyAtMsB ? this.idOf(a) < this.idOf(b) : readyAtMsA < readyAtMsB;
  }

  /** Marks a job that is still in a heap as removed. */
  remove(number: number): void {
    this.#removed.add(number);
  }

  /** Returns whether the job is marked as removed, and clears the mark. */
  takeRemoved(number: number): boolean {
    return this.#removed.size > 0 && this.#removed.delete(number);
  }

  /** Called when a job has left the heaps: it waits in no line any more. */
  leaveLine(number: number): void {
    this.#ints[number * INTS + LINE] = NONE;
  }

  /** Frees the number of a job that is in no heap. */
  forget(number: number): void {
    this.#ids[number] = undefined;
    this.#limited.delete(number);
    this.#free.push(number);
  }

  #readyAtMsOf(number: number): number {
    return this.#doubles[number * DOUBLES + READY_AT] as number;
  }
}

// The layout of a running job: indexes among the 32-bit integers, and among the doubles of the same buffer for its
// charge.
const RUN_INTS = 10;
const RUN_DOUBLES = 5;
const RUN_TYPE = 0;
const RUN_TIER = 1;
const RUN_KEY = 2;
const RUN_FLEET = 3;
const RUN_CONFLICT = 4;
const RUN_GENERATION = 5;
const RUN_JOB = 6;
const RUN_CHARGED = 4;

/**
 * Running jobs, by ticket. A ticket names a running job until it ends, at less cost than its id; then it is used again
 * for another job. A running job is a row of 32-bit integers and its charge.
 */
export class RunningJobs {
  readonly #jobs: JobTable;
  /** The number of tickets made so far, including the free ones in `#freeTickets`. */
  #tickets = 0;
  #doubles: Float64Array = new Float64Array(64 * RUN_DOUBLES);
  #ints: Int32Array = new Int32Array(this.#doubles.buffer);
  readonly #freeTickets: number[] = [];
  /** Tickets by job id. The map is made when a job is first asked for by its id, and kept up to date from then on. */
  #ticketsById: Map<string, number> | undefined;

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  get size(): number {
    return this.#tickets - this.#freeTickets.length;
  }

  /**
   * Makes a job of the table a running one. Returns its ticket, the number that names it until it ends. Type, tier, key, fleet and
   * conflict key are numbers, or -1 for none. `generation` is the ledgers' when the job was charged; each reset raises it.
   */
  start(
    number: number,
    type: number,
    tier: number,
    key: number,
    fleet: number,
    conflict: number,
    generation: number,
    chargedMs: number,
  ): number {
    let ticket = this.#freeTickets.pop();
    if (ticket === undefined) {
      ticket = this.#tickets;
      this.#tickets += 1;
    }
    this.#ticketsById?.set(this.#jobs.idOf(number), ticket);
    if (ticket * RUN_INTS === this.#ints.length) {
      this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    const ints = this.#ints;
    const at = ticket * RUN_INTS;
    ints[at + RUN_JOB] = number;
    ints[at + RUN_TYPE] = type;
    ints[at + RUN_TIER] = tier;
    ints[at + RUN_KEY] = key;
    ints[at + RUN_FLEET] = fleet;
    ints[at + RUN_CONFLICT] = conflict;
    ints[at + RUN_GENERATION] = generation;
    this.#doubles[ticket * RUN_DOUBLES + RUN_CHARGED] = chargedMs;
    return ticket;
  }

  /** Ends a running job and frees its ticket. The job's columns can be read until the next job starts. */
  end(ticket: number): void {
    this.#ticketsById?.delete(this.#jobs.idOf(this.jobOf(ticket)));
    this.#ints[ticket * RUN_INTS + RUN_JOB] = NONE;
    this.#freeTickets.push(ticket);
  }

  /** Returns the number of the running job with this ticket, or -1. */
  jobOf(ticket: number): number {
    return ticket >= 0 && ticket < this.#tickets ? (this.#ints[ticket * RUN_INTS + RUN_JOB] as number) : NONE;
  }

  typeOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_TYPE] as number;
  }

  tierOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_TIER] as number;
  }

  keyOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_KEY] as number;
  }

  fleetOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_FLEET] as number;
  }

  conflictOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_CONFLICT] as number;
  }

  generationOf(ticket: number): number {
    return this.#ints[ticket * RUN_INTS + RUN_GENERATION] as number;
  }

  chargedMsOf(ticket: number): number {
    return this.#doubles[ticket * RUN_DOUBLES + RUN_CHARGED] as number;
  }

  /** Returns the ticket of the running job with this id. */
  ticketOf(id: string): number | undefined {
    if (this.#ticketsById === undefined) {
      this.#ticketsById = new Map();
      for (const ticket of this.tickets()) this.#ticketsById.set(this.#jobs.idOf(this.jobOf(ticket)), ticket);
    }
    return this.#ticketsById.get(id);
  }

  /** The tickets of all running jobs. O(the most tickets ever in use at once). */
  *tickets(): Generator<number> {
    for (let ticket = 0; ticket < this.#tickets; ticket += 1) if (this.jobOf(ticket) !== NONE) yield ticket;
  }
}
