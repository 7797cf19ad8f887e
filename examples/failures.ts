/** How an example says why it ended. */
import {
  StoreMisconfigured,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../lib/store/contract/errors.ts';
import { EmulatorError } from '../lib/testing/emulator.ts';
import { DeployError } from './deploy.ts';

const EXPECTED = [
  EmulatorError,
  DeployError,
  StoreMisconfigured,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
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
