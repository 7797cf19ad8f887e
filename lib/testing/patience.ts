/**
 * Keeps virtual time still while a handler waits for something real, such as a file or a local server: time goes on once every
 * handler has ended or sleeps in virtual time.
 */
import { getEventListeners } from 'node:events';
import { allSettled } from '../local/virtual-time.ts';
import type { KnownAttempt } from './attempts.ts';

// The test runner's fake timers replace the global ones.
const later = setTimeout;
const realNowMs = performance.now.bind(performance);

/** How often the kit looks without a wait, before it begins to wait for a real millisecond at a time. */
const LOOKS_AT_ONCE = 20;
/** How many listeners of the attempt's signal belong to the kit. */
const OWN_LISTENERS = 1;

export class Patience {
  readonly #patienceMs: number;
  /** The attempts whose handlers run code, or wait for something that is not virtual time. */
  readonly #awake = new Set<KnownAttempt>();
  readonly #onStuck: (attempt: KnownAttempt) => void;

  /** @param onStuck - called with an attempt that has waited for something real for longer than the patience */
  constructor(patienceMs: number, onStuck: (attempt: KnownAttempt) => void) {
    this.#patienceMs = patienceMs;
    this.#onStuck = onStuck;
  }

  /** Notes that the attempt runs code. */
  wake(attempt: KnownAttempt): void {
    if (attempt.isRunning && attempt.sleeps === 0) this.#awake.add(attempt);
  }

  /** Notes that the attempt has ended, or sleeps in virtual time. */
  rest(attempt: KnownAttempt): void {
    this.#awake.delete(attempt);
  }

  readonly settled = async (): Promise<void> => {
    await allSettled();
    if (this.#awake.size === 0) return;
    const untilMs = realNowMs() + this.#patienceMs;
    for (let looks = 0; this.#awake.size > 0; looks += 1) {
      if (looks < LOOKS_AT_ONCE) await allSettled();
      else await new Promise((resolve) => later(resolve, 1));
      if (realNowMs() >= untilMs) this.#giveUp();
    }
  };

  #giveUp(): void {
    for (const attempt of this.#awake) {
      this.#awake.delete(attempt);
      // A handler that waits for its signal waits for virtual time.
      const { signal } = attempt.context;
      if (getEventListeners(signal, 'abort').length <= OWN_LISTENERS) this.#onStuck(attempt);
    }
  }
}
