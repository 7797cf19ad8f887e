/**
 * When the dispatcher that leads a partition makes its next pass, though it was told of nothing: to find jobs in their lines before the stream
 * tells of them. That is quicker than the stream for a few reads, and worth it only where much goes on.
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
/** How long it takes until a change of what goes on is believed. */
const RATE_OVER_MS = 2_000;

/**
 * Where lines are not read for what is new, a letter of each job is worth its write unit as long as so few start in a second, of so few that
 * come: a letter tells of each of these, and the stream does.
 */
const LETTER_RATE_MOST = { started: 40, told: 80 } as const;

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
    const { started, told } = LETTER_RATE_MOST;
    const isWorthIt = this.#rate < started && this.#toldRate < told;
    const readsSoon = this.#readEveryMs < Infinity && !this.#isBeginning();
    return !this.#isFull && !readsSoon && isWorthIt;
  }

  /** A pass begins, and reads all lines anew, or not. */
  begin(readsAnew: boolean): void {
    const nowMonotonicMs = this.#clock.monotonicMs();
    const earliestMs = Math.max(this.#nextAtMonotonicMs, nowMonotonicMs - RESERVE * PACE_MS);
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
   * Within the first pace of a lead it reads whatever it has found by then: the leader before it has just started what had come, so its first
   * passes say nothing of how much goes on.
   */
  #isBeginning(): boolean {
    return this.#clock.monotonicMs() < this.#startedAtMonotonicMs + PACE_MS;
  }
}
