/** The bus in memory. It imitates the difficult behaviour of EventBridge. */
import type { EventBus, OutcomeEvent, Unpublished } from '../contract.ts';

/** Chances are from 0 to 1. Times are upper bounds, of which each event draws its own. Everything is off by default. */
export interface BusImitation {
  readonly duplicated?: number | undefined;
  readonly lateMs?: number | undefined;
  /** The chance that an event of a batch is not accepted. */
  readonly rejected?: number | undefined;
  /** Chance that an event is accepted, but reported as not accepted. */
  readonly unanswered?: number | undefined;
}

export interface MemoryBusOptions {
  /** Returns a number evenly distributed in [0, 1). */
  readonly random: () => number;
  /** Runs an action later: a timer, or a simulation's agenda. Without it, events are delivered at once. */
  readonly after?: ((delayMs: number, action: () => void) => void) | undefined;
  readonly imitate?: BusImitation | undefined;
  /** Called for each imitated difficulty that occurs. */
  readonly imitated?: ((what: keyof BusImitation) => void) | undefined;
}

export class MemoryEventBus implements EventBus {
  readonly #options: MemoryBusOptions;
  readonly #imitate: BusImitation;
  readonly #listeners = new Set<(event: OutcomeEvent) => void>();

  constructor(options: MemoryBusOptions) {
    this.#options = options;
    this.#imitate = options.imitate ?? {};
  }

  async publish(events: readonly OutcomeEvent[]): Promise<readonly Unpublished[]> {
    await undefined;
    return events
      .filter((event) => {
        if (this.#happens('rejected')) return true;
        this.#deliver(event);
        if (this.#happens('duplicated')) this.#deliver(event);
        return this.#happens('unanswered');
      })
      .map((event) => ({ event }));
  }

  /**
   * Calls the listener for each event on the bus.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (event: OutcomeEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #happens(what: keyof BusImitation): boolean {
    const chance = this.#imitate[what];
    if (chance === undefined || chance <= 0 || this.#options.random() >= chance) return false;
    this.#options.imitated?.(what);
    return true;
  }

  #deliver(event: OutcomeEvent): void {
    const after = this.#options.after ?? ((_delayMs, action) => queueMicrotask(action));
    const delayMs = this.#options.random() * (this.#imitate.lateMs ?? 0);
    for (const listener of this.#listeners) {
      after(delayMs, () => {
        if (this.#listeners.has(listener)) listener(event);
      });
    }
  }
}
