/** Runs a local scheduler in real time, or faster. */
import type { Clock } from '../runtime/contract.ts';
import type { After } from '../store/memory/imitation/imitation.ts';

/** Real time, passing so many times as fast. */
export class LiveTime {
  readonly #speed: number;
  readonly #startWallMs: number;
  readonly #startMs = performance.now();
  readonly #timers = new Set<NodeJS.Timeout>();

  /** @param fromMs - the time to begin with, if this machine's is earlier */
  constructor(speed: number, fromMs = 0) {
    this.#speed = speed;
    this.#startWallMs = Math.max(Date.now(), fromMs);
  }

  readonly #passedMs = (): number => (performance.now() - this.#startMs) * this.#speed;

  readonly after: After = (delayMs, action) => {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        action();
      },
      Math.min(delayMs / this.#speed, TIMER_MAX_MS),
    );
    this.#timers.add(timer);
  };

  readonly clock: Clock = {
    nowMs: () => Math.round(this.#startWallMs + this.#passedMs()),
    monotonicMs: this.#passedMs,
    sleep: (ms, signal) =>
      new Promise((done) => {
        if (signal?.aborted) return done();
        const end = (): void => {
          clearTimeout(timer);
          this.#timers.delete(timer);
          signal?.removeEventListener('abort', end);
          done();
        };
        const timer = setTimeout(end, Math.min(ms / this.#speed, TIMER_MAX_MS));
        this.#timers.add(timer);
        signal?.addEventListener('abort', end);
      }),
  };

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }
}

// The longest sleep of one timer, because Node's timers take 31 bits.
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Calls `step` until it has nothing to do, whenever something has come. */
export class Pump {
  readonly #step: () => Promise<boolean>;
  readonly #onFailure: (error: unknown) => void;
  #isRunning = false;
  #hasCome = false;

  constructor(step: () => Promise<boolean>, onFailure: (error: unknown) => void) {
    this.#step = step;
    this.#onFailure = onFailure;
  }

  readonly notify = (): void => {
    this.#hasCome = true;
    if (this.#isRunning) return;
    this.#isRunning = true;
    setImmediate(() => void this.#run());
  };

  async #run(): Promise<void> {
    try {
      while (this.#hasCome) {
        this.#hasCome = false;
        // One round takes everything that comes while the round before it runs.
        while (await this.#step()) await new Promise((done) => setImmediate(done));
      }
    } catch (error) {
      this.#onFailure(error);
    } finally {
      this.#isRunning = false;
      if (this.#hasCome) this.notify();
    }
  }
}
