/** How the life of a worker process ends: what begins no more, what is told to stop, and what is given up. */

import { WorkerStoppedError } from '../errors.ts';
import type { Loss } from '../membership.ts';
import type { WorkerEnd } from './options.ts';

export class Ending {
  #why: WorkerEnd | undefined;
  readonly #begun = new AbortController();
  readonly #lost = new AbortController();
  readonly #stopped = new AbortController();
  readonly #over = new AbortController();

  /** Nothing new is begun. */
  get begun(): AbortSignal {
    return this.#begun.signal;
  }

  /** Nobody may run any longer. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Handlers are told to stop. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** What was done, and could not be written down so far, is given up. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  get why(): WorkerEnd | undefined {
    return this.#why;
  }

  begin(why: WorkerEnd): void {
    this.#why ??= why;
    this.#begun.abort();
  }

  lose(loss: Loss): void {
    // Worse than whatever ended it so far.
    this.#why = loss;
    this.#lost.abort();
    this.#begun.abort();
    this.#stopped.abort(new WorkerStoppedError(`the worker lost its lease (${loss})`, { isLoss: true }));
  }

  stop(): void {
    this.#stopped.abort(new WorkerStoppedError('the worker is shut down'));
  }

  giveUp(): void {
    this.#over.abort();
  }
}
