/** Adapters that fail when a test says so. */
import { objectOf, readChoice } from '../core/read-fields.ts';
import type { LocalAdapters } from '../local/scheduler.ts';
import type { Clock } from '../runtime/contract.ts';

export interface CrashOptions {
  /**
   * `now`: at once. `end`: when the handler has ended, before its outcome is stored. Either way the job is tried again as
   * its type says, and what the handler did is done.
   * @default 'now'
   */
  readonly at?: 'now' | 'end' | undefined;
}

export const checkCrash = objectOf({
  at: (field, value) => void readChoice(field, value, ['now', 'end'], 'now'),
});

export class Faults {
  readonly #clock: Clock;
  /** Fleets whose next message is lost; undefined stands for any fleet. */
  readonly #lost: (string | undefined)[] = [];
  #latencyMs = 0;
  #slowUntilMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  loseMessage(fleet: string | undefined): void {
    this.#lost.push(fleet);
  }

  answerSlowly(latencyMs: number, lastsMs: number): void {
    this.#latencyMs = latencyMs;
    this.#slowUntilMs = this.#clock.monotonicMs() + lastsMs;
  }

  through({ store, queue }: LocalAdapters): LocalAdapters {
    return {
      store: this.#slow(store),
      queue: {
        ...queue,
        send: async (fleet, jobs, together) => {
          const at = this.#lost.findIndex((lost) => lost === undefined || lost === fleet);
          if (at === -1 || jobs.length === 0) return queue.send(fleet, jobs, together);
          this.#lost.splice(at, 1);
          return queue.send(fleet, jobs.slice(1), together);
        },
      },
    };
  }

  #slow<Store extends object>(store: Store): Store {
    const verbs = new Map<string | symbol, unknown>();
    return new Proxy(store, {
      get: (target, name) => {
        const known = verbs.get(name);
        if (known !== undefined) return known;
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== 'function') return method;
        const verb = async (...asked: readonly unknown[]): Promise<unknown> => {
          if (this.#clock.monotonicMs() < this.#slowUntilMs) await this.#clock.sleep(this.#latencyMs);
          return Reflect.apply(method, target, asked);
        };
        verbs.set(name, verb);
        return verb;
      },
    });
  }
}
