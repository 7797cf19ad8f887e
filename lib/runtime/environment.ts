/** Reads variables of the environment for composition roots. */
import { EnvironmentError } from '../core/errors.ts';

/**
 * Returns a variable that must be set.
 *
 * @param wayOut - goes on behind `NAME is not set`, with its punctuation
 * @throws EnvironmentError if it is missing or empty
 */
export function requiredVariable(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
  wayOut: string,
): string {
  const value = environment[name];
  if (value !== undefined && value !== '') return value;
  throw new EnvironmentError(`${name} is not set${wayOut}`, { setting: name });
}

/** Where the environment of a client or of a resident dispatcher comes from. */
export const SCHEDULER_ENVIRONMENT =
  ': give the process the environment that schedulerEnvironment() of the Scheduler construct returns, or that `fairlead env` prints';
