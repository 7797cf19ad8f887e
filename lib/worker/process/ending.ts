/** The steps in which a worker process ends, each an abort signal. */

import { WorkerStoppedError } from '../errors.ts';
import type { LeaseLoss } from '../membership.ts';
import type { WorkerEnd } from './options.ts';

export class WorkerShutdown {
  #why: WorkerEnd | undefined;
  readonly #begun = new AbortController();
  readonly #lost = new AbortController();
  readonly #stopped = new AbortController();
  readonly #over = new AbortController();

  /** The worker takes no more jobs. */
  get begun(): AbortSignal {
    return this.#begun.signal;
  }

  /** The lease is lost: no job may run here any longer. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Handlers are told to stop. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Outcomes that could not be stored so far are given up. */
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

  lose(loss: LeaseLoss): void {
    // A lost lease overrides any earlier reason.
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
