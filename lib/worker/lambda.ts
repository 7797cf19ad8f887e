/** `fairlead/worker`, for a function: builds a worker from the environment that the Scheduler construct sets. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { Declarations } from '../declaration/declaration.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { declaredBucket } from '../objects/s3/declared.ts';
import { requiredVariable } from '../runtime/environment.ts';
import { type LambdaEntry, type LambdaHandler, lambdaEntry } from '../runtime/lambda.ts';
import { systemClock } from '../runtime/system.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { clientFrom } from './client.ts';
import { type HandlingArguments, type HandlingOptions, readHandling } from './handlers.ts';
import { type LoopUse, lambdaWorker, type WorkerParts } from './lambda-batch.ts';
import type { UntypedHandlers } from './run-job.ts';

export {
  AttemptError,
  type AttemptReason,
  CooldownError,
  type CooldownOptions,
  cooldownFrom,
  PermanentError,
  RetryAfterError,
  WorkerStoppedError,
} from './errors.ts';
export type { HandlerOf, HandlersOf, HandlingOptions, JobMiddleware, MiddlewareContext } from './handlers.ts';
export type { ParkedJob, ParkOptions } from './kept.ts';
export type { JobContext, JobHandler, JobHandlers, JobLog } from './run-job.ts';
export { fromSqsHandler } from './sqs-handler.ts';

/** Timeouts of requests. They are so short that a request that hangs is tried again within the invocation. */
const REQUESTS = {
  maxAttempts: 4,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
} as const;

const required = (name: string): string =>
  requiredVariable(
    process.env,
    name,
    ': make the function the handler of a fleet of the Scheduler construct, which sets it',
  );

function measureLoop(): () => LoopUse {
  const before = performance.eventLoopUtilization();
  return () => {
    const { active, utilization } = performance.eventLoopUtilization(before);
    return { activeMs: active, share: utilization };
  };
}

type Telemetry = Pick<LambdaEntry, 'log' | 'metrics'>;

/**
 * Builds the parts of a worker function, once per cold start, with the declaration of that moment. If a job was claimed
 * under newer terms, they are read when it comes.
 */
async function partsFromEnvironment(
  { log, metrics }: Telemetry,
  jobs: Jobs | undefined,
): Promise<WorkerParts> {
  const store = new DynamoJobStore({
    client: new DynamoDBClient(REQUESTS),
    table: required('FAIRLEAD_TABLE'),
    place: (job) => declarations.place(job),
    unreadable: (item) => log.warn('an item cannot be read', { ...item }),
  });
  const declarations = new Declarations({ store, clock: systemClock, log });
  const [{ configuration, version: declared, declaredAtMs }, client] = await Promise.all([
    declarations.current(),
    clientFrom(process.env, jobs),
  ]);
  return {
    store,
    configuration,
    typeUnder: (version, type) => declarations.typeUnder(version, type),
    declared,
    declaredAtMs,
    clock: systemClock,
    random: Math.random,
    large: declaredBucket({
      bucket: declarations.bucket,
      clock: systemClock,
      environment: process.env,
    }).large,
    rests: new Map(),
    log,
    client: client.get,
    metrics,
    measureLoop,
    exit: (reason) => {
      console.error(reason);
      process.exit(1);
    },
  };
}

/** A Lambda handler wrapped in middy: `.use()` adds middlewares, as for any other function of yours. */
export type WorkerHandler = LambdaHandler<SQSEvent, SQSBatchResponse>;

/**
 * Makes a Lambda handler from functions, one for each job type of the fleet. With declared jobs, the compiler and the
 * running worker both check that each type has its handler, what a handler gets and what it returns. The environment is
 * read with the first invocation, which fails with an `EnvironmentError` if `FAIRLEAD_TABLE` is not set.
 *
 * ```ts
 * export const handler = worker(only(jobs, 'thumbnail'), { thumbnail: async ({ key }, ctx) => ({ width: 640 }) });
 * export const handler = worker({ resize: async (payload, { signal }) => ({ width: 640 }) });
 * ```
 *
 * @param given - declared jobs, followed by their handlers; or handlers of jobs that are not declared
 * @param rest - the handlers of declared jobs, and options: `{ use }`
 * @throws ConfigurationError - a handler is missing, superfluous or not a function, or an option is wrong
 */
export function worker<const Given extends Jobs | UntypedHandlers>(
  given: Given,
  ...rest: HandlingArguments<Given, HandlingOptions>
): WorkerHandler {
  const { handlers, jobs } = readHandling(given, rest);
  const { log, metrics, wrap } = lambdaEntry();
  let parts: WorkerParts | undefined;
  return wrap(
    lambdaWorker(async () => {
      parts ??= await partsFromEnvironment({ log, metrics }, jobs);
      return parts;
    }, handlers),
  );
}
