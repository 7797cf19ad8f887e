/** Waiting that an abort ends. */

/** What the work answers, or undefined as soon as the signal aborts; the work goes on, and nobody hears of it. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  // Listens itself: a race against one long-lived promise would keep every round's memory.
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
export const abortOf = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/**
 * Makes whoever looks at the signal look at the clock first. A process that was stopped and goes on finds all its timers
 * late at once: a handler may get its turn before the timer that would have told it to stop.
 *
 * @param look - aborts the signal if it is time
 */
function lookingFirst(signal: AbortSignal, look: () => void): void {
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
 * A signal that is made when it is first asked for: to make one costs more than most of what a short attempt does, and most
 * handlers never look at it.
 */
export class LazyAbort {
  readonly #look: () => void;
  #controller: AbortController | undefined;
  /** Of the first abort. */
  reason: Error | undefined;

  /** @param look - is called before the signal is looked at, and aborts if it is time */
  constructor(look: () => void) {
    this.#look = look;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== undefined) this.#controller.abort(this.reason);
      lookingFirst(this.#controller.signal, this.#look);
    }
    return this.#controller.signal;
  }

  abort(reason: Error): void {
    this.reason ??= reason;
    this.#controller?.abort(this.reason);
  }
}
