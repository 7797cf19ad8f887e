/** What a worker author gives: read once, when the worker is made, so that what is wrong is said before any job comes. */
import { ConfigurationError } from '../core/errors.ts';
import { type Check, isFunction, objectOf } from '../core/read-fields.ts';
import type { JobHandlers } from './run-job.ts';

/** Thrown when a worker is made with what cannot work. */
export class WorkerConfigurationError extends Error {
  override readonly name = 'WorkerConfigurationError';
}

/** @throws WorkerConfigurationError - it names the field, what stood there and the way out */
export function requireFields(check: Check, field: string, given: unknown): void {
  try {
    check(field, given);
  } catch (error) {
    throw error instanceof ConfigurationError ? new WorkerConfigurationError(error.message) : error;
  }
}

/**
 * The handlers by their types, as they are now.
 *
 * @throws WorkerConfigurationError - there are none, or one is no function
 */
export function readHandlers(given: unknown): JobHandlers {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const handlers = isObject
    ? Object.fromEntries(Object.entries(given).filter(([, each]) => each !== undefined))
    : given;
  requireFields(objectOf(everyFunction(handlers)), 'handlers', handlers);
  if (Object.keys(handlers as object).length > 0) return handlers as JobHandlers;
  throw new WorkerConfigurationError(
    'handlers: is empty. Give a function for each job type, such as { resize: async (payload) => … }.',
  );
}

const everyFunction = (handlers: unknown): Readonly<Record<string, Check>> =>
  typeof handlers === 'object' && handlers !== null
    ? Object.fromEntries(Object.keys(handlers).map((type) => [type, isFunction]))
    : {};
