/** The composition root of a worker process: from the environment that the Scheduler construct's `workerEnvironment` gives. */

import { randomUUID } from 'node:crypto';
import { availableParallelism, hostname } from 'node:os';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { EnvironmentError, ThrottledError, UnavailableError } from '../core/errors.ts';
import { type Check, isBoolean, objectOf } from '../core/read-fields.ts';
import { Declarations, type VersionedDeclaration } from '../declaration/declaration.ts';
import { SqsJobQueue } from '../queue/sqs/queue.ts';
import type { Log } from '../runtime/contract.ts';
import { askedMetricsOf } from '../runtime/emf.ts';
import { processMetrics } from '../runtime/process-metrics.ts';
import { jsonLog, systemClock } from '../runtime/system.ts';
import { processVitals } from '../runtime/vitals.ts';
import type { WorkerLoad } from '../store/contract/records.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { readHandlers } from './handlers.ts';
import { requireTimelyHeartbeat, WORKER_CHECKS, type WorkerReport } from './process/options.ts';
import { runWorker } from './process/process.ts';
import type { JobHandlers } from './run-job.ts';
import { guardInThread } from './thread-guard.ts';

export type { WorkerEnd, WorkerReport } from './process/options.ts';
export type { JobContext, JobHandler, JobHandlers } from './run-job.ts';

export interface FleetWorkerOptions {
  /** Jobs that run at once. @default - one for each processor */
  readonly slots?: number | undefined;
  /**
   * Unique among the workers that live. A name that stays the same over restarts supersedes its former life.
   *
   * @default - the host's name and a random part
   */
  readonly workerId?: string | undefined;
  /** How long running jobs may go on after SIGTERM or SIGINT, in milliseconds. @default 30 s */
  readonly shutdownMs?: number | undefined;
  /** How often the worker says that it lives, in milliseconds: one write each. @default 5 s */
  readonly heartbeatMs?: number | undefined;
  /**
   * How long it counts as living without saying so, in milliseconds. 3 s before that it ends itself; jobs of a worker that
   * died are taken over up to 5 s after it, since clocks differ. @default 15 s
   */
  readonly leaseMs?: number | undefined;
  /**
   * Whether it tells metrics: lines of its output, beside those of its log, which CloudWatch takes as metrics from any log
   * group; see docs/metrics.md. @default true, unless `POWERTOOLS_METRICS_DISABLED` is `true` or `1`
   */
  readonly metrics?: boolean | undefined;
}

/** A heartbeat that hangs must fail while there is time for another one. */
const STORE_REQUESTS = {
  maxAttempts: 2,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 2_000, throwOnRequestTimeout: true },
} as const;
/** Longer than the longest poll. */
const QUEUE_REQUESTS = {
  maxAttempts: 3,
  requestHandler: { connectionTimeout: 1_000, requestTimeout: 25_000, throwOnRequestTimeout: true },
} as const;

const BYTES_PER_MB = 1_048_576;
const FAILED = 1;

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') {
    throw new EnvironmentError(
      `${name} is not set: give the process what \`scheduler.workerEnvironment(fleet)\` answers`,
      { setting: name },
    );
  }
  return value;
}

const OPTION_CHECKS: Readonly<Record<keyof FleetWorkerOptions, Check>> = {
  ...WORKER_CHECKS,
  metrics: isBoolean,
};

/** As with functions, whose metrics Powertools writes. */
const isSilenced = (): boolean =>
  ['true', '1'].includes((process.env.POWERTOOLS_METRICS_DISABLED ?? '').toLowerCase());

/** After no answer, this much later. */
const READ_AGAIN_MS = 2_000;

/** As with its registration: where the store does not answer, a worker that has just begun waits. Undefined: it is told to end. */
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
 * Works for a fleet until SIGTERM or SIGINT, with one handler for each of its job types. The second signal ends the
 * process at once. The process's exit code is 1 when the worker ended for another reason: let its supervisor start it
 * again.
 *
 * ```ts
 * await runFleetWorker({ render: async (payload, { signal, checkpoint }) => render(payload, signal) }, { slots: 2 });
 * ```
 *
 * @throws ConfigurationError - the options, the environment, the fleet or the handlers do not fit
 */
export async function runFleetWorker(
  handlers: JobHandlers,
  options: FleetWorkerOptions = {},
): Promise<WorkerReport> {
  objectOf(OPTION_CHECKS)('options', options);
  requireTimelyHeartbeat(options);
  readHandlers(handlers);
  const fleet = required('FAIRLEAD_FLEET');
  const table = required('FAIRLEAD_TABLE');
  const wakeQueueUrl = required('FAIRLEAD_WAKE_QUEUE');
  const log = jsonLog((line) => console.log(line));
  const told =
    (options.metrics ?? !isSilenced())
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
  const exit = (reason: string): void => {
    told?.flush();
    console.error(reason);
    process.exit(FAILED);
  };
  const shutdown = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => {
    if (shutdown.signal.aborted) exit(`${name} again: ending at once`);
    shutdown.abort();
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  const ended = new AbortController();
  const telling = told?.tellUntil(ended.signal);
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
      log,
      metrics: told?.metrics,
      fleet,
      slots: options.slots ?? availableParallelism(),
      workerId: options.workerId ?? `${hostname()}/${randomUUID()}`,
      handlers,
      shutdownMs: options.shutdownMs,
      heartbeatMs: options.heartbeatMs,
      leaseMs: options.leaseMs,
      measure,
      signal: shutdown.signal,
      exit,
      guard: guardInThread({ table, configuration, requests: STORE_REQUESTS, clock: systemClock, exit }),
    });
    if (report.end !== 'stopped') process.exitCode = FAILED;
    return report;
  } finally {
    ended.abort();
    await telling;
    process.off('SIGTERM', onSignal);
    process.off('SIGINT', onSignal);
    vitals.stop();
    dynamodb.destroy();
    sqs.destroy();
  }
}
