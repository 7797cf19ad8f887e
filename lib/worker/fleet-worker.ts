/**
 * `fairlead/worker`, for a process: builds a worker from the environment variables that `workerEnvironment` of the
 * Scheduler construct returns.
 */

import { randomUUID } from 'node:crypto';
import { availableParallelism, hostname } from 'node:os';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { type Check, isBoolean, objectOf } from '../core/read-fields.ts';
import { Declarations, type VersionedDeclaration } from '../declaration/declaration.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { declaredBucket } from '../objects/s3/declared.ts';
import { SqsJobQueue } from '../queue/sqs/queue.ts';
import type { Log } from '../runtime/contract.ts';
import { askedMetricsOf } from '../runtime/emf.ts';
import { requiredVariable } from '../runtime/environment.ts';
import { processMetrics } from '../runtime/process-metrics.ts';
import { fromLevel, jsonLog, systemClock } from '../runtime/system.ts';
import { processVitals } from '../runtime/vitals.ts';
import type { WorkerLoad } from '../store/contract/records.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { clientFrom } from './client.ts';
import { Forwarder, forwardUrl } from './forward.ts';
import { type HandlingArguments, type HandlingOptions, readHandling } from './handlers.ts';
import { requireTimelyHeartbeat, WORKER_CHECKS, type WorkerReport } from './process/options.ts';
import { runWorker } from './process/process.ts';
import type { JobHandlers, UntypedHandlers } from './run-job.ts';
import { guardInThread } from './thread-guard.ts';

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
export type { WorkerEnd, WorkerReport } from './process/options.ts';
export type { JobContext, JobHandler, JobHandlers, JobLog } from './run-job.ts';

export interface FleetWorkerOptions extends HandlingOptions {
  /** How many jobs run at once: 1 to 2,000. @default - one for each processor */
  readonly slots?: number | undefined;
  /**
   * Unique among the workers that are alive. A worker that starts with the name of another one supersedes it.
   *
   * @default - the host's name and a random part
   */
  readonly workerId?: string | undefined;
  /** How long running jobs may continue after SIGTERM or SIGINT: a duration of 0 to 24 hours. @default '30s' */
  readonly shutdownMs?: DurationInput | undefined;
  /**
   * How often the worker renews its lease, with one write: 100 ms or more, and below `leaseMs` less 3 s.
   * @default '5s'
   */
  readonly heartbeatMs?: DurationInput | undefined;
  /**
   * How long the worker counts as alive without a heartbeat: a duration of 3 s to 10 min. It ends itself 3 s
   * before that. Jobs of a worker that died are taken over up to 5 s after the lease, since clocks differ.
   * @default '15s'
   */
  readonly leaseMs?: DurationInput | undefined;
  /**
   * Whether the worker writes metrics to its standard output, beside its log. CloudWatch reads them from any log
   * group; see docs/metrics.md.
   * @default true, unless `POWERTOOLS_METRICS_DISABLED` is `true` or `1`
   */
  readonly metrics?: boolean | undefined;
}

/** Timeouts of requests to the store: a heartbeat that hangs must fail early enough for another try. */
const STORE_REQUESTS = {
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
} as const;
/** Timeouts of requests to the queue, longer than the longest poll. */
const QUEUE_REQUESTS = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 25_000, throwOnRequestTimeout: true },
} as const;

const BYTES_PER_MB = 1_048_576;
const FAILED = 1;

const required = (name: string): string =>
  requiredVariable(
    process.env,
    name,
    ': give the process the environment that `scheduler.workerEnvironment(fleet)` returns',
  );

const OPTION_CHECKS: Readonly<Record<Exclude<keyof FleetWorkerOptions, keyof HandlingOptions>, Check>> = {
  ...WORKER_CHECKS,
  metrics: isBoolean,
};

const TIMES = ['shutdownMs', 'heartbeatMs', 'leaseMs'] as const;

/** Returns the durations of the options, in milliseconds. */
const timesOf = (options: FleetWorkerOptions): Partial<Record<(typeof TIMES)[number], number>> =>
  Object.fromEntries(
    TIMES.flatMap((name) => (options[name] === undefined ? [] : [[name, durationMs(name, options[name])]])),
  );

/** Whether the variable that Powertools reads in functions switches metrics off. */
const areMetricsDisabled = (): boolean =>
  ['true', '1'].includes((process.env.POWERTOOLS_METRICS_DISABLED ?? '').toLowerCase());

/** Milliseconds between two tries to read the declaration. */
const READ_AGAIN_MS = 2_000;

/**
 * Reads the declaration, and tries again while the store is throttled or does not answer. Undefined if the signal
 * ended it.
 */
async function readDeclaration(
  declarations: Declarations,
  signal: AbortSignal,
  log: Log,
): Promise<VersionedDeclaration | undefined> {
  while (!signal.aborted) {
    try {
      return await declarations.current();
    } catch (error) {
      if (!(error instanceof UnavailableError || error instanceof ThrottledError)) throw error;
      log.warn('the declaration could not be read; trying again', { error: String(error) });
      await systemClock.sleep(READ_AGAIN_MS, signal);
    }
  }
  return undefined;
}

/**
 * Runs a worker of a fleet until SIGTERM or SIGINT, with one handler for each of its job types. With declared jobs, the
 * compiler and the running worker both check the handlers, what they get and what they return. A second signal ends the
 * process at once. If the worker ends for another reason, `process.exitCode` is 1, so that a supervisor starts it again.
 *
 * ```ts
 * await runFleetWorker(only(jobs, 'report'), { report: async ({ month }, ctx) => build(month) }, { slots: 2 });
 * await runFleetWorker({ render: async (payload, { signal, checkpoint }) => render(payload, signal) }, { slots: 2 });
 * ```
 *
 * @param given - declared jobs, followed by their handlers; or handlers of jobs that are not declared
 * @param rest - the handlers of declared jobs, and options
 * @returns why the worker ended, and how many attempts had each outcome
 * @throws ConfigurationError - the options, the fleet or the handlers do not fit
 * @throws EnvironmentError - `FAIRLEAD_FLEET`, `FAIRLEAD_TABLE` or `FAIRLEAD_WAKE_QUEUE` is not set
 */
export async function runFleetWorker<const Given extends Jobs | UntypedHandlers>(
  given: Given,
  ...rest: HandlingArguments<Given, FleetWorkerOptions>
): Promise<WorkerReport> {
  const { handlers, jobs, options } = readHandling<FleetWorkerOptions>(given, rest, OPTION_CHECKS);
  return runFleet(() => handlers, jobs, options);
}

/**
 * Runs a worker of a fleet as `runFleetWorker` does, and forwards each attempt to a server on this machine:
 * docs/guides/workers-in-any-language.md.
 *
 * @param forward - the URL of the server, such as `http://127.0.0.1:8080`
 * @throws ConfigurationError - the server is not on this machine, or an option is wrong
 * @throws EnvironmentError - as with `runFleetWorker`
 */
export async function runForwardingWorker(
  forward: string,
  options: Omit<FleetWorkerOptions, 'use'> = {},
): Promise<WorkerReport> {
  const forwarder = new Forwarder(forwardUrl(forward));
  objectOf(OPTION_CHECKS)('options', options);
  await forwarder.listen();
  try {
    return await runFleet(
      (types) => Object.fromEntries(types.map((type) => [type, forwarder.handler])),
      undefined,
      options,
    );
  } finally {
    forwarder.close();
  }
}

/** @param handlersFor - called with the types of the fleet */
async function runFleet(
  handlersFor: (types: readonly string[]) => JobHandlers,
  jobs: Jobs | undefined,
  options: FleetWorkerOptions,
): Promise<WorkerReport> {
  const times = timesOf(options);
  requireTimelyHeartbeat(times);
  const fleet = required('FAIRLEAD_FLEET');
  const table = required('FAIRLEAD_TABLE');
  const wakeQueueUrl = required('FAIRLEAD_WAKE_QUEUE');
  const log = fromLevel(
    jsonLog((line) => console.log(line)),
    process.env.POWERTOOLS_LOG_LEVEL,
  );
  const output =
    (options.metrics ?? !areMetricsDisabled())
      ? processMetrics(table, systemClock, (line) => console.log(line), askedMetricsOf(process.env))
      : undefined;
  const dynamodb = new DynamoDBClient(STORE_REQUESTS);
  const sqs = new SQSClient(QUEUE_REQUESTS);
  const vitals = processVitals();
  const measure = (): WorkerLoad => {
    const { eventLoopLagMs, memoryBytes } = vitals.measure();
    return { lagMs: eventLoopLagMs, memoryMb: Math.round(memoryBytes / BYTES_PER_MB) };
  };
  const store = new DynamoJobStore({
    client: dynamodb,
    table,
    place: (job) => declarations.place(job),
    unreadable: (item) => log.warn('an item cannot be read', { ...item }),
  });
  const declarations = new Declarations({ store, clock: systemClock, log });
  const [environment, clock] = [process.env, systemClock];
  const bucket = declaredBucket({ bucket: declarations.bucket, clock, environment });
  const exit = (reason: string): void => {
    output?.flush();
    console.error(reason);
    process.exit(FAILED);
  };
  const client = await clientFrom(process.env, jobs);
  const shutdown = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (shutdown.signal.aborted) exit(`${name} again: ending at once`);
    shutdown.abort();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  const ended = new AbortController();
  const writing = output?.tellUntil(ended.signal);
  try {
    const declared = await readDeclaration(declarations, shutdown.signal, log);
    if (declared === undefined) return { end: 'stopped', outcomes: {} };
    const { configuration, queueUrls } = declared;
    const report = await runWorker({
      store,
      queue: new SqsJobQueue({ client: sqs, queueUrls, wakeQueueUrl }),
      configuration,
      typeUnder: (version, type) => declarations.typeUnder(version, type),
      declared: declared.version,
      declaredAtMs: declared.declaredAtMs,
      partitionsNow: async () => (await declarations.current()).configuration.partitions,
      clock: systemClock,
      random: Math.random,
      large: bucket.large,
      rests: new Map(),
      log,
      client: client.get,
      metrics: output?.metrics,
      fleet,
      slots: options.slots ?? availableParallelism(),
      workerId: options.workerId ?? `${hostname()}/${randomUUID()}`,
      handlers: handlersFor(configuration.fleets.find((each) => each.fleet === fleet)?.types ?? []),
      ...times,
      measure,
      signal: shutdown.signal,
      exit,
      guard: guardInThread({ table, configuration, requests: STORE_REQUESTS, clock: systemClock, exit }),
    });
    if (report.end !== 'stopped') process.exitCode = FAILED;
    return report;
  } finally {
    ended.abort();
    await writing;
    process.off('SIGTERM', onSignal);
    process.off('SIGINT', onSignal);
    vitals.stop();
    client.close();
    bucket.destroy();
    dynamodb.destroy();
    sqs.destroy();
  }
}
