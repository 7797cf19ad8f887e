/**
 * Virtual time, which advances only when no more code can run now. Callbacks run one at a time, ordered by their time,
 * then by the order in which they were requested. So two runs that draw the same random numbers do the same.
 */
import type { Clock } from '../runtime/contract.ts';
import { TimeHeap } from '../runtime/time-heap.ts';

/** Why `run` ended. */
export type RunEnd = 'idle' | 'until' | 'steps';

/** A scheduled action. It is undefined once its waiter was aborted. */
interface Entry {
  action: (() => void) | undefined;
}

// The test runner's fake timers replace the global ones.
const immediately = setImmediate;

/** Resolves after every promise that can settle now has settled. */
export const allSettled = (): Promise<void> => new Promise((resolve) => immediately(resolve));

export class VirtualTime {
  /** Scheduled actions, by a time that leaves out skipped time. */
  readonly #agenda = new TimeHeap<Entry>();
  readonly #settled: () => Promise<void>;
  #passedMs: number;
  #skippedMs = 0;
  #steps = 0;

  /**
   * Begins at `nowMs`.
   * @param settled - resolves when no code can run any more before time goes on
   */
  constructor(nowMs: number, settled: () => Promise<void> = allSettled) {
    this.#passedMs = nowMs;
    this.#settled = settled;
  }

  /** Epoch milliseconds. */
  get nowMs(): number {
    return this.#passedMs + this.#skippedMs;
  }

  /** Returns how many actions have run. */
  get steps(): number {
    return this.#steps;
  }

  /** When the next action that is not aborted is due; undefined if there is none. */
  get nextAtMs(): number | undefined {
    for (;;) {
      const nextMs = this.#agenda.nextAtMs;
      if (nextMs === undefined) return undefined;
      if (this.#agenda.next?.action !== undefined) return nextMs + this.#skippedMs;
      this.#agenda.takeDue(nextMs);
    }
  }

  readonly after = (delayMs: number, action: () => void): void => {
    this.#add(delayMs, action);
  };

  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      let entry: Entry | undefined;
      const end = (): void => {
        if (entry !== undefined) entry.action = undefined;
        signal?.removeEventListener('abort', end);
        resolve();
      };
      signal?.addEventListener('abort', end);
      if (ms < Infinity) entry = this.#add(ms, end);
    });

  /** Returns a clock whose wall time differs from this time by `skewMs`. */
  clock(skewMs: () => number = () => 0): Clock {
    return { nowMs: () => this.nowMs + skewMs(), monotonicMs: () => this.#passedMs, sleep: this.sleep };
  }

  /**
   * Runs due actions in order, until none is left, the time is reached, or the steps are used up.
   *
   * @param limits - `untilMs`: time to which this clock is moved; `afterStep`: called between two steps; `isOver`: ends
   * the run when it returns true
   */
  async run(
    limits: {
      readonly untilMs?: number | undefined;
      readonly stepsMax?: number | undefined;
      readonly afterStep?: (() => void) | undefined;
      readonly isOver?: (() => boolean) | undefined;
    } = {},
  ): Promise<RunEnd> {
    const { untilMs = Infinity, stepsMax = Infinity, afterStep, isOver } = limits;
    await this.#settled();
    afterStep?.();
    for (let step = 0; step < stepsMax; step += 1) {
      if (isOver?.()) return 'until';
      const passedMs = this.#agenda.nextAtMs;
      const atMs = passedMs === undefined ? undefined : passedMs + this.#skippedMs;
      if (atMs === undefined || atMs > untilMs) {
        if (untilMs < Infinity) this.moveTo(untilMs);
        return atMs === undefined ? 'idle' : 'until';
      }
      this.moveTo(atMs);
      this.#agenda.takeDue(this.#passedMs)?.value.action?.();
      this.#steps += 1;
      await this.#settled();
      afterStep?.();
    }
    return 'steps';
  }

  /**
   * Waits until running code is idle, then runs the actions that are due by now, waiting after each.
   *
   * @param isSettled - running code is idle
   */
  async runDue(isSettled = false): Promise<void> {
    if (!isSettled) await this.#settled();
    for (let due = this.#takeDue(); due !== undefined; due = this.#takeDue()) {
      due();
      this.#steps += 1;
      await this.#settled();
    }
  }

  /** Moves time forward without running the actions in between, which then run late. */
  moveTo(atMs: number): void {
    this.#passedMs = Math.max(this.#passedMs, atMs - this.#skippedMs);
  }

  /** Jumps ahead by `ms`: everything scheduled happens that much later, and no monotonic clock shows it. */
  skip(ms: number): void {
    this.#skippedMs += ms;
  }

  #add(delayMs: number, action: () => void): Entry {
    const entry = { action };
    this.#agenda.add(this.#passedMs + Math.max(0, delayMs), entry);
    return entry;
  }

  #takeDue(): (() => void) | undefined {
    for (;;) {
      const due = this.#agenda.takeDue(this.#passedMs);
      if (due === undefined) return undefined;
      if (due.value.action !== undefined) return due.value.action;
    }
  }
}
