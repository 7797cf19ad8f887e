/**
 * Decides when a leader makes its next pass although no hint has arrived: to find jobs in their lines before the stream reports
 * them. Such a pass costs a few reads and saves the stream's delay, so it pays only in a busy partition. `lead.ts` asks it before
 * and after each pass.
 */
import type { Clock } from '../../runtime/contract.ts';
import type { PassReport } from '../pass/scope.ts';
import {
  LETTER_RATE_MAX,
  LINES_OF_A_PASS,
  LINES_PER_JOB,
  PACE_MS,
  PACES_AHEAD,
  RATE_OVER_MS,
  READ_WITHIN_MS,
} from '../tuning.ts';

/**
 * Returns the new rate per second, from a rate measured `sinceMs` ago and the jobs counted since then. It follows a
 * change within seconds.
 */
export const rateAfter = (perSec: number, sinceMs: number, counted: number): number =>
  perSec * Math.exp(-sinceMs / RATE_OVER_MS) + (counted * 1_000) / RATE_OVER_MS;

export class Pace {
  readonly #clock: Clock;
  /** When the next pass may begin. If passes come seldom, up to `PACES_AHEAD` of them may follow each other at once. */
  #nextAtMonotonicMs = -Infinity;
  #isFull = false;
  /** Jobs per second that passes have admitted lately, and that hints have reported; both as of `#countedAtMonotonicMs`. */
  #rate = 0;
  #toldRate = 0;
  readonly #startedAtMonotonicMs: number;
  #countedAtMonotonicMs: number;
  #readAtMonotonicMs = -Infinity;
  #readEveryMs = PACE_MS;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAtMonotonicMs = clock.monotonicMs();
    this.#countedAtMonotonicMs = this.#startedAtMonotonicMs;
  }

  /** Returns how many milliseconds the next pass must wait, even if there is work. */
  leftMs(): number {
    return this.#isFull ? 0 : Math.max(0, this.#nextAtMonotonicMs - this.#clock.monotonicMs());
  }

  /**
   * Whether the next pass should read lines for jobs that no hint has reported yet. If no pass comes exactly when that
   * is due, the nearest one does it.
   */
  isTimeToRead(): boolean {
    const dueAtMonotonicMs = this.#readAtMonotonicMs + this.#readEveryMs - PACE_MS / 2;
    return !this.#isFull && this.#clock.monotonicMs() >= dueAtMonotonicMs;
  }

  /**
   * Whether clients should leave a letter for each job that they store. That is so while few jobs come, if no pass
   * reads the lines before the stream reports the jobs.
   */
  wantsLetters(): boolean {
    const isWorthIt = this.#rate < LETTER_RATE_MAX && this.#toldRate < 2 * LETTER_RATE_MAX;
    const readsSoon = this.#readEveryMs < Infinity && !this.#isBeginning();
    return !this.#isFull && !readsSoon && isWorthIt;
  }

  /** Notes that a pass begins, and whether it reads all lines again. */
  begin(readsAnew: boolean): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const earliestMs = Math.max(this.#nextAtMonotonicMs, nowMonotonicMs - PACES_AHEAD * PACE_MS);
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
    const rate = this.#rate / (1 - Math.exp(-(nowMonotonicMs - this.#startedAtMonotonicMs) / RATE_OVER_MS));
    const everyMs = this.#isBeginning() ? 0 : ((LINES_OF_A_PASS + lines) * 1_000) / (LINES_PER_JOB * rate);
    this.#readEveryMs = everyMs <= READ_WITHIN_MS ? Math.max(everyMs, PACE_MS) : Infinity;
  }

  /**
   * Whether the lead is younger than two paces. A young lead reads its lines in every pass: the leader before it has just started
   * the waiting jobs, so its first passes do not show how many jobs come.
   */
  #isBeginning(): boolean {
    return this.#clock.monotonicMs() < this.#startedAtMonotonicMs + 2 * PACE_MS;
  }
}
