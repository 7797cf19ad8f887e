/** How an example says why it ended. */
import {
  EnvironmentError,
  MisconfiguredError,
  RefusedError,
  ThrottledError,
  UnavailableError,
} from '../lib/core/errors.ts';
import { DeployError } from './deploy.ts';

const EXPECTED = [
  EnvironmentError,
  DeployError,
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
