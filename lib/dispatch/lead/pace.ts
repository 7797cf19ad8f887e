/**
 * When the dispatcher that leads a partition makes its next pass, though it was told of nothing: to find jobs in their lines before the stream
 * tells of them. That is quicker than the stream for a few reads, and worth it only where much goes on.
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

/** How many a second, by a rate that is so old and what was counted since: a change is believed within seconds. */
export const rateAfter = (perSec: number, sinceMs: number, counted: number): number =>
  perSec * Math.exp(-sinceMs / RATE_OVER_MS) + (counted * 1_000) / RATE_OVER_MS;

export class Pace {
  readonly #clock: Clock;
  /** When the next pass may begin; what is behind that by more than the reserve is lost. */
  #nextAtMonotonicMs = -Infinity;
  #isFull = false;
  /** Jobs that passes have admitted lately, a second, those that they were told of, and when that was counted. */
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

  /** For so long no pass is made, whatever there is to do. */
  leftMs(): number {
    return this.#isFull ? 0 : Math.max(0, this.#nextAtMonotonicMs - this.#clock.monotonicMs());
  }

  /** Whether to look for jobs that no hint has told of yet: by the pass that is nearest to when it is due. */
  isTimeToRead(): boolean {
    const dueAtMonotonicMs = this.#readAtMonotonicMs + this.#readEveryMs - PACE_MS / 2;
    return !this.#isFull && this.#clock.monotonicMs() >= dueAtMonotonicMs;
  }

  /** Whether clients are to leave a letter for each job that they store: the stream tells of it later, and no pass looks before. */
  wantsLetters(): boolean {
    const isWorthIt = this.#rate < LETTER_RATE_MAX && this.#toldRate < 2 * LETTER_RATE_MAX;
    const readsSoon = this.#readEveryMs < Infinity && !this.#isBeginning();
    return !this.#isFull && !readsSoon && isWorthIt;
  }

  /** A pass begins, and reads all lines anew, or not. */
  begin(readsAnew: boolean): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const earliestMs = Math.max(this.#nextAtMonotonicMs, nowMonotonicMs - PACES_AHEAD * PACE_MS);
    // Passes that did not keep it, as where no slot was free, make the next one no later than one pace.
    this.#nextAtMonotonicMs = Math.min(earliestMs, nowMonotonicMs) + PACE_MS;
    if (readsAnew) this.#readAtMonotonicMs = nowMonotonicMs;
  }

  /** It has ended, and was told of so many jobs that wait. */
  end({ admitted, isFull, lines }: PassReport, told: number): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const sinceMs = nowMonotonicMs - this.#countedAtMonotonicMs;
    this.#countedAtMonotonicMs = nowMonotonicMs;
    this.#rate = rateAfter(this.#rate, sinceMs, admitted);
    this.#toldRate = rateAfter(this.#toldRate, sinceMs, told);
    this.#isFull = isFull;
    // Of a short time as much as it says.
    const rate = this.#rate / (1 - Math.exp(-(nowMonotonicMs - this.#startedAtMonotonicMs) / RATE_OVER_MS));
    const everyMs = this.#isBeginning() ? 0 : ((LINES_OF_A_PASS + lines) * 1_000) / (LINES_PER_JOB * rate);
    this.#readEveryMs = everyMs <= READ_WITHIN_MS ? Math.max(everyMs, PACE_MS) : Infinity;
  }

  /**
   * Within the first two paces of a lead it reads whatever it has found by then: the leader before it has just started what had come, so its first
   * passes say nothing of how much goes on.
   */
  #isBeginning(): boolean {
    return this.#clock.monotonicMs() < this.#startedAtMonotonicMs + 2 * PACE_MS;
  }
}
