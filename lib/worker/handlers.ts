/** What a worker author gives: read once, when the worker is made, so that what is wrong is said before any job comes. */
import { ConfigurationError } from '../core/errors.ts';
import { type Check, isFunction, objectOf } from '../core/read-fields.ts';
import type { JobHandlers } from './run-job.ts';

/**
 * The handlers by their types, as they are now.
 *
 * @throws ConfigurationError - there are none, or one is no function
 */
export function readHandlers(given: unknown): JobHandlers {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const handlers = isObject
    ? Object.fromEntries(Object.entries(given).filter(([, each]) => each !== undefined))
    : given;
  objectOf(everyFunction(handlers))('handlers', handlers);
  if (Object.keys(handlers as object).length > 0) return handlers as JobHandlers;
  throw new ConfigurationError(
    'handlers',
    handlers,
    'is empty',
    'Give a function for each job type, such as { resize: async (payload) => … }.',
  );
}

const everyFunction = (handlers: unknown): Readonly<Record<string, Check>> =>
  typeof handlers === 'object' && handlers !== null
    ? Object.fromEntries(Object.keys(handlers).map((type) => [type, isFunction]))
    : {};
