/** One life of a worker in this process. It can vanish or stand still as a process of its own would. */
import type { Clock } from '../runtime/contract.ts';

/** A promise that never resolves. */
export const NEVER = new Promise<never>(() => {});

export class Incarnation {
  isOver = false;
  readonly #clock: Clock;
  readonly #end = new AbortController();
  #heldUntilMs = 0;
  /** Aborts when the worker vanishes. */
  readonly signal: AbortSignal = this.#end.signal;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the worker without notice, as a crash does: it makes no call any more, and no call of it returns. */
  vanish(): void {
    this.isOver = true;
    this.#end.abort();
  }

  /** Lets the worker stand still: its calls and timers end after that time at the earliest. */
  freeze(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, this.#clock.monotonicMs() + ms);
  }

  /** Whether the worker stands still. */
  get isHeld(): boolean {
    return this.#heldUntilMs > this.#clock.monotonicMs();
  }

  /** Resolves with the answer, or never if the worker has vanished. */
  async ifAlive<T>(answer: T): Promise<T> {
    while (!this.isOver && this.isHeld)
      await this.#clock.sleep(this.#heldUntilMs - this.#clock.monotonicMs(), this.signal);
    return this.isOver ? NEVER : answer;
  }

  /** Returns a clock whose sleeps do not end while the worker stands still. */
  clockOf(clock: Clock): Clock {
    return {
      nowMs: clock.nowMs,
      monotonicMs: clock.monotonicMs,
      sleep: async (ms, signal) => this.ifAlive(await clock.sleep(ms, signal)),
    };
  }

  /** Returns the adapter as this process calls it: no call returns after the worker has vanished. */
  through<Adapter extends object>(adapter: Adapter): Adapter {
    return new Proxy(adapter, {
      get: (target, name) => {
        const verb: unknown = Reflect.get(target, name, target);
        if (typeof verb !== 'function') return verb;
        return async (...question: readonly unknown[]): Promise<unknown> => {
          await this.ifAlive(undefined);
          return this.ifAlive(await Reflect.apply(verb, target, question));
        };
      },
    });
  }
}
