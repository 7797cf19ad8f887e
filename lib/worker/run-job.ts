/**
 * Runs one attempt of one job: starts it, calls the handler, and stores the outcome. Functions and processes use the
 * same code.
 */

import type { JobTypeConfiguration, PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { UnavailableError } from '../core/errors.ts';
import {
  type Job,
  type JobError,
  type Json,
  type MovingJob,
  TERMINAL_TTL_MS,
  withoutStack,
} from '../core/job.ts';
import type { Verdict } from '../core/life-cycle.ts';
import {
  afterFailure,
  afterRelease,
  afterWorkerLost,
  type HandlerDecision,
  hungError,
} from '../core/retry.ts';
import type { DeclarationState } from '../declaration/declaration.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { LazyAbort } from '../runtime/abort.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
import type { WorkerIdentity } from '../store/contract/records.ts';
import type { FinishOutcome } from '../store/contract/requests.ts';
import { createDeadlines, type Deadlines, type Watch } from './attempt-host.ts';
import { clientMissing, type WorkerClient } from './client.ts';
import { AttemptError, isAttemptError, WorkerStoppedError } from './errors.ts';
import { checkpointOf, RESULT, type RunStep, stepsOf, storable } from './kept.ts';
import type { AttemptStore } from './retrying-store.ts';
import { decisionOf, jobErrorOf } from './thrown.ts';

/** A handler's second argument, beside the payload. */
// biome-ignore lint/suspicious/noExplicitAny: a function of any worker's context takes this one
export interface JobContext<Declared extends Jobs = any>
  extends Pick<Job, 'type' | 'mode' | 'attempt' | 'fairnessKey' | 'resourceId' | 'tags'> {
  readonly id: string;
  /** The same as `id`. */
  readonly jobId: string;
  /** The job's trace (W3C Trace Context), as its producer gave it. Start your spans under it and pass it on. */
  readonly traceparent?: string | undefined;
  /** Grows with every new claim of the job, so a store of your own can refuse writes of a superseded attempt. */
  readonly fencingToken: number;
  /**
   * Aborts when the attempt must end. Its `reason` is an error that says why: an `AttemptError` whose `reason` is
   * `JobTimeout` (the type's timeout), `JobCancelled` (a client or an operator cancelled the job) or `JobSuperseded`
   * (another attempt holds the job); or a `WorkerStoppedError` (the worker ends: a result that comes soon still
   * counts, otherwise the job is tried again elsewhere). Call `signal.throwIfAborted()` right before each effect: a
   * process that was suspended notices its end by that call, before any event.
   */
  readonly signal: AbortSignal;
  /** The time since which the job has waited for this attempt. */
  readonly readyAt: Date;
  /** The start of this attempt, by the worker's clock. */
  readonly startedAt: Date;
  /** The end of the attempt's time, when `signal` aborts with `JobTimeout`. */
  readonly deadline: Date;
  /** How many milliseconds of the attempt's time are left: 0 or more. */
  readonly remainingMs: () => number;
  /** The worker's log, with `jobId`, `type` and `attempt` on each line. */
  readonly log: JobLog;
  /**
   * Runs a part of the work once: when it has ended, its value is stored on the job, with one write, and every later
   * attempt gets that value instead of running the part again, after a failure, a release or a lost worker alike.
   *
   * The name is the step's identity: 1 to 100 characters, one name for each step of a job. Two calls with one name are
   * one step. Steps may run side by side. A value is JSON, and the values of all steps of a job have at most 64 KB;
   * values are stored apart from `checkpoint`. A part that throws is not done: it may be called again. If the process
   * ends between the part's effect and the write, the part runs again, so give effects an idempotency key of their own,
   * such as `${ctx.id}/charge`.
   *
   * @example const charge = await ctx.step('charge', () => payments.charge(order, { idempotencyKey: `${ctx.id}/charge` }));
   * @throws ConfigurationError - the name is wrong
   * @throws AttemptError - `JobSuperseded`: this attempt does not hold the job any more; stop
   * @throws AttemptError - `CheckpointRefused`: the value is not JSON, or too large
   * @throws the attempt's end - `signal` has aborted: no step begins
   */
  readonly step: RunStep;
  /**
   * A client of the worker's scheduler, made with its first use and shared by all jobs of the process.
   *
   * @throws EnvironmentError - `FAIRLEAD_TABLE` or `FAIRLEAD_WAKE_QUEUE` is not set
   */
  readonly client: WorkerClient<Declared>;
  /**
   * Reports how far the job is, as JSON of at most 1 KB; larger progress is dropped with a warning. A process stores
   * it with its next heartbeat (if all its jobs report more than 100 KB, the longest are left out). A function stores
   * it on the job, at once and then at most every 5 s, with one write each time.
   */
  readonly heartbeat: (progress: unknown) => void;
  /**
   * Stores data from which the next attempt can continue if this one does not end. Each call is one write: call it
   * every few seconds, not for every record.
   *
   * @throws AttemptError - `JobSuperseded`: this attempt does not hold the job any more; stop
   * @throws AttemptError - `CheckpointRefused`: the data are not JSON, or larger than 64 KB
   */
  readonly checkpoint: (data: unknown) => Promise<void>;
  /**
   * The last checkpoint of this or an earlier attempt, as it was when this attempt began. After a lost worker only
   * types with `onWorkerLost: 'resume'` get it; others begin from the start.
   */
  readonly lastCheckpoint?: Json | undefined;
}

/** Writes lines about one job. Fields are plain data; an error among them is written with its message and stack. */
export interface JobLog extends Log {
  /** Written if `POWERTOOLS_LOG_LEVEL` is `DEBUG`. */
  readonly debug: Log['info'];
}

/**
 * A user's function for one job type. Its return value is the job's result, at most 64 KB of JSON; an error that it
 * throws fails the attempt.
 */
export type JobHandler = (payload: Json, context: JobContext<Jobs>) => unknown;

export type JobHandlers = Readonly<Record<string, JobHandler>>;

export interface RunContext {
  readonly store: AttemptStore;
  readonly configuration: PoolConfiguration;
  /** A type as a version of the declaration has it: an attempt keeps the terms under which it was claimed. */
  readonly typeUnder?: DeclarationState['typeUnder'] | undefined;
  /** The version of the declaration that the worker started with. */
  readonly declared?: number | undefined;
  /** When that version was declared, in epoch ms. */
  readonly declaredAtMs?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: WorkerIdentity;
  /** How long the process lives; undefined if it has no end. */
  readonly life?: { readonly since: Instant; readonly lastsMs: number } | undefined;
  /**
   * Aborts when the worker ends. An attempt that is cut off by it counts as released or as its worker's loss, not as
   * a failure.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Aborts `signal` if the worker's lease is over. Called whenever a handler reads its own signal, because the timer
   * that aborts it may be late.
   */
  readonly lookAtLease?: (() => void) | undefined;
  /** Shared by the attempts of a worker. @default - this attempt's own */
  readonly deadlines?: Deadlines | undefined;
  /** Reports when a running job is not wanted any more. */
  readonly watch?: Watch | undefined;
  /** Called when the job has started: its message may be deleted. */
  readonly onStarted?: ((job: Job) => void) | undefined;
  /**
   * Called before the handler begins. The handler ends within `endsInMs`, or is given up as hung. The returned
   * function is called when it has really ended.
   */
  readonly onHandling?: ((job: Job, endsInMs: number) => () => void) | undefined;
  readonly onProgress?: ((job: Job, progress: unknown) => void) | undefined;
  /** The client of handlers. @default - reading it throws */
  readonly client?: (() => WorkerClient) | undefined;
}

/** The part of the context that all attempts of one function or process share. */
export type HostContext = Pick<
  RunContext,
  'configuration' | 'typeUnder' | 'declared' | 'declaredAtMs' | 'clock' | 'random' | 'log' | 'client'
>;

/**
 * How an attempt ended. `superseded`: the message was outdated, or the attempt lost its claim, so nothing of it
 * counts. `released`: the worker ended before the handler did, or could not begin it, and gave the job back.
 */
export type RunOutcome = 'succeeded' | 'failed' | 'retry' | 'cancelled' | 'released' | 'superseded';

/** How long a handler that was told to stop may take, unless its process ends earlier. */
export const STOP_GRACE_MS = 5_000;

interface AttemptTime {
  /** How long the handler may run. */
  readonly timeoutMs: number;
  /** How long it may take to end after it was told to stop. */
  readonly graceMs: number;
}

/** What the handler threw, after `thrown.ts` has read it. No other code looks at the thrown value. */
interface Failure {
  readonly error: JobError;
  readonly decided: HandlerDecision | undefined;
}

class HandlerThrew {
  readonly failure: Failure;

  constructor(failure: Failure) {
    this.failure = failure;
  }
}

const timeoutError = (timeoutMs: number): AttemptError =>
  new AttemptError(
    'JobTimeout',
    `the attempt took longer than ${Math.round(timeoutMs)} ms and was told to stop`,
  );

/** How a handler ended. */
type HandlerEnd =
  | { readonly kind: 'returned'; readonly result: unknown }
  | { readonly kind: 'threw'; readonly failure: Failure };
/** The attempt was told to stop, and its handler has not ended yet. */
const TOLD_TO_STOP = { kind: 'toldToStop' } as const;
/** The handler has not ended in the time that it had for stopping. */
const GRACE_IS_OVER = { kind: 'graceIsOver' } as const;

/** The running attempt, as its handler's context shows it. */
interface Running {
  readonly began: Instant;
  readonly timeoutMs: number;
  readonly abort: LazyAbort;
  readonly stop: (reason: Error) => void;
}

/** A handler's context. Its fields are the handler's to replace, such as a signal that aborts for one more reason. */
function contextFor(
  { store, worker, clock, log, onProgress, client = clientMissing }: RunContext,
  job: Job,
  { began, timeoutMs, abort, stop }: Running,
): JobContext {
  const keeping = { store, job, worker, log, stop };
  let own: AbortSignal | undefined;
  const shown: Omit<JobContext, 'client'> = {
    id: job.id,
    jobId: job.id,
    type: job.type,
    mode: job.mode,
    attempt: job.attempt,
    fairnessKey: job.fairnessKey,
    resourceId: job.resourceId,
    tags: job.tags,
    traceparent: job.traceparent,
    fencingToken: job.version,
    get signal() {
      return own ?? abort.signal;
    },
    set signal(given) {
      own = given;
    },
    readyAt: new Date(job.readyAtMs),
    startedAt: new Date(job.startedAtMs ?? began.wallMs),
    deadline: new Date(began.wallMs + timeoutMs),
    remainingMs: () => Math.max(0, timeoutMs - sinceMs(clock, began)),
    log: jobLogOf(log, job),
    step: stepsOf(keeping, () => context.signal),
    heartbeat: (progress) => onProgress?.(job, progress),
    checkpoint: checkpointOf(keeping),
    lastCheckpoint: job.checkpoint,
  };
  // A copy of the context does not read it.
  const context = Object.defineProperty(shown, 'client', { get: client }) as JobContext;
  return context;
}

/** The log with the job's fields on each line, which come before a handler's fields of the same names. */
function jobLogOf(log: Log, { id: jobId, type, attempt }: Job): JobLog {
  const write =
    (level: keyof JobLog): Log['info'] =>
    (message, fields) =>
      log[level]?.(message, { ...fields, jobId, type, attempt });
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

/**
 * Runs the handler within its time. An attempt that was told to stop ends for that reason, even if the handler
 * returns afterwards; only if the worker ends does a result that still comes count.
 */
async function runHandler(
  context: RunContext,
  handlers: JobHandlers,
  job: Job,
  { timeoutMs, graceMs }: AttemptTime,
): Promise<Json> {
  const handler = Object.hasOwn(handlers, job.type) ? handlers[job.type] : undefined;
  if (handler === undefined) {
    const known = Object.keys(handlers).join(', ');
    throw new AttemptError(
      'MissingHandler',
      `this worker has no handler for the job type ${JSON.stringify(job.type)}; it has: ${known || 'none'}`,
    );
  }
  const { clock } = context;
  const began = instantOf(clock);
  const deadlines = context.deadlines ?? createDeadlines(clock);
  const { promise: endOrStop, resolve: resolveFirst } = Promise.withResolvers<
    HandlerEnd | typeof TOLD_TO_STOP
  >();
  // Timers are late if the event loop was busy, or the process or its machine was suspended: each look at the signal
  // checks the time.
  const abort = new LazyAbort(() => {
    context.lookAtLease?.();
    if (abort.reason === undefined && sinceMs(clock, began) >= timeoutMs) stopInTime();
  });
  // Resolves the promise as well: a listener on each attempt's signal would cost more than the attempt.
  const stop = (reason: Error): void => {
    abort.abort(reason);
    resolveFirst(TOLD_TO_STOP);
  };
  const stopWithWorker = (): void => {
    const cause: unknown = context.signal?.reason;
    stop(cause instanceof WorkerStoppedError ? cause : new WorkerStoppedError('the worker ends', { cause }));
  };
  context.signal?.addEventListener('abort', stopWithWorker);
  const endWatch = context.watch?.(job, stop);
  const stopInTime = (): void => stop(timeoutError(timeoutMs));
  const onHandled = context.onHandling?.(job, timeoutMs + graceMs);
  const running = (async () =>
    handler(job.payload, contextFor(context, job, { began, timeoutMs, abort, stop })))();
  const over = (ended: HandlerEnd): HandlerEnd => {
    onHandled?.();
    resolveFirst(ended);
    return ended;
  };
  const handled = running.then(
    (result) => over({ kind: 'returned', result }),
    (thrown: unknown) =>
      over({
        kind: 'threw',
        failure: { error: jobErrorOf(thrown), decided: decisionOf(thrown, clock.nowMs()) },
      }),
  );
  const endTimeout = deadlines(timeoutMs, stopInTime);
  let endGrace = endTimeout;
  try {
    const ended = await endOrStop;
    if (ended.kind === 'returned') return storable(ended.result, RESULT);
    if (ended.kind === 'threw') throw new HandlerThrew(ended.failure);
    const grace = new Promise<typeof GRACE_IS_OVER>((resolve) => {
      endGrace = deadlines(graceMs, () => resolve(GRACE_IS_OVER));
    });
    const endOrGrace = await Promise.race([handled, grace]);
    const { reason } = abort;
    if (endOrGrace.kind === 'returned' && reason instanceof WorkerStoppedError)
      return storable(endOrGrace.result, RESULT);
    if (endOrGrace.kind !== 'graceIsOver') throw reason;
  } finally {
    endTimeout();
    endGrace();
    endWatch?.();
    context.signal?.removeEventListener('abort', stopWithWorker);
  }
  throw new AttemptError(
    'HandlerHung',
    `the handler of job ${job.id} (${job.type}) still ran ${Math.round(graceMs)} ms after its signal was aborted; make it stop on its signal`,
    { cause: abort.reason },
  );
}

/** How much of the remaining process lifetime is kept for stopping the handler and storing the outcome. */
const END_RESERVE = { share: 1 / 3, maxMs: 1_000 } as const;
/** The handler's share of the time after the timeout, for it to stop; the rest is for storing the outcome. */
const GRACE_SHARE = 0.7;

/**
 * The type's timeout, shortened to what the process has left. The stack may leave as little as a second between a
 * type's timeout and its function's, so the grace takes what there is.
 */
function timeFor(context: RunContext, typeTimeoutMs: number): AttemptTime {
  const { clock, life } = context;
  if (life === undefined) return { timeoutMs: typeTimeoutMs, graceMs: STOP_GRACE_MS };
  const leftMs = Math.max(0, life.lastsMs - sinceMs(clock, life.since));
  const reserveMs = Math.min(END_RESERVE.maxMs, leftMs * END_RESERVE.share);
  const timeoutMs = Math.min(typeTimeoutMs, leftMs - reserveMs);
  return { timeoutMs, graceMs: Math.min(STOP_GRACE_MS, (leftMs - timeoutMs) * GRACE_SHARE) };
}

/**
 * How long the lease of a function's attempts lasts beyond the function's deadline. Lambda ends the function at its
 * deadline, which alone bounds a handler that ignores its signal; this is the time for that end.
 */
export const FUNCTION_END_MS = 5_000;

const runUntilMs = ({ life }: RunContext): number | undefined =>
  // planted: short-functions
  life === undefined ? undefined : life.since.wallMs + life.lastsMs + FUNCTION_END_MS;

/**
 * An attempt does not begin with less than this share of the time that it could have had: it would only be cut off.
 */
const START_SHARE_MIN = 0.5;

/**
 * Whether the start was answered so late, or the process was suspended for so long, that the process is about to end.
 */
function isTooLate({ life }: RunContext, time: AttemptTime, typeTimeoutMs: number): boolean {
  return life !== undefined && time.timeoutMs < START_SHARE_MIN * Math.min(typeTimeoutMs, life.lastsMs);
}

/** Refuses to begin if the lease has ended since the start was requested, when another worker may have the job. */
function requireWorker({ signal, lookAtLease }: RunContext): void {
  lookAtLease?.();
  if (signal?.aborted)
    throw new AttemptError('NotBegun', 'the worker ended before the handler began', { cause: signal.reason });
}

/**
 * The type as it was declared when the job was claimed. Those terms hold for the attempt, even if other terms were
 * declared since or when this worker started. If that version has no such type, the worker's own configuration decides.
 *
 * @throws the store's errors, if the declaration could not be read
 */
export async function declaredTerms(context: TermsContext, job: MovingJob): Promise<Terms> {
  const known = knownTerms(context, job);
  const declared = job.claim?.declared;
  if (declared === undefined || context.typeUnder === undefined) return known;
  // planted: newest-terms
  return { type: (await context.typeUnder(declared, job.type)) ?? known.type };
}

type TermsContext = Pick<RunContext, 'configuration' | 'typeUnder'>;

interface Terms {
  /** Undefined if no known declaration has the type. */
  readonly type: JobTypeConfiguration | undefined;
}

const knownTerms = ({ configuration }: TermsContext, job: MovingJob): Terms => ({
  type: typesByName(configuration).get(job.type),
});

/** Timeout of a type that the configuration does not have. */
const UNKNOWN_TYPE_TIMEOUT_MS = 15 * 60_000;

/**
 * Runs the job of one message.
 *
 * @throws AttemptError - `HandlerHung`: the handler did not stop; the process must end, and the job's lease must pass
 * @throws the store's errors, if the start or the outcome could not be stored, or the terms that decide about a
 * failure could not be read; the message must be delivered again
 */
export async function runJob(
  context: RunContext,
  handlers: JobHandlers,
  message: DispatchMessage,
): Promise<RunOutcome> {
  const { store, clock, worker, log } = context;
  const started = await store.startJob({
    ...worker,
    ...message,
    nowMs: clock.nowMs(),
    runUntilMs: runUntilMs(context),
  });
  if (started.kind === 'superseded') {
    log.info('message is outdated', { ...message });
    return 'superseded';
  }
  const { job } = started;
  context.onStarted?.(job);
  let terms: Terms | undefined;
  try {
    terms = await declaredTerms(context, job);
  } catch (error) {
    log.warn(
      'the terms of an attempt could not be read; it may use the time that its function or process has left',
      {
        jobId: job.id,
        declared: job.claim?.declared,
        error: String(error),
      },
    );
  }
  const { type } = terms ?? knownTerms(context, job);
  const typeTimeoutMs = type?.timeoutMs ?? UNKNOWN_TYPE_TIMEOUT_MS;
  // No other worker may start the job before its function ends or its process ends the attempt, so the longest time
  // is safe. Other terms might stop the attempt too early.
  const time = timeFor(context, terms === undefined ? UNKNOWN_TYPE_TIMEOUT_MS : typeTimeoutMs);
  let ending: AttemptEnding;
  try {
    if (isTooLate(context, time, typeTimeoutMs)) {
      throw new AttemptError('NotBegun', 'the start was answered too late: the function was about to end');
    }
    if (job.unreadable !== undefined) throw new AttemptError('JobUnreadable', job.unreadable);
    requireWorker(context);
    ending = { kind: 'succeeded', result: await runHandler(context, handlers, job, time) };
  } catch (error) {
    if (isAttemptError(error, 'HandlerHung')) {
      await recordHung(context, job, time, error);
      throw error;
    }
    // Wrong terms might fail a job for good that should be retried.
    terms ??= await declaredTerms(context, job);
    ending = endingOf(context, job, terms.type, error);
    logEnding(log, job, ending);
  }
  const finished = await storeEnding(context, job, ending);
  if (finished.kind === 'superseded') {
    log.warn('attempt was superseded; its outcome does not count', {
      jobId: job.id,
      claimId: message.claimId,
    });
    return 'superseded';
  }
  // An attempt of a cancelled job that would be retried ends the job as cancelled.
  return finished.job.state === 'cancelled' ? 'cancelled' : ending.kind;
}

/** Logs an attempt that did not succeed: as a warning if it is retried, and as an error if it failed for good. */
function logEnding(log: Log, { id: jobId, type, attempt: number }: Job, ending: AttemptEnding): void {
  const fields = { jobId, type, attempt: number };
  if (ending.kind === 'retry')
    log.warn('attempt failed; the job is tried again', {
      ...fields,
      error: ending.error,
      againAt: new Date(ending.runAtMs).toISOString(),
    });
  else if (ending.kind === 'failed')
    log.error('attempt failed for good; the job is a dead letter', { ...fields, error: ending.error });
  else log.info('attempt did not succeed', { ...fields, ending: ending.kind });
}

/** How long the end of a process waits until it is stored that a handler hangs. */
const HUNG_WRITE_MS = 2_000;

/**
 * Records on the job, before the process ends, that its handler did not stop after its timeout: the attempt has
 * failed. If the handler was told to stop for another reason, the attempt counts as lost with its worker.
 */
async function recordHung(
  { store, clock, worker, log }: RunContext,
  job: Job,
  { timeoutMs }: AttemptTime,
  { cause, message }: AttemptError,
): Promise<void> {
  const fields = { jobId: job.id, type: job.type, attempt: job.attempt };
  log.warn('a handler hangs, so its process ends', { ...fields, error: message });
  if (!isAttemptError(cause, 'JobTimeout')) return;
  const answered = new AbortController();
  try {
    const claimId = job.claim?.claimId ?? '';
    // The process must end, even if the store does not answer.
    await Promise.race([
      store.saveHung({ jobId: job.id, claimId, worker, error: hungError(timeoutMs) }),
      clock.sleep(HUNG_WRITE_MS, answered.signal).then(() => {
        if (!answered.signal.aborted) throw new UnavailableError(`no answer within ${HUNG_WRITE_MS} ms`);
      }),
    ]);
  } catch (error) {
    log.warn('a hung handler could not be recorded; its attempt counts as lost with its worker', {
      ...fields,
      error: String(error),
    });
  } finally {
    answered.abort();
  }
}

/** Delay after which a job is tried again that met a worker of another deployment. */
const ROLLOUT_MS = 60_000;
/** Limit of a deployment's rollout: how long after a declaration workers of the version before may still run. */
const ROLLOUT_MAX_MS = 15 * 60_000;
/** How often a job may be given back before its handler began, so that this ends some time. */
const NOT_BEGUN_MAX = ROLLOUT_MAX_MS / ROLLOUT_MS;

/**
 * Whether a missing handler may be due to a rollout: a worker that has the handler may be about to replace this one,
 * or the type may have moved to another fleet, which the next plan of the job takes into account. True if the job was
 * claimed under another declaration than the worker started with, or if that declaration is so young that the
 * worker's code may be older.
 */
function mayBeRollingOut({ clock, declared, declaredAtMs }: RunContext, job: Job): boolean {
  if (declared === undefined) return false;
  // planted: handlers-of-tomorrow
  if ((job.claim?.declared ?? declared) !== declared) return true;
  return declared > 1 && declaredAtMs !== undefined && clock.nowMs() < declaredAtMs + ROLLOUT_MAX_MS;
}

/** How an attempt ended. */
type AttemptEnding =
  | Verdict
  /** The worker ended before the handler did, or could not begin it. */
  | { readonly kind: 'released'; readonly as: 'released' | 'lost'; readonly verdict: Verdict }
  /** Another attempt holds the job: there is nothing to write. */
  | { readonly kind: 'superseded' };

/** How the attempt ended, given the error that ended it. */
function endingOf(
  context: RunContext,
  job: Job,
  type: JobTypeConfiguration | undefined,
  error: unknown,
): AttemptEnding {
  const { clock, random } = context;
  if (isAttemptError(error, 'JobCancelled')) return { kind: 'cancelled' };
  if (isAttemptError(error, 'JobSuperseded')) return { kind: 'superseded' };
  const nowMs = clock.nowMs();
  if (error instanceof WorkerStoppedError) {
    const { isLoss, message } = error;
    return isLoss
      ? { kind: 'released', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) }
      : releasedEnding(message, nowMs, type?.onWorkerLost !== 'resume');
  }
  const mayGiveBack = countReleases(job) < NOT_BEGUN_MAX;
  if (isAttemptError(error, 'NotBegun')) {
    if (mayGiveBack) return releasedEnding(error.message, nowMs, false);
    return { kind: 'released', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) };
  }
  const isMissing = isAttemptError(error, 'MissingHandler') && type !== undefined;
  if (isMissing && mayGiveBack && mayBeRollingOut(context, job))
    return releasedEnding(error.message, nowMs + ROLLOUT_MS, false);
  const { error: failure, decided } =
    error instanceof HandlerThrew
      ? error.failure
      : { error: withoutStack(jobErrorOf(error)), decided: undefined };
  const isFinal = isAttemptError(error, 'MissingHandler', 'JobUnreadable');
  return type === undefined || isFinal
    ? { kind: 'failed', error: failure }
    : afterFailure(job, failure, type.retry, random(), nowMs, decided);
}

const releasedEnding = (message: string, runAtMs: number, isFromStart: boolean): AttemptEnding => ({
  kind: 'released',
  as: 'released',
  verdict: afterRelease(message, runAtMs, isFromStart),
});

/** How often workers have given the job back, as far as its history still shows. */
const countReleases = ({ history }: Job): number =>
  (history?.entries ?? []).filter((entry) => entry.kind === 'attempt' && entry.outcome === 'released').length;

async function storeEnding(context: RunContext, job: Job, ending: AttemptEnding): Promise<FinishOutcome> {
  const { store, clock, worker } = context;
  const nowMs = clock.nowMs();
  const expiresAtMs = nowMs + TERMINAL_TTL_MS;
  switch (ending.kind) {
    case 'superseded':
      return { kind: 'superseded' };
    case 'released':
      return store.loseWorker({ job, verdict: ending.verdict, as: ending.as, nowMs, expiresAtMs });
    default:
      return store.finishJob({ ...worker, job, verdict: ending, nowMs, expiresAtMs });
  }
}
