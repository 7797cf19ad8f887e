/**
 * A handler's `client`. Its code is loaded only where the environment names a scheduler: in a function that may submit,
 * and in a process.
 */
import type { SchedulerClient } from '../client/aws.ts';
import { EnvironmentError } from '../core/errors.ts';
import type { Jobs } from '../jobs/jobs.ts';

export type WorkerClient<Declared extends Jobs = Jobs> = SchedulerClient<Declared>;

/** The client of one function or process, made with its first use. */
export interface OwnClient {
  /**
   * Returns the client.
   * @throws EnvironmentError - a variable is missing
   */
  readonly get: () => WorkerClient;
  readonly close: () => void;
}

const VARIABLES = ['FAIRLEAD_TABLE', 'FAIRLEAD_WAKE_QUEUE'] as const;

const WAY_OUT =
  ', so ctx.client cannot reach the scheduler: grant the function the right to submit with `scheduler.grantSubmit(fn)`, and give it the environment that `scheduler.schedulerEnvironment()` returns';

type Environment = Readonly<Record<string, string | undefined>>;

const isSet = (environment: Environment, name: string): boolean => (environment[name] ?? '') !== '';

/**
 * Throws the error for a function or process whose environment names no scheduler.
 * @throws EnvironmentError - it names a variable that is missing, and what to grant
 */
export function clientMissing(environment: Environment = {}): never {
  const setting = VARIABLES.find((name) => !isSet(environment, name)) ?? VARIABLES[0];
  throw new EnvironmentError(`${setting} is not set${WAY_OUT}`, { setting });
}

/**
 * Makes the client for the scheduler that the environment names.
 * @param jobs - the worker's declared jobs, which type its client
 */
export async function clientFrom(environment: Environment, jobs?: Jobs | undefined): Promise<OwnClient> {
  if (!VARIABLES.every((name) => isSet(environment, name)))
    return { get: () => clientMissing(environment), close: () => {} };
  const { SchedulerClient: Client } = await import('../client/aws.ts');
  let client: WorkerClient | undefined;
  return {
    get: () => {
      client ??=
        jobs === undefined ? Client.fromEnvironment({}, environment) : Client.for(jobs, {}, environment);
      return client;
    },
    close: () => client?.destroy(),
  };
}
