/** What the client's calls have in common: their options, and the signals that end them. */

import { checked } from './arguments.ts';
import { AbortError } from './errors.ts';

export interface CallOptions {
  /** Ends the wait for an answer with `AbortError`. */
  readonly signal?: AbortSignal | undefined;
}

/** Options, none if there are none. */
export function optionsOf<Shape extends Parameters<typeof checked>[0]>(
  shape: Shape,
  options: unknown,
): NonNullable<ReturnType<typeof checked<Shape>>> {
  return (checked(shape, options, 'options') ?? {}) as NonNullable<ReturnType<typeof checked<Shape>>>;
}

export function stopIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new AbortError(signal.reason);
}

/** Waits for the work, but not longer than the signal allows. Nothing is begun under a signal that is aborted. */
export async function within<Value>(
  signal: AbortSignal | undefined,
  work: () => Promise<Value>,
): Promise<Value> {
  stopIfAborted(signal);
  if (signal === undefined) return work();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(new AbortError(signal.reason));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(), aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export async function* eachWithin<Value>(
  signal: AbortSignal | undefined,
  values: AsyncGenerator<Value>,
): AsyncGenerator<Value> {
  for (;;) {
    const next = await within(signal, () => values.next());
    if (next.done === true) return;
    yield next.value;
  }
}
