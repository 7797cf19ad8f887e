/**
 * Decides when a leader makes its next pass although no hint has arrived: to find jobs in their lines before the stream reports
 * them. Such a pass costs a few reads and saves the stream's delay, so it pays only in a busy partition. `lead.ts` asks it before
 * and after each pass.
 */
import type { Clock } from '../../runtime/contract.ts';
import type { PassReport } from '../pass/scope.ts';

/** Passes follow each other no closer than this where slots are free: each takes what has come since, for one commit and one send. */
const PACE_MS = 170;
/** After a time without, so many may: where little goes on, a job starts at once. */
const RESERVE = 3;

/** Lines that are read for each job that is found in them, six read units, */
const LINES_PER_JOB = 12;
/** and as how many lines whatever else a pass reads counts. */
const LINES_OF_A_PASS = 16;
/** By then the stream has told of it. */
const READ_WITHIN_MS = 400;
/** How long it takes until a change of what goes on is believed, and by how much less than that a beginning. */
const RATE_OVER_MS = 2_000;
const BEGINNING_SHARE = 0.15;

/**
 * Where lines are not read for what is new, a letter of each job is worth its write unit as long as so few start in a second, of so few that
 * come: a letter tells of each of these, and the stream does.
 */
const LETTER_RATE_MOST = { started: 40, told: 80 } as const;

/** The new rate per second, from a rate measured `sinceMs` ago and the jobs counted since. It follows a change within seconds. */
export const rateAfter = (perSec: number, sinceMs: number, counted: number): number =>
  perSec * Math.exp(-sinceMs / RATE_OVER_MS) + (counted * 1_000) / RATE_OVER_MS;

export class Pace {
  readonly #clock: Clock;
  /** When the next pass may begin. Unused time accumulates up to the reserve only. */
  #nextAtMonotonicMs = -Infinity;
  #isFull = false;
  /** Jobs per second that passes have admitted lately, and that hints have reported; both as of `#countedAtMonotonicMs`. */
  #rate = 0;
  #toldRate = 0;
  readonly #startedAtMonotonicMs: number;
  #countedAtMonotonicMs: number;
  #readAtMonotonicMs = -Infinity;
  #readEveryMs = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAtMonotonicMs = clock.monotonicMs();
    this.#countedAtMonotonicMs = this.#startedAtMonotonicMs;
  }

  /** How long to wait before the next pass, even if there is work. */
  leftMs(): number {
    return this.#isFull ? 0 : Math.max(0, this.#nextAtMonotonicMs - this.#clock.monotonicMs());
  }

  /** Whether the next pass should look for jobs that no hint has reported yet. The pass nearest to the due time does so. */
  isTimeToRead(): boolean {
    const dueAtMonotonicMs = this.#readAtMonotonicMs + this.#readEveryMs - PACE_MS / 2;
    return !this.#isFull && this.#clock.monotonicMs() >= dueAtMonotonicMs;
  }

  /**
   * Whether clients should leave a letter for each job that they store: at a low rate of jobs, if no pass reads lines before the
   * stream reports the jobs.
   */
  wantsLetters(): boolean {
    const { started, told } = LETTER_RATE_MOST;
    const isWorthIt = this.#rate < started && this.#toldRate < told;
    return !this.#isFull && this.#readEveryMs === Infinity && isWorthIt;
  }

  /** Notes that a pass begins, and whether it reads all lines again. */
  begin(readsAnew: boolean): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const earliestMs = Math.max(this.#nextAtMonotonicMs, nowMonotonicMs - RESERVE * PACE_MS);
    // Without free slots passes do not wait. They postpone the next pass by one interval at most.
    this.#nextAtMonotonicMs = Math.min(earliestMs, nowMonotonicMs) + PACE_MS;
    if (readsAnew) this.#readAtMonotonicMs = nowMonotonicMs;
  }

  /** Notes that the pass has ended. `told`: jobs that hints reported to it. */
  end({ admitted, isFull, lines }: PassReport, told: number): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const sinceMs = nowMonotonicMs - this.#countedAtMonotonicMs;
    this.#countedAtMonotonicMs = nowMonotonicMs;
    this.#rate = rateAfter(this.#rate, sinceMs, admitted);
    this.#toldRate = rateAfter(this.#toldRate, sinceMs, told);
    this.#isFull = isFull;
    // After a short time the measured rate is a part of the true one, so it is scaled up.
    const share = 1 - Math.exp(-(nowMonotonicMs - this.#startedAtMonotonicMs) / RATE_OVER_MS);
    const rate = this.#rate / Math.max(share, BEGINNING_SHARE);
    const everyMs = ((LINES_OF_A_PASS + lines) * 1_000) / (LINES_PER_JOB * rate);
    this.#readEveryMs = everyMs <= READ_WITHIN_MS ? Math.max(everyMs, PACE_MS) : Infinity;
  }
}
