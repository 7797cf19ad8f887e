/**
 * Invariant 8, job by job: a job that may start all the time, because it is eligible and capacity for it is free, starts within
 * a bound that follows from the configuration.
 *
 * It is `starvationBoundMs` of a job that nothing goes before, less the time for which others could overtake it: where
 * capacity is free, nobody does. That is one hold, H. In the simulation hints are lost as well, so what it takes until a job is
 * seen that nobody was told of comes on top: `unseenMs`.
 *
 * `order.ts` says what may start. It is looked at now and then for all that waits, and at each commit for those that could start
 * at the last look: so a job whose capacity others take in the meantime is not taken for one that starves.
 */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';

export interface StarvationOptions {
  /** All that were declared so far: what runs keeps the terms of any of them. */
  readonly configurations: () => readonly PoolConfiguration[];
  readonly nowMs: () => number;
  /** Before that anything may fail. Infinity: always. */
  readonly fromMs: number;
  /** The longest until a job that nobody was told of is seen. */
  readonly unseenMs: number;
}

export class Starvation {
  readonly #options: StarvationOptions;
  /** By job: since when it may start. */
  readonly #sinceMs = new Map<string, number>();

  constructor(options: StarvationOptions) {
    this.#options = options;
  }

  /** The longest for which a job may wait beside capacity that is free. */
  get boundMs(): number {
    const { configurations, unseenMs } = this.#options;
    const types = configurations().flatMap((each) => each.types);
    return Math.max(0, ...types.map(({ timeoutMs }) => timeoutMs)) + unseenMs;
  }

  /** Looks at these jobs. Answers one that has starved. */
  look(ids: Iterable<string>, mayStart: (id: string) => boolean): string | undefined {
    this.lookAgain(mayStart);
    const nowMs = this.#options.nowMs();
    if (nowMs < this.#options.fromMs) return undefined;
    for (const id of ids) {
      if (this.#sinceMs.has(id) || !mayStart(id)) continue;
      this.#sinceMs.set(id, nowMs);
    }
    for (const [id, sinceMs] of this.#sinceMs)
      if (nowMs - sinceMs > this.boundMs)
        return `${id.slice(0, 12)} may start since ${nowMs - sinceMs} ms; the bound is ${this.boundMs} ms`;
    return undefined;
  }

  /** Looks again at those that could start at the last look. */
  lookAgain(mayStart: (id: string) => boolean): void {
    for (const id of this.#sinceMs.keys()) if (!mayStart(id)) this.#sinceMs.delete(id);
  }

  /** How many could start at the last look. */
  get suspects(): number {
    return this.#sinceMs.size;
  }
}
