/** `fairlead/client`: the client on DynamoDB, SQS and Lambda, with the types of its arguments, results and errors. */

import { randomBytes } from 'node:crypto';
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError, show, ValidationError } from '../core/errors.ts';
import {
  type Check,
  isBoolean,
  isFunction,
  numberWithin,
  objectOf,
  textWithin,
  wholeWithin,
} from '../core/read-fields.ts';
import { traceparentIn } from '../core/trace.ts';
import { Declarations } from '../declaration/declaration.ts';
import { type Jobs, readDefinitions } from '../jobs/jobs.ts';
import { declaredBucket } from '../objects/s3/declared.ts';
import { InvokedWakes, isAliasArn, wakeClient } from '../queue/lambda/wakes.ts';
import { SqsJobQueue } from '../queue/sqs/queue.ts';
import { requiredVariable, SCHEDULER_ENVIRONMENT } from '../runtime/environment.ts';
import { systemClock } from '../runtime/system.ts';
import { DynamoJobStore } from '../store/dynamodb/store.ts';
import { type ClientVerbs, StoreClient } from './client.ts';
import type { SubmitTracing } from './contexts.ts';
import { remoteClient } from './remote-client.ts';
import { regionOfFunctionUrl, signedFetch } from './signing.ts';

export type { Control } from '../core/capacity.ts';
export type { DurationInput } from '../core/duration.ts';
export {
  ConfigurationError,
  EnvironmentError,
  MisconfiguredError,
  RefusedError,
  ThrottledError,
  UnavailableError,
  ValidationError,
} from '../core/errors.ts';
export type { Explanation, WaitsFor } from '../core/explain.ts';
export type { JobAttempt, JobEvent, JobHistory } from '../core/history.ts';
export type {
  AttemptEntry,
  DroppedEntries,
  JobError,
  JobMode,
  JobState,
  Json,
  MovedEntry,
  NotClaimedEntry,
  PriorityEntry,
} from '../core/job.ts';
export type { Scope } from '../core/scope.ts';
export type { Depth } from '../dispatch/partition/depth.ts';
export type {
  DispatcherRole,
  DispatchersView,
  LedPartition,
  ResidentView,
} from '../operate/dispatchers.ts';
export type { FleetCapacity, KeyShare, LiveExplanation } from '../operate/explain.ts';
export type { DeclarationView, FleetView, KeyView, PartitionCarried } from '../operate/inspect.ts';
export type { ListedState } from '../operate/list-jobs.ts';
export type { LiveWaitsFor } from '../operate/live-waits.ts';
export { placeText } from '../operate/places.ts';
export type { ScheduleRequest, TimeRequest } from '../schedules/request.ts';
export { MalformedItemError } from '../store/contract/errors.ts';
export type { DispatcherLoad, Rejection, UnreadableItem } from '../store/contract/records.ts';
export type { JobName } from './arguments.ts';
export type { CancelEntry, CancelFilter, RetimeEntry, RetimeFilter } from './bulk.ts';
export type { CallOptions, GetOptions } from './calls.ts';
export type {
  BulkOptions,
  CancelResult,
  DrainCallOptions,
  ListFilter,
  ListOptions,
  OverrideChange,
  RetimeChange,
} from './client.ts';
export type { SubmitCall, SubmitTracing } from './contexts.ts';
export type { DeadLetterFilter, RedriveEntry, RetryResult } from './dead-letters.ts';
export {
  AbortError,
  BacklogFullError,
  ConflictError,
  JobCancelledError,
  JobFailedError,
  JobStateError,
  NotFoundError,
  WaitTimeoutError,
} from './errors.ts';
export type { FiringsOf, ListedFiring } from './firings.ts';
export type {
  CancelledJob,
  ClaimedJobView,
  ClientJob as Job,
  FailedJob,
  JobOutcome,
  RunningJob,
  SucceededJob,
  WaitingJobView,
} from './job.ts';
export type { FiringView, NextOptions, PutResult, ScheduleView } from './schedules.ts';
export type {
  RunJobOptions,
  RunOptions,
  SubmitEntry,
  SubmitFields,
  SubmitOptions,
  SubmitRequest,
  SubmitResult,
} from './submissions.ts';
export type { TypedRequest, TypedSchedule } from './typed.ts';
export type { EndedJob, JobHandle, WaitOptions } from './waits.ts';

/** How to reach AWS. Settings that are left out come from the environment, as with any AWS SDK client. */
export interface AwsSettings {
  readonly region?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly credentials?: DynamoDBClientConfig['credentials'];
  /**
   * How often one request is tried, the first try included: 1 to 100.
   * @default 3, or AWS_MAX_ATTEMPTS
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How long one try may take before it counts as unanswered: milliseconds, a text such as `'5s'`, or a `Duration`;
   * 1 ms to 10 minutes.
   * @default 5,000
   */
  readonly requestTimeoutMs?: DurationInput | undefined;
}

/** Settings of a client. */
export interface ClientSettings extends AwsSettings, SubmitTracing {
  /**
   * Whether the dispatch function is invoked while jobs are being stored, so that they start sooner if little else is
   * going on: after about 0.2 instead of 0.35 seconds in an idle scheduler. A process that submits more than one job
   * a second notifies it of the first four only. A million invocations cost about $0.2 plus their duration; if no
   * `wakeFunctionArn` is known or allowed, messages to the wake queue are used, for $1.2 more.
   * @default true
   */
  readonly promptStart?: boolean | undefined;
  /**
   * Whether requests to `FAIRLEAD_URL` are signed with the AWS credentials, as a function URL that IAM guards needs them.
   * @default - true for the address of a function URL
   */
  readonly signRequests?: boolean | undefined;
}

export interface SchedulerClientOptions<Declared extends Jobs = Jobs> extends ClientSettings {
  /**
   * The declared job types, so that the compiler and the client check payloads and results.
   * @default - any type is accepted
   */
  readonly jobs?: Declared | undefined;
  /** The name of the scheduler's table: `FAIRLEAD_TABLE`. */
  readonly table: string;
  /** The URL of the queue that wakes dispatchers: `FAIRLEAD_WAKE_QUEUE`. */
  readonly wakeQueueUrl: string;
  /**
   * The ARN of the alias by which the dispatch function is invoked: `FAIRLEAD_WAKE_FUNCTION`.
   * @default - messages to the wake queue are used instead
   */
  readonly wakeFunctionArn?: string | undefined;
}

const REQUEST_TIMEOUT_MS = 5_000;
/** The timeout of a request to a server is longer, because the server makes several requests to the table for it. */
const REMOTE_TIMEOUT_MS = 30_000;
const ATTEMPTS_MAX = 100;

const REQUEST_TIMEOUT_MAX_MS = 10 * 60_000;
const TEXT_BYTES_MAX = 2_048;

const text = textWithin(TEXT_BYTES_MAX, 'Leave it out to use the environment.');
const SETTING_CHECKS: Readonly<Record<keyof ClientSettings, Check>> = {
  region: text,
  endpoint: text,
  credentials: (field, value) => {
    if (typeof value === 'function' || (typeof value === 'object' && value !== null)) return;
    throw new ConfigurationError(
      field,
      value,
      'must be credentials, or a function that returns them',
      'Leave it out.',
    );
  },
  maxAttempts: wholeWithin(1, ATTEMPTS_MAX, 'Leave it out for 3.'),
  requestTimeoutMs: (field, value) =>
    numberWithin(
      1,
      REQUEST_TIMEOUT_MAX_MS,
      `Leave it out for ${REQUEST_TIMEOUT_MS}.`,
    )(field, durationMs(field, value)),
  promptStart: isBoolean,
  signRequests: isBoolean,
  traceparent: isFunction,
  around: isFunction,
};

const requiredText = textWithin(
  TEXT_BYTES_MAX,
  'schedulerEnvironment() of the Scheduler construct returns it.',
);
const OPTION_CHECKS: Readonly<Record<keyof SchedulerClientOptions, Check>> = {
  ...SETTING_CHECKS,
  jobs: (_, value) => {
    readDefinitions(value);
  },
  table: requiredText,
  wakeQueueUrl: requiredText,
  wakeFunctionArn: (field, value) => {
    if (typeof value === 'string' && isAliasArn(value)) return;
    throw new ConfigurationError(field, value, 'must be the ARN of an alias of a function', 'Leave it out.');
  },
};

/** Checks settings. @throws ValidationError - it names the field, its value and the way out */
function requireSettings(checks: Readonly<Record<string, Check>>, settings: unknown): void {
  try {
    objectOf(checks)('', settings);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const { field, problem, value, wayOut } = error;
    throw new ValidationError(field, `${problem}, not ${show(value)}. ${wayOut}`);
  }
}

/** A client, wherever its scheduler is: what `SchedulerClient.for` and `new SchedulerClient` make. */
export interface SchedulerClient<Declared extends Jobs = Jobs> extends ClientVerbs<Declared> {
  /** Closes the connections. */
  destroy(): void;
}

/**
 * Returns the client for the scheduler that the environment names by a URL; undefined if it names a table, or no URL.
 */
function remoteFrom<Declared extends Jobs>(
  settings: ClientSettings,
  environment: Readonly<Record<string, string | undefined>>,
  jobs: Declared | undefined,
): SchedulerClient<Declared> | undefined {
  const { FAIRLEAD_URL: url = '', FAIRLEAD_TABLE: table = '' } = environment;
  if (url === '' || table !== '') return undefined;
  requireSettings(SETTING_CHECKS, settings);
  if (jobs !== undefined) requireSettings({ jobs: OPTION_CHECKS.jobs }, { jobs });
  const { requestTimeoutMs = REMOTE_TIMEOUT_MS, traceparent, around, credentials } = settings;
  const ofFunctionUrl = regionOfFunctionUrl(url);
  const { signRequests = ofFunctionUrl !== undefined, region = ofFunctionUrl } = settings;
  const signed = signRequests ? signedFetch('lambda', { region, credentials }) : undefined;
  const verbs = remoteClient<Declared>({
    url,
    jobs,
    requestTimeoutMs,
    clock: systemClock,
    traceparent: traceparent ?? (() => traceparentIn(process.env)),
    around,
    fetch: signed?.fetch,
  });
  return Object.assign(verbs, { destroy: () => signed?.destroy() });
}

/**
 * Returns the options of a client for the scheduler that the environment names. @throws EnvironmentError,
 * ValidationError
 */
function optionsFrom(
  settings: ClientSettings,
  environment: Readonly<Record<string, string | undefined>>,
): SchedulerClientOptions {
  requireSettings(SETTING_CHECKS, settings);
  const { FAIRLEAD_WAKE_FUNCTION: wakeFunctionArn = '' } = environment;
  return {
    ...settings,
    table: requiredVariable(environment, 'FAIRLEAD_TABLE', SCHEDULER_ENVIRONMENT),
    wakeQueueUrl: requiredVariable(environment, 'FAIRLEAD_WAKE_QUEUE', SCHEDULER_ENVIRONMENT),
    ...(isAliasArn(wakeFunctionArn) ? { wakeFunctionArn } : {}),
  };
}

/**
 * Submits jobs, waits for them, inspects and operates the scheduler. Create one per process; it may be shared.
 *
 * @example
 * const client = SchedulerClient.fromEnvironment();
 * const { jobId } = await client.submit({ type: 'render', payload: { page: 1 }, idempotencyKey: 'page-1' });
 * const { result } = await client.run({ type: 'render', payload: { page: 2 } }, { timeout: '30s' });
 */
class TableClient<Declared extends Jobs = Jobs> extends StoreClient<Declared> {
  readonly #destroy: () => void;

  /** The scheduler's declaration is read from its table with the first call. @throws ValidationError */
  constructor(options: SchedulerClientOptions<Declared>) {
    const { table = '', wakeQueueUrl = '' } = options ?? {};
    requireSettings(OPTION_CHECKS, { ...options, table, wakeQueueUrl });
    const { region, endpoint, credentials, maxAttempts } = options;
    const { requestTimeoutMs = REQUEST_TIMEOUT_MS } = options;
    const { wakeFunctionArn } = options;
    const place = {
      ...(region === undefined ? {} : { region }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(credentials === undefined ? {} : { credentials }),
    };
    const aws = {
      ...place,
      ...(maxAttempts === undefined ? {} : { maxAttempts }),
      requestHandler: {
        requestTimeout: durationMs('requestTimeoutMs', requestTimeoutMs),
        throwOnRequestTimeout: true,
      },
    };
    const dynamodb = new DynamoDBClient(aws);
    const sqs = new SQSClient(aws);
    const wakes = new SqsJobQueue({ client: sqs, queueUrls: {}, wakeQueueUrl });
    const invoked =
      wakeFunctionArn === undefined ? undefined : { client: wakeClient(aws), functionArn: wakeFunctionArn };
    const store = new DynamoJobStore({
      client: dynamodb,
      table,
      place: (job) => declarations.place(job),
    });
    const declarations = new Declarations({ store, clock: systemClock });
    const bucket = declaredBucket({
      bucket: (again) => declarations.bucket(again),
      clock: systemClock,
      environment: process.env,
      client: place,
    });
    super({
      jobs: options.jobs,
      store,
      queue:
        invoked === undefined ? wakes : new InvokedWakes({ ...invoked, queue: wakes, clock: systemClock }),
      declarations,
      large: bucket.large,
      clock: systemClock,
      newId: () => randomBytes(16).toString('hex'),
      promptStart: options.promptStart,
      traceparent: options.traceparent ?? (() => traceparentIn(process.env)),
      around: options.around,
    });
    this.#destroy = () => {
      dynamodb.destroy();
      sqs.destroy();
      invoked?.client.destroy();
      bucket.destroy();
    };
  }

  /**
   * A client for the scheduler that the environment names by `FAIRLEAD_TABLE`, `FAIRLEAD_WAKE_QUEUE` and, optionally,
   * `FAIRLEAD_WAKE_FUNCTION`, as `schedulerEnvironment()` of the construct returns them; else by `FAIRLEAD_URL`, which
   * is where a server such as `fairlead dev`, `httpApp` of `fairlead/http` or the construct's `api` is.
   * @throws EnvironmentError - one of the first two is not set
   * @throws ValidationError - a setting is wrong
   */
  static fromEnvironment(
    settings: ClientSettings = {},
    environment: Readonly<Record<string, string | undefined>> = process.env,
  ): SchedulerClient {
    return (
      remoteFrom(settings, environment, undefined) ?? new TableClient(optionsFrom(settings, environment))
    );
  }

  /**
   * Returns a client of declared job types, for the scheduler that the environment names, as with `fromEnvironment`.
   * The compiler checks names, payloads and options; a declared schema checks each payload before anything is stored,
   * and each result.
   *
   * @example
   * const client = SchedulerClient.for(jobs);
   * const handle = await client.submit('report', { month: 3 });
   * const { url } = await handle.result({ timeout: '10m' });
   * @throws EnvironmentError - a variable is not set
   * @throws ValidationError - a setting or a declared job type is wrong
   */
  static for<Declared extends Jobs>(
    jobs: Declared,
    settings: ClientSettings = {},
    environment: Readonly<Record<string, string | undefined>> = process.env,
  ): SchedulerClient<Declared> {
    return (
      remoteFrom(settings, environment, jobs) ??
      new TableClient<Declared>({ ...optionsFrom(settings, environment), jobs })
    );
  }

  /** Closes the connections. */
  destroy(): void {
    this.#destroy();
  }
}

export const SchedulerClient = TableClient;
