/**
 * Jobs that run, by their tickets. A ticket names a running job until it ends, at less cost than its id, and is given again
 * to another job then. What is kept of a running job are whole numbers side by side, and what it was charged.
 */
import { widenFloats } from './fairness.ts';
import { type JobTable, NONE } from './job-table.ts';

const INTS = 10;
const DOUBLES = 5;
// Places among the whole numbers, and of the charge among the doubles of the same buffer.
const TYPE = 0;
const TIER = 1;
const KEY = 2;
const FLEET = 3;
const CONFLICT = 4;
const GENERATION = 5;
const JOB = 6;
const CHARGED = 4;

export class RunningJobs {
  readonly #jobs: JobTable;
  /** Tickets made so far; one that is free again stands in `#freeTickets`, and is no job's. */
  #tickets = 0;
  #doubles = new Float64Array(64 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);
  readonly #freeTickets: number[] = [];
  /** Made when a job is first asked for by its id, and kept up from then on. */
  #ticketsById: Map<string, number> | undefined;

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  get size(): number {
    return this.#tickets - this.#freeTickets.length;
  }

  /**
   * A job of the table starts; answers its ticket. Type, tier, key, fleet and conflict key are numbers, or -1 for none;
   * `generation` is the ledgers'.
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
    if (ticket * INTS === this.#ints.length) {
      this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    const ints = this.#ints;
    const at = ticket * INTS;
    ints[at + JOB] = number;
    ints[at + TYPE] = type;
    ints[at + TIER] = tier;
    ints[at + KEY] = key;
    ints[at + FLEET] = fleet;
    ints[at + CONFLICT] = conflict;
    ints[at + GENERATION] = generation;
    this.#doubles[ticket * DOUBLES + CHARGED] = chargedMs;
    return ticket;
  }

  /** A job that runs has ended: its ticket is free. What is kept of the job can be asked for until the next one starts. */
  end(ticket: number): void {
    this.#ticketsById?.delete(this.#jobs.idOf(this.jobOf(ticket)));
    this.#ints[ticket * INTS + JOB] = NONE;
    this.#freeTickets.push(ticket);
  }

  /** The number of the job that runs with a ticket; -1 for none. */
  jobOf(ticket: number): number {
    return ticket >= 0 && ticket < this.#tickets ? (this.#ints[ticket * INTS + JOB] as number) : NONE;
  }

  typeOf(ticket: number): number {
    return this.#ints[ticket * INTS + TYPE] as number;
  }

  tierOf(ticket: number): number {
    return this.#ints[ticket * INTS + TIER] as number;
  }

  keyOf(ticket: number): number {
    return this.#ints[ticket * INTS + KEY] as number;
  }

  fleetOf(ticket: number): number {
    return this.#ints[ticket * INTS + FLEET] as number;
  }

  conflictOf(ticket: number): number {
    return this.#ints[ticket * INTS + CONFLICT] as number;
  }

  generationOf(ticket: number): number {
    return this.#ints[ticket * INTS + GENERATION] as number;
  }

  chargedMsOf(ticket: number): number {
    return this.#doubles[ticket * DOUBLES + CHARGED] as number;
  }

  /** The ticket of the job with this id, if it runs. */
  ticketOf(id: string): number | undefined {
    if (this.#ticketsById === undefined) {
      this.#ticketsById = new Map();
      for (const ticket of this.tickets()) this.#ticketsById.set(this.#jobs.idOf(this.jobOf(ticket)), ticket);
    }
    return this.#ticketsById.get(id);
  }

  /** The tickets of all that run. O(tickets ever in use at once). */
  *tickets(): Generator<number> {
    for (let ticket = 0; ticket < this.#tickets; ticket += 1) if (this.jobOf(ticket) !== NONE) yield ticket;
  }
}
