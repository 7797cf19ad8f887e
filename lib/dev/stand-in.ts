/**
 * The replacement, in a user's module, of `fairlead/worker` and `fairlead/fleet-worker` under `fairlead dev`: the same functions,
 * which run nothing and load no AWS SDK. The development server finds the handlers in what they return.
 */
import { type ReadHandling, readHandling } from '../worker/handlers.ts';
import { WORKER_CHECKS } from '../worker/process/options.ts';

export {
  AttemptError,
  CooldownError,
  cooldownFrom,
  PermanentError,
  RetryAfterError,
  WorkerStoppedError,
} from '../worker/errors.ts';
export { fromSqsHandler } from '../worker/sqs-handler.ts';

// These are known by their names, because a user's module may have another copy of this one.
const HANDLING = Symbol.for('fairlead/dev/handling');
const PROCESSES = Symbol.for('fairlead/dev/processes');
type Global = { [PROCESSES]?: ReadHandling<object>[] };

/** Handlers of worker processes, which start when their module is loaded. */
export function startedProcesses(): ReadHandling<object>[] {
  const known = globalThis as Global;
  known[PROCESSES] ??= [];
  return known[PROCESSES];
}

export function worker(given: unknown, ...rest: readonly unknown[]): () => never {
  const handler = (): never => {
    throw new TypeError('fairlead dev calls the handlers, and not the function around them');
  };
  return Object.assign(handler, { [HANDLING]: readHandling(given, rest) });
}

export async function runFleetWorker(given: unknown, ...rest: readonly unknown[]): Promise<never> {
  startedProcesses().push(readHandling(given, rest, WORKER_CHECKS));
  return new Promise<never>(() => {});
}

/** Returns the handlers of a worker; undefined if the value is none. */
export const handlingOf = (value: unknown): ReadHandling<object> | undefined =>
  typeof value === 'function'
    ? (value as { readonly [HANDLING]?: ReadHandling<object> })[HANDLING]
    : undefined;
