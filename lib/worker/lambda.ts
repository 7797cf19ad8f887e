/** The composition root of a Lambda worker: from the environment that the Scheduler construct sets. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { decodeConfiguration } from '../dispatch/configuration-codec.ts';
import { placeOf } from '../dispatch/submit.ts';
import { jsonLog, systemClock } from '../runtime/system.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { lambdaWorker, type SqsHandler, type WorkerParts } from './lambda-batch.ts';
import type { JobHandlers } from './run-job.ts';

export type { JobContext, JobHandler, JobHandlers } from './run-job.ts';

/** Thrown when a worker function runs without what the Scheduler construct gives it. */
export class WorkerEnvironmentError extends Error {
  override readonly name = 'WorkerEnvironmentError';
}

/** A request that hangs is given up, and tried again, while the invocation still has time. */
const REQUESTS = {
  maxAttempts: 4,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
} as const;

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') {
    throw new WorkerEnvironmentError(
      `${name} is not set: give the function to a fleet of the Scheduler construct, which sets it`,
    );
  }
  return value;
}

function partsFromEnvironment(): WorkerParts {
  const configuration = decodeConfiguration(required('FAIRLEAD_POOL'));
  const place = placeOf(configuration);
  const log = jsonLog((line) => console.log(line));
  return {
    store: new DynamoJobStore({
      client: new DynamoDBClient(REQUESTS),
      table: required('FAIRLEAD_TABLE'),
      place,
      unreadable: (item) => log.warn('an item cannot be read', { ...item }),
    }),
    configuration,
    clock: systemClock,
    random: Math.random,
    log,
    exit: (reason) => {
      console.error(reason);
      process.exit(1);
    },
  };
}

/**
 * Makes a Lambda handler of functions, one for each job type of the fleet.
 *
 * ```ts
 * export const handler = worker({ resize: async (payload, { signal }) => ({ width: 640 }) });
 * ```
 */
export function worker(handlers: JobHandlers): SqsHandler {
  let parts: WorkerParts | undefined;
  return lambdaWorker(() => {
    parts ??= partsFromEnvironment();
    return parts;
  }, handlers);
}
