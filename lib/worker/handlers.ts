/**
 * Checks a worker author's handlers when the worker is created, so that mistakes show before the first job arrives.
 */
import { ConfigurationError } from '../core/errors.ts';
import { type Check, isFunction, objectOf } from '../core/read-fields.ts';
import type { JobHandlers } from './run-job.ts';

/**
 * A copy of the handlers by job type, without those that are undefined.
 *
 * @throws ConfigurationError - there is no handler, or one is not a function
 */
export function readHandlers(given: unknown): JobHandlers {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const handlers = isObject
    ? Object.fromEntries(Object.entries(given).filter(([, each]) => each !== undefined))
    : given;
  objectOf(functionChecks(handlers))('handlers', handlers);
  if (Object.keys(handlers as object).length > 0) return handlers as JobHandlers;
  throw new ConfigurationError(
    'handlers',
    handlers,
    'is empty',
    'Give a function for each job type, such as { resize: async (payload) => … }.',
  );
}

const functionChecks = (handlers: unknown): Readonly<Record<string, Check>> =>
  typeof handlers === 'object' && handlers !== null
    ? Object.fromEntries(Object.keys(handlers).map((type) => [type, isFunction]))
    : {};
