/**
 * Time that passes only when nothing else is left to do. Async code runs in one thread, in the order of its instants
 * and, at one instant, in the order it asked; so two runs that draw the same numbers do the same.
 */
import type { Clock } from '../../lib/runtime/contract.ts';
import { TimeHeap } from '../../lib/store/memory/time-heap.ts';

/** Why `run` ended. */
export type RunEnd = 'idle' | 'until' | 'steps';

// Runs after every promise that can settle has settled.
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class VirtualTime {
  readonly #agenda = new TimeHeap<() => void>();
  #nowMs: number;
  #steps = 0;

  constructor(nowMs: number) {
    this.#nowMs = nowMs;
  }

  /** Epoch milliseconds. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** Actions taken so far. */
  get steps(): number {
    return this.#steps;
  }

  readonly after = (delayMs: number, action: () => void): void => {
    this.#agenda.add(this.#nowMs + Math.max(0, delayMs), action);
  };

  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      let isOver = false;
      const end = (): void => {
        if (isOver) return;
        isOver = true;
        signal?.removeEventListener('abort', end);
        resolve();
      };
      signal?.addEventListener('abort', end);
      if (ms < Infinity) this.after(ms, end);
    });

  /** A clock that runs ahead of this time, or behind it. */
  clock(skewMs: () => number = () => 0): Clock {
    return { nowMs: () => this.#nowMs + skewMs(), monotonicMs: () => this.#nowMs, sleep: this.sleep };
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
      const atMs = this.#agenda.nextAtMs;
      if (atMs === undefined || atMs > untilMs) {
        if (untilMs < Infinity) this.#nowMs = Math.max(this.#nowMs, untilMs);
        return atMs === undefined ? 'idle' : 'until';
      }
      this.#nowMs = Math.max(this.#nowMs, atMs);
      this.#agenda.takeDue(this.#nowMs)?.value();
      this.#steps += 1;
      await settled();
      afterStep?.();
    }
    return 'steps';
  }
}
