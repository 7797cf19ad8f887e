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

  /** Aborts when the shutdown begins: from then on the worker takes no more jobs. */
  get begun(): AbortSignal {
    return this.#begun.signal;
  }

  /** Aborts when the worker has lost its lease: from then on no job may run here. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Aborts when the handlers that still run must stop. */
  get stopped(): AbortSignal {
    return this.#stopped.signal;
  }

  /** Aborts when the worker gives up storing the outcomes that it could not store so far. */
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
