/** How an example says why it ended. */
import {
  EnvironmentError,
  MisconfiguredError,
  RefusedError,
  ThrottledError,
  UnavailableError,
} from '../lib/core/errors.ts';

/** Nothing moves any more. */
export class StalledError extends Error {
  override readonly name = 'StalledError';
}

const EXPECTED = [
  EnvironmentError,
  StalledError,
  MisconfiguredError,
  RefusedError,
  ThrottledError,
  UnavailableError,
];

/**
 * One line for what can be expected; of anything else the stack is worth seeing.
 * @param own - errors of the example itself whose messages say enough
 */
export function wordsOf(
  error: unknown,
  own: readonly (abstract new (...args: never) => Error)[] = [],
): string {
  if (!(error instanceof Error)) return String(error);
  const isExpected = [...EXPECTED, ...own].some((kind) => error instanceof kind) || 'code' in error;
  return isExpected ? error.message : (error.stack ?? error.message);
}
