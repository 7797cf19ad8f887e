/** The options and abort signals of the client's calls. */

import { checked } from './arguments.ts';
import { AbortError } from './errors.ts';

export interface CallOptions {
  /** Ends the call with an `AbortError`. */
  readonly signal?: AbortSignal | undefined;
}

/** The checked options; an empty object if none were given. */
export function optionsOf<Shape extends Parameters<typeof checked>[0]>(
  shape: Shape,
  options: unknown,
): NonNullable<ReturnType<typeof checked<Shape>>> {
  return (checked(shape, options, 'options') ?? {}) as NonNullable<ReturnType<typeof checked<Shape>>>;
}

/** Whether a call only reads or may change something, which decides what its `AbortError` says. */
export type CallKind = 'look' | 'change';

const aborted = (signal: AbortSignal, doing: CallKind): AbortError =>
  new AbortError(signal.reason, { mayHaveChanged: doing === 'change' });

export function stopIfAborted(signal: AbortSignal | undefined, doing: CallKind = 'look'): void {
  if (signal?.aborted === true) throw aborted(signal, doing);
}

/**
 * Runs the work, and throws an `AbortError` if the signal aborts first. Under an aborted signal the work does not
 * begin.
 */
export async function withSignal<Value>(
  signal: AbortSignal | undefined,
  work: () => Promise<Value>,
  doing: CallKind = 'change',
): Promise<Value> {
  stopIfAborted(signal, doing);
  if (signal === undefined) return work();
  const ended = Promise.withResolvers<never>();
  const onAbort = (): void => ended.reject(aborted(signal, doing));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(), ended.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export async function* eachWithSignal<Value>(
  signal: AbortSignal | undefined,
  values: AsyncGenerator<Value>,
  doing: CallKind = 'look',
): AsyncGenerator<Value> {
  for (;;) {
    const next = await withSignal(signal, () => values.next(), doing);
    if (next.done === true) return;
    yield next.value;
  }
}
