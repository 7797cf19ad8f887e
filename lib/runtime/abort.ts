/** Helpers that wait for the abort of a signal. */

/**
 * Resolves as the work does, or with undefined as soon as the signal aborts. The work continues then, and its result is
 * ignored.
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  // The listener is removed once the work is over. `Promise.race` with a promise of a long-lived signal would leak memory at each call.
  return new Promise((resolve, reject) => {
    const end = (): void => resolve(undefined);
    const settled = (): void => signal.removeEventListener('abort', end);
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    work.then(
      (value) => {
        settled();
        resolve(value);
      },
      (error: unknown) => {
        settled();
        reject(error as Error);
      },
    );
  });
}

/** Resolves when the signal aborts. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/**
 * Makes each read of the signal check the clock first. In a process that was paused and resumes, all timers fire late,
 * and a handler may run before the timer that should have aborted it.
 *
 * @param look - checks the clock, and aborts the signal if it is time
 */
function checkingFirst(signal: AbortSignal, look: () => void): void {
  const { prototype } = AbortSignal;
  Object.defineProperties(signal, {
    aborted: {
      get: () => {
        look();
        return Reflect.get(prototype, 'aborted', signal);
      },
    },
    throwIfAborted: {
      value: () => {
        look();
        prototype.throwIfAborted.call(signal);
      },
    },
  });
}

/**
 * An abort signal that is created on first use. Creating one costs more than most of the work of a short attempt, and
 * most handlers never use it.
 */
export class LazyAbort {
  readonly #check: () => void;
  #controller: AbortController | undefined;
  /** The reason of the first abort. */
  reason: Error | undefined;

  /** @param look - is called before each read of the signal, and aborts if it is time */
  constructor(look: () => void) {
    this.#check = look;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(this.reason);
      checkingFirst(this.#controller.signal, this.#check);
    }
    return this.#controller.signal;
  }

  abort(reason: Error): void {
    this.reason ??= reason;
    this.#controller?.abort(this.reason);
  }
}
