/**
 * Time that passes only when nothing else is left to do. Async code runs in one thread, in the order of its instants
 * and, at one instant, in the order it asked; so two runs that draw the same numbers do the same.
 */
import type { Clock } from '../runtime/contract.ts';
import { TimeHeap } from '../runtime/time-heap.ts';

/** Why `run` ended. */
export type RunEnd = 'idle' | 'until' | 'steps';

/** Something to do later; without an action once nobody waits for it any more. */
interface Entry {
  action: (() => void) | undefined;
}

// Runs after every promise that can settle has settled.
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class VirtualTime {
  /** By the time that has passed without what was skipped. */
  readonly #agenda = new TimeHeap<Entry>();
  #passedMs: number;
  #skippedMs = 0;
  #steps = 0;

  constructor(nowMs: number) {
    this.#passedMs = nowMs;
  }

  /** Epoch milliseconds. */
  get nowMs(): number {
    return this.#passedMs + this.#skippedMs;
  }

  /** Actions taken so far. */
  get steps(): number {
    return this.#steps;
  }

  /** When something happens next that somebody still waits for; undefined if nothing does. */
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

  /** A clock that runs ahead of this time, or behind it. */
  clock(skewMs: () => number = () => 0): Clock {
    return { nowMs: () => this.nowMs + skewMs(), monotonicMs: () => this.#passedMs, sleep: this.sleep };
  }

  /**
   * Runs what is due, in order, until nothing is left, the time is up, or the steps are used up.
   *
   * @param limits - `untilMs`: an instant, to which time is moved on; `afterStep`: sees the state between two steps
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
    await settled();
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
      await settled();
      afterStep?.();
    }
    return 'steps';
  }

  /** Waits for what goes on, then does what is due by now, one after the other, each to its end. */
  async runDue(): Promise<void> {
    await settled();
    for (let due = this.#takeDue(); due !== undefined; due = this.#takeDue()) {
      due();
      this.#steps += 1;
      await settled();
    }
  }

  /** Moves time on. What would have happened in between is late. */
  moveTo(atMs: number): void {
    this.#passedMs = Math.max(this.#passedMs, atMs - this.#skippedMs);
  }

  /** Leaves out so much of the time: whatever is to happen happens so much later, and no monotonic clock shows it. */
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
